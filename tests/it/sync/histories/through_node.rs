//! The index that follows a node: the simulated chain is served as a node serves it, and `sync` advances the index to
//! its tip. What is published on the way is compared, too.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bitcoin::{BlockHash, Network, ScriptBuf};
use btcgraph::index::Index;
use btcgraph::live::{ChainEvent, Live};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Rng, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::SyncError;
use btcgraph::view::{Published, View};
use tokio::sync::broadcast::error::TryRecvError;

use super::holdings::{assert_holdings, assert_holdings_at, assert_movements, assert_supply};
use super::player::Way;
use super::prepared::Prepared;
use crate::support::following;
use crate::support::model::Model;

/// How many of the affected scripts are compared with the view each time.
const ASKED: usize = 8;

/// A node over the chain, and what follows it.
pub(crate) struct ThroughNode {
    served: Rc<ConnectedNode>,
    published: Published,
    live: Live,
    random: Rng,
}

/// A simulated node and the connection to it.
struct ConnectedNode {
    sim: SimNode,
    node: Node,
}

impl ConnectedNode {
    fn start() -> Self {
        let world = Arc::new(Mutex::new(World::new(Prepared::get().chain.clone())));
        let sim = SimNode::start(world, SimNodeOptions::default()).unwrap();
        let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
        let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap();
        Self { sim, node }
    }
}

thread_local! {
    /// The node that the histories of this thread are played on, one after the other, each in a world of its own.
    static CONNECTED: Rc<ConnectedNode> = Rc::new(ConnectedNode::start());
}

impl ThroughNode {
    pub(crate) fn start() -> Self {
        let served = CONNECTED.with(Rc::clone);
        Self { served, published: Published::default(), live: Live::default(), random: Rng::new(0) }
    }

    fn try_to_follow(&mut self, index: &mut Index, chain: &SimChain) -> Result<(), SyncError> {
        self.served.sim.with(|world| *world = World::new(chain.clone())).unwrap();
        following::catch_up(&self.served.node, index, &self.published, &self.live, None)
    }

    fn view(&self) -> View {
        View::new(self.published.head().unwrap())
    }
}

impl Way for ThroughNode {
    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        let before = index.snapshot().unwrap().tip().unwrap().hash;
        let mut events = self.live.subscribe();
        self.try_to_follow(index, chain).unwrap();
        let mut reported = Vec::new();
        loop {
            match events.try_recv() {
                Ok(event) => reported.extend(event.chain.iter().map(|event| match event {
                    ChainEvent::Disconnected(tip) => ("left", tip.height, tip.hash),
                    ChainEvent::Connected(tip) => ("joined", tip.height, tip.hash),
                })),
                Err(TryRecvError::Lagged(count)) => panic!("the receiver lags by {count} events"),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let way = chain.path(&before, &chain.tip()).unwrap();
        let all = |what, hashes: Vec<BlockHash>| {
            hashes.into_iter().map(move |hash| (what, chain.height_of(&hash).unwrap(), hash))
        };
        let (left, joined) = (all("left", way.disconnected), all("joined", way.connected));
        let expected: Vec<_> = left.chain(joined).collect();
        assert_eq!(reported, expected);
    }

    fn refuse(&mut self, index: &mut Index, beginning: &SimChain) {
        let tip = index.snapshot().unwrap().tip();
        let error = self.try_to_follow(index, beginning).unwrap_err();
        let expected = (beginning.height(), tip.unwrap().height);
        assert!(
            matches!(error, SyncError::NodeBehind { node, index } if (node, index) == expected),
            "{error} at {expected:?}"
        );
        assert_eq!(index.snapshot().unwrap().tip(), tip);
    }

    fn let_go(&mut self) {
        // the published Head and the stored events keep snapshots alive
        (self.published, self.live) = (Published::default(), Live::default());
    }

    fn compare(&mut self, model: &Model, affected: &BTreeSet<ScriptBuf>) {
        let Some(head) = self.published.head() else { return };
        let view = View::new(head);
        assert_supply(&view, model);
        let affected: Vec<_> = affected.iter().collect();
        for nth in 0..ASKED.min(affected.len()) {
            let script = self.random.choose(&affected).unwrap();
            assert_holdings(&view, model, script);
            if nth < 2 {
                assert_movements(&view, model, script);
                let height = self.random.below(model.blocks.len().try_into().unwrap());
                assert_holdings_at(&view, model, script, height.try_into().unwrap());
            }
        }
    }

    fn finish(&mut self, model: &Model) {
        let view = self.view();
        let mut cut = model.clone();
        let height = usize::try_from(self.random.below(model.blocks.len().try_into().unwrap())).unwrap();
        while cut.blocks.len() > height + 1 {
            cut.disconnect();
        }
        let height = u32::try_from(height).unwrap();
        let scripts: Vec<_> = model.history.keys().collect();
        for _ in 0..4 * ASKED {
            let script = self.random.choose(&scripts).unwrap();
            assert_holdings(&view, model, script);
            assert_holdings_at(&view, &cut, script, height);
        }
    }
}
