//! The simulated world against a real node: equal transactions and blocks get equal verdicts and lead to equal
//! mempools.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Block, OutPoint, Transaction, Txid, Weight};
use btcgraph::chain::Height;
use btcgraph::sim::{
    Accepted, Life, LifeAction, Mining, NumberedEvent, Owner, Payment, Profile, Rejection, ScriptKind, SimChain,
    SimMempoolEntry, Spendable, World, WorldEvent,
};
use serde_json::{Value, json};

use crate::support::bitcoind::RealNode;

/// The policy of [`World::new`]; a node of another version may have other defaults.
const POLICY: [&str; 3] = ["-minrelaytxfee=0.00001", "-incrementalrelayfee=0.00001", "-blockmintxfee=0"];

/// A simulated world and a real node that get the same transactions and blocks.
struct Pair {
    world: World,
    node: RealNode,
    /// The real node's clock, which moves at each comparison: a node keeps a block template for some seconds.
    clock: Cell<u64>,
}

impl Pair {
    /// Both at 120 blocks, with the coins of the first twenty blocks, which are mature. `None` without a real node.
    #[track_caller]
    fn start() -> Option<(Pair, Vec<Spendable>)> {
        let node = RealNode::start(&POLICY)?;
        // set before there are transactions, which a node drops after two weeks
        let clock = 1_800_000_000;
        node.must("setmocktime", &[json!(clock)]);
        let mut chain = SimChain::new(1);
        let blocks = chain.mine_empty(120).unwrap();
        let coins = blocks.iter().take(20).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
        let coins = coins.collect();
        for block in &blocks {
            submit_block(&node, block);
        }
        Some((Pair { world: World::new(chain), node, clock: Cell::new(clock) }, coins))
    }

    /// Submits to both and compares verdict, code and message.
    #[track_caller]
    fn submit(&mut self, tx: &Transaction) -> Result<Accepted, Rejection> {
        let raw = serialize_hex(tx);
        let tested = self.node.must("testmempoolaccept", &[json!([raw]), json!(0)]);
        let assessed = self.world.check(tx);
        let expected = match &assessed {
            Ok(assessed) => json!([true, assessed.vsize, assessed.fee.to_btc()]),
            Err(Rejection::MissingInputs(_)) => json!([false, "missing-inputs"]),
            Err(rejection) => json!([false, rejection.reason()]),
        };
        let theirs = if tested[0]["allowed"] == json!(true) {
            json!([true, tested[0]["vsize"], tested[0]["fees"]["base"]])
        } else {
            json!([false, tested[0]["reject-reason"]])
        };
        assert_eq!(theirs, expected, "{tested}");

        let verdict = self.world.submit(tx.clone());
        match (self.node.call("sendrawtransaction", &[json!(raw), json!(0)]), &verdict) {
            (Ok(txid), Ok(accepted)) => assert_eq!(txid, json!(accepted.txid.to_string())),
            // a node accepts a repeated submission
            (Ok(txid), Err(Rejection::AlreadyInMempool)) => assert_eq!(txid, json!(tx.compute_txid().to_string())),
            (Err(error), Err(Rejection::AlreadyInChain)) => assert_eq!(error.code, Some(-27)),
            (Err(error), Err(rejection)) => {
                assert_eq!((error.code, error.message), (Some(rejection.code()), rejection.to_string()));
            }
            (answer, verdict) => panic!("the node answers {answer:?}, the world {verdict:?}"),
        }
        verdict
    }

    #[track_caller]
    fn must_accept(&mut self, transactions: &[Transaction]) {
        for tx in transactions {
            self.submit(tx).unwrap();
        }
        self.compare();
    }

    /// Submits blocks of the world to the node.
    #[track_caller]
    fn submit_blocks(&mut self, blocks: &[Arc<Block>]) {
        for block in blocks {
            submit_block(&self.node, block);
        }
        self.compare();
    }

