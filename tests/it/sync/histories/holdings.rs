//! What the view says of scripts, against the model and against itself.

use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};
use btcgraph::chain::Height;
use btcgraph::index::{IndexError, OutputPosition, TxNum};
use btcgraph::view::{Ledger, Movements, Supply, View};

use crate::support::model::{Model, Totals, Unspent};

/// Everything about a script at the tip: totals, coins, what of them has matured, movements.
pub(crate) fn assert_holdings(view: &View, model: &Model, script: &ScriptBuf) {
    let (ledger, tip) = (view.ledger([sha256::Hash::hash(script.as_bytes())]), view.tip_block().unwrap());
    let expected = model.totals(script);
    assert_totals(view, &ledger, tip.height, &expected, script);

    let found = view.totals(&ledger, &tip).unwrap();
    let rows = model.history.get(script);
    let seen = |row: Option<(&u32, &Totals)>| row.map(|(txnum, _)| TxNum(*txnum));
    let seen = (seen(rows.and_then(|rows| rows.first_key_value())), seen(rows.and_then(|rows| rows.last_key_value())));
    assert_eq!((view.first_seen(&ledger, &tip).unwrap(), found.last_seen), seen, "first and last seen of {script}");

    let coins: Vec<_> = view.coins(&ledger, &(OutputPosition::default()..OutputPosition::END), true).unwrap().collect();
    let coins: Vec<_> = coins.into_iter().filter_map(|found| found.unwrap().coin).collect();
    let sum = coins.iter().map(|coin| coin.value).sum::<u64>();
    let balance = expected.received - expected.spent;
    assert_eq!((sum, u64::try_from(coins.len()).unwrap()), (balance, found.utxo_count().unwrap()), "coins of {script}");

    let unspent = model.unspent.get(script).into_iter().flatten().map(|(_, coin)| coin);
    let (old, young): (Vec<&Unspent>, Vec<&Unspent>) = unspent.partition(|coin| {
        // the next block may spend a coinbase that is 100 blocks below it
        !coin.coinbase || tip.height.to_u32() + 1 >= coin.height + 100
    });
    let immature = view.immature(&ledger, &tip).unwrap();
    assert_eq!(immature, young.iter().map(|coin| coin.value).sum::<u64>(), "what of {script} is immature");
    assert_eq!(balance - immature, old.iter().map(|coin| coin.value).sum::<u64>(), "what of {script} can be spent");
}

/// The transactions of a script, each with what it did, and their number.
pub(crate) fn assert_movements(view: &View, model: &Model, script: &ScriptBuf) {
    let ledger = view.ledger([sha256::Hash::hash(script.as_bytes())]);
    let all = view.txnums(Height::GENESIS..view.tip().height.next()).unwrap();
    let mut before = Totals::default();
    let mut found = view.movements(&ledger, &all, true).unwrap().map(Result::unwrap);
    let rows = model.history.get(script);
    for (txnum, after) in rows.into_iter().flatten() {
        let movement = found.next().expect("a movement for each row of the history");
        let (received, spent) = (after.received - before.received, after.spent - before.spent);
        let expected = (TxNum(*txnum), received, spent, after.received - after.spent);
        let actual = (movement.txnum, movement.received, movement.spent, movement.balance_after);
        assert_eq!(actual, expected, "a movement of {script}");
        before = *after;
    }
    assert_eq!(found.next(), None, "movements of {script}");
    let counted = view.count_movements::<IndexError>(&ledger, &all, |_| Ok(true)).unwrap();
    let transactions = u32::try_from(rows.map_or(0, std::collections::BTreeMap::len)).unwrap();
    let expected = Movements { transactions, coinbases: before.coinbase_transactions };
    assert_eq!(counted, Some(expected), "how many movements {script} has");
}

/// The balance of a script right after an earlier block, by its totals and coin by coin.
pub(crate) fn assert_holdings_at(view: &View, model: &Model, script: &ScriptBuf, height: u32) {
    let (ledger, at) =
        (view.ledger([sha256::Hash::hash(script.as_bytes())]), view.block_at(height.into()).unwrap().unwrap());
    let expected = model.totals_at(script, height);
    assert_totals(view, &ledger, at.height, &expected, script);
    let coins = view.coins_at(&ledger, &at, &(OutputPosition::default()..OutputPosition::END), true).unwrap();
    let coins = coins.filter_map(|candidate| candidate.unwrap().coin).map(|coin| (1_u32, coin.value));
    let found = coins.fold((0, 0), |(count, sum), (one, value)| (count + one, sum + value));
    let (count, sum) = (expected.outputs_received - expected.outputs_spent, expected.received - expected.spent);
    assert_eq!(found, (count, sum), "coins of {script} after block {height}");
}

fn assert_totals(view: &View, ledger: &Ledger, height: Height, expected: &Totals, script: &ScriptBuf) {
    let found = view.totals(ledger, &view.block_at(height).unwrap().unwrap()).unwrap();
    let (received, spent) = (u128::from(expected.received), u128::from(expected.spent));
    let outputs = (expected.outputs_received.into(), expected.outputs_spent.into());
    let actual = (found.received, found.spent, (found.outputs_received, found.outputs_spent));
    assert_eq!(actual, (received, spent, outputs), "totals of {script} after block {height}");
    assert_eq!(
        found.balance().unwrap(),
        expected.received - expected.spent,
        "balance of {script} after block {height}"
    );
}

/// The sums over the whole chain: the issued subsidy is the unspent value plus the lost value; fees are the value of
/// inputs less that of outputs.
pub(crate) fn assert_supply(view: &View, model: &Model) {
    let tip = view.tip_block().unwrap();
    let supply = Supply::of(&tip.row.running).unwrap();
    let unspent: u64 = model.unspent.values().flat_map(|coins| coins.values()).map(|coin| coin.value).sum();
    assert_eq!((supply.circulating, supply.subsidy_issued - supply.unspendable), (unspent, unspent), "supply");
    let range = view.range(Height::GENESIS, tip.height).unwrap();
    let sum = |total: fn(&btcgraph::index::ChainTotals) -> u128| range.sum(total).unwrap();
    let created = model.blocks.iter().map(|block| u128::from(block.output_value - block.coinbase_value)).sum::<u128>();
    let fees = sum(|running| running.input_value) - created;
    assert_eq!(sum(|running| running.fees.into()), fees, "fees");
}
