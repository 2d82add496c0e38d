//! The payloads of a stream that some reader has not read. Bounded in number and in bytes: a slower reader finds that its
//! next payload is evicted. Pure.
//!
//! ```text
//!   push ──► ┌────┬────┬────┬────┐        a payload is kept until the last reader has it,
//!            │ 41 │ 42 │ 43 │ 44 │        or until newer ones need its space
//!            └────┴────┴────┴────┘
//!   reader:    ▲         ▲         ▲
//!           a slow    another   one that has read all
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::execution::payload::SubscriptionPayload;

/// How much is kept. The newest payload is, whatever its size, while a reader has not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingBounds {
    /// Payloads of one ring.
    pub(crate) count: usize,
    /// Bytes of one ring.
    pub(crate) bytes: usize,
    /// Bytes of all rings together. Above that the largest evicts its oldest payloads, but not its newest.
    pub(crate) all_bytes: usize,
}

/// The bytes that all rings of a server keep.
pub(crate) type KeptBytes = Arc<AtomicUsize>;

/// The payloads of one stream on the way to its readers.
#[derive(Debug)]
pub(crate) struct Ring {
    bounds: RingBounds,
    kept: KeptBytes,
    /// Whether new and slow readers continue with the newest payload.
    newest: bool,
    /// Ascending by how many readers are yet to read them.
    payloads: VecDeque<Unread>,
    /// The number of the first of them.
    first: u64,
    bytes: usize,
    readers: usize,
}

#[derive(Debug)]
struct Unread {
    payload: SubscriptionPayload,
    unread: usize,
}

/// What a reader finds in the ring.
#[derive(Debug, PartialEq)]
pub(crate) enum RingRead {
    Payload(SubscriptionPayload),
    /// It has read all payloads.
    Empty,
    /// Its next payload is no longer kept.
    Evicted,
}

impl Ring {
    pub(crate) fn new(bounds: RingBounds, kept: KeptBytes, newest: bool) -> Self {
        Self { bounds, kept, newest, payloads: VecDeque::new(), first: 0, bytes: 0, readers: 0 }
    }

