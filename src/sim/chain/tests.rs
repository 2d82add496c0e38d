//! The rules of a simulated chain, one by one.

use std::collections::BTreeMap;

use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, Block, BlockHash, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute,
    transaction,
};

use super::*;
use crate::chain::Height;
use crate::sim::utxo::{Duplicates, SimCoin, SimUtxoSet};
use crate::sim::{ChainError, Owner, Reward, ScriptKind};

/// Spends one output of the chain's miner, with this fee, into `count` outputs of `owner`.
fn pay(spent: OutPoint, value: Amount, fee: Amount, owner: Owner, count: u64) -> Transaction {
    let each = (value - fee) / count;
    let mut tx = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: spent,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: (0..count).map(|_| owner.output(each)).collect(),
    };
    SimChain::miner().unlock(&mut tx, 0, &[]).unwrap();
    tx
}

fn coinbase_of(block: &Block) -> (OutPoint, Amount) {
    let coinbase = &block.txdata[0];
    (OutPoint { txid: coinbase.compute_txid(), vout: 0 }, coinbase.output[0].value)
}

fn owner(n: u32) -> Owner {
    Owner::new(ScriptKind::P2sh, n)
}

#[test]
fn a_block_keeps_the_rules_of_header_coinbase_and_commitment() {
    let mut chain = SimChain::new(1);
    let first = chain.mine_empty(100).unwrap()[0].clone();
    let (outpoint, value) = coinbase_of(&first);
    let fee = Amount::from_sat(1_000);
    let block = chain.mine(vec![pay(outpoint, value, fee, owner(1), 2)]).unwrap();

    assert!(block.header.validate_pow(block.header.target()).is_ok());
    assert_eq!(block.header.prev_blockhash, chain.hash_at(Height::from(100)).unwrap());
    assert!(block.check_merkle_root());
    assert!(block.check_witness_commitment());
    assert_eq!(block.bip34_block_height().unwrap(), 101);
    assert_eq!(block.txdata[0].output[0].value, Amount::from_int_btc(50) + fee);
    assert_eq!(chain.tip(), block.block_hash());
    assert_eq!(chain.coin(&outpoint), None);
}

#[test]
fn equal_seeds_make_equal_blocks_and_others_make_others() {
    let tip = |seed| {
        let mut chain = SimChain::new(seed);
        chain.mine_empty(20).unwrap();
        chain.tip()
    };
    assert_eq!(tip(1), tip(1));
    assert_ne!(tip(1), tip(2));
}

#[test]
fn core_coinbases_have_height_and_commitment_but_no_seed() {
    let blocks = |seed| {
        let mut chain = SimChain::new(seed).with_core_coinbases();
        (chain.mine_empty(17).unwrap(), chain)
    };
    let (made, mut chain) = blocks(1);
    assert_eq!(made, blocks(2).0);
    for (block, script) in [(&made[0], "5100"), (&made[15], "6000"), (&made[16], "011100")] {
        let coinbase = &block.txdata[0];
        assert_eq!(coinbase.input[0].script_sig.to_hex_string(), script);
        assert_eq!(coinbase.input[0].witness, Witness::from_slice(&[[0; 32]]));
        assert_eq!(coinbase.output.len(), 2);
        assert!(block.check_witness_commitment());
    }
    let again = chain.mine_on(made[15].block_hash(), vec![]);
    assert_eq!(again, Err(ChainError::SameBlock(made[16].block_hash())));
    assert_eq!(chain.tip(), made[16].block_hash());
}

#[test]
fn siblings_of_the_same_content_differ() {
    let mut chain = SimChain::new(1);
    let genesis = chain.tip();
    let one = chain.mine(vec![]).unwrap();
    let other = chain.mine_on(genesis, vec![]).unwrap();
    assert_ne!(one.block_hash(), other.block_hash());
    assert_eq!(chain.tip(), one.block_hash(), "the first seen of two equally long branches stays");
}

