use async_graphql::{Object, SimpleObject};

use crate::api::context::Pinned;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, UInt53, int};
use crate::api::types::enums::SyncPhaseEnum;
use crate::chain::Height;
use crate::view::{self, SyncState, Tip};

/// How far the index has come.
pub(crate) struct SyncProgress(Pinned);

impl SyncProgress {
    pub(crate) fn new(pinned: Pinned) -> Self {
        Self(pinned)
    }

    /// The facts that it reports, to see whether one of them changed.
    pub(crate) fn facts(&self) -> (Option<Tip>, SyncState) {
        (self.0.view.as_ref().map(|view| view.tip()), self.0.state)
    }

    fn indexed(&self) -> Option<Height> {
        self.0.view.as_ref().map(|view| view.tip().height)
    }
}

/// A block that was announced, and that a crash took out of the index.
pub(crate) struct LostBlock(Tip);

impl FieldCacheability for LostBlock {
    const NEVER: &'static str = "height hash";
}

/// A block that the server announced, and that a crash took out of its index: the block may exist, and the index does not
/// have it.
#[Object]
impl LostBlock {
    /// The height of the block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.0.height.to_u32())
    }

    /// The hash of the block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.0.hash)
    }
}

/// The share of the blocks up to `target` that is indexed. After a reorganisation the index may be higher for a moment.
fn share(indexed: Option<Height>, target: Height) -> f64 {
    let blocks = |height: Height| f64::from(height.to_u32()) + 1.0;
    (indexed.map_or(0.0, blocks) / blocks(target)).min(1.0)
}

impl FieldCacheability for SyncProgress {
    const NEVER: &'static str = "phase indexedHeight targetHeight progress blocksPerSecond etaSeconds isReady \
        diskShortage lostBlock silenceSeconds";
}

/// The progress of the index towards the Bitcoin node's newest block. Available even before any block is indexed, and
/// while the node is unreachable.
#[Object]
impl SyncProgress {
    /// The phase of following the node.
    async fn phase(&self) -> SyncPhaseEnum {
        self.0.state.phase.into()
    }

    /// The height of the tip that queries are answered from. Null while the index is not ready.
    async fn indexed_height(&self) -> Option<Result<i32, ApiError>> {
        self.indexed().map(|height| int(height.to_u32()))
    }

    /// The height of the node's newest block, as last reported. Null until it is first reported. It grows while the
    /// node itself is syncing.
    async fn target_height(&self) -> Option<Result<i32, ApiError>> {
        self.0.state.node_height.map(|height| int(height.to_u32()))
    }

    /// The share of the node's blocks that are indexed, 0 to 1. Null until the node reports its height. Newer blocks
    /// are larger, so the second half takes longer than the first.
    async fn progress(&self) -> Option<f64> {
        self.0.state.node_height.map(|target| share(self.indexed(), target))
    }

    /// The speed of indexing, in blocks per second. Null unless the phase is CATCHING_UP.
    async fn blocks_per_second(&self) -> Option<f64> {
        self.0.state.speed.map(|speed| speed.blocks_per_second)
    }

    /// The estimated time until the index has caught up, in seconds, at the current speed. Null unless the phase is
    /// CATCHING_UP.
    async fn eta_seconds(&self) -> Option<Result<UInt53, ApiError>> {
        self.0.state.speed.map(|speed| UInt53::new(speed.remaining.as_secs()))
    }

    /// Whether queries are answered from the node's newest block, as in `snapshot.isInSync`. False while the node is
    /// unreachable, and once its last report is older than `sync.silenceSeconds`.
    async fn is_ready(&self) -> bool {
        self.0.view.as_ref().is_some_and(|view| view.is_in_sync())
    }

    /// The shortage of disk space for the index, while it keeps the server from following the node; null at all other times.
    async fn disk_shortage(&self) -> Option<Result<DiskShortageObject, ApiError>> {
        self.0.state.disk_shortage.map(DiskShortageObject::new)
    }

    /// The highest block that this server announced before a crash took it out of its index. Null if there is none, and
    /// once the index reaches its height. The server first waits for the block from the node and answers nothing of the
    /// chain; after its setting `sync.lost_block_seconds` it answers without the block, and what it announced of that block
    /// is no longer true.
    async fn lost_block(&self) -> Option<LostBlock> {
        self.0.state.lost_block().map(LostBlock)
    }

    /// The number of seconds for which the node's last report of its newest block counts as current. After that, and until
    /// the next report, nothing is in sync: not `isReady`, `snapshot.isInSync` and `snapshot.isMempoolInSync`, nor `/health/ready`.
    async fn silence_seconds(&self) -> f64 {
        self.0.longest_silence.as_secs_f64()
    }
}

/// Less free disk space than the index needs before its next change.
#[derive(SimpleObject)]
#[graphql(name = "DiskShortage")]
pub(crate) struct DiskShortageObject {
    /// Bytes that must be free on the disk of the index.
    needed_bytes: UInt53,
    /// Bytes that are free there.
    free_bytes: UInt53,
}

impl FieldCacheability for DiskShortageObject {
    const NEVER: &'static str = "neededBytes freeBytes";
}

impl DiskShortageObject {
    fn new(shortage: view::DiskShortage) -> Result<Self, ApiError> {
        let view::DiskShortage { needed_bytes, free_bytes, .. } = shortage;
        Ok(Self { needed_bytes: UInt53::new(needed_bytes)?, free_bytes: UInt53::new(free_bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_counts_blocks_from_the_genesis_block_on() {
        for (indexed, target, expected) in [
            (None, 0, 0.0),
            (None, 9, 0.0),
            (Some(0), 0, 1.0),
            (Some(4), 9, 0.5),
            (Some(9), 9, 1.0),
            (Some(10), 9, 1.0),
        ] {
            let share = share(indexed.map(Height::from), Height::from(target));
            assert!((share - expected).abs() < 1e-12, "{indexed:?} of {target}: {share}");
        }
    }
}
