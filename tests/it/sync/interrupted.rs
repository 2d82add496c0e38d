//! A node that fails while blocks are followed: what is published stays equal to the index, a shallow reorganisation shows no shorter
//! chain, and what was announced becomes durable.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bitcoin::{Block, BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, IndexOptions, RawBlocks, Tip};
use btcgraph::live::{ChainEvent, Event, Live};
use btcgraph::mempool::MempoolLimits;
use btcgraph::node::{Auth, Node, NodeOptions, StopFlag};
use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::{Follow, FreezeBounds, PersistentMempool, SyncError, Until, Wake, run};
use btcgraph::view::Published;

use super::announced::height_in;
use super::freezing::{FrozenFollower, hostile_chain};
use crate::support::bitcoind::wait_for;
use crate::support::following;
use crate::support::frozen::BlockBytes;
use crate::support::indexed::{Indexed, options};

const PATIENCE: Duration = Duration::from_mins(1);
/// The height of the first chain, of which the five newest blocks are live.
const TIP: u32 = 120;
const BOUNDS: FreezeBounds = FreezeBounds { depth: 5, every: 20, transactions: u64::MAX };

/// Blocks of which one cannot be read for a while.
struct LackingBlocks {
    blocks: BlockBytes,
    missing: Mutex<Option<BlockHash>>,
}

impl RawBlocks for LackingBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        // the whole block: transactions of it are read, too, when blocks are disconnected that spend their outputs
        if offset == 0 && *self.missing.lock().unwrap() == Some(block.hash) {
            return Err("the node does not return it now".into());
        }
        self.blocks.read(block, offset, length)
    }
}

/// An index with so little cache that each block fills an update, and a node that has left its chain for a longer branch.
struct Reorganised {
    followed: FrozenFollower,
    mempool: PersistentMempool,
    published: Published,
    live: Live,
    lacking: Arc<LackingBlocks>,
    /// The first chain.
    blocks: Vec<Arc<Block>>,
    /// The memory for blocks on their way; with 1 each block is a batch.
    buffer_bytes: usize,
}

impl Reorganised {
    /// A node that replaces so many blocks by two more. The bytes of the block at one height are `missing`.
    fn by(depth: u32, missing: Option<usize>) -> Self {
        let (chain, mut hostile) = hostile_chain(83, TIP);
        let mut followed = FrozenFollower::start(chain, BOUNDS);
        followed.catch_up();
        let blocks = followed.blocks();
        let branch = |chain: &mut SimChain| hostile.branch(chain, depth, depth + 2);
        let branch = followed.sim.with(|world| world.change_chain(branch)).unwrap().unwrap();

        let directory = std::mem::replace(&mut followed.indexed, Indexed::empty()).directory;
        let small = IndexOptions { cache_bytes: 1 << 10, ..options(directory.path()) };
        followed.indexed = Indexed { index: Index::open(&small).unwrap(), directory };
        let missing = Mutex::new(missing.map(|height| blocks[height].block_hash()));
        let bytes = BlockBytes::of(blocks.iter().chain(&branch).map(AsRef::as_ref));
        let lacking = Arc::new(LackingBlocks { blocks: bytes, missing });
        followed.indexed.index.set_raw_blocks(lacking.clone());
        let mempool = PersistentMempool::load(&followed.indexed.index, MempoolLimits::default()).unwrap();
        let (published, live) = (Published::default(), Live::default());
        Self { followed, mempool, published, live, lacking, blocks, buffer_bytes: 64 << 20 }
    }

    fn try_to_follow(&mut self) -> Result<(), SyncError> {
        let FrozenFollower { node, indexed: Indexed { index, directory }, .. } = &mut self.followed;
        let (freezing, wake) = (following::freezing(index, node, directory.path(), BOUNDS), Wake::default());
        run(Follow {
            mempool: Some(&mut self.mempool),
            freezing: Some(freezing),
            buffer_bytes: self.buffer_bytes,
            ..following::follow(node, index, &self.published, &self.live, &wake)
        })
    }

    /// The published tip, which is that of the index.
    #[track_caller]
    fn tip(&self) -> Tip {
        let tip = self.published.head().unwrap().tip;
        assert_eq!(Some(tip), self.followed.indexed.index.snapshot().unwrap().tip());
        tip
    }

    /// The tip of the first chain.
    fn first_tip(&self) -> Tip {
        Tip { height: TIP.into(), hash: self.blocks.last().unwrap().block_hash() }
    }
}

