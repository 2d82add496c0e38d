//! What a block does to the balances of scripts.

use std::collections::{HashMap, HashSet};

use bitcoin::ScriptBuf;

use super::block_spends::SpentInBlock;
use super::{Block, BudgetExceeded, View};
use crate::chain::Height;
use crate::chain::script::never_spendable;
use crate::index::IndexError;
use crate::mempool::{Coins, ScriptTotals};

/// What the transactions of a block do to a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptChange {
    /// The script.
    pub script: ScriptBuf,
    /// What it receives and what is spent of it.
    pub totals: ScriptTotals,
}

impl View {
    /// What a block of the active chain does to the balance of each script that it pays or spends, in the order of the scripts'
    /// bytes; `None` for a stale block. Outputs that can never be spent are not counted.
    ///
    /// Errors: those of the index, and the byte budget: the transactions with the spent outputs are read.
    pub fn balance_changes<E>(&self, block: &Block) -> Result<Option<Vec<ScriptChange>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let Some(contents) = self.block_contents(block)? else { return Ok(None) };
        // what is read was counted by the numbers in the row of the block
        let spends = self.block_spends(&contents, |_| true, |_| Ok::<_, E>(()))?;

        let mut changes: HashMap<ScriptBuf, ScriptTotals> = HashMap::new();
        for transaction in spends.transactions() {
            let mut touched: HashSet<ScriptBuf> = HashSet::new();
            for input in transaction.inputs().filter(|input| !input.is_null()) {
                let SpentInBlock { output, is_own } = spends.of(&input)?;
                let totals = changes.entry(output.script_pubkey.clone()).or_default();
                let coins = if is_own { &mut totals.spent_unconfirmed } else { &mut totals.spent_confirmed };
                add(coins, output.value.to_sat());
                touched.insert(output.script_pubkey);
            }
            for output in transaction.outputs() {
                let script_pubkey = ScriptBuf::from_bytes(output.script_pubkey.to_vec());
                // the output of the genesis block never entered the UTXO set
                if block.height == Height::GENESIS || never_spendable(&script_pubkey) {
                    continue;
                }
                add(&mut changes.entry(script_pubkey.clone()).or_default().pending, output.value);
                touched.insert(script_pubkey);
            }
            for script in touched {
                let totals = changes.entry(script).or_default();
                totals.transactions = totals.transactions.saturating_add(1);
            }
        }
        let mut changes: Vec<_> = changes.into_iter().map(|(script, totals)| ScriptChange { script, totals }).collect();
        changes.sort_unstable_by(|one, other| one.script.as_bytes().cmp(other.script.as_bytes()));
        Ok(Some(changes))
    }
}

fn add(coins: &mut Coins, value: u64) {
    coins.count = coins.count.saturating_add(1);
    coins.value = coins.value.saturating_add(value);
}
