//! The switches of a simulated node: stopped, starting, slow, old, pruned, and its credentials.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bitcoin::Network;
use btcgraph::chain::Height;
use btcgraph::node::{Auth, Node, NodeError, NodeOptions, RetryPolicy};
use btcgraph::sim::{Mining, SimChain, SimNode, SimNodeOptions, World};

use super::pair::{client, get, post};

const REQUEST: &str = r#"{"method":"getblockcount","id":1}"#;

fn start(blocks: u32, options: SimNodeOptions) -> SimNode {
    let mut chain = SimChain::new(1);
    chain.mine_empty(blocks).unwrap();
    SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap()
}

fn without_retries(sim: &SimNode, auth: Auth) -> NodeOptions {
    let retry = RetryPolicy { patience: Duration::ZERO, ..RetryPolicy::default() };
    NodeOptions { retry, connect_retry: retry, ..NodeOptions::new(Network::Regtest, sim.url(), auth) }
}

fn password(password: &str) -> Auth {
    Auth::UserPassword { user: "user".into(), password: password.into() }
}

#[test]
fn a_stopped_node_refuses_connections_and_returns_on_its_port() {
    let mut sim = start(3, SimNodeOptions::default());
    let node = Node::connect(without_retries(&sim, password("password"))).unwrap();
    let url = sim.url();
    sim.stop_serving();
    assert!(matches!(node.chain_info(), Err(NodeError::Unreachable { .. })));
    sim.with(|world| world.mine(Mining::default()).map(|_| ())).unwrap().unwrap();
    sim.answer().unwrap();
    assert_eq!((sim.url(), node.chain_info().unwrap().blocks), (url, Height::from(4)));
}

#[test]
fn a_starting_node_reports_its_progress_by_rpc_and_rest() {
    let sim = start(0, SimNodeOptions::default());
    sim.warm_up(Some("Loading block index…"));
    let error = Node::connect(without_retries(&sim, password("password"))).unwrap_err();
    assert!(matches!(&error, NodeError::WarmingUp { progress, .. } if progress == "Loading block index…"), "{error}");
    let rest = get(&sim.url(), "/rest/chaininfo.json");
    assert_eq!(
        (rest.status, &rest.body[..]),
        (503, "Service temporarily unavailable: Loading block index…\r\n".as_bytes())
    );
    sim.warm_up(None);
    Node::connect(without_retries(&sim, password("password"))).unwrap();
}

#[test]
fn a_slow_node_causes_a_timeout() {
    let sim = start(0, SimNodeOptions::default());
    let timeout = Duration::from_millis(200);
    let node = Node::connect(NodeOptions { timeout, ..without_retries(&sim, password("password")) }).unwrap();
    sim.delay(Duration::from_mins(1));
    assert!(matches!(node.chain_info(), Err(NodeError::TimedOut { after, .. }) if after == timeout));
    sim.delay(Duration::ZERO);
    node.chain_info().unwrap();
}

#[test]
fn only_the_password_and_the_current_cookie_are_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".cookie");
    let mut sim = start(2, SimNodeOptions { cookie: Some(path.clone()), ..SimNodeOptions::default() });
    let unauthorized = |auth| matches!(Node::connect(without_retries(&sim, auth)), Err(NodeError::Unauthorized { .. }));
    assert!(unauthorized(password("other")));
    assert!(!unauthorized(password("password")));
    let node = Node::connect(without_retries(&sim, Auth::Cookie(path.clone()))).unwrap();

    let cookie = std::fs::read_to_string(&path).unwrap();
    assert_eq!(post(&sim.url(), &cookie, REQUEST).status, 200);
    sim.stop_serving();
    assert!(!path.exists());
    sim.answer().unwrap();
    let refused = post(&sim.url(), &cookie, REQUEST);
    assert_eq!((refused.status, &refused.body[..]), (401, &b""[..]));
    assert_eq!(node.chain_info().unwrap().blocks, Height::from(2));
}

#[test]
fn an_old_node_lacks_spent_outputs_and_rest_is_optional() {
    let old = start(1, SimNodeOptions { spent_outputs: false, version: 280_100, ..SimNodeOptions::default() });
    let node = client(&old);
    assert_eq!((node.supports_rest(), node.supports_spent_outputs()), (true, false));
    let network = node.network_info().unwrap();
    assert!(network.version == 280_100 && network.subversion.starts_with("/Satoshi:28.1.0/"), "{network:?}");

    let without = start(1, SimNodeOptions { rest: false, ..SimNodeOptions::default() });
    let node = client(&without);
    assert_eq!((node.supports_rest(), node.supports_spent_outputs()), (false, false));
    let tip = node.chain_info().unwrap().best_block_hash;
    assert_eq!(node.block(&tip).unwrap().len(), client(&old).block(&tip).unwrap().len());
}

#[test]
fn a_node_that_drops_blocks_without_files_is_pruned() {
    let world = World::new(SimChain::new(1).keeping(20));
    let sim = SimNode::start(Arc::new(Mutex::new(world)), SimNodeOptions::default()).unwrap();
    for _ in 0..50 {
        sim.with(|world| world.mine(Mining::default()).map(|_| ())).unwrap().unwrap();
    }
    let node = client(&sim);
    let info = node.chain_info().unwrap();
    assert_eq!((info.blocks, info.pruned, info.prune_height), (Height::from(50), true, Some(Height::from(31))));
    let hash = |height| node.block_hash(Height::from(height)).unwrap().unwrap();
    node.block(&hash(31)).unwrap();
    let error = node.block(&hash(30)).unwrap_err();
    assert!(matches!(error, NodeError::Pruned { kept_from: Some(from), .. } if from == Height::from(31)), "{error}");
    assert_eq!(node.headers(&hash(0), 100).unwrap().len(), 51);
}

#[test]
fn malformed_requests_are_answered() {
    let sim = start(1, SimNodeOptions::default());
    let long = "a".repeat(100_000);
    let deep = "[".repeat(100_000);
    for body in ["\u{0}", &long, &deep, r#"{"method":"getblock","params":["é"],"id":1}"#] {
        assert_eq!(post(&sim.url(), "user:password", body).status, 500);
    }
    assert_eq!(post(&sim.url(), "user:password", &" ".repeat((32 << 20) + 1)).status, 413);
    for path in ["/rest/block/%00.bin", "/rest/headers//.bin", "/rest/headers/5/%ff.bin", "/rest/tx/é.bin"] {
        assert_eq!(get(&sim.url(), path).status, 400, "{path}");
    }
    assert_eq!(post(&sim.url(), "user:password", REQUEST).status, 200);
}
