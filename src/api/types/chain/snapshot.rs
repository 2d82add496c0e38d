use std::sync::Arc;

use async_graphql::{Context, Object};

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, DateTime, UInt53, int};
use crate::api::streams::resume::{MempoolReached, SnapshotCursor};
use crate::chain::Height;
use crate::live::Live;
use crate::view::View;

/// The state of the chain that an answer is made from.
pub(crate) struct SnapshotObject(Arc<View>);

impl SnapshotObject {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self(view)
    }
}

fn height(height: Option<Height>) -> Option<Result<i32, ApiError>> {
    height.map(|height| int(height.to_u32()))
}

impl FieldCacheability for SnapshotObject {
    const UNTIL_NEXT_TIP: &'static str = "height hash";
    const UNTIL_NEXT_HEAD: &'static str = "takenAt";
    const NEVER: &'static str = "cursor mempoolSequence nodeHeight nodeHeaderHeight isInSync isMempoolInSync";
}

/// The state of the chain that this answer uses. All parts of one answer are read from one state.
#[Object(name = "Snapshot")]
impl SnapshotObject {
    /// The height of the newest block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.0.tip().height.to_u32())
    }

    /// The hash of the newest block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.0.tip().hash)
    }

    /// The sequence number of the newest mempool event (arrival or departure) in this state, counted since the server
    /// started. Null until the server follows the mempool.
    async fn mempool_sequence(&self) -> Option<Result<UInt53, ApiError>> {
        self.0.follows_mempool().then(|| UInt53::new(self.0.mempool().sequence()))
    }

    /// The cursor of this state. Pass it as `after` of `chainEvents`, `mempoolEvents` or `ledgerEvents`, whatever that watches,
    /// to receive everything that happened since this answer, and nothing twice. The place in the mempool is known to this
    /// run of this server; elsewhere, `mempoolEvents` fails with CURSOR_EXPIRED, and `ledgerEvents` sends GAP.
    async fn cursor(&self, ctx: &Context<'_>) -> Result<String, ApiError> {
        let run =
            ctx.data_opt::<Live>().ok_or_else(|| ApiError::internal("the schema was built without events"))?.run();
        let (sequence, tip_changes) = (self.0.mempool().sequence(), self.0.tip_changes());
        Ok(SnapshotCursor { tip: self.0.tip().hash, reached: MempoolReached { run, sequence, tip_changes } }.encode())
    }

    /// When this state first became available since the server started.
    async fn taken_at(&self) -> DateTime {
        DateTime::from_system(self.0.taken_at())
    }

    /// The height of the Bitcoin node's newest block, as last reported. Null until it is first reported.
    async fn node_height(&self) -> Option<Result<i32, ApiError>> {
        height(self.0.sync_state().node_height)
    }

    /// The height of the Bitcoin node's newest header, as last reported. Null until it is first reported.
    async fn node_header_height(&self) -> Option<Result<i32, ApiError>> {
        height(self.0.sync_state().node_headers)
    }

    /// Whether the tip equals the Bitcoin node's newest block, as last reported. False while the node is unreachable, and
    /// once its last report is older than `sync.silenceSeconds`.
    async fn is_in_sync(&self) -> bool {
        self.0.is_in_sync()
    }

    /// Whether the unconfirmed transactions equal those of the Bitcoin node: the server compared them once and has
    /// followed every change since. False while the node is unreachable, and once its last report of its newest block is
    /// older than `sync.silenceSeconds`.
    async fn is_mempool_in_sync(&self) -> bool {
        self.0.sync_state().mempool_in_sync
    }
}
