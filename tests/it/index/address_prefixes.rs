//! The optional table `address_prefixes`: addresses that are found by their beginnings equal a naive model through random
//! histories of blocks, reorganisations, freezes, builds, switches and restarts; and `verify` finds damage to the table.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bitcoin::consensus::deserialize;
use bitcoin::{Network, Transaction};
use btcgraph::chain::address_of;
use btcgraph::index::{Index, IndexError, OptionalTable, OptionalTables, Snapshot, VerifyOptions, verify};
use btcgraph::sim::Rng;
use redb::{Database, ReadableTable, TableDefinition};

use crate::index::wtxids::history::History;
use crate::support::indexed::{Indexed, options};

const ON: OptionalTables =
    OptionalTables { wtxids: false, address_prefixes: true, op_returns: false, block_filters: false };
const BOTH: OptionalTables =
    OptionalTables { wtxids: true, address_prefixes: true, op_returns: false, block_filters: false };
const OFF: OptionalTables =
    OptionalTables { wtxids: false, address_prefixes: false, op_returns: false, block_filters: false };

const LIVE: TableDefinition<'static, &[u8; 26], ()> = TableDefinition::new("address_prefixes");
const PACKED: TableDefinition<'static, &[u8; 12], &[u8]> = TableDefinition::new("address_prefixes");

/// The addresses that a transaction pays.
fn addresses(transaction: &Transaction) -> impl Iterator<Item = String> {
    transaction.output.iter().filter_map(|output| address_of(&output.script_pubkey, Network::Regtest))
}

/// The addresses that the index finds by a beginning, each as often as it is found.
fn found(snapshot: &Snapshot, prefix: &str) -> Result<Vec<String>, IndexError> {
    let mut found = Vec::new();
    let Some(mut candidates) = snapshot.addresses_with_prefix(prefix)? else { return Ok(found) };
    let mut before = None;
    while let Some(candidate) = candidates.next_candidate()? {
        assert!(before < Some(candidate.position()) || prefix.len() < 6, "candidates ascend");
        before = Some(candidate.position());
        let mut same = BTreeSet::new();
        for txnum in &candidate.txnums {
            let stored: Transaction = deserialize(snapshot.transaction(*txnum)?.unwrap().parts.raw()).unwrap();
            let paid = addresses(&stored).filter(|address| candidate.is_of(address));
            let paid: Vec<_> = paid.collect();
            assert!(!paid.is_empty(), "transaction {txnum} pays none of {prefix}");
            same.extend(paid.into_iter().filter(|address| address.starts_with(prefix)));
        }
        found.extend(same);
    }
    Ok(found)
}

/// Whether lookups are answered. Those that are equal the model's.
fn is_answered(history: &History, rng: &mut Rng) -> bool {
    let snapshot = history.snapshot();
    let transactions = history.blocks.iter().flat_map(|block| &block.txdata);
    let model: BTreeSet<_> = transactions.flat_map(addresses).collect();
    assert!(model.len() > 30, "{} addresses", model.len());
    match found(&snapshot, "bcrt1q") {
        Err(IndexError::TableOff { table } | IndexError::TableNotReady { table, .. }) => {
            assert_eq!(table, OptionalTable::AddressPrefixes);
            return false;
        }
        found => drop(found.unwrap()),
    }
    let whole: Vec<_> = model.iter().cloned().collect();
    let random = (0..12).map(|_| {
        let address = &whole[usize::try_from(rng.below(whole.len() as u64)).unwrap()];
        address[..=usize::try_from(rng.below(address.len() as u64)).unwrap()].to_owned()
    });
    let random: Vec<_> = random.collect();
    // all, those of a kind, no address, and no characters of one
    for prefix in ["", "bcrt1", "bcrt1p", "2", "m", "n", "bcrt1qqqqqqqqqqqqqq", "bc1 q"]
        .map(str::to_owned)
        .into_iter()
        .chain(random)
    {
        let expected: Vec<_> = model.iter().filter(|address| address.starts_with(&prefix)).cloned().collect();
        assert_eq!(found(&snapshot, &prefix).unwrap(), expected, "{prefix:?}");
    }
    true
}

