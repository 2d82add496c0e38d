//! `btcgraph notify`: a block is fetched when the node announces it, before the next poll would find it.

use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;

/// The next poll is a day away: whatever comes, comes because of a notice.
const NEVER: [(&str, &str); 2] =
    [("BTCGRAPH_NODE__POLL_SECONDS", "86400"), ("BTCGRAPH_SERVER__READY_SECONDS", "86400")];

const UNKNOWN: &str = "00000000000000000000000000000000000000000000000000000000000000ff";

#[test]
fn a_node_that_notifies_has_its_blocks_fetched_without_a_poll() {
    let directory = tempfile::tempdir().unwrap();
    let (program, data) = (env!("CARGO_BIN_EXE_btcgraph"), directory.path().display());
    let notify = format!("-blocknotify={program} notify %s --network regtest --data-dir {data}");
    let Some(node) = RealNode::start(&[&notify]) else { return };
    node.mine(2);
    let served = TestProcess::start_with(&node, directory.path(), &NEVER);
    served.wait_for_height(2);
    for height in 3..6 {
        node.mine(1);
        served.wait_for_height(height);
    }
    // a reorganisation is announced as well
    node.must("invalidateblock", &[node.must("getblockhash", &[json!(4)])]);
    let tip = *node.mine(3).last().unwrap();
    served.wait_for_height(6);
    assert_eq!(served.query("{ tip { hash } }"), json!({ "data": { "tip": { "hash": tip.to_string() } } }));
}

#[test]
fn any_number_of_notices_at_any_time_does_no_harm() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(300);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start_with(&node, directory.path(), &NEVER);
    let known = node.must("getblockhash", &[json!(7)]);
    let notices = || -> Vec<Child> {
        let notify = ["notify", known.as_str().unwrap()];
        let notice = |_| btcgraph(directory.path(), &notify).stdout(Stdio::null()).spawn().unwrap();
        (0..30).map(notice).collect()
    };
    let during = notices();
    served.wait_for_height(300);
    node.mine(1);
    let after = notices();
    served.wait_for_height(301);
    for mut notice in during.into_iter().chain(after) {
        assert_eq!(notice.wait().unwrap().code(), Some(0));
    }
    assert_eq!(served.stop().code(), Some(0));
}

#[test]
fn a_notice_of_a_block_that_the_node_does_not_have_says_so() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    node.mine(2);
    let directory = tempfile::tempdir().unwrap();
    let served = TestProcess::start_with(&node, directory.path(), &NEVER);
    served.wait_for_height(2);
    // the notice is followed all the same
    node.mine(1);
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", UNKNOWN]));
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.contains(&format!("the server returned 404: the node has no block {UNKNOWN}; the server still")),
        "{printed}"
    );
    served.wait_for_height(3);
    // a node that is away cannot be asked
    node.kill();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", UNKNOWN]));
    assert_eq!((code, printed.as_str()), (Some(0), ""));
}

#[test]
fn a_notice_of_what_is_no_block_is_wrong_use() {
    let directory = tempfile::tempdir().unwrap();
    for hash in ["", "%s", "00ff", &UNKNOWN[1..], &UNKNOWN.replace('f', "x")] {
        let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", hash]));
        assert_eq!(code, Some(2), "{hash}: {printed}");
        assert!(printed.contains("<HASH>"), "{printed}");
    }
}

#[test]
fn without_a_server_a_notice_fails_and_says_what_to_check() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("regtest/admin.sock").display().to_string();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", UNKNOWN]));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains(&socket) && printed.contains("Is `btcgraph serve` running"), "{printed}");

    std::fs::create_dir(directory.path().join("regtest")).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", UNKNOWN]));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Connection refused"), "{printed}");
}

#[test]
fn a_server_that_does_not_answer_does_not_hang_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("silent.sock");
    let _silent = UnixListener::bind(&path).unwrap();
    let mut program = btcgraph(directory.path(), &["notify", UNKNOWN]);
    let notice = program.arg("--admin").arg(&path).stderr(Stdio::piped()).spawn();
    let mut notice = notice.unwrap();
    let status = wait_for("the notice to end", Duration::from_mins(1), || notice.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    let printed = std::io::read_to_string(notice.stderr.take().unwrap()).unwrap();
    assert!(printed.contains("does not respond within 5 seconds"), "{printed}");
}

#[test]
fn a_port_serves_as_well_as_a_socket() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(1);
    let directory = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let variables = [NEVER[0], NEVER[1], ("BTCGRAPH_ADMIN__LISTEN", &address)];
    let served = TestProcess::start_with(&node, directory.path(), &variables);
    served.wait_for_height(1);
    let tip = node.mine(1)[0].to_string();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", &tip, "--admin", &address]));
    assert_eq!((code, printed.as_str()), (Some(0), ""));
    served.wait_for_height(2);
    assert!(!directory.path().join("regtest/admin.sock").exists());
}
