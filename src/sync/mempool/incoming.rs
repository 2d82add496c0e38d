//! Transactions that are fetched from the node and added to the mempool.

use std::sync::Arc;

use bitcoin::{Txid, Wtxid};
use tracing::warn;

use super::prevouts::prevouts;
use crate::chain::Height;
use crate::chain::raw::RawTransaction;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{AddError, Arrival, Cause, Departed, Departure, Entry, Mempool};
use crate::node::{Node, NodeError};

/// A request for a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchRequest {
    pub(super) cause: Cause,
    /// In seconds since 1970.
    pub(super) first_seen: u64,
}

/// A transaction from the node.
pub(super) struct Incoming {
    pub(super) txid: Txid,
    pub(super) wtxid: Wtxid,
    raw: Arc<[u8]>,
    /// In seconds since 1970.
    pub(super) first_seen: u64,
    pub(super) cause: Cause,
}

/// The result of adding a transaction.
pub(super) enum AddOutcome {
    /// It was added.
    Added,
    /// It is in the mempool or the chain already.
    Known,
    /// It is not a valid entry of a mempool.
    Rejected,
    /// It spends an output of this unknown transaction.
    Orphan(Txid),
}

impl From<Entry> for Incoming {
    /// With its original cause and time.
    fn from(entry: Entry) -> Self {
        let cause = entry.cause();
        let Entry { txid, wtxid, raw, first_seen, .. } = entry;
        Self { txid, wtxid, raw, first_seen, cause }
    }
}

impl Incoming {
    /// Parses a transaction; `None`, with a warning, if the bytes are invalid.
    pub(super) fn of(raw: Arc<[u8]>, first_seen: u64, cause: Cause) -> Option<Self> {
        let ids = RawTransaction::parse_whole(&raw).map(|transaction| (transaction.txid(), transaction.wtxid()));
        match ids {
            Ok((txid, wtxid)) => Some(Self { txid, wtxid, raw, first_seen, cause }),
            Err(error) => {
                warn!(%error, "the node sent an invalid transaction");
                None
            }
        }
    }

    /// Bytes of its serialisation, with the witness.
    pub(super) fn size(&self) -> usize {
        self.raw.len()
    }

    /// Its parsed form, unless the bytes are invalid.
    pub(super) fn parsed(&self) -> Option<RawTransaction<'_>> {
        RawTransaction::parse_whole(&self.raw).ok()
    }

    /// Its departure, if it is not added.
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

    /// Requests transactions from the node, and omits those that are gone. For a transaction of the loaded mempool the
    /// node's time counts if it is earlier.
    pub(super) fn fetch(node: &Node, requests: Vec<(Txid, FetchRequest)>) -> Result<Vec<Self>, NodeError> {
        let txids: Vec<_> = requests.iter().map(|(txid, _)| *txid).collect();
        if txids.is_empty() {
            return Ok(Vec::new());
        }
        let received: Vec<Option<(Vec<u8>, u64)>> =
            if requests.iter().any(|(_, request)| request.cause == Cause::Loaded) {
                node.raw_transactions_with_times(&txids)?
            } else {
                node.raw_transactions(&txids)?.into_iter().map(|raw| raw.map(|raw| (raw, u64::MAX))).collect()
            };
        let mut fetched = Vec::with_capacity(txids.len());
        for ((txid, FetchRequest { cause, first_seen }), received) in requests.into_iter().zip(received) {
            let Some((raw, time)) = received else { continue };
            let first_seen = if cause == Cause::Loaded { time.min(first_seen) } else { first_seen };
            let Some(incoming) = Self::of(raw.into(), first_seen, cause) else { continue };
            if incoming.txid == txid {
                fetched.push(incoming);
            } else {
                warn!(requested = %txid, received = %incoming.txid, "the node sent a transaction that was not requested");
            }
        }
        Ok(fetched)
    }

    /// Adds it. Conflicting entries leave as replaced, because the node accepted this one.
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
                    // the number of conflicts falls each time
                    mempool.remove(&spender, Departure::Replaced { by: self.txid }, now);
                }
                Err(error) => {
                    warn!(txid = %self.txid, %error, "cannot add a transaction of the node's mempool");
                    return Ok(AddOutcome::Rejected);
                }
            }
        }
    }
}
