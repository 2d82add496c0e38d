//! The effect of a stale block on scripts while it was part of the active chain. No row has it: the block is read, and the
//! prevouts of its transactions are looked up one by one. The result is worth caching for several readers.

use std::collections::{BTreeMap, HashMap};

use bitcoin::{OutPoint, Script, Txid};

use super::{Ledger, PendingMovement};
use crate::chain::raw::RawTransaction;
use crate::chain::script::never_spendable;
use crate::index::{IndexError, ScriptKey};
use crate::view::{Block, View};

/// The former effect of a transaction on a ledger: its block is stale, or it left the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostMovement {
    /// The transaction.
    pub txid: Txid,
    /// The value of its outputs to the ledger, in sat.
    pub received: u64,
    /// The value of the ledger's outputs that it spends, in sat.
    pub spent: u64,
    /// Whether it has an output to the ledger, of whatever value.
    pub pays: bool,
    /// Whether it spends an output of the ledger, of whatever value.
    pub spends: bool,
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
    /// The scripts of the ledger that it pays or spends, each once.
    pub scripts: Vec<ScriptKey>,
}

impl LostMovement {
    fn new(txid: Txid, is_coinbase: bool) -> Self {
        Self { txid, received: 0, spent: 0, pays: false, spends: false, is_coinbase, scripts: Vec::new() }
    }

    /// The change of the balance in sat.
    #[must_use]
    pub fn net(&self) -> i128 {
        i128::from(self.received) - i128::from(self.spent)
    }
}

impl From<PendingMovement> for LostMovement {
    fn from(movement: PendingMovement) -> Self {
        let PendingMovement { entry, received, spent, pays, spends, scripts } = movement;
        Self { txid: entry.txid, received, spent, pays, spends, is_coinbase: false, scripts }
    }
}

/// The effect of one transaction of the block on one script.
#[derive(Clone, Copy, Default)]
struct ScriptShare {
    received: u64,
    spent: u64,
    pays: bool,
    spends: bool,
}

/// The effect of each transaction of a stale block on each script.
pub struct StaleMovements {
    /// In the order of the block; the first is its coinbase.
    txids: Vec<Txid>,
    /// By script, then by the index of the transaction in the block.
    shares: HashMap<ScriptKey, BTreeMap<usize, ScriptShare>>,
}

impl StaleMovements {
    /// Their effects on a ledger, in the order of the block.
    #[must_use]
    pub fn of(&self, ledger: &Ledger) -> Vec<LostMovement> {
        let mut found: BTreeMap<usize, LostMovement> = BTreeMap::new();
        for script in ledger.scripts() {
            for (index, share) in self.shares.get(script).into_iter().flatten() {
                let Some(txid) = self.txids.get(*index) else { continue };
                let movement = found.entry(*index).or_insert_with(|| LostMovement::new(*txid, *index == 0));
                movement.received = movement.received.saturating_add(share.received);
                movement.spent = movement.spent.saturating_add(share.spent);
                movement.pays |= share.pays;
                movement.spends |= share.spends;
                movement.scripts.push(*script);
            }
        }
        found.into_values().collect()
    }
}

impl View {
    /// The effect of a stale block on scripts. Omits prevouts that are no longer known.
    pub fn stale_movements(&self, block: &Block) -> Result<StaleMovements, IndexError> {
        let mut movements = StaleMovements { txids: Vec::new(), shares: HashMap::new() };
        let mut created: HashMap<OutPoint, (ScriptKey, u64)> = HashMap::new();
        for number in 0..block.row.transactions {
            let Some(raw) = self.raw_stale_transaction(block, number)? else { break };
            let transaction = RawTransaction::parse_whole(raw).map_err(|error| {
                IndexError::corrupt("stale_blocks", format!("{} is no block: {error}", block.row.hash))
            })?;
            let (txid, index) = (transaction.txid(), movements.txids.len());
            movements.txids.push(txid);
            let mut share = |script: ScriptKey, add: &dyn Fn(&mut ScriptShare)| {
                add(movements.shares.entry(script).or_default().entry(index).or_default());
            };
            for input in transaction.inputs().filter(|input| !input.is_null()) {
                let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
                let spent = match created.get(&outpoint) {
                    Some(spent) => Some(*spent),
                    None => self.output_of(&outpoint)?,
                };
                let Some((script, value)) = spent else { continue };
                share(script, &|share| {
                    share.spends = true;
                    share.spent = share.spent.saturating_add(value);
                });
            }
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let script = Script::from_bytes(output.script_pubkey);
                if never_spendable(script) {
                    continue;
                }
                let (script, value) = (self.script_key(script), output.value);
                created.insert(OutPoint { txid, vout }, (script, value));
                share(script, &|share| {
                    share.pays = true;
                    share.received = share.received.saturating_add(value);
                });
            }
        }
        Ok(movements)
    }

    /// The script and the value in sat of an output, wherever its transaction is.
    fn output_of(&self, outpoint: &OutPoint) -> Result<Option<(ScriptKey, u64)>, IndexError> {
        let Some(funding) = self.transaction(&outpoint.txid)? else { return Ok(None) };
        let output = funding.output(outpoint.vout);
        Ok(output.map(|output| (self.script_key(output.script_pubkey), output.value.to_sat())))
    }
}
