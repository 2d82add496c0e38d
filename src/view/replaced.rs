//! Which transaction took whose place, and where a transaction went: for those that may be nowhere any more.
//!
//! The chain has the last word: miners may mine what a mempool let go of, and what a block holds was not replaced,
//! whatever is remembered of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{BlockHash, OutPoint, Txid, Weight};

use super::transaction::state_after;
use super::{Transaction, TransactionState, View};
use crate::chain::vsize;
use crate::index::IndexError;
use crate::mempool::{Departed, Entry};

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
            return Ok(Some((state_after(departed.departure), departed.departure.block())));
        }
        let stale = self.head.chain.stale_occurrences(txid)?;
        Ok(stale.first().map(|(block, _)| (TransactionState::ReorgedOut, Some(*block))))
    }

    /// The transactions that spend what this one spends, too, and the one that took its place: each once, in the order of
    /// their txids. Of those that are in neither chain nor mempool only the ones that it replaced itself are found.
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

    /// What a transaction replaced by spending the same output, in the order of departure; neither what stood on that,
    /// nor what a block of the active chain holds all the same.
    pub fn replaced(&self, by: &Txid) -> Result<Vec<Arc<Departed>>, IndexError> {
        let mut replaced = Vec::new();
        for departed in self.mempool().replaces(by) {
            if self.latest_position(&departed.txid)?.is_none() {
                replaced.push(Arc::clone(departed));
            }
        }
        Ok(replaced)
    }

    /// The transaction that replaced this one; `None` if none did, as far as that is remembered, or if a block of the
    /// active chain holds it all the same.
    pub fn replaced_by(&self, txid: &Txid) -> Result<Option<Txid>, IndexError> {
        let Some(by) = self.mempool().replaced_by(txid) else { return Ok(None) };
        Ok(self.latest_position(txid)?.is_none().then_some(by))
    }

    /// The newest of those that replaced each other up to or from this transaction: itself, if it was not replaced.
    /// `None` if it has neither replaced nor been replaced, as far as that is remembered.
    pub fn newest_replacement(&self, txid: &Txid) -> Result<Option<Txid>, IndexError> {
        let mempool = self.mempool();
        let (mut newest, mut left) = (*txid, 0);
        // each departs after the one that it replaced, so this ends
        while let Some(departed) = mempool.departed(&newest).filter(|departed| departed.sequence > left)
            && let Some(by) = self.replaced_by(&newest)?
        {
            (newest, left) = (by, departed.sequence);
        }
        Ok((newest != *txid || !self.replaced(txid)?.is_empty()).then_some(newest))
    }

    /// The roots of the trees of replacements, wherever they are now: transactions that replaced others and were not
    /// replaced themselves, the newest first.
    pub fn newest_replacements(&self) -> impl Iterator<Item = Result<Txid, IndexError>> {
        let replacing = self.mempool().replacing(u64::MAX);
        replacing.filter_map(|(_, by)| {
            let is_root = || Ok(self.replaced_by(&by)?.is_none() && !self.replaced(&by)?.is_empty());
            is_root().map(|is_root: bool| is_root.then_some(by)).transpose()
        })
    }

    /// What is known of a transaction, wherever it is.
    pub fn replacement(&self, txid: &Txid) -> Result<Replacement, IndexError> {
        if let Some(stored) = self.head.chain.newest(txid)? {
            let found = self.placed(stored)?;
            let (fee, size) = (found.place.and_then(|place| place.fee), Some(vsize(found.parts.weight())));
            return Ok(Replacement { fee, vsize: size, first_seen: None, is_confirmed: true });
        }
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
        Ok(Replacement::default())
    }

    /// Whether a transaction replaced one that did not say that it may be replaced (BIP125), and of which the bytes are
    /// still here.
    pub fn replaced_without_signal(&self, txid: &Txid) -> Result<bool, IndexError> {
        let replaced = self.replaced(txid)?;
        Ok(replaced.iter().filter_map(|departed| departed.entry.as_ref()).any(|entry| !signals(entry)))
    }
}

/// The highest sequence number that says that a transaction may be replaced (`MAX_BIP125_RBF_SEQUENCE`).
const MAX_RBF_SEQUENCE: u32 = 0xffff_fffd;

fn signals(entry: &Entry) -> bool {
    entry.inputs().any(|(input, _)| input.sequence <= MAX_RBF_SEQUENCE)
}