#[test]
fn unspent_outputs_of_a_longer_branch_equal_a_fresh_replay() {
    let mut chain = SimChain::new(1);
    let blocks = chain.mine_empty(110).unwrap();
    let fork = chain.tip();
    let (a, b) = (coinbase_of(&blocks[0]), coinbase_of(&blocks[1]));
    // The branch that loses spends a, the branch that wins spends b, and the latter's outputs within a block.
    chain.mine(vec![pay(a.0, a.1, Amount::ZERO, owner(1), 3)]).unwrap();
    let lost_tip = chain.mine(vec![]).unwrap().block_hash();
    let before = chain.unspent().clone();

    let first = pay(b.0, b.1, Amount::ZERO, SimChain::miner(), 2);
    let second = pay(OutPoint { txid: first.compute_txid(), vout: 1 }, b.1 / 2, Amount::ZERO, owner(2), 5);
    let one = chain.mine_on(fork, vec![first, second]).unwrap();
    let two = chain.mine_on(one.block_hash(), vec![]).unwrap();
    assert_eq!(chain.unspent(), &before, "a branch that is not longer changes nothing");
    let three = chain.mine_on(two.block_hash(), vec![]).unwrap();

    assert_eq!(chain.tip(), three.block_hash());
    assert!(chain.coin(&a.0).is_some());
    let mut replayed = SimUtxoSet::default();
    for (height, block) in (0u32..).map(Height::from).zip(chain.active_blocks()).skip(1) {
        let mut changes = Vec::new();
        for tx in &block.txdata[1..] {
            replayed.apply(tx, tx.compute_txid(), height, &mut changes).unwrap();
        }
        let coinbase = &block.txdata[0];
        replayed.add_outputs(coinbase, coinbase.compute_txid(), height, Duplicates::Refuse, &mut changes).unwrap();
    }
    assert_eq!(chain.unspent(), replayed.coins());
    assert_eq!(chain.unspent_at(&lost_tip).unwrap(), before.into_iter().collect());
    assert_eq!(chain.unspent(), replayed.coins(), "a read at another block changes nothing");
}

#[test]
fn an_invalid_block_is_refused_and_changes_nothing() {
    let mut chain = SimChain::new(1);
    let blocks = chain.mine_empty(100).unwrap();
    let before = chain.unspent().clone();
    let (mature, value) = coinbase_of(&blocks[0]);
    let (young, _) = coinbase_of(&blocks[1]);
    let good = pay(mature, value, Amount::ZERO, owner(1), 1);
    let missing = OutPoint { txid: Txid::all_zeros(), vout: 7 };

    let mut check = |transactions: Vec<Transaction>, refused: fn(&ChainError) -> bool| {
        let error = chain.mine(transactions).unwrap_err();
        assert!(refused(&error), "{error}");
        assert_eq!(chain.unspent(), &before);
    };
    check(vec![good.clone(), pay(young, value, Amount::ZERO, owner(1), 1)], |error| {
        matches!(error, ChainError::Immature { .. })
    });
    check(vec![pay(missing, value, Amount::ZERO, owner(1), 1)], |error| {
        matches!(error, ChainError::MissingCoin { .. })
    });
    check(vec![good.clone(), good.clone()], |error| matches!(error, ChainError::MissingCoin { .. }));
    check(vec![pay(mature, value + Amount::ONE_SAT, Amount::ZERO, owner(1), 1)], |error| {
        matches!(error, ChainError::Overspent { .. })
    });
    let multisigs = pay(mature, value, Amount::ZERO, Owner::new(ScriptKind::Multisig, 0), 1_001);
    check(vec![multisigs], |error| matches!(error, ChainError::TooManySigops(_)));
    let heavy = pay(mature, value, Amount::ZERO, Owner::new(ScriptKind::Oversized, 0), 100);
    check(vec![heavy], |error| matches!(error, ChainError::TooHeavy(_)));
    let old = Template { time: Some(1), ..Template::default() };
    assert!(matches!(chain.mine_template(old), Err(ChainError::TimeTooOld { .. })));
    assert!(matches!(chain.mine_on(BlockHash::all_zeros(), vec![]), Err(ChainError::UnknownBlock(_))));
    assert!(chain.mine(vec![good]).is_ok());
}

