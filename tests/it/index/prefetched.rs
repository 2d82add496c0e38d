//! Blocks that are connected with what was looked up for them before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::{Block, OutPoint, Transaction, TxOut, Txid};
use btcgraph::index::{Index, IndexError, Known, KnownOutput, PrefetchedRows};

use super::merging::merge;
use crate::support::cut::{IndexForm, freeze_half, live_and_cut};
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::Indexed;

live_and_cut!(
    a_block_changes_the_same_rows_with_what_was_prefetched_as_without,
    a_second_spend_is_refused_whatever_was_prefetched,
    what_was_prefetched_for_another_state_is_ignored,
);

/// All outputs of these blocks, and whether a coinbase created them.
type Outputs = HashMap<OutPoint, (TxOut, bool)>;

fn outputs_of(blocks: &[&Block]) -> Outputs {
    let transactions = blocks.iter().flat_map(|block| &block.txdata);
    let outputs = transactions.flat_map(|tx| {
        let txid = tx.compute_txid();
        (0..).zip(&tx.output).map(move |(vout, output)| (OutPoint { txid, vout }, (output.clone(), tx.is_coinbase())))
    });
    outputs.collect()
}

/// Prefetches as for unconfirmed transactions.
fn prefetch<'t>(
    index: &Index,
    rows: &mut PrefetchedRows,
    outputs: &Outputs,
    of: impl Iterator<Item = &'t Transaction>,
) {
    let snapshot = index.snapshot().unwrap();
    assert!(rows.accepts(&snapshot));
    for tx in of.filter(|tx| !tx.is_coinbase()) {
        let outpoints = tx.input.iter().map(|input| input.previous_output);
        let spent = outpoints.map(|outpoint| (outpoint, outputs[&outpoint].0.script_pubkey.as_script()));
        let paid = tx.output.iter().map(|output| output.script_pubkey.as_script());
        snapshot.prefetch(rows, &tx.compute_txid(), spent, paid).unwrap();
    }
}

/// The outputs that each transaction of the block spends, as the mempool knows them.
fn spent_by<'o>(block: &Block, outputs: &'o Outputs) -> HashMap<Txid, Vec<KnownOutput<'o>>> {
    let spent = block.txdata.iter().filter(|tx| !tx.is_coinbase()).map(|tx| {
        let spent = tx.input.iter().map(|input| {
            let (output, is_coinbase) = &outputs[&input.previous_output];
            let (value, script_pubkey) = (output.value.to_sat(), output.script_pubkey.as_bytes());
            KnownOutput { value, script_pubkey, is_coinbase: *is_coinbase }
        });
        (tx.compute_txid(), spent.collect())
    });
    spent.collect()
}

/// Connects a block with what was prefetched.
fn connect(index: &mut Index, block: &Block, outputs: &Outputs, rows: &PrefetchedRows) -> Result<(), IndexError> {
    let spent = spent_by(block, outputs);
    let parsed = index.parser().parse(block.block_hash(), serialize(block)).unwrap();
    let mut update = index.update()?;
    let known = |txid: &Txid| spent.get(txid).cloned().unwrap_or_default();
    update.connect_with(&[parsed], Known { outputs: &known, prefetched: Some(rows) })?;
    update.commit()
}

/// A chain with repeated coinbases in its middle, spends within a block and every type of script.
fn chain() -> Vec<Arc<Block>> {
    repeated_coinbases(77, 60)
}

/// The newest transaction of these blocks that spends nothing but outputs of so many first ones.
fn spend_of_older(blocks: &[&Block], below: usize) -> Transaction {
    let below: HashSet<Txid> =
        blocks[..below].iter().flat_map(|block| &block.txdata).map(Transaction::compute_txid).collect();
    let spends = |tx: &&Transaction| tx.input.iter().all(|input| below.contains(&input.previous_output.txid));
    blocks.iter().flat_map(|block| &block.txdata).rfind(spends).unwrap().clone()
}

/// An index of so many of these blocks, the lower half frozen if that is its form.
fn index_of(form: IndexForm, blocks: &[&Block]) -> Indexed {
    let mut indexed = Indexed::of(blocks.iter().copied(), 50);
    if form == IndexForm::Cut {
        freeze_half(&mut indexed.index);
    }
    indexed
}

