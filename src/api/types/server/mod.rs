//! This server: its version, limits and database.

mod database_info;
mod server_info;
mod server_limits;
mod table_sizes;

pub(crate) use database_info::{DatabaseInfo, TableInfo};
pub(crate) use server_info::{FeatureInfo, ServerInfo};
pub(crate) use table_sizes::TableSizes;
