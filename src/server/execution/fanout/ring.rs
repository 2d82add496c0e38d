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

use crate::server::execution::payload::SharedPayload;

/// How much may be kept. The newest payload always is while there is somebody who has not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Payloads of one ring.
    pub(crate) count: usize,
    /// Bytes of one ring.
    pub(crate) bytes: usize,
    /// Bytes of all rings together. Above it the largest lets go of its oldest payloads, but of its newest.
    pub(crate) all_bytes: usize,
}

/// The bytes that all rings of a server keep.
pub(crate) type Kept = Arc<AtomicUsize>;

/// The payloads of one stream on the way to its readers.
#[derive(Debug)]
pub(crate) struct Ring {
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
    told: SharedPayload,
    unread: usize,
}

/// What a reader finds.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    Payload(SharedPayload),
    /// It has read all there is.
    Nothing,
    /// What would be next for it is not kept any more.
    Lost,
}

impl Ring {
    pub(crate) fn new(bounds: Bounds, kept: Kept, newest: bool) -> Self {
        Self { bounds, kept, newest, payloads: VecDeque::new(), first: 0, bytes: 0, readers: 0 }
    }

    /// The number of the payload that is pushed next.
    fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.payloads.len()).unwrap_or(u64::MAX))
    }

    /// The place of another reader.
    pub(crate) fn join(&mut self) -> u64 {
        self.readers += 1;
        match self.payloads.back_mut() {
            Some(newest) if self.newest => {
                newest.unread += 1;
                self.end().saturating_sub(1)
            }
            _ => self.end(),
        }
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers
    }

    /// For all who are there.
    pub(crate) fn push(&mut self, told: SharedPayload) {
        let bytes = told.payload.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.payloads.push_back(Waiting { told, unread: self.readers });
        let count = if self.newest { 1 } else { self.bounds.count };
        while self.payloads.len() > 1 && (self.payloads.len() > count || self.bytes > self.bounds.bytes) {
            self.drop_first();
        }
        self.drop_read();
    }

    /// Bytes that it could let go of: all but its newest payload.
    pub(crate) fn spare(&self) -> usize {
        self.bytes.saturating_sub(self.payloads.back().map_or(0, |newest| newest.told.payload.bytes()))
    }

    /// Lets go of so many bytes or a little more, the oldest first, as far as it can spare them.
    pub(crate) fn relieve(&mut self, bytes: usize) {
        let least = self.bytes.saturating_sub(bytes);
        while self.payloads.len() > 1 && self.bytes > least {
            self.drop_first();
        }
    }

    /// What is next at a place, which goes on by it.
    pub(crate) fn read(&mut self, place: &mut u64) -> Found {
        if *place < self.first {
            if !self.newest {
                return Found::Lost;
            }
            *place = self.first;
        }
        let Some(waiting) = self.at_mut(*place) else { return Found::Nothing };
        waiting.unread = waiting.unread.saturating_sub(1);
        let told = waiting.told.clone();
        *place = place.saturating_add(1);
        self.drop_read();
        Found::Payload(told)
    }

    /// The reader at this place reads no more.
    pub(crate) fn leave(&mut self, place: u64) {
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

    fn drop_first(&mut self) {
        let Some(Waiting { told, .. }) = self.payloads.pop_front() else { return };
        let bytes = told.payload.bytes();
        self.first = self.first.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
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
    use crate::server::execution::payload::Payload;

    const BOUNDS: Bounds = Bounds { count: 4, bytes: 100, all_bytes: 150 };

    fn payload(number: usize, bytes: usize) -> SharedPayload {
        Payload::Result(format!("{number:0>bytes$}").into()).into()
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
    fn it_lets_go_of_its_oldest_when_it_is_told_to_and_never_of_its_newest() {
        let mut ring = ring(false);
        let mut place = ring.join();
        (0..4).for_each(|number| ring.push(payload(number, 20)));
        assert_eq!(ring.spare(), 60);
        ring.relieve(30);
        assert_eq!((ring.bytes, ring.spare(), ring.kept.load(Ordering::Relaxed)), (40, 20, 40));
        assert_eq!(ring.read(&mut place), Found::Lost);
        ring.relieve(usize::MAX);
        assert_eq!((ring.payloads.len(), ring.spare()), (1, 0));
        drop(ring);
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
                                let bytes: usize = behind.iter().map(|told| told.payload.bytes()).sum();
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
