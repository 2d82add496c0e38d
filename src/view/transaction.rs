//! A transaction, where it is, and its state.

use std::sync::Arc;

use bitcoin::{BlockHash, Txid, Weight, Wtxid};

use crate::chain::{Height, OutputPart, TransactionParts, wide};
use crate::index::TxNum;
use crate::mempool::{Departed, Departure, Entry};

/// A transaction and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its txid.
    pub txid: Txid,
    /// Its parts.
    pub parts: Arc<TransactionParts>,
    /// Its place on the active chain, `None` if no block of that contains it.
    pub place: Option<ConfirmedPlace>,
    /// Its entry in the mempool, if it is there.
    pub unconfirmed: Option<Arc<Entry>>,
    /// Its departure from the mempool, if it is neither there nor on the active chain and the journal has it.
    pub departed: Option<Arc<Departed>>,
    /// Its block, if this is a copy that a later transaction with the same txid replaced (BIP30).
    pub replaced_in: Option<BlockHash>,
    /// Whether it is known that the active chain has no later copy of it. False where that was not looked up.
    pub is_newest: bool,
    /// Whether it is unknown apart from the bytes that a client submitted.
    pub is_foreign: bool,
    /// Its wtxid, if a client submitted its bytes and no known transaction has the same.
    pub submitted_as: Option<Wtxid>,
    /// Bytes read to find it: its own, or those of its stale block if it was searched by txid.
    pub bytes_read: usize,
}

/// The place of a transaction on the active chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmedPlace {
    /// Its position in the chain.
    pub txnum: TxNum,
    /// The height of its block.
    pub height: Height,
    /// Its index in that block.
    pub index: u32,
    /// Its fee in sat, `None` for a coinbase.
    pub fee: Option<u64>,
}

impl ConfirmedPlace {
    /// Whether it is that of a coinbase: the first transaction of a block, and no other.
    #[must_use]
    pub fn is_coinbase(&self) -> bool {
        self.index == 0
    }
}

/// The current state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// In the mempool.
    Unconfirmed,
    /// In a block of the active chain.
    Confirmed,
    /// Gone; another transaction replaced it or one of its ancestors in the mempool.
    Replaced,
    /// Gone; it expired or was evicted.
    Evicted,
    /// Gone; a block of the active chain conflicts with it or with one of its ancestors.
    Conflicted,
    /// Only in a stale block, or a descendant of such a transaction.
    ReorgedOut,
    /// Gone for an unknown reason.
    Unknown,
}

/// The hash of a serialisation with its witnesses: the txid where there are none. Of a transaction without inputs the library
/// writes the marker of witnesses all the same.
pub(super) fn wtxid_of(parts: &bitcoin::Transaction) -> Wtxid {
    if parts.input.is_empty() {
        Wtxid::from_raw_hash(parts.compute_txid().to_raw_hash())
    } else {
        parts.compute_wtxid()
    }
}

impl Transaction {
    /// Its serialisation, witness included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        self.parts.raw()
    }

    /// Its output with this number, if there is one.
    #[must_use]
    pub fn output(&self, vout: u32) -> Option<OutputPart<'_>> {
        self.parts.output(vout)
    }

    /// Its wtxid.
    #[must_use]
    pub fn wtxid(&self) -> Wtxid {
        wtxid_of(&self.parts)
    }

    /// Its weight (BIP141).
    #[must_use]
    pub fn weight(&self) -> Weight {
        Weight::from_wu(wide(self.parts.base_size()).saturating_mul(3).saturating_add(wide(self.raw().len())))
    }

    /// One of the active chain.
    pub(super) fn on_chain(txid: Txid, parts: Arc<TransactionParts>, place: ConfirmedPlace) -> Self {
        Self {
            txid,
            bytes_read: parts.raw().len(),
            parts,
            place: Some(place),
            unconfirmed: None,
            departed: None,
            replaced_in: None,
            is_newest: false,
            is_foreign: false,
            submitted_as: None,
        }
    }

    /// Its current state.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        if self.place.is_some() {
            return TransactionState::Confirmed;
        }
        if self.unconfirmed.is_some() {
            return TransactionState::Unconfirmed;
        }
        if self.is_foreign {
            return TransactionState::Unknown;
        }
        // otherwise it is in a stale block
        self.departed.as_ref().map_or(TransactionState::ReorgedOut, |departed| state_after(departed.departure))
    }

    /// When it was first seen, in seconds since 1970, if it is in the mempool or the journal of departures.
    #[must_use]
    pub fn first_seen(&self) -> Option<u64> {
        let waiting = self.unconfirmed.as_ref().map(|entry| entry.first_seen);
        waiting.or_else(|| self.departed.as_ref().map(|departed| departed.first_seen))
    }

    /// The sum of all outputs in sat. Saturates, which no valid transaction reaches.
    #[must_use]
    pub fn output_value(&self) -> u64 {
        self.parts.outputs().fold(0, |sum, output| sum.saturating_add(output.value.to_sat()))
    }
}

/// The state of a transaction after this departure, if no block of the active chain contains it.
#[must_use]
pub fn state_after(departure: Departure) -> TransactionState {
    match departure {
        Departure::Mined { .. } | Departure::ReorgedOut { .. } => TransactionState::ReorgedOut,
        Departure::Replaced { .. } => TransactionState::Replaced,
        Departure::Conflicted { .. } => TransactionState::Conflicted,
        Departure::Expired | Departure::Evicted | Departure::Unknown => TransactionState::Evicted,
    }
}
