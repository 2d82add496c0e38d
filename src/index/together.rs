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

/// How many bytes are read, and how many may be. The transaction that exceeds them is read, and none after it.
struct ReadBytes {
    read: AtomicUsize,
    most: usize,
}

impl ReadBytes {
    fn is_used_up(&self) -> bool {
        self.read.load(Ordering::Relaxed) > self.most
    }

    /// Counts what is read next. Whether it may be: several threads may find that something is left at once.
    fn take(&self, bytes: usize) -> bool {
        self.read.fetch_add(bytes, Ordering::Relaxed) <= self.most
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
        make: impl Fn(StoredTransaction) -> T + Sync,
    ) -> Result<Vec<Option<T>>, IndexError> {
        let bytes = ReadBytes { read: AtomicUsize::new(0), most: bytes };
        // reading one of them alone meets the error again
        let found = self.generations.look_up_several(wanted, |wanted| Ok(self.find(*wanted, &bytes).ok().flatten()))?;
        let mut results: Vec<_> = wanted.iter().map(|_| None).collect();
        let mut frozen = Vec::new();
        for (at, found) in found.into_iter().enumerate() {
            match found {
                Some(FoundTransaction::Live(stored)) => results[at] = Some(make(stored)),
                Some(FoundTransaction::Frozen(found)) => frozen.push((at, found)),
                None => {}
            }
        }
        frozen.sort_unstable_by_key(|(_, found)| found.txnum());
        let has_failed = AtomicBool::new(false);
        let read = self.generations.look_up_several(&frozen, |(at, found)| {
            // a source that fails once may take long to fail again
            if has_failed.load(Ordering::Relaxed) || !bytes.take(found.length()) {
                return Ok((*at, None));
            }
            let result = self.generations.read_newest(found).map(&make);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            Ok((*at, result.ok()))
        })?;
        for (at, made) in read {
            results[at] = made;
        }
        Ok(results)
    }

    /// Finds a transaction, `None` if the chain does not have it or repeats it later, or if no bytes are left for it.
    fn find(&self, wanted: WantedTransaction, bytes: &ReadBytes) -> Result<Option<FoundTransaction>, IndexError> {
        let txid = match wanted {
            WantedTransaction::Newest(txid) => Some(txid),
            WantedTransaction::At(txnum) => self.txid(txnum)?,
        };
        let Some(txid) = txid.filter(|_| !bytes.is_used_up()) else { return Ok(None) };
        let newest = match self.newest_live(&txid)? {
            // its size is known only now
            Some(live) if !bytes.take(live.parts.raw().len()) => None,
            Some(live) => Some(FoundTransaction::Live(live)),
            None => self.generations.locate(txid)?.map(FoundTransaction::Frozen),
        };
        Ok(newest.filter(|newest| match wanted {
            WantedTransaction::Newest(_) => true,
            WantedTransaction::At(txnum) => txnum == newest.txnum(),
        }))
    }
}