/// The heights of disconnected and connected blocks.
fn changes(events: impl Iterator<Item = Arc<Event>>) -> (Vec<u32>, Vec<u32>) {
    let (mut left, mut joined) = (Vec::new(), Vec::new());
    for event in events.flat_map(|event| event.chain.clone()) {
        match event {
            ChainEvent::Disconnected(tip) => left.push(tip.height.to_u32()),
            ChainEvent::Connected(tip) => joined.push(tip.height.to_u32()),
        }
    }
    (left, joined)
}

#[track_caller]
fn assert_unavailable(followed: Result<(), SyncError>) {
    let error = followed.unwrap_err();
    assert!(matches!(error, SyncError::Index(IndexError::RawUnavailable { .. })), "{error}");
}

#[test]
fn what_a_deep_reorg_committed_before_it_failed_is_published() {
    let mut stage = Reorganised::by(15, Some(113));
    let mut events = stage.live.subscribe();
    let mut received = || changes(std::iter::from_fn(|| events.try_recv().ok()));
    assert_unavailable(stage.try_to_follow());
    assert_eq!(stage.tip().height, Height::from(113));
    assert_eq!(received(), ((114..=TIP).rev().collect(), Vec::new()));

    *stage.lacking.missing.lock().unwrap() = None;
    stage.try_to_follow().unwrap();
    assert_eq!(stage.tip().height, Height::from(TIP + 2));
    assert_eq!(received(), ((106..=113).rev().collect(), (106..=TIP + 2).collect()));
    let head = stage.published.head().unwrap();
    let recorded = head.chain.reorgs(0..u64::MAX).unwrap().flat_map(|row| row.unwrap().1.disconnected);
    let left: Vec<_> = stage.blocks[106..].iter().rev().map(|block| block.block_hash()).collect();
    assert_eq!(recorded.collect::<Vec<_>>(), left);
}

#[test]
fn a_shallow_reorg_that_fails_changes_nothing() {
    let mut stage = Reorganised::by(8, Some(114));
    let mut events = stage.live.subscribe();
    let mut received = || changes(std::iter::from_fn(|| events.try_recv().ok()));
    assert_unavailable(stage.try_to_follow());
    assert_eq!(stage.tip(), stage.first_tip());
    assert_eq!(received(), (Vec::new(), Vec::new()));

    *stage.lacking.missing.lock().unwrap() = None;
    stage.try_to_follow().unwrap();
    assert_eq!(received(), ((113..=TIP).rev().collect(), (113..=TIP + 2).collect()));
}

/// A client that retries for so long.
fn client(sim: &SimNode, patience: Duration) -> Node {
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let mut options = NodeOptions::new(Network::Regtest, sim.url(), auth);
    options.retry.patience = patience;
    Node::connect(options).unwrap()
}

/// Whether the node sends blocks.
fn serve_blocks(sim: &SimNode, is_serving: bool) {
    for method in ["block", "getblock"] {
        sim.override_response(method, (!is_serving).then_some((503, "Work queue depth exceeded")));
    }
}

#[test]
fn a_block_is_not_disconnected_before_another_is_there() {
    let mut stage = Reorganised::by(1, None);
    stage.followed.node = client(&stage.followed.sim, Duration::ZERO);
    let mut events = stage.live.subscribe();
    serve_blocks(&stage.followed.sim, false);
    let error = stage.try_to_follow().unwrap_err();
    assert!(matches!(error, SyncError::Node(_)), "{error}");
    assert_eq!(stage.tip(), stage.first_tip());
    // nor is it after a crash
    stage.followed.restart();
    assert_eq!(stage.tip(), stage.first_tip());

    serve_blocks(&stage.followed.sim, true);
    stage.try_to_follow().unwrap();
    let received = changes(std::iter::from_fn(|| events.try_recv().ok()));
    assert_eq!(received, (vec![TIP], (TIP..=TIP + 2).collect()));
}

