//! How many connections, websockets and streams each client may have open, and all together; and the address of a client.

pub(crate) mod client_ip;
pub(crate) mod slots;
