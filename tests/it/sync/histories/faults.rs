//! Proof that the comparisons can fail: for each, a model that is wrong in one place, or an index that went another way,
//! is refused, and refused by the comparison that is meant to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bitcoin::ScriptBuf;
use btcgraph::index::{Index, Snapshot};
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::{Hostile, SimChain};
use btcgraph::view::{Head, View};

use super::actions::Action;
use super::holdings::{assert_holdings, assert_holdings_at, assert_movements, assert_supply};
use super::player::{Player, Way};
use super::straight::Straight;
use crate::support::agree::{assert_agrees, assert_agrees_from, assert_is_stale};
use crate::support::indexed::Indexed;
use crate::support::model::Model;

/// A chain of hostile blocks, an index of it, and what the model says of it.
fn counted() -> (SimChain, Indexed, Model) {
    let (mut chain, mut hostile) = (SimChain::new(91), Hostile::new(91));
    for _ in 0..130 {
        hostile.mine(&mut chain).unwrap();
    }
    let indexed = Indexed::of(chain.active_blocks().map(Arc::as_ref), 1_000);
    let model = Model::of(chain.active_blocks().map(Arc::as_ref));
    (chain, indexed, model)
}

/// The words with which something fails.
#[track_caller]
fn failure(what: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(what)).expect_err("the fault is not noticed");
    payload.downcast_ref::<String>().expect("the words of a failed comparison").clone()
}

fn view(snapshot: Snapshot) -> View {
    View::new(Arc::new(Head::new(Arc::new(snapshot), MempoolSnapshot::default()).unwrap()))
}

