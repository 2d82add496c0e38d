//! The optional table `block_filters`: headers and filters equal those that the `bitcoin` crate makes of the blocks from the
//! genesis block on, through random histories of blocks, reorganisations, freezes, restarts and switches.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::bip158::{BlockFilter, FilterHeader};
use bitcoin::hashes::Hash;
use bitcoin::{Block, OutPoint, ScriptBuf};
use btcgraph::chain::Height;
use btcgraph::chain::compact_filter::BasicFilter;
use btcgraph::index::{Index, IndexError, OptionalTables, Snapshot};
use btcgraph::sim::Rng;
use redb::{Database, ReadableTable, TableDefinition};

use crate::index::wtxids::OFF;
use crate::index::wtxids::history::History;
use crate::support::indexed::{Indexed, in_memory, options};

const ON: OptionalTables = OptionalTables { block_filters: true, ..OFF };
const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 32]> = TableDefinition::new("block_filters");

/// The filter and the filter header of each block of a chain.
pub(crate) fn expected(blocks: &[Arc<Block>]) -> Vec<(Vec<u8>, FilterHeader)> {
    let (mut scripts, mut header) = (HashMap::<OutPoint, ScriptBuf>::new(), FilterHeader::all_zeros());
    let mut found = Vec::new();
    for block in blocks {
        for transaction in &block.txdata {
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                scripts.insert(OutPoint { txid, vout }, output.script_pubkey.clone());
            }
        }
        let filter = BlockFilter::new_script_filter(block, |outpoint| Ok(scripts[outpoint].clone())).unwrap();
        header = filter.filter_header(&header);
        found.push((filter.content, header));
    }
    found
}

fn filter(snapshot: &Snapshot, height: Height) -> Result<BasicFilter, IndexError> {
    let row = snapshot.block(height)?.unwrap();
    snapshot.basic_filter::<IndexError>((height, &row), &mut |_| Ok(usize::MAX))
}

/// Compares all headers that are there, and the filters of some blocks. Returns how many are there, `None` while the table is
/// off.
fn agrees(history: &History, rng: &mut Rng) -> Option<u32> {
    let (snapshot, model) = (history.snapshot(), expected(&history.blocks));
    let blocks = u32::try_from(model.len()).unwrap();
    let mut there = 0;
    for (height, (content, header)) in (0..).zip(&model) {
        match snapshot.filter_header(Height::from(height)) {
            Ok(found) => {
                assert_eq!((found, there), (*header, height));
                there += 1;
                if rng.chance(10) {
                    assert_eq!(filter(&snapshot, Height::from(height)).unwrap().as_bytes(), content, "{height}");
                }
            }
            Err(IndexError::FiltersOff) => {
                assert_eq!(there, 0);
                return None;
            }
            Err(IndexError::FiltersNotReady { built, blocks: of }) => assert_eq!((built, of), (there, blocks)),
            Err(error) => panic!("{error}"),
        }
    }
    let incomplete = history.indexed.index.incomplete_filters().unwrap();
    assert_eq!(incomplete, (there < blocks).then_some((there, blocks)));
    Some(there)
}

#[test]
fn filters_equal_those_of_the_chain_through_random_histories() {
    for seed in 280..282 {
        let (mut history, mut rng) = (History::new(seed, 115), Rng::new(seed));
        let (mut complete, mut incomplete, mut off) = (0, 0, 0);
        for _ in 0..50 {
            match rng.below(13) {
                0 | 1 => history.mine(1 + u32::try_from(rng.below(9)).unwrap()),
                2 => history.freeze(u32::try_from(rng.below(12)).unwrap()),
                3 => {
                    let most = if rng.chance(20) { 60 } else { 12 };
                    let depth = 1 + u32::try_from(rng.below(most)).unwrap();
                    history.reorganise(depth, depth + 1);
                }
                4 => history.restart(if rng.chance(80) { ON } else { OFF }),
                5 | 6 | 10 | 11 => {
                    history.indexed.index.tend_tables(1 + u32::try_from(rng.below(20)).unwrap()).unwrap();
                }
                7 => {
                    history.indexed.index.sweep(usize::try_from(rng.below(3_000)).unwrap()).unwrap();
                }
                8 => history.indexed.index.switch_tables(if rng.chance(80) { ON } else { OFF }).unwrap(),
                _ => history.complete(),
            }
            match agrees(&history, &mut rng) {
                Some(there) if usize::try_from(there).unwrap() == history.blocks.len() => complete += 1,
                Some(_) => incomplete += 1,
                None => off += 1,
            }
            history.indexed.verified();
        }
        assert!(complete > 5 && incomplete > 2 && off > 2, "{complete} {incomplete} {off}");
        history.indexed.index.switch_tables(ON).unwrap();
        history.complete();
        assert_eq!(agrees(&history, &mut rng), Some(u32::try_from(history.blocks.len()).unwrap()));
        assert!(history.snapshot().frozen().is_some());
        // as one that had them from the beginning
        let mut live = Indexed::empty();
        live.index.switch_tables(ON).unwrap();
        live.connect(history.blocks.iter().map(Arc::as_ref), 9);
        assert_eq!(history.indexed.rows(), live.rows());
        assert!(
            live.rows().iter().any(|(name, rows, _)| *name == "block_filters" && *rows == history.blocks.len() as u64)
        );
    }
}

