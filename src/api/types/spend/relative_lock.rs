use async_graphql::Object;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, UInt53, int};
use crate::view::{LockEnd, LockKind, RelativeLock};

/// The relative lock time of an input.
pub(crate) struct RelativeLockObject(pub(crate) RelativeLock);

impl FieldCacheability for RelativeLockObject {
    const IMMUTABLE: &'static str = "blockCount seconds spendableAtHeight spendableAt";
    const UNTIL_NEXT_TIP: &'static str = "isSatisfiedAtNextBlock";
}

/// The relative lock time of an input: how long after the confirmation of the output a block may contain the spend (BIP68).
/// Consensus enforces it since block 419,328 of mainnet, which enabled BIP68.
#[Object(name = "RelativeLock")]
impl RelativeLockObject {
    /// The number of blocks, 0 to 65,535: the spend may be in the block that is this much higher than the output's, or later.
    /// Null if the lock is a time.
    async fn block_count(&self) -> Option<Result<i32, ApiError>> {
        match self.0.lock {
            LockKind::Blocks(blocks) => Some(int(blocks)),
            LockKind::Seconds(_) => None,
        }
    }

    /// The time in seconds, a multiple of 512, from the median time past of the block before the output's block. Null if the
    /// lock is a number of blocks.
    async fn seconds(&self) -> Option<UInt53> {
        match self.0.lock {
            LockKind::Blocks(_) => None,
            LockKind::Seconds(seconds) => Some(seconds.into()),
        }
    }

    /// The lowest height of a block that may contain the spend. Null if the lock is a time, and while no main chain block
    /// contains the output.
    async fn spendable_at_height(&self) -> Option<Result<i32, ApiError>> {
        match self.0.end? {
            LockEnd::Height(height) => Some(int(height.to_u32())),
            LockEnd::MedianTime(_) => None,
        }
    }

    /// The lowest median time past of a block after which a block may contain the spend (BIP113). Null if the lock is a number
    /// of blocks, and while no main chain block contains the output.
    async fn spendable_at(&self) -> Option<DateTime> {
        match self.0.end? {
            LockEnd::Height(_) => None,
            LockEnd::MedianTime(time) => Some(DateTime::from_unix(time)),
        }
    }

    /// Whether the lock allows the spend in the next block. Null if the output is not known.
    async fn is_satisfied_at_next_block(&self) -> Option<bool> {
        self.0.is_satisfied
    }
}
