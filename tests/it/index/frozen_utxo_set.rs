//! After each freeze of a random history `verify` passes, and the UTXO set of the index is that of the node, by count, amount and
//! hash.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::Block;
use bitcoin::consensus::encode::serialize_hex;
use btcgraph::chain::Height;
use btcgraph::index::{VerifyOptions, verify};
use btcgraph::live::Live;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Rng, SimChain};
use btcgraph::sync::{FreezeBounds, NodeState, compare_with_node};
use btcgraph::view::Published;
use serde_json::json;

use crate::support::bitcoind::RealNode;
use crate::support::following::{catch_up, freezing};
use crate::support::indexed::Indexed;
use crate::sync::freezing::{FrozenFollower, hostile_chain};

const BOUNDS: FreezeBounds = FreezeBounds { depth: 4, every: 3, transactions: u64::MAX };
/// Blocks that are compared with the node's, output by output.
const COMPARED: usize = 5;

/// What is followed: compares the index with its node whenever other blocks are frozen.
#[derive(Default)]
struct Freezes {
    end: Option<(Height, bitcoin::BlockHash)>,
    risen: u32,
    /// Times when a reorganisation reached frozen blocks.
    lowered: u32,
}

impl Freezes {
    #[track_caller]
    fn check(&mut self, node: &Node, indexed: &Indexed) {
        let snapshot = indexed.index.snapshot().unwrap();
        let end = snapshot.frozen().map(|frozen| (frozen.height, frozen.hash));
        if end == self.end {
            return;
        }
        let stays = self.end.is_none_or(|(height, hash)| snapshot.block_hash(height).is_ok_and(|found| found == hash));
        *if stays { &mut self.risen } else { &mut self.lowered } += 1;
        self.end = end;
        let options = VerifyOptions { memory: 16 << 20, directory: indexed.directory.path().into() };
        let report = verify(&snapshot, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.differences, Vec::<String>::new());
        let state = NodeState::at(node, snapshot.tip()).unwrap();
        let comparison = compare_with_node(node, &snapshot, &report, state, COMPARED).unwrap();
        assert_eq!(comparison.differences, Vec::<String>::new());
        let set = comparison.node.utxo_set.expect("the node is at the tip");
        assert_eq!(set.hash_serialized_3, Some(report.utxo_set.hash_serialized_3));
    }
}

/// How many blocks leave the chain next, and how many come.
fn next_change(rng: &mut Rng, tip: u32) -> (u32, u32) {
    let depth = match rng.below(8) {
        0 => rng.between(5, 40),
        1 => u64::from(tip / 2),
        2..=4 => 0,
        _ => rng.between(1, 4),
    };
    let depth = u32::try_from(depth).unwrap();
    (depth, depth + u32::try_from(rng.between(1, 9)).unwrap())
}

#[test]
fn after_each_freeze_the_utxo_set_is_that_of_the_node() {
    let mut freezes = Freezes::default();
    for seed in 110..112 {
        let (chain, mut hostile) = hostile_chain(seed, 120);
        let (mut followed, mut rng) = (FrozenFollower::start(chain, BOUNDS), Rng::new(seed));
        freezes.end = None;
        for _ in 0..25 {
            followed.catch_up();
            freezes.check(&followed.node, &followed.indexed);
            let (depth, length) = next_change(&mut rng, followed.tip());
            let branch = |chain: &mut SimChain| hostile.branch(chain, depth, length).map(drop);
            followed.sim.with(|world| world.change_chain(branch)).unwrap().unwrap();
            if rng.below(4) == 0 {
                followed.restart();
            }
        }
    }
    assert!(freezes.risen > 10 && freezes.lowered > 5, "{} and {}", freezes.risen, freezes.lowered);
}

#[test]
fn after_each_freeze_the_utxo_set_is_that_of_a_real_node() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let auth = Auth::Cookie(real.cookie_path());
    let node = Node::connect(NodeOptions::new(bitcoin::Network::Regtest, real.rpc_url(), auth)).unwrap();
    let submit = |blocks: &[Arc<Block>]| {
        for block in blocks {
            real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
        }
    };
    let (mut chain, mut hostile) = hostile_chain(112, 110);
    submit(&chain.active_blocks().skip(1).cloned().collect::<Vec<_>>());
    let (mut indexed, mut rng, mut freezes) = (Indexed::empty(), Rng::new(112), Freezes::default());
    for _ in 0..10 {
        let Indexed { index, directory } = &mut indexed;
        let freezing = freezing(index, &node, directory.path(), BOUNDS);
        catch_up(&node, index, &Published::default(), &Live::default(), Some(freezing)).unwrap();
        freezes.check(&node, &indexed);
        let (depth, length) = next_change(&mut rng, chain.height().to_u32());
        submit(&hostile.branch(&mut chain, depth, length).unwrap());
    }
    assert!(freezes.risen > 2, "{}", freezes.risen);
}
