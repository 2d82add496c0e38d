//! After any operations, chain and mempool equal those recomputed from blocks and transactions alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::super::super::{PackageSums, Rng};
use super::*;

/// Few owners, so that the owner of any coin can be looked up.
const OWNERS: u32 = 4;

/// Random operations on a world.
struct Player {
    world: World,
    rng: Rng,
    owners: HashMap<bitcoin::ScriptBuf, Owner>,
    invalidated: Vec<BlockHash>,
    /// The transactions made so far, which may be submitted again.
    made: Vec<Transaction>,
    /// The mempool that follows from the events.
    from_events: BTreeSet<Txid>,
    events_read: u64,
}

impl Player {
    fn new(seed: u64) -> Self {
        let owners = (0..OWNERS).map(someone).chain([SimChain::miner()]);
        Player {
            world: world().0,
            rng: Rng::new(seed),
            owners: owners.map(|owner| (owner.script_pubkey(), owner)).collect(),
            invalidated: Vec::new(),
            made: Vec::new(),
            from_events: BTreeSet::new(),
            events_read: 0,
        }
    }

    fn owned(&self, outpoint: OutPoint, output: &bitcoin::TxOut) -> Option<Spendable> {
        let owner = *self.owners.get(&output.script_pubkey)?;
        Some(Spendable { outpoint, output: output.clone(), owner })
    }

    /// A coin of the chain, mature or not, or an output of the mempool, spent or not.
    fn any_coin(&mut self) -> Option<Spendable> {
        let mempool: Vec<&SimMempoolEntry> = self.world.mempool().entries().collect();
        if self.rng.chance(40)
            && let Some(entry) = self.rng.choose(&mempool)
        {
            let vout = self.rng.index(entry.tx.output.len());
            let outpoint = OutPoint { txid: entry.txid, vout: u32::try_from(vout).unwrap() };
            return self.owned(outpoint, &entry.tx.output[vout].clone());
        }
        let next = self.world.chain().height().next();
        let young = self.rng.chance(3);
        let coins = self.world.chain().unspent().iter();
        let mut coins: Vec<_> = coins.filter(|(_, coin)| young || coin.is_mature_at(next)).collect();
        coins.sort_unstable_by_key(|(outpoint, _)| **outpoint);
        let (outpoint, coin) = *self.rng.choose(&coins)?;
        let (outpoint, output) = (*outpoint, coin.output.clone());
        self.owned(outpoint, &output)
    }

    /// A payment of some coins to some owners, at a feerate of up to `most`.
    fn payment(&mut self, most: u64) -> Option<Transaction> {
        let coins: Vec<Spendable> = (0..self.rng.between(1, 3)).filter_map(|_| self.any_coin()).collect();
        let first = coins.first()?.clone();
        let mut payment = Payment::of(coins);
        for _ in 0..self.rng.below(4) {
            let owner = someone(u32::try_from(self.rng.below(u64::from(OWNERS))).unwrap());
            payment = payment.to(owner, first.output.value / self.rng.between(4, 20));
        }
        if self.rng.chance(10) {
            payment = payment.lock_time(self.world.chain().height().to_u32());
        }
        if self.rng.chance(10) {
            payment = payment.sequence(u32::try_from(self.rng.below(3)).unwrap());
        }
        let tx = payment.change(someone(0), self.rng.below(most + 1)).sign().unwrap();
        self.made.push(tx.clone());
        Some(tx)
    }

    fn some_block(&mut self, deepest: u64) -> BlockHash {
        let depth = u32::try_from(self.rng.below(deepest)).unwrap();
        self.world.chain().ancestor(&self.world.chain().tip(), depth).unwrap()
    }

    fn play(&mut self) {
        match self.rng.below(20) {
            0..10 => {
                let tx = if self.rng.chance(10) { self.rng.choose(&self.made).cloned() } else { self.payment(40) };
                // most are refused for some reason, which is fine
                tx.map(|tx| self.world.submit(tx).ok());
            }
            10 => {
                let Some(parent) = self.payment(0) else { return };
                let Some(coin) = self.owned(OutPoint::new(parent.compute_txid(), 0), &parent.output[0]) else { return };
                let child = pass_on(&coin, 50, 1);
                drop(self.world.submit_package(vec![parent, child]));
            }
            11 => {
                let entries: Vec<Txid> = mempool_txids(&self.world).into_iter().collect();
                self.rng.choose(&entries).map(|txid| self.world.evict(txid));
            }
            12 if self.rng.chance(20) => drop(self.world.expire(u32::MAX)),
            12..15 => {
                let max_weight = Some(Weight::from_wu(self.rng.below(8_000)));
                self.world.mine(Mining { max_weight, ..Mining::default() }).unwrap();
            }
            15 => {
                // A block of a transaction that was never in the mempool.
                let Some(tx) = self.payment(5) else { return };
                drop(self.world.mine_exactly(vec![tx], Mining::default()));
            }
            16 | 17 => {
                let depth = u32::try_from(self.rng.between(1, 6)).unwrap();
                let fork = self.world.chain().ancestor(&self.world.chain().tip(), depth).unwrap();
                let height = self.world.chain().height_of(&fork).unwrap().to_u32();
                let mut branch = Vec::new();
                for above in 1..=depth {
                    let hash = self.world.chain().hash_at(Height::from(height + above)).unwrap();
                    let block = self.world.chain().block(&hash).unwrap();
                    branch.push(block.txdata[1..].to_vec());
                }
                match self.rng.below(3) {
                    0 => branch.clear(),
                    1 => branch.truncate(self.rng.index(branch.len())),
                    _ => {}
                }
                drop(self.world.reorg(depth, depth + 1, branch, &Mining::default()));
            }
            18 => {
                let hash = self.some_block(13);
                self.world.invalidate(&hash).unwrap();
                self.invalidated.push(hash);
            }
            _ => drop(self.invalidated.pop().map(|hash| self.world.reconsider(&hash).unwrap())),
        }
    }