    /// The number of the payload that is pushed next.
    fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.payloads.len()).unwrap_or(u64::MAX))
    }

    /// The position of another reader.
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

    /// Adds a payload for all readers.
    pub(crate) fn push(&mut self, shared: SubscriptionPayload) {
        let bytes = shared.payload.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.payloads.push_back(Unread { payload: shared, unread: self.readers });
        let count = if self.newest { 1 } else { self.bounds.count };
        while self.payloads.len() > 1 && (self.payloads.len() > count || self.bytes > self.bounds.bytes) {
            self.drop_first();
        }
        self.drop_read();
    }

    /// The bytes that it could evict: all but its newest payload.
    pub(crate) fn spare(&self) -> usize {
        self.bytes.saturating_sub(self.payloads.back().map_or(0, |newest| newest.payload.payload.bytes()))
    }

    /// Evicts so many bytes or a little more, the oldest payloads first, as far as it can spare them.
    pub(crate) fn evict(&mut self, bytes: usize) {
        let least = self.bytes.saturating_sub(bytes);
        while self.payloads.len() > 1 && self.bytes > least {
            self.drop_first();
        }
    }

    /// Reads the payload at a position, and advances it.
    pub(crate) fn read(&mut self, position: &mut u64) -> RingRead {
        if *position < self.first {
            if !self.newest {
                return RingRead::Evicted;
            }
            *position = self.first;
        }
        let Some(waiting) = self.at_mut(*position) else { return RingRead::Empty };
        waiting.unread = waiting.unread.saturating_sub(1);
        let payload = waiting.payload.clone();
        *position = position.saturating_add(1);
        self.drop_read();
        RingRead::Payload(payload)
    }

    /// Removes the reader at this position.
    pub(crate) fn leave(&mut self, position: u64) {
        self.readers = self.readers.saturating_sub(1);
        let from = usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for waiting in self.payloads.iter_mut().skip(from) {
            waiting.unread = waiting.unread.saturating_sub(1);
        }
        self.drop_read();
    }

    fn at_mut(&mut self, position: u64) -> Option<&mut Unread> {
        self.payloads.get_mut(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// Removes what all readers have read.
    fn drop_read(&mut self) {
        let least = usize::from(self.newest);
        while self.payloads.len() > least && self.payloads.front().is_some_and(|waiting| waiting.unread == 0) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some(Unread { payload: shared, .. }) = self.payloads.pop_front() else { return };
        let bytes = shared.payload.bytes();
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
    use crate::execution::payload::Payload;

    const BOUNDS: RingBounds = RingBounds { count: 4, bytes: 100, all_bytes: 150 };

    fn payload(number: usize, bytes: usize) -> SubscriptionPayload {
        Payload::Result(format!("{number:0>bytes$}").into()).into()
    }

    fn ring(newest: bool) -> Ring {
        Ring::new(BOUNDS, KeptBytes::default(), newest)
    }

    #[test]
    fn readers_read_all_since_they_joined_and_read_payloads_are_removed() {
        let mut ring = ring(false);
        let mut early = ring.join();
        ring.push(payload(0, 10));
        let mut late = ring.join();
        ring.push(payload(1, 10));
        assert_eq!(ring.read(&mut late), RingRead::Payload(payload(1, 10)));
        assert_eq!(ring.read(&mut late), RingRead::Empty);
        assert_eq!(ring.kept.load(Ordering::Relaxed), 20);
        assert_eq!(ring.read(&mut early), RingRead::Payload(payload(0, 10)));
        assert_eq!(ring.read(&mut early), RingRead::Payload(payload(1, 10)));
        assert_eq!((ring.read(&mut early), ring.kept.load(Ordering::Relaxed)), (RingRead::Empty, 0));
    }

    #[test]
    fn payloads_beyond_number_or_bytes_are_evicted() {
        for (count, bytes, stays) in [(4, 1, true), (5, 1, false), (2, 50, true), (2, 51, false), (1, 1_000, true)] {
            let mut ring = ring(false);
            let mut place = ring.join();
            for number in 0..count {
                ring.push(payload(number, bytes));
            }
            let expected = if stays { RingRead::Payload(payload(0, bytes)) } else { RingRead::Evicted };
            assert_eq!(ring.read(&mut place), expected, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn eviction_removes_the_oldest_and_never_the_newest() {
        let mut ring = ring(false);
        let mut place = ring.join();
        (0..4).for_each(|number| ring.push(payload(number, 20)));
        assert_eq!(ring.spare(), 60);
        ring.evict(30);
        assert_eq!((ring.bytes, ring.spare(), ring.kept.load(Ordering::Relaxed)), (40, 20, 40));
        assert_eq!(ring.read(&mut place), RingRead::Evicted);
        ring.evict(usize::MAX);
        assert_eq!((ring.payloads.len(), ring.spare()), (1, 0));
        drop(ring);
    }

    #[test]
    fn newest_first_keeps_only_the_newest_for_slow_and_new_readers() {
        let mut ring = ring(true);
        let mut slow = ring.join();
        for number in 0..3 {
            ring.push(payload(number, 10));
        }
        let mut newcomer = ring.join();
        for place in [&mut slow, &mut newcomer] {
            assert_eq!(ring.read(place), RingRead::Payload(payload(2, 10)));
            assert_eq!(ring.read(place), RingRead::Empty);
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
        /// The model keeps everything that was ever sent, and for each reader how much of it that has passed.
        #[test]
        fn readers_read_in_order_without_a_gap_before_an_eviction(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut ring = ring(false);
            let (mut reported, mut readers) = (Vec::new(), Vec::<(u64, usize)>::new());
            for step in steps {
                match step {
                    Step::Join => readers.push((ring.join(), reported.len())),
                    Step::Push(bytes) => {
                        reported.push(payload(reported.len(), bytes));
                        ring.push(reported[reported.len() - 1].clone());
                    }
                    Step::Read(who) if !readers.is_empty() => {
                        let who = who % readers.len();
                        let (place, passed) = &mut readers[who];
                        match ring.read(place) {
                            RingRead::Payload(payload) => {
                                prop_assert_eq!(&payload, &reported[*passed]);
                                *passed += 1;
                            }
                            RingRead::Empty => prop_assert_eq!(*passed, reported.len()),
                            RingRead::Evicted => {
                                let behind = &reported[*passed..];
                                let bytes: usize = behind.iter().map(|reported| reported.payload.bytes()).sum();
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
                let furthest = readers.iter().map(|(_, passed)| reported.len() - passed).max().unwrap_or(0);
                prop_assert!(ring.payloads.len() <= furthest.min(BOUNDS.count));
                prop_assert!(ring.bytes <= BOUNDS.bytes || ring.payloads.len() == 1);
                prop_assert_eq!(ring.bytes, ring.kept.load(Ordering::Relaxed));
                prop_assert_eq!(ring.readers(), readers.len());
            }
        }
    }
}
