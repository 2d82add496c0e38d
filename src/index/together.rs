//! Transactions that are read together, wherever in the chain they are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::error::IndexError;
use super::frozen::FrozenTransaction;
use super::keys::TxNum;
use super::snapshot::{Snapshot, StoredTransaction, WantedTransaction};

/// A transaction that was looked up. The look-up of a live one reads it.
enum FoundTransaction {
    Live(StoredTransaction),
    Frozen(FrozenTransaction),
}

impl FoundTransaction {
    fn txnum(&self) -> TxNum {
        match self {
            Self::Live(stored) => stored.txnum,
            Self::Frozen(frozen) => frozen.txnum(),
        }
    }
}

/// The bytes that may still be read.
struct BytesLeft {
    read: AtomicUsize,
    most: usize,
}

impl BytesLeft {
    fn are_none(&self) -> bool {
        self.read.load(Ordering::Relaxed) > self.most
    }

    fn take(&self, bytes: usize) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// Those of these transactions that the chain does not repeat later (BIP30), as `make` makes them of what is stored. Several
    /// are looked up and read at a time, the bytes of frozen ones in the order of the chain, until `bytes` of them are read.
    /// `None` stands for all others, and for those that cannot be read.
    ///
    /// Errors: [`IndexError::Threads`].
    pub fn read_several<T: Send>(
        &self,
        wanted: &[WantedTransaction],
        bytes: usize,
        make: impl Fn(StoredTransaction) -> Result<T, IndexError> + Sync,
    ) -> Result<Vec<Option<T>>, IndexError> {
        let left = BytesLeft { read: AtomicUsize::new(0), most: bytes };
        // reading one of them alone meets the error again
        let found = self.generations.look_up_several(wanted, |wanted| Ok(self.find(*wanted, &left).ok().flatten()))?;
        let mut results: Vec<_> = wanted.iter().map(|_| None).collect();
        let mut frozen = Vec::new();
        for (at, found) in found.into_iter().enumerate() {
            match found {
                Some(FoundTransaction::Live(stored)) => results[at] = make(stored).ok(),
                Some(FoundTransaction::Frozen(found)) => frozen.push((at, found)),
                None => {}
            }
        }
        frozen.sort_unstable_by_key(|(_, found)| found.txnum());
        let has_failed = AtomicBool::new(false);
        let read = self.generations.look_up_several(&frozen, |(at, found)| {
            // a source that fails once may take long to fail again
            if has_failed.load(Ordering::Relaxed) || left.are_none() {
                return Ok((*at, None));
            }
            left.take(found.length());
            let result = self.generations.read_located(found).and_then(&make);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            Ok((*at, result.ok()))
        })?;
        for (at, made) in read {
            results[at] = made;
        }
        Ok(results)
    }

    /// Finds a transaction, `None` if the chain does not have it or repeats it later, or if no bytes are left for it.
    fn find(&self, wanted: WantedTransaction, left: &BytesLeft) -> Result<Option<FoundTransaction>, IndexError> {
        let txid = match wanted {
            WantedTransaction::Newest(txid) => Some(txid),
            WantedTransaction::At(txnum) => self.txid(txnum)?,
        };
        let Some(txid) = txid.filter(|_| !left.are_none()) else { return Ok(None) };
        let newest = match self.newest_live(&txid)? {
            Some(live) => {
                left.take(live.raw.len());
                Some(FoundTransaction::Live(live))
            }
            None => self.generations.locate(txid)?.map(FoundTransaction::Frozen),
        };
        Ok(newest.filter(|newest| match wanted {
            WantedTransaction::Newest(_) => true,
            WantedTransaction::At(txnum) => txnum == newest.txnum(),
        }))
    }
}
