//! What was said to many and not yet read by all of them. Bounded in number and in bytes; who is slower than that has
//! lost its place. Pure.
//!
//! ```text
//!   push ──► ┌────┬────┬────┬────┐        a payload is kept until the last reader has it,
//!            │ 41 │ 42 │ 43 │ 44 │        or until newer ones need its room
//!            └────┴────┴────┴────┘
//!   place:     ▲         ▲         ▲
//!           a slow    another   one that has read all
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::payload::Payload;

/// How much may be kept. The newest payload always is while there is somebody who has not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Payloads of one ring.
    pub(super) count: usize,
    /// Bytes of one ring.
    pub(super) bytes: usize,
    /// Bytes of all rings together. Above it each keeps its newest payload only.
    pub(super) all_bytes: usize,
}

/// The bytes that all rings of a server keep.
pub(super) type Kept = Arc<AtomicUsize>;

/// The payloads of one stream on the way to its readers.
#[derive(Debug)]
pub(super) struct Ring {
    bounds: Bounds,
    kept: Kept,
    /// Whether a newcomer begins with the newest payload, and who is slow goes on with it.
    newest: bool,
    /// Ascending by how many are yet to read them.
    payloads: VecDeque<Waiting>,
    /// The number of the first of them.
    first: u64,
    bytes: usize,
    readers: usize,
}

#[derive(Debug)]
struct Waiting {
    payload: Payload,
    unread: usize,
}

/// What a reader finds.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Payload(Payload),
    /// It has read all there is.
    Nothing,
    /// What would be next for it is not kept any more.
    Lost,
}

impl Ring {
    pub(super) fn new(bounds: Bounds, kept: Kept, newest: bool) -> Self {
        Self { bounds, kept, newest, payloads: VecDeque::new(), first: 0, bytes: 0, readers: 0 }
    }

