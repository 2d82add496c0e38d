//! What is known of transactions when a block comes: when they were first seen, to be kept with the block, and which of
//! the block's the mempool has to do with.

use std::collections::HashMap;

use bitcoin::Txid;

use super::Unconfirmed;
use super::chain_change::Joined;
use crate::chain::Height;
use crate::index::{Block, IndexError, Snapshot};
use crate::mempool::{Cause, MempoolSnapshot};

/// What was seen before blocks joined.
pub(in crate::sync) struct Seen<'s> {
    mempool: MempoolSnapshot,
    /// Those that are not in the mempool yet, or not any more, and when they were first heard of.
    elsewhere: HashMap<Txid, u64>,
    /// The chain with the blocks that left, if some did.
    before: Option<&'s Snapshot>,
}

impl Unconfirmed<'_> {
    /// What was seen until now. `before` is the chain with the blocks that left, if some did.
    pub(in crate::sync) fn seen<'s>(&mut self, before: Option<&'s Snapshot>) -> Seen<'s> {
        let mut elsewhere = self.freed.clone();
        let wanted = self.wanted.iter().filter(|(_, wanted)| wanted.cause == Cause::New);
        let heard = wanted.map(|(txid, wanted)| (*txid, wanted.heard)).chain(self.waiting.first_seen());
        for (txid, heard) in heard {
            elsewhere.entry(txid).and_modify(|first| *first = heard.min(*first)).or_insert(heard);
        }
        Seen { mempool: self.mempool.snapshot(), elsewhere, before }
    }

    /// Remembers when transactions of blocks that left were first seen, until it is known what became of them.
    pub(in crate::sync) fn remember_freed(&mut self, first_seen: &[(Txid, u64)]) {
        self.freed.clear();
        self.freed.extend(first_seen.iter().copied());
    }
}

impl Seen<'_> {
    /// The transactions of a block that were seen before it: index in the block, and seconds since 1970.
    pub(in crate::sync) fn of(&self, block: &Block) -> Result<Vec<(u32, u64)>, IndexError> {
        let mut seen = Vec::new();
        for (index, txid) in (0..).zip(block.txids()) {
            let unconfirmed = self.mempool.get(&txid).map(|entry| entry.first_seen);
            let departed = || self.mempool.departed(&txid).map(|departed| departed.first_seen);
            let here = unconfirmed.or_else(departed);
            let confirmed = if here.is_none() { first_seen_in(self.before, &txid)? } else { None };
            let first = here.into_iter().chain(confirmed).chain(self.elsewhere.get(&txid).copied()).min();
            seen.extend(first.map(|seconds| (index, seconds)));
        }
        Ok(seen)
    }

    /// What of a block that joins the mempool has to do with: nothing, mostly, while an index catches up.
    pub(in crate::sync) fn concerned(&self, block: &Block, height: Height) -> Option<Joined> {
        if self.mempool.is_empty() {
            return None;
        }
        let is_near = |txid: &Txid| self.mempool.get(txid).is_some() || !self.mempool.children(txid).is_empty();
        let txids: Vec<_> = block.txids().filter(is_near).collect();
        let spends: Vec<_> = block.spends().filter(|(outpoint, _)| self.mempool.spender(outpoint).is_some()).collect();
        (!(txids.is_empty() && spends.is_empty())).then(|| Joined::new(block.hash(), height, txids, spends))
    }
}

/// When a transaction of a chain was first seen.
pub(super) fn first_seen_in(chain: Option<&Snapshot>, txid: &Txid) -> Result<Option<u64>, IndexError> {
    let Some(chain) = chain else { return Ok(None) };
    let Some(newest) = chain.positions(txid)?.last().copied() else { return Ok(None) };
    chain.first_seen_at(newest)
}
