//! Replacements and the current state of transactions that may have left chain and mempool.
//!
//! The chain decides: a miner may mine an evicted transaction, and a transaction in a block counts as not replaced, whatever
//! the journal of departures says.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{BlockHash, OutPoint, Txid, Weight};

use super::transaction::state_after;
use super::{Transaction, TransactionState, View};
use crate::chain::vsize;
use crate::index::IndexError;
use crate::mempool::{Departed, Entry};

/// A transaction in a tree of replacements, with or without its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// Its fee in sat, if that is known.
    pub fee: Option<u64>,
    /// Its virtual size in vbytes, if that is known.
    pub vsize: Option<u64>,
    /// When it was first seen, in seconds since 1970, if that is stored.
    pub first_seen: Option<u64>,
    /// Whether a block of the active chain contains it.
    pub is_confirmed: bool,
}

impl Transaction {
    /// Whether one of its own inputs signals replaceability (BIP125). Its ancestors may signal for it, too.
    #[must_use]
    pub fn signals_replaceability(&self) -> bool {
        !self.parts.is_coinbase() && self.parts.is_explicitly_rbf()
    }
}

impl View {
    /// The current state of a transaction, and the block that contains it or caused its departure; `None` if it is unknown.
    pub fn current_state(&self, txid: &Txid) -> Result<Option<(TransactionState, Option<BlockHash>)>, IndexError> {
        if let Some(txnum) = self.latest_position(txid)? {
            return Ok(Some((TransactionState::Confirmed, Some(self.block_hash_of(txnum)?))));
        }
        if self.mempool().get(txid).is_some() {
            return Ok(Some((TransactionState::Unconfirmed, None)));
        }
        if let Some(departed) = self.mempool().departed(txid) {
            return Ok(Some((state_after(departed.departure), departed.departure.block())));
        }
        let stale = self.head.chain.stale_occurrences(txid)?;
        Ok(stale.first().map(|(block, _)| (TransactionState::ReorgedOut, Some(*block))))
    }

    /// The transactions that conflict with this one, and the one that replaced it: each once, in the order of their txids.
    /// Of those outside chain and mempool only the ones that it replaced directly are found.
    pub fn conflicts(&self, transaction: &Transaction) -> Result<Vec<Txid>, IndexError> {
        let mempool = self.mempool();
        let mut found: BTreeSet<Txid> = mempool.replaces(&transaction.txid).map(|departed| departed.txid).collect();
        let departed = transaction.departed.as_ref().filter(|departed| departed.along_with.is_none());
        found.extend(departed.and_then(|departed| departed.departure.conflicting()));
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
        if let Some(by) = self.spender_on_chain(outpoint)? {
            return Ok(Some(by));
        }
        Ok(self.mempool().spender(outpoint).map(|(txid, _)| txid))
    }

    /// The transactions that this one replaced by spending the same output, in the order of departure; without their
    /// descendants, and without those that a block of the active chain contains.
    pub fn replaced(&self, by: &Txid) -> Result<Vec<Arc<Departed>>, IndexError> {
        let mut replaced = Vec::new();
        for departed in self.mempool().replaces(by) {
            if self.latest_position(&departed.txid)?.is_none() {
                replaced.push(Arc::clone(departed));
            }
        }
        Ok(replaced)
    }

    /// The transaction that replaced this one; `None` if the journal has none, or if a block of the active chain contains
    /// this one.
    pub fn replaced_by(&self, txid: &Txid) -> Result<Option<Txid>, IndexError> {
        let Some(by) = self.mempool().replaced_by(txid) else { return Ok(None) };
        Ok(self.latest_position(txid)?.is_none().then_some(by))
    }

    /// The newest replacement in the tree of this transaction: itself, if it was not replaced. `None` if the journal has no
    /// replacement by it or of it.
    pub fn newest_replacement(&self, txid: &Txid) -> Result<Option<Txid>, IndexError> {
        let mempool = self.mempool();
        let (mut newest, mut left) = (*txid, 0);
        // each left after the one that it replaced, so the loop ends
        while let Some(departed) = mempool.departed(&newest).filter(|departed| departed.sequence > left)
            && let Some(by) = self.replaced_by(&newest)?
        {
            (newest, left) = (by, departed.sequence);
        }
        Ok((newest != *txid || !self.replaced(txid)?.is_empty()).then_some(newest))
    }

    /// Whether a transaction is the root of a tree of replacements, wherever it is now: it replaced others and was not
    /// replaced itself.
    pub fn is_replacement_root(&self, txid: &Txid) -> Result<bool, IndexError> {
        Ok(self.replaced_by(txid)?.is_none() && !self.replaced(txid)?.is_empty())
    }

    /// A transaction in a tree of replacements, wherever it is.
    pub fn replacement(&self, txid: &Txid) -> Result<Replacement, IndexError> {
        if let Some(stored) = self.head.chain.newest(txid)? {
            let found = Self::placed(stored);
            let first_seen = self.first_seen_at(&found)?;
            let (fee, size) = (found.place.and_then(|place| place.fee), Some(vsize(found.parts.weight())));
            return Ok(Replacement { fee, vsize: size, first_seen, is_confirmed: true });
        }
        if let Some(entry) = self.mempool().get(txid) {
            let (fee, size) = (Some(entry.fee), Some(entry.policy_vsize()));
            return Ok(Replacement { fee, vsize: size, first_seen: Some(entry.first_seen), is_confirmed: false });
        }
        if let Some(departed) = self.mempool().departed(txid) {
            // a departure that could not be parsed has no weight
            let size = (departed.weight > 0).then(|| vsize(Weight::from_wu(departed.weight)));
            let first_seen = Some(departed.first_seen);
            return Ok(Replacement { fee: departed.fee, vsize: size, first_seen, is_confirmed: false });
        }
        Ok(Replacement::default())
    }

    /// Whether a transaction replaced one that did not signal replaceability (BIP125) and whose bytes are still stored.
    pub fn replaced_without_signal(&self, txid: &Txid) -> Result<bool, IndexError> {
        let replaced = self.replaced(txid)?;
        Ok(replaced.iter().filter_map(|departed| departed.entry.as_ref()).any(|entry| !signals(entry)))
    }
}

/// The highest sequence number that signals replaceability (`MAX_BIP125_RBF_SEQUENCE`).
const MAX_RBF_SEQUENCE: u32 = 0xffff_fffd;

fn signals(entry: &Entry) -> bool {
    entry.inputs().any(|(input, _)| input.sequence <= MAX_RBF_SEQUENCE)
}
