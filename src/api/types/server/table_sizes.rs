//! The bytes of tables whose rows are of different sizes: known by reading the table, so each is read once for each tip.

use std::sync::Arc;

use bitcoin::BlockHash;

use crate::api::blocking::{BlockingPool, SingleFlight};
use crate::api::error::ApiError;
use crate::view::View;

/// Results that are kept: those of all such tables at two tips.
const KEPT: usize = 16;

/// What was measured last.
pub(crate) struct TableSizes {
    flights: SingleFlight<(BlockHash, String), Option<u64>>,
    pool: BlockingPool,
}

impl Default for TableSizes {
    fn default() -> Self {
        Self { flights: SingleFlight::with_capacity(KEPT), pool: BlockingPool::default() }
    }
}

impl TableSizes {
    /// The bytes of the keys and values of a table; `None` for a table whose rows are all of one size.
    ///
    /// Errors: those of the index.
    pub(crate) async fn measure(&self, view: &Arc<View>, table: &str) -> Result<Option<u64>, ApiError> {
        let measure = || {
            let (view, table) = (Arc::clone(view), table.to_owned());
            self.pool.run(move || Ok(view.table_bytes(&table)?))
        };
        Ok(*self.flights.get((view.tip().hash, table.to_owned()), measure).await?)
    }
}
