//! The life of the socket's file.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use crate::support::bitcoind::RealNode;
use crate::support::program::{btcgraph, btcgraph_on, run};
use crate::support::test_process::TestProcess;

/// The first block of regtest, which every node has.
const GENESIS: &str = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";

#[test]
fn the_socket_is_the_users_alone_and_goes_with_the_server() {
    let Some(node) = RealNode::start(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("regtest/admin.sock");
    let mut served = TestProcess::start(&node, directory.path());
    let found = socket.symlink_metadata().unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(served.stop().code(), Some(0));
    assert!(socket.symlink_metadata().is_err(), "it is gone");
}

#[test]
fn a_killed_servers_socket_is_taken_over() {
    let Some(node) = RealNode::start(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("regtest/admin.sock");
    drop(TestProcess::start(&node, directory.path()));
    assert!(socket.exists(), "a killed server leaves its socket");
    let served = TestProcess::start(&node, directory.path());
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", GENESIS]));
    assert_eq!(code, Some(0), "{printed}");
    drop(served);
}

#[test]
fn a_second_server_at_one_socket_is_refused() {
    let Some(node) = RealNode::start(&[]) else { return };
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = directory.path().join("regtest/admin.sock");
    let served = TestProcess::start(&node, directory.path());
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let (code, printed) = run(btcgraph_on(&node, other.path(), &serve).arg("--admin").arg(&socket));
    assert_eq!(code, Some(1), "{printed}");
    let reported = format!("another server listens at {} already", socket.display());
    assert!(printed.contains(&reported), "{printed}");
    let (code, printed) = run(&mut btcgraph(directory.path(), &["notify", GENESIS]));
    assert_eq!(code, Some(0), "{printed}");
    drop(served);
}

#[test]
fn a_socket_that_other_machines_could_reach_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["serve", "--admin", "0.0.0.0:8081"]));
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("can be reached from other machines"), "{printed}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
