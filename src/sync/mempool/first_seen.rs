//! When the transactions of a block were first seen, to be kept with the block.

use bitcoin::Txid;

use super::Unconfirmed;
use crate::index::{Block, IndexError, Snapshot};
use crate::mempool::MempoolSnapshot;

/// What was seen before blocks joined.
pub(in crate::sync) struct Seen<'s> {
    mempool: MempoolSnapshot,
    /// The chain with the blocks that left, if some did.
    before: Option<&'s Snapshot>,
}

impl Unconfirmed<'_> {
    /// What was seen until now. `before` is the chain with the blocks that left, if some did.
    pub(in crate::sync) fn seen<'s>(&mut self, before: Option<&'s Snapshot>) -> Seen<'s> {
        Seen { mempool: self.mempool.snapshot(), before }
    }
}

impl Seen<'_> {
    /// The transactions of a block that were seen before it: index in the block, and seconds since 1970.
    pub(in crate::sync) fn of(&self, block: &Block) -> Result<Vec<(u32, u64)>, IndexError> {
        let mut seen = Vec::new();
        for (index, txid) in (0..).zip(block.txids()) {
            let waited = self.mempool.get(&txid).map(|entry| entry.first_seen);
            let known = waited.or_else(|| self.mempool.departed(&txid).map(|departed| departed.first_seen));
            let known = match known {
                None => first_seen_in(self.before, &txid)?,
                known => known,
            };
            seen.extend(known.map(|seconds| (index, seconds)));
        }
        Ok(seen)
    }
}

/// When a transaction of a chain was first seen.
pub(super) fn first_seen_in(chain: Option<&Snapshot>, txid: &Txid) -> Result<Option<u64>, IndexError> {
    let Some(chain) = chain else { return Ok(None) };
    let Some(newest) = chain.positions(txid)?.last().copied() else { return Ok(None) };
    chain.first_seen_at(newest)
}
