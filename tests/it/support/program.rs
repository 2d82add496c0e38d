//! The program itself, run as its users run it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::bitcoind::RealNode;

/// The program on a regtest index in `directory`, with a fixed salt so that equal chains make equal rows.
pub(crate) fn btcgraph(directory: &Path, command: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
    program.args(command).args(["--network", "regtest", "--data-dir"]).arg(directory);
    program.env("BTCGRAPH_INDEX__SALT", "00112233445566778899aabbccddeeff").stdin(Stdio::null());
    program
}

/// The same, with a node to follow.
pub(crate) fn btcgraph_on(node: &RealNode, directory: &Path, command: &[&str]) -> Command {
    let mut program = btcgraph(directory, command);
    program.args(login(node));
    program
}

/// The flags by which the program finds a node.
pub(crate) fn login(node: &RealNode) -> Vec<OsString> {
    vec!["--rpc-url".into(), node.rpc_url().into(), "--rpc-cookie".into(), node.cookie_path().into()]
}

/// Runs it to its end; its exit code, and what it printed on both streams.
pub(crate) fn run(program: &mut Command) -> (Option<i32>, String) {
    let output = program.output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), printed)
}
