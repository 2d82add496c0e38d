//! Stale blocks that the index never connected are stored from the node's branches, as if it had followed them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, Network};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions, StaleBlock};
use btcgraph::live::Live;
use btcgraph::node::{Auth, Node, NodeOptions, StopFlag};
use btcgraph::sim::{Hostile, SimChain};
use btcgraph::sync::{Follow, Until, Wake, run};
use btcgraph::view::Published;
use serde_json::json;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::following;
use crate::support::indexed::{Indexed, options};

const PATIENCE: Duration = Duration::from_mins(1);

/// A real node, and the chain that it was sent.
struct Branched {
    real: RealNode,
    chain: SimChain,
    hostile: Hostile,
}

impl Branched {
    fn start(blocks: u32) -> Option<Self> {
        let real = RealNode::start(&[])?;
        let mut branched = Self { real, chain: SimChain::new(77), hostile: Hostile::new(77) };
        let blocks: Vec<_> = (0..blocks).map(|_| branched.hostile.mine(&mut branched.chain).unwrap()).collect();
        branched.submit(&blocks);
        Some(branched)
    }

    fn submit(&self, blocks: &[Arc<Block>]) {
        for block in blocks {
            let verdict = self.real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
            assert!(verdict.is_null() || verdict == "inconclusive", "{verdict}");
        }
    }

    /// Mines a branch that leaves the chain so many blocks below its tip, and sends it to the node.
    fn branch(&mut self, depth: u32, length: u32) -> Vec<Arc<Block>> {
        let blocks = self.hostile.branch(&mut self.chain, depth, length).unwrap();
        self.submit(&blocks);
        blocks
    }

    fn client(&self, stop: &StopFlag) -> Node {
        let auth = Auth::Cookie(self.real.cookie_path());
        let node = Node::connect(NodeOptions::new(Network::Regtest, self.real.rpc_url(), auth)).unwrap();
        node.with_stop(stop.clone())
    }

    fn catch_up(&self, indexed: &mut Indexed) {
        let node = self.client(&StopFlag::new());
        following::catch_up(&node, &mut indexed.index, &Published::default(), &Live::default(), None).unwrap();
    }

    /// Follows the node while `act` runs.
    fn follow_during(&self, indexed: &mut Indexed, act: impl FnOnce(&Published)) {
        let (published, live, wake, stop) = (Published::default(), Live::default(), Wake::default(), StopFlag::new());
        let node = self.client(&stop);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let follow = following::follow(&node, &mut indexed.index, &published, &live, &wake);
                // a request does not wait for the next poll
                run(Follow { until: Until::Stopped, poll: Duration::from_secs(30), ..follow })
            });
            act(&published);
            stop.raise();
            running.join().unwrap().unwrap();
        });
    }
}

/// Waits until the published index has so many stale blocks.
fn wait_for_stale(published: &Published, count: u64) {
    wait_for("the stale blocks", PATIENCE, || {
        let head = published.head()?;
        (head.chain.stale_block_count().unwrap() == count).then_some(())
    });
}

fn stale(indexed: &Indexed, height: u32, block: &Block) -> Option<StaleBlock> {
    indexed.index.snapshot().unwrap().stale_block(Height::from(height), block.block_hash()).unwrap()
}

#[test]
fn branches_of_the_node_are_stored_as_if_they_had_been_followed() {
    let Some(mut branched) = Branched::start(120) else { return };
    let (mut follows_all, mut was_away) = (Indexed::empty(), Indexed::empty());
    branched.catch_up(&mut was_away);
    branched.catch_up(&mut follows_all);
    let left = branched.branch(2, 3);
    branched.catch_up(&mut follows_all);
    branched.branch(4, 6);
    branched.catch_up(&mut follows_all);
    // beside the tip of height 123, never active; and beside the block of height 21
    let [beside, deep] = [1, 103].map(|depth| branched.branch(depth, 1).remove(0));

    // three disconnected, three that were active meanwhile, one beside the tip
    branched.follow_during(&mut was_away, |published| wait_for_stale(published, 7));
    for (height, block) in (119..).zip(&left) {
        let expected = stale(&follows_all, height, block);
        assert!(expected.is_some(), "{height}");
        assert_eq!(stale(&was_away, height, block), expected);
    }
    branched.follow_during(&mut follows_all, |published| wait_for_stale(published, 7));
    let row = stale(&was_away, 123, &beside).unwrap().row;
    assert_eq!(row.hash, beside.block_hash());
    assert_eq!(Some(row), stale(&follows_all, 123, &beside).map(|stale| stale.row));
    assert_eq!(stale(&was_away, 21, &deep), None, "it leaves the chain too far below the tip");
    assert_eq!(was_away.rows(), follows_all.rows());
    was_away.verified();
}

#[test]
fn a_block_that_a_client_waits_for_is_searched_in_the_branches() {
    let Some(mut branched) = Branched::start(30) else { return };
    let mut indexed = Indexed::empty();
    let (mut chain, mut hostile) = (branched.chain.clone(), Hostile::new(78));
    branched.follow_during(&mut indexed, |published| {
        wait_for("the chain", PATIENCE, || published.is_in_sync().then_some(()));
        let beside = hostile.branch(&mut chain, 1, 1).unwrap();
        branched.submit(&beside);
        wait_for_stale(published, 0);
        published.request_block(beside[0].block_hash(), Instant::now() + PATIENCE);
        wait_for_stale(published, 1);
    });
    // a third branch becomes the chain
    branched.chain = chain;
    let won = branched.branch(1, 2);
    branched.catch_up(&mut indexed);
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.tip().unwrap().hash, won[1].block_hash());
    assert_eq!(snapshot.stale_block_count().unwrap(), 2);
    indexed.verified();
}

#[test]
fn no_branch_is_stored_below_the_stale_blocks_that_are_kept() {
    let Some(mut branched) = Branched::start(30) else { return };
    let directory = tempfile::tempdir().unwrap();
    let options = IndexOptions { stale_blocks_kept: 1, ..options(directory.path()) };
    let mut indexed = Indexed { index: Index::open(&options).unwrap(), directory };
    branched.catch_up(&mut indexed);
    let [low, high] = [9, 1].map(|depth| branched.branch(depth, 1).remove(0));
    branched.follow_during(&mut indexed, |published| wait_for_stale(published, 1));
    assert!(stale(&indexed, 30, &high).is_some());
    assert_eq!(stale(&indexed, 22, &low), None);
    let place = indexed.index.snapshot().unwrap().block_place(low.block_hash()).unwrap();
    assert_eq!(place, None);
    indexed.verified();
}
