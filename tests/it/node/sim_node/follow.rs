//! An index that follows a simulated node has the rows of one that got the same blocks directly.

use std::sync::{Arc, Mutex};

use bitcoin::Block;
use btcgraph::live::Live;
use btcgraph::node::Node;
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::{NodeState, compare_with_node};
use btcgraph::view::Published;

use super::pair::client;
use crate::support::following;
use crate::support::indexed::Indexed;

struct Followed {
    sim: SimNode,
    node: Node,
    indexed: Indexed,
}

impl Followed {
    fn catch_up(&mut self) {
        following::catch_up(&self.node, &mut self.indexed.index, &Published::default(), &Live::default(), None)
            .unwrap();
    }

    /// Compares the rows with those of an index that got the blocks directly, and each block with the node's.
    fn assert_equals_the_chain(&mut self) {
        self.catch_up();
        let active = |world: &mut World| world.chain().active_blocks().cloned().collect::<Vec<Arc<Block>>>();
        let blocks = self.sim.with(active).unwrap();
        let direct = Indexed::of(blocks.iter().map(AsRef::as_ref), 7);
        assert_eq!(self.indexed.rows(), direct.rows());

        let (report, snapshot) = (self.indexed.verified(), self.indexed.index.snapshot().unwrap());
        let state = NodeState::at(&self.node, snapshot.tip()).unwrap();
        let comparison = compare_with_node(&self.node, &snapshot, &report, state, blocks.len()).unwrap();
        assert_eq!(comparison.differences, Vec::<String>::new());
        assert_eq!((comparison.blocks.len(), comparison.node.utxo_set.is_some()), (blocks.len(), true));
    }
}

#[test]
fn a_following_index_has_the_rows_of_the_chain_after_reorgs() {
    for options in [SimNodeOptions::default(), SimNodeOptions { rest: false, ..SimNodeOptions::default() }] {
        let (mut chain, mut hostile) = (SimChain::new(3), Hostile::new(3));
        for _ in 0..150 {
            hostile.mine(&mut chain).unwrap();
        }
        let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap();
        let node = client(&sim);
        let mut followed = Followed { sim, node, indexed: Indexed::empty() };
        followed.assert_equals_the_chain();

        followed.sim.with(|world| world.change_chain(|chain| hostile.branch(chain, 5, 6))).unwrap().unwrap();
        followed.assert_equals_the_chain();

        let invalidated = followed.sim.with(|world| {
            let hash = world.chain().hash_at(149.into()).unwrap();
            world.invalidate(&hash).map(|_| hash)
        });
        followed.assert_equals_the_chain();
        followed.sim.with(|world| world.reconsider(&invalidated.unwrap().unwrap())).unwrap().unwrap();
        followed.assert_equals_the_chain();
    }
}

#[test]
fn only_common_blocks_are_compared_after_a_reorganisation() {
    let (mut chain, mut hostile) = (SimChain::new(5), Hostile::new(5));
    for _ in 0..120 {
        hostile.mine(&mut chain).unwrap();
    }
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let node = client(&sim);
    let mut followed = Followed { sim, node, indexed: Indexed::empty() };
    followed.catch_up();
    for (depth, agreed) in [(1, 119), (3, 118), (30, 92), (123, 0)] {
        followed
            .sim
            .with(|world| world.change_chain(|chain| hostile.branch(chain, depth, depth + 1)))
            .unwrap()
            .unwrap();
        let (report, snapshot) = (followed.indexed.verified(), followed.indexed.index.snapshot().unwrap());
        let state = NodeState::at(&followed.node, snapshot.tip()).unwrap();
        let comparison = compare_with_node(&followed.node, &snapshot, &report, state, 1_000).unwrap();
        assert_eq!(comparison.differences, Vec::<String>::new(), "left by {depth} blocks");
        assert_eq!(comparison.agreed.unwrap().height.to_u32(), agreed, "left by {depth} blocks");
        let compared: Vec<_> = comparison.blocks.iter().map(|height| height.to_u32()).collect();
        assert_eq!(compared, (0..=agreed).collect::<Vec<_>>());
        assert!(comparison.node.utxo_set.is_none());
    }
}