fn a_block_changes_the_same_rows_with_what_was_prefetched_as_without(form: IndexForm) {
    let blocks = chain();
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let outputs = outputs_of(&blocks);
    let (below, above) = blocks.split_at(blocks.len() / 3);
    let mut indexed = index_of(form, below);
    for (number, block) in above.iter().enumerate() {
        let mut rows = PrefetchedRows::on(&indexed.index.snapshot().unwrap());
        // every third block has transactions that the mempool did not have
        let had = if number % 3 == 0 { block.txdata.len() / 2 } else { block.txdata.len() };
        prefetch(&indexed.index, &mut rows, &outputs, block.txdata[..had].iter());
        connect(&mut indexed.index, block, &outputs, &rows).unwrap();
        if form == IndexForm::Cut && number == above.len() / 2 {
            freeze_half(&mut indexed.index);
        }
    }
    assert_eq!(indexed.rows(), Indexed::of(blocks, 50).rows());
}

fn what_was_prefetched_for_another_state_is_ignored(form: IndexForm) {
    let blocks = chain();
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let outputs = outputs_of(&blocks);
    let (below, above) = blocks.split_at(blocks.len() - 20);
    let mut indexed = index_of(form, below);
    for (round, blocks) in above.chunks(2).enumerate() {
        let freezes = form == IndexForm::Cut && round % 2 == 0;
        let mut rows = PrefetchedRows::on(&indexed.index.snapshot().unwrap());
        prefetch(&indexed.index, &mut rows, &outputs, blocks.iter().flat_map(|block| &block.txdata));
        if freezes {
            freeze_half(&mut indexed.index);
            assert!(!rows.accepts(&indexed.index.snapshot().unwrap()), "the generations are others");
        }
        // otherwise what they say is true of the first block alone
        for block in blocks {
            connect(&mut indexed.index, block, &outputs, &rows).unwrap();
            assert!(!rows.accepts(&indexed.index.snapshot().unwrap()), "the tip is another");
        }
    }
    assert_eq!(indexed.rows(), Indexed::of(blocks, 50).rows());
}

#[test]
fn what_was_prefetched_is_true_of_merged_generations() {
    let blocks = chain();
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let outputs = outputs_of(&blocks);
    let (below, above) = blocks.split_at(blocks.len() / 2);
    let tip = u32::try_from(below.len()).unwrap() - 1;
    let mut indexed = Indexed::of(below.iter().copied(), 50);
    for behind in [20, 15, 10, 5, 1] {
        IndexForm::Cut.freeze_to(&mut indexed.index, tip - behind);
    }
    for (merges, block) in above.iter().enumerate() {
        let mut rows = PrefetchedRows::on(&indexed.index.snapshot().unwrap());
        let (before, after) = block.txdata.split_at(block.txdata.len() / 2);
        prefetch(&indexed.index, &mut rows, &outputs, before.iter());
        if merges < 4 {
            merge(&mut indexed.index, 0..2);
        }
        prefetch(&indexed.index, &mut rows, &outputs, after.iter());
        connect(&mut indexed.index, block, &outputs, &rows).unwrap();
    }
    assert_eq!(indexed.rows(), Indexed::of(blocks, 50).rows());
}

fn a_second_spend_is_refused_whatever_was_prefetched(form: IndexForm) {
    let blocks = chain();
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let outputs = outputs_of(&blocks);
    let (valid, next) = blocks.split_at(blocks.len() - 1);
    // the lower half is frozen, and a live block spends some of it
    let mut again = spend_of_older(valid, valid.len() / 2);
    again.lock_time = LockTime::from_consensus(1);
    let mut block = next[0].clone();
    block.txdata.push(again);
    block.header.merkle_root = block.compute_merkle_root().unwrap();

    let Indexed { mut index, directory } = index_of(form, valid);
    let mut rows = PrefetchedRows::on(&index.snapshot().unwrap());
    prefetch(&index, &mut rows, &outputs, block.txdata.iter());
    let error = connect(&mut index, &block, &outputs, &rows).unwrap_err();
    assert!(matches!(error, IndexError::Unresolved { .. }), "{error}");
    // nothing is left of it, and the valid block is connected with the same rows
    connect(&mut index, next[0], &outputs, &rows).unwrap();
    let indexed = Indexed { index, directory };
    assert_eq!(indexed.rows(), Indexed::of(blocks, 50).rows());
}
