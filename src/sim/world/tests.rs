//! What a simulated node takes, refuses, mines and takes back.

use bitcoin::{Amount, OutPoint};

use super::super::{Owner, Payment, ScriptKind, Spendable};
use super::*;

fn someone(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wsh, n)
}

/// A world of 110 blocks, and the coins of the first ten, which are mature.
fn world() -> (World, Vec<Spendable>) {
    let mut chain = SimChain::new(1);
    let blocks = chain.mine_empty(110).unwrap();
    let coins = blocks.iter().take(10).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    (World::new(chain), coins.collect())
}

fn coinbase_coin(block: &Block) -> Spendable {
    Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap()
}

/// Spends a coin whole, at this feerate, to someone.
fn pass_on(coin: &Spendable, sat_per_vb: u64, n: u32) -> Transaction {
    Payment::of([coin.clone()]).change(someone(n), sat_per_vb).sign().unwrap()
}

/// Spends a coin into some equal outputs to someone, at 2 sat/vB or little more.
fn split(coin: &Spendable, count: u32, n: u32) -> Transaction {
    let each = coin.output.value / u64::from(count) - Amount::from_sat(500);
    (0..count).fold(Payment::of([coin.clone()]), |payment, _| payment.to(someone(n), each)).sign().unwrap()
}

fn coin_of(tx: &Transaction, vout: u32, n: u32) -> Spendable {
    Spendable::of(tx, vout, someone(n)).unwrap()
}

/// Transactions that each spend the one before whole, the first of them this coin.
fn line(coin: &Spendable, length: u32) -> Vec<Transaction> {
    let mut spent = coin.clone();
    (0..length)
        .map(|n| {
            let tx = pass_on(&spent, 2, n);
            spent = coin_of(&tx, 0, n);
            tx
        })
        .collect()
}

fn take_all(world: &mut World, transactions: &[Transaction]) {
    for tx in transactions {
        world.submit(tx.clone()).unwrap();
    }
}

fn ids(transactions: &[Transaction]) -> Vec<Txid> {
    transactions.iter().map(Transaction::compute_txid).collect()
}

fn set(txids: impl IntoIterator<Item = Txid>) -> BTreeSet<Txid> {
    txids.into_iter().collect()
}

fn held(world: &World) -> BTreeSet<Txid> {
    world.mempool().entries().map(|entry| entry.txid).collect()
}

fn since(world: &World, number: u64) -> Vec<Happening> {
    world.happenings_since(number).unwrap().map(|noted| noted.happening).collect()
}

fn connected(world: &World, block: &Block) -> Happening {
    let hash = block.block_hash();
    Happening::BlockConnected { hash, height: world.chain().height_of(&hash).unwrap() }
}

fn disconnected(world: &World, block: &Block) -> Happening {
    let hash = block.block_hash();
    Happening::BlockDisconnected { hash, height: world.chain().height_of(&hash).unwrap() }
}

/// Code and reason.
fn verdict(refused: Result<Accepted, Rejection>) -> (i32, String) {
    let rejection = refused.unwrap_err();
    (rejection.code(), rejection.reason())
}

