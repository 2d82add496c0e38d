//! The signals that wait to be taken: so many at most.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::NodeSignal;

#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<NodeSignal>>,
    capacity: usize,
}

impl Queue {
    /// For this many signals at most, and never fewer than one: the loss of others.
    pub(super) fn new(capacity: usize) -> Queue {
        Queue { waiting: Mutex::default(), capacity: capacity.max(1) }
    }

    /// Puts a signal behind those that wait. A loss takes their place: what they tell must be asked for anew. So does a
    /// signal for which there is no room.
    pub(super) fn push(&self, signal: NodeSignal) {
        let mut waiting = self.waiting();
        if signal == NodeSignal::Lost || waiting.len() >= self.capacity {
            waiting.clear();
            waiting.push_back(NodeSignal::Lost);
        } else {
            waiting.push_back(signal);
        }
    }

    pub(super) fn drain(&self) -> Vec<NodeSignal> {
        self.waiting().drain(..).collect()
    }

    /// Every step leaves the signals whole, so a thread that failed while it held them left them whole.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<NodeSignal>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash;

    use super::*;

    fn block(number: u8) -> NodeSignal {
        NodeSignal::BlockConnected(BlockHash::from_byte_array([number; 32]))
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
        for signal in [block(1), NodeSignal::Lost, block(2), NodeSignal::Lost, NodeSignal::Lost, block(3)] {
            queue.push(signal);
        }
        assert_eq!(queue.drain(), [NodeSignal::Lost, block(3)]);
    }

    #[test]
    fn a_signal_too_many_is_a_loss() {
        let queue = Queue::new(3);
        (1..=4).for_each(|number| queue.push(block(number)));
        assert_eq!(queue.drain(), [NodeSignal::Lost]);
        for number in 1..=100 {
            queue.push(block(number));
            assert!(queue.waiting().len() <= 3);
        }
        assert_eq!(queue.drain()[0], NodeSignal::Lost);
        let least = Queue::new(0);
        least.push(block(1));
        assert_eq!(least.drain(), [block(1)]);
    }
}