    /// Compares the tips, the mempool, and the transactions of the next block.
    #[track_caller]
    fn compare(&self) {
        let (world, node) = (&self.world, &self.node);
        assert_eq!(node.must("getbestblockhash", &[]), json!(world.chain().tip().to_string()));
        let tip =
            |tip: &Value| (tip["height"].clone(), tip["hash"].clone(), tip["branchlen"].clone(), tip["status"].clone());
        let mut theirs: Vec<_> = node.must("getchaintips", &[]).as_array().unwrap().iter().map(tip).collect();
        let ours = world.chain().tips().into_iter().map(|tip| {
            let hash = tip.hash.to_string();
            (json!(tip.height.to_u32()), json!(hash), json!(tip.branch_length), json!(tip.status.as_str()))
        });
        let mut ours: Vec<_> = ours.collect();
        theirs.sort_by_key(|tip| tip.1.to_string());
        ours.sort_by_key(|tip| tip.1.to_string());
        assert_eq!(ours, theirs);

        let theirs = node.must("getrawmempool", &[json!(true)]);
        let theirs = theirs.as_object().unwrap().iter().map(|(txid, entry)| (txid.clone(), figures_of_node(entry)));
        let mut theirs: BTreeMap<String, Value> = theirs.collect();
        let ours = world.mempool().entries().map(|entry| (entry.txid.to_string(), figures(entry)));
        let mut ours: BTreeMap<String, Value> = ours.collect();
        let same: Vec<String> = ours.keys().filter(|txid| ours.get(*txid) == theirs.get(*txid)).cloned().collect();
        for txid in same {
            ours.remove(&txid);
            theirs.remove(&txid);
        }
        assert_eq!(ours, theirs, "what differs");

        self.clock.set(self.clock.get() + 60);
        node.must("setmocktime", &[json!(self.clock.get())]);
        let template = node.must("getblocktemplate", &[json!({"rules": ["segwit"]})]);
        let theirs: Vec<&str> =
            template["transactions"].as_array().unwrap().iter().map(|tx| tx["txid"].as_str().unwrap()).collect();
        let ours: Vec<String> =
            world.mempool().select(Weight::from_wu(3_992_000)).iter().map(Txid::to_string).collect();
        assert_eq!(ours, theirs);
    }
}

#[track_caller]
fn submit_block(node: &RealNode, block: &Block) {
    let verdict = node.must("submitblock", &[json!(serialize_hex(block))]);
    assert!(verdict.is_null() || verdict == "inconclusive", "{verdict}");
}

fn figures(entry: &SimMempoolEntry) -> Value {
    let txids = |txids: &std::collections::BTreeSet<Txid>| {
        let mut txids: Vec<String> = txids.iter().map(Txid::to_string).collect();
        txids.sort_unstable();
        txids
    };
    json!([
        entry.wtxid.to_string(),
        [entry.vsize, entry.weight.to_wu()],
        [entry.fee.to_btc(), entry.ancestors.fee.to_btc(), entry.descendants.fee.to_btc()],
        [entry.ancestors.count, entry.ancestors.vsize, entry.descendants.count, entry.descendants.vsize],
        txids(&entry.parents),
        txids(&entry.children),
    ])
}

fn figures_of_node(entry: &Value) -> Value {
    let sorted = |txids: &Value| {
        let mut txids: Vec<&str> = txids.as_array().unwrap().iter().map(|txid| txid.as_str().unwrap()).collect();
        txids.sort_unstable();
        json!(txids)
    };
    let fees = &entry["fees"];
    json!([
        entry["wtxid"],
        [entry["vsize"], entry["weight"]],
        [fees["base"], fees["ancestor"], fees["descendant"]],
        [entry["ancestorcount"], entry["ancestorsize"], entry["descendantcount"], entry["descendantsize"]],
        sorted(&entry["depends"]),
        sorted(&entry["spentby"]),
    ])
}

fn owner(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wsh, n)
}