#[test]
fn what_a_node_refuses_is_refused_with_its_words_and_changes_nothing() {
    let (mut world, coins) = world();
    let young = coinbase_coin(world.chain().block(&world.chain().hash_at(Height::from(13)).unwrap()).unwrap());
    let held_before = split(&coins[0], 30, 1);
    let tree: Vec<Transaction> = (1..26).map(|vout| pass_on(&coin_of(&held_before, vout, 1), 2, 2)).collect();
    let chain_of_25 = line(&coins[1], 25);
    let other = pass_on(&coins[3], 10, 3);
    take_all(&mut world, &[held_before.clone(), other.clone()]);
    take_all(&mut world, &tree[..24]);
    take_all(&mut world, &chain_of_25);
    let mined = pass_on(&coins[2], 2, 1);
    world.mine_exactly(vec![mined.clone()], Mining::default()).unwrap();
    let height = world.chain().height().to_u32();
    let (before, happened) = (held(&world), world.happened());

    let value = coins[4].output.value;
    let coin = || Payment::of([coins[4].clone()]);
    let fee = |fee: u64| coin().to(someone(1), value - Amount::from_sat(fee));
    let missing = Spendable { outpoint: OutPoint { vout: 9, ..coins[4].outpoint }, ..coins[4].clone() };
    let last = coin_of(&chain_of_25[24], 0, 24);
    let both = [coins[0].clone(), coin_of(&held_before, 29, 1)];
    let adds = Payment::of([coins[3].clone(), last.clone()]);
    for (tx, code, reason) in [
        (pass_on(&missing, 2, 1), -25, "bad-txns-inputs-missingorspent"),
        (pass_on(&young, 2, 1), -26, "bad-txns-premature-spend-of-coinbase"),
        (coin().to(someone(1), value + Amount::ONE_SAT).sign().unwrap(), -26, "bad-txns-in-belowout"),
        (fee(0).sign().unwrap(), -26, "min relay fee not met"),
        (fee(50).sign().unwrap(), -26, "min relay fee not met"),
        (held_before.clone(), -27, "txn-already-in-mempool"),
        (mined, -27, "txn-already-known"),
        (fee(900).lock_time(height + 1).sign().unwrap(), -26, "non-final"),
        (fee(900).sequence(200).sign().unwrap(), -26, "non-BIP68-final"),
        (pass_on(&last, 2, 1), -26, "too-long-mempool-chain"),
        (pass_on(&coin_of(&tree[3], 0, 2), 2, 1), -26, "too-long-mempool-chain"),
        (pass_on(&coins[3], 9, 4), -26, "insufficient fee"),
        (pass_on(&coins[3], 10, 4), -26, "insufficient fee"),
        (Payment::of(both).change(someone(1), 5_000).sign().unwrap(), -26, "bad-txns-spends-conflicting-tx"),
        (adds.change(someone(1), 5_000).sign().unwrap(), -26, "too-long-mempool-chain"),
        (
            Payment::of([coins[4].clone(), coins[4].clone()]).change(someone(1), 2).sign().unwrap(),
            -26,
            "bad-txns-inputs-duplicate",
        ),
        (Payment::of([]).to(someone(1), Amount::ONE_BTC).sign().unwrap(), -26, "bad-txns-vin-empty"),
        (coin().sign().unwrap(), -26, "bad-txns-vout-empty"),
        (coin().to(someone(1), Amount::MAX_MONEY + Amount::ONE_SAT).sign().unwrap(), -26, "bad-txns-vout-toolarge"),
    ] {
        assert_eq!(verdict(world.submit(tx)), (code, reason.to_owned()));
    }
    assert_eq!((held(&world), world.happened()), (before, happened));
    // The 25th child of a parent is one too many, but may be there to raise its fee.
    world.submit(tree[24].clone()).unwrap();
}

#[test]
fn the_last_block_before_a_lock_ends_is_too_early_and_the_next_is_not() {
    let (mut world, coins) = world();
    let height = world.chain().height().to_u32();
    let median = world.chain().median_time_past(&world.chain().tip()).unwrap();
    let pay = |coin: usize| Payment::of([coins[coin].clone()]).change(someone(1), 2);
    // What coin 0 of block 1 says of blocks and time since then.
    let first = world.chain().hash_at(Height::GENESIS).unwrap();
    let units = (median - world.chain().median_time_past(&first).unwrap()) / 512;
    for (early, late) in [
        (pay(0).lock_time(height + 1), pay(0).lock_time(height)),
        (pay(1).lock_time(median), pay(1).lock_time(median - 1)),
        (pay(2).sequence(height - 1), pay(2).sequence(height - 2)),
        (pay(0).sequence(1 << 22 | (units + 1)), pay(3).sequence(1 << 22 | (units - 3))),
    ] {
        let reason = verdict(world.submit(early.sign().unwrap())).1;
        assert!(["non-final", "non-BIP68-final"].contains(&reason.as_str()), "{reason}");
        world.submit(late.sign().unwrap()).unwrap();
    }
    let free = pay(5).lock_time(height + 9).sequence(u32::MAX).sign().unwrap();
    world.submit(free).unwrap();
    let version_1 = pay(6).version(1).sequence(height).sign().unwrap();
    world.submit(version_1).unwrap();
}

