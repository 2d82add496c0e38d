//! Transactions that the fields of one answer ask for one by one, read together.
//!
//! ```text
//!   field ─┐                      ┌─ found: each field takes its transaction
//!   field ─┼─ named ── one reads ─┤
//!   field ─┘           all named  └─ not found together: the field reads it alone, and meets the error if there is one
//! ```
//!
//! The engine begins all fields of a list before it continues any. So a field names its transaction and lets the others go
//! first; once no more are named, the first that continues reads all of them. Only frozen transactions are read so: live ones are rows
//! that are read as fast one by one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bitcoin::Txid;

use super::{Transaction, View};
use crate::index::{IndexError, TxNum, WantedTransaction};

/// How often a field lets others go first at most: answers nest so deep that some begin late.
const TURNS: u32 = 16;

/// The transactions that fields of one answer wait for.
#[derive(Default)]
pub(super) struct WantedTogether(Mutex<Wanted>);

#[derive(Default)]
struct Wanted {
    named: Vec<WantedTransaction>,
    /// How many were named before these.
    before: usize,
    /// What was read, and how many fields are still to take it.
    read: HashMap<WantedTransaction, (Arc<Transaction>, usize)>,
}

/// What a field does next.
enum Next {
    /// Let the others go first: so many were named by now.
    Wait(usize),
    /// Read these for all.
    Read(Vec<WantedTransaction>),
    Take(Arc<Transaction>),
    /// It was not found together with the others.
    ReadAlone,
}

impl WantedTogether {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a transaction. Returns how many were named, this one included.
    fn name(&self, wanted: WantedTransaction) -> usize {
        let mut all = self.lock();
        all.named.push(wanted);
        all.count()
    }

    /// What the field does that was the `own`th to name one, and that knows of `seen`.
    fn next(&self, wanted: &WantedTransaction, own: usize, seen: usize, may_wait: bool) -> Next {
        let mut all = self.lock();
        if own <= all.before {
            return all.take(wanted).map_or(Next::ReadAlone, Next::Take);
        }
        if may_wait && all.count() > seen {
            return Next::Wait(all.count());
        }
        all.before = all.count();
        Next::Read(std::mem::take(&mut all.named))
    }

    fn put(&self, wanted: &[WantedTransaction], found: Vec<Option<Arc<Transaction>>>) {
        let mut all = self.lock();
        for (wanted, found) in wanted.iter().zip(found) {
            let Some(found) = found else { continue };
            all.read.entry(*wanted).or_insert((found, 0)).1 += 1;
        }
    }
}

impl Wanted {
    fn count(&self) -> usize {
        self.before + self.named.len()
    }

    fn take(&mut self, wanted: &WantedTransaction) -> Option<Arc<Transaction>> {
        let Entry::Occupied(mut read) = self.read.entry(*wanted) else { return None };
        if read.get().1 <= 1 {
            return Some(read.remove().0);
        }
        read.get_mut().1 -= 1;
        Some(Arc::clone(&read.get().0))
    }
}

impl View {
    /// Returns what [`View::transaction`] does, read together with what other fields ask for.
    pub async fn transaction_together(&self, txid: Txid) -> Result<Option<Arc<Transaction>>, IndexError> {
        match self.together(WantedTransaction::Newest(txid)).await? {
            Some(found) => Ok(Some(found)),
            None => Ok(self.transaction(&txid)?.map(Arc::new)),
        }
    }

    /// Returns what [`View::newest_copy`] does, read together with what other fields ask for.
    pub async fn newest_copy_together(&self, txnum: TxNum) -> Result<Arc<Transaction>, IndexError> {
        match self.together(WantedTransaction::At(txnum)).await? {
            Some(found) => Ok(found),
            None => Ok(Arc::new(self.newest_copy(txnum)?)),
        }
    }

    /// `None` if it is not to be read together with others.
    async fn together(&self, wanted: WantedTransaction) -> Result<Option<Arc<Transaction>>, IndexError> {
        if !self.head.chain.has_generations() {
            return Ok(None);
        }
        let own = self.wanted.name(wanted);
        let mut seen = own;
        for turn in (0..TURNS).rev() {
            let_others_go_first().await;
            match self.wanted.next(&wanted, own, seen, turn > 0) {
                Next::Wait(count) => seen = count,
                Next::Take(found) => return Ok(Some(found)),
                Next::ReadAlone => break,
                Next::Read(named) => {
                    if named.len() > 1 {
                        self.read_together(&named)?;
                    }
                    return Ok(self.wanted.lock().take(&wanted));
                }
            }
        }
        Ok(None)
    }

    fn read_together(&self, named: &[WantedTransaction]) -> Result<(), IndexError> {
        let mut distinct: HashMap<WantedTransaction, usize> = HashMap::with_capacity(named.len());
        let mut wanted = Vec::with_capacity(named.len());
        let places: Vec<_> = named
            .iter()
            .map(|named| {
                *distinct.entry(*named).or_insert_with(|| {
                    wanted.push(*named);
                    wanted.len() - 1
                })
            })
            .collect();
        let make = |stored| Self::placed(stored).map(Arc::new);
        let found = self.head.chain.read_frozen(&wanted, self.budget.left(), make)?;
        self.wanted.put(named, places.iter().map(|at| found[*at].clone()).collect());
        Ok(())
    }
}

/// Waits until the other fields that can begin have begun.
async fn let_others_go_first() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
