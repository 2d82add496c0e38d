//! Objects and manifests that are not what they should be, and data directories that cannot join.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use btcgraph::fleet::JoinedNote;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::stage::{Ended, Stage, run};
use crate::support::program::run as run_program;

/// The one manifest of the store, changed and named by its new content.
fn rewrite_manifest(stage: &Stage, change: impl Fn(&mut serde_json::Value)) {
    let [(path, _)] = &stage.objects("manifests")[..] else { panic!("there is one manifest") };
    let mut manifest = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut manifest);
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let sum = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let name = path.file_name().unwrap().to_str().unwrap();
    let (head, _) = name.rsplit_once('-').unwrap();
    fs::remove_file(path).unwrap();
    fs::write(path.with_file_name(format!("{head}-{sum}.json")), bytes).unwrap();
}

#[track_caller]
fn assert_refused(ended: &Ended, code: i32, reason: &str, directory: &Path) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(ended.stderr.contains(reason), "{reason} in {}", ended.stderr);
    assert!(!directory.join("regtest/index.redb").exists(), "a refused join leaves no index");
}

#[test]
fn truncated_changed_and_missing_objects_are_named() {
    let stage = Stage::start(60);
    stage.publish().assert_success();
    let object = stage.largest_object();
    let name = format!("objects/{}", object.file_name().unwrap().to_str().unwrap());
    let whole = fs::read(&object).unwrap();

    File::options().write(true).open(&object).unwrap().set_len(70_000).unwrap();
    let (joined, directory) = stage.join(&[]);
    let reason = format!("{name} has 70000 bytes instead of {}: it is truncated", whole.len());
    assert_refused(&joined, 1, &reason, directory.path());
    // nor is it replaced by the publisher
    let published = stage.publish();
    assert_eq!(published.code, Some(1));
    assert!(published.stderr.contains(&reason), "{}", published.stderr);

    let mut changed = whole.clone();
    changed[100_000] ^= 1;
    fs::write(&object, &changed).unwrap();
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 1, &format!("{name} differs from its checksum at byte 65536: "), directory.path());
    // what another manifest left there takes no space
    let other = directory.path().join(format!("regtest/index.joining/{}.part", "ab".repeat(32)));
    fs::write(&other, "other").unwrap();
    assert_eq!(stage.join_in(directory.path(), &[]).code, Some(1));
    assert!(!other.exists());
    // what was downloaded is used when the object is mended
    fs::write(&object, &whole).unwrap();
    stage.join_in(directory.path(), &[]).assert_success();

    fs::remove_file(&object).unwrap();
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 1, &format!("{name} is not in the store any more"), directory.path());
    // the publisher uploads what is missing, and the same directory joins
    let published = stage.publish();
    assert_eq!(published.logged("published", "uploaded_objects"), json!(1), "{}", published.stderr);
    stage.join_in(directory.path(), &[]).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn changed_checksums_are_named() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let (object, _) = stage.objects("objects").into_iter().min_by_key(|(_, bytes)| *bytes).unwrap();
    let mut sums = fs::read(&object).unwrap();
    sums[3] ^= 1;
    fs::write(&object, sums).unwrap();
    let (joined, directory) = stage.join(&[]);
    let name = format!("objects/{}", object.file_name().unwrap().to_str().unwrap());
    assert_refused(&joined, 1, &format!("{name} differs from its checksum at byte 0"), directory.path());
}

#[test]
fn manifests_of_other_networks_formats_and_versions_are_refused() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let directory = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
    program.args(["import", "--from", &stage.url(), "--without-node", "--network", "signet", "--data-dir"]);
    program.arg(directory.path());
    let (code, printed) = run_program(&mut program);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("is of network regtest (genesis 0f9188f1"), "{printed}");
    assert!(printed.contains("not signet: set another --network or another store"), "{printed}");

    rewrite_manifest(&stage, |manifest| manifest["generations"][0]["tables"]["history"] = json!(99));
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 4, "has version 99 of table `history`, but this version of btcgraph", directory.path());
    rewrite_manifest(&stage, |manifest| manifest["utxo_value"] = json!(1));
    rewrite_manifest(&stage, |manifest| manifest["generations"][0]["tables"]["history"] = json!(1));
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 1, "its UTXO count or value is not that of its blocks", directory.path());
    rewrite_manifest(&stage, |manifest| manifest["format"] = json!(2));
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 1, "has manifest format 2, but this version of btcgraph reads format 1", directory.path());
    // what has no name of a manifest is none
    let [(path, _)] = &stage.objects("manifests")[..] else { panic!("there is one manifest") };
    fs::rename(path, path.with_file_name("manifest.json")).unwrap();
    let (joined, directory) = stage.join(&[]);
    assert_refused(&joined, 1, "there are no manifests in file://", directory.path());
}

#[test]
fn blocks_that_the_node_does_not_have_are_not_joined() {
    let (stage, other) = (Stage::start(40), Stage::start(30));
    stage.publish().assert_success();
    let directory = tempfile::tempdir().unwrap();
    let joined = run(other.program(directory.path(), &["import", "--from", &stage.url()]));
    assert_refused(&joined, 3, "none of the 1 manifests", directory.path());
    // a lower manifest of the node's chain is used instead
    other.publish().assert_success();
    for (path, _) in other.objects("manifests") {
        fs::copy(&path, stage.store.path().join("manifests").join(path.file_name().unwrap())).unwrap();
    }
    for (path, _) in other.objects("objects") {
        fs::copy(&path, stage.store.path().join("objects").join(path.file_name().unwrap())).unwrap();
    }
    run(other.program(directory.path(), &["import", "--from", &stage.url()])).assert_success();
    assert_eq!(other.rows(directory.path()), other.rows(other.publisher.path()));
}