fn pass_on(coin: &Spendable, sat_per_vb: u64, n: u32) -> Transaction {
    Payment::of([coin.clone()]).change(owner(n), sat_per_vb).sign().unwrap()
}

fn split(coin: &Spendable, count: u32, n: u32) -> Transaction {
    let each = coin.output.value / u64::from(count) - Amount::from_sat(500);
    (0..count).fold(Payment::of([coin.clone()]), |payment, _| payment.to(owner(n), each)).sign().unwrap()
}

fn coin_of(tx: &Transaction, vout: u32, n: u32) -> Spendable {
    Spendable::of(tx, vout, owner(n)).unwrap()
}

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

#[test]
fn both_nodes_refuse_the_same_transactions_in_the_same_words() {
    let Some((mut pair, coins)) = Pair::start() else { return };
    let young = pair.world.chain().hash_at(Height::from(23)).unwrap();
    let young = Spendable::of(&pair.world.chain().block(&young).unwrap().txdata[0], 0, SimChain::miner()).unwrap();
    let wide = split(&coins[0], 30, 1);
    let children: Vec<Transaction> = (1..27).map(|vout| pass_on(&coin_of(&wide, vout, 1), 2, 2)).collect();
    let long = line(&coins[1], 26);
    let single = pass_on(&coins[3], 10, 3);
    pair.must_accept(&[wide.clone(), single.clone()]);
    pair.must_accept(&children[..24]);
    pair.must_accept(&long[..25]);
    let mined = pass_on(&coins[2], 2, 1);
    let block = pair.world.mine_exactly(vec![mined.clone()], Mining::default()).unwrap();
    pair.submit_blocks(&[block]);

    let height = pair.world.chain().height().to_u32();
    let median = pair.world.chain().median_time_past(&pair.world.chain().tip()).unwrap();
    let value = coins[4].output.value;
    let coin = || Payment::of([coins[4].clone()]);
    let fee = |fee: u64| coin().to(owner(1), value - Amount::from_sat(fee));
    let missing = Spendable { outpoint: OutPoint { vout: 9, ..coins[4].outpoint }, ..coins[4].clone() };
    let both = [coins[0].clone(), coin_of(&wide, 29, 1)];
    let adding = [coins[3].clone(), coin_of(&long[3], 0, 3)];
    let adding_other = [coins[3].clone(), coin_of(&children[24 - 1], 0, 2)];
    for payment in [
        fee(0),
        fee(50),
        fee(900).lock_time(height + 1),
        fee(900).lock_time(median),
        fee(900).sequence(height),
        fee(900).sequence(1 << 22 | 0xffff),
        Payment::of([missing]).change(owner(1), 2),
        Payment::of([young]).change(owner(1), 2),
        coin().to(owner(1), value + Amount::ONE_SAT),
        Payment::of(both).change(owner(1), 5_000),
        Payment::of(adding).change(owner(1), 5_000),
        Payment::of(adding_other).change(owner(1), 5_000),
        Payment::of([coin_of(&long[24], 0, 24)]).change(owner(1), 2),
        Payment::of([coin_of(&children[3], 0, 2)]).change(owner(1), 2),
        Payment::of([coins[3].clone()]).change(owner(4), 9),
        Payment::of([coins[3].clone()]).change(owner(4), 10),
        Payment::of([coins[0].clone()]).change(owner(4), 30),
        Payment::of([coins[3].clone()])
            .to(owner(4), value - Amount::from_sat(1_700))
            .to(owner(5), Amount::from_sat(600)),
        Payment::of([coins[4].clone(), coins[4].clone()]).change(owner(1), 2),
        coin().to(owner(1), Amount::MAX_MONEY + Amount::ONE_SAT),
        coin().to(owner(1), Amount::MAX_MONEY).to(owner(1), Amount::MAX_MONEY),
        coin(),
    ] {
        let tx = payment.sign().unwrap();
        assert!(pair.submit(&tx).is_err(), "{tx:?}");
    }
    for tx in [&single, &mined, &wide] {
        assert!(pair.submit(tx).is_err());
    }
    pair.compare();
    // The carve-out allows one small child above the limit, and no second one.
    pair.must_accept(&children[24..25]);
    assert!(pair.submit(&children[25]).is_err());
}

