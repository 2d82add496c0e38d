//! A bounded queue of signals that wait to be drained.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};

use super::signal::{NodeSignal, ReceivedSignal};

#[derive(Debug)]
pub(super) struct SignalQueue {
    waiting: Mutex<VecDeque<ReceivedSignal>>,
    capacity: usize,
}

impl SignalQueue {
    /// A queue of at most this many signals, and of at least one: [`NodeSignal::Lost`].
    pub(super) fn new(capacity: usize) -> SignalQueue {
        SignalQueue { waiting: Mutex::default(), capacity: capacity.max(1) }
    }

    /// Appends a signal. A loss replaces all queued signals, since the consumer then requests the whole state. A signal
    /// that does not fit becomes a loss.
    pub(super) fn push(&self, received: ReceivedSignal) {
        let mut waiting = self.waiting();
        if received.signal == NodeSignal::Lost || waiting.len() >= self.capacity {
            waiting.clear();
            waiting.push_back(ReceivedSignal { signal: NodeSignal::Lost, ..received });
        } else {
            waiting.push_back(received);
        }
    }

    pub(super) fn drain(&self) -> Vec<ReceivedSignal> {
        self.waiting().drain(..).collect()
    }

    pub(super) fn may_chain_have_changed(&self) -> bool {
        self.waiting().iter().any(|received| received.signal.may_change_chain())
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<ReceivedSignal>> {
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use bitcoin::hashes::Hash;
    use bitcoin::{BlockHash, Txid};

    use super::*;

    fn second(number: u8) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(number.into())
    }

    /// A signal that arrives in the second of its number.
    fn block(number: u8) -> ReceivedSignal {
        let signal = NodeSignal::BlockConnected(BlockHash::from_byte_array([number; 32]));
        ReceivedSignal { signal, at: second(number) }
    }

    fn lost(number: u8) -> ReceivedSignal {
        ReceivedSignal { signal: NodeSignal::Lost, at: second(number) }
    }

    #[test]
    fn signals_are_drained_in_order_and_once() {
        let queue = SignalQueue::new(3);
        (1..=3).for_each(|number| queue.push(block(number)));
        assert_eq!(queue.drain(), [block(1), block(2), block(3)]);
        assert_eq!(queue.drain(), []);
    }

    #[test]
    fn the_chain_may_have_changed_until_the_signal_of_a_block_is_drained() {
        let queue = SignalQueue::new(3);
        let added = NodeSignal::Added { txid: Txid::all_zeros(), mempool_sequence: 1 };
        for (signal, may_have_changed) in [(added, false), (block(1).signal, true), (added, true)] {
            queue.push(ReceivedSignal { signal, at: second(1) });
            assert_eq!(queue.may_chain_have_changed(), may_have_changed);
        }
        assert_eq!(queue.drain().len(), 3);
        assert!(!queue.may_chain_have_changed());
        queue.push(lost(2));
        assert!(queue.may_chain_have_changed());
    }

    #[test]
    fn a_loss_replaces_the_queued_signals() {
        let queue = SignalQueue::new(3);
        for signal in [block(1), lost(2), block(2), lost(3), lost(4), block(5)] {
            queue.push(signal);
        }
        assert_eq!(queue.drain(), [lost(4), block(5)]);
    }

    #[test]
    fn a_signal_beyond_the_capacity_is_a_loss() {
        let queue = SignalQueue::new(3);
        (1..=4).for_each(|number| queue.push(block(number)));
        assert_eq!(queue.drain(), [lost(4)]);
        for number in 1..=100 {
            queue.push(block(number));
            assert!(queue.waiting().len() <= 3);
        }
        assert_eq!(queue.drain()[0].signal, NodeSignal::Lost);
        let least = SignalQueue::new(0);
        least.push(block(1));
        assert_eq!(least.drain(), [block(1)]);
    }
}