    /// The number of the payload that is pushed next.
    fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.payloads.len()).unwrap_or(u64::MAX))
    }

    /// The place of another reader.
    pub(super) fn join(&mut self) -> u64 {
        self.readers += 1;
        match self.payloads.back_mut() {
            Some(newest) if self.newest => {
                newest.unread += 1;
                self.end().saturating_sub(1)
            }
            _ => self.end(),
        }
    }

    pub(super) fn readers(&self) -> usize {
        self.readers
    }

    /// For all who are there.
    pub(super) fn push(&mut self, payload: Payload) {
        let bytes = payload.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        let kept = self.kept.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.payloads.push_back(Waiting { payload, unread: self.readers });
        let count = if self.newest { 1 } else { self.bounds.count };
        let mut surplus = kept.saturating_sub(self.bounds.all_bytes);
        while self.payloads.len() > 1 && (self.payloads.len() > count || self.bytes > self.bounds.bytes || surplus > 0)
        {
            surplus = surplus.saturating_sub(self.drop_first());
        }
        self.drop_read();
    }

    /// What is next at a place, which goes on by it.
    pub(super) fn read(&mut self, place: &mut u64) -> Found {
        if *place < self.first {
            if !self.newest {
                return Found::Lost;
            }
            *place = self.first;
        }
        let Some(waiting) = self.at_mut(*place) else { return Found::Nothing };
        waiting.unread = waiting.unread.saturating_sub(1);
        let payload = waiting.payload.clone();
        *place = place.saturating_add(1);
        self.drop_read();
        Found::Payload(payload)
    }

    /// The reader at this place reads no more.
    pub(super) fn leave(&mut self, place: u64) {
        self.readers = self.readers.saturating_sub(1);
        let from = usize::try_from(place.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for waiting in self.payloads.iter_mut().skip(from) {
            waiting.unread = waiting.unread.saturating_sub(1);
        }
        self.drop_read();
    }

    fn at_mut(&mut self, place: u64) -> Option<&mut Waiting> {
        self.payloads.get_mut(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    /// Lets go of what all have read.
    fn drop_read(&mut self) {
        let least = usize::from(self.newest);
        while self.payloads.len() > least && self.payloads.front().is_some_and(|waiting| waiting.unread == 0) {
            self.drop_first();
        }
    }

    /// How many bytes that were.
    fn drop_first(&mut self) -> usize {
        let Some(Waiting { payload, .. }) = self.payloads.pop_front() else { return 0 };
        let bytes = payload.bytes();
        self.first = self.first.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { count: 4, bytes: 100, all_bytes: 150 };

    fn payload(number: usize, bytes: usize) -> Payload {
        Payload::Result(format!("{number:0>bytes$}").into())
    }

    fn ring(newest: bool) -> Ring {
        Ring::new(BOUNDS, Kept::default(), newest)
    }

    #[test]
    fn every_reader_reads_all_since_it_came_and_nothing_is_kept_once_all_have_it() {
        let mut ring = ring(false);
        let mut early = ring.join();
        ring.push(payload(0, 10));
        let mut late = ring.join();
        ring.push(payload(1, 10));
        assert_eq!(ring.read(&mut late), Found::Payload(payload(1, 10)));
        assert_eq!(ring.read(&mut late), Found::Nothing);
        assert_eq!(ring.kept.load(Ordering::Relaxed), 20);
        assert_eq!(ring.read(&mut early), Found::Payload(payload(0, 10)));
        assert_eq!(ring.read(&mut early), Found::Payload(payload(1, 10)));
        assert_eq!((ring.read(&mut early), ring.kept.load(Ordering::Relaxed)), (Found::Nothing, 0));
    }

    #[test]
    fn who_falls_out_by_number_or_by_bytes_has_lost_its_place() {
        for (count, bytes, stays) in [(4, 1, true), (5, 1, false), (2, 50, true), (2, 51, false), (1, 1_000, true)] {
            let mut ring = ring(false);
            let mut place = ring.join();
            for number in 0..count {
                ring.push(payload(number, bytes));
            }
            let expected = if stays { Found::Payload(payload(0, bytes)) } else { Found::Lost };
            assert_eq!(ring.read(&mut place), expected, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn all_rings_together_keep_little_more_than_their_newest_above_their_bound() {
        let kept = Kept::default();
        let mut rings: Vec<Ring> = (0..10).map(|_| Ring::new(BOUNDS, kept.clone(), false)).collect();
        for ring in &mut rings {
            ring.join();
            (0..4).for_each(|number| ring.push(payload(number, 20)));
        }
        // the first ring has all of its 80 bytes, and what the others have left is each one's newest
        assert!(kept.load(Ordering::Relaxed) <= BOUNDS.all_bytes + 10 * 20, "{kept:?}");
        assert!(rings.iter().all(|ring| !ring.payloads.is_empty()));
        drop(rings);
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_a_value_only_the_newest_is_kept_for_those_who_are_slow_and_those_who_come() {
        let mut ring = ring(true);
        let mut slow = ring.join();
        for number in 0..3 {
            ring.push(payload(number, 10));
        }
        let mut newcomer = ring.join();
        for place in [&mut slow, &mut newcomer] {
            assert_eq!(ring.read(place), Found::Payload(payload(2, 10)));
            assert_eq!(ring.read(place), Found::Nothing);
        }
        assert_eq!(ring.kept.load(Ordering::Relaxed), 10);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join,
        Push(usize),
        Read(usize),
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Join),
            (1..60_usize).prop_map(Step::Push),
            any::<usize>().prop_map(Step::Read),
            any::<usize>().prop_map(Step::Leave),
        ]
    }

    proptest! {
        /// The model keeps everything that was ever said, and for each reader how much of it that has passed.
        #[test]
        fn readers_read_in_order_without_a_gap_until_they_are_told_of_one(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut ring = ring(false);
            let (mut said, mut readers) = (Vec::new(), Vec::<(u64, usize)>::new());
            for step in steps {
                match step {
                    Step::Join => readers.push((ring.join(), said.len())),
                    Step::Push(bytes) => {
                        said.push(payload(said.len(), bytes));
                        ring.push(said[said.len() - 1].clone());
                    }
                    Step::Read(who) if !readers.is_empty() => {
                        let who = who % readers.len();
                        let (place, passed) = &mut readers[who];
                        match ring.read(place) {
                            Found::Payload(payload) => {
                                prop_assert_eq!(&payload, &said[*passed]);
                                *passed += 1;
                            }
                            Found::Nothing => prop_assert_eq!(*passed, said.len()),
                            Found::Lost => {
                                let behind = &said[*passed..];
                                let bytes: usize = behind.iter().map(Payload::bytes).sum();
                                prop_assert!(behind.len() > BOUNDS.count || bytes > BOUNDS.bytes);
                            }
                        }
                    }
                    Step::Leave(who) if !readers.is_empty() => {
                        let (place, _) = readers.remove(who % readers.len());
                        ring.leave(place);
                    }
                    Step::Read(_) | Step::Leave(_) => {}
                }
                let furthest = readers.iter().map(|(_, passed)| said.len() - passed).max().unwrap_or(0);
                prop_assert!(ring.payloads.len() <= furthest.min(BOUNDS.count));
                prop_assert!(ring.bytes <= BOUNDS.bytes || ring.payloads.len() == 1);
                prop_assert_eq!(ring.bytes, ring.kept.load(Ordering::Relaxed));
                prop_assert_eq!(ring.readers(), readers.len());
            }
        }
    }
}
