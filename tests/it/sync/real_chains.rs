//! Imports of real chains from a real node in initial block download: the index equals the recorded results of Bitcoin
//! Core. Imported in bulk and connected block by block they make the same rows.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::Block;
use bitcoin::consensus::{deserialize, serialize};
use btcgraph::chain::Height;
use btcgraph::index::{
    Generation, Import, ImportOptions, Index, IndexOptions, ObservedLimits, Snapshot, TxNum, VerifyOptions, verify,
};
use btcgraph::sync::read_frozen_blocks;
use serde_json::json;

use crate::index::generations::{import_options, unwatched};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::frozen::BlockBytes;
use crate::support::indexed::{Indexed, SALT, in_memory, options};
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
    read_frozen_blocks(&index, &node.client(), Some(node.blocks_dir())).unwrap();
    let snapshot = index.snapshot().unwrap();
    assert_eq!(snapshot.frozen().is_some(), chain.height > 1_006);
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

/// The blocks of a file: magic of the network, length, block.
fn blocks_of(file: &Path) -> Vec<Block> {
    let (bytes, mut blocks) = (std::fs::read(file).unwrap(), Vec::new());
    let mut rest = bytes.as_slice();
    while let Some((frame, behind)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes(frame[4..].try_into().unwrap());
        let (block, behind) = behind.split_at(length.try_into().unwrap());
        blocks.push(deserialize(block).unwrap());
        rest = behind;
    }
    blocks
}

/// Compares an import, with so many transactions in a range, with an index that connected each block in a commit of its own:
/// the packed rows of all tables, and the decoded rows of both indexes.
fn assert_an_import_makes_the_rows_of_connecting(chain: &Chain, ranges: [u32; 2]) {
    let Some(file) = shared_data(&format!("{}.blk", chain.file)) else { return };
    let blocks = blocks_of(&file);
    assert_eq!(blocks.len(), usize::try_from(chain.height + 1).unwrap());
    let open = || {
        let directory = in_memory();
        let index = Index::open(&IndexOptions { network: chain.network, ..options(directory.path()) }).unwrap();
        Indexed { index, directory }
    };
    let mut connected = open();
    connected.connect(&blocks, 1);
    let packed = connected.directory.path().join("packed.redb");
    let tip = connected.index.snapshot().unwrap().tip().unwrap();
    connected.index.snapshot().unwrap().pack(Height::GENESIS..=tip.height, &packed).unwrap();
    let checksums = |path: &Path| Generation::open(path, chain.network, SALT, 8 << 20).unwrap().checksums().unwrap();
    let (packed, decoded) = (checksums(&packed), connected.rows());
    let rows = |name: &str| decoded.iter().find(|table| table.0 == name).unwrap().1;
    assert_eq!(rows("blocks"), u64::from(chain.height + 1));
    assert_eq!(rows("unspent"), chain.outputs);

    for range in ranges {
        let mut imported = open();
        let options = import_options(imported.directory.path(), range);
        let path = options.path.clone();
        let mut import = Import::begin(ImportOptions { network: chain.network, ..options }).unwrap();
        let serialized: Vec<_> = blocks.iter().map(|block| (block.block_hash(), serialize(block))).collect();
        serialized.chunks(100).for_each(|some| import.push(some).unwrap());
        import.finish(&mut unwatched).unwrap().unwrap();
        assert_eq!(checksums(&path), packed, "ranges of {range} transactions");
        imported.index.set_raw_blocks(Arc::new(BlockBytes::of(&blocks)));
        assert_eq!(imported.index.adopt(&path).unwrap(), tip);
        assert_eq!(imported.rows(), decoded, "ranges of {range} transactions");
    }
}

#[test]
fn an_import_of_mainnet_makes_the_rows_of_connecting_its_blocks() {
    assert_an_import_makes_the_rows_of_connecting(&CHAINS[0], [700, 1 << 20]);
}

#[test]
fn an_import_of_signet_makes_the_rows_of_connecting_its_blocks() {
    assert_an_import_makes_the_rows_of_connecting(&CHAINS[1], [1, 30]);
}

#[test]
fn an_import_of_a_regtest_chain_makes_the_rows_of_connecting_its_blocks() {
    assert_an_import_makes_the_rows_of_connecting(&CHAINS[2], [7, 1 << 20]);
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
