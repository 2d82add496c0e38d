//! Accepted and refused transactions.

use super::*;

#[test]
fn a_refusal_has_a_nodes_code_and_reason_and_changes_nothing() {
    let (mut world, coins) = world();
    let young = coinbase_coin(world.chain().block(&world.chain().hash_at(Height::from(13)).unwrap()).unwrap());
    let parent = split(&coins[0], 30, 1);
    let tree: Vec<Transaction> = (1..26).map(|vout| pass_on(&coin_of(&parent, vout, 1), 2, 2)).collect();
    let chain_of_25 = line(&coins[1], 25);
    let other = pass_on(&coins[3], 10, 3);
    take_all(&mut world, &[parent.clone(), other.clone()]);
    take_all(&mut world, &tree[..24]);
    take_all(&mut world, &chain_of_25);
    let mined = pass_on(&coins[2], 2, 1);
    world.mine_exactly(vec![mined.clone()], Mining::default()).unwrap();
    let height = world.chain().height().to_u32();
    let (before, event_count) = (mempool_txids(&world), world.event_count());

    let value = coins[4].output.value;
    let coin = || Payment::of([coins[4].clone()]);
    let fee = |fee: u64| coin().to(someone(1), value - Amount::from_sat(fee));
    let missing = Spendable { outpoint: OutPoint { vout: 9, ..coins[4].outpoint }, ..coins[4].clone() };
    let last = coin_of(&chain_of_25[24], 0, 24);
    let both = [coins[0].clone(), coin_of(&parent, 29, 1)];
    let adds = Payment::of([coins[3].clone(), last.clone()]);
    for (tx, code, reason) in [
        (pass_on(&missing, 2, 1), -25, "bad-txns-inputs-missingorspent"),
        (pass_on(&young, 2, 1), -26, "bad-txns-premature-spend-of-coinbase"),
        (coin().to(someone(1), value + Amount::ONE_SAT).sign().unwrap(), -26, "bad-txns-in-belowout"),
        (fee(0).sign().unwrap(), -26, "min relay fee not met"),
        (fee(50).sign().unwrap(), -26, "min relay fee not met"),
        (parent.clone(), -27, "txn-already-in-mempool"),
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
    assert_eq!((mempool_txids(&world), world.event_count()), (before, event_count));
    // The 25th child of a parent exceeds the limit by one, which the carve-out allows.
    world.submit(tree[24].clone()).unwrap();
}

#[test]
fn a_locked_transaction_is_refused_until_the_block_it_allows() {
    let (mut world, coins) = world();
    let height = world.chain().height().to_u32();
    let median = world.chain().median_time_past(&world.chain().tip()).unwrap();
    let pay = |coin: usize| Payment::of([coins[coin].clone()]).change(someone(1), 2);
    // The units of 512 seconds since block 1, whose coin is the first.
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
fn a_replacement_removes_conflicts_and_their_descendants() {
    let (mut world, coins) = world();
    let first = split(&coins[0], 2, 1);
    let children = [pass_on(&coin_of(&first, 0, 1), 5, 2), pass_on(&coin_of(&first, 1, 1), 5, 3)];
    let other = pass_on(&coins[1], 3, 1);
    take_all(&mut world, &[first.clone(), children[0].clone(), children[1].clone(), other.clone()]);
    let event_count = world.event_count();
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
    assert_eq!(mempool_txids(&world), set([txid]));
    let mut expected: Vec<WorldEvent> = replaced.map(|txid_| WorldEvent::Replaced { txid: txid_, by: txid }).to_vec();
    expected.push(WorldEvent::Arrived { txid });
    assert_eq!(since(&world, event_count), expected);
    let sequences: Vec<u64> = world.events_since(0).unwrap().map(|numbered| numbered.mempool_sequence).collect();
    assert_eq!(sequences, (1..=9).collect::<Vec<_>>());
    assert_eq!(world.mempool_sequence(), 10);
}

#[test]
fn a_replacement_adds_no_unconfirmed_input_and_removes_100() {
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
fn a_child_pays_for_parents_below_the_minimum_if_it_pays_enough() {
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
    assert_eq!(poor, ["min relay fee not met", "min relay fee not met", "", "min relay fee not met"]);
    assert_eq!(mempool_txids(&world), set([paying.compute_txid()]));
    let before = world.event_count();

    let child = child(20);
    assert_eq!(reasons(world.submit_package(package(&child)).unwrap()), ["", "", "", ""]);
    let arrived = [&one, &two, &child].map(|tx| WorldEvent::Arrived { txid: tx.compute_txid() });
    assert_eq!(since(&world, before), arrived);
    assert_eq!(world.mempool().get(&child.compute_txid()).unwrap().ancestors.count, 4);

    let stranger = pass_on(&coins[5], 2, 1);
    assert_eq!(world.submit_package(vec![stranger, child]), Err(Rejection::NotChildWithParents));
}

#[test]
fn a_full_mempool_accepts_only_replacements() {
    let (world, coins) = world();
    let policy = Policy { max_transactions: 2, ..Policy::default() };
    let mut world = world.with_policy(policy);
    take_all(&mut world, &[pass_on(&coins[0], 2, 1), pass_on(&coins[1], 2, 1)]);
    assert_eq!(verdict(world.submit(pass_on(&coins[2], 90, 1))), (-26, "mempool full".to_owned()));
    world.submit(pass_on(&coins[1], 90, 1)).unwrap();
}