#[test]
fn a_shallow_reorg_is_rolled_back_when_the_node_fails() {
    let mut stage = Reorganised::by(8, None);
    stage.buffer_bytes = 1;
    stage.followed.node = client(&stage.followed.sim, Duration::ZERO);
    let mut events = stage.live.subscribe();
    let mut received = || changes(std::iter::from_fn(|| events.try_recv().ok()));
    // each block fills the update, and two of them come before the node fails
    let third = format!("block/{}.bin", stage.followed.blocks()[115].block_hash());
    stage.followed.sim.override_response(&third, Some((503, "Work queue depth exceeded")));
    let error = stage.try_to_follow().unwrap_err();
    assert!(matches!(error, SyncError::Node(_)), "{error}");
    assert_eq!(stage.tip(), stage.first_tip());
    assert_eq!(received(), (Vec::new(), Vec::new()));

    stage.followed.sim.override_response(&third, None);
    stage.try_to_follow().unwrap();
    assert_eq!(stage.tip().height, Height::from(TIP + 2));
    assert_eq!(received(), ((113..=TIP).rev().collect(), (113..=TIP + 2).collect()));
}

/// Raises the flag when the test ends, also if it fails.
struct RaisedAtTheEnd<'f>(&'f StopFlag);

impl Drop for RaisedAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

#[test]
fn a_stop_while_bytes_of_frozen_blocks_are_requested_is_no_failure() {
    let (chain, mut hostile) = hostile_chain(85, TIP);
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    followed.catch_up();
    // they spend outputs of frozen blocks
    for _ in 0..10 {
        followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
    }
    let reopened = |Indexed { index, directory }| {
        drop(index);
        Indexed::within(directory)
    };
    let FrozenFollower { sim, indexed, .. } = followed;
    let mut indexed = reopened(indexed);
    let stop = StopFlag::new();
    // it is asked again and again for longer than the test waits
    let node = client(&sim, 10 * PATIENCE).with_stop(stop.clone());
    sim.override_response("blockpart", Some((503, "Work queue depth exceeded")));
    let requests = sim.calls("blockpart");
    thread::scope(|scope| {
        let _stops = RaisedAtTheEnd(&stop);
        let running = scope.spawn(|| {
            let freezing = following::freezing(&indexed.index, &node, indexed.directory.path(), BOUNDS);
            let (published, live) = (Published::default(), Live::default());
            following::catch_up(&node, &mut indexed.index, &published, &live, Some(freezing))
        });
        wait_for("the request for the bytes", PATIENCE, || (sim.calls("blockpart") > requests).then_some(()));
        stop.raise();
        running.join().unwrap().unwrap();
    });
    sim.override_response("blockpart", None);
    let node = client(&sim, Duration::ZERO);
    let mut indexed = reopened(indexed);
    let freezing = following::freezing(&indexed.index, &node, indexed.directory.path(), BOUNDS);
    let (published, live) = (Published::default(), Live::default());
    following::catch_up(&node, &mut indexed.index, &published, &live, Some(freezing)).unwrap();
    let tip = indexed.index.snapshot().unwrap().tip().unwrap();
    assert_eq!(tip.height, Height::from(TIP + 10));
}

#[test]
fn a_block_becomes_durable_while_the_next_one_is_awaited() {
    let mut chain = SimChain::new(84);
    chain.mine_empty(20).unwrap();
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let mine = || drop(sim.with(|world| world.change_chain(|chain| chain.mine(Vec::new()))).unwrap().unwrap());
    let Indexed { mut index, directory } = Indexed::empty();
    let (published, live, wake, stop) = (Published::default(), Live::default(), Wake::default(), StopFlag::new());
    // it is asked again and again for longer than the test waits
    let node = client(&sim, 10 * PATIENCE).with_stop(stop.clone());
    let tip = || published.head().map(|head| head.tip.height.to_u32());
    let wait_for_tip = |height| wait_for("the tip", PATIENCE, || (tip() == Some(height)).then_some(()));
    thread::scope(|scope| {
        let _stops = RaisedAtTheEnd(&stop);
        let running = scope.spawn(|| {
            let follow = following::follow(&node, &mut index, &published, &live, &wake);
            // the next block is there before the one before is durable
            run(Follow { until: Until::Stopped, poll: Duration::from_millis(10), ..follow })
        });
        wait_for_tip(20);
        mine();
        wait_for_tip(21);
        serve_blocks(&sim, false);
        let requests = sim.calls("block");
        mine();
        wait_for("the request for the block", PATIENCE, || (sim.calls("block") > requests).then_some(()));
        wait_for("the disk to have the block before it", PATIENCE, || {
            (height_in(directory.path()) == 21).then_some(())
        });
        assert_eq!(tip(), Some(21));
        serve_blocks(&sim, true);
        wait_for_tip(22);
        stop.raise();
        running.join().unwrap().unwrap();
    });
}