#[test]
fn a_replacement_takes_the_place_of_what_it_conflicts_with_and_of_what_stood_on_that() {
    let (mut world, coins) = world();
    let first = split(&coins[0], 2, 1);
    let children = [pass_on(&coin_of(&first, 0, 1), 5, 2), pass_on(&coin_of(&first, 1, 1), 5, 3)];
    let other = pass_on(&coins[1], 3, 1);
    take_all(&mut world, &[first.clone(), children[0].clone(), children[1].clone(), other.clone()]);
    let happened = world.happened();
    let fees: u64 = world.mempool().entries().map(|entry| entry.fee.to_sat()).sum();

    let both = || [coins[0].clone(), coins[1].clone()];
    let sum: Amount = both().iter().map(|coin| coin.output.value).sum();
    let paying = |fee: u64| Payment::of(both()).to(someone(9), sum - Amount::from_sat(fee)).sign().unwrap();
    let vsize = u64::try_from(paying(0).vsize()).unwrap();
    let refused = verdict(world.submit(paying(fees + vsize - 1)));
    assert_eq!(refused, (-26, "insufficient fee".to_owned()));
    let replacement = paying(fees + vsize);
    let txid = replacement.compute_txid();
    let accepted = world.submit(replacement).unwrap();

    let replaced = [&first, &children[0], &children[1], &other].map(Transaction::compute_txid);
    assert_eq!(accepted, Accepted { txid, replaced: set(replaced) });
    assert_eq!(held(&world), set([txid]));
    let mut expected: Vec<Happening> = replaced.map(|txid_| Happening::Replaced { txid: txid_, by: txid }).to_vec();
    expected.push(Happening::Arrived { txid });
    assert_eq!(since(&world, happened), expected);
    let sequences: Vec<u64> = world.happenings_since(0).unwrap().map(|noted| noted.mempool_sequence).collect();
    assert_eq!(sequences, (1..=9).collect::<Vec<_>>());
    assert_eq!(world.mempool_sequence(), 10);
}

#[test]
fn a_replacement_brings_no_unconfirmed_output_and_removes_no_more_than_a_hundred() {
    let (mut world, coins) = world();
    let parents: Vec<Transaction> = (0..5).map(|n| split(&coins[n], 24, 1)).collect();
    take_all(&mut world, &parents);
    for parent in &parents {
        let children: Vec<Transaction> = (0..24).map(|vout| pass_on(&coin_of(parent, vout, 1), 2, 2)).collect();
        take_all(&mut world, &children);
    }
    let rich = |spends: Vec<Spendable>| Payment::of(spends).change(someone(9), 100_000).sign().unwrap();
    let all = verdict(world.submit(rich(coins[..5].to_vec())));
    assert_eq!(all, (-26, "too many potential replacements".to_owned()));
    let plain = split(&coins[6], 2, 1);
    let conflicting = pass_on(&coins[7], 2, 1);
    take_all(&mut world, &[plain.clone(), conflicting]);
    let adding = rich(vec![coins[7].clone(), coin_of(&plain, 0, 1)]);
    assert_eq!(verdict(world.submit(adding)), (-26, "replacement-adds-unconfirmed".to_owned()));
    world.submit(rich(coins[..4].to_vec())).unwrap();
}

