//! Imports of real chains from a real node in initial block download: the index equals the recorded results of Bitcoin
//! Core.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions, ObservedLimits, Snapshot, TxNum, VerifyOptions, verify};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sync::read_frozen_blocks;
use serde_json::json;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::skips::shared_data;

/// A chain of the shared data, with the figures of its README.
struct Chain {
    file: &'static str,
    /// Core's name of the network.
    core_name: &'static str,
    network: bitcoin::Network,
    /// The project's name of the network.
    flag: &'static str,
    height: u32,
    outputs: u64,
    /// In whole bitcoin.
    amount: u64,
    hash: &'static str,
}

const CHAINS: [Chain; 3] = [
    Chain {
        file: "mainnet-0-4521",
        core_name: "main",
        network: bitcoin::Network::Bitcoin,
        flag: "mainnet",
        height: 4521,
        outputs: 4348,
        amount: 226_050,
        hash: "5b4d07d612a7980e50a9386669332e61ce0db8f8a66b094ce819e190980f2b67",
    },
    Chain {
        file: "signet-0-120",
        core_name: "signet",
        network: bitcoin::Network::Signet,
        flag: "signet",
        height: 120,
        outputs: 120,
        amount: 6000,
        hash: "6d9f9fd0d6598843659a78f451c1f577690c1ef4a0d9bd0c41ad3877d85d43d3",
    },
    Chain {
        file: "regtest-kernel-0-206",
        core_name: "regtest",
        network: bitcoin::Network::Regtest,
        flag: "regtest",
        height: 206,
        outputs: 230,
        amount: 8875,
        hash: "6f596a9fb79023e72ac6c2423e9dff4991f49994c0a55d1a2124ce03a98e9d74",
    },
];

/// Runs the program on the node; returns its exit code and its output.
fn btcgraph(command: &[&str], chain: &Chain, node: &RealNode, directory: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_btcgraph"))
        .args(command)
        .args(["--network", chain.flag, "--rpc-url", &node.rpc_url()])
        .arg("--data-dir")
        .arg(directory)
        .arg("--rpc-cookie")
        .arg(node.cookie_path())
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), printed)
}

fn import(chain: &Chain) {
    let Some(blocks) = shared_data(&format!("{}.blk", chain.file)) else { return };
    let table = shared_data(&format!("{}.tsv", chain.file)).unwrap();
    let load = format!("-loadblock={}", blocks.display());
    let Some(node) = RealNode::with_chain(chain.core_name, &[&load, "-minimumchainwork=0", "-checkblockindex=0"])
    else {
        return;
    };
    wait_for("the node to load the chain", Duration::from_mins(2), || {
        (node.must("getblockcount", &[]) == json!(chain.height)).then_some(())
    });
    assert_eq!(node.must("getblockchaininfo", &[])["initialblockdownload"], json!(true));

    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = btcgraph(&["import"], chain, &node, directory.path());
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = btcgraph(&["verify"], chain, &node, directory.path());
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains(&format!("hash_serialized_3  {}", chain.hash)), "{printed}");
    assert!(printed.contains("everything agrees"), "{printed}");

    let options = IndexOptions {
        path: directory.path().join(chain.flag).join("index.redb"),
        network: chain.network,
        salt: None,
        cache_bytes: 64 << 20,
        freezes: false,
        stale_blocks_kept: 1_000,
        observed: ObservedLimits::default(),
    };
    let index = Index::open_existing(&options).unwrap();
    // the longest of the chains has frozen blocks
    let client = Node::connect(NodeOptions::new(chain.network, node.rpc_url(), Auth::Cookie(node.cookie_path())));
    read_frozen_blocks(&index, &client.unwrap(), Some(node.blocks_dir())).unwrap();
    let snapshot = index.snapshot().unwrap();
    assert_eq!(snapshot.frozen().is_some(), chain.height > 1_144);
    let options = VerifyOptions { memory: 64 << 20, directory: directory.path().into() };
    let report = verify(&snapshot, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.utxo_set.outputs, chain.outputs);
    assert_eq!(report.utxo_set.total_amount.to_sat(), chain.amount * 100_000_000);
    assert_eq!(report.utxo_set.hash_serialized_3.to_string(), chain.hash);
    assert_blocks_are_those_of_the_table(&snapshot, &std::fs::read_to_string(table).unwrap());
}

/// Compares height, hash, time, bits, transactions, size, weight and sum of outputs with those of an independent
/// decoder.
fn assert_blocks_are_those_of_the_table(snapshot: &Snapshot, table: &str) {
    let mut rows = 0;
    for line in table.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())) {
        let height: u32 = line.split('\t').next().unwrap().parse().unwrap();
        let row = snapshot.block(Height::from(height)).unwrap().unwrap();
        let bits = row.header.bits.to_consensus();
        let expected: Vec<&str> = line.split('\t').collect();
        let found = [
            height.to_string(),
            row.hash.to_string(),
            row.header.time.to_string(),
            if expected[3].parse() == Ok(bits) { bits.to_string() } else { format!("{bits:08x}") },
            row.transactions.to_string(),
            row.size.to_string(),
            row.weight.to_string(),
            row.output_value.to_string(),
        ];
        assert_eq!(found.each_ref().map(String::as_str), expected[..8]);
        rows += 1;
    }
    assert_eq!(snapshot.tip().unwrap().height.to_u32() + 1, rows);
    assert!(snapshot.transaction(TxNum(0)).unwrap().is_some());
}

#[test]
fn the_first_blocks_of_mainnet() {
    import(&CHAINS[0]);
}

#[test]
fn the_first_blocks_of_signet() {
    import(&CHAINS[1]);
}

#[test]
fn a_regtest_chain_of_other_origin() {
    import(&CHAINS[2]);
}
