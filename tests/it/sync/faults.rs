//! What goes wrong around the index: a clear message, the promised exit code, and nothing changed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use bitcoin::Block;
use bitcoin::consensus::encode::serialize_hex;
use btcgraph::index::{FORMAT_VERSION, Index, IndexError, IndexOptions, Salt};
use btcgraph::sim::blkfile::BlkWriter;
use btcgraph::sim::{Hostile, LoadGenerator, LoadProfile, Rng, SimChain};
use redb::{Database, ReadableDatabase, TableDefinition};
use serde_json::json;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::indexed::{Indexed, options};
use crate::support::program::{btcgraph, btcgraph_on, run};
use crate::support::skips::{current_test, skip};

pub(crate) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

fn chain(blocks: u32) -> Vec<Arc<Block>> {
    let (mut chain, mut hostile) = (SimChain::new(1), Hostile::new(1));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    chain.active_blocks().cloned().collect()
}

/// An index of some blocks at the place where the program looks for the regtest index, closed.
fn index_in(directory: &Path) -> PathBuf {
    fs::create_dir_all(directory.join("regtest")).unwrap();
    let options = options(&directory.join("regtest"));
    let index = Index::open(&options).unwrap();
    let mut indexed = Indexed { index, directory: tempfile::tempdir().unwrap() };
    indexed.connect(chain(5).iter().map(Arc::as_ref), 5);
    options.path
}

/// Importing and verifying refuse the index with exit code 4 and these words, and leave the file as it was.
fn assert_refused(directory: &Path, file: &Path, words: &[&str]) {
    let before = fs::read(file).unwrap();
    for command in [&["import"][..], &["verify", "--without-node"]] {
        let (code, printed) = run(btcgraph(directory, command).env_remove("BTCGRAPH_INDEX__SALT"));
        assert_eq!(code, Some(4), "{printed}");
        for word in words {
            assert!(printed.contains(word), "{word:?} in: {printed}");
        }
        assert!(!printed.contains("panicked"), "{printed}");
    }
    assert!(fs::read(file).unwrap() == before, "the file was changed");
}

pub(crate) fn set_meta(file: &Path, name: &str, value: &[u8]) {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert(name, value).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn an_index_of_another_network_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = index_in(directory.path());
    set_meta(&file, "network", b"signet");
    assert_refused(directory.path(), &file, &["is an index of signet, not of regtest", "--network signet"]);
}

#[test]
fn an_index_of_another_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = index_in(directory.path());
    for found in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        set_meta(&file, "format", &found.to_be_bytes());
        let sentence = format!(
            "{} has index format {found}, but this version of btcgraph reads format {FORMAT_VERSION}: remove the file and \
             import again, or run the version that wrote it",
            file.display()
        );
        assert_refused(directory.path(), &file, &[&sentence]);
    }
}

#[test]
fn an_index_with_another_genesis_block_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = index_in(directory.path());
    set_meta(&file, "genesis", &[1; 32]);
    assert_refused(directory.path(), &file, &["begins with genesis block 0101", "--data-dir"]);
}

#[test]
fn a_redb_file_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("regtest")).unwrap();
    let file = directory.path().join("regtest/index.redb");
    let database = Database::create(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: TableDefinition<'_, u64, u64> = TableDefinition::new("meta");
    transaction.open_table(table).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_refused(directory.path(), &file, &["not an index of btcgraph", "Move it away"]);
}

#[test]
fn a_file_that_is_no_redb_is_refused() {
    for content in [Vec::new(), b"not a database".to_vec(), vec![0x55; 100_000]] {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("regtest")).unwrap();
        let file = directory.path().join("regtest/index.redb");
        fs::write(&file, content).unwrap();
        assert_refused(directory.path(), &file, &["is not a redb database", "Move it away"]);
    }
}

#[test]
fn an_index_made_with_another_salt_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Indexed::empty());
    let options = options(directory.path());
    drop(Index::open(&options).unwrap());
    let error = Index::open(&IndexOptions { salt: Some(Salt([9; 16])), ..options }).err().unwrap();
    assert!(matches!(error, IndexError::WrongSalt { .. }), "{error}");
}

#[test]
fn an_index_that_is_open_elsewhere_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = index_in(directory.path());
    let _open = Database::open(&file).unwrap();
    let (code, printed) = run(btcgraph(directory.path(), &["import"]).env_remove("BTCGRAPH_INDEX__SALT"));
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("in use by another process"), "{printed}");
}

