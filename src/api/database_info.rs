use async_graphql::{Object, SimpleObject};

use super::error::ApiError;
use super::request::Pinned;
use super::scalars::{UInt53, int};
use crate::view::FORMAT_VERSION;

/// The index of a server.
pub(super) struct DatabaseInfo(Pinned);

impl DatabaseInfo {
    pub(super) fn new(pinned: Pinned) -> Self {
        Self(pinned)
    }

    fn table_rows(&self) -> Result<Vec<TableInfo>, ApiError> {
        let tables = self.0.view()?.tables()?;
        tables.into_iter().map(|table| Ok(TableInfo { name: table.name, rows: UInt53::new(table.rows)? })).collect()
    }
}

/// The index that a server keeps: one file, of several tables.
#[Object]
impl DatabaseInfo {
    /// The version of the file's format. A server reads no other.
    async fn format_version(&self) -> Result<i32, ApiError> {
        int(FORMAT_VERSION)
    }

    /// Bytes of the file at this moment, free pages included. Null while the index is not ready, and where the file
    /// system does not tell.
    async fn file_bytes(&self) -> Option<Result<UInt53, ApiError>> {
        self.0.view.as_ref()?.file_bytes().map(UInt53::new)
    }

    /// The tables that grow with the chain, and how many rows each has. NOT_READY while the index is not ready.
    async fn tables(&self) -> Option<Result<Vec<TableInfo>, ApiError>> {
        Some(self.table_rows())
    }
}

/// A table of the index.
#[derive(SimpleObject)]
pub(super) struct TableInfo {
    /// Its name, as in the description of the file's format.
    name: String,
    /// How many rows it has.
    rows: UInt53,
}
