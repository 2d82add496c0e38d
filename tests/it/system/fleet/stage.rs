//! A simulated node, the data directory of a publisher, a store, and the program on them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use btcgraph::fleet::{FleetStore, PublishOptions, PublishOutcome, PublishedCut};
use btcgraph::index::{Index, IndexOptions};
use btcgraph::sim::{Mining, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::read_frozen_blocks;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::node::sim_node::client;
use crate::support::indexed::{TableRows, options, rows};
use crate::support::program::btcgraph;
use crate::sync::freezing::hostile_chain;

/// All but so few blocks are frozen, so often.
const FREEZING: [(&str, &str); 2] = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"), ("BTCGRAPH_INDEX__FREEZE_EVERY", "10")];

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) printed: String,
    /// Objects of JSON.
    pub(super) log: Vec<Value>,
    /// All of it, for messages.
    pub(super) stderr: String,
}

impl Ended {
    /// A field of the log line with this message.
    #[track_caller]
    pub(super) fn logged(&self, message: &str, field: &str) -> Value {
        let line = self.log.iter().find(|line| line["message"] == message);
        line.unwrap_or_else(|| panic!("{message}: {}", self.stderr))[field].clone()
    }

    #[track_caller]
    pub(super) fn assert_success(&self) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
    }
}

pub(super) struct Stage {
    pub(super) node: SimNode,
    pub(super) publisher: TempDir,
    pub(super) store: TempDir,
}

impl Stage {
    /// A chain of so many blocks, all but five of which the publisher has frozen in two generations.
    pub(super) fn start(blocks: u32) -> Self {
        let stage = Self::of_chain(hostile_chain(71, blocks).0);
        stage.mine(20);
        stage.import(&[]).assert_success();
        stage
    }

    /// A chain all but five of whose blocks the publisher has frozen in one generation.
    pub(super) fn of_chain(chain: SimChain) -> Self {
        let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
        let stage = Self { node, publisher: tempfile::tempdir().unwrap(), store: tempfile::tempdir().unwrap() };
        stage.import(&[]).assert_success();
        stage
    }

    /// Lets the publisher follow the node.
    pub(super) fn import(&self, arguments: &[&str]) -> Ended {
        run(self.program(self.publisher.path(), &[&["import"], arguments].concat()))
    }

    pub(super) fn mine(&self, blocks: u32) {
        for _ in 0..blocks {
            self.node.with(|world| world.mine(Mining::default()).map(|_| ())).unwrap().unwrap();
        }
    }

    pub(super) fn height(&self) -> u32 {
        self.node.with(|world| world.chain().height().to_u32()).unwrap()
    }

    /// The flags by which the program finds the node.
    pub(super) fn login(&self) -> Vec<OsString> {
        let flags = ["--rpc-url", &self.node.url(), "--rpc-user", "user", "--rpc-password", "password"];
        flags.map(Into::into).into()
    }

    /// The program with the node. It has no salt of its own, so that it must get that of the publisher.
    pub(super) fn program(&self, directory: &Path, command: &[&str]) -> Command {
        let mut program = btcgraph(directory, command);
        program.args(self.login()).args(["--log-format", "json"]).envs(FREEZING);
        program.env_remove("BTCGRAPH_INDEX__SALT");
        program
    }

    /// The address of the store.
    pub(super) fn url(&self) -> String {
        format!("file://{}", self.store.path().display())
    }

    pub(super) fn publish(&self) -> Ended {
        run(self.program(self.publisher.path(), &["publish", "--to", &self.url()]))
    }

    /// Joins in a directory of its own, and imports the rest.
    pub(super) fn join(&self, arguments: &[&str]) -> (Ended, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        (self.join_in(directory.path(), arguments), directory)
    }

    pub(super) fn join_in(&self, directory: &Path, arguments: &[&str]) -> Ended {
        run(self.program(directory, &[&["import", "--from", &self.url()], arguments].concat()))
    }

    /// All rows that are a function of the chain, after a check of them and of the whole index.
    pub(super) fn rows(&self, directory: &Path) -> TableRows {
        let verified = run(self.program(directory, &["verify", "--blocks", "1000"]));
        assert_eq!(verified.code, Some(0), "{}{}", verified.printed, verified.stderr);
        let index = self.open(directory);
        read_frozen_blocks(&index, &client(&self.node), None).unwrap();
        rows(&index, directory)
    }

    #[expect(clippy::unused_self, reason = "it reads as the other steps of a stage")]
    pub(super) fn open(&self, directory: &Path) -> Index {
        Index::open(&IndexOptions { salt: None, ..options(&directory.join("regtest")) }).unwrap()
    }

    /// The files in a folder of the store, with their sizes.
    pub(super) fn objects(&self, folder: &str) -> Vec<(PathBuf, u64)> {
        let entries = fs::read_dir(self.store.path().join(folder));
        let entries = entries.into_iter().flatten().map(|entry| entry.unwrap());
        let mut found: Vec<_> = entries.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect();
        found.sort();
        found
    }

    /// The largest object of the store: the first generation.
    pub(super) fn largest_object(&self) -> PathBuf {
        self.objects("objects").into_iter().max_by_key(|(_, bytes)| *bytes).unwrap().0
    }

    /// Publishes within this process.
    pub(super) fn publish_here(&self, keep_seconds: u64) -> PublishOutcome {
        let store = FleetStore::open(&self.url(), [], true).unwrap();
        let frozen = self.open(self.publisher.path()).snapshot().unwrap().frozen_files().unwrap().unwrap();
        let options = PublishOptions {
            network: bitcoin::Network::Regtest,
            directory: self.publisher.path().join("regtest/index.publishing"),
            keep: std::time::Duration::from_secs(keep_seconds),
            rate: None,
            stop: CancellationToken::new(),
        };
        let cut = PublishedCut::new(options.network, frozen).unwrap();
        runtime().block_on(btcgraph::fleet::publish(&store, &cut, &options)).unwrap()
    }
}

/// The salt that the index of the publisher has, as the helper sets another one.
pub(super) fn salted<'v>(stage: &Stage, variables: &[(&'v str, &'v str)]) -> Vec<(&'v str, &'v str)> {
    let salt = stage
        .open(stage.publisher.path())
        .salt()
        .0
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat();
    [variables, &[("BTCGRAPH_INDEX__SALT", &*salt.leak())]].concat()
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a command to its end.
pub(super) fn run(mut program: Command) -> Ended {
    ended(program.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap())
}

pub(super) fn ended(output: std::process::Output) -> Ended {
    let stderr = String::from_utf8(output.stderr).unwrap();
    let log = stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ended { code: output.status.code(), printed: String::from_utf8(output.stdout).unwrap(), log, stderr }
}
