//! How much clients may use, one at a time and all together: requests and costs a minute, bytes, open connections.

pub(crate) mod client_ip;
pub(crate) mod gcra;
pub(crate) mod memory;
pub(crate) mod slots;
