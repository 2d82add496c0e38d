//! Transactions on their way from the node into the mempool.

use std::sync::Arc;

use bitcoin::{Txid, Wtxid};
use tracing::warn;

use super::prevouts::prevouts;
use crate::chain::Height;
use crate::chain::raw::RawTransaction;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{AddError, Arrival, Cause, Departed, Departure, Entry, Mempool};
use crate::node::{Node, NodeError};

/// Why a transaction is to be asked for, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchRequest {
    pub(super) cause: Cause,
    /// When it was first heard of, in seconds since 1970.
    pub(super) first_seen: u64,
}

/// A transaction as the node gave it.
pub(super) struct Incoming {
    pub(super) txid: Txid,
    pub(super) wtxid: Wtxid,
    raw: Arc<[u8]>,
    /// In seconds since 1970.
    pub(super) first_seen: u64,
    pub(super) cause: Cause,
}

/// What became of it.
pub(super) enum AddOutcome {
    /// It is in the mempool now.
    Added,
    /// It is there already, or in the chain.
    Known,
    /// It cannot be there, whoever has it.
    Rejected,
    /// It spends an output of this transaction, which is not known.
    Orphan(Txid),
}

impl From<Entry> for Incoming {
    /// As it came first.
    fn from(entry: Entry) -> Self {
        let cause = entry.cause();
        let Entry { txid, wtxid, raw, first_seen, .. } = entry;
        Self { txid, wtxid, raw, first_seen, cause }
    }
}

impl Incoming {
    /// A transaction by its bytes; `None` if they are none, which is logged.
    pub(super) fn of(raw: Arc<[u8]>, first_seen: u64, cause: Cause) -> Option<Self> {
        let ids = RawTransaction::parse_whole(&raw).map(|transaction| (transaction.txid(), transaction.wtxid()));
        match ids {
            Ok((txid, wtxid)) => Some(Self { txid, wtxid, raw, first_seen, cause }),
            Err(error) => {
                warn!(%error, "what the node gave for a transaction is none");
                None
            }
        }
    }

    /// Bytes of its serialisation, witness included.
    pub(super) fn size(&self) -> usize {
        self.raw.len()
    }

    /// Its parts, unless its bytes are none.
    pub(super) fn parsed(&self) -> Option<RawTransaction<'_>> {
        RawTransaction::parse_whole(&self.raw).ok()
    }

    /// How it is remembered if it does not come in.
    pub(super) fn departed(&self, departure: Departure, at: u64) -> Departed {
        let weight = self.parsed().map_or(0, |parsed| parsed.weight());
        Departed {
            txid: self.txid,
            wtxid: self.wtxid,
            fee: None,
            weight: u64::try_from(weight).unwrap_or(u64::MAX),
            first_seen: self.first_seen,
            departure,
            along_with: None,
            at,
            sequence: 0,
            entry: None,
        }
    }

    /// Asks the node for these. What is gone by now is left out. Those that were there before are asked for when they
    /// came; the others came when they were heard of.
    pub(super) fn fetch(node: &Node, wanted: Vec<(Txid, FetchRequest)>) -> Result<Vec<Self>, NodeError> {
        let txids: Vec<_> = wanted.iter().map(|(txid, _)| *txid).collect();
        if txids.is_empty() {
            return Ok(Vec::new());
        }
        let given: Vec<Option<(Vec<u8>, u64)>> = if wanted.iter().any(|(_, wanted)| wanted.cause == Cause::Loaded) {
            node.raw_transactions_with_times(&txids)?
        } else {
            node.raw_transactions(&txids)?.into_iter().map(|raw| raw.map(|raw| (raw, u64::MAX))).collect()
        };
        let mut fetched = Vec::with_capacity(txids.len());
        for ((txid, FetchRequest { cause, first_seen }), given) in wanted.into_iter().zip(given) {
            let Some((raw, time)) = given else { continue };
            let first_seen = if cause == Cause::Loaded { time.min(first_seen) } else { first_seen };
            let Some(incoming) = Self::of(raw.into(), first_seen, cause) else { continue };
            if incoming.txid == txid {
                fetched.push(incoming);
            } else {
                warn!(asked = %txid, given = %incoming.txid, "the node gave another transaction than was asked for");
            }
        }
        Ok(fetched)
    }

    /// Adds it. What is there and spends the same outputs leaves for it, for the node has taken it in.
    pub(super) fn add(
        &self,
        mempool: &mut Mempool,
        chain: &Snapshot,
        height: Height,
        now: u64,
    ) -> Result<AddOutcome, IndexError> {
        if mempool.get(&self.txid).is_some() || !chain.positions(&self.txid)?.is_empty() {
            return Ok(AddOutcome::Known);
        }
        loop {
            let Some(transaction) = self.parsed() else { return Ok(AddOutcome::Rejected) };
            let prevouts = match prevouts(&transaction, mempool, chain)? {
                Ok(prevouts) => prevouts,
                Err(outpoint) => return Ok(AddOutcome::Orphan(outpoint.txid)),
            };
            let arrival = Arrival {
                txid: self.txid,
                wtxid: self.wtxid,
                raw: Arc::clone(&self.raw),
                prevouts,
                first_seen: self.first_seen,
                height,
                cause: self.cause,
            };
            match mempool.add(arrival) {
                Ok(_) => return Ok(AddOutcome::Added),
                Err(AddError::Conflict { spender, .. }) => {
                    // each time there is one less
                    mempool.remove(&spender, Departure::Replaced { by: self.txid }, now);
                }
                Err(error) => {
                    warn!(txid = %self.txid, %error, "a transaction of the node's mempool cannot be taken in");
                    return Ok(AddOutcome::Rejected);
                }
            }
        }
    }
}