/// None of them replaces the file of another, or keeps it from opening its own.
#[test]
fn of_those_that_create_an_index_at_once_one_opens_it() {
    for _ in 0..50 {
        let (directory, start) = (tempfile::tempdir().unwrap(), Barrier::new(4));
        let options = options(&directory.path().join("regtest"));
        let open = || {
            start.wait();
            Index::open(&options)
        };
        let opened: Vec<_> = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(open));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (opened, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        assert_eq!(opened.len(), 1);
        for refused in refused {
            assert!(matches!(refused, Err(IndexError::InUse { .. })), "{:?}", refused.err());
        }
    }
}

#[test]
fn verifying_what_does_not_exist_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["verify", "--without-node"]));
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("there is no index"), "{printed}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_stopped_verify_exits_at_once_with_5_and_no_verdict() {
    let directory = tempfile::tempdir().unwrap();
    index_in(directory.path());
    let cookie = directory.path().join("cookie");
    fs::write(&cookie, "__cookie__:secret").unwrap();
    let mut program = btcgraph(directory.path(), &["verify", "--rpc-url", "http://127.0.0.1:1"]);
    program
        .arg("--rpc-cookie")
        .arg(&cookie)
        .env("BTCGRAPH_NODE__PATIENCE_SECONDS", "3600")
        .env_remove("BTCGRAPH_INDEX__SALT");
    let mut running = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(running.stderr.take().unwrap()).lines();
    let before: Vec<_> =
        printed.by_ref().map(Result::unwrap).take_while(|line| !line.contains("does not answer")).collect();
    assert_eq!(running.try_wait().unwrap(), None, "{before:?}");
    let sent = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert!(printed.any(|line| line.unwrap().contains("INCOMPLETE: stopped before the check was done")));
    assert_eq!(running.wait().unwrap().code(), Some(5));
}

#[test]
fn an_unreachable_node_ends_import_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let cookie = directory.path().join("cookie");
    fs::write(&cookie, "__cookie__:secret").unwrap();
    let mut program = btcgraph(directory.path(), &["import", "--rpc-url", "http://127.0.0.1:1"]);
    program.arg("--rpc-cookie").arg(&cookie).env("BTCGRAPH_NODE__PATIENCE_SECONDS", "0");
    let (code, printed) = run(&mut program);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("cannot reach the node at http://127.0.0.1:1"), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
}

/// Whether this user may mount file systems in a namespace of its own; a line in the skips if not.
pub(crate) fn may_mount() -> bool {
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let allowed = allowed.is_ok_and(|output| output.status.success());
    if !allowed {
        skip(&current_test(), "this user may not mount file systems, not even in a namespace of its own");
    }
    allowed
}

/// Runs a shell script with mounts of its own; `None`, and a line in the skips, where that is not allowed.
fn with_mounts(script: &str, variables: &[(&str, &Path)]) -> Option<(Option<i32>, String)> {
    if !may_mount() {
        return None;
    }
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", script]);
    shell.env("BTCGRAPH", env!("CARGO_BIN_EXE_btcgraph"));
    for (name, value) in variables {
        shell.env(name, value);
    }
    Some(run(&mut shell))
}

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = index_in(directory.path());
    let script = r#"
        mount --bind "$DIRECTORY" "$DIRECTORY" && mount -o remount,bind,ro "$DIRECTORY" || exit 99
        "$BTCGRAPH" import --network regtest --data-dir "$DIRECTORY""#;
    let before = fs::read(&file).unwrap();
    let Some((code, printed)) = with_mounts(script, &[("DIRECTORY", directory.path())]) else { return };
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("Read-only file system") && printed.contains("may write to it"), "{printed}");
    assert!(fs::read(&file).unwrap() == before);
    fs::remove_file(&file).unwrap();
    let Some((code, printed)) = with_mounts(script, &[("DIRECTORY", directory.path())]) else { return };
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("Read-only file system"), "{printed}");
}

