//! The files of the table: builds that are interrupted, and files that are missing, damaged or not used.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bitcoin::BlockHash;
use btcgraph::chain::Height;
use btcgraph::index::{BuildPhase, Index, IndexError, NamedTable, RawBlocks, Tip};

use super::history::{AllBlocks, History, OFF, ON, is_answered, progress};
use crate::support::indexed::{Indexed, in_memory, options};

/// Blocks of which one cannot be read.
struct Interrupted {
    blocks: Arc<AllBlocks>,
    missing: Mutex<Option<BlockHash>>,
    reads: Mutex<Vec<Height>>,
}

impl RawBlocks for Interrupted {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        self.reads.lock().unwrap().push(block.height);
        if *self.missing.lock().unwrap() == Some(block.hash) {
            return Err("the node does not respond".into());
        }
        self.blocks.read(block, offset, length)
    }
}

#[test]
fn an_interrupted_build_continues_behind_its_last_run() {
    let mut history = History::new(76, 80);
    history.freeze(10);
    history.restart(ON);
    while history.indexed.index.tend_tables(100).unwrap() {}
    let Indexed { index, directory } = std::mem::replace(&mut history.indexed, Indexed::within(in_memory()));
    drop(index);
    let raw = Arc::new(Interrupted {
        blocks: history.raw.clone(),
        missing: Mutex::new(Some(history.blocks[150].block_hash())),
        reads: Mutex::default(),
    });
    let open = || {
        let index = Index::open(&options(directory.path())).unwrap();
        index.set_raw_blocks(raw.clone());
        index
    };
    let deriving = options(directory.path()).path.with_extension("deriving");
    let due = |index: &Index| index.due_table().unwrap().unwrap().with_run_records(30);
    let reads = || std::mem::take(&mut *raw.reads.lock().unwrap());

    let index = open();
    let (stop, mut seen) = (Arc::<AtomicBool>::default(), 0);
    let error = due(&index).build(&stop, &mut |progress| seen = progress.done).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { height, .. } if height == Height::from(150)), "{error}");
    let (built, transactions) = progress(&index.snapshot().unwrap());
    assert!(seen > 100 && built < transactions);
    let first = reads();
    assert_eq!((first[0], first.last()), (Height::GENESIS, Some(&Height::from(150))));
    // a stop, after another start: it begins in the middle
    drop(index);
    let index = open();
    assert_eq!(index.remove_unused_tables().unwrap(), Vec::<PathBuf>::new());
    *raw.missing.lock().unwrap() = None;
    let mut before = 0;
    let watch = &mut |progress: btcgraph::index::BuildProgress| {
        before = progress.before;
        stop.store(progress.phase == BuildPhase::Writing || progress.done > seen + 100, Ordering::Relaxed);
    };
    assert!(matches!(due(&index).build(&stop, watch), Err(IndexError::Interrupted)));
    let continued = reads();
    assert!(before > 50 && continued[0] > Height::from(100) && continued[0] <= Height::from(150), "{continued:?}");
    // a kill leaves a run without its name, and a file that is not complete
    let unfinished = fs::read_dir(&deriving).unwrap().next().unwrap().unwrap().path();
    fs::write(unfinished.join("run.new"), [7; 55]).unwrap();
    fs::write(unfinished.join("packed.redb"), [7; 55]).unwrap();
    drop(index);
    let mut index = open();
    due(&index).build(&Arc::default(), &mut |_| {}).unwrap();
    assert!(reads()[0] > continued[0]);
    assert_eq!(fs::read_dir(&deriving).unwrap().count(), 0);
    // complete, and without a name: it is named and not built again, and what a kill left of the build is removed
    fs::create_dir_all(unfinished.join("run")).unwrap();
    drop(index);
    index = open();
    assert_eq!(index.remove_unused_tables().unwrap(), Vec::<PathBuf>::new());
    let due = due(&index);
    due.build(&Arc::default(), &mut |_| panic!("nothing is built")).unwrap();
    assert_eq!(reads(), []);
    assert_eq!(fs::read_dir(&deriving).unwrap().count(), 0);
    assert!(matches!(index.name_table(&due).unwrap(), NamedTable::InForce));
    assert!(is_answered(&index.snapshot().unwrap(), &history.blocks));
    Indexed { index, directory }.verified();
}

#[test]
fn files_that_are_missing_damaged_or_unused_are_made_again_or_removed() {
    let mut history = History::new(77, 70);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(30);
    history.freeze(10);
    history.complete();
    let files = history.files();
    assert_eq!(files.len(), 2);
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[1], b"no database").unwrap();
    history.restart(ON);
    assert!(!history.is_answered());
    let due = history.indexed.index.due_table().unwrap().unwrap();
    due.build(&Arc::default(), &mut |_| {}).unwrap();
    history.indexed.index.name_table(&due).unwrap();
    let due = history.indexed.index.due_table().unwrap().unwrap();
    due.build(&Arc::default(), &mut |_| {}).unwrap();
    // damaged before it is named
    fs::write(&files[1], b"no database").unwrap();
    let named = history.indexed.index.name_table(&due).unwrap();
    assert!(matches!(named, NamedTable::Unreadable(_)), "{named:?}");
    history.complete();
    assert!(history.is_answered() && history.files() == files);

    // a build whose generation left the chain
    history.mine(30);
    history.freeze(10);
    let due = history.indexed.index.due_table().unwrap().unwrap();
    due.build(&Arc::default(), &mut |_| {}).unwrap();
    assert_eq!(history.files().len(), 3);
    history.reorganise(60, 61);
    assert!(matches!(history.indexed.index.name_table(&due).unwrap(), NamedTable::NotNeeded));
    assert!(history.files() == files && history.is_answered());
    // a table that was switched off while no program that knows it ran
    let stray = history.frozen().join("0-1-ab-00000000.wtxids-2.redb");
    fs::write(&stray, b"").unwrap();
    let deriving = history.frozen().with_extension("deriving").join("0-1-ab-00000000.wtxids-2");
    fs::create_dir_all(&deriving).unwrap();
    history.restart(OFF);
    assert!(!stray.exists() && !deriving.exists());
    assert_eq!(history.files(), Vec::<PathBuf>::new());
}

/// The live rows of a generation are deleted once its file is in force, and nothing else has them if it is lost.
#[test]
fn lookups_wait_for_a_lost_file_whose_live_rows_are_deleted() {
    let mut history = History::new(78, 40);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(0);
    history.mine(30);
    history.freeze(10);
    history.complete();
    let files = history.files();
    assert!(history.is_answered() && files.len() == 2);
    // all transactions of the second generation had live rows
    let bytes = fs::read(&files[1]).unwrap();
    for length in [100, 5_000, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&files[1], &bytes[..length]).unwrap();
        history.restart(ON);
        assert!(!history.is_answered(), "{length} bytes");
        history.complete();
        assert!(history.is_answered());
    }
    fs::remove_file(&files[1]).unwrap();
    history.restart(ON);
    assert!(!history.is_answered());
    // the commits that follow do not name the file any more
    history.mine(5);
    history.freeze(3);
    history.restart(ON);
    assert!(!history.is_answered());
    history.reorganise(12, 13);
    history.restart(ON);
    assert!(!history.is_answered());
    history.complete();
    assert!(history.is_answered());
    history.indexed.verified();
}
