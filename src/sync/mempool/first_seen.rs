//! What is known of transactions when a block comes: when they were first seen, to be kept with the block, and what the
//! block leaves of the mempool.

use std::collections::HashMap;

use bitcoin::Txid;
use tracing::debug;

use super::{Unconfirmed, now};
use crate::chain::Height;
use crate::index::{IndexError, ParsedBlock, Snapshot};
use crate::mempool::{Cause, ConnectedBlock, Mempool, MempoolSnapshot};

/// What was seen before blocks joined.
pub(in crate::sync) struct PreBlockState<'s> {
    snapshot: MempoolSnapshot,
    mempool: Mempool,
    /// Those that are not in the mempool yet, or not any more, and when they were first heard of.
    pending: HashMap<Txid, u64>,
    /// The chain with the blocks that left, if some did.
    before: Option<&'s Snapshot>,
}

/// What blocks that join make of what was seen.
pub(in crate::sync) struct PostBlockState {
    /// The mempool behind them.
    pub(in crate::sync) mempool: Mempool,
    /// When their transactions were first seen: for each block the index in it of those that were, and seconds since 1970.
    pub(in crate::sync) first_seen: Vec<Vec<(u32, u64)>>,
}

impl Unconfirmed<'_> {
    /// What was seen until now. `before` is the chain with the blocks that left, if some did.
    pub(in crate::sync) fn before_blocks<'s>(&mut self, before: Option<&'s Snapshot>) -> PreBlockState<'s> {
        let mut pending = self.freed.clone();
        let wanted = self.to_fetch.iter().filter(|(_, wanted)| wanted.cause == Cause::New);
        let heard = wanted.map(|(txid, wanted)| (*txid, wanted.first_seen)).chain(self.orphans.first_seen());
        for (txid, heard) in heard {
            pending.entry(txid).and_modify(|first| *first = heard.min(*first)).or_insert(heard);
        }
        PreBlockState { snapshot: self.mempool.snapshot(), mempool: self.mempool.clone(), pending, before }
    }

    /// Remembers when transactions of blocks that left were first seen, until it is known what became of them.
    pub(in crate::sync) fn set_freed_first_seen(&mut self, first_seen: &[(Txid, u64)]) {
        self.freed.clear();
        self.freed.extend(first_seen.iter().copied());
    }
}

impl PreBlockState<'_> {
    /// What blocks make of it, the first of which joins at this height behind others that left the mempool as `earlier`, if
    /// there are such. Nothing is changed by that: the chain itself may not come that far.
    pub(in crate::sync) fn after_blocks(
        &self,
        blocks: &[ParsedBlock],
        first: Height,
        earlier: Option<Mempool>,
    ) -> Result<PostBlockState, IndexError> {
        let mut mempool = earlier.unwrap_or_else(|| self.mempool.clone());
        let (at, mut height, mut first_seen) = (now(), first, Vec::new());
        for block in blocks {
            first_seen.push(self.first_seen(block)?);
            if mempool.awaits_blocks() {
                let (txids, spends): (Vec<_>, Vec<_>) = (block.txids().collect(), block.spends().collect());
                let connected = ConnectedBlock { hash: block.hash(), height, txids: &txids, spends: &spends, at };
                let effect = mempool.connect_block(&connected);
                let (mined, conflicted) = (effect.mined.len(), effect.conflicted.len());
                debug!(height = height.to_u32(), mined, conflicted, "a block took from the mempool");
            }
            height = height.next();
        }
        // what readers will ask of it is put in order now
        mempool.snapshot();
        Ok(PostBlockState { mempool, first_seen })
    }

    /// The transactions of a block that were seen before it: index in the block, and seconds since 1970.
    fn first_seen(&self, block: &ParsedBlock) -> Result<Vec<(u32, u64)>, IndexError> {
        let mut seen = Vec::new();
        for (index, txid) in (0..).zip(block.txids()) {
            let unconfirmed = self.snapshot.get(&txid).map(|entry| entry.first_seen);
            let departed = || self.snapshot.departed(&txid).map(|departed| departed.first_seen);
            let here = unconfirmed.or_else(departed);
            let confirmed = if here.is_none() { first_seen_in(self.before, &txid)? } else { None };
            let first = here.into_iter().chain(confirmed).chain(self.pending.get(&txid).copied()).min();
            seen.extend(first.map(|seconds| (index, seconds)));
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
