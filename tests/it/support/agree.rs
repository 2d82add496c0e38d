//! The index compared with the naive model: every row that a chain makes.

use std::collections::BTreeMap;

use bitcoin::{Block, ScriptBuf};
use btcgraph::chain::Height;
use btcgraph::index::{
    BlockRow, ChainMembership, CountAndValue, OutputPosition, Snapshot, SpendCursor, SpendingInput, Tip, TxNum,
    TypeTotals,
};

use super::model::{BlockTotals, Model, OfType, OneTransaction, Sums, Totals};
use super::quantiles::{fee_quantiles, feerate_quantiles};

/// The index says in every table what the model says.
pub(crate) fn assert_agrees(chain: &Snapshot, model: &Model) {
    assert_agrees_from(chain, model, 0, model.history.keys());
}

/// The same, where nothing changed but blocks from this height on, and rows of these scripts: compares what these blocks
/// wrote, and that there is no row more or less elsewhere.
pub(crate) fn assert_agrees_from<'s>(
    chain: &Snapshot,
    model: &Model,
    height: u32,
    scripts: impl IntoIterator<Item = &'s ScriptBuf>,
) {
    assert_tip_agrees(chain, model);
    assert_blocks_agree(chain, model, height);
    let first = model.blocks.get(usize::try_from(height).unwrap());
    let first = first.map_or(u32::try_from(model.transactions.len()).unwrap(), |block| block.first_txnum);
    assert_transactions_agree(chain, model, first);
    for script in scripts {
        assert_history_agrees(chain, script, model);
        assert_unspent_agree(chain, script, model);
        assert_payouts_agree(chain, script, model);
    }
    for ((funding, vout), (spending, vin)) in model.spends.iter().filter(|(_, (spending, _))| *spending >= first) {
        let expected = SpendingInput { txnum: TxNum(*spending), vin: *vin };
        let found = chain.spender(TxNum(*funding), *vout).unwrap();
        assert_eq!(found, Some(expected), "what spends output {vout} of transaction {funding}");
    }
    assert_spenders_agree(chain, model, first);
    for (key, scripts) in &model.bare_keys {
        let expected = scripts.iter().map(|(script, first)| (chain.script_key(script.as_bytes()), TxNum(*first)));
        let expected: BTreeMap<_, _> = expected.collect();
        let found: BTreeMap<_, _> = chain.p2pk_scripts(*key).unwrap().into_iter().collect();
        assert_eq!(found, expected, "scripts that pay the key {key} bare");
    }
    assert_no_more_rows(chain, model);
}

/// The spenders of all outputs from a transaction on, and of those behind the last, read near each other, in both directions.
fn assert_spenders_agree(chain: &Snapshot, model: &Model, first: u32) {
    let mut outpoints = Vec::new();
    for funding in first..u32::try_from(model.transactions.len()).unwrap() {
        let outputs = chain.transaction(TxNum(funding)).unwrap().unwrap().parts.output.len();
        outpoints.extend((0..=u32::try_from(outputs).unwrap()).map(|vout| (funding, vout)));
    }
    let mut cursor = SpendCursor::default();
    for (funding, vout) in outpoints.iter().chain(outpoints.iter().rev().step_by(3)) {
        let expected = model.spends.get(&(*funding, *vout));
        let expected = expected.map(|(spending, vin)| SpendingInput { txnum: TxNum(*spending), vin: *vin });
        let found = chain.spender_near(&mut cursor, TxNum(*funding), *vout).unwrap();
        assert_eq!(found, expected, "what spends output {vout} of transaction {funding}");
    }
}

fn assert_tip_agrees(chain: &Snapshot, model: &Model) {
    let expected = (0..).zip(&model.blocks).last();
    let expected = expected.map(|(height, block)| Tip { height: Height::from(height), hash: block.hash });
    assert_eq!(chain.tip(), expected, "the tip");
}

