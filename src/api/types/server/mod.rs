//! This server: its version, limits and database.

mod database_info;
mod server_info;
mod server_limits;
mod table_sizes;

pub(crate) use server_info::ServerInfo;
pub(crate) use table_sizes::TableSizes;
