//! This server: its version, limits and database.

mod database_info;
mod server_info;
mod server_limits;

pub(crate) use server_info::ServerInfo;
