use std::collections::BTreeMap;

use proptest::prelude::*;

use super::packer::ROW;
use super::*;
use crate::index::codec::Encoder;
use crate::index::frozen::tables::tests::table_of;
use crate::index::hot::tables::history::HistoryChange;

/// Changes that a script with these totals can have.
#[derive(Clone, Debug)]
enum Step {
    Receive(u32, u64),
    Coinbase(u32, u64),
    SpendAll,
    SpendOne(u8),
    Both(u32, u64),
    Overwrite(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let value = || prop_oneof![0_u64..300, 0_u64..1 << 50];
    prop_oneof![
        6 => value().prop_map(|value| Step::Receive(1, value)),
        1 => (2_u32..400, value()).prop_map(|(outputs, value)| Step::Receive(outputs, value)),
        1 => (1_u32..3, value()).prop_map(|(outputs, value)| Step::Coinbase(outputs, value)),
        3 => Just(Step::SpendAll),
        3 => any::<u8>().prop_map(Step::SpendOne),
        1 => (1_u32..3, value()).prop_map(|(outputs, value)| Step::Both(outputs, value)),
        1 => value().prop_map(Step::Overwrite),
    ]
}

fn change_of(step: &Step, totals: &HistoryRow) -> HistoryChange {
    let outputs = totals.outputs_received - totals.outputs_spent;
    let value = totals.received - totals.spent;
    let receive = |outputs: u32, value: u64| HistoryChange {
        received: value.into(),
        outputs_received: outputs,
        ..HistoryChange::default()
    };
    match *step {
        Step::Coinbase(outputs, value) => {
            HistoryChange { coinbase_received: value, is_coinbase_payment: true, ..receive(outputs, value) }
        }
        Step::Overwrite(value) if outputs > 0 && u128::from(value) + totals.spent <= totals.received => HistoryChange {
            overwritten: value.into(),
            outputs_overwritten: 1,
            coinbase_received: value + 3,
            is_coinbase_payment: true,
            ..receive(2, value + 3)
        },
        Step::SpendAll if outputs > 0 => {
            HistoryChange { spent: value, outputs_spent: outputs, ..HistoryChange::default() }
        }
        Step::SpendOne(part) if outputs > 0 => {
            let spent = value * u128::from(part) / 255;
            HistoryChange { spent, outputs_spent: 1, ..HistoryChange::default() }
        }
        Step::Both(more, received) if outputs > 0 => {
            HistoryChange { spent: value / 2, outputs_spent: 1, ..receive(more, received) }
        }
        Step::Receive(outputs, value) | Step::Both(outputs, value) => receive(outputs, value),
        _ => receive(1, 9),
    }
}

type Histories = BTreeMap<[u8; 10], (HistoryRow, Vec<(u32, Step)>)>;

fn histories() -> impl Strategy<Value = Histories> {
    let older = prop_oneof![
        3 => Just(HistoryRow::default()),
        1 => (1_u32..1_000, any::<u64>()).prop_map(|(transactions, received)| HistoryRow {
            received: u128::from(received) << 8,
            spent: u128::from(received),
            coinbase_received: 7,
            transactions,
            outputs_received: transactions * 2,
            outputs_spent: transactions,
            coinbase_transactions: 1,
        }),
    ];
    let steps =
        |count: std::ops::Range<usize>| prop::collection::vec((prop_oneof![1_u32..300, 1_u32..100_000], step()), count);
    let steps = prop_oneof![8 => steps(1..5), 1 => steps(200..1_500)];
    let script = prop_oneof![
        any::<[u8; 10]>(),
        (any::<u8>(), any::<u8>()).prop_map(|(high, low)| [high, 0, 0, 0, 0, 0, 0, 0, 0, low]),
    ];
    prop::collection::btree_map(script, (older, steps), 1..20)
}

proptest! {
    // a case has some thousand entries
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn histories_are_read_from_either_end_and_from_any_position(histories in histories()) {
        let (mut packer, mut rows, mut expected) = (HistoryPacker::default(), Vec::new(), BTreeMap::new());
        for (script, (older, steps)) in &histories {
            let (mut totals, mut txnum) = (*older, 0);
            packer.script(ScriptKey(*script), totals);
            let entries: &mut Vec<_> = expected.entry(*script).or_default();
            for (distance, step) in steps {
                let change = change_of(step, &totals);
                totals = totals.plus(&change).unwrap();
                txnum += distance;
                rows.extend(packer.push(TxNum(txnum), &change).unwrap());
                entries.push((TxNum(txnum), totals));
            }
        }
        rows.extend(packer.finish());
        prop_assert!(rows.iter().all(|(_, row)| row.len() <= ROW));
        let mut all = Vec::new();
        for (first, row) in &rows {
            each(*first, row, |script, txnum, totals| { all.push((script.0, txnum, totals)); true }).unwrap();
        }
        let flat = expected.iter().flat_map(|(script, entries)| {
            entries.iter().map(|(txnum, totals)| (*script, *txnum, *totals))
        });
        prop_assert_eq!(&all, &flat.collect::<Vec<_>>());

        let table = table_of(TABLE, &rows);
        for (script, entries) in &expected {
            let script = ScriptKey(*script);
            let whole = TxNum(0)..TxNum(u32::MAX);
            let read = |range| read(&table, script, range).unwrap();
            let forward: Vec<_> = read(whole.clone()).map(Result::unwrap).collect();
            prop_assert_eq!(&forward, entries);
            let mut backward: Vec<_> = read(whole).rev().map(Result::unwrap).collect();
            backward.reverse();
            prop_assert_eq!(&backward, entries);
            for at in [0, entries.len() / 3, entries.len() - 1] {
                let (txnum, _) = entries[at];
                let after: Vec<_> = read(txnum..TxNum(u32::MAX)).map(Result::unwrap).collect();
                prop_assert_eq!(&after, &entries[at..]);
                prop_assert_eq!(totals(&*table, script, txnum).unwrap(), at.checked_sub(1).map(|at| entries[at]));
                let beyond = TxNum(txnum.0 + 1);
                prop_assert_eq!(totals(&*table, script, beyond).unwrap(), Some(entries[at]));
                prop_assert_eq!(read(txnum..beyond).next_back().unwrap().unwrap(), entries[at]);
            }
        }
        let absent = ScriptKey([0x55; 10]);
        if !expected.contains_key(&absent.0) {
            prop_assert_eq!(totals(&*table, absent, TxNum(u32::MAX)).unwrap(), None);
            prop_assert_eq!(read(&table, absent, TxNum(0)..TxNum(u32::MAX)).unwrap().count(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn packed_scripts_make_the_rows_of_their_transactions(histories in histories(), copies in 1..30_u8, parts in 1..40_usize) {
        // scripts enough for some rows, of which most have more than one
        let scripts: Vec<_> = (0..copies)
            .flat_map(|copy| {
                histories.iter().map(move |(script, (_, steps))| {
                    let (mut totals, mut txnum, mut script) = (HistoryRow::default(), 0, *script);
                    script[0] = copy;
                    let changes = steps.iter().map(|(distance, step)| {
                        let change = change_of(step, &totals);
                        totals = totals.plus(&change).unwrap();
                        txnum += distance;
                        (TxNum(txnum), change)
                    });
                    (ScriptKey(script), changes.collect::<Vec<_>>())
                })
            })
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect();
        let (mut packer, mut expected) = (HistoryPacker::default(), Vec::new());
        for (script, changes) in &scripts {
            packer.script(*script, HistoryRow::default());
            for (txnum, change) in changes {
                expected.extend(packer.push(*txnum, change).unwrap());
            }
        }
        expected.extend(packer.finish());

        let (mut packer, mut rows, mut packed) = (HistoryPacker::default(), Vec::new(), PackedScripts::default());
        for part in scripts.chunks(scripts.len().div_ceil(parts)) {
            packed.clear();
            for (script, changes) in part {
                packed.push(*script, changes.iter().copied()).unwrap();
            }
            packer.append(&packed, &mut rows).unwrap();
            // as between two runs of the program
            let mut state = Encoder::default();
            packer.encode_state(&mut state);
            packer = HistoryPacker::decode_state(&mut Decoder::new("history", &state.finish())).unwrap();
        }
        rows.extend(packer.finish());
        prop_assert_eq!(rows, expected);
    }
}

proptest! {
    #[test]
    fn a_damaged_row_is_an_error_or_has_other_entries(row in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = each([1; 14], &row, |_, _, _| true);
    }
}

#[test]
fn a_script_that_receives_and_spends_all_takes_few_bytes() {
    let mut packer = HistoryPacker::default();
    let script = |number: u8| ScriptKey([number; 10]);
    packer.script(script(1), HistoryRow::default());
    let receive = HistoryChange { received: 100_000, outputs_received: 1, ..HistoryChange::default() };
    let spend = HistoryChange { spent: 100_000, outputs_spent: 1, ..HistoryChange::default() };
    packer.push(TxNum(1_000), &receive).unwrap();
    packer.push(TxNum(1_001), &spend).unwrap();
    // head, head and three bytes of the amount, head and one byte of the difference
    assert_eq!(packer.finish().unwrap().1.len(), 1 + 4 + 2);
}
