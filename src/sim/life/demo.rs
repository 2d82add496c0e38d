//! A small chain for demonstrations: people who pay each other, and several miners.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::{Amount, Transaction, TxOut, Txid, Weight};
use serde_json::json;

use super::super::{ChainError, Mining, Owner, Payment, Reward, Rng, ScriptKind, SimChain, World};
use super::action::LifeAction;
use super::wallet::{Wallet, any_entry};

/// The history: first blocks without transactions, until their coinbases are mature and there are coins to spend.
const FIRST_BLOCKS: u32 = 101;
/// Seconds between two of these blocks.
const FIRST_SPACING: u32 = 2_700;
/// After them the chain lives once a day for some minutes, at the pace of today: so figures of a block go on where they were
/// when the life begins, and those of a day grow slowly. Payments become more from day to day.
const PAST_DAYS: u32 = 7;
const SECONDS_A_DAY: u32 = 86_400;
/// Seconds of life on the first of these days, and how many more there are on each later one.
const PAST_LIFE: (u32, u32) = (380, 80);
/// Seconds of life just before now: more than 144 blocks.
const RECENT_LIFE: u32 = 1_560;
/// The reorganisation of the history is so many seconds ago.
const PAST_REORG: u32 = 300;
/// The number of people at the beginning.
const PEOPLE: u32 = 300;
/// The number of outputs to a new address among 100.
const FRESH_ADDRESSES: u64 = 30;
/// Milliseconds from a transaction to the next, and from a block to the next.
const BETWEEN_TRANSACTIONS: (u64, u64) = (200, 460);
const BETWEEN_BLOCKS: (u64, u64) = (7_000, 13_000);
/// Blocks from one that is replaced by a branch to the next such block, and from the beginning of the life to the first:
/// a visitor need not wait for it.
const BETWEEN_REORGS: (u64, u64) = (6, 18);
const FIRST_REORG: u64 = 2;
/// The most weight of a block's transactions: somewhat less than what arrives in ten seconds, so that those of low fees
/// wait. No more than this backlog does: a block takes what is above it.
const BLOCK_WEIGHT: (u64, u64) = (17_000, 23_000);
const BACKLOG: u64 = 90_000;
/// The least value of a coin to spend, in satoshis.
const LEAST_COIN: u64 = 60_000;
/// The least value of an output, in satoshis.
const LEAST_OUTPUT: u64 = 5_000;

/// The miners: their number of blocks among 100, the text of their coinbases, and the type of their address.
const MINERS: [(u64, &str, ScriptKind); 6] = [
    (31, "/Copper Kettle Pool/", ScriptKind::P2wpkh),
    (24, "/North Wind Mining/", ScriptKind::P2shP2wpkh),
    (18, "/Seven Hills/", ScriptKind::P2trKey),
    (14, "Glasshouse #2", ScriptKind::P2pkh),
    (9, "/tin can collective/", ScriptKind::P2wsh),
    (4, "hello from a garden shed", ScriptKind::P2pk),
];

/// The mining pools of the demo in the format pools-v2: the miners that write a name between slashes. Others mine for
/// themselves.
#[must_use]
pub fn demo_pools() -> String {
    let pools = MINERS.iter().enumerate().filter_map(|(index, (_, tag, _))| {
        let name = tag.strip_prefix('/')?.strip_suffix('/')?;
        Some(json!({ "id": index + 1, "name": name, "addresses": [], "tags": [tag], "link": "" }))
    });
    serde_json::Value::Array(pools.collect()).to_string()
}

/// The usual weight of the transactions of a block of the demo, in weight units.
#[must_use]
pub fn demo_block_weight() -> u32 {
    u32::try_from(u64::midpoint(BLOCK_WEIGHT.0, BLOCK_WEIGHT.1)).unwrap_or(u32::MAX)
}

