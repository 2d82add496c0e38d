//! The effects of connected and disconnected blocks on the mempool.

use super::*;

#[test]
fn a_block_selects_by_ancestor_feerate_up_to_its_weight() {
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
    // A transaction that does not fit is skipped for one that does.
    assert_eq!(world.mempool().select(middle.weight()), [middle.compute_txid()]);

    let before = world.event_count();
    let block = world.mine(Mining { max_weight: Some(three), ..Mining::default() }).unwrap();
    assert_eq!(ids(&block.txdata[1..]), order[..3]);
    let hash = block.block_hash();
    let mut expected: Vec<WorldEvent> =
        order[..3].iter().map(|txid| WorldEvent::Mined { txid: *txid, block: hash }).collect();
    expected.push(connected(&world, &block));
    assert_eq!(since(&world, before), expected);
    let left = world.mempool().get(&cheaper_child.compute_txid()).unwrap();
    assert_eq!((left.ancestors.count, left.parents.len()), (1, 0));
    world.mine(Mining::default()).unwrap();
    assert!(world.mempool().is_empty());
}

#[test]
fn conflicts_of_a_block_leave_with_their_descendants() {
    let (mut world, coins) = world();
    let chain = line(&coins[0], 3);
    let beside = pass_on(&coins[1], 2, 1);
    take_all(&mut world, &chain);
    take_all(&mut world, std::slice::from_ref(&beside));
    let before = world.event_count();
    let rival = pass_on(&coins[0], 1, 77);
    let by = rival.compute_txid();
    let block = world.mine_exactly(vec![rival], Mining::default()).unwrap();
    let hash = block.block_hash();
    let mut expected: Vec<WorldEvent> =
        ids(&chain).into_iter().map(|txid| WorldEvent::Conflicted { txid, by, block: hash }).collect();
    expected.push(connected(&world, &block));
    assert_eq!(since(&world, before), expected);
    assert_eq!(mempool_txids(&world), set([beside.compute_txid()]));
}

#[test]
fn a_reorganisation_returns_what_is_valid_and_drops_conflicts() {
    let (mut world, coins) = world();
    let (returns, again, dies) = (pass_on(&coins[0], 2, 1), pass_on(&coins[1], 2, 2), pass_on(&coins[2], 2, 3));
    let stands = |tx: &Transaction, n| pass_on(&coin_of(tx, 0, n), 2, 9);
    let (on_returns, on_again, on_dies) = (stands(&returns, 1), stands(&again, 2), stands(&dies, 3));
    let old = world.mine_exactly(vec![returns.clone(), again.clone()], Mining::default()).unwrap();
    let older = world.mine_exactly(vec![dies.clone()], Mining::default()).unwrap();
    take_all(&mut world, &[on_returns.clone(), on_again.clone(), on_dies.clone()]);
    let (before, sequence) = (world.event_count(), world.mempool_sequence());

    let rival = pass_on(&coins[2], 50, 7);
    let branch = vec![vec![], vec![rival, again.clone()]];
    let new = world.reorg(2, 3, branch, &Mining::default()).unwrap();

    let id = Transaction::compute_txid;
    assert_eq!(mempool_txids(&world), set([id(&returns), id(&on_returns), id(&on_again)]));
    let expected = [
        disconnected(&world, &older),
        disconnected(&world, &old),
        WorldEvent::Returned { txid: id(&returns) },
        WorldEvent::Invalidated { txid: id(&on_dies) },
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
fn spends_of_an_immature_or_lost_coinbase_leave_after_a_reorg() {
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
    let before = world.event_count();
    let change = world.invalidate(&tip).unwrap();
    assert_eq!(change.disconnected, [tip]);
    let gone = [&young, &child, &locked].map(|tx| WorldEvent::Invalidated { txid: tx.compute_txid() });
    assert_eq!(since(&world, before)[1..], gone);
    assert_eq!(mempool_txids(&world), set([safe.compute_txid()]));
}

#[test]
fn an_invalidation_returns_the_transactions_of_ten_blocks() {
    let (mut world, coins) = world();
    let transactions: Vec<Transaction> = line(&coins[0], 12);
    let apart = pass_on(&coins[1], 2, 1);
    let mut blocks = Vec::new();
    for (index, tx) in transactions.iter().enumerate() {
        let with = if index == 11 { vec![tx.clone(), apart.clone()] } else { vec![tx.clone()] };
        blocks.push(world.mine_exactly(with, Mining::default()).unwrap().block_hash());
    }
    world.invalidate(&blocks[2]).unwrap();
    assert_eq!(mempool_txids(&world), set(ids(&transactions[2..]).into_iter().chain([apart.compute_txid()])));
    world.reconsider(&blocks[2]).unwrap();
    assert!(world.mempool().is_empty());
    // With one more block, all but one descend from a transaction that does not return.
    world.invalidate(&blocks[1]).unwrap();
    assert_eq!(mempool_txids(&world), set([apart.compute_txid()]));
    world.reconsider(&blocks[11]).unwrap();
    assert_eq!((world.chain().tip(), world.mempool().len()), (blocks[11], 0));
}

#[test]
fn a_returned_chain_is_cut_at_the_ancestor_limit() {
    let (mut world, coins) = world();
    let transactions = line(&coins[0], 40);
    let (mined, waiting) = transactions.split_at(20);
    let block = world.mine_exactly(mined.to_vec(), Mining::default()).unwrap();
    take_all(&mut world, waiting);
    world.invalidate(&block.block_hash()).unwrap();
    assert_eq!(mempool_txids(&world), set(ids(&transactions[..25])));
    let first = world.mempool().get(&transactions[0].compute_txid()).unwrap();
    assert_eq!(first.descendants.count, 25);
}