#[test]
fn addresses_equal_the_model_through_random_histories() {
    for seed in 170..172 {
        let (mut history, mut rng) = (History::new(seed, 120), Rng::new(seed));
        let (mut answered, mut unanswered, mut on) = (0, 0, false);
        for _ in 0..50 {
            match rng.below(12) {
                0 | 1 => history.mine(1 + u32::try_from(rng.below(9)).unwrap()),
                2 => history.freeze(u32::try_from(rng.below(12)).unwrap()),
                3 => {
                    let most = if rng.chance(20) { 60 } else { 12 };
                    let depth = 1 + u32::try_from(rng.below(most)).unwrap();
                    history.reorganise(depth, depth + 1);
                }
                4 => {
                    on = rng.chance(80);
                    history.restart(OptionalTables {
                        wtxids: rng.chance(50),
                        address_prefixes: on,
                        op_returns: rng.chance(50),
                        ..OFF
                    });
                }
                5 | 6 => {
                    history.indexed.index.tend_tables(u32::try_from(rng.below(300)).unwrap()).unwrap();
                }
                7 => {
                    history.indexed.index.sweep(usize::try_from(rng.below(3_000)).unwrap()).unwrap();
                }
                8 => {
                    on = !on || rng.chance(70);
                    let tables = OptionalTables {
                        wtxids: rng.chance(50),
                        address_prefixes: on,
                        op_returns: rng.chance(50),
                        ..OFF
                    };
                    history.indexed.index.switch_tables(tables).unwrap();
                }
                9 => history.complete(),
                _ => drop(history.build()),
            }
            if is_answered(&history, &mut rng) {
                answered += 1;
            } else {
                unanswered += 1;
            }
            history.indexed.verified();
        }
        history.indexed.index.switch_tables(BOTH).unwrap();
        history.complete();
        assert!(is_answered(&history, &mut rng) && history.is_answered());
        assert!(answered > 5 && unanswered > 5, "{answered} of {}", answered + unanswered);
        // as one that had them from the beginning
        let mut live = Indexed::empty();
        live.index.switch_tables(BOTH).unwrap();
        live.connect(history.blocks.iter().map(Arc::as_ref), 9);
        assert_eq!(history.indexed.rows(), live.rows());
    }
}

#[test]
fn freezing_and_reorganising_through_the_cut_does_not_interrupt_lookups() {
    let (mut history, mut rng) = (History::new(173, 60), Rng::new(173));
    history.indexed.index.switch_tables(ON).unwrap();
    assert!(!is_answered(&history, &mut rng));
    while history.indexed.index.tend_tables(100).unwrap() {}
    assert!(is_answered(&history, &mut rng));
    for blocks in [20, 0] {
        history.mine(blocks);
        history.freeze(5);
        while history.indexed.index.sweep(1_000).unwrap() {}
        assert!(is_answered(&history, &mut rng));
        history.restart(ON);
        assert!(is_answered(&history, &mut rng));
    }
    history.complete();
    assert!(is_answered(&history, &mut rng));
    let rows = |history: &History, name: &str| {
        history.snapshot().tables().unwrap().iter().find(|table| table.name == name).map_or(0, |table| table.rows)
    };
    assert!(rows(&history, "frozen.address_prefixes") > 0);
    history.reorganise(40, 41);
    assert!(is_answered(&history, &mut rng));
    history.indexed.verified();
    history.indexed.index.switch_tables(OFF).unwrap();
    assert!(!is_answered(&history, &mut rng));
    while history.indexed.index.tend_tables(7).unwrap() {}
    assert_eq!((rows(&history, "address_prefixes"), rows(&history, "frozen.address_prefixes")), (0, 0));
    history.indexed.verified();
}

#[test]
fn verify_finds_rows_that_are_missing_or_of_another_transaction() {
    let mut history = History::new(174, 60);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(15);
    history.complete();
    let frozen = std::fs::read_dir(history.frozen()).unwrap().map(|entry| entry.unwrap().path());
    let file = frozen.into_iter().find(|path| path.to_str().unwrap().contains(".address_prefixes-1")).unwrap();
    let raw = history.raw.clone();
    let Indexed { index, directory } = history.indexed;
    drop(index);
    let index_file = options(directory.path()).path;
    let reported = |file: &Path, damage: &dyn Fn(&Database), expected: &str| {
        let bytes = std::fs::read(file).unwrap();
        damage(&Database::open(file).unwrap());
        let index = Index::open(&options(directory.path())).unwrap();
        index.set_raw_blocks(raw.clone());
        let verifying = VerifyOptions { memory: 64 << 20, directory: directory.path().into() };
        let report = verify(&index.snapshot().unwrap(), &verifying, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(
            report.differences.iter().any(|found| found.contains(expected)),
            "{expected}: {:?}",
            report.differences
        );
        drop(index);
        std::fs::write(file, bytes).unwrap();
    };
    let change_live = |database: &Database, is_removed: bool| {
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(LIVE).unwrap();
            let mut key = *table.first().unwrap().unwrap().0.value();
            if is_removed {
                table.remove(&key).unwrap();
            } else {
                key[0] ^= 1;
                table.insert(&key, ()).unwrap();
            }
        }
        transaction.commit().unwrap();
    };
    reported(&index_file, &|database| change_live(database, true), "is not found by its addresses");
    reported(&index_file, &|database| change_live(database, false), "must not exist");
    let change_packed = |database: &Database, change: &dyn Fn(&mut Vec<u8>)| {
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(PACKED).unwrap();
            let (key, mut row) = {
                let (key, row) = table.first().unwrap().unwrap();
                (*key.value(), row.value().to_vec())
            };
            change(&mut row);
            table.insert(&key, row.as_slice()).unwrap();
        }
        transaction.commit().unwrap();
    };
    // another transaction, fewer, and bytes that are no row
    reported(&file, &|database| change_packed(database, &|row| row[3] ^= 1), "in its file");
    reported(&file, &|database| change_packed(database, &|row| row.truncate(4)), "in its file");
    reported(&file, &|database| change_packed(database, &|row| row.truncate(6)), "address_prefixes: a row");
}
