//! A node that fails while blocks are followed: what is published stays equal to the index.

use std::error::Error;
use std::sync::{Arc, Mutex};

use bitcoin::{Block, BlockHash};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, IndexOptions, RawBlocks, Tip};
use btcgraph::live::{ChainEvent, Event, Live};
use btcgraph::mempool::MempoolLimits;
use btcgraph::sim::SimChain;
use btcgraph::sync::{Follow, FreezeBounds, PersistentMempool, SyncError, Wake, run};
use btcgraph::view::Published;

use super::freezing::{FrozenFollower, hostile_chain};
use crate::support::following;
use crate::support::frozen::BlockBytes;
use crate::support::indexed::{Indexed, options};

/// The height of the first chain, of which the five newest blocks are live.
const TIP: u32 = 120;
const BOUNDS: FreezeBounds = FreezeBounds { depth: 5, every: 20 };

/// Blocks of which one cannot be read for a while.
struct LackingBlocks {
    blocks: BlockBytes,
    missing: Mutex<Option<BlockHash>>,
}

impl RawBlocks for LackingBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        if *self.missing.lock().unwrap() == Some(block.hash) {
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
        Self { followed, mempool, published: Published::default(), live: Live::default(), lacking, blocks }
    }

    fn try_to_follow(&mut self) -> Result<(), SyncError> {
        let FrozenFollower { node, indexed: Indexed { index, directory }, .. } = &mut self.followed;
        let (freezing, wake) = (following::freezing(index, node, directory.path(), BOUNDS), Wake::default());
        run(Follow {
            mempool: Some(&mut self.mempool),
            freezing: Some(freezing),
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
