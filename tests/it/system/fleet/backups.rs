//! Backups: of an index at rest and of a running server, restored into an empty directory.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use btcgraph::fleet::JoinedNote;
use serde_json::json;

use super::stage::{Ended, Stage, run, salted};
use crate::support::test_process::TestProcess;

fn back_up(stage: &Stage, to: &Path) -> Ended {
    run(stage.program(stage.publisher.path(), &["backup", "--to", to.to_str().unwrap()]))
}

fn restore(stage: &Stage, from: &Path) -> (Ended, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (run(stage.program(directory.path(), &["restore", "--from", from.to_str().unwrap()])), directory)
}

/// The rows of each table, of those that record what the server observed, too.
fn counts(stage: &Stage, directory: &Path) -> Vec<(String, u64)> {
    let tables = stage.open(directory).snapshot().unwrap().tables().unwrap();
    tables.into_iter().map(|table| (table.name, table.rows)).collect()
}

#[test]
fn a_restored_index_has_all_rows() {
    let stage = Stage::start(60);
    // stale blocks, and a reorganisation that no node can repeat
    let mut hostile = btcgraph::sim::Hostile::new(5);
    stage.node.with(|world| world.change_chain(|chain| hostile.branch(chain, 3, 5))).unwrap().unwrap();
    stage.import(&[]).assert_success();
    let backup = tempfile::tempdir().unwrap();
    let first = back_up(&stage, backup.path());
    first.assert_success();
    assert_eq!(first.logged("the backup is complete", "copied_files"), json!(3));
    assert_eq!(first.logged("the backup is complete", "height"), json!(stage.height()));
    assert!(!stage.publisher.path().join("regtest/index.copying").exists());
    let (restored, directory) = restore(&stage, backup.path());
    restored.assert_success();
    let expected = counts(&stage, stage.publisher.path());
    assert!(expected.iter().any(|(name, rows)| name == "stale_blocks" && *rows > 0), "{expected:?}");
    assert_eq!(counts(&stage, directory.path()), expected);
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));

    // of a later backup only what is new is copied
    stage.mine(15);
    stage.import(&[]).assert_success();
    let second = back_up(&stage, backup.path());
    assert_eq!(second.logged("the backup is complete", "copied_files"), json!(2), "{}", second.stderr);
    let copies = fs::read_dir(backup.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("index-"));
    assert_eq!(copies.count(), 1);
    let (restored, directory) = restore(&stage, backup.path());
    restored.assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    let existing = run(stage.program(directory.path(), &["restore", "--from", backup.path().to_str().unwrap()]));
    assert_eq!(existing.code, Some(4));
    assert!(existing.stderr.contains("is restored into a data directory without an index"), "{}", existing.stderr);
}

#[test]
fn a_running_server_is_backed_up() {
    let stage = Stage::start(40);
    let variables = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"), ("BTCGRAPH_NODE__POLL_SECONDS", "1")];
    let mut served = TestProcess::start_on(&stage.login(), stage.publisher.path(), &salted(&stage, &variables));
    served.wait_for_height(stage.height());
    let backup = tempfile::tempdir().unwrap();
    let written = back_up(&stage, backup.path());
    written.assert_success();
    assert!(written.stderr.contains("the server that has the index open copies it"), "{}", written.stderr);
    stage.mine(1);
    served.wait_for_height(stage.height());
    assert!(served.stop().success());
    let (restored, directory) = restore(&stage, backup.path());
    restored.assert_success();
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_backup_that_is_killed_leaves_the_one_before() {
    let stage = Stage::start(40);
    let backup = tempfile::tempdir().unwrap();
    back_up(&stage, backup.path()).assert_success();
    stage.mine(15);
    stage.import(&[]).assert_success();
    for round in 0..8 {
        let mut command = stage.program(stage.publisher.path(), &["backup", "--to", backup.path().to_str().unwrap()]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(15 * round));
        let _ = process.kill();
        process.wait().unwrap();
        let (restored, _directory) = restore(&stage, backup.path());
        restored.assert_success();
    }
    back_up(&stage, backup.path()).assert_success();
    let (restored, directory) = restore(&stage, backup.path());
    restored.assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn the_txids_of_a_restored_index_are_compared_if_it_was_joined() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    // as a server that is stopped early leaves it
    let note_of = |directory: &Path| JoinedNote::read(&directory.join("regtest/index.redb")).unwrap();
    let note = JoinedNote { txids_match: false, ..note_of(directory.path()) };
    fs::write(directory.path().join("regtest/index.joined"), serde_json::to_vec(&note).unwrap()).unwrap();
    let backup = tempfile::tempdir().unwrap();
    run(stage.program(directory.path(), &["backup", "--to", backup.path().to_str().unwrap()])).assert_success();
    let (restored, directory) = restore(&stage, backup.path());
    restored.assert_success();
    assert_eq!(note_of(directory.path()), note);
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert!(note_of(directory.path()).txids_match);
}

#[test]
fn the_directory_of_the_index_is_no_place_for_its_backup() {
    let stage = Stage::start(40);
    let own = stage.publisher.path().join("regtest");
    let before = stage.rows(stage.publisher.path());
    let refused = back_up(&stage, &own);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let reason = format!("{} cannot be used as a backup: the files of the index", own.display());
    assert!(refused.stderr.contains(&reason), "{}", refused.stderr);
    assert!(!refused.stderr.contains("copies it") && !own.join("backup.json").exists());
    assert_eq!(stage.rows(stage.publisher.path()), before);
}

#[test]
fn damaged_foreign_and_absent_backups_are_refused() {
    let stage = Stage::start(40);
    let backup = tempfile::tempdir().unwrap();
    let refused = |reason: &str, code: i32| {
        let (restored, directory) = restore(&stage, backup.path());
        assert_eq!(restored.code, Some(code), "{}", restored.stderr);
        assert!(restored.stderr.contains(reason), "{reason} in {}", restored.stderr);
        assert!(!directory.path().join("regtest/index.redb").exists());
    };
    refused("there is no backup.json in it", 1);
    back_up(&stage, backup.path()).assert_success();
    let generation = fs::read_dir(backup.path().join("index.frozen")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&generation).unwrap();
    let mut changed = whole.clone();
    changed[70_000] ^= 1;
    fs::write(&generation, changed).unwrap();
    refused("differs from its checksum: the backup is damaged", 1);
    fs::write(&generation, whole).unwrap();
    let list = backup.path().join("backup.json");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("\"regtest\"", "\"signet\"")).unwrap();
    refused("is of network signet, not regtest", 1);
    fs::write(&list, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    refused("it has format 2, but this version reads format 1", 1);
    let index = serde_json::from_str::<serde_json::Value>(&text).unwrap()["index"]["name"].as_str().unwrap().to_owned();
    fs::write(&list, text.replace(&index, "../../secret")).unwrap();
    refused("names the file \"../../secret\"", 1);
    fs::write(&list, text).unwrap();
    restore(&stage, backup.path()).0.assert_success();
}
