//! What happens to a world, in order, for whoever follows: the last so many happenings, each with its number.

use std::collections::VecDeque;

use bitcoin::{BlockHash, Txid};

use crate::chain::Height;

/// One thing that happened. A node's ZMQ topic `sequence` tells all but those that say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
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
    /// A transaction left because a replacement conflicts with it or with what it stood on (`R`).
    Replaced {
        /// The transaction.
        txid: Txid,
        /// What replaced it.
        by: Txid,
    },
    /// A transaction left for want of room, or for standing on one that did (`R`).
    Evicted {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction left because it waited too long, or stood on one that did (`R`).
    Expired {
        /// The transaction.
        txid: Txid,
    },
    /// A transaction left the mempool for a block. No message of its own: the block tells.
    Mined {
        /// The transaction.
        txid: Txid,
        /// The block.
        block: BlockHash,
    },
    /// A transaction left because a block spends what it, or what it stood on, spent (`R`).
    Conflicted {
        /// The transaction.
        txid: Txid,
        /// The transaction of the block.
        by: Txid,
        /// The block.
        block: BlockHash,
    },
    /// A transaction left because after a reorganisation no next block could hold it: what it spends does not exist
    /// any more or is immature, its lock time has not come again, or too much stands below it (`R`).
    Invalidated {
        /// The transaction.
        txid: Txid,
    },
    /// A block joined the active chain (`C`). It comes after what its connection did to the mempool.
    BlockConnected {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: Height,
    },
    /// A block left the active chain (`D`). It comes before what its disconnection did to the mempool.
    BlockDisconnected {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: Height,
    },
}

impl Happening {
    /// Whether it changed the mempool, so that it has a mempool sequence number of its own.
    const fn changes_mempool(self) -> bool {
        !matches!(self, Happening::BlockConnected { .. } | Happening::BlockDisconnected { .. })
    }
}

/// A happening and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Noted {
    /// How many happenings came before it.
    pub number: u64,
    /// The mempool sequence number as Core counts: each transaction that enters or leaves has its own, the first is 1;
    /// with a block, the number that the next such transaction will have.
    pub mempool_sequence: u64,
    /// What happened.
    pub happening: Happening,
}

/// The number of the first change of the mempool after a node's start (`m_sequence_number` of Core's `txmempool.h`).
const FIRST_SEQUENCE: u64 = 1;

/// The last happenings.
#[derive(Clone, Debug)]
pub(super) struct Log {
    noted: VecDeque<Noted>,
    capacity: usize,
    next_number: u64,
    next_sequence: u64,
}

impl Log {
    pub(super) fn new(capacity: usize) -> Self {
        Log { noted: VecDeque::new(), capacity, next_number: 0, next_sequence: FIRST_SEQUENCE }
    }

    pub(super) fn note(&mut self, happening: Happening) {
        self.noted.push_back(Noted { number: self.next_number, mempool_sequence: self.next_sequence, happening });
        self.next_number += 1;
        self.next_sequence += u64::from(happening.changes_mempool());
        if self.noted.len() > self.capacity {
            self.noted.pop_front();
        }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Begins to count the changes of the mempool anew.
    pub(super) fn restart_sequence(&mut self) {
        self.next_sequence = FIRST_SEQUENCE;
    }

    /// What was noted from this number on; `None` when some of it is forgotten.
    pub(super) fn since(&self, number: u64) -> Option<impl Iterator<Item = &Noted>> {
        let oldest = self.noted.front().map_or(self.next_number, |noted| noted.number);
        let skipped = usize::try_from(number.checked_sub(oldest)?).ok()?;
        Some(self.noted.iter().skip(skipped))
    }
}
