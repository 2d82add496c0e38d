//! What goes wrong while the program imports in bulk, and with the generations that it makes: each ends in a message that says
//! what to do, and the next start goes on.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use btcgraph::chain::Height;
use btcgraph::index::{Import, ImportOptions, ImportPhase, IndexError, RawStorage};
use btcgraph::sim::blkfile::BlockFiles;
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::FreezeBounds;
use serde_json::json;

use crate::index::generations::serialized;
use crate::node::block_source::{SCATTERED, chain_of};
use crate::support::agree::assert_agrees;
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::gate::Gate;
use crate::support::indexed::Indexed;
use crate::support::model::Model;
use crate::support::program::{btcgraph, login, run};
use crate::sync::faults::may_mount;
use crate::sync::freezing::FrozenFollower;

const PATIENCE: Duration = Duration::from_mins(1);

/// Few of the blocks stay live.
const FREEZES: [(&str, &str); 3] = [
    ("BTCGRAPH_INDEX__FREEZE_DEPTH", "3"),
    ("BTCGRAPH_INDEX__FREEZE_EVERY", "4"),
    ("BTCGRAPH_NODE__PATIENCE_SECONDS", "0"),
];

fn chain() -> &'static SimChain {
    static CHAIN: OnceLock<SimChain> = OnceLock::new();
    CHAIN.get_or_init(|| chain_of(21, 250))
}

/// About a half of the bytes of its blocks.
fn half() -> u64 {
    let bytes: usize = chain().active_blocks().map(|block| block.total_size()).sum();
    u64::try_from(bytes / 2).unwrap()
}

/// A program on a node of that chain, which can be cut off.
struct Stage {
    _node: SimNode,
    gate: Gate,
    directory: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let node =
            SimNode::start(Arc::new(Mutex::new(World::new(chain().clone()))), SimNodeOptions::default()).unwrap();
        let gate = Gate::to(node.url().trim_start_matches("http://"));
        Self { _node: node, gate, directory: tempfile::tempdir().unwrap() }
    }

    fn login(&self) -> Vec<OsString> {
        let url = format!("http://{}", self.gate.address());
        ["--rpc-url", &url, "--rpc-user", "user", "--rpc-password", "password"].map(OsString::from).into()
    }

    fn program(&self, command: &[&str]) -> Command {
        let mut program = btcgraph(self.directory.path(), command);
        program.args(self.login()).envs(FREEZES);
        program
    }

    /// What a run of the program prints, which must end with this code.
    #[track_caller]
    fn run(&self, command: &[&str], expected: i32) -> String {
        ends(&mut self.program(command), expected)
    }

    /// Imports until the node has sent a half of the blocks, and is away then.
    fn interrupted() -> Self {
        let stage = Self::new();
        stage.gate.close_after(half());
        let printed = stage.run(&["import"], 3);
        assert!(printed.contains("importing in bulk"), "{printed}");
        assert!(printed.contains("cannot reach the node"), "{printed}");
        stage.gate.open();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("regtest").join(name)
    }

    /// The largest of the temporary files.
    fn run_file(&self) -> PathBuf {
        let files = fs::read_dir(self.path("import-regtest")).unwrap().map(|entry| entry.unwrap().path());
        let runs = files.filter(|path| path.extension().is_some_and(|extension| extension == "run"));
        runs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
    }

    /// The import goes on to the end, and the index equals the node.
    #[track_caller]
    fn assert_goes_on(&self) -> String {
        let printed = self.run(&["import"], 0);
        assert!(printed.contains("the imported blocks are in the index"), "{printed}");
        let verdict = self.run(&["verify", "--blocks", "5"], 0);
        assert!(verdict.contains("everything agrees"), "{verdict}");
        assert!(!self.path("index.building").exists());
        printed
    }
}

#[track_caller]
fn ends(program: &mut Command, expected: i32) -> String {
    let (code, printed) = run(program);
    assert_eq!(code, Some(expected), "{printed}");
    assert!(!printed.contains("panicked"), "{printed}");
    printed
}

#[test]
fn an_import_continues_after_the_node_was_away() {
    let printed = Stage::interrupted().assert_goes_on();
    assert!(printed.contains("continuing the import that was interrupted"), "{printed}");
}