#[test]
fn both_nodes_replace_the_same_transactions_at_the_same_fees() {
    let Some((mut pair, coins)) = Pair::start() else { return };
    let first = split(&coins[0], 2, 1);
    let children = [pass_on(&coin_of(&first, 0, 1), 5, 2), pass_on(&coin_of(&first, 1, 1), 5, 3)];
    pair.must_accept(&[first, children[0].clone(), children[1].clone(), pass_on(&coins[1], 3, 1)]);
    let fees: u64 = pair.world.mempool().entries().map(|entry| entry.fee.to_sat()).sum();
    let both = || [coins[0].clone(), coins[1].clone()];
    let sum: Amount = both().iter().map(|coin| coin.output.value).sum();
    let paying = |fee: u64| Payment::of(both()).to(owner(9), sum - Amount::from_sat(fee)).sign().unwrap();
    let vsize = u64::try_from(paying(0).vsize()).unwrap();
    for too_little in [fees / 2, fees - 1, fees, fees + vsize - 1] {
        pair.submit(&paying(too_little)).unwrap_err();
    }
    pair.must_accept(&[paying(fees + vsize)]);

    // In a chain at its limit the last transaction can be replaced, and so can a child of a parent at its limit.
    let long = line(&coins[2], 25);
    let wide = split(&coins[3], 30, 1);
    let many: Vec<Transaction> = (0..25).map(|vout| pass_on(&coin_of(&wide, vout, 1), 2, 2)).collect();
    pair.must_accept(&long);
    pair.must_accept(&[wide]);
    pair.must_accept(&many);
    pair.must_accept(&[pass_on(&coin_of(&long[23], 0, 23), 9, 3), pass_on(&first_coin(&many[4], &pair), 9, 3)]);
    pair.must_accept(&[pass_on(&coins[2], 90, 3)]);
}

/// The coin that the first input of a transaction of the mempool spends.
fn first_coin(tx: &Transaction, pair: &Pair) -> Spendable {
    let outpoint = tx.input[0].previous_output;
    let output = pair.world.mempool().output(&outpoint).unwrap().clone();
    Spendable { outpoint, output, owner: owner(1) }
}