/// The number of addresses of each type among 100.
const KINDS: [(u64, ScriptKind); 13] = [
    (36, ScriptKind::P2wpkh),
    (15, ScriptKind::P2trKey),
    (12, ScriptKind::P2pkh),
    (9, ScriptKind::P2shP2wpkh),
    (8, ScriptKind::P2wsh),
    (6, ScriptKind::P2sh),
    (4, ScriptKind::P2shP2wsh),
    (4, ScriptKind::P2trScript),
    (2, ScriptKind::P2pk),
    (1, ScriptKind::P2pkUncompressed),
    (1, ScriptKind::Multisig),
    (1, ScriptKind::P2a),
    (1, ScriptKind::P2trKey),
];
/// The texts of OP_RETURN outputs.
const NOTES: [&str; 6] = [
    "a simulated chain",
    "chancellor on brink of third coffee",
    "receipt 2024-117",
    "happy birthday, Ada",
    "timestamp of a poem",
    "\u{1f33b} to whom it may concern",
];

#[derive(Clone, Debug)]
pub(super) struct Demo {
    rng: Rng,
    wallet: Wallet,
    /// The number of addresses used so far; an owner is a function of the number of the address.
    addresses: u32,
    /// Milliseconds to the next transaction and to the next block.
    until_transaction: u64,
    until_block: u64,
    /// Blocks to the next one that is replaced; none in the history, but for one that it arranges itself.
    until_reorg: Option<u64>,
    /// Milliseconds between two transactions are this many times those of today, as a fraction.
    slowness: (u64, u64),
}

impl Demo {
    pub(super) fn start(seed: u64, now: u32) -> Result<(Self, World), ChainError> {
        let mut world = World::new(SimChain::new(seed));
        let mut rng = Rng::new(seed);
        let (until_transaction, until_block) =
            (between(&mut rng, BETWEEN_TRANSACTIONS), between(&mut rng, BETWEEN_BLOCKS));
        let wallet = Wallet::default();
        let mut demo =
            Demo { rng, wallet, addresses: 0, until_transaction, until_block, until_reorg: None, slowness: (1, 1) };
        for miner in 0..MINERS.len() {
            demo.wallet.learn(miner_of(miner));
        }
        for _ in 0..PEOPLE {
            demo.fresh_address();
        }
        demo.make_history(&mut world, now)?;
        demo.until_reorg = Some(FIRST_REORG);
        Ok((demo, world))
    }

    fn make_history(&mut self, world: &mut World, now: u32) -> Result<(), ChainError> {
        let days_ago = |days: u32| now.saturating_sub(days * SECONDS_A_DAY);
        for n in 0..FIRST_BLOCKS {
            world.set_time(days_ago(PAST_DAYS + 1).saturating_sub((FIRST_BLOCKS - n) * FIRST_SPACING));
            self.mine(world, None)?;
        }
        for day in 0..PAST_DAYS {
            self.slowness = (u64::from(PAST_DAYS + 1), u64::from(day + 1));
            self.live_until(world, days_ago(PAST_DAYS - day), PAST_LIFE.0 + PAST_LIFE.1 * day)?;
            // nothing waits for a day
            self.mine(world, None)?;
        }
        self.slowness = (1, 1);
        self.live_until(world, now.saturating_sub(PAST_REORG), RECENT_LIFE - PAST_REORG)?;
        self.reorganise(world)?;
        self.live_until(world, now, PAST_REORG)?;
        world.set_time(now);
        Ok(())
    }

    /// Lives for so many seconds, which end at `end`.
    fn live_until(&mut self, world: &mut World, end: u32, seconds: u32) -> Result<(), ChainError> {
        let mut passed = Duration::ZERO;
        while passed < Duration::from_secs(seconds.into()) {
            world.set_time(end.saturating_sub(seconds) + u32::try_from(passed.as_secs()).unwrap_or(seconds));
            let (_, wait) = self.next(world)?;
            passed += wait;
        }
        Ok(())
    }

    pub(super) fn next(&mut self, world: &mut World) -> Result<(LifeAction, Duration), ChainError> {
        let action = if self.until_block <= self.until_transaction {
            self.until_transaction -= self.until_block;
            self.until_block = between(&mut self.rng, BETWEEN_BLOCKS);
            self.until_reorg = self.until_reorg.map(|blocks| blocks.saturating_sub(1));
            if self.until_reorg == Some(0) {
                self.until_reorg = Some(between(&mut self.rng, BETWEEN_REORGS));
                self.reorganise(world)?
            } else {
                self.mine_live(world)?
            }
        } else {
            self.until_block -= self.until_transaction;
            let (times, of) = self.slowness;
            self.until_transaction = between(&mut self.rng, BETWEEN_TRANSACTIONS) * times / of;
            self.spend(world)?
        };
        Ok((action, Duration::from_millis(self.until_transaction.min(self.until_block))))
    }