#[test]
fn a_child_pays_for_parents_below_the_minimum_and_not_for_itself_below_it() {
    let (mut world, coins) = world();
    let free = |coin: &Spendable, n| pass_on(coin, 0, n);
    let (one, two, paying) = (free(&coins[0], 1), free(&coins[1], 2), pass_on(&coins[2], 2, 3));
    let spends = || [coin_of(&one, 0, 1), coin_of(&two, 0, 2), coin_of(&paying, 0, 3)];
    let child = |rate| Payment::of(spends()).change(someone(4), rate).sign().unwrap();

    let package = |child: &Transaction| vec![one.clone(), two.clone(), paying.clone(), child.clone()];
    let reasons = |verdicts: Vec<Result<Accepted, Rejection>>| -> Vec<String> {
        verdicts.into_iter().map(|verdict| verdict.err().map_or_else(String::new, |error| error.reason())).collect()
    };
    let poor = reasons(world.submit_package(package(&child(1))).unwrap());
    assert_eq!(poor, ["transaction failed", "transaction failed", "", "min relay fee not met"]);
    assert_eq!(held(&world), set([paying.compute_txid()]));
    let before = world.happened();

    let child = child(20);
    assert_eq!(reasons(world.submit_package(package(&child)).unwrap()), ["", "", "", ""]);
    let arrived = [&one, &two, &child].map(|tx| Happening::Arrived { txid: tx.compute_txid() });
    assert_eq!(since(&world, before), arrived);
    assert_eq!(world.mempool().get(&child.compute_txid()).unwrap().ancestors.count, 4);

    let stranger = pass_on(&coins[5], 2, 1);
    assert_eq!(world.submit_package(vec![stranger, child]), Err(Rejection::NotChildWithParents));
}

#[test]
fn a_block_takes_what_pays_best_with_all_that_it_stands_on_up_to_its_weight() {
    let (mut world, coins) = world();
    let poor = pass_on(&coins[0], 1, 1);
    let rich_child = pass_on(&coin_of(&poor, 0, 1), 100, 2);
    let middle = pass_on(&coins[1], 20, 1);
    let cheap = pass_on(&coins[2], 3, 1);
    let cheaper_child = pass_on(&coin_of(&middle, 0, 1), 2, 2);
    let all = [cheap, poor, middle, rich_child, cheaper_child];
    take_all(&mut world, &all);
    let [cheap, poor, middle, rich_child, cheaper_child] = all;
    let order = ids(&[poor.clone(), rich_child.clone(), middle.clone(), cheap.clone(), cheaper_child.clone()]);
    assert_eq!(world.mempool().select(Weight::MAX_BLOCK), order);
    let three = poor.weight() + rich_child.weight() + middle.weight();
    assert_eq!(world.mempool().select(three), order[..3]);
    // What does not fit is passed over for what does.
    assert_eq!(world.mempool().select(middle.weight()), [middle.compute_txid()]);

    let before = world.happened();
    let block = world.mine(Mining { max_weight: Some(three), ..Mining::default() }).unwrap();
    assert_eq!(ids(&block.txdata[1..]), order[..3]);
    let hash = block.block_hash();
    let mut expected: Vec<Happening> =
        order[..3].iter().map(|txid| Happening::Mined { txid: *txid, block: hash }).collect();
    expected.push(connected(&world, &block));
    assert_eq!(since(&world, before), expected);
    let left = world.mempool().get(&cheaper_child.compute_txid()).unwrap();
    assert_eq!((left.ancestors.count, left.parents.len()), (1, 0));
    world.mine(Mining::default()).unwrap();
    assert!(world.mempool().is_empty());
}

#[test]
fn what_a_block_conflicts_with_leaves_and_so_does_what_stood_on_it() {
    let (mut world, coins) = world();
    let chain = line(&coins[0], 3);
    let beside = pass_on(&coins[1], 2, 1);
    take_all(&mut world, &chain);
    take_all(&mut world, std::slice::from_ref(&beside));
    let before = world.happened();
    let rival = pass_on(&coins[0], 1, 77);
    let by = rival.compute_txid();
    let block = world.mine_exactly(vec![rival], Mining::default()).unwrap();
    let hash = block.block_hash();
    let mut expected: Vec<Happening> =
        ids(&chain).into_iter().map(|txid| Happening::Conflicted { txid, by, block: hash }).collect();
    expected.push(connected(&world, &block));
    assert_eq!(since(&world, before), expected);
    assert_eq!(held(&world), set([beside.compute_txid()]));
}

