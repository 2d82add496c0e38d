//! What the fields of one answer ask for one by one, read together: transactions, and the inputs that spend outputs.
//!
//! ```text
//!   field ─┐                           ┌─ found: each field takes what it asked for
//!   field ─┼─ queue ── one field reads ┤
//!   field ─┘           up to 128 of it └─ not found together: the field reads it alone, and meets the error if there is one
//! ```
//!
//! The engine begins all fields of a list before it continues any. So a field puts what it wants into a queue and waits once;
//! as soon as the queue has stopped growing, the first field that continues reads its beginning. Between two such reads the
//! execution may end its turn or be dropped.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::{Mutex, MutexGuard};

use super::{Transaction, View};
use crate::index::{IndexError, SpendingInput, TxNum, WantedTransaction};

/// What names something that can be read together with others of its kind.
pub(super) trait Together: Copy + Eq + Hash {
    type Found: Clone;

    /// Where the fields of an answer wait for it.
    fn queue(view: &View) -> &WantedTogether<Self>;

    /// What it weighs while a field is still to take it.
    fn bytes(found: &Self::Found) -> usize;

    /// Reads several, which may weigh so much. `None` for what is to be read alone.
    fn read(view: &View, wanted: &[Self], bytes: usize) -> Result<Vec<Option<Self::Found>>, IndexError>;
}

/// Only frozen transactions: live ones are rows, and reading these one by one is as fast.
impl Together for WantedTransaction {
    type Found = Arc<Transaction>;

    fn queue(view: &View) -> &WantedTogether<Self> {
        &view.wanted_transactions
    }

    fn bytes(found: &Self::Found) -> usize {
        found.bytes_read
    }

    fn read(view: &View, wanted: &[Self], bytes: usize) -> Result<Vec<Option<Self::Found>>, IndexError> {
        let make = |stored| View::newest_placed(stored).map(Arc::new);
        view.head.chain.read_frozen(wanted, bytes, make)
    }
}

/// An output of the chain whose spender is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WantedSpender {
    txnum: TxNum,
    vout: u32,
}

impl Together for WantedSpender {
    type Found = Option<SpendingInput>;

    fn queue(view: &View) -> &WantedTogether<Self> {
        &view.wanted_spenders
    }

    fn bytes(_: &Self::Found) -> usize {
        0
    }

    fn read(view: &View, wanted: &[Self], _: usize) -> Result<Vec<Option<Self::Found>>, IndexError> {
        let outputs: Vec<_> = wanted.iter().map(|output| (output.txnum, output.vout)).collect();
        Ok(view.head.chain.spenders(&outputs)?.into_iter().map(Some).collect())
    }
}

/// The most of one read.
const AT_ONCE: usize = 128;
/// How often a field waits for others to begin at most: answers nest so deep that some begin late.
const WAITS: u32 = 16;

/// What the fields of one answer wait for.
pub(super) struct WantedTogether<W: Together>(Mutex<WantedState<W>>);

impl<W: Together> Default for WantedTogether<W> {
    fn default() -> Self {
        Self(Mutex::new(WantedState {
            queue: VecDeque::new(),
            dequeued: 0,
            is_reading: false,
            results: HashMap::new(),
            result_bytes: 0,
        }))
    }
}

struct WantedState<W: Together> {
    /// What is to be read; `None` where the field was dropped.
    queue: VecDeque<Option<W>>,
    /// How many left the queue.
    dequeued: usize,
    /// Whether a field reads, or has just read and not continued yet.
    is_reading: bool,
    /// What was read, and how many fields are still to take it.
    results: HashMap<W, (W::Found, usize)>,
    /// The bytes of all results.
    result_bytes: usize,
}

/// What a field does next.
enum ReadingStep<W: Together> {
    /// Waits, as long as it may: so many fields have joined the queue.
    Wait(usize),
    /// Waits until another field has read.
    WaitForReader,
    /// Reads these for all.
    Read(Vec<W>),
    /// Ends with this, or reads alone.
    Take(Option<W::Found>),
}

impl<W: Together> WantedState<W> {
    /// How many fields have joined the queue.
    fn joined(&self) -> usize {
        self.dequeued + self.queue.len()
    }

