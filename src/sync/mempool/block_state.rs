//! Computes the effect of blocks: the first-seen times to store with each block, how it compares with the projected one, and the
//! mempool after it.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::Txid;
use tracing::debug;

use super::clock::now;
use super::mempool_sync::MempoolSync;
use crate::chain::Height;
use crate::index::{IndexError, KnownOutput, ParsedBlock, Snapshot};
use crate::mempool::{BlockAudit, Cause, ConnectedBlock, Entry, Mempool, MempoolSnapshot, PrevoutRef, PrevoutSource};

/// The state before blocks connect.
pub(in crate::sync) struct PreBlockState<'s> {
    snapshot: MempoolSnapshot,
    mempool: Mempool,
    /// First-seen times of transactions that are not in the mempool.
    pending: HashMap<Txid, u64>,
    /// The chain with the disconnected blocks, if there are any.
    before: Option<&'s Snapshot>,
}

/// The state after blocks.
pub(in crate::sync) struct PostBlockState {
    /// The mempool after them.
    pub(in crate::sync) mempool: Mempool,
    /// First-seen times for each block: the index of a transaction in the block, and seconds since 1970.
    pub(in crate::sync) first_seen: Vec<Vec<(u32, u64)>>,
    /// How the block compares with the projected one, if it is the only one and extends the chain of the mempool.
    pub(in crate::sync) audit: Option<BlockAudit>,
}

impl MempoolSync<'_> {
    /// The current state. `before` is the chain with the disconnected blocks, if there are any.
    pub(in crate::sync) fn pre_block_state<'s>(&mut self, before: Option<&'s Snapshot>) -> PreBlockState<'s> {
        let mut pending = self.freed.clone();
        let requests = self.to_fetch.iter().filter(|(_, request)| request.cause == Cause::New);
        let first_seen = requests.map(|(txid, request)| (*txid, request.first_seen)).chain(self.orphans.first_seen());
        for (txid, first_seen) in first_seen {
            pending.entry(txid).and_modify(|first| *first = first_seen.min(*first)).or_insert(first_seen);
        }
        PreBlockState { snapshot: self.mempool.snapshot(), mempool: self.mempool.clone(), pending, before }
    }

    /// Keeps the first-seen times of transactions of disconnected blocks until their outcome is known.
    pub(in crate::sync) fn set_freed_first_seen(&mut self, first_seen: &[(Txid, u64)]) {
        self.freed.clear();
        self.freed.extend(first_seen.iter().copied());
    }
}

impl PreBlockState<'_> {
    /// The outputs that a transaction of the mempool spends, in the order of its inputs; empty if it is not there.
    pub(in crate::sync) fn known_outputs(&self, txid: &Txid) -> Vec<KnownOutput<'_>> {
        let prevouts = self.snapshot.get(txid).into_iter().flat_map(|entry| &entry.prevouts);
        let known = prevouts.map(|PrevoutRef { value, script_pubkey, source }| {
            let is_coinbase = matches!(source, PrevoutSource::Confirmed { coinbase: true, .. });
            KnownOutput { value, script_pubkey, is_coinbase }
        });
        known.collect()
    }

    /// Computes the state after blocks that connect from height `first` on. `earlier` is the mempool after the blocks
    /// below, if any. This state does not change, as the chain may not get that far.
    pub(in crate::sync) fn post_block_state(
        &self,
        blocks: &[ParsedBlock],
        first: Height,
        earlier: Option<Mempool>,
    ) -> Result<PostBlockState, IndexError> {
        let is_first = earlier.is_none();
        let mut mempool = earlier.unwrap_or_else(|| self.mempool.clone());
        let (at, mut height, mut first_seen) = (now(), first, Vec::new());
        let audited = if is_first && self.before.is_none() { <&[_; 1]>::try_from(blocks).ok() } else { None };
        let audit = audited.map(|[block]| self.snapshot.audit(&block.txids().collect::<Vec<_>>(), at));
        for block in blocks {
            let mined = if mempool.awaits_blocks() {
                let (txids, spends): (Vec<_>, Vec<_>) = (block.txids().collect(), block.spends().collect());
                let connected = ConnectedBlock { hash: block.hash(), height, txids: &txids, spends: &spends, at };
                let effect = mempool.connect_block(&connected);
                let (mined, conflicted) = (effect.mined.len(), effect.conflicted.len());
                debug!(height = height.to_u32(), mined, conflicted, "a block changed the mempool");
                effect.mined
            } else {
                Vec::new()
            };
            first_seen.push(self.first_seen(block, &mined)?);
            height = height.next();
        }
        // computes the order of the clusters here instead of in a query
        mempool.snapshot();
        Ok(PostBlockState { mempool, first_seen, audit })
    }

    /// The transactions of a block that were seen before it: index in the block, and seconds since 1970.
    /// `mined` are those that were in the mempool when the block was connected, in block order; they need no lookup.
    fn first_seen(&self, block: &ParsedBlock, mined: &[Arc<Entry>]) -> Result<Vec<(u32, u64)>, IndexError> {
        let (mut seen, mut mined) = (Vec::new(), mined.iter().peekable());
        for (index, txid) in (0..).zip(block.txids()) {
            let in_mempool = mined.next_if(|entry| entry.txid == txid).or_else(|| self.snapshot.get(&txid));
            let unconfirmed = in_mempool.map(|entry| entry.first_seen);
            let departed = || self.snapshot.departed(&txid).map(|departed| departed.first_seen);
            let known = unconfirmed.or_else(departed);
            let confirmed = if known.is_none() { first_seen_in(self.before, &txid)? } else { None };
            let first = known.into_iter().chain(confirmed).chain(self.pending.get(&txid).copied()).min();
            seen.extend(first.map(|seconds| (index, seconds)));
        }
        Ok(seen)
    }
}

/// The first-seen time of a transaction of a chain.
pub(super) fn first_seen_in(chain: Option<&Snapshot>, txid: &Txid) -> Result<Option<u64>, IndexError> {
    let Some(chain) = chain else { return Ok(None) };
    let Some(newest) = chain.positions(txid)?.last().copied() else { return Ok(None) };
    chain.first_seen_at(newest)
}
