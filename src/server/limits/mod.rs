//! How many connections clients may have open, one at a time and all together; and which address a client has.

pub(crate) mod client_ip;
pub(crate) mod slots;