    fn listen(&mut self) {
        for numbered in self.world.events_since(self.events_read).unwrap() {
            match numbered.event {
                WorldEvent::Arrived { txid } | WorldEvent::Returned { txid } => assert!(self.from_events.insert(txid)),
                WorldEvent::Replaced { txid, .. }
                | WorldEvent::Evicted { txid }
                | WorldEvent::Expired { txid }
                | WorldEvent::Mined { txid, .. }
                | WorldEvent::Conflicted { txid, .. }
                | WorldEvent::Invalidated { txid } => assert!(self.from_events.remove(&txid)),
                WorldEvent::BlockConnected { .. } | WorldEvent::BlockDisconnected { .. } => {}
            }
        }
        self.events_read = self.world.event_count();
    }

    fn check(&mut self) {
        self.listen();
        let (chain, mempool) = (self.world.chain(), self.world.mempool());
        assert_eq!(mempool_txids(&self.world), self.from_events);
        let confirmed: HashSet<Txid> =
            chain.active_blocks().flat_map(|block| block.txdata.iter().map(Transaction::compute_txid)).collect();
        let by_id: BTreeMap<Txid, &SimMempoolEntry> = mempool.entries().map(|entry| (entry.txid, entry)).collect();
        let mut spent = HashSet::new();
        let mut parents: BTreeMap<Txid, BTreeSet<Txid>> = BTreeMap::new();
        for entry in by_id.values() {
            assert!(!confirmed.contains(&entry.txid));
            assert_eq!((entry.txid, entry.weight), (entry.tx.compute_txid(), entry.tx.weight()));
            let mut value = Amount::ZERO;
            let of_entry = parents.entry(entry.txid).or_default();
            for outpoint in entry.spends() {
                assert!(spent.insert(outpoint), "{outpoint} is spent twice");
                assert_eq!(mempool.spender(&outpoint).unwrap().txid, entry.txid);
                value += match by_id.get(&outpoint.txid) {
                    Some(parent) => {
                        of_entry.insert(parent.txid);
                        parent.tx.output[usize::try_from(outpoint.vout).unwrap()].value
                    }
                    None => chain.coin(&outpoint).expect("unspent in the chain").output.value,
                };
            }
            assert_eq!(entry.fee, value - entry.tx.output.iter().map(|output| output.value).sum::<Amount>());
            assert_eq!(&entry.parents, of_entry);
        }
        for entry in by_id.values() {
            let children = parents.iter().filter(|(_, parents)| parents.contains(&entry.txid)).map(|(txid, _)| *txid);
            assert_eq!(entry.children, children.collect());
            assert_eq!(entry.ancestors, sums(&by_id, |other| is_above(&parents, &entry.txid, &other.txid)));
            assert_eq!(entry.descendants, sums(&by_id, |other| is_above(&parents, &other.txid, &entry.txid)));
            assert!(entry.ancestors.count <= 25);
        }
        let all = sums(&by_id, |_| true);
        assert_eq!((mempool.len(), mempool.vsize(), mempool.fees()), (by_id.len(), all.vsize, all.fee));
        self.check_selection();
    }

    /// The selection for a block contains all ancestors of its transactions, in order, and consensus accepts it.
    fn check_selection(&self) {
        let mempool = self.world.mempool();
        let all = mempool.select(Weight::MAX_BLOCK);
        assert_eq!(set(all.iter().copied()), mempool_txids(&self.world));
        let mut before = HashSet::new();
        for txid in &all {
            assert!(mempool.get(txid).unwrap().parents.is_subset(&before.iter().copied().collect()));
            assert!(before.insert(*txid));
        }
        let weight = Weight::from_wu(3_000);
        let some = mempool.select(weight).iter().map(|txid| mempool.get(txid).unwrap().weight).sum::<Weight>();
        assert!(some <= weight);
        self.world.clone().mine(Mining::default()).unwrap();
    }
}

/// Whether `txid` is `above` or a descendant of it.
fn is_above(parents: &BTreeMap<Txid, BTreeSet<Txid>>, txid: &Txid, above: &Txid) -> bool {
    txid == above || parents[txid].iter().any(|parent| is_above(parents, parent, above))
}

fn sums(entries: &BTreeMap<Txid, &SimMempoolEntry>, counted: impl Fn(&SimMempoolEntry) -> bool) -> PackageSums {
    let counted: Vec<&&SimMempoolEntry> = entries.values().filter(|entry| counted(entry)).collect();
    PackageSums {
        count: u64::try_from(counted.len()).unwrap(),
        vsize: counted.iter().map(|entry| entry.vsize).sum(),
        fee: counted.iter().map(|entry| entry.fee).sum(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn chain_and_mempool_agree_after_any_operations(seed in any::<u64>()) {
        let mut player = Player::new(seed);
        for _ in 0..80 {
            player.play();
            player.check();
        }
    }
}

#[test]
fn the_operations_cause_every_kind_of_event() {
    let mut found = HashSet::new();
    let mut most = 0;
    for seed in 0..30 {
        let mut player = Player::new(seed);
        for _ in 0..80 {
            player.play();
            most = most.max(player.world.mempool().len());
        }
        found.extend(since(&player.world, 0).iter().map(std::mem::discriminant));
    }
    assert_eq!(found.len(), 10);
    assert!(most > 15, "{most}");
}