#[test]
fn an_import_whose_temporary_directory_is_lost_starts_again() {
    let stage = Stage::interrupted();
    fs::remove_dir_all(stage.path("import-regtest")).unwrap();
    let printed = stage.assert_goes_on();
    assert!(printed.contains("the import that was interrupted starts again"), "{printed}");
    let file = stage.path("import-regtest/blocks.chunks");
    assert!(printed.contains(&format!("needs the temporary file {}, which is missing", file.display())), "{printed}");
}

#[test]
fn an_import_with_a_truncated_run_starts_again() {
    let stage = Stage::interrupted();
    let path = stage.run_file();
    let length = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let printed = stage.assert_goes_on();
    assert!(printed.contains("the import that was interrupted starts again"), "{printed}");
    assert!(printed.contains(&format!("the temporary file {} is shorter", path.display())), "{printed}");
}

/// What the disk changed is a record still, of another amount or script: only its checksum tells.
#[test]
fn an_import_with_a_changed_run_is_refused_and_starts_again() {
    let stage = Stage::interrupted();
    let path = stage.run_file();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let printed = stage.run(&["import"], 4);
    assert!(printed.contains("continuing the import that was interrupted"), "{printed}");
    let differs = format!("the temporary file {} of the import differs from what was written to it", path.display());
    assert!(printed.contains(&differs), "{printed}");
    let printed = stage.assert_goes_on();
    assert!(!printed.contains("continuing the import that was interrupted"), "{printed}");
}

/// The records of the blocks are read before the import goes on.
#[test]
fn an_import_whose_list_of_blocks_is_changed_starts_again() {
    let stage = Stage::interrupted();
    for name in ["blocks-00.run", "blocks.chunks"] {
        let path = stage.path("import-regtest").join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        stage.gate.close_after(half());
        let printed = stage.run(&["import"], 3);
        stage.gate.open();
        assert!(printed.contains("the import that was interrupted starts again"), "{printed}");
        let differs = format!("the temporary file {} differs from what was written to it", path.display());
        assert!(printed.contains(&differs), "{printed}");
    }
    stage.assert_goes_on();
}

/// The generation under construction has the checkpoint.
#[test]
fn an_import_whose_unfinished_generation_is_damaged_starts_again() {
    for left in [0, 1_000, 50_000] {
        let stage = Stage::interrupted();
        let path = stage.path("index.building");
        let length = fs::metadata(&path).unwrap().len();
        assert!(left < length);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        let printed = stage.assert_goes_on();
        assert!(printed.contains("the import that was interrupted starts again"), "{left}: {printed}");
        assert!(printed.contains("the file of the unfinished import is damaged: "), "{left}: {printed}");
    }
}

/// It was complete, and is not in force yet.
#[test]
fn an_import_whose_complete_generation_is_damaged_starts_again() {
    let stage = Stage::new();
    stage.assert_goes_on();
    let generation = fs::read_dir(stage.path("index.frozen")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&generation).unwrap();
    fs::remove_file(&generation).unwrap();
    for name in ["index.building", "index.frozen/0-9-left.redb"] {
        fs::remove_file(stage.path("index.redb")).unwrap();
        fs::write(stage.path(name), &bytes[..bytes.len() / 2]).unwrap();
        stage.assert_goes_on();
        fs::remove_dir_all(stage.path("index.frozen")).unwrap();
        fs::create_dir(stage.path("index.frozen")).unwrap();
    }
}

/// Continues an import on a disk with little more space than the import has already, and then with more.
const ON_A_SHORT_DISK: &str = r#"
    mount -t tmpfs -o size=1g none "$DIRECTORY" || exit 99
    reached() { touch "$CONTROL/$1"; until [ -e "$CONTROL/go-on-$1" ]; do sleep 0.05; done; }
    program() { "$BTCGRAPH" "$@" --network regtest --data-dir "$DIRECTORY" --rpc-url "$URL" --rpc-user user --rpc-password password; }
    program import; echo "exit code $?"
    reached interrupted
    mount -o "remount,size=$(($(df -k --output=used "$DIRECTORY" | tail -n 1) + 64))k" "$DIRECTORY" || exit 99
    program import; echo "exit code $?"
    mount -o remount,size=1g "$DIRECTORY" || exit 99
    program import; echo "exit code $?"
    program verify --blocks 5; echo "exit code $?""#;

