//! The view against the simulated chain: the balance of every script, its immature part, and the outputs that can
//! never be spent.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, Network, OutPoint, ScriptBuf};
use btcgraph::index::TxNum;
use btcgraph::sim::{Hostile, SimChain};
use btcgraph::view::{ConfirmedPlace, Transaction, UnspendableReason, View};

use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};

/// Value, immature value and number of the unspent outputs of each script.
fn holdings(chain: &SimChain) -> BTreeMap<ScriptBuf, (u64, u64, u64)> {
    let next = chain.height().next();
    let mut holdings = BTreeMap::<_, (u64, u64, u64)>::new();
    for coin in chain.unspent().values() {
        let sums = holdings.entry(coin.output.script_pubkey.clone()).or_default();
        let value = coin.output.value.to_sat();
        sums.0 += value;
        sums.1 += if coin.is_mature_at(next) { 0 } else { value };
        sums.2 += 1;
    }
    holdings
}

#[track_caller]
fn assert_agrees(view: &View, chain: &SimChain, scripts: &mut BTreeMap<ScriptBuf, (u64, u64, u64)>) {
    // a script without unspent outputs must have totals of zero
    for expected in scripts.values_mut() {
        *expected = (0, 0, 0);
    }
    scripts.extend(holdings(chain));
    for (script, expected) in scripts {
        let (ledger, tip) = (view.ledger([sha256::Hash::hash(script.as_bytes())]), view.tip_block().unwrap());
        let totals = view.totals(&ledger, &tip).unwrap();
        let immature = view.immature(&ledger, &tip).unwrap();
        let found = (totals.balance().unwrap(), immature, totals.utxo_count().unwrap());
        assert_eq!(found, *expected, "{script} at height {}", chain.height());
    }
}

fn follow(api: &mut Api, chain: &SimChain, fed: &mut Vec<Arc<Block>>) {
    let active: Vec<_> = chain.active_blocks().cloned().collect();
    let shared = fed.iter().zip(&active).take_while(|(one, other)| one.block_hash() == other.block_hash()).count();
    let depth = u32::try_from(fed.len() - shared).unwrap();
    api.change(depth, active[shared..].iter().map(Arc::as_ref));
    *fed = active;
}

live_and_cut!(
    ledgers_equal_the_chain_through_reorgs_and_repeats,
    outputs_spent_before_an_overwrite_are_not_overwritten,
    a_fork_is_found_from_any_branch_that_is_kept,
);

fn ledgers_equal_the_chain_through_reorgs_and_repeats(form: IndexForm) {
    let (mut chain, mut hostile) = (SimChain::new(50), Hostile::new(50));
    let (mut api, mut fed, mut scripts) = (Api::of(Network::Regtest, []), Vec::new(), BTreeMap::new());
    let mut check = |chain: &SimChain| {
        follow(&mut api, chain, &mut fed);
        api.take(form);
        assert_agrees(&api.view(), chain, &mut scripts);
    };
    for step in 0..130 {
        hostile.mine(&mut chain).unwrap();
        if step % 10 == 0 {
            check(&chain);
        }
    }
    for depth in [1, 5, 40] {
        hostile.branch(&mut chain, depth, depth + 1).unwrap();
        check(&chain);
    }
    for spent in 0..=3 {
        let (_, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
        check(&chain);
        // once more, while the copy before it is still immature
        for _ in 0..30 {
            hostile.mine(&mut chain).unwrap();
        }
        chain.mine_duplicate_coinbase(&later, Vec::new()).unwrap();
        check(&chain);
        for _ in 0..14 {
            for _ in 0..5 {
                hostile.mine(&mut chain).unwrap();
            }
            check(&chain);
        }
    }
}

/// The copy of a transaction at another place of the chain.
fn copy_at(transaction: &Transaction, txnum: TxNum) -> Transaction {
    let place = transaction.place.map(|place| ConfirmedPlace { txnum, ..place });
    Transaction { place, is_newest: false, ..transaction.clone() }
}

fn outputs_spent_before_an_overwrite_are_not_overwritten(form: IndexForm) {
    let (mut chain, mut hostile) = (SimChain::new(51), Hostile::new(51));
    let (earlier, later) = hostile.repeat_coinbase(&mut chain, 1).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let view = api.view();
    let (txid, first) = (chain.block(&earlier).unwrap().txdata[0].compute_txid(), chain.height_of(&earlier).unwrap());
    let latest = view.transaction(&txid).unwrap().unwrap();
    assert_eq!(latest.place.map(|place| place.height), chain.height_of(&later));

    let transactions_before: usize =
        chain.active_blocks().take(usize::try_from(first.to_u32()).unwrap()).map(|block| block.txdata.len()).sum();
    let overwritten = copy_at(&latest, TxNum(u32::try_from(transactions_before).unwrap()));
    let reasons = |transaction| [0, 1, 2].map(|vout| view.unspendable(transaction, vout).unwrap());
    let reason = Some(UnspendableReason::Bip30Overwritten);
    assert_eq!(reasons(&overwritten), [None, reason, reason]);
    assert_eq!(reasons(&latest), [None; 3]);
    assert!(view.spender(&overwritten, 0).unwrap().is_some());
    assert!(chain.coin(&OutPoint { txid, vout: 0 }).is_some(), "the later copy creates it again");
}

fn a_fork_is_found_from_any_branch_that_is_kept(form: IndexForm) {
    let mut chain = SimChain::new(52);
    chain.mine_empty(10).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    let old: Vec<Arc<Block>> = chain.active_blocks().cloned().collect();
    api.change(4, []);
    let branch = crate::support::api::branch(&mut chain, old[6].block_hash(), 6, &[]);
    api.change(0, branch.iter().map(Arc::as_ref));
    let view = api.view();
    for (height, block) in (0_u32..).zip(&old) {
        assert_eq!(view.fork_height(block.block_hash()).unwrap(), Some(height.min(6).into()));
    }
    for (height, block) in (7_u32..).zip(&branch) {
        assert_eq!(view.fork_height(block.block_hash()).unwrap(), Some(height.into()));
    }
    let unknown = SimChain::new(53).mine(Vec::new()).unwrap();
    assert_eq!(view.fork_height(unknown.block_hash()).unwrap(), None);
}