/// Together with the comparisons row by row: the tables contain the rows of the model and no others.
fn assert_no_more_rows(chain: &Snapshot, model: &Model) {
    let rows = |count: usize| u64::try_from(count).unwrap();
    let expected = [
        ("blocks", rows(model.blocks.len())),
        ("block_starts", rows(model.blocks.len())),
        ("transactions", rows(model.transactions.len())),
        ("txids", rows(model.transactions.len())),
        ("spends", rows(model.spends.len())),
        ("history", rows(model.history.values().map(BTreeMap::len).sum())),
        ("unspent", rows(model.unspent.values().map(BTreeMap::len).sum())),
        ("payouts", rows(model.payouts.values().map(std::collections::BTreeSet::len).sum())),
        ("p2pk", rows(model.bare_keys.values().map(BTreeMap::len).sum())),
    ];
    let found: BTreeMap<_, _> = chain.tables().unwrap().into_iter().map(|table| (table.name, table.rows)).collect();
    if found.contains_key("frozen.blocks") {
        return; // packed rows have many entries each, and a generation may have blocks that left the chain
    }
    assert_eq!(expected.map(|(name, _)| (name, found[name])), expected, "rows of the tables");
}

fn assert_transactions_agree(chain: &Snapshot, model: &Model, first: u32) {
    let transactions = (0..).map(TxNum).zip(&model.transactions).skip(usize::try_from(first).unwrap());
    for (txnum, expected) in transactions {
        let stored = chain.transaction(txnum).unwrap().unwrap();
        let place = chain.occurrence(txnum).unwrap();
        let found = OneTransaction {
            txid: stored.txid,
            height: place.height.to_u32(),
            index: place.index,
            fee: stored.fee,
            raw: stored.parts.raw().to_vec(),
        };
        assert_eq!((stored.txnum, &found), (txnum, expected), "transaction {txnum}");
        let copies: Vec<_> = model.copies[&expected.txid].iter().copied().map(TxNum).collect();
        assert_eq!(chain.positions(&expected.txid).unwrap(), copies, "copies of {}", expected.txid);
    }
}

fn assert_history_agrees(chain: &Snapshot, script: &ScriptBuf, model: &Model) {
    let expected: Vec<_> =
        model.history.get(script).into_iter().flatten().map(|(txnum, totals)| (*txnum, *totals)).collect();
    let all = chain.history(chain.script_key(script.as_bytes()), TxNum(0)..TxNum(u32::MAX)).unwrap();
    let found: Vec<_> = all
        .map(Result::unwrap)
        .map(|(txnum, row)| {
            let totals = Totals {
                received: row.received.try_into().unwrap(),
                spent: row.spent.try_into().unwrap(),
                coinbase_received: row.coinbase_received,
                transactions: row.transactions,
                outputs_received: row.outputs_received,
                outputs_spent: row.outputs_spent,
                coinbase_transactions: row.coinbase_transactions,
            };
            (txnum.0, totals)
        })
        .collect();
    assert_eq!(found, expected, "history of {script}");
}

fn assert_unspent_agree(chain: &Snapshot, script: &ScriptBuf, model: &Model) {
    let unspent = model.unspent.get(script).into_iter().flatten();
    let expected: Vec<_> = unspent.map(|((txnum, vout), coin)| (*txnum, *vout, coin.value, coin.coinbase)).collect();
    let all = OutputPosition::default()..OutputPosition::END;
    let found: Vec<_> = chain
        .unspent(chain.script_key(script.as_bytes()), all)
        .unwrap()
        .map(|row| row.map(|(key, row)| (key.txnum.0, key.vout, row.value, row.is_coinbase)).unwrap())
        .collect();
    assert_eq!(found, expected, "unspent outputs of {script}");
}

fn assert_payouts_agree(chain: &Snapshot, script: &ScriptBuf, model: &Model) {
    let expected: Vec<_> = model.payouts.get(script).into_iter().flatten().copied().map(Height::from).collect();
    let all = Height::GENESIS..chain.tip().unwrap().height.next();
    let found = chain.payouts(chain.script_key(script.as_bytes()), all).unwrap();
    assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), expected, "coinbases that pay {script}");
}

/// A block that left the chain is kept whole, with the row it had, and is found by its hash and its transactions.
pub(crate) fn assert_is_stale(chain: &Snapshot, block: &Block, height: u32, row: &BlockRow) {
    let (height, hash) = (Height::from(height), block.block_hash());
    let stale = chain.stale_block(height, hash).unwrap().expect("the stale block is kept");
    assert_eq!((&stale.row, stale.raw), (row, bitcoin::consensus::serialize(block)), "stale block {hash}");
    let place = chain.block_place(hash).unwrap().map(|place| (place.height, place.membership));
    assert_eq!(place, Some((height, ChainMembership::Stale)), "stale block {hash}");
    for (transaction, index) in block.txdata.iter().zip(0..) {
        let found = chain.stale_occurrences(&transaction.compute_txid()).unwrap();
        assert!(found.contains(&(hash, index)), "transaction {index} of the stale block {hash}: {found:?}");
    }
}