/// What a comparison says, and the change of a model, with a script, that it says it of.
type Fault = (&'static str, fn(&mut Model, &ScriptBuf));

/// A script with unspent outputs that coinbases paid.
fn script(model: &Model) -> ScriptBuf {
    let (script, _) = model.payouts.iter().find(|(script, _)| model.unspent.contains_key(*script)).unwrap();
    script.clone()
}

#[test]
fn the_comparison_finds_any_wrong_row_of_a_model() {
    let (_, indexed, model) = counted();
    let snapshot = indexed.index.snapshot().unwrap();
    assert_agrees(&snapshot, &model);
    let at = script(&model);
    let faults: [Fault; 27] = [
        ("the tip", |model, _| drop(model.blocks.pop())),
        ("the tip", |model, _| model.blocks.last_mut().unwrap().hash = model.blocks[0].hash),
        ("block 7", |model, _| model.blocks[7].header.time += 1),
        ("block 7", |model, _| model.blocks[7].fees += 1),
        ("block 120", |model, _| model.blocks[120].coin_age += 1),
        ("block 120", |model, _| model.blocks[120].utxo_count += 1),
        ("fees of block", |model, _| {
            model.blocks.iter_mut().rev().find_map(|block| block.fees_and_weights.first_mut()).unwrap().0 += 1 << 40;
        }),
        ("feerates of block", |model, _| {
            model.blocks.iter_mut().rev().find_map(|block| block.fees_and_weights.last_mut()).unwrap().1 = 1;
        }),
        ("sums up to block 9", |model, _| model.sums[9].fees += 1),
        ("sums up to block 9", |model, _| model.sums[9].unspendable[2] += 1),
        ("sums up to block 9", |model, _| model.sums[9].types[3].spent.0 += 1),
        ("sums up to block 9", |model, _| model.sums[9].segwit.1 += 1),
        ("sums up to block 9", |model, _| model.sums[9].taproot_outputs += 1),
        ("sums up to block 9", |model, _| model.sums[9].op_returns.0 += 1),
        ("sums up to block 9", |model, _| model.sums[9].coin_age += 1),
        ("sums up to block 9", |model, _| model.sums[9].feerate_quantiles[6] += 1),
        ("transaction 5", |model, _| model.transactions[5].raw[0] ^= 1),
        ("transaction 5", |model, _| model.transactions[5].fee = Some(0)),
        ("transaction 5", |model, _| model.transactions[5].index += 1),
        ("copies of", |model, _| model.copies.values_mut().next().unwrap().push(0)),
        ("history of", |model, at| model.history.get_mut(at).unwrap().values_mut().next().unwrap().received += 1),
        ("unspent outputs of", |model, at| {
            model.unspent.get_mut(at).unwrap().values_mut().next().unwrap().coinbase ^= true;
        }),
        ("unspent outputs of", |model, at| drop(model.unspent.remove(at))),
        ("coinbases that pay", |model, at| assert!(model.payouts.get_mut(at).unwrap().pop_first().is_some())),
        ("what spends output", |model, _| model.spends.values_mut().next().unwrap().1 += 1),
        ("scripts that pay the key", |model, _| {
            *model.bare_keys.values_mut().next().unwrap().values_mut().next().unwrap() += 1;
        }),
        ("what spends output", |model, _| assert!(model.spends.pop_first().is_some())),
    ];
    for (expected, fault) in faults {
        let mut wrong = model.clone();
        fault(&mut wrong, &at);
        let words = failure(|| assert_agrees(&snapshot, &wrong));
        assert!(words.contains(expected), "{expected:?} is not what failed: {words}");
    }
}

#[test]
fn a_wrong_row_is_found_when_only_new_blocks_are_compared() {
    let (_, indexed, model) = counted();
    let snapshot = indexed.index.snapshot().unwrap();
    let (height, at) = (u32::try_from(model.blocks.len()).unwrap() - 1, script(&model));
    assert_agrees_from(&snapshot, &model, height, [&at]);
    let mut wrong = model.clone();
    wrong.transactions.last_mut().unwrap().height -= 1;
    assert!(failure(|| assert_agrees_from(&snapshot, &wrong, height, [])).contains("transaction"));
    let mut wrong = model.clone();
    wrong.history.get_mut(&at).unwrap().values_mut().last().unwrap().spent += 1;
    assert!(failure(|| assert_agrees_from(&snapshot, &wrong, height, [&at])).contains("history of"));
    // of rows that are not looked at their number is
    let mut wrong = model.clone();
    wrong.history.get_mut(&at).unwrap().pop_first();
    assert!(failure(|| assert_agrees_from(&snapshot, &wrong, height, [])).contains("rows of the tables"));
}

#[test]
fn a_stale_block_that_is_not_kept_whole_is_refused() {
    let (chain, mut indexed, model) = counted();
    let block = chain.block(&chain.tip()).unwrap();
    let height = chain.height().to_u32();
    let row = indexed.index.snapshot().unwrap().block(height.into()).unwrap().unwrap();
    let is_stale = |indexed: &Indexed, row| assert_is_stale(&indexed.index.snapshot().unwrap(), block, height, row);
    assert!(catch_unwind(AssertUnwindSafe(|| is_stale(&indexed, &row))).is_err(), "it is not stale yet");
    indexed.disconnect_to(u32::try_from(model.blocks.len()).unwrap() - 1);
    is_stale(&indexed, &row);
    let other = indexed.index.snapshot().unwrap().block((height - 1).into()).unwrap().unwrap();
    assert!(failure(|| is_stale(&indexed, &other)).contains("stale block"));
}

#[test]
fn a_view_that_says_otherwise_of_a_script_is_refused() {
    let (_, indexed, model) = counted();
    let (view, at) = (view(indexed.index.snapshot().unwrap()), script(&model));
    assert_holdings(&view, &model, &at);
    let fails = |words: &str, fault: fn(&mut Model, &ScriptBuf), check: fn(&View, &Model, &ScriptBuf)| {
        let mut wrong = model.clone();
        fault(&mut wrong, &at);
        let found = failure(|| check(&view, &wrong, &at));
        assert!(found.contains(words), "{words:?} is not what failed: {found}");
    };
    fails(
        "totals of",
        |model, at| model.history.get_mut(at).unwrap().values_mut().last().unwrap().outputs_spent += 1,
        assert_holdings,
    );
    fails(
        "first and last seen",
        |model, at| assert!(model.history.get_mut(at).unwrap().pop_first().is_some()),
        assert_holdings,
    );
    fails(
        "is immature",
        |model, at| model.unspent.get_mut(at).unwrap().values_mut().for_each(|coin| coin.coinbase ^= true),
        assert_holdings,
    );
    fails(
        "can be spent",
        |model, at| {
            let coins = model.unspent.get_mut(at).unwrap().values_mut();
            coins.filter(|coin| !coin.coinbase || coin.height < 20).for_each(|coin| coin.value += 1);
        },
        assert_holdings,
    );
    fails(
        "a movement of",
        |model, at| model.history.get_mut(at).unwrap().values_mut().next().unwrap().received += 1,
        assert_movements,
    );
    fails(
        "how many movements",
        |model, at| model.history.get_mut(at).unwrap().values_mut().last().unwrap().coinbase_transactions += 1,
        assert_movements,
    );
    fails(
        "after block 100",
        |model, at| model.history.get_mut(at).unwrap().values_mut().for_each(|totals| totals.received += 1),
        |view, model, at| assert_holdings_at(view, model, at, 100),
    );
    fails("supply", |model, at| drop(model.unspent.remove(at)), |view, model, _| assert_supply(view, model));
    fails("fees", |model, _| model.blocks[3].output_value += 1, |view, model, _| assert_supply(view, model));
}

#[test]
fn disconnecting_blocks_restores_the_model_before_them() {
    let (chain, _, mut model) = counted();
    let blocks: Vec<_> = chain.active_blocks().map(Arc::as_ref).collect();
    for left in [130, 127, 90, 1, 0] {
        while model.blocks.len() > left {
            model.disconnect();
        }
        assert!(model == Model::of(blocks[..left].iter().copied()), "{left} blocks");
    }
}

/// Follows the chain but for its last block.
struct OneBehind;

impl Way for OneBehind {
    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        let mut behind = chain.clone();
        behind.invalidate(&chain.tip()).unwrap();
        Straight.follow(index, &behind);
    }

    fn refuse(&mut self, _: &mut Index, _: &SimChain) {}

    fn let_go(&mut self) {}

    fn compare(&mut self, _: &Model, _: &std::collections::BTreeSet<ScriptBuf>) {}

    fn finish(&mut self, _: &Model) {}
}

