use std::sync::Arc;

use async_graphql::Object;

use super::error::ApiError;
use super::scalars::{BlockHash, DateTime, UInt53, int};
use crate::chain::Height;
use crate::view::View;

/// The state of the chain that an answer is made from.
pub(super) struct Snapshot(Arc<View>);

impl Snapshot {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self(view)
    }
}

fn height(height: Option<Height>) -> Option<Result<i32, ApiError>> {
    height.map(|height| int(height.to_u32()))
}

/// The state of the chain that this answer is made from: everything in one answer is from one state.
#[Object]
impl Snapshot {
    /// The height of the newest block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.0.tip().height.to_u32())
    }

    /// The hash of the newest block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.0.tip().hash)
    }

    /// The number of the newest event of the mempool in this state, counted since the server was started: an arrival or a
    /// departure. Null until the mempool is followed.
    async fn mempool_sequence(&self) -> Option<Result<UInt53, ApiError>> {
        self.0.follows_mempool().then(|| UInt53::new(self.0.mempool().sequence()))
    }

    /// When this state could be asked for the first time since the server was started.
    async fn taken_at(&self) -> DateTime {
        DateTime::from_system(self.0.taken_at())
    }

    /// The height of the newest block of the Bitcoin node, as it last said; null until it was asked.
    async fn node_height(&self) -> Option<Result<i32, ApiError>> {
        height(self.0.sync_state().node_height)
    }

    /// The height of the newest header of the Bitcoin node, as it last said; null until it was asked.
    async fn node_headers(&self) -> Option<Result<i32, ApiError>> {
        height(self.0.sync_state().node_headers)
    }

    /// Whether the newest block was the Bitcoin node's newest, too, when the node was last asked. False while the node
    /// is away.
    async fn in_sync(&self) -> bool {
        self.0.is_in_sync()
    }

    /// Whether the unconfirmed transactions are those of the Bitcoin node: they were compared once, and all that came and
    /// went since was followed. False while the node is away.
    async fn mempool_in_sync(&self) -> bool {
        self.0.sync_state().mempool_in_sync
    }
}
