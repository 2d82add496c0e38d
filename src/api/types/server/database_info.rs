use std::sync::Arc;

use async_graphql::{Context, Object};

use crate::api::context::{Pinned, ServingContext};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{UInt53, int};
use crate::view::{FORMAT_VERSION, TableRows, View};

/// The most rows of different sizes that are read to measure a table.
const MOST_MEASURED_ROWS: u64 = 2_000_000;

/// The index of a server.
pub(crate) struct DatabaseInfo {
    pinned: Pinned,
    serving: Arc<ServingContext>,
}

impl DatabaseInfo {
    pub(crate) fn new(pinned: Pinned, serving: &Arc<ServingContext>) -> Self {
        Self { pinned, serving: serving.clone() }
    }

    fn table_rows(&self) -> Result<Vec<TableInfo>, ApiError> {
        let view = self.pinned.view()?;
        let info = |table| TableInfo { view: view.clone(), serving: self.serving.clone(), table };
        Ok(view.tables()?.into_iter().map(info).collect())
    }
}

impl FieldCacheability for DatabaseInfo {
    const NEVER: &'static str = "formatVersion fileBytes tables";
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
        self.pinned.view.as_ref()?.file_bytes().map(UInt53::new)
    }

    /// The tables that grow with the chain, with their sizes. Fails with NOT_READY while the index is not ready. Fewer than
    /// fifty.
    #[graphql(complexity = "costs::list(costs::TABLES, child_complexity)")]
    async fn tables(&self) -> Option<Result<Vec<TableInfo>, ApiError>> {
        Some(self.table_rows())
    }
}

/// A table of the index, and the state that it is of.
pub(crate) struct TableInfo {
    view: Arc<View>,
    serving: Arc<ServingContext>,
    table: TableRows,
}

impl TableInfo {
    async fn bytes(&self, ctx: &Context<'_>) -> Result<Option<u64>, ApiError> {
        if self.table.bytes.is_some() || self.table.rows > MOST_MEASURED_ROWS {
            return Ok(self.table.bytes);
        }
        costs::spend(ctx, costs::MEASURED_TABLE)?;
        self.serving.table_sizes.measure(&self.view, &self.table.name).await
    }
}

impl FieldCacheability for TableInfo {
    const NEVER: &'static str = "name rowCount totalBytes";
}

/// A table of the index.
#[Object]
impl TableInfo {
    /// The name of the table, as in the description of the file format. Tables of frozen blocks begin with `frozen.`.
    async fn name(&self) -> &str {
        &self.table.name
    }

    /// The number of rows.
    async fn row_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.table.rows)
    }

    /// The total size of the keys and values in bytes, without what the file needs to find them. Rows of different sizes are
    /// measured once for each tip, so that the size of a table of the mempool may be some seconds old. Null for more than
    /// 2,000,000 of such rows: all of them would have to be read.
    #[graphql(complexity = "costs::more(costs::MEASURED_TABLE, 0)")]
    async fn total_bytes(&self, ctx: &Context<'_>) -> Option<Result<UInt53, ApiError>> {
        self.bytes(ctx).await.transpose().map(|bytes| bytes.and_then(UInt53::new))
    }
}
