use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::Object;

use super::mempool::unconfirmed;
use super::projected_block::ProjectedBlockObject;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{self, UInt53, int_of};
use crate::api::streams::sampled::SampleTimer;
use crate::api::types::transaction::Transaction;
use crate::view::{Entry, Remainder, View};

/// How many transactions one event adds at most. What it costs is known before they are.
const CHANGED: usize = 1_000;

/// How one projected block changed since the last event.
pub(crate) struct ProjectedBlockDelta {
    view: Arc<View>,
    index: usize,
    sequence: UInt53,
    block: Option<ProjectedBlockObject>,
    added: Vec<Arc<Entry>>,
    removed: Vec<bitcoin::Txid>,
}

/// The projected block as a reader last received it.
pub(crate) struct ProjectedBlockReader {
    index: usize,
    /// How many events there were.
    sequence: UInt53,
    /// The transactions that the reader has now.
    sent: HashSet<bitcoin::Txid>,
    /// Whether the block had more than that.
    is_behind: bool,
    /// The number of the newest event of the mempool by then.
    looked_at: Option<u64>,
}

impl ProjectedBlockReader {
    /// A reader that received nothing yet.
    pub(crate) fn of(index: u32) -> Result<Self, ApiError> {
        let index = usize::try_from(index).map_err(|_| ApiError::internal("an index larger than memory"))?;
        Ok(Self { index, sequence: UInt53::from(0), sent: HashSet::new(), is_behind: false, looked_at: None })
    }

    /// The next event; none if the block still has the transactions that were sent. What is too much for one event
    /// follows in the next, from the newest state and at once.
    pub(crate) fn look(
        &mut self,
        view: &Arc<View>,
        timer: &mut SampleTimer,
    ) -> Result<Option<ProjectedBlockDelta>, ApiError> {
        let (mempool, is_first) = (view.mempool(), self.looked_at.is_none());
        // the blocks are made of nothing but the transactions that arrived and did not leave
        let is_same = self.looked_at.replace(mempool.sequence()) == Some(mempool.sequence());
        if is_same && !std::mem::take(&mut self.is_behind) {
            return Ok(None);
        }
        let block = mempool.projected_blocks(self.index.saturating_add(1), Remainder::Left).into_iter().nth(self.index);
        let sequences = block.as_ref().map(|block| &*block.sequences).unwrap_or_default();
        let entries: Vec<&Arc<Entry>> = sequences.iter().filter_map(|number| mempool.by_sequence(*number)).collect();

        let had = std::mem::take(&mut self.sent);
        let has: HashSet<_> = entries.iter().map(|entry| entry.txid).collect();
        let mut removed: Vec<_> = had.iter().filter(|txid| !has.contains(*txid)).copied().collect();
        removed.sort_unstable();
        let mut added: Vec<_> = entries.iter().filter(|entry| !had.contains(&entry.txid)).copied().cloned().collect();
        self.is_behind = added.len() > CHANGED;
        if self.is_behind {
            added.truncate(CHANGED);
            timer.soon();
        }
        self.sent = had.into_iter().filter(|txid| has.contains(txid)).collect();
        self.sent.extend(added.iter().map(|entry| entry.txid));
        if !is_first && added.is_empty() && removed.is_empty() {
            return Ok(None);
        }
        self.sequence = UInt53::new(self.sequence.to_u64().saturating_add(1))?;
        let block = block.map(|block| ProjectedBlockObject::new(view, self.index, block));
        let (view, index, sequence) = (view.clone(), self.index, self.sequence);
        Ok(Some(ProjectedBlockDelta { view, index, sequence, block, added, removed }))
    }
}

impl FieldCacheability for ProjectedBlockDelta {
    const NEVER: &'static str = "index sequence projectedBlock added removed";
}

/// The change of a projected block since the previous event. A client that starts with an empty set, removes `removed`
/// and adds `added` of each event has the transactions of the block.
#[Object]
impl ProjectedBlockDelta {
    /// The number of blocks before it. 0 for the next block.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.index)
    }

    /// The sequence number of this event in its stream, from 1.
    async fn sequence(&self) -> UInt53 {
        self.sequence
    }

    /// The block with its figures in the state of this event. Null if there are not enough projected blocks.
    async fn projected_block(&self) -> Option<&ProjectedBlockObject> {
        self.block.as_ref()
    }

    /// The transactions added to the block, in the order in which a miner includes them; at most 1,000, and the next
    /// event follows at once with the rest. The first event and the events right after it add all transactions of the
    /// block.
    #[graphql(complexity = "costs::list(CHANGED, child_complexity)")]
    async fn added(&self) -> Result<Vec<Transaction>, ApiError> {
        self.added.iter().map(|entry| unconfirmed(&self.view, entry)).collect()
    }

    /// The txids of the transactions removed from the block: mined, no longer in the mempool, or moved to another
    /// block. In ascending order by bytes. At most as many as the block had.
    async fn removed(&self) -> Vec<scalars::Txid> {
        self.removed.iter().copied().map(scalars::Txid).collect()
    }
}
