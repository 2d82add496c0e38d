//! A simulated and a real node with the same blocks.

use std::sync::{Arc, Mutex};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, BlockHash, Network, Transaction, constants};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use serde_json::json;

use super::comparison::HttpResponse;
use crate::support::bitcoind::RealNode;
use crate::support::skips;

/// Both nodes with 162 hostile blocks in the active chain and a stale branch of 6.
pub(super) struct Pair {
    pub(super) sim: SimNode,
    pub(super) real: RealNode,
    /// The tip of the stale branch.
    pub(super) stale: BlockHash,
}

impl Pair {
    /// `None` where there is no bitcoind.
    pub(super) fn start() -> Option<Pair> {
        let real = RealNode::start(&["-txindex=0", "-disablewallet"])?;
        let (mut chain, mut hostile) = (SimChain::new(7), Hostile::new(7));
        for _ in 0..160 {
            submit(&real, &hostile.mine(&mut chain).unwrap());
        }
        let stale = chain.tip();
        for block in hostile.branch(&mut chain, 6, 8).unwrap() {
            submit(&real, &block);
        }
        let world = Arc::new(Mutex::new(World::new(chain)));
        let sim = SimNode::start(world, SimNodeOptions::default()).unwrap();
        Some(Pair { sim, real, stale })
    }

    /// Whether the real node is Bitcoin Knots, which has more fields than Bitcoin Core.
    pub(super) fn real_is_knots(&self) -> bool {
        self.real.must("getnetworkinfo", &[])["subversion"].as_str().unwrap().contains("Knots")
    }

    /// Whether the real node is too old for `spenttxouts` (before Core 30), which is then recorded as skipped.
    #[track_caller]
    pub(super) fn real_lacks_spent_outputs(&self) -> bool {
        let genesis = constants::genesis_block(Network::Regtest).block_hash();
        let response = get(&self.real.rpc_url(), &format!("/rest/spenttxouts/{genesis}.bin"));
        // a known path returns a message
        let lacks = response.status == 404 && response.body.is_empty();
        if lacks {
            skips::skip(&skips::current_test(), "the node has no spenttxouts: compared without");
        }
        lacks
    }

    /// The coinbase of the simulated node's tip.
    pub(super) fn sim_tip_coinbase(&self) -> Transaction {
        let tip = |world: &mut World| world.chain().block(&world.chain().tip()).unwrap().txdata[0].clone();
        self.sim.with(tip).unwrap()
    }

    /// Sends a POST of this body to both.
    pub(super) fn post(&self, body: &str) -> (HttpResponse, HttpResponse) {
        let cookie = std::fs::read_to_string(self.real.cookie_path()).unwrap();
        (post(&self.sim.url(), "user:password", body), post(&self.real.rpc_url(), &cookie, body))
    }

    /// Requests this path from both.
    pub(super) fn get(&self, path: &str) -> (HttpResponse, HttpResponse) {
        (get(&self.sim.url(), path), get(&self.real.rpc_url(), path))
    }

    /// A client of each node.
    pub(super) fn clients(&self) -> (Node, Node) {
        let connect = |url, auth| Node::connect(NodeOptions::new(Network::Regtest, url, auth)).unwrap();
        (client(&self.sim), connect(self.real.rpc_url(), Auth::Cookie(self.real.cookie_path())))
    }
}

/// A client of a simulated node.
pub(crate) fn client(sim: &SimNode) -> Node {
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap()
}

pub(super) fn submit(real: &RealNode, block: &Block) {
    let verdict = real.must("submitblock", &[json!(serialize_hex(block))]);
    assert!(verdict.is_null() || verdict == "inconclusive", "{verdict}");
}

pub(super) fn post(url: &str, login: &str, body: &str) -> HttpResponse {
    use base64::Engine;
    let login = base64::prelude::BASE64_STANDARD.encode(login);
    let request = agent().post(url).header("Authorization", format!("Basic {login}"));
    received(request.content_type("application/json").send(body).unwrap())
}

pub(super) fn get(url: &str, path: &str) -> HttpResponse {
    received(agent().get(format!("{url}{path}")).call().unwrap())
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent()
}

fn received(mut response: ureq::http::Response<ureq::Body>) -> HttpResponse {
    let content_type = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let body = response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
    HttpResponse { status: response.status().as_u16(), content_type: content_type.unwrap_or_default(), body }
}