#[test]
fn a_reorganisation_returns_what_it_can_keeps_mined_what_is_mined_again_and_drops_what_conflicts() {
    let (mut world, coins) = world();
    let (returns, again, dies) = (pass_on(&coins[0], 2, 1), pass_on(&coins[1], 2, 2), pass_on(&coins[2], 2, 3));
    let stands = |tx: &Transaction, n| pass_on(&coin_of(tx, 0, n), 2, 9);
    let (on_returns, on_again, on_dies) = (stands(&returns, 1), stands(&again, 2), stands(&dies, 3));
    let old = world.mine_exactly(vec![returns.clone(), again.clone()], Mining::default()).unwrap();
    let older = world.mine_exactly(vec![dies.clone()], Mining::default()).unwrap();
    take_all(&mut world, &[on_returns.clone(), on_again.clone(), on_dies.clone()]);
    let (before, sequence) = (world.happened(), world.mempool_sequence());

    let rival = pass_on(&coins[2], 50, 7);
    let branch = vec![vec![], vec![rival, again.clone()]];
    let new = world.reorg(2, 3, branch, &Mining::default()).unwrap();

    let id = Transaction::compute_txid;
    assert_eq!(held(&world), set([id(&returns), id(&on_returns), id(&on_again)]));
    let expected = [
        disconnected(&world, &older),
        disconnected(&world, &old),
        Happening::Returned { txid: id(&returns) },
        Happening::Invalidated { txid: id(&on_dies) },
        connected(&world, &new[0]),
        connected(&world, &new[1]),
        connected(&world, &new[2]),
    ];
    assert_eq!(since(&world, before), expected);
    assert_eq!(world.mempool_sequence(), sequence + 2);
    let child = world.mempool().get(&id(&on_returns)).unwrap();
    assert_eq!((child.ancestors.count, child.parents.clone()), (2, set([id(&returns)])));
    assert_eq!(world.mempool().get(&id(&returns)).unwrap().descendants.count, 2);
}

#[test]
fn a_coinbase_that_is_immature_or_gone_after_a_reorganisation_takes_along_what_spent_it() {
    let (mut world, coins) = world();
    let at_maturity = |world: &World| {
        let mature = world.chain().height().to_u32() - 99;
        coinbase_coin(world.chain().block(&world.chain().hash_at(Height::from(mature)).unwrap()).unwrap())
    };
    let young = pass_on(&at_maturity(&world), 2, 1);
    let child = pass_on(&coin_of(&young, 0, 1), 2, 2);
    let safe = pass_on(&coins[0], 2, 1);
    let locked = Payment::of([coins[1].clone()]).change(someone(3), 2).lock_time(world.chain().height().to_u32());
    let locked = locked.sign().unwrap();
    take_all(&mut world, &[young.clone(), child.clone(), safe.clone(), locked.clone()]);
    let tip = world.chain().tip();
    let before = world.happened();
    let change = world.invalidate(&tip).unwrap();
    assert_eq!(change.disconnected, [tip]);
    let gone = [&young, &child, &locked].map(|tx| Happening::Invalidated { txid: tx.compute_txid() });
    assert_eq!(since(&world, before)[1..], gone);
    assert_eq!(held(&world), set([safe.compute_txid()]));
}

#[test]
fn an_invalidation_gives_back_the_transactions_of_ten_blocks_and_a_reconsideration_takes_them_again() {
    let (mut world, coins) = world();
    let transactions: Vec<Transaction> = line(&coins[0], 12);
    let apart = pass_on(&coins[1], 2, 1);
    let mut blocks = Vec::new();
    for (index, tx) in transactions.iter().enumerate() {
        let with = if index == 11 { vec![tx.clone(), apart.clone()] } else { vec![tx.clone()] };
        blocks.push(world.mine_exactly(with, Mining::default()).unwrap().block_hash());
    }
    world.invalidate(&blocks[2]).unwrap();
    assert_eq!(held(&world), set(ids(&transactions[2..]).into_iter().chain([apart.compute_txid()])));
    world.reconsider(&blocks[2]).unwrap();
    assert!(world.mempool().is_empty());
    // One more block, and all but one stand on what does not return.
    world.invalidate(&blocks[1]).unwrap();
    assert_eq!(held(&world), set([apart.compute_txid()]));
    world.reconsider(&blocks[11]).unwrap();
    assert_eq!((world.chain().tip(), world.mempool().len()), (blocks[11], 0));
}