#[test]
fn both_mempools_are_equal_after_reorgs_and_invalidations() {
    let Some((mut pair, coins)) = Pair::start() else { return };
    let returns = split(&coins[0], 3, 1);
    let again = pass_on(&coins[1], 7, 2);
    let dies = pass_on(&coins[2], 2, 3);
    pair.must_accept(&[returns.clone(), again.clone(), dies.clone()]);
    let block = pair.world.mine(Mining::default()).unwrap();
    pair.submit_blocks(&[block]);
    let on_returns = pass_on(&coin_of(&returns, 0, 1), 30, 4);
    let on_dies = pass_on(&coin_of(&dies, 0, 3), 4, 5);
    let at_maturity = pair.world.chain().hash_at(Height::from(22)).unwrap();
    let young = &pair.world.chain().block(&at_maturity).unwrap().txdata[0];
    let young = pass_on(&Spendable::of(young, 0, SimChain::miner()).unwrap(), 3, 6);
    let locked = Payment::of([coins[3].clone()]).change(owner(7), 2).lock_time(121).sign().unwrap();
    pair.must_accept(&[on_returns.clone(), pass_on(&coin_of(&again, 0, 2), 12, 4), on_dies, young, locked]);

    let branch = vec![vec![pass_on(&coins[2], 50, 9)], vec![again]];
    let blocks = pair.world.reorg(1, 2, branch, &Mining::default()).unwrap();
    pair.submit_blocks(&blocks);
    assert!(pair.world.mempool().contains(&returns.compute_txid()));
    compare_heights(&pair);

    let tip = pair.world.chain().tip();
    for hash in [tip, pair.world.chain().ancestor(&tip, 1).unwrap()] {
        pair.world.invalidate(&hash).unwrap();
        pair.node.must("invalidateblock", &[json!(hash.to_string())]);
        pair.compare();
    }
    pair.world.reconsider(&tip).unwrap();
    pair.node.must("reconsiderblock", &[json!(tip.to_string())]);
    pair.compare();

    // Twelve blocks with a chain of transactions, more than an invalidation returns.
    let long = line(&coins[5], 12);
    let apart = pass_on(&coins[6], 2, 1);
    let mut made = Vec::new();
    for (index, tx) in long.into_iter().enumerate() {
        let with = if index == 11 { vec![tx, apart.clone()] } else { vec![tx] };
        let block = pair.world.mine_exactly(with, Mining::default()).unwrap();
        pair.submit_blocks(&[Arc::clone(&block)]);
        made.push(block.block_hash());
    }
    for index in [2, 1] {
        pair.world.invalidate(&made[index]).unwrap();
        pair.node.must("invalidateblock", &[json!(made[index].to_string())]);
        pair.compare();
        compare_heights(&pair);
        pair.world.reconsider(&made[11]).unwrap();
        pair.node.must("reconsiderblock", &[json!(made[11].to_string())]);
        pair.compare();
    }

    // A chain that returns and makes its descendants exceed the limit.
    let long = line(&coins[7], 40);
    let block = pair.world.mine_exactly(long[..20].to_vec(), Mining::default()).unwrap();
    let hash = block.block_hash();
    pair.submit_blocks(&[block]);
    pair.must_accept(&long[20..]);
    pair.world.invalidate(&hash).unwrap();
    pair.node.must("invalidateblock", &[json!(hash.to_string())]);
    pair.compare();
}

#[test]
fn both_nodes_accept_a_free_parent_with_a_child_that_pays() {
    let Some((mut pair, coins)) = Pair::start() else { return };
    // Before cluster mempool a node does so for version 3 alone.
    let parent = Payment::of([coins[0].clone()]).change(owner(1), 0).version(3).sign().unwrap();
    let child = |rate| Payment::of([coin_of(&parent, 0, 1)]).change(owner(2), rate).version(3).sign().unwrap();
    for (child, enough) in [(child(1), false), (child(20), true)] {
        let package = json!([serialize_hex(&parent), serialize_hex(&child)]);
        let theirs = pair.node.must("submitpackage", &[package]);
        let verdicts = pair.world.submit_package(vec![parent.clone(), child]).unwrap();
        assert_eq!(theirs["package_msg"] == "success", enough, "{theirs}");
        assert!(verdicts.iter().all(|verdict| verdict.is_ok() == enough), "{verdicts:?}");
        pair.compare();
    }
}

/// Compares the heights at which transactions entered the mempool.
#[track_caller]
fn compare_heights(pair: &Pair) {
    let theirs = pair.node.must("getrawmempool", &[json!(true)]);
    let theirs = theirs.as_object().unwrap().iter().map(|(txid, entry)| (txid.clone(), entry["height"].clone()));
    let entries = pair.world.mempool().entries();
    let ours = entries.map(|entry| (entry.txid.to_string(), json!(entry.height.to_u32())));
    assert_eq!(ours.collect::<BTreeMap<_, _>>(), theirs.collect());
}

/// Submits all blocks that joined the active chain to a node, in that order.
fn submit_connected(node: &RealNode, world: &World, events: &[NumberedEvent]) {
    for numbered in events {
        if let WorldEvent::BlockConnected { hash, .. } = numbered.event {
            submit_block(node, world.chain().block(&hash).unwrap());
        }
    }
}

