//! The optional table `op_returns`: outputs that are found by the beginning of their data equal a naive model through random
//! histories of blocks, reorganisations, freezes, builds, switches and restarts; and `verify` finds damage to the table.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::script::Instruction;
use bitcoin::{ScriptBuf, TxOut};
use btcgraph::index::{Index, IndexError, OptionalTable, OptionalTables, Snapshot, TxNum, VerifyOptions, verify};
use btcgraph::sim::Rng;
use redb::{Database, ReadableTable, TableDefinition};

use crate::index::wtxids::history::History;
use crate::support::indexed::{Indexed, options};

const ON: OptionalTables =
    OptionalTables { wtxids: false, address_prefixes: false, op_returns: true, block_filters: false };
const ALL: OptionalTables =
    OptionalTables { wtxids: true, address_prefixes: true, op_returns: true, block_filters: false };
const OFF: OptionalTables =
    OptionalTables { wtxids: false, address_prefixes: false, op_returns: false, block_filters: false };

const PACKED: TableDefinition<'static, &[u8; 10], &[u8]> = TableDefinition::new("op_returns");

/// Transaction and number of an output.
type Place = (u32, u32);

/// The data that an OP_RETURN output pushes.
fn data_of(script: &ScriptBuf) -> Option<Vec<u8>> {
    let [0x6a, rest @ ..] = script.as_bytes() else { return None };
    let rest = ScriptBuf::from_bytes(rest.to_vec());
    let pushes = rest.instructions().map_while(Result::ok).filter_map(|instruction| match instruction {
        Instruction::PushBytes(bytes) => Some(bytes.as_bytes().to_vec()),
        Instruction::Op(_) => None,
    });
    Some(pushes.flatten().collect())
}

fn model(history: &History) -> Vec<(Place, Vec<u8>)> {
    let transactions = history.blocks.iter().flat_map(|block| &block.txdata);
    let outputs = (0..).zip(transactions).flat_map(|(txnum, transaction)| {
        let outputs = (0..).zip(transaction.output.iter());
        outputs.filter_map(move |(vout, TxOut { script_pubkey, .. })| Some(((txnum, vout), data_of(script_pubkey)?)))
    });
    outputs.collect()
}

/// The outputs that the index finds, in the order of the chain and against it, with whether they may match.
fn found(snapshot: &Snapshot, prefix: &[u8], txnums: (u32, u32)) -> Result<Vec<(Place, bool)>, IndexError> {
    let rows = || snapshot.op_returns(prefix, &(TxNum(txnums.0)..TxNum(txnums.1)));
    let upwards = rows()?.collect::<Result<Vec<_>, _>>()?;
    let mut downwards = rows()?.rev().collect::<Result<Vec<_>, _>>()?;
    downwards.reverse();
    assert_eq!(upwards, downwards);
    Ok(upwards.into_iter().map(|found| ((found.txnum.0, found.vout), found.may_match)).collect())
}

/// Whether lookups are answered. Those that are equal the model's.
fn is_answered(history: &History, rng: &mut Rng) -> bool {
    let (snapshot, model) = (history.snapshot(), model(history));
    match found(&snapshot, b"abc", (0, u32::MAX)) {
        Err(IndexError::TableOff { table } | IndexError::TableNotReady { table, .. }) => {
            assert_eq!(table, OptionalTable::OpReturns);
            return false;
        }
        found => drop(found.unwrap()),
    }
    let long: Vec<_> = model.iter().map(|(_, data)| data).filter(|data| data.len() >= 3).collect();
    assert!(long.len() > 30, "{} outputs", long.len());
    let highest = u64::from(model.last().unwrap().0.0);
    let mut prefixes: Vec<_> = (0..10)
        .map(|_| {
            let data = long[usize::try_from(rng.below(long.len() as u64)).unwrap()];
            data[..3 + usize::try_from(rng.below(data.len() as u64 - 2)).unwrap()].to_vec()
        })
        .collect();
    // the witness commitments of blocks (BIP141), no data, and data that is too short
    prefixes.extend([vec![0xaa, 0x21, 0xa9, 0xed], b"no such data".to_vec(), vec![0xaa, 0x21]]);
    for prefix in prefixes {
        let txnums = [u32::try_from(rng.below(highest)).unwrap(), u32::try_from(rng.below(highest)).unwrap()];
        for (low, high) in [(0, u32::MAX), (txnums[0].min(txnums[1]), txnums[0].max(txnums[1]))] {
            let is_within = |(txnum, _): Place| prefix.len() >= 3 && (low..high).contains(&txnum);
            let same = |data: &[u8], bytes: usize| {
                data.len() >= 3 && data.iter().chain(&[0; 8]).zip(&prefix).take(bytes).all(|(one, other)| one == other)
            };
            let expected = model.iter().filter(|(place, data)| is_within(*place) && same(data, 3));
            let expected: Vec<_> = expected.map(|(place, data)| (*place, same(data, 8))).collect();
            assert_eq!(found(&snapshot, &prefix, (low, high)).unwrap(), expected, "{prefix:?} in {low}..{high}");
        }
    }
    true
}

#[test]
fn outputs_equal_the_model_through_random_histories() {
    for seed in 180..182 {
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
                    history.restart(OptionalTables { op_returns: on, ..OFF });
                }
                5 | 6 => {
                    history.indexed.index.tend_tables(u32::try_from(rng.below(300)).unwrap()).unwrap();
                }
                7 => {
                    history.indexed.index.sweep(usize::try_from(rng.below(3_000)).unwrap()).unwrap();
                }
                8 => {
                    on = !on || rng.chance(70);
                    history.indexed.index.switch_tables(OptionalTables { op_returns: on, ..OFF }).unwrap();
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
        history.indexed.index.switch_tables(ALL).unwrap();
        history.complete();
        assert!(is_answered(&history, &mut rng) && history.is_answered());
        assert!(answered > 5 && unanswered > 5, "{answered} of {}", answered + unanswered);
        // as one that had them from the beginning
        let mut live = Indexed::empty();
        live.index.switch_tables(ALL).unwrap();
        live.connect(history.blocks.iter().map(Arc::as_ref), 9);
        assert_eq!(history.indexed.rows(), live.rows());
    }
}

#[test]
fn verify_finds_data_that_is_missing_or_of_another_output() {
    let mut history = History::new(183, 60);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(15);
    history.complete();
    let frozen = std::fs::read_dir(history.frozen()).unwrap().map(|entry| entry.unwrap().path());
    let file = frozen.into_iter().find(|path| path.to_str().unwrap().contains(".op_returns-1")).unwrap();
    let raw = history.raw.clone();
    let Indexed { index, directory } = history.indexed;
    drop(index);
    let reported = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let bytes = std::fs::read(&file).unwrap();
        let database = Database::open(&file).unwrap();
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
        drop(database);
        let index = Index::open(&options(directory.path())).unwrap();
        index.set_raw_blocks(raw.clone());
        let verifying = VerifyOptions { memory: 64 << 20, directory: directory.path().into() };
        let report = verify(&index.snapshot().unwrap(), &verifying, &mut |_| ControlFlow::Continue(())).unwrap();
        let is_reported = report.differences.iter().any(|found| found.contains(expected));
        assert!(is_reported, "{expected}: {:?}", report.differences);
        drop(index);
        std::fs::write(&file, bytes).unwrap();
    };
    reported(&|row| row[4] ^= 1, "is not found by its data in its file");
    reported(&|row| row.truncate(5), "is not found by its data in its file");
    reported(&|row| row.truncate(7), "op_returns: a row");
}
