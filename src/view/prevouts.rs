//! The outputs that a transaction spends, wherever they are, read together.

use std::collections::HashMap;
use std::ops::Range;

use bitcoin::{TxOut, Txid};

use super::{BudgetExceeded, Transaction, View, corrupt};
use crate::index::{IndexError, WantedTransaction};

/// The most transactions of one read.
const AT_ONCE: usize = 128;

impl View {
    /// The outputs that these inputs of a transaction spend, in the order of the inputs. `None` for the input of a coinbase,
    /// and for an output of a transaction that is neither on the active chain nor in the mempool nor remembered.
    ///
    /// Errors: those of the index, and the byte budget, since the transactions with these outputs are read, unless the
    /// mempool keeps them with the transaction.
    pub fn prevouts<E>(&self, transaction: &Transaction, vins: Range<usize>) -> Result<Vec<Option<TxOut>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let inputs = transaction.parts.input.get(vins.clone()).unwrap_or_default();
        if let Some(known) = kept_prevouts(transaction, &vins) {
            return Ok(known);
        }
        let mut wanted: Vec<Txid> = inputs.iter().filter(|input| !input.previous_output.is_null()).map(txid).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut outputs: HashMap<Txid, Vec<TxOut>> = HashMap::with_capacity(wanted.len());
        for wanted in wanted.chunks(AT_ONCE) {
            for (txid, funding) in wanted.iter().zip(self.funding::<E>(wanted)?) {
                if let Some(funding) = funding {
                    outputs.insert(*txid, funding);
                }
            }
        }
        let prevout = |input: &bitcoin::TxIn| {
            let vout = usize::try_from(input.previous_output.vout).ok()?;
            outputs.get(&txid(input))?.get(vout).cloned()
        };
        let found: Vec<_> = inputs.iter().map(prevout).collect();
        let unknown =
            inputs.iter().zip(&found).find(|(input, found)| found.is_none() && !input.previous_output.is_null());
        match unknown.filter(|_| transaction.place.is_some()) {
            // what a transaction of the main chain spends is on the main chain
            Some((input, _)) => Err(corrupt(
                "txids",
                format!("{} is spent on the active chain, but not in the index", input.previous_output),
            )
            .into()),
            None => Ok(found),
        }
    }

    /// The outputs of each of these transactions, `None` for one that is not known.
    fn funding<E>(&self, wanted: &[Txid]) -> Result<Vec<Option<Vec<TxOut>>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        self.count(0)?;
        let mut together = vec![None; wanted.len()];
        // one is not faster together
        if wanted.len() > 1 && self.head.chain.has_generations() {
            let newest: Vec<_> = wanted.iter().copied().map(WantedTransaction::Newest).collect();
            let make = |stored| Self::placed(stored).map(|found| (found.parts.output, found.bytes_read));
            together = self.head.chain.read_frozen(&newest, self.budget.left(), make)?;
        }
        let each = wanted.iter().zip(together).map(|(txid, read)| {
            let found = match read {
                Some(read) => Some(read),
                None => self.transaction(txid)?.map(|found| (found.parts.output, found.bytes_read)),
            };
            self.count(found.as_ref().map_or(0, |(_, bytes)| *bytes))?;
            Ok(found.map(|(outputs, _)| outputs))
        });
        each.collect()
    }
}

/// The outputs that the mempool keeps with a transaction, or the journal of departures.
fn kept_prevouts(transaction: &Transaction, vins: &Range<usize>) -> Option<Vec<Option<TxOut>>> {
    let departed = || transaction.departed.as_ref()?.entry.as_ref();
    let entry = transaction.unconfirmed.as_ref().or_else(departed)?;
    let prevouts = entry.prevouts.iter().map(|prevout| {
        Some(TxOut {
            value: bitcoin::Amount::from_sat(prevout.value),
            script_pubkey: bitcoin::ScriptBuf::from_bytes(prevout.script_pubkey.to_vec()),
        })
    });
    Some(prevouts.skip(vins.start).take(vins.len()).collect())
}

fn txid(input: &bitcoin::TxIn) -> Txid {
    input.previous_output.txid
}
