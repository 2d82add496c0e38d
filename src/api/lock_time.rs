use std::sync::Arc;

use async_graphql::Object;
use bitcoin::absolute;

use super::error::ApiError;
use super::scalars::{DateTime, UInt53, int};
use crate::view::{self, View};

/// The lock time of a transaction.
pub(super) struct LockTime {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
}

impl LockTime {
    pub(super) fn new(view: &Arc<View>, transaction: &Arc<view::Transaction>) -> Self {
        Self { view: view.clone(), transaction: transaction.clone() }
    }

    fn lock(&self) -> absolute::LockTime {
        self.transaction.parts.lock_time
    }
}

/// From when on a block may hold a transaction. It counts only if an input has a sequence number below 4294967295.
#[Object]
impl LockTime {
    /// The field as it stands in the transaction; 0 is no lock at all.
    async fn raw(&self) -> UInt53 {
        self.lock().to_consensus_u32().into()
    }

    /// The last height at which no block may hold it yet; null if the lock is a time.
    async fn height(&self) -> Option<Result<i32, ApiError>> {
        match self.lock() {
            absolute::LockTime::Blocks(height) => Some(int(height.to_consensus_u32())),
            absolute::LockTime::Seconds(_) => None,
        }
    }

    /// The last moment, in median time past of the block in front, at which no block may hold it yet (BIP113); null if
    /// the lock is a height.
    async fn time(&self) -> Option<DateTime> {
        match self.lock() {
            absolute::LockTime::Blocks(_) => None,
            absolute::LockTime::Seconds(time) => Some(DateTime::from_unix(time.to_consensus_u32())),
        }
    }

    /// Whether the lock lets the next block hold it.
    async fn is_final_at_next_block(&self) -> Result<bool, ApiError> {
        Ok(self.view.is_final_at_next_block(&self.transaction)?)
    }
}
