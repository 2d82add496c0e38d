//! `btcgraph verify` on an index that a server has open: the report of the closed file, without the page checksums.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::json;

use crate::support::bitcoind::RealNode;
use crate::support::indexed::options;
use crate::support::program::{btcgraph_on, run};
use crate::support::test_process::TestProcess;

/// Exit code, report, and whether a server made it.
fn verify(node: &RealNode, directory: &Path, arguments: &[&str]) -> (Option<i32>, String, bool) {
    let mut program = btcgraph_on(node, directory, &["verify", "--blocks", "1000"]);
    let output = program.args(arguments).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), log.contains("the server that has the index"))
}

#[test]
fn a_server_reports_as_a_check_of_the_closed_file() {
    let Some(node) = RealNode::start(&[]) else { return };
    let address = node.wallet_address("bech32m");
    node.mine_to(&address, 110);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start(&node, directory.path());
    served.wait_for_height(110);
    for arguments in [&[][..], &["--without-node"], &["--temporary-dir", "."]] {
        let (code, open, by_server) = verify(&node, directory.path(), arguments);
        let agrees = match arguments {
            ["--without-node"] => "the index agrees with itself; the node was not asked",
            _ => "the rows agree with each other and with the node",
        };
        assert!(open.contains("at height 110"), "{open}");
        let result = open.lines().find_map(|line| line.strip_prefix("result ")).unwrap().trim_start();
        let not_compared = "The page checksums of the file were not compared, because a running server has it open: \
                            stop the server and run `btcgraph verify` to compare them";
        assert_eq!(result, format!("{agrees}. {not_compared}"));
        assert!(!open.contains("everything agrees"), "{open}");
        assert_eq!((code, by_server), (Some(0), true));
    }
    let (_, open, _) = verify(&node, directory.path(), &[]);
    assert!(open.contains("111 blocks compared output by output"), "{open}");
    // the server was not disturbed
    node.mine(1);
    served.wait_for_height(111);
    let (_, open, _) = verify(&node, directory.path(), &[]);
    assert_eq!(served.stop().code(), Some(0));
    let (code, closed, by_server) = verify(&node, directory.path(), &[]);
    assert_eq!((code, by_server), (Some(0), false));
    assert!(closed.ends_with("result             everything agrees\n"), "{closed}");
    assert!(closed.contains("page checksums     all match"), "{closed}");
    assert!(open.contains("page checksums     not compared"), "{open}");
    assert_eq!(without_checksums(&closed), without_checksums(&open));
}

/// The lines of a report that do not depend on whether the page checksums were compared.
fn without_checksums(report: &str) -> Vec<&str> {
    report.lines().filter(|line| !line.starts_with("page checksums ") && !line.starts_with("result ")).collect()
}

#[test]
fn frozen_blocks_are_checked_with_the_bytes_of_the_node() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(30);
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["import"]));
    assert_eq!(code, Some(0), "{printed}");
    let (_, live, _) = verify(&node, directory.path(), &[]);
    let mut index = Index::open(&IndexOptions { salt: None, ..options(&directory.path().join("regtest")) }).unwrap();
    let path = index.freezing_path();
    let snapshot = index.snapshot().unwrap();
    snapshot.pack(Height::GENESIS..=Height::from(20), &path).unwrap();
    drop(snapshot);
    index.adopt(&path).unwrap();
    drop(index);
    let (code, frozen, by_server) = verify(&node, directory.path(), &[]);
    assert_eq!((code, by_server), (Some(0), false), "{frozen}");
    assert!(frozen.contains("page checksums     all match") && frozen.contains("everything agrees"), "{frozen}");
    assert_eq!(frozen, live);
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["verify", "--without-node"]));
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("up to height 20") && printed.contains("without --without-node"), "{printed}");
}

#[test]
fn blocks_that_the_node_has_not_pruned_are_compared() {
    let Some(node) = RealNode::start(&["-txindex=0", "-prune=1", "-fastprune=1"]) else { return };
    node.mine(700);
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["import"]));
    assert_eq!(code, Some(0), "{printed}");
    node.must("pruneblockchain", &[json!(400)]);
    let kept_from = node.must("getblockchaininfo", &[])["pruneheight"].as_u64().unwrap();
    let (code, report, _) = verify(&node, directory.path(), &[]);
    assert!(code == Some(0) && report.contains("everything agrees"), "{report}");
    let compared = format!("{} blocks compared output by output of those from height {kept_from} on", 701 - kept_from);
    assert!(kept_from > 100 && report.contains(&compared), "{report}");
}

