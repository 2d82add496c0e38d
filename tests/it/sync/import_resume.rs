//! An interrupted import continues at its newest checkpoint, and makes the rows of one that was never interrupted.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bitcoin::consensus::deserialize;
use bitcoin::hashes::sha256;
use bitcoin::{Block, BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::index::{FreshStart, Import, ImportOptions, ImportPhase, ImportProgress, IndexError, Salt};
use btcgraph::sim::Rng;
use redb::{Database, TableDefinition};

use crate::index::generations::{begin, files, hostile_blocks, import_options, open, serialized, unwatched};
use crate::support::bitcoind::wait_for;
use crate::support::skips::current_test;
use crate::sync::faults::may_mount;

type SerializedBlocks = Vec<(BlockHash, Vec<u8>)>;
type Checksums = Vec<(String, sha256::Hash)>;

/// Transactions of a range.
const RANGE: u32 = 150;

/// Options for a checkpoint after every push, partition and range.
fn eager(directory: &Path) -> ImportOptions {
    // sixteen partitions
    let (memory, transactions) = (4 << 20, 30_000);
    ImportOptions { memory, transactions, checkpoint_interval: Duration::ZERO, ..import_options(directory, RANGE) }
}

/// Options for checkpoints on demand alone.
fn lazy(directory: &Path) -> ImportOptions {
    ImportOptions { checkpoint_interval: Duration::MAX, ..import_options(directory, RANGE) }
}

/// The blocks, and the rows of an import of them that was not interrupted.
fn expected(seed: u64) -> (SerializedBlocks, Checksums) {
    let (directory, blocks) = (tempfile::tempdir().unwrap(), serialized(&hostile_blocks(seed)));
    let options = lazy(directory.path());
    let mut import = begin(&options);
    import.push(&blocks).unwrap();
    import.finish(&mut unwatched).unwrap().unwrap();
    (blocks, open(&options.path).checksums().unwrap())
}

/// Pushes the blocks that an import has not yet, and finishes it. Nothing but the generation is left then.
fn complete(mut import: Import, options: &ImportOptions, blocks: &SerializedBlocks) -> Checksums {
    if !import.has_all_blocks() {
        import.push(&blocks[next(&import)..]).unwrap();
    }
    import.finish(&mut unwatched).unwrap().unwrap();
    assert_eq!(files(&options.directory), ["imported.redb"]);
    open(&options.path).checksums().unwrap()
}

fn next(import: &Import) -> usize {
    usize::try_from(import.next_height().to_u32()).unwrap()
}

#[test]
fn an_import_dropped_after_every_push_has_the_same_rows() {
    let (blocks, rows) = expected(5);
    let directory = tempfile::tempdir().unwrap();
    let options = eager(directory.path());
    for (block, height) in blocks.iter().zip(0..) {
        // memory, threads and what the plan says are other options each time
        let other = ImportOptions {
            memory: 1 << (16 + height % 8),
            threads: 1 + height % 4,
            transactions: 1 << (height % 30),
            range: 1 + u32::try_from(height).unwrap(),
            ..options.clone()
        };
        let mut import = begin(if height == 0 { &options } else { &other });
        assert_eq!(import.fresh_start(), (height == 0).then_some(&FreshStart::NoCheckpoint));
        assert_eq!(
            (next(&import), import.tip().map(|tip| tip.hash)),
            (height, height.checked_sub(1).map(|it| blocks[it].0))
        );
        assert!(!import.has_all_blocks());
        import.push(std::slice::from_ref(block)).unwrap();
    }
    let import = begin(&options);
    assert_eq!(next(&import), blocks.len());
    assert_eq!(complete(import, &options, &blocks), rows);
}

#[test]
fn an_import_stopped_after_every_unit_has_the_same_rows() {
    let (blocks, rows) = expected(6);
    let directory = tempfile::tempdir().unwrap();
    let options = ImportOptions { threads: 1, ..eager(directory.path()) };
    let mut import = begin(&options);
    import.push(&blocks).unwrap();
    // the next is begun when the first partition is joined: none is being flushed then
    import.checkpoint().unwrap();
    let mut starts: Vec<ImportProgress> = Vec::new();
    loop {
        let mut reports = Vec::new();
        let mut watch = |progress: ImportProgress| {
            reports.push(progress);
            // a checkpoint is taken after three units: two are made ahead. The last ones are lost
            let units =
                reports.iter().filter(|report| report.phase != ImportPhase::Flushing && report.done > 0).count();
            if units > 4 + starts.len() % 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let finished = import.finish(&mut watch);
        starts.push(reports[0]);
        match finished {
            Ok(imported) => break assert!(imported.is_some()),
            Err(error) => assert!(matches!(error, IndexError::Interrupted), "{error}"),
        }
        import = begin(&options);
        assert_eq!(import.fresh_start(), None);
        assert!(import.has_all_blocks() && next(&import) == blocks.len());
        // finishing is possible after this refusal
        assert!(matches!(import.push(&[]), Err(IndexError::Broken)));
    }
    for phase in [ImportPhase::Joining, ImportPhase::Outputs, ImportPhase::Scripts] {
        let of_phase: Vec<_> = starts.iter().filter(|start| start.phase == phase).collect();
        assert!(of_phase.iter().any(|start| start.done > 0), "no start in the middle of {phase:?}");
        assert!(of_phase.is_sorted_by_key(|start| start.done), "{of_phase:?}");
    }
    assert_eq!(files(directory.path()), ["imported.redb"]);
    assert_eq!(open(&options.path).checksums().unwrap(), rows);
}

#[test]
fn what_is_pushed_after_the_checkpoint_is_pushed_again() {
    let (blocks, rows) = expected(7);
    let directory = tempfile::tempdir().unwrap();
    let options = lazy(directory.path());
    let mut import = begin(&options);
    import.push(&blocks[..50]).unwrap();
    drop(import);
    // no checkpoint had a block
    let mut import = begin(&options);
    assert_eq!((import.fresh_start(), import.tip()), (Some(&FreshStart::NoCheckpoint), None));
    for (from, to) in [(0, 30), (30, 31), (31, 90)] {
        import.push(&blocks[from..to]).unwrap();
        import.checkpoint().unwrap();
        import.push(&blocks[to..to + 40]).unwrap();
        drop(import);
        import = begin(&options);
        assert_eq!((import.fresh_start(), next(&import)), (None, to));
    }
    assert_eq!(complete(import, &options, &blocks), rows);
}

#[test]
fn a_refused_block_leaves_the_checkpoint_before_it() {
    let (blocks, rows) = expected(8);
    let directory = tempfile::tempdir().unwrap();
    let options = eager(directory.path());
    let mut import = begin(&options);
    import.push(&blocks[..40]).unwrap();
    let mut damaged = blocks[40..60].to_vec();
    let bytes = &mut damaged[10].1;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(import.push(&damaged), Err(IndexError::InvalidBlock { .. })));
    drop(import);
    let import = begin(&options);
    assert_eq!((import.fresh_start(), next(&import)), (None, 40));
    assert_eq!(complete(import, &options, &blocks), rows);
}

/// An import with a checkpoint behind its first 60 blocks, in two directories.
fn interrupted(blocks: &SerializedBlocks, directory: &Path) -> ImportOptions {
    let options = ImportOptions { directory: directory.join("temporary"), ..eager(directory) };
    let _ = fs::remove_file(&options.path);
    let mut import = begin(&options);
    import.push(&blocks[..60]).unwrap();
    options
}

fn change_checkpoint(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let table: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("checkpoint");
    let transaction = Database::open(path).unwrap().begin_write().unwrap();
    {
        let mut table = transaction.open_table(table).unwrap();
        let mut row = table.remove("state").unwrap().unwrap().value().to_vec();
        change(&mut row);
        table.insert("state", row.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn an_import_that_cannot_continue_starts_afresh_and_says_why() {
    let (blocks, rows) = expected(9);
    let directory = tempfile::tempdir().unwrap();
    let file = |options: &ImportOptions, name: &str| options.directory.join(name);
    let fresh = |import: &Import| {
        assert_eq!((import.tip(), import.has_all_blocks()), (None, false));
        import.fresh_start().unwrap().clone()
    };

    let options = interrupted(&blocks, directory.path());
    let salt = ImportOptions { salt: Salt([1; 16]), ..options };
    assert_eq!(fresh(&begin(&salt)), FreshStart::OtherSalt);

    let options = interrupted(&blocks, directory.path());
    let network = ImportOptions { network: Network::Signet, ..options };
    let (found, expected) = ("regtest".to_owned(), "signet".to_owned());
    assert_eq!(fresh(&begin(&network)), FreshStart::OtherNetwork { found, expected });

    let options = interrupted(&blocks, directory.path());
    change_checkpoint(&options.path, |row| row[3] = 77);
    assert!(matches!(fresh(&begin(&options)), FreshStart::OtherFormat { found: 77, .. }));

    // the version of the first table, behind the number, the length and the name
    let options = interrupted(&blocks, directory.path());
    change_checkpoint(&options.path, |row| {
        let version = row.iter().position(|byte| *byte == b',').unwrap() - 1;
        row[version] += 1;
    });
    assert_eq!(fresh(&begin(&options)), FreshStart::OtherTables);

    let options = interrupted(&blocks, directory.path());
    change_checkpoint(&options.path, |row| row.truncate(row.len() - 1));
    assert!(matches!(fresh(&begin(&options)), FreshStart::Damaged { .. }));

    let options = interrupted(&blocks, directory.path());
    let path = file(&options, "transactions-01.run");
    fs::remove_file(&path).unwrap();
    assert_eq!(fresh(&begin(&options)), FreshStart::MissingRun { path });

    let options = interrupted(&blocks, directory.path());
    let path = file(&options, "stream-00.run");
    let run = OpenOptions::new().write(true).open(&path).unwrap();
    run.set_len(run.metadata().unwrap().len() - 1).unwrap();
    assert_eq!(fresh(&begin(&options)), FreshStart::ShortRun { path });

    let options = interrupted(&blocks, directory.path());
    fs::remove_dir_all(&options.directory).unwrap();
    assert_eq!(fresh(&begin(&options)), FreshStart::MissingRun { path: file(&options, "blocks.chunks") });

    // runs of another import, which replaced those of this one
    let options = interrupted(&blocks, directory.path());
    fs::rename(&options.path, directory.path().join("aside")).unwrap();
    let options = interrupted(&blocks, directory.path());
    fs::rename(directory.path().join("aside"), &options.path).unwrap();
    let import = begin(&options);
    assert_eq!(fresh(&import), FreshStart::OtherRun { path: file(&options, "blocks.chunks") });
    assert_eq!(
        import.fresh_start().unwrap().to_string(),
        format!(
            "the temporary file {} is of another import than the checkpoint",
            file(&options, "blocks.chunks").display()
        )
    );
    // nothing is left of the earlier imports
    assert_eq!(files(&options.directory), [""; 0]);

    let mut import = import;
    import.push(&blocks).unwrap();
    import.finish(&mut unwatched).unwrap();
    assert_eq!(open(&options.path).checksums().unwrap(), rows);
}

#[test]
fn a_discarded_import_leaves_nothing_and_others_keep_their_files() {
    let (blocks, _) = expected(10);
    let directory = tempfile::tempdir().unwrap();
    let options = interrupted(&blocks, directory.path());
    fs::write(options.directory.join("other"), "").unwrap();
    let running = begin(&options);
    assert!(matches!(Import::discard(&options), Err(IndexError::InUse { .. })));
    assert!(matches!(Import::begin(options.clone()), Err(IndexError::InUse { .. })));
    drop(running);
    Import::discard(&options).unwrap();
    assert_eq!(files(&options.directory), ["other"]);
    assert!(!options.path.exists());
    Import::discard(&options).unwrap();
    assert_eq!(Import::begin(options).unwrap().fresh_start(), Some(&FreshStart::NoCheckpoint));
}

#[test]
fn two_imports_do_not_share_a_directory_for_temporary_runs() {
    let (blocks, rows) = expected(11);
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = interrupted(&blocks, directory.path());
    let second = ImportOptions { path: other.path().join("imported.redb"), ..options.clone() };
    let mut running = begin(&options);
    for _ in 0..2 {
        let error = Import::begin(second.clone()).err().unwrap();
        assert!(matches!(error, IndexError::TemporaryDirectoryInUse { .. }), "{error}");
        assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
    }
    assert!(Import::remove_runs(&options.directory).is_err());
    running.push(&blocks[next(&running)..]).unwrap();
    running.finish(&mut unwatched).unwrap().unwrap();
    assert_eq!(open(&options.path).checksums().unwrap(), rows);
    assert_eq!(files(other.path()), [""; 0]);
    Import::begin(second).unwrap();
}

/// What has this process import instead of test: a directory with the file of blocks.
const CHILD: &str = "BTCGRAPH_TEST_IMPORT";
const BLOCKS: &str = "blocks";

fn write_blocks(path: &Path, blocks: &SerializedBlocks) {
    let framed =
        blocks.iter().flat_map(|(_, block)| [&u32::try_from(block.len()).unwrap().to_be_bytes(), &block[..]].concat());
    fs::write(path, framed.collect::<Vec<_>>()).unwrap();
}

fn read_blocks(path: &Path) -> SerializedBlocks {
    let (bytes, mut blocks) = (fs::read(path).unwrap(), Vec::new());
    let mut rest = bytes.as_slice();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (block, behind) = behind.split_at(u32::from_be_bytes(*length).try_into().unwrap());
        blocks.push((deserialize::<Block>(block).unwrap().block_hash(), block.to_vec()));
        rest = behind;
    }
    blocks
}

/// The directories of a child: of the blocks, and of the import.
fn child_directories() -> Option<(PathBuf, PathBuf)> {
    let directory = PathBuf::from(std::env::var_os(CHILD)?);
    Some((directory.join(BLOCKS), directory.join("import")))
}

/// Imports the blocks with as many checkpoints as possible, and writes down how it began.
fn import_in_child((blocks, directory): (PathBuf, PathBuf)) -> Result<(), IndexError> {
    let log = blocks.with_extension("log");
    let blocks = read_blocks(&blocks);
    let mut import = match Import::begin(eager(&directory)) {
        // it was killed when the file was complete
        Err(IndexError::File { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
            return Import::remove_runs(&directory);
        }
        import => import?,
    };
    let reason = import.fresh_start().map(ToString::to_string);
    let start = format!("{} {} {reason:?}", import.next_height(), import.has_all_blocks());
    fs::write(log, start).unwrap();
    while !import.has_all_blocks() && next(&import) < blocks.len() {
        let from = next(&import);
        import.push(&blocks[from..(from + 10).min(blocks.len())])?;
    }
    import.finish(&mut unwatched).map(|_| ())
}

/// This test again, in a process of its own.
fn child(directory: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", &current_test(), "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    child
}

#[test]
fn an_import_killed_at_random_moments_has_the_same_rows() {
    if let Some(directories) = child_directories() {
        return import_in_child(directories).unwrap();
    }
    let (blocks, rows) = expected(11);
    let directory = tempfile::tempdir().unwrap();
    let (import, log) = (directory.path().join("import"), directory.path().join("blocks.log"));
    write_blocks(&directory.path().join(BLOCKS), &blocks);
    let mut whole = begun_child(directory.path());
    let started = Instant::now();
    assert!(whole.wait().unwrap().success());
    let whole = u64::try_from(started.elapsed().as_millis()).unwrap();
    fs::remove_dir_all(&import).unwrap();

    let mut random = Rng::new(u64::from(std::process::id()));
    let mut starts = Vec::new();
    loop {
        let mut running = begun_child(directory.path());
        starts.push(fs::read_to_string(&log).unwrap_or_default());
        // the kill comes at a random moment, not on a condition
        std::thread::sleep(Duration::from_millis(random.between(1, (whole / 8).max(2))));
        let enough = starts.len() > KILLS.end;
        if !enough {
            running.kill().unwrap();
        }
        if !running.wait().unwrap().success() {
            assert!(!enough, "an import that is not killed fails");
        } else if starts.len() > KILLS.start {
            break;
        } else {
            // it was faster: only the kills of one import count
            fs::remove_dir_all(&import).unwrap();
            starts.clear();
        }
    }
    println!("height, whether all blocks, and why at the start of each: {starts:#?}");
    let resumed: Vec<_> = starts.iter().filter(|start| start.ends_with("None")).collect();
    assert!(resumed.iter().any(|start| start.contains("false")), "{starts:#?}");
    assert_eq!(files(&import), ["imported.redb"]);
    assert_eq!(open(&import.join("imported.redb")).checksums().unwrap(), rows);
}

/// The least and the most kills of one import.
const KILLS: std::ops::Range<usize> = 10..60;

/// A child that has begun its import, or found it finished.
fn begun_child(directory: &Path) -> Child {
    let log = directory.join("blocks.log");
    let _ = fs::remove_file(&log);
    let mut running = child(directory).spawn().unwrap();
    wait_for("the import of the child", Duration::from_mins(1), || {
        (log.exists() || running.try_wait().unwrap().is_some()).then_some(())
    });
    running
}

/// An import on a disk that is enlarged whenever it is full.
const ON_A_GROWING_DISK: &str = r#"
    mkdir "$DIRECTORY/import"
    mount -t tmpfs -o size=128k none "$DIRECTORY/import" || exit 99
    size=128
    until : >"$DIRECTORY/blocks.log";  "$TEST" --exact "$NAME" --nocapture >"$DIRECTORY/output" 2>&1; do
        cat "$DIRECTORY/blocks.log" >>"$DIRECTORY/starts"
        grep -q "free space\|free some space\|No space left" "$DIRECTORY/output" || exit 98
        [ $size -lt 65536 ] || exit 97
        size=$((size + 128))
        mount -o "remount,size=${size}k" "$DIRECTORY/import" || exit 96
    done
    cp "$DIRECTORY/import/imported.redb" "$DIRECTORY""#;

#[test]
fn an_import_whose_disk_was_full_continues() {
    if let Some(directories) = child_directories() {
        return import_in_child(directories).map_err(|error| println!("{error}")).unwrap();
    }
    if !may_mount() {
        return;
    }
    let (blocks, rows) = expected(12);
    let directory = tempfile::tempdir().unwrap();
    write_blocks(&directory.path().join(BLOCKS), &blocks);
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", ON_A_GROWING_DISK]).env("DIRECTORY", directory.path()).env(CHILD, directory.path());
    shell.env("TEST", std::env::current_exe().unwrap()).env("NAME", current_test());
    let status = shell.status().unwrap();
    let output = fs::read_to_string(directory.path().join("output")).unwrap_or_default();
    assert!(status.success(), "{status} {output}");
    let starts = fs::read_to_string(directory.path().join("starts")).unwrap();
    assert!(starts.matches(" None").count() > 1, "{starts}");
    assert_eq!(open(&directory.path().join("imported.redb")).checksums().unwrap(), rows);
    let height = Height::from(u32::try_from(blocks.len()).unwrap() - 1);
    assert_eq!(open(&directory.path().join("imported.redb")).range().last.height, height);
}