#[test]
fn an_import_reports_a_full_disk_and_continues_with_more_space() {
    let Some(node) = RealNode::start(&[]) else { return };
    for block in chain(250).iter().skip(1) {
        node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
    }
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=3m none "$DIRECTORY" || exit 99
        program() { "$BTCGRAPH" "$@" --network regtest --data-dir "$DIRECTORY" --rpc-url "$URL" --rpc-cookie "$COOKIE"; }
        program import; echo "exit code $?"
        mount -o remount,size=100m "$DIRECTORY" || exit 99
        program import; echo "exit code $?"
        program verify; echo "exit code $?""#;
    let (url, cookie) = (PathBuf::from(node.rpc_url()), node.cookie_path());
    let variables: [(&str, &Path); 3] = [("DIRECTORY", directory.path()), ("URL", &url), ("COOKIE", &cookie)];
    let Some((_, printed)) = with_mounts(script, &variables) else { return };
    let codes: Vec<_> = printed.lines().filter(|line| line.starts_with("exit code")).collect();
    assert_eq!(codes, ["exit code 4", "exit code 0", "exit code 0"], "{printed}");
    assert!(printed.contains("16 MiB must be free on the disk of the index, and "), "{printed}");
    assert!(printed.contains("the import goes on where it stopped when it is started again"), "{printed}");
    assert!(printed.contains("everything agrees"), "{printed}");
}

/// A node with a chain of the shape of mainnet.
fn node_with_load(transactions: u64, blocks: u32) -> Option<RealNode> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.blk");
    let mut file = BlkWriter::new(fs::File::create(&path).unwrap());
    let mut chain = SimChain::new(1).keeping(1);
    file.write(chain.active_blocks().next().unwrap()).unwrap();
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    while let Some(block) = load.next_block(&mut chain).unwrap() {
        file.write(&block).unwrap();
    }
    file.finish().unwrap();
    let node = RealNode::start(&[&format!("-loadblock={}", path.display())])?;
    wait_for("the node to load the chain", Duration::from_mins(3), || {
        (node.must("getblockcount", &[]) == json!(blocks)).then_some(())
    });
    Some(node)
}

/// The lines of a report with rows and hashes.
fn rows(report: &str) -> Vec<&str> {
    let found: Vec<_> = report.lines().filter(|line| line.split_whitespace().count() == 3).collect();
    assert!(found.len() >= 11, "{report}");
    found
}

#[test]
fn an_import_killed_ten_times_has_the_rows_of_one_never_killed() {
    let Some(node) = node_with_load(30_000, 130) else { return };
    let (alone, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // little memory makes many commits
    let import = ["import", "--memory", "8MiB"];
    let started = std::time::Instant::now();
    let (code, printed) = run(&mut btcgraph_on(&node, alone.path(), &import));
    assert_eq!(code, Some(0), "{printed}");
    let whole = u64::try_from(started.elapsed().as_millis()).unwrap();

    let mut random = Rng::new(u64::from(std::process::id()));
    let (mut kills, mut heights) = (0, Vec::new());
    while kills < 10 {
        let mut import = btcgraph_on(&node, killed.path(), &import);
        let mut running = import.stderr(Stdio::null()).spawn().unwrap();
        // the kill comes at a random moment, not on a condition
        std::thread::sleep(Duration::from_millis(random.between(1, whole / 4)));
        running.kill().unwrap();
        if running.wait().unwrap().success() {
            // it was faster: only an import that is under way counts
            fs::remove_file(killed.path().join("regtest/index.redb")).unwrap();
        } else {
            kills += 1;
            heights.push(tip_height(&killed.path().join("regtest/index.redb")));
        }
    }
    println!("height after each kill: {heights:?}");
    let (code, printed) = run(&mut btcgraph_on(&node, killed.path(), &import));
    assert_eq!(code, Some(0), "{printed}");

    let verify = ["verify", "--blocks", "5"];
    let (code, one) = run(&mut btcgraph_on(&node, alone.path(), &verify));
    assert_eq!(code, Some(0), "{one}");
    let (code, other) = run(&mut btcgraph_on(&node, killed.path(), &verify));
    assert_eq!(code, Some(0), "{other}");
    assert_eq!(rows(&one), rows(&other));
}

/// The height that the last commit left, if there is a file.
fn tip_height(file: &Path) -> Option<u32> {
    let database = file.exists().then(|| Database::open(file).unwrap())?;
    let transaction = database.begin_read().unwrap();
    let tip = transaction.open_table(META).unwrap().get("tip").unwrap()?;
    tip.value().first_chunk().map(|height| u32::from_be_bytes(*height))
}
