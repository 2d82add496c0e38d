//! Documents that others make of our schema: schemathesis asks a server at random, and judges its answers.
//! tests/python/generated.py runs it.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bitcoin::Network;
use btcgraph::api::{self, Features};
use btcgraph::limits::Limits;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::server::{self, Options};
use btcgraph::sim::{Life, Profile, SimNode, SimNodeOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::mempool::following::{Following, How};
use crate::support::skips::{current_test, skip};

const CASES: usize = 1_000;

/// A node after some life of oddities, with transactions that wait.
fn node() -> SimNode {
    let (mut life, mut world) = Life::start(Profile::Hostile, 43, 1_800_000_000).unwrap();
    let mut steps = 0;
    while steps < 40 || world.mempool().is_empty() {
        life.next(&mut world).unwrap();
        steps += 1;
    }
    let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
    SimNode::start(Arc::new(Mutex::new(world)), options).unwrap()
}

#[test]
fn a_thousand_documents_made_by_schemathesis_are_answered_by_the_schema_or_refused_by_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let python = folder.join(".venv/bin/python");
    if !folder.join(".venv/.installed").exists() {
        return skip(&current_test(), "no schemathesis: run scripts/python.sh --install-python tests/python");
    }
    let sim = node();
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let following = Following::start(sim.url(), auth.clone(), How::default());
    following.published.set_node(Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap());
    following.assert_catches_up(&sim);
    let (published, live) = (following.published.clone(), following.live.clone());
    let schema = api::schema(published, live, Limits::default(), Features { broadcast: true, ..Features::default() });

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let url = format!("http://{}/graphql", listener.local_addr().unwrap());
    runtime.spawn(server::serve(listener, schema, Options::default(), CancellationToken::new()));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.graphql");
    let mut program = Command::new(python);
    program.arg("generated.py").arg(url).arg(schema).arg(CASES.to_string()).current_dir(folder);
    let output = program.output().unwrap();
    let (reported, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{reported}{errors}");
    let counts: Vec<usize> = reported.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [cases, answered] = counts[..] else { panic!("{reported}") };
    assert!(cases >= CASES && answered * 2 > cases, "too few answers say something: {reported}");
}