#[test]
fn a_coinbase_pays_the_outputs_of_its_template() {
    let mut chain = SimChain::new(1);
    let one = Amount::ONE_BTC;
    let mut outputs = |reward: Reward| {
        let template = Template { reward: Some(reward), tag: b"/tag/".to_vec(), ..Template::default() };
        chain.mine_template(template).map(|block| block.txdata[0].output.clone())
    };
    let (a, b) = (owner(1).script_pubkey(), owner(2).script_pubkey());
    let rest = |btc| TxOut { value: Amount::from_int_btc(btc), script_pubkey: a.clone() };

    let paid = outputs(Reward::to(a.clone()).and(one, b.clone()).withholding(one * 9)).unwrap();
    assert_eq!(paid, [TxOut { value: one, script_pubkey: b.clone() }, rest(40)]);
    assert_eq!(outputs(Reward::exactly(vec![rest(3)])).unwrap(), [rest(3)]);
    assert_eq!(outputs(Reward::exactly(vec![])), Err(ChainError::EmptyReward));
    assert!(matches!(outputs(Reward::to(a.clone()).and(one * 51, b)), Err(ChainError::RewardTooHigh { .. })));
}

#[test]
fn a_repeated_coinbase_overwrites_unspent_earlier_outputs() {
    let mut chain = SimChain::new(1);
    let earlier = chain.mine(vec![]).unwrap();
    let (outpoint, value) = coinbase_of(&earlier);
    let unspent = chain.unspent().len();
    let later = chain.mine_duplicate_coinbase(&earlier.block_hash(), vec![]).unwrap();

    assert_eq!(later.txdata, earlier.txdata);
    assert_ne!(later.block_hash(), earlier.block_hash());
    assert_eq!(chain.unspent().len(), unspent);
    assert_eq!(chain.coin(&outpoint).unwrap().height, Height::from(2));
    let tip = chain.tip();
    let before_it = chain.unspent_at(&earlier.block_hash()).unwrap();
    assert_eq!(before_it[&outpoint].height, Height::from(1));

    // Once it is fully spent, it can be repeated, and its outputs are unspent again.
    chain.mine_empty(100).unwrap();
    chain.mine(vec![pay(outpoint, value, Amount::ZERO, owner(1), 1)]).unwrap();
    assert_eq!(chain.coin(&outpoint), None);
    chain.mine_duplicate_coinbase(&tip, vec![]).unwrap();
    assert_eq!(chain.coin(&outpoint).unwrap().height, chain.height());
}

#[test]
fn the_clock_follows_its_settings_and_stays_above_the_median() {
    let mut chain = SimChain::new(1).with_clock(1_700_000_000, 60);
    let times: Vec<u32> = chain.mine_empty(3).unwrap().iter().map(|block| block.header.time).collect();
    assert_eq!(times, [1_700_000_000, 1_700_000_060, 1_700_000_120]);
    let mut still = SimChain::new(1).with_clock(1_700_000_000, 0);
    let blocks = still.mine_empty(30).unwrap();
    let last = blocks.last().unwrap().header;
    assert!(last.time > still.median_time_past(&last.prev_blockhash).unwrap());
}

#[test]
fn a_chain_that_keeps_few_blocks_builds_on_no_older_ones() {
    let mut chain = SimChain::new(1).keeping(3);
    chain.mine_empty(10).unwrap();
    let at = |chain: &SimChain, height: u32| chain.hash_at(Height::from(height)).unwrap();
    assert_eq!(chain.active_blocks().count(), 3);
    let deep = at(&chain, 4);
    assert_eq!(chain.mine_on(deep, vec![]).unwrap_err(), ChainError::Forgotten(at(&chain, 7)));
    let shallow = at(&chain, 8);
    chain.mine_on(shallow, vec![]).unwrap();
}

/// Height, branch length and status of each tip.
fn tips_of(chain: &SimChain) -> Vec<(u32, u32, &'static str)> {
    chain.tips().iter().map(|tip| (tip.height.to_u32(), tip.branch_length, tip.status.as_str())).collect()
}

#[test]
fn tips_have_the_height_length_and_status_of_a_nodes() {
    let mut chain = SimChain::new(1);
    chain.mine_empty(3).unwrap();
    assert_eq!(tips_of(&chain), [(3, 0, "active")]);
    let fork = chain.hash_at(Height::from(1)).unwrap();
    let beside = chain.mine_on(fork, vec![]).unwrap().block_hash();
    assert_eq!(tips_of(&chain), [(3, 0, "active"), (2, 1, "valid-headers")]);
    let level = chain.mine_on(beside, vec![]).unwrap().block_hash();
    chain.mine_on(level, vec![]).unwrap();
    assert_eq!(tips_of(&chain), [(4, 0, "active"), (3, 2, "valid-fork")]);
    chain.invalidate(&level).unwrap();
    assert_eq!(tips_of(&chain), [(4, 3, "invalid"), (3, 0, "active")]);
}

