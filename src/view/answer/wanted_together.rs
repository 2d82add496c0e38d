//! Transactions that the fields of one answer ask for one by one, queued to be read together.
//!
//! ```text
//!   field ─┐                           ┌─ found: each field takes its transaction
//!   field ─┼─ queue ── one field reads ┤
//!   field ─┘           up to 128 of it └─ not found together: the field reads it alone, and meets the error if there is one
//! ```
//!
//! The engine begins all fields of a list before it continues any. So a field puts its transaction into a queue and waits once;
//! as soon as the queue has stopped growing, the first field that continues reads its beginning. Between two such reads the
//! execution may end its turn or be dropped.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::index::WantedTransaction;
use crate::view::transaction::Transaction;

/// The most transactions of one read.
const AT_ONCE: usize = 128;

/// The transactions that fields of one answer wait for.
#[derive(Default)]
pub(in crate::view) struct WantedTogether(Mutex<WantedState>);

#[derive(Default)]
struct WantedState {
    /// What is to be read; `None` where the field was dropped.
    queue: VecDeque<Option<WantedTransaction>>,
    /// How many left the queue.
    dequeued: usize,
    /// Whether a field reads, or has just read and not continued yet.
    is_reading: bool,
    /// What was read, and how many fields are still to take it.
    results: HashMap<WantedTransaction, (Arc<Transaction>, usize)>,
    /// The bytes of all results.
    result_bytes: usize,
}

/// What a field does next.
pub(in crate::view) enum ReadingStep {
    /// Waits, as long as it may: so many fields have joined the queue.
    Wait(usize),
    /// Waits until another field has read.
    WaitForReader,
    /// Reads these for all.
    Read(Vec<WantedTransaction>),
    /// Ends with this, or reads alone.
    Take(Option<Arc<Transaction>>),
}

impl WantedState {
    /// How many fields have joined the queue.
    fn joined(&self) -> usize {
        self.dequeued + self.queue.len()
    }

    fn take(&mut self, wanted: &WantedTransaction) -> Option<Arc<Transaction>> {
        let Entry::Occupied(mut result) = self.results.entry(*wanted) else { return None };
        if result.get().1 > 1 {
            result.get_mut().1 -= 1;
            return Some(Arc::clone(&result.get().0));
        }
        let (transaction, _) = result.remove();
        self.result_bytes = self.result_bytes.saturating_sub(transaction.bytes_read);
        Some(transaction)
    }

    fn put(&mut self, wanted: &WantedTransaction, transaction: Arc<Transaction>) {
        match self.results.entry(*wanted) {
            Entry::Occupied(mut result) => result.get_mut().1 += 1,
            Entry::Vacant(none) => {
                self.result_bytes = self.result_bytes.saturating_add(transaction.bytes_read);
                none.insert((transaction, 1));
            }
        }
    }
}

impl WantedTogether {
    /// The bytes of all that was read and not taken yet.
    pub(in crate::view) fn result_bytes(&self) -> usize {
        self.lock().result_bytes
    }

    /// Gives each field in a queue that was read what `found` has for it.
    pub(in crate::view) fn put_all(
        &self,
        queued: &[WantedTransaction],
        found: impl Fn(&WantedTransaction) -> Option<Arc<Transaction>>,
    ) {
        let mut state = self.lock();
        for wanted in queued {
            if let Some(transaction) = found(wanted) {
                state.put(wanted, transaction);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WantedState> {
        self.0.lock()
    }
}

/// A field's place in the queue. Dropping it removes what only this field waits for.
pub(in crate::view) struct QueuePlace<'v> {
    all: &'v WantedTogether,
    wanted: WantedTransaction,
    /// How many fields had joined the queue with this one.
    pub(in crate::view) number: usize,
    is_reader: bool,
    has_taken: bool,
}

impl<'v> QueuePlace<'v> {
    pub(in crate::view) fn join(all: &'v WantedTogether, wanted: WantedTransaction) -> Self {
        let mut state = all.lock();
        state.queue.push_back(Some(wanted));
        Self { all, wanted, number: state.joined(), is_reader: false, has_taken: false }
    }

    /// What the field does next that knows of `seen` fields in the queue.
    pub(in crate::view) fn next(&mut self, seen: usize, may_wait: bool) -> ReadingStep {
        let mut state = self.all.lock();
        if self.is_reader {
            (state.is_reading, self.is_reader) = (false, false);
        }
        if self.number <= state.dequeued {
            self.has_taken = true;
            return ReadingStep::Take(state.take(&self.wanted));
        }
        if state.is_reading {
            return ReadingStep::WaitForReader;
        }
        if may_wait && state.joined() > seen {
            return ReadingStep::Wait(state.joined());
        }
        let count = state.queue.len().min(AT_ONCE);
        state.dequeued += count;
        (state.is_reading, self.is_reader) = (true, true);
        ReadingStep::Read(state.queue.drain(..count).flatten().collect())
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        if self.is_reader {
            state.is_reading = false;
        }
        if self.number > state.dequeued {
            let at = self.number - state.dequeued - 1;
            if let Some(place) = state.queue.get_mut(at) {
                *place = None;
            }
        } else if !self.has_taken {
            state.take(&self.wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::TxNum;

    #[test]
    fn what_a_dropped_field_waited_for_is_not_read() {
        let all = WantedTogether::default();
        let wanted = |number| WantedTransaction::At(TxNum(number));
        let [mut first, second, third] = [1, 2, 3].map(|number| QueuePlace::join(&all, wanted(number)));
        drop(second);
        let ReadingStep::Read(read) = first.next(3, true) else { panic!("it does not read") };
        assert_eq!(read, [wanted(1), wanted(3)]);
        assert!(all.lock().is_reading);
        drop((first, third));
        assert!(!all.lock().is_reading, "others may read");
    }
}
