//! The signals that wait to be taken: so many at most.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{HeardSignal, NodeSignal};

#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<HeardSignal>>,
    capacity: usize,
}

impl Queue {
    /// For this many signals at most, and never fewer than one: the loss of others.
    pub(super) fn new(capacity: usize) -> Queue {
        Queue { waiting: Mutex::default(), capacity: capacity.max(1) }
    }

    /// Puts a signal behind those that wait. A loss takes their place: what they tell must be asked for anew. So does a
    /// signal for which there is no room.
    pub(super) fn push(&self, heard: HeardSignal) {
        let mut waiting = self.waiting();
        if heard.signal == NodeSignal::Lost || waiting.len() >= self.capacity {
            waiting.clear();
            waiting.push_back(HeardSignal { signal: NodeSignal::Lost, ..heard });
        } else {
            waiting.push_back(heard);
        }
    }

    pub(super) fn drain(&self) -> Vec<HeardSignal> {
        self.waiting().drain(..).collect()
    }

    /// Every step leaves the signals whole, so a thread that failed while it held them left them whole.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<HeardSignal>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash;

    use super::*;

    fn second(number: u8) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(number.into())
    }

    /// A signal that was heard in the second of its number.
    fn block(number: u8) -> HeardSignal {
        let signal = NodeSignal::BlockConnected(BlockHash::from_byte_array([number; 32]));
        HeardSignal { signal, at: second(number) }
    }

    fn lost(number: u8) -> HeardSignal {
        HeardSignal { signal: NodeSignal::Lost, at: second(number) }
    }

    #[test]
    fn signals_come_out_in_their_order_and_once() {
        let queue = Queue::new(3);
        (1..=3).for_each(|number| queue.push(block(number)));
        assert_eq!(queue.drain(), [block(1), block(2), block(3)]);
        assert_eq!(queue.drain(), []);
    }

    #[test]
    fn a_loss_takes_the_place_of_what_waits() {
        let queue = Queue::new(3);
        for signal in [block(1), lost(2), block(2), lost(3), lost(4), block(5)] {
            queue.push(signal);
        }
        assert_eq!(queue.drain(), [lost(4), block(5)]);
    }

    #[test]
    fn a_signal_too_many_is_a_loss() {
        let queue = Queue::new(3);
        (1..=4).for_each(|number| queue.push(block(number)));
        assert_eq!(queue.drain(), [lost(4)]);
        for number in 1..=100 {
            queue.push(block(number));
            assert!(queue.waiting().len() <= 3);
        }
        assert_eq!(queue.drain()[0].signal, NodeSignal::Lost);
        let least = Queue::new(0);
        least.push(block(1));
        assert_eq!(least.drain(), [block(1)]);
    }
}