fn assert_blocks_agree(chain: &Snapshot, model: &Model, from: u32) {
    let blocks = (0..).zip(model.blocks.iter().zip(&model.sums)).skip(usize::try_from(from).unwrap());
    for (height, (expected, sums)) in blocks {
        let row = chain.block(Height::from(height)).unwrap().unwrap();
        let place = chain.block_place(expected.hash).unwrap().map(|place| (place.height, place.membership));
        assert_eq!(place, Some((height.into(), ChainMembership::Main)), "the place of block {height}");
        assert_block_agrees(&row, expected, height);
        assert_sums_agree(&row, sums, expected, height);
    }
}

/// What the row says of the block alone.
fn assert_block_agrees(row: &BlockRow, expected: &BlockTotals, height: u32) {
    let found = BlockTotals {
        hash: row.hash,
        header: row.header,
        median_time: row.median_time,
        work: expected.work,
        size: row.size,
        stripped_size: row.stripped_size,
        weight: row.weight,
        first_txnum: u32::try_from(row.running.transactions).unwrap() - row.transactions,
        transactions: row.transactions,
        inputs: row.inputs,
        outputs: row.outputs,
        input_value: row.input_value.try_into().unwrap(),
        output_value: row.output_value.try_into().unwrap(),
        coinbase_value: row.coinbase_value,
        subsidy: row.subsidy,
        fees: row.fees,
        fees_and_weights: expected.fees_and_weights.clone(),
        segwit: (row.segwit_transactions, row.segwit_size, row.segwit_weight),
        taproot_outputs: row.taproot_outputs,
        op_returns: (row.op_return_outputs, row.op_return_bytes),
        coin_age: row.coin_age,
        types: expected.types.clone(),
        unspendable: expected.unspendable,
        utxo_count: row.running.utxo_count,
        utxo_value: row.running.utxo_value,
    };
    assert_eq!(&found, expected, "block {height}");
    assert_eq!(row.fee_quantiles, fee_quantiles(expected), "fees of block {height}");
    assert_eq!(row.feerate_quantiles, feerate_quantiles(expected), "feerates of block {height}");
}

/// What the row says of the chain up to the block.
fn assert_sums_agree(row: &BlockRow, expected: &Sums, block: &BlockTotals, height: u32) {
    let running = &row.running;
    let lost = running.unspendable;
    let found = Sums {
        transactions: running.transactions,
        inputs: running.inputs,
        outputs: running.outputs,
        input_value: running.input_value,
        output_value: running.output_value,
        fees: running.fees,
        subsidy: running.subsidy,
        size: running.size,
        weight: running.weight,
        paying_weight: running.paying_weight,
        work: Some(running.chainwork),
        empty_blocks: running.empty_blocks,
        unspendable: [lost.genesis, lost.bip30, lost.scripts, lost.unclaimed],
        segwit: (running.segwit_transactions, running.segwit_size, running.segwit_weight),
        taproot_outputs: running.taproot_outputs(),
        op_returns: (running.op_return_outputs(), running.op_return_bytes),
        coin_age: running.coin_age,
        feerate_quantiles: running.feerate_quantiles,
        types: running.types.each_ref().map(of_type),
    };
    assert_eq!(&found, expected, "sums up to block {height}");
    let left = |sum: &OfType| {
        (sum.created.0 - sum.spent.0 - sum.unspendable.0, sum.created.1 - sum.spent.1 - sum.unspendable.1)
    };
    let in_utxo_set = found.types.iter().map(left).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert_eq!(in_utxo_set, (block.utxo_count, block.utxo_value), "unspent outputs by type after block {height}");
    let issued = found.subsidy - found.unspendable.iter().sum::<u64>();
    assert_eq!(issued, block.utxo_value, "supply after block {height}");
}

fn of_type(totals: &TypeTotals) -> OfType {
    let pair = |sum: CountAndValue| (sum.count, u64::try_from(sum.value).unwrap());
    OfType { created: pair(totals.created), spent: pair(totals.spent), unspendable: pair(totals.unspendable) }
}