#[test]
fn an_index_that_does_not_follow_is_refused() {
    let history = [vec![Action::Empty { blocks: 2 }]];
    Player::new(Straight).play(&history);
    assert!(failure(|| drop(Player::new(OneBehind).play(&history))).contains("the tip"));
}

/// Follows the chain, and keeps a stale block that the chain never left.
struct Wandering;

impl Way for Wandering {
    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        let mut other = chain.clone();
        other.invalidate(&chain.tip()).unwrap();
        other.mine(Vec::new()).unwrap();
        Straight.follow(index, &other);
        other.reconsider(&chain.tip()).unwrap();
        let mut update = index.update().unwrap();
        update.disconnect().unwrap();
        update.commit().unwrap();
        Straight.follow(index, chain);
    }

    fn refuse(&mut self, _: &mut Index, _: &SimChain) {}

    fn let_go(&mut self) {}

    fn compare(&mut self, _: &Model, _: &std::collections::BTreeSet<ScriptBuf>) {}

    fn finish(&mut self, _: &Model) {}
}

#[test]
fn an_index_that_was_elsewhere_meanwhile_is_refused_at_the_end() {
    let history = [vec![Action::Empty { blocks: 2 }]];
    assert!(failure(|| drop(Player::new(Wandering).play(&history))).contains("the stale blocks"));
}

#[test]
fn a_failing_history_is_reported_with_its_seed_and_shrunk() {
    let failure = super::runner::play(7, &|| OneBehind).unwrap_err();
    assert!(failure.contains("BTCGRAPH_HISTORY=7"), "{failure}");
    let (_, smallest) = failure.split_once("minimal failing input: ").unwrap();
    let words: Vec<_> = smallest.split_whitespace().collect();
    assert!(words.len() < 16, "{failure}");
}