#[test]
fn a_table_that_is_off_has_no_rows_and_one_that_is_copied_has_all() {
    let mut history = History::new(283, 30);
    assert!(matches!(history.snapshot().filter_header(Height::GENESIS), Err(IndexError::FiltersOff)));
    history.indexed.index.switch_tables(ON).unwrap();
    let error = history.snapshot().filter_header(Height::GENESIS).unwrap_err();
    let blocks = history.blocks.len();
    assert_eq!(
        error.to_string(),
        format!("table `block_filters` is being built: it has 0 of {blocks} blocks. Retry later")
    );
    history.complete();
    let copy = in_memory();
    let copied = history.snapshot().copy_to(&options(copy.path()).path, &mut |_| std::ops::ControlFlow::Continue(()));
    copied.unwrap();
    let index = Index::open(&options(copy.path())).unwrap();
    let tip = history.snapshot().tip().unwrap().height;
    assert_eq!(index.snapshot().unwrap().filter_header(tip).unwrap(), expected(&history.blocks).last().unwrap().1);
    let rows = |history: &History| {
        let tables = history.snapshot().tables().unwrap();
        tables.into_iter().find(|table| table.name == "block_filters").map(|table| (table.rows, table.bytes))
    };
    let count = u64::try_from(blocks).unwrap();
    assert_eq!(rows(&history), Some((count, Some(36 * count))));
    // switched off while it is read: the rows are deleted a few at a time, and nothing reads them
    history.indexed.index.switch_tables(OFF).unwrap();
    assert!(history.indexed.index.tend_tables(5).unwrap());
    assert_eq!(rows(&history).unwrap().0, count - 5);
    assert!(matches!(history.snapshot().filter_header(Height::GENESIS), Err(IndexError::FiltersOff)));
    // and on again before they are gone
    history.indexed.index.switch_tables(ON).unwrap();
    let error = history.snapshot().filter_header(Height::GENESIS).unwrap_err();
    assert!(matches!(error, IndexError::FiltersNotReady { built: 0, .. }), "{error}");
    history.complete();
    assert_eq!(rows(&history).unwrap().0, count);
    history.indexed.index.switch_tables(OFF).unwrap();
    history.complete();
    assert_eq!(rows(&history).unwrap().0, 0);
}

#[test]
fn filters_of_frozen_blocks_need_their_bytes() {
    let mut history = History::new(284, 60);
    history.indexed.index.switch_tables(ON).unwrap();
    history.complete();
    history.freeze(10);
    while history.indexed.index.sweep(1_000).unwrap() {}
    let Indexed { index, directory } = history.indexed;
    drop(index);
    let mut index = Index::open(&options(directory.path())).unwrap();
    let snapshot = index.snapshot().unwrap();
    let frozen = snapshot.frozen().unwrap().height;
    assert_eq!(
        snapshot.filter_header(frozen).unwrap(),
        expected(&history.blocks)[usize::try_from(frozen.to_u32()).unwrap()].1
    );
    let error = filter(&snapshot, frozen).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { .. } | IndexError::NoRawBlocks { .. }), "{error}");
    drop(snapshot);
    // they are built when the bytes are there
    index.switch_tables(OFF).unwrap();
    while index.tend_tables(1_000).unwrap() {}
    index.switch_tables(ON).unwrap();
    let error = index.tend_tables(1_000).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { .. } | IndexError::NoRawBlocks { .. }), "{error}");
    assert!(index.incomplete_filters().unwrap().is_some());
    index.set_raw_blocks(history.raw);
    while index.tend_tables(1_000).unwrap() {}
    let snapshot = index.snapshot().unwrap();
    for (height, (content, header)) in (0..).map(Height::from).zip(expected(&history.blocks)) {
        assert_eq!(snapshot.filter_header(height).unwrap(), header);
        assert_eq!(filter(&snapshot, height).unwrap().as_bytes(), content);
    }
}

#[test]
fn damaged_rows_are_reported_and_never_answered() {
    type Damage = fn(&mut redb::Table<'_, &[u8; 4], &[u8; 32]>);
    let damages: [(&str, Damage); 4] = [
        ("the row at height 7 differs from what it must be", |table| {
            let mut value = *table.get(&[0, 0, 0, 7]).unwrap().unwrap().value();
            value[31] ^= 1;
            table.insert(&[0, 0, 0, 7], &value).unwrap();
        }),
        ("the row at height 7 is missing", |table| drop(table.remove(&[0, 0, 0, 7]).unwrap().unwrap())),
        ("rows, but 142 blocks must have one", |table| drop(table.insert(&[0, 0, 0, 199], &[0; 32]).unwrap())),
        ("rows, but 142 blocks must have one", |table| drop(table.pop_last().unwrap().unwrap())),
    ];
    let mut history = History::new(285, 39);
    history.indexed.index.switch_tables(ON).unwrap();
    history.complete();
    assert_eq!(history.blocks.len(), 142);
    let path = options(history.indexed.directory.path()).path;
    let Indexed { index, directory } = history.indexed;
    drop(index);
    let whole = std::fs::read(&path).unwrap();
    for (difference, damage) in damages {
        std::fs::write(&path, &whole).unwrap();
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        damage(&mut transaction.open_table(TABLE).unwrap());
        transaction.commit().unwrap();
        drop(database);
        let index = Index::open(&options(directory.path())).unwrap();
        let reported = crate::support::indexed::report(&index, directory.path()).differences;
        let is_reported =
            reported.iter().any(|found| found.starts_with("block_filters: ") && found.contains(difference));
        assert!(is_reported, "{reported:?}");
        if difference.contains("height 7") {
            // the row is checked with the one below it whenever a filter is computed
            for height in [7, 8] {
                let error = filter(&index.snapshot().unwrap(), Height::from(height)).unwrap_err();
                assert!(matches!(error, IndexError::Corrupt { table: "block_filters", .. }), "{error}");
            }
            assert!(filter(&index.snapshot().unwrap(), Height::from(9)).is_ok());
        }
    }
}