#[test]
fn only_an_empty_directory_joins() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let joined = stage.join_in(stage.publisher.path(), &[]);
    assert_eq!(joined.code, Some(4));
    assert!(joined.stderr.contains("only an empty data directory can join"), "{}", joined.stderr);

    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("regtest")).unwrap();
    fs::write(directory.path().join("regtest/index.building"), "").unwrap();
    assert_refused(&stage.join_in(directory.path(), &[]), 4, "is of an import that was interrupted", directory.path());
    fs::remove_file(directory.path().join("regtest/index.building")).unwrap();

    let mut salted = stage.program(directory.path(), &["import", "--from", &stage.url()]);
    salted.env("BTCGRAPH_INDEX__SALT", "ffffffffffffffffffffffffffffffff");
    assert_refused(&run(salted), 4, "have another salt than the setting index.salt", directory.path());
    // an index without blocks has a salt, too
    drop(stage.open(directory.path()));
    let joined = stage.join_in(directory.path(), &[]);
    assert!(joined.stderr.contains("remove that file, which has no blocks"), "{}", joined.stderr);
    fs::remove_file(directory.path().join("regtest/index.redb")).unwrap();
    stage.join_in(directory.path(), &[]).assert_success();
}

#[test]
fn nothing_is_published_of_an_index_without_frozen_blocks() {
    let stage = Stage::start(40);
    let directory = tempfile::tempdir().unwrap();
    let publish = || run(stage.program(directory.path(), &["publish", "--to", &stage.url()]));
    assert!(publish().stderr.contains("there is no index at"));
    drop(stage.open(directory.path()));
    let published = publish();
    assert_eq!(published.code, Some(1));
    assert!(published.stderr.contains("no blocks of the index are frozen yet"), "{}", published.stderr);
    let wrong = run(stage.program(stage.publisher.path(), &["publish", "--to", "bucket"]));
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("\"bucket\" is not the address of a store"), "{}", wrong.stderr);
    let wrong = run(stage.program(stage.publisher.path(), &["publish", "--to", &stage.url(), "--rate", "fast"]));
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("'fast' for '--rate <BYTES>'"), "{}", wrong.stderr);
}

#[test]
fn txids_that_are_not_those_of_the_headers_are_reported() {
    let stage = Stage::start(40);
    // a publisher whose index is wrong, and whose checksums are right
    let generation = fs::read_dir(stage.publisher.path().join("regtest/index.frozen")).unwrap();
    let generation = generation.map(|entry| entry.unwrap().path()).min().unwrap();
    change_a_txid(&generation);
    stage.publish().assert_success();
    let (joined, directory) = stage.join(&[]);
    assert_eq!(joined.code, Some(4), "{}", joined.stderr);
    let reason = "the merkle root of its txids is not that of its header";
    assert!(joined.stderr.contains(reason) && joined.stderr.contains("remove "), "{}", joined.stderr);
    let index = directory.path().join("regtest/index.redb");
    assert!(!JoinedNote::read(&index).unwrap().txids_match);
    // a server ends, too
    let served = run(stage.program(directory.path(), &["serve", "--listen", "127.0.0.1:0"]));
    assert_eq!(served.code, Some(4), "{}", served.stderr);
    assert!(served.stderr.contains(reason), "{}", served.stderr);
    // what is known of it is not found again while wrong answers are given
    assert!(!served.stderr.contains("\"serving\""), "{}", served.stderr);
    // nor is it given to others
    let backup = tempfile::tempdir().unwrap();
    let to = backup.path().to_str().unwrap();
    for command in [&["publish", "--to", &stage.url()][..], &["backup", "--to", to]] {
        let refused = run(stage.program(directory.path(), command));
        assert_eq!(refused.code, Some(4), "{}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    // another index in its place is not that one
    let note = fs::read(index.with_extension("joined")).unwrap();
    run(stage.program(stage.publisher.path(), &["backup", "--to", to])).assert_success();
    for command in [&["import"][..], &["restore", "--from", to]] {
        fs::remove_file(&index).unwrap();
        fs::remove_dir_all(index.with_extension("frozen")).unwrap();
        fs::write(index.with_extension("joined"), &note).unwrap();
        run(stage.program(directory.path(), command)).assert_success();
        assert_eq!(JoinedNote::read(&index), None, "{command:?}");
    }
}

/// Changes the first txid behind the genesis coinbase in the file of a generation.
fn change_a_txid(path: &Path) {
    use redb::ReadableTable;

    const TXIDS: redb::TableDefinition<'static, &[u8; 4], &[u8]> = redb::TableDefinition::new("txids");
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut table = transaction.open_table(TXIDS).unwrap();
        let mut row = table.get(&[0; 4]).unwrap().unwrap().value().to_vec();
        row[40] ^= 1;
        table.insert(&[0; 4], row.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}
