//! The events of a world in order, for subscribers: the most recent ones, each with its number.

use std::collections::VecDeque;

use bitcoin::{BlockHash, Txid};

use crate::chain::Height;

/// A change of mempool or chain. A node's ZMQ topic `sequence` has a message for each but `Mined`, with the letter in
/// parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorldEvent {
    /// A transaction entered the mempool (`A`).
    Arrived {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction of a disconnected block is in the mempool again (`A`).
    Returned {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction left because a replacement conflicts with it or with an ancestor of it (`R`).
    Replaced {
        /// The transaction.
        txid: Txid,
        /// The replacement.
        by: Txid,
    },
    /// A transaction was evicted from a full mempool, or descends from one that was (`R`).
    Evicted {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction left because of its age, or descends from one that did (`R`).
    Expired {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction left the mempool because it was mined. It has no message of its own: subscribers see the block.
    Mined {
        /// The transaction.
        txid: Txid,
        /// The block.
        block: BlockHash,
    },
    /// A transaction left because a block spends an output that it or an ancestor of it spent (`R`).
    Conflicted {
        /// The transaction.
        txid: Txid,
        /// The transaction of the block.
        by: Txid,
        /// The block.
        block: BlockHash,
    },
    /// A transaction left because a reorganisation made it invalid for the next block: an output that it spends does
    /// not exist any more or is immature, its lock time is not reached again, or it has too many ancestors (`R`).
    Invalidated {
        /// The transaction.
        txid: Txid,
    },
    /// A block joined the active chain (`C`). It comes after the changes of the mempool that it caused.
    BlockConnected {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: Height,
    },
    /// A block left the active chain (`D`). It comes before the changes of the mempool that it caused.
    BlockDisconnected {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: Height,
    },
}

impl WorldEvent {
    /// Whether it changed the mempool, so that it has a mempool sequence number of its own.
    const fn changes_mempool(self) -> bool {
        !matches!(self, WorldEvent::BlockConnected { .. } | WorldEvent::BlockDisconnected { .. })
    }
}

/// An event with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumberedEvent {
    /// The number of events before it.
    pub number: u64,
    /// The mempool sequence number as Core counts: each transaction that enters or leaves has its own, the first is 1;
    /// with a block, the number of the next such transaction.
    pub mempool_sequence: u64,
    /// The event.
    pub event: WorldEvent,
}

/// The number of the first change of the mempool after a node's start (`m_sequence_number` of Core's `txmempool.h`).
const FIRST_SEQUENCE: u64 = 1;

/// The most recent events.
#[derive(Clone, Debug)]
pub(super) struct EventLog {
    numbered: VecDeque<NumberedEvent>,
    capacity: usize,
    next_number: u64,
    next_sequence: u64,
}

impl EventLog {
    pub(super) fn new(capacity: usize) -> Self {
        EventLog { numbered: VecDeque::new(), capacity, next_number: 0, next_sequence: FIRST_SEQUENCE }
    }

    pub(super) fn push(&mut self, event: WorldEvent) {
        self.numbered.push_back(NumberedEvent {
            number: self.next_number,
            mempool_sequence: self.next_sequence,
            event,
        });
        self.next_number += 1;
        self.next_sequence += u64::from(event.changes_mempool());
        if self.numbered.len() > self.capacity {
            self.numbered.pop_front();
        }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Restarts the count of the changes of the mempool.
    pub(super) fn restart_sequence(&mut self) {
        self.next_sequence = FIRST_SEQUENCE;
    }

    /// The events from this number on; `None` if some of them are dropped.
    pub(super) fn since(&self, number: u64) -> Option<impl Iterator<Item = &NumberedEvent>> {
        let oldest = self.numbered.front().map_or(self.next_number, |numbered| numbered.number);
        let skipped = usize::try_from(number.checked_sub(oldest)?).ok()?;
        Some(self.numbered.iter().skip(skipped))
    }
}