/// Sends a transaction of the world's mempool to the node, and returns it; evicts it if the node refuses it for a policy of
/// its own.
fn announce(pair: &mut Pair, txid: Txid) -> Option<(Txid, Transaction)> {
    let tx = (*pair.world.mempool().get(&txid).unwrap().tx).clone();
    match pair.node.call("sendrawtransaction", &[json!(serialize_hex(&tx)), json!(0)]) {
        Ok(_) => Some((txid, tx)),
        // a policy of Bitcoin Knots against scripts of more than 34 bytes, like those of bare keys
        Err(error) if error.message == "bad-txns-vout-script-toolarge" => {
            pair.world.evict(&txid);
            None
        }
        Err(error) => panic!("{error:?}: {tx:?}"),
    }
}

#[test]
fn a_node_equals_a_demo_after_every_transaction_and_block() {
    const NOW: u32 = 1_800_000_000;
    let Some(node) = RealNode::start(&POLICY) else { return };
    node.must("setmocktime", &[json!(NOW)]);
    let (mut life, world) = Life::start(Profile::Demo, 7, NOW).unwrap();
    let history: Vec<NumberedEvent> = world.events_since(0).unwrap().copied().collect();
    submit_connected(&node, &world, &history);
    let mut pair = Pair { world, node, clock: Cell::new(NOW.into()) };
    let mut waiting: Vec<_> = pair.world.mempool().entries().map(|entry| (entry.arrival, entry.txid)).collect();
    waiting.sort_unstable();
    assert!(!waiting.is_empty());
    let mut seen: HashMap<Txid, Transaction> = HashMap::new();
    for (_, txid) in waiting {
        // a descendant of one that was evicted below is gone
        if pair.world.mempool().contains(&txid) {
            seen.extend(announce(&mut pair, txid));
        }
    }
    pair.compare();

    let (mut blocks, mut reorgs) = (0, 0);
    let mut passed = Duration::ZERO;
    while blocks < 60 {
        pair.world.set_time(NOW + u32::try_from(passed.as_secs()).unwrap());
        let step = life.next(&mut pair.world).unwrap();
        passed += step.wait;
        for numbered in &step.events {
            if let WorldEvent::Arrived { txid } = numbered.event {
                seen.extend(announce(&mut pair, txid));
            }
        }
        submit_connected(&pair.node, &pair.world, &step.events);
        match &step.action {
            // The node has no method to evict them, so the world gets them again.
            LifeAction::Removed(txids) => {
                for txid in txids {
                    drop(pair.world.submit(seen[txid].clone()).unwrap());
                }
            }
            LifeAction::Mined(_) => blocks += 1,
            LifeAction::Branched { .. } => (blocks, reorgs) = (blocks + 2, reorgs + 1),
            _ => continue,
        }
        pair.compare();
    }
    assert!(reorgs > 1, "{reorgs} reorganisations");
}

#[test]
fn a_node_accepts_a_hostile_life_and_has_its_tip() {
    const NOW: u32 = 1_800_000_000;
    let Some(node) = RealNode::start(&POLICY) else { return };
    node.must("setmocktime", &[json!(NOW)]);
    let (mut life, mut world) = Life::start(Profile::Hostile, 3, NOW).unwrap();
    let history: Vec<NumberedEvent> = world.events_since(0).unwrap().copied().collect();
    submit_connected(&node, &world, &history);
    for second in 0..400 {
        world.set_time(NOW + second);
        let step = life.next(&mut world).unwrap();
        match step.action {
            LifeAction::Invalidated(hash) => drop(node.must("invalidateblock", &[json!(hash.to_string())])),
            LifeAction::Reconsidered(hash) => drop(node.must("reconsiderblock", &[json!(hash.to_string())])),
            _ => submit_connected(&node, &world, &step.events),
        }
        assert_eq!(node.must("getbestblockhash", &[]), json!(world.chain().tip().to_string()), "{:?}", step.action);
    }
    let info = node.must("gettxoutsetinfo", &[json!("none")]);
    assert_eq!(info["txouts"], json!(world.chain().unspent().len()));
}
