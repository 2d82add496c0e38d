use std::sync::Arc;

use async_graphql::Object;
use bitcoin::absolute;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, UInt53, int};
use crate::view::{self, View};

/// The lock time of a transaction.
pub(crate) struct LockTime {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
}

impl LockTime {
    pub(crate) fn new(view: &Arc<View>, transaction: &Arc<view::Transaction>) -> Self {
        Self { view: view.clone(), transaction: transaction.clone() }
    }

    fn lock(&self) -> absolute::LockTime {
        self.transaction.parts.lock_time
    }
}

impl FieldCacheability for LockTime {
    const IMMUTABLE: &'static str = "raw height time";
    const UNTIL_NEXT_TIP: &'static str = "isFinalAtNextBlock";
}

/// The lock time of a transaction: the earliest block that may contain it. It applies only if an input has a sequence
/// number below 4294967295.
#[Object]
impl LockTime {
    /// The raw field. 0 means no lock.
    async fn raw(&self) -> UInt53 {
        self.lock().to_consensus_u32().into()
    }

    /// The last height at which a block may not contain the transaction yet. Null if the lock is a time.
    async fn height(&self) -> Option<Result<i32, ApiError>> {
        match self.lock() {
            absolute::LockTime::Blocks(height) => Some(int(height.to_consensus_u32())),
            absolute::LockTime::Seconds(_) => None,
        }
    }

    /// The last median time past of the previous block at which a block may not contain the transaction yet (BIP113).
    /// Null if the lock is a height.
    async fn time(&self) -> Option<DateTime> {
        match self.lock() {
            absolute::LockTime::Blocks(_) => None,
            absolute::LockTime::Seconds(time) => Some(DateTime::from_unix(time.to_consensus_u32())),
        }
    }

    /// Whether the lock time allows the next block to contain the transaction.
    async fn is_final_at_next_block(&self) -> Result<bool, ApiError> {
        Ok(self.view.is_final_at_next_block(&self.transaction)?)
    }
}