#[test]
fn an_invalidated_block_leaves_with_its_descendants() {
    let mut chain = SimChain::new(1);
    let blocks: Vec<BlockHash> = chain.mine_empty(4).unwrap().iter().map(|block| block.block_hash()).collect();
    let beside = chain.mine_on(blocks[0], vec![]).unwrap().block_hash();
    let at_fork = chain.unspent_at(&beside).unwrap();

    let change = chain.invalidate(&blocks[1]).unwrap();
    assert_eq!(change, ChainPath { disconnected: vec![blocks[3], blocks[2], blocks[1]], connected: vec![beside] });
    assert_eq!((chain.tip(), chain.height()), (beside, Height::from(2)));
    assert_eq!(chain.hash_at(Height::from(3)), None);
    assert_eq!(chain.unspent().clone().into_iter().collect::<BTreeMap<_, _>>(), at_fork);
    assert_eq!(chain.mine_on(blocks[3], vec![]).unwrap_err(), ChainError::InvalidParent(blocks[3]));

    assert_eq!(chain.invalidate(&blocks[2]).unwrap(), ChainPath::default(), "it has already left");
    let change = chain.invalidate(&blocks[0]).unwrap();
    assert_eq!(change, ChainPath { disconnected: vec![beside, blocks[0]], connected: vec![] });
    assert_eq!((chain.height(), chain.unspent().len()), (Height::GENESIS, 0));
    let genesis = chain.tip();
    assert_eq!(chain.invalidate(&genesis), Err(ChainError::InvalidGenesis));
    assert_ne!(chain.mine(vec![]).unwrap().block_hash(), blocks[0], "the new block is another one");
}

#[test]
fn a_reconsidered_block_returns_with_its_branch() {
    let mut chain = SimChain::new(1);
    let blocks: Vec<BlockHash> = chain.mine_empty(4).unwrap().iter().map(|block| block.block_hash()).collect();
    let before = chain.unspent().clone();
    chain.invalidate(&blocks[2]).unwrap();
    chain.invalidate(&blocks[0]).unwrap();
    let change = chain.reconsider(&blocks[1]).unwrap();
    assert_eq!(change, ChainPath { disconnected: vec![], connected: blocks.clone() });
    assert_eq!(chain.unspent(), &before);

    // Of two branches of the same length the one that was seen first is the tip again.
    chain.invalidate(&blocks[3]).unwrap();
    let later = chain.mine(vec![]).unwrap().block_hash();
    let change = chain.reconsider(&blocks[3]).unwrap();
    assert_eq!(change, ChainPath { disconnected: vec![later], connected: vec![blocks[3]] });
    assert_eq!(chain.reconsider(&BlockHash::all_zeros()), Err(ChainError::UnknownBlock(BlockHash::all_zeros())));
}

#[test]
fn spent_coins_are_in_the_order_of_the_inputs() {
    let mut chain = SimChain::new(1);
    let blocks = chain.mine_empty(102).unwrap();
    let (a, b) = (coinbase_of(&blocks[0]), coinbase_of(&blocks[1]));
    let first = pay(a.0, a.1, Amount::ZERO, SimChain::miner(), 2);
    let paid = |vout| OutPoint { txid: first.compute_txid(), vout };
    let mut second = pay(paid(1), a.1 / 2, Amount::ZERO, owner(2), 1);
    second.input.push(TxIn { previous_output: b.0, ..second.input[0].clone() });
    let mined = chain.mine(vec![first.clone(), second]).unwrap().block_hash();

    let coin = |output: &TxOut, height: u32, coinbase| SimCoin {
        output: output.clone(),
        height: Height::from(height),
        coinbase,
    };
    let expected = vec![
        vec![coin(&blocks[0].txdata[0].output[0], 1, true)],
        vec![coin(&first.output[1], 103, false), coin(&blocks[1].txdata[0].output[0], 2, true)],
    ];
    assert_eq!(chain.spent_coins(&mined).unwrap(), expected);
    chain.invalidate(&mined).unwrap();
    assert_eq!(chain.spent_coins(&mined).unwrap(), expected, "off the active chain as well");
    let repeated = chain.mine_duplicate_coinbase(&blocks[101].block_hash(), vec![]).unwrap();
    assert_eq!(chain.spent_coins(&repeated.block_hash()).unwrap(), Vec::<Vec<SimCoin>>::new());
}
