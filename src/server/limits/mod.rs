//! How much one client and all clients together may use.

pub(crate) mod budget;
pub(crate) mod client_ip;
pub(crate) mod memory;
pub(crate) mod slots;