#[test]
fn an_import_whose_disk_becomes_full_continues_with_more_space() {
    if !may_mount() {
        return;
    }
    let (stage, control) = (Stage::new(), tempfile::tempdir().unwrap());
    stage.gate.close_after(half());
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", ON_A_SHORT_DISK]).env("BTCGRAPH", env!("CARGO_BIN_EXE_btcgraph")).envs(FREEZES);
    shell.env("DIRECTORY", stage.directory.path()).env("CONTROL", control.path());
    shell.env("URL", format!("http://{}", stage.gate.address())).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shell = shell.spawn().unwrap();
    wait_for("the interruption", PATIENCE, || control.path().join("interrupted").exists().then_some(()));
    stage.gate.open();
    fs::write(control.path().join("go-on-interrupted"), "").unwrap();
    let output = shell.wait_with_output().unwrap();
    let [printed, log] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let codes: Vec<_> = printed.lines().filter(|line| line.starts_with("exit code")).collect();
    assert_eq!(codes, ["exit code 3", "exit code 4", "exit code 0", "exit code 0"], "{printed}{log}");
    assert!(log.contains("16 MiB must be free on the disk of the index, and 0 MiB are: free some space"), "{log}");
    assert!(log.contains("continuing the import that was interrupted"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    assert!(printed.contains("everything agrees"), "{printed}");
}

#[test]
fn an_import_reads_from_the_node_what_its_block_files_lack() {
    let truncate = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..1_000]).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let hide = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    for (damage, reason) in [
        (truncate as fn(&Path), "blocks, and not block"),
        (remove, "blocks, and not block"),
        (hide, "blk00001.dat: Is a directory"),
    ] {
        let (stage, files) = (Stage::new(), tempfile::tempdir().unwrap());
        let mut writer = BlockFiles::create(files.path(), SCATTERED).unwrap();
        for block in chain().active_blocks() {
            writer.write(block, &chain().spent_coins(&block.block_hash()).unwrap()).unwrap();
        }
        writer.flush().unwrap();
        damage(&files.path().join("blk00001.dat"));
        let (code, printed) = run(stage.program(&["import"]).arg("--blocks-dir").arg(files.path()));
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("source=REST: ") && printed.contains(reason), "{printed}");
        let verdict = stage.run(&["verify", "--blocks", "5"], 0);
        assert!(verdict.contains("everything agrees"), "{verdict}");
    }
}

#[test]
fn a_missing_generation_is_named_and_put_back() {
    let stage = Stage::new();
    stage.assert_goes_on();
    let generation = fs::read_dir(stage.path("index.frozen")).unwrap().next().unwrap().unwrap().path();
    let aside = stage.directory.path().join("aside");
    fs::rename(&generation, &aside).unwrap();
    for command in [&["import"][..], &["verify"], &["serve", "--listen", "127.0.0.1:0"]] {
        let printed = stage.run(command, 4);
        assert!(printed.contains(generation.to_str().unwrap()) && printed.contains("Put the file back"), "{printed}");
    }
    fs::rename(&aside, &generation).unwrap();
    let verdict = stage.run(&["verify", "--blocks", "5"], 0);
    assert!(verdict.contains("everything agrees"), "{verdict}");
}

/// The blocks that are not imported yet are gone: a node that has them continues the import.
#[test]
fn an_import_from_a_node_that_prunes_continues_with_another() {
    import_from_a_node_that_prunes(|import, pruned, gate| {
        gate.close_after(UNTIL_BLOCKS);
        let printed = ends(import, 3);
        assert!(printed.contains("importing in bulk"), "{printed}");
        pruned.must("pruneblockchain", &[json!(700)]);
        gate.open();
    });
}

#[test]
fn an_import_whose_node_prunes_while_it_is_read_continues_with_another() {
    import_from_a_node_that_prunes(|import, pruned, gate| {
        gate.hold_after(UNTIL_BLOCKS);
        let importing = import.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("the first blocks", PATIENCE, || gate.is_holding().then_some(()));
        pruned.must("pruneblockchain", &[json!(700)]);
        gate.open();
        let ended = importing.wait_with_output().unwrap();
        let printed = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{printed}");
        assert!(printed.contains("importing in bulk"), "{printed}");
        assert!(printed.contains("the node has pruned block"), "{printed}");
        assert!(!printed.contains("panicked"), "{printed}");
    });
}