#[test]
fn a_chain_that_returns_too_long_is_cut_at_its_limit() {
    let (mut world, coins) = world();
    let transactions = line(&coins[0], 40);
    let (mined, waiting) = transactions.split_at(20);
    let block = world.mine_exactly(mined.to_vec(), Mining::default()).unwrap();
    take_all(&mut world, waiting);
    world.invalidate(&block.block_hash()).unwrap();
    assert_eq!(held(&world), set(ids(&transactions[..25])));
    let first = world.mempool().get(&transactions[0].compute_txid()).unwrap();
    assert_eq!(first.descendants.count, 25);
}

#[test]
fn eviction_and_expiry_take_what_stands_on_what_leaves() {
    let (mut world, coins) = world();
    world.set_time(2_000_000_000);
    let old = line(&coins[0], 2);
    let evicted = line(&coins[1], 3);
    take_all(&mut world, &evicted);
    take_all(&mut world, &old[..1]);
    world.set_time(2_000_000_100);
    take_all(&mut world, &old[1..]);
    let young = pass_on(&coins[2], 2, 1);
    take_all(&mut world, std::slice::from_ref(&young));
    let before = world.happened();

    assert_eq!(world.evict(&evicted[1].compute_txid()), ids(&evicted[1..]));
    assert_eq!(world.evict(&evicted[1].compute_txid()), []);
    world.evict(&evicted[0].compute_txid());
    assert_eq!(world.expire(2_000_000_100), ids(&old));
    assert_eq!(held(&world), set([young.compute_txid()]));
    let evictions = [1, 2, 0].map(|n| Happening::Evicted { txid: evicted[n].compute_txid() });
    let expiries = ids(&old).into_iter().map(|txid| Happening::Expired { txid });
    assert_eq!(since(&world, before), evictions.into_iter().chain(expiries).collect::<Vec<_>>());
}

#[test]
fn a_full_mempool_takes_only_what_makes_room() {
    let (world, coins) = world();
    let policy = Policy { max_transactions: 2, ..Policy::default() };
    let mut world = world.with_policy(policy);
    take_all(&mut world, &[pass_on(&coins[0], 2, 1), pass_on(&coins[1], 2, 1)]);
    assert_eq!(verdict(world.submit(pass_on(&coins[2], 90, 1))), (-26, "mempool full".to_owned()));
    world.submit(pass_on(&coins[1], 90, 1)).unwrap();
}

#[test]
fn only_the_last_happenings_are_remembered() {
    let (world, _) = world();
    let mut world = world.remembering(3);
    let from = world.happened();
    for _ in 0..4 {
        world.mine(Mining::default()).unwrap();
    }
    assert_eq!(world.happened(), from + 4);
    assert!(world.happenings_since(from).is_none(), "the first is forgotten");
    let numbers: Vec<u64> = world.happenings_since(from + 1).unwrap().map(|noted| noted.number).collect();
    assert_eq!(numbers, [from + 1, from + 2, from + 3]);
    assert_eq!(world.happenings_since(from + 4).unwrap().count(), 0);
}

#[test]
fn a_block_has_the_time_of_its_world_and_never_one_that_is_too_early() {
    let (mut world, _) = world();
    let tip = world.chain().block(&world.chain().tip()).unwrap().header.time;
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, tip + 600);
    world.set_time(tip + 700);
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, tip + 700);
    world.set_time(7);
    let median = world.chain().median_time_past(&world.chain().tip()).unwrap();
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, median + 1);
    assert_eq!(world.mine(Mining { time: Some(tip + 5), ..Mining::default() }).unwrap().header.time, tip + 5);
}