    fn take(&mut self, wanted: &W) -> Option<W::Found> {
        let Entry::Occupied(mut result) = self.results.entry(*wanted) else { return None };
        if result.get().1 > 1 {
            result.get_mut().1 -= 1;
            return Some(result.get().0.clone());
        }
        let (found, _) = result.remove();
        self.result_bytes = self.result_bytes.saturating_sub(W::bytes(&found));
        Some(found)
    }

    fn put(&mut self, wanted: &W, found: W::Found) {
        match self.results.entry(*wanted) {
            Entry::Occupied(mut result) => result.get_mut().1 += 1,
            Entry::Vacant(none) => {
                self.result_bytes = self.result_bytes.saturating_add(W::bytes(&found));
                none.insert((found, 1));
            }
        }
    }
}

impl<W: Together> WantedTogether<W> {
    fn lock(&self) -> MutexGuard<'_, WantedState<W>> {
        self.0.lock()
    }
}

/// A field's place in the queue. Dropping it removes what only this field waits for.
struct QueuePlace<'v, W: Together> {
    all: &'v WantedTogether<W>,
    wanted: W,
    /// How many fields had joined the queue with this one.
    number: usize,
    is_reader: bool,
    has_taken: bool,
}

impl<'v, W: Together> QueuePlace<'v, W> {
    fn join(all: &'v WantedTogether<W>, wanted: W) -> Self {
        let mut state = all.lock();
        state.queue.push_back(Some(wanted));
        Self { all, wanted, number: state.joined(), is_reader: false, has_taken: false }
    }

    /// What the field does next that knows of `seen` fields in the queue.
    fn next(&mut self, seen: usize, may_wait: bool) -> ReadingStep<W> {
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

impl<W: Together> Drop for QueuePlace<'_, W> {
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

impl View {
    /// Reads a frozen transaction together with what other fields ask for. `None` if it is to be read alone: it is not frozen,
    /// the chain repeats its txid (BIP30), the byte budget does not allow all, or it cannot be read.
    pub async fn read_together(&self, wanted: WantedTransaction) -> Option<Arc<Transaction>> {
        if !self.head.chain.has_generations() {
            return None;
        }
        self.together(wanted).await
    }

    /// The input of the active chain that spends an output, looked up together with what other fields ask for.
    pub(super) async fn spender_together(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        match self.together(WantedSpender { txnum, vout }).await {
            Some(found) => Ok(found),
            None => self.head.chain.spender(txnum, vout),
        }
    }

    /// Reads something together with what other fields ask for. `None` if it is to be read alone.
    async fn together<W: Together>(&self, wanted: W) -> Option<W::Found> {
        let mut place = QueuePlace::join(W::queue(self), wanted);
        let (mut seen, mut waits) = (place.number, WAITS);
        loop {
            wait_once().await;
            match place.next(seen, waits > 0) {
                ReadingStep::Wait(joined) => (seen, waits) = (joined, waits - 1),
                ReadingStep::Take(found) => return found,
                ReadingStep::Read(wanted) if wanted.len() > 1 => self.read_for_all(&wanted),
                // one is not faster together
                ReadingStep::Read(_) | ReadingStep::WaitForReader => {}
            }
        }
    }

    fn read_for_all<W: Together>(&self, queued: &[W]) {
        let mut distinct = Vec::with_capacity(queued.len());
        let mut places = HashMap::with_capacity(queued.len());
        for wanted in queued {
            places.entry(*wanted).or_insert_with(|| {
                distinct.push(*wanted);
                distinct.len() - 1
            });
        }
        let bytes = self.budget.left().saturating_sub(W::queue(self).lock().result_bytes);
        // each field that finds nothing reads alone, and meets the error
        let Ok(found) = W::read(self, &distinct, bytes) else { return };
        let mut state = W::queue(self).lock();
        for wanted in queued {
            if let Some(found) = places.get(wanted).and_then(|at| found[*at].clone()) {
                state.put(wanted, found);
            }
        }
    }
}

/// Waits until all other fields that can begin or continue have done so.
pub(crate) async fn wait_once() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
