//! The spendable coins of a world and their owners; replacements and children of unconfirmed transactions.

use std::collections::HashMap;

use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut};

use super::super::{ChainError, Owner, Payment, Rng, SimMempoolEntry, Spendable, World};

/// The most coins drawn before the wallet counts as empty.
const DRAWS: usize = 40;
/// The least value of an output that is reduced, in satoshis: above every dust limit.
const LEAST_OUTPUT: u64 = 1_000;

/// The coins of known owners in a world. Some may be spent or immature meanwhile, which is checked when they are drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Wallet {
    owners: HashMap<ScriptBuf, Owner>,
    coins: Vec<OutPoint>,
}

impl Wallet {
    /// Adds an owner, whose coins the wallet tracks from now on.
    pub(super) fn learn(&mut self, owner: Owner) -> ScriptBuf {
        let script = owner.script_pubkey();
        self.owners.insert(script.clone(), owner);
        script
    }

    /// Adds the outputs of a transaction that is in the world now.
    pub(super) fn add(&mut self, tx: &Transaction) {
        let txid = tx.compute_txid();
        let known = (0..).zip(&tx.output).filter(|(_, output)| self.owners.contains_key(&output.script_pubkey));
        self.coins.extend(known.map(|(vout, _)| OutPoint { txid, vout }));
    }

    /// Rebuilds the list of coins from the whole world, after transactions left the mempool or blocks the chain.
    pub(super) fn recount(&mut self, world: &World) {
        let is_known = |output: &TxOut| self.owners.contains_key(&output.script_pubkey);
        let confirmed = world.chain().unspent().iter().filter(|(_, coin)| is_known(&coin.output));
        let mut coins: Vec<OutPoint> = confirmed.map(|(outpoint, _)| *outpoint).collect();
        coins.sort_unstable();
        for entry in world.mempool().entries() {
            let outputs = (0..).zip(&entry.tx.output).filter(|(_, output)| is_known(output));
            coins.extend(outputs.map(|(vout, _)| OutPoint { txid: entry.txid, vout }));
        }
        self.coins = coins;
    }

    /// Takes a random coin among the `newest` ones that the next block may spend and no transaction spends yet.
    pub(super) fn take(&mut self, world: &World, rng: &mut Rng, newest: usize) -> Option<Spendable> {
        let next = world.chain().height().next();
        for _ in 0..DRAWS {
            let back = rng.index(self.coins.len().min(newest));
            let index = self.coins.len().checked_sub(back + 1)?;
            let outpoint = self.coins[index];
            let is_immature = world.chain().coin(&outpoint).is_some_and(|coin| !coin.is_mature_at(next));
            if is_immature {
                continue;
            }
            self.coins.swap_remove(index);
            if let Some(coin) = self.spendable(world, outpoint).filter(|_| world.mempool().spender(&outpoint).is_none())
            {
                return Some(coin);
            }
        }
        None
    }

    /// Returns coins that were taken and not spent.
    pub(super) fn put_back(&mut self, world: &World, coins: &[Spendable]) {
        let unspent = coins.iter().filter(|coin| world.mempool().spender(&coin.outpoint).is_none());
        self.coins.extend(unspent.map(|coin| coin.outpoint));
    }

    /// An output of the world, `None` if its owner is unknown.
    pub(super) fn spendable(&self, world: &World, outpoint: OutPoint) -> Option<Spendable> {
        let unconfirmed = world.mempool().output(&outpoint);
        let output = unconfirmed.or_else(|| world.chain().coin(&outpoint).map(|coin| &coin.output))?.clone();
        let owner = *self.owners.get(&output.script_pubkey)?;
        Some(Spendable { outpoint, output, owner })
    }

    /// A replacement of an unconfirmed transaction: it spends the same outputs and pays enough more. `None` if no
    /// output can pay for that.
    pub(super) fn replacement(
        &self,
        world: &World,
        entry: &SimMempoolEntry,
        rng: &mut Rng,
    ) -> Result<Option<Transaction>, ChainError> {
        let spends: Option<Vec<Spendable>> = entry.spends().map(|outpoint| self.spendable(world, outpoint)).collect();
        // It pays the fees of all descendants, and at least two satoshis a virtual byte for its relay.
        let needed = entry.descendants.fee.to_sat() + entry.vsize * rng.between(2, 12);
        let extra = needed - entry.fee.to_sat();
        let mut outputs = entry.tx.output.clone();
        let largest = outputs.iter_mut().max_by_key(|output| output.value);
        let (Some(spends), Some(largest)) = (spends, largest) else { return Ok(None) };
        let Some(left) = largest.value.to_sat().checked_sub(extra).filter(|left| *left >= LEAST_OUTPUT) else {
            return Ok(None);
        };
        largest.value = Amount::from_sat(left);
        let payment = Payment::of(spends).version(entry.tx.version.0).lock_time(entry.tx.lock_time.to_consensus_u32());
        Ok(Some(outputs.into_iter().fold(payment, Payment::output).sign()?))
    }

    /// A transaction that spends one output of an unconfirmed one, at a feerate of its own. `None` if that has no
    /// unspent output of sufficient value.
    pub(super) fn child(
        &self,
        world: &World,
        entry: &SimMempoolEntry,
        payee: Owner,
        sat_per_vb: u64,
    ) -> Result<Option<Transaction>, ChainError> {
        let outpoints = (0..).zip(&entry.tx.output).map(|(vout, _)| OutPoint { txid: entry.txid, vout });
        let unspent = outpoints.filter(|outpoint| world.mempool().spender(outpoint).is_none());
        let coin = unspent
            .filter_map(|outpoint| self.spendable(world, outpoint))
            .find(|coin| coin.output.value.to_sat() > LEAST_OUTPUT + 300 * sat_per_vb);
        let Some(coin) = coin else { return Ok(None) };
        Ok(Some(Payment::of([coin]).change(payee, sat_per_vb).sign()?))
    }
}

/// A transaction of the mempool at random.
pub(super) fn any_entry<'a>(world: &'a World, rng: &mut Rng) -> Option<&'a SimMempoolEntry> {
    let at = rng.index(world.mempool().len());
    world.mempool().entries().nth(at)
}
