use async_graphql::{Object, SimpleObject};

use crate::api::context::Pinned;
use crate::api::error::ApiError;
use crate::api::scalars::{UInt53, int};
use crate::view::FORMAT_VERSION;

/// The index of a server.
pub(crate) struct DatabaseInfo(Pinned);

impl DatabaseInfo {
    pub(crate) fn new(pinned: Pinned) -> Self {
        Self(pinned)
    }

    fn table_rows(&self) -> Result<Vec<TableInfo>, ApiError> {
        let tables = self.0.view()?.tables()?;
        tables
            .into_iter()
            .map(|table| Ok(TableInfo { name: table.name, row_count: UInt53::new(table.rows)? }))
            .collect()
    }
}

/// The index that the server stores: a file with the newest blocks, and files with frozen ones.
#[Object]
impl DatabaseInfo {
    /// The format version of the file with the newest blocks. A server reads only its own version.
    async fn format_version(&self) -> Result<i32, ApiError> {
        int(FORMAT_VERSION)
    }

    /// The current size of all files together in bytes, including free pages. Null while the index is not ready, and if the
    /// file system does not report it.
    async fn file_bytes(&self) -> Option<Result<UInt53, ApiError>> {
        self.0.view.as_ref()?.file_bytes().map(UInt53::new)
    }

    /// The tables that grow with the chain, with their row counts. Fails with NOT_READY while the index is not ready.
    async fn tables(&self) -> Option<Result<Vec<TableInfo>, ApiError>> {
        Some(self.table_rows())
    }
}

/// A table of the index.
#[derive(SimpleObject)]
pub(crate) struct TableInfo {
    /// The name of the table, as in the description of the file format.
    name: String,
    /// The number of rows.
    row_count: UInt53,
}