/// What a node sends until some of its 1,000 blocks are read: each of them takes some 250 bytes, and its header comes before.
const UNTIL_BLOCKS: u64 = 170_000;

/// `prune` runs an import, and has the node prune before it is complete.
fn import_from_a_node_that_prunes(prune: impl FnOnce(&mut Command, &RealNode, &Gate)) {
    let Some(pruned) = RealNode::start(&["-txindex=0", "-prune=1", "-fastprune=1"]) else { return };
    let Some(whole) = RealNode::start(&["-txindex=0"]) else { return };
    for hash in pruned.mine(1_000) {
        let block = pruned.must("getblock", &[json!(hash), json!(0)]);
        whole.must("submitblock", &[block]);
    }
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::to(pruned.rpc_url().trim_start_matches("http://"));
    let import = |node: Vec<OsString>| {
        let mut program = btcgraph(directory.path(), &["import"]);
        // no block files, so that it can be cut off
        program.args(node).arg("--blocks-dir").arg(directory.path()).envs(FREEZES);
        program
    };
    let cut_off = || {
        let mut flags = login(&pruned);
        flags[1] = format!("http://{}", gate.address()).into();
        flags
    };
    prune(&mut import(cut_off()), &pruned, &gate);
    let printed = ends(&mut import(cut_off()), 3);
    assert!(printed.contains("the node has pruned those below height"), "{printed}");
    assert!(printed.contains("Import from a node that has them"), "{printed}");
    let printed = ends(&mut import(login(&whole)), 0);
    assert!(printed.contains("continuing the import that was interrupted"), "{printed}");
    let mut verify = btcgraph(directory.path(), &["verify", "--blocks", "5"]);
    let verdict = ends(verify.args(login(&whole)), 0);
    assert!(verdict.contains("everything agrees"), "{verdict}");
}

/// It was killed between its last block and the end; the node deleted blocks before the next start.
#[test]
fn an_import_that_has_all_blocks_ends_after_the_node_pruned() {
    let (mut chain, mut hostile) = (SimChain::new(86).keeping(60), Hostile::new(86));
    for _ in 0..50 {
        hostile.mine(&mut chain).unwrap();
    }
    let mut blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth: 5, every: 20, transactions: u64::MAX });
    for _ in 0..100 {
        let mined = followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain)));
        blocks.push(mined.unwrap().unwrap());
    }
    assert!(followed.node.chain_info().unwrap().prune_height > Some(Height::GENESIS));
    let imported = serialized(&blocks[..blocks.len() - 5]);
    for interrupted_in in [Some(ImportPhase::Outputs), None] {
        followed.indexed = Indexed::empty();
        let Indexed { index, directory } = &mut followed.indexed;
        index.set_raw_storage(RawStorage::Index).unwrap();
        // a checkpoint as often as possible
        let options = ImportOptions {
            checkpoint_interval: Duration::ZERO,
            raw_files: Some(index.raw_files()),
            ..index.import_options(directory.path().join("temporary/import-regtest"), 1 << 20, 1, 30_000)
        };
        let mut import = Import::begin(options.clone()).unwrap();
        import.push(&imported).unwrap();
        // the next is begun when the first partition is joined: none is being flushed then
        import.checkpoint().unwrap();
        let finished = import.finish(&mut |progress| match interrupted_in {
            Some(phase) if phase == progress.phase => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if interrupted_in.is_some() {
            assert!(matches!(finished, Err(IndexError::Interrupted)));
            assert!(Import::begin(options).unwrap().has_all_blocks());
        } else {
            assert!(finished.unwrap().is_some());
        }
        followed.restart();
        followed.catch_up();
        let snapshot = followed.indexed.index.snapshot().unwrap();
        assert_eq!(snapshot.raw_progress(Height::GENESIS).unwrap().first_missing, None);
        assert_agrees(&snapshot, &Model::of(blocks.iter().map(AsRef::as_ref)));
    }
}
