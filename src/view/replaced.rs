//! Which transaction took whose place, and where a transaction went: for those that may be nowhere any more.

use std::collections::BTreeSet;

use bitcoin::{BlockHash, OutPoint, Txid, Weight};

use super::transaction::state_after;
use super::{Transaction, TransactionState, View};
use crate::chain::vsize;
use crate::index::IndexError;
use crate::mempool::{Departure, Entry};

/// What is known of a transaction among those that replaced each other, be its bytes here or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// What it pays, in sat, if that is known.
    pub fee: Option<u64>,
    /// Its virtual size in vbytes, if that is known.
    pub vsize: Option<u64>,
    /// When it was first seen, in seconds since 1970, if that is remembered.
    pub first_seen: Option<u64>,
    /// Whether a block of the active chain holds it.
    pub is_confirmed: bool,
}

impl Transaction {
    /// Whether one of its own inputs says that it may be replaced (BIP125). What it stands on may say so for it.
    #[must_use]
    pub fn signals_replaceability(&self) -> bool {
        !self.parts.is_coinbase() && self.parts.is_explicitly_rbf()
    }
}

impl View {
    /// Where a transaction is now, and the block that holds it, or that threw it out; `None` if it is not known.
    pub fn whereabouts(&self, txid: &Txid) -> Result<Option<(TransactionState, Option<BlockHash>)>, IndexError> {
        if let Some(txnum) = self.latest_position(txid)? {
            return Ok(Some((TransactionState::Confirmed, Some(self.block_hash_of(txnum)?))));
        }
        if self.mempool().get(txid).is_some() {
            return Ok(Some((TransactionState::Unconfirmed, None)));
        }
        if let Some(departed) = self.mempool().departed(txid) {
            let block = match departed.departure {
                Departure::Mined { block, .. }
                | Departure::Conflicted { block, .. }
                | Departure::ReorgedOut { block } => Some(block),
                _ => None,
            };
            return Ok(Some((state_after(departed.departure), block)));
        }
        let stale = self.head.chain.stale_occurrences(txid)?;
        Ok(stale.first().map(|(block, _)| (TransactionState::ReorgedOut, Some(*block))))
    }

    /// The transactions that spend what this one spends, too, and the one that took its place: each once, in the order of
    /// their txids. Of those that are in neither chain nor mempool only the ones that it replaced itself are found.
    pub fn conflicts(&self, transaction: &Transaction) -> Result<Vec<Txid>, IndexError> {
        let mempool = self.mempool();
        let mut found: BTreeSet<Txid> = mempool.replaces(&transaction.txid).map(|departed| departed.txid).collect();
        if let Some(departed) = &transaction.departed {
            match departed.departure {
                Departure::Replaced { by } | Departure::Conflicted { by, .. } if departed.along_with.is_none() => {
                    found.insert(by);
                }
                _ => {}
            }
        }
        if transaction.place.is_none() && transaction.unconfirmed.is_none() {
            for input in &transaction.parts.input {
                found.extend(self.spender_of(&input.previous_output)?);
            }
        }
        found.remove(&transaction.txid);
        Ok(found.into_iter().collect())
    }

    /// The transaction of the active chain, or else of the mempool, that spends an output.
    fn spender_of(&self, outpoint: &OutPoint) -> Result<Option<Txid>, IndexError> {
        if let Some(funding) = self.latest_position(&outpoint.txid)?
            && let Some(spender) = self.head.chain.spender(funding, outpoint.vout)?
        {
            return self.txid_at(spender.txnum).map(Some);
        }
        Ok(self.mempool().spender(outpoint).map(|(txid, _)| txid))
    }

    /// The newest of those that replaced each other up to or from this transaction: itself, if it was not replaced.
    /// `None` if it has neither replaced nor been replaced, as far as that is remembered.
    #[must_use]
    pub fn newest_replacement(&self, txid: &Txid) -> Option<Txid> {
        let mempool = self.mempool();
        let (mut newest, mut left) = (*txid, 0);
        // each departs after the one that it replaced, so this ends
        while let Some(departed) = mempool.departed(&newest).filter(|departed| departed.sequence > left)
            && let Some(by) = departed.replaced_by()
        {
            (newest, left) = (by, departed.sequence);
        }
        (newest != *txid || mempool.replaces(txid).next().is_some()).then_some(newest)
    }

    /// What is known of a transaction, wherever it is.
    pub fn replacement(&self, txid: &Txid) -> Result<Replacement, IndexError> {
        if let Some(entry) = self.mempool().get(txid) {
            let (fee, size) = (Some(entry.fee), Some(entry.vsize()));
            return Ok(Replacement { fee, vsize: size, first_seen: Some(entry.first_seen), is_confirmed: false });
        }
        if let Some(departed) = self.mempool().departed(txid) {
            // the weight of what could not be parsed any more is not known
            let size = (departed.weight > 0).then(|| vsize(Weight::from_wu(departed.weight)));
            let first_seen = Some(departed.first_seen);
            return Ok(Replacement { fee: departed.fee, vsize: size, first_seen, is_confirmed: false });
        }
        let Some(stored) = self.head.chain.newest(txid)? else { return Ok(Replacement::default()) };
        let found = self.placed(stored)?;
        Ok(Replacement {
            fee: found.place.and_then(|place| place.fee),
            vsize: Some(vsize(found.parts.weight())),
            first_seen: None,
            is_confirmed: true,
        })
    }

    /// Whether a transaction replaced one that did not say that it may be replaced (BIP125), and of which the bytes are
    /// still here.
    #[must_use]
    pub fn replaced_without_signal(&self, txid: &Txid) -> bool {
        let mut replaced = self.mempool().replaces(txid).filter_map(|departed| departed.entry.as_ref());
        replaced.any(|entry| !signals(entry))
    }
}

/// The highest sequence number that says that a transaction may be replaced (`MAX_BIP125_RBF_SEQUENCE`).
const MAX_RBF_SEQUENCE: u32 = 0xffff_fffd;

fn signals(entry: &Entry) -> bool {
    entry.inputs().any(|(input, _)| input.sequence <= MAX_RBF_SEQUENCE)
}
