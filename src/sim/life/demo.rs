//! A small chain for demonstrations: people who pay each other, and several miners.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::{Amount, Transaction, TxOut, Txid, Weight};
use serde_json::json;

use super::super::{ChainError, Mining, Owner, Payment, Reward, Rng, ScriptKind, SimChain, World};
use super::LifeAction;
use super::wallet::{Wallet, any_entry};
use crate::chain::Height;

/// Blocks before the life begins, the first 100 of them without transactions.
const HISTORY: u32 = 180;
/// Seconds between two of these blocks.
const HISTORY_SPACING: u32 = 600;
/// Seconds from the last of these blocks to the beginning of the life.
const HISTORY_END: u32 = 4;
/// The number of people at the beginning.
const PEOPLE: u32 = 300;
/// The number of outputs to a new address among 100.
const FRESH_ADDRESSES: u64 = 30;
/// Milliseconds from a transaction to the next, and from a block to the next.
const BETWEEN_TRANSACTIONS: (u64, u64) = (200, 460);
const BETWEEN_BLOCKS: (u64, u64) = (7_000, 13_000);
/// One in this many blocks is replaced by a branch.
const BLOCKS_A_REORG: u64 = 12;
/// The most weight of a block's transactions: about as much as arrives in ten seconds, so that those of low fees
/// sometimes wait. When very many wait, there is no such limit.
const BLOCK_WEIGHT: (u64, u64) = (14_000, 42_000);
const MANY_WAIT: usize = 150;
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
}

impl Demo {
    pub(super) fn start(seed: u64, now: u32) -> Result<(Self, World), ChainError> {
        let mut world = World::new(SimChain::new(seed));
        let mut rng = Rng::new(seed);
        let (until_transaction, until_block) =
            (between(&mut rng, BETWEEN_TRANSACTIONS), between(&mut rng, BETWEEN_BLOCKS));
        let mut demo = Demo { rng, wallet: Wallet::default(), addresses: 0, until_transaction, until_block };
        for miner in 0..MINERS.len() {
            demo.wallet.learn(miner_of(miner));
        }
        for _ in 0..PEOPLE {
            demo.fresh_address();
        }
        let first = now.saturating_sub(HISTORY_END + HISTORY_SPACING * (HISTORY - 1));
        for n in 0..HISTORY {
            // Block intervals vary, but times increase.
            let late = if n + 1 < HISTORY { u32::try_from(demo.rng.below(540)).unwrap_or_default() } else { 0 };
            world.set_time(first + HISTORY_SPACING * n + late);
            let mature = world.chain().height() >= Height::from(100);
            for _ in 0..if mature { demo.rng.between(1, 8) } else { 0 } {
                demo.spend(&mut world)?;
            }
            demo.mine(&mut world, None)?;
            if n == HISTORY - 30 {
                demo.reorganise(&mut world)?;
            }
        }
        world.set_time(now);
        Ok((demo, world))
    }

    pub(super) fn next(&mut self, world: &mut World) -> Result<(LifeAction, Duration), ChainError> {
        let action = if self.until_block <= self.until_transaction {
            self.until_transaction -= self.until_block;
            self.until_block = between(&mut self.rng, BETWEEN_BLOCKS);
            let depth = u32::from(self.rng.below(BLOCKS_A_REORG) == 0);
            if depth == 0 { self.mine_live(world)? } else { self.reorganise(world)? }
        } else {
            self.until_block -= self.until_transaction;
            self.until_transaction = between(&mut self.rng, BETWEEN_TRANSACTIONS);
            self.spend(world)?
        };
        Ok((action, Duration::from_millis(self.until_transaction.min(self.until_block))))
    }

    fn mine_live(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let weight = Weight::from_wu(between(&mut self.rng, BLOCK_WEIGHT));
        self.mine(world, Some(weight).filter(|_| world.mempool().len() < MANY_WAIT))
    }

    fn mine(&mut self, world: &mut World, max_weight: Option<Weight>) -> Result<LifeAction, ChainError> {
        let mining = Mining { max_weight, ..self.mining() };
        let block = world.mine(mining)?;
        block.coinbase().into_iter().for_each(|coinbase| self.wallet.add(coinbase));
        Ok(LifeAction::Mined(block.block_hash()))
    }

    /// Another miner finds a block of the same height with most of the same transactions, and the next block extends
    /// it.
    fn reorganise(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let tip = world.chain().block(&world.chain().tip()).cloned();
        let mut transactions = tip.map_or_else(Vec::new, |block| block.txdata[1..].to_vec());
        let kept = transactions.len() - self.rng.index(transactions.len() / 2 + 1);
        transactions.truncate(kept);
        let mining = self.mining();
        world.reorg(1, 2, vec![transactions], &mining)?;
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