    fn mine_live(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let weight = self.block_weight(world);
        self.mine(world, Some(weight))
    }

    /// The most weight of the transactions of the next block.
    fn block_weight(&mut self, world: &World) -> Weight {
        let above = world.mempool().weight().to_wu().saturating_sub(BACKLOG);
        Weight::from_wu(between(&mut self.rng, BLOCK_WEIGHT).max(above))
    }

    fn mine(&mut self, world: &mut World, max_weight: Option<Weight>) -> Result<LifeAction, ChainError> {
        let mining = Mining { max_weight, ..self.mining() };
        let block = world.mine(mining)?;
        block.coinbase().into_iter().for_each(|coinbase| self.wallet.add(coinbase));
        Ok(LifeAction::Mined(block.block_hash()))
    }

    /// Another miner finds a block of the same height with most of the same transactions, and the next block extends
    /// it with some of those that wait. The other transactions of the replaced block are unconfirmed again.
    fn reorganise(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let tip = world.chain().block(&world.chain().tip()).cloned();
        let mut transactions = tip.map_or_else(Vec::new, |block| block.txdata[1..].to_vec());
        let kept = transactions.len() - self.rng.index(transactions.len() / 2 + 1);
        let mut without: HashSet<Txid> = transactions.drain(kept..).map(|tx| tx.compute_txid()).collect();
        let waiting = world.mempool();
        let limit = self.block_weight(world);
        let mut next = Vec::new();
        for entry in waiting.select(limit).iter().filter_map(|txid| waiting.get(txid)) {
            if entry.spends().any(|outpoint| without.contains(&outpoint.txid)) {
                without.insert(entry.txid);
            } else {
                next.push((*entry.tx).clone());
            }
        }
        let mining = self.mining();
        world.reorg(1, 2, vec![transactions, next], &mining)?;
        self.wallet.recount(world);
        Ok(LifeAction::Branched { depth: 1, length: 2 })
    }

    fn mining(&mut self) -> Mining {
        let mut case = self.rng.below(100);
        let mut miner = 0;
        while case >= MINERS[miner].0 {
            case -= MINERS[miner].0;
            miner += 1;
        }
        let reward = Some(Reward::to(miner_of(miner).script_pubkey()));
        Mining { reward, tag: MINERS[miner].1.as_bytes().to_vec(), ..Mining::default() }
    }

    /// One action of a user: a payment, a replacement, a child that pays for its parent, or an eviction.
    fn spend(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        match self.rng.below(100) {
            0..5 => {
                let entry = any_entry(world, &mut self.rng).cloned();
                let replacement =
                    entry.map(|entry| self.wallet.replacement(world, &entry, &mut self.rng)).transpose()?;
                let Some(tx) = replacement.flatten() else { return self.pay(world) };
                Ok(self.submit(world, tx).map_or(LifeAction::Nothing, |by| LifeAction::Replaced { by }))
            }
            5..11 => {
                let cheapest =
                    world.mempool().entries().min_by_key(|entry| entry.fee.to_sat() * 1_000 / entry.vsize).cloned();
                let (payee, rate) = (self.payee(), self.rng.between(30, 90));
                let child = cheapest.map(|entry| self.wallet.child(world, &entry, payee, rate)).transpose()?;
                let Some(tx) = child.flatten() else { return self.pay(world) };
                Ok(self.submit(world, tx).map_or(LifeAction::Nothing, |child| LifeAction::Bumped { child }))
            }
            11 if world.mempool().len() > 10 => {
                let leaves = world.mempool().entries().filter(|entry| entry.children.is_empty());
                let Some(worst) = leaves.min_by_key(|entry| entry.fee.to_sat() * 1_000 / entry.vsize) else {
                    return Ok(LifeAction::Nothing);
                };
                let txid = worst.txid;
                let removed = world.evict(&txid);
                self.wallet.recount(world);
                Ok(LifeAction::Removed(removed))
            }
            _ => self.pay(world),
        }
    }

