//! Reorganisation records that wait for the node's mempool: how long, and for which write.

use std::num::NonZeroUsize;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::super::mempool::tests::{arrival, genesis, spending, txid};
use super::super::mempool::{MAX_EVENTS, PersistentMempool};
use super::super::sync_loop::{Follow, Until};
use super::super::wake::Wake;
use super::*;
use crate::index::{Index, Reorg, ReorgOutcome, Tip};
use crate::live::Live;
use crate::mempool::MempoolLimits;
use crate::node::fake::{FakeNode, regtest};
use crate::node::{Node, Signals};
use crate::view::Published;

/// A record of one disconnected block, with a transaction that was first seen in second 5.
fn record(fork: Tip) -> Reorg {
    Reorg {
        at: 1,
        fork,
        disconnected: vec![BlockHash::from_byte_array([9; 32])],
        connected: Vec::new(),
        outcome: None,
        first_seen: vec![(txid(1), 5)],
    }
}

/// An index of the genesis block with that record.
fn with_record() -> (tempfile::TempDir, Index) {
    let (directory, mut index) = genesis();
    let mut update = index.update().unwrap();
    let fork = update.tip().unwrap();
    update.record_reorg(&record(fork)).unwrap();
    update.commit().unwrap();
    (directory, index)
}

/// The newest record.
fn newest(chain: &Snapshot) -> Reorg {
    chain.reorgs(0..u64::MAX).unwrap().next_back().unwrap().unwrap().1
}

/// A loop on a node that does not report on its mempool.
pub(in crate::sync) struct Stage {
    _fake: FakeNode,
    node: Node,
    published: Published,
    live: Live,
    wake: Wake,
}

impl Stage {
    pub(in crate::sync) fn new() -> Self {
        let fake = FakeNode::start(regtest);
        let node = Node::connect(fake.options()).unwrap();
        Self { _fake: fake, node, published: Published::default(), live: Live::default(), wake: Wake::default() }
    }

    /// Resumes the record.
    fn begin<'a>(&'a self, index: &'a mut Index, mempool: &'a mut PersistentMempool) -> SyncLoop<'a> {
        let mut following = self.following(index, mempool, None);
        following.publish_chain().unwrap();
        following.resume_record().unwrap();
        following
    }

    /// The loop before its first round.
    pub(in crate::sync) fn following<'a>(
        &'a self,
        index: &'a mut Index,
        mempool: &'a mut PersistentMempool,
        signals: Option<&'a Signals>,
    ) -> SyncLoop<'a> {
        SyncLoop::new(Follow {
            node: &self.node,
            index,
            published: &self.published,
            live: &self.live,
            mempool: Some(mempool),
            withheld: None,
            signals,
            until: Until::Stopped,
            poll: Duration::from_secs(1),
            wake: &self.wake,
            connections: NonZeroUsize::MIN,
            buffer_bytes: 1 << 20,
            freezing: None,
        })
    }
}

#[test]
fn a_record_waits_ten_minutes_for_the_outcome() {
    let (_directory, mut index) = with_record();
    let mut persistent = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    let stage = Stage::new();
    let before = Instant::now();
    let mut following = stage.begin(&mut index, &mut persistent);
    let after = Instant::now();
    let mut events = stage.live.subscribe();

    let almost = Duration::from_mins(10).checked_sub(Duration::from_millis(1)).unwrap();
    following.close_overdue_record(before + almost).unwrap();
    assert!(events.try_recv().is_err(), "the wait is not over");
    assert_eq!(newest(&following.follow.index.snapshot().unwrap()).outcome, None);

    following.close_overdue_record(after + Duration::from_mins(10)).unwrap();
    let event = events.try_recv().unwrap();
    assert!(event.chain.is_empty());
    let abandoned = newest(&event.head.chain);
    assert_eq!((abandoned.outcome, abandoned.first_seen), (Some(ReorgOutcome::default()), Vec::new()));
    assert!(persistent.freed.is_empty(), "the times are not needed any more");
}

#[test]
fn a_record_stays_open_until_a_large_mempool_is_written() {
    let at_once = u32::try_from(MAX_EVENTS).unwrap();
    let (_directory, mut index) = with_record();
    let mut persistent = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    for vout in 0..=at_once {
        persistent.mempool.add(arrival(&spending(&[bitcoin::OutPoint { txid: txid(7), vout }]))).unwrap();
    }
    let stage = Stage::new();
    let mut following = stage.begin(&mut index, &mut persistent);
    let mut finish = |expected: bool| {
        let chain = following.follow.index.snapshot().unwrap();
        assert_eq!(following.finish_reorg_within(&chain, Duration::ZERO).unwrap(), expected);
        let chain = following.follow.index.snapshot().unwrap();
        (chain.persisted_mempool().unwrap().count(), newest(&chain))
    };
    let (written, reorg) = finish(false);
    assert_eq!(u32::try_from(written).unwrap(), at_once);
    // no other place has these times
    assert_eq!((reorg.outcome, reorg.first_seen), (None, vec![(txid(1), 5)]));
    let (written, reorg) = finish(true);
    assert_eq!(u32::try_from(written).unwrap(), at_once + 1);
    assert!(reorg.outcome.is_some() && reorg.first_seen.is_empty(), "{reorg:?}");
}