#[test]
fn an_incomplete_comparison_is_reported_with_exit_code_5() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(5);
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["import"]));
    assert_eq!(code, Some(0), "{printed}");
    node.mine(10);
    let (code, report, by_server) = verify(&node, directory.path(), &[]);
    assert_eq!((code, by_server), (Some(5), false), "{report}");
    assert!(report.contains("6 blocks compared output by output"), "{report}");
    let verdict = "result             INCOMPLETE: nothing differs in what was compared, but the UTXO set was not compared: the \
                   node is at height 15, and the index is at 5.";
    assert!(report.contains(verdict) && !report.contains("everything agrees"), "{report}");

    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["import"]));
    assert_eq!(code, Some(0), "{printed}");
    let (code, report, _) = verify(&node, directory.path(), &[]);
    assert!(code == Some(0) && report.contains("everything agrees"), "{report}");
}

#[test]
fn differences_have_one_exit_code_and_one_list() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(20);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start(&node, directory.path());
    served.wait_for_height(20);
    served.stop();
    remove_a_row(&directory.path().join("regtest/index.redb"));
    let (code, closed, by_server) = verify(&node, directory.path(), &[]);
    assert_eq!((code, by_server), (Some(1), false), "{closed}");
    assert!(closed.contains("DIFFERS  payouts: "), "{closed}");
    let served = TestProcess::start(&node, directory.path());
    served.wait_for_height(20);
    let (code, open, by_server) = verify(&node, directory.path(), &[]);
    assert_eq!((code, by_server), (Some(1), true), "{open}");
    assert_eq!(without_checksums(&open), without_checksums(&closed));
}

#[test]
fn a_server_that_finds_differences_names_damage_as_a_cause() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(20);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start(&node, directory.path());
    served.wait_for_height(20);
    served.stop();
    remove_a_row(&directory.path().join("regtest/index.redb"));
    let damage = "The file may be damaged: its page checksums were not compared";
    let (_, closed) = run(&mut btcgraph_on(&node, directory.path(), &["verify"]));
    assert!(closed.contains("the index has errors") && !closed.contains(damage), "{closed}");
    let served = TestProcess::start(&node, directory.path());
    served.wait_for_height(20);
    let (_, open) = run(&mut btcgraph_on(&node, directory.path(), &["verify"]));
    assert!(open.contains("the index has errors") && open.contains(damage), "{open}");
}

#[test]
fn a_check_that_ends_with_its_server_exits_with_5() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    node.mine(1);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start_with(&node, directory.path(), &[("BTCGRAPH_NODE__PATIENCE_SECONDS", "3600")]);
    served.wait_for_height(1);
    node.kill();
    let mut program = btcgraph_on(&node, directory.path(), &["verify"]);
    let mut running = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("the server that has the index open checks it")));
    served.stop();
    let last = log.last().unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(5), "{last}");
    assert!(last.contains("INCOMPLETE: the server stopped before the check was done"), "{last}");
}

fn remove_a_row(file: &Path) {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let table = TableDefinition::<&[u8; 14], ()>::new("payouts");
        let mut table = transaction.open_table(table).unwrap();
        let first = *table.iter().unwrap().next().unwrap().unwrap().0.value();
        table.remove(&first).unwrap().unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn the_servers_trouble_with_the_node_has_the_commands_exit_code() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    node.mine(1);
    let directory = tempfile::tempdir().unwrap();
    let served = TestProcess::start_with(&node, directory.path(), &[("BTCGRAPH_NODE__PATIENCE_SECONDS", "0")]);
    served.wait_for_height(1);
    node.kill();
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["verify"]));
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("cannot reach the node"), "{printed}");
}

#[test]
fn an_index_that_is_open_without_a_server_cannot_be_verified() {
    let directory = tempfile::tempdir().unwrap();
    let Some(node) = RealNode::start(&[]) else { return };
    drop(TestProcess::start(&node, directory.path()));
    let _open = Database::open(directory.path().join("regtest/index.redb")).unwrap();
    let (code, printed) = run(&mut btcgraph_on(&node, directory.path(), &["verify"]));
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("in use by another process") && printed.contains("admin.sock"), "{printed}");
}

#[test]
fn a_server_of_another_index_does_not_answer_for_this_one() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(1);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = TestProcess::start(&node, one.path());
    let second = TestProcess::start(&node, two.path());
    first.wait_for_height(1);
    second.wait_for_height(1);
    let socket = two.path().join("regtest/admin.sock");
    let (code, printed) = run(btcgraph_on(&node, one.path(), &["verify"]).arg("--admin").arg(socket));
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("the server at this socket has the index") && printed.contains("--admin"), "{printed}");
}