    /// One owner pays others.
    fn pay(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        // Sometimes a coin that was just received is spent, which makes chains of unconfirmed transactions.
        let (inputs, newest) = match self.rng.below(10) {
            0..6 => (1, usize::MAX),
            6..8 => (1, 6),
            8 => (2, usize::MAX),
            _ => (self.rng.between(2, 6), usize::MAX),
        };
        let mut coins = Vec::new();
        for _ in 0..inputs {
            coins.extend(self.wallet.take(world, &mut self.rng, newest));
        }
        let value: u64 = coins.iter().map(|coin| coin.output.value.to_sat()).sum();
        let Some(changed) = coins.first().map(|coin| coin.owner) else { return Ok(LifeAction::Nothing) };
        if value < LEAST_COIN {
            return Ok(LifeAction::Nothing);
        }
        // Miners and exchanges pay many owners at once.
        let payees = if value > 1_000_000_000 || self.rng.chance(6) { self.rng.between(8, 24) } else { 1 };
        let note = self.rng.chance(6).then(|| self.note());
        let rate = if self.rng.chance(20) { self.rng.between(10, 60) } else { self.rng.between(2, 9) };
        let mut payment = Payment::of(coins);
        let mut left = value - LEAST_COIN / 2;
        for _ in 0..payees {
            let share = self.rng.between(left / (3 * payees) + 1, left / payees);
            if share < LEAST_OUTPUT {
                break;
            }
            left -= share;
            payment = payment.to(self.payee(), Amount::from_sat(share));
        }
        payment = note.into_iter().fold(payment, Payment::output);
        // Change pays the address of the coin, or a new one.
        let change = if self.rng.chance(40) { changed } else { self.fresh_address() };
        let tx = payment.change(change, rate).sign()?;
        let refused = LifeAction::Submitted { taken: Vec::new(), refused: 1 };
        Ok(self.submit(world, tx).map_or(refused, |txid| LifeAction::Submitted { taken: vec![txid], refused: 0 }))
    }

    fn submit(&mut self, world: &mut World, tx: Transaction) -> Option<Txid> {
        let tx = Arc::new(tx);
        let accepted = world.submit(Arc::clone(&tx)).ok()?;
        self.wallet.add(&tx);
        Some(accepted.txid)
    }

    /// The owner of a new address, or of one used before, some of which are paid very often.
    fn payee(&mut self) -> Owner {
        if self.rng.chance(FRESH_ADDRESSES) {
            return self.fresh_address();
        }
        // Each power of two of addresses is equally likely.
        let bits = u64::from(u32::BITS - self.addresses.leading_zeros());
        let width = self.rng.between(1, bits.max(1));
        let index = self.rng.below(1 << width) % u64::from(self.addresses.max(1));
        address(u32::try_from(index).unwrap_or_default())
    }

    fn fresh_address(&mut self) -> Owner {
        let owner = address(self.addresses);
        self.addresses += 1;
        self.wallet.learn(owner);
        owner
    }

    fn note(&mut self) -> TxOut {
        let note = self.rng.choose(&NOTES).copied().unwrap_or_default();
        let bytes = bitcoin::script::PushBytesBuf::try_from(note.as_bytes().to_vec()).unwrap_or_default();
        TxOut { value: Amount::ZERO, script_pubkey: bitcoin::ScriptBuf::new_op_return(bytes) }
    }
}

/// The owner of the address with this number.
fn address(n: u32) -> Owner {
    let mut case = Rng::new(u64::from(n)).below(100);
    for (share, kind) in KINDS {
        if case < share {
            return Owner::new(kind, n);
        }
        case -= share;
    }
    Owner::new(ScriptKind::P2wpkh, n)
}

/// The owner of a miner, with a number that no address has.
fn miner_of(index: usize) -> Owner {
    Owner::new(MINERS[index].2, u32::MAX - u32::try_from(index).unwrap_or_default())
}

fn between(rng: &mut Rng, (low, high): (u64, u64)) -> u64 {
    rng.between(low, high)
}
