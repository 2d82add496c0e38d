//! The outputs that a transaction spends, wherever they are, read together.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bitcoin::{TxOut, Txid};

use super::{BudgetExceeded, Transaction, TransactionParts, View};
use crate::chain::Height;
use crate::index::{IndexError, WantedTransaction};
use crate::mempool::PrevoutSource;

/// The most transactions of one read.
const AT_ONCE: usize = 128;

/// An output that an input spends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundedOutput {
    /// The output.
    pub output: TxOut,
    /// The height of the block of the active chain that creates it, `None` if no such block does.
    pub height: Option<Height>,
}

/// A transaction, and the height of its block.
pub(super) type Funding = (Arc<TransactionParts>, Option<Height>);

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
        let spent = self.spent_outputs::<E>(transaction, vins)?;
        Ok(spent.into_iter().map(|spent| spent.map(|spent| spent.output)).collect())
    }

    /// The outputs that these inputs spend, as [`prevouts`](Self::prevouts) finds them, and where they were created.
    pub fn spent_outputs<E>(
        &self,
        transaction: &Transaction,
        vins: Range<usize>,
    ) -> Result<Vec<Option<FundedOutput>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let inputs = transaction.parts.input.get(vins.clone()).unwrap_or_default();
        if let Some(known) = kept_prevouts(transaction, &vins) {
            return Ok(known);
        }
        let funding =
            self.all_funding::<E>(inputs.iter().filter(|input| !input.previous_output.is_null()).map(txid).collect())?;
        let prevout = |input: &bitcoin::TxIn| {
            let (funding, height) = funding.get(&txid(input))?;
            Some(FundedOutput { output: funding.output(input.previous_output.vout)?.to_tx_out(), height: *height })
        };
        let found: Vec<_> = inputs.iter().map(prevout).collect();
        let unknown =
            inputs.iter().zip(&found).find(|(input, found)| found.is_none() && !input.previous_output.is_null());
        match unknown.filter(|_| transaction.place.is_some()) {
            // what a transaction of the main chain spends is on the main chain
            Some((input, _)) => Err(IndexError::corrupt(
                "txids",
                format!("{} is spent on the active chain, but not in the index", input.previous_output),
            )
            .into()),
            None => Ok(found),
        }
    }

    /// Those of these transactions that are known, with their heights.
    ///
    /// Errors: those of the index, and the byte budget.
    pub(super) fn all_funding<E>(&self, mut wanted: Vec<Txid>) -> Result<HashMap<Txid, Funding>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = HashMap::with_capacity(wanted.len());
        for wanted in wanted.chunks(AT_ONCE) {
            for (txid, funding) in wanted.iter().zip(self.funding::<E>(wanted)?) {
                if let Some(funding) = funding {
                    found.insert(*txid, funding);
                }
            }
        }
        Ok(found)
    }

    /// Each of these transactions with the height of its block, `None` for one that is not known.
    fn funding<E>(&self, wanted: &[Txid]) -> Result<Vec<Option<Funding>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        self.count(0)?;
        let newest: Vec<_> = wanted.iter().copied().map(WantedTransaction::Newest).collect();
        let make = |stored| funding_of(Self::placed(stored));
        let together = self.head.chain.read_several(&newest, self.budget.left(), make)?;
        let each = wanted.iter().zip(together).map(|(txid, read)| {
            let found = match read {
                Some(read) => Some(read),
                None => self.transaction(txid)?.map(funding_of),
            };
            self.count(found.as_ref().map_or(0, |(_, bytes)| *bytes))?;
            Ok(found.map(|(funding, _)| funding))
        });
        each.collect()
    }
}

/// What is returned of a transaction with outputs that are spent, and the bytes that were read for it.
fn funding_of(found: Transaction) -> (Funding, usize) {
    ((found.parts, found.place.map(|place| place.height)), found.bytes_read)
}

/// The outputs that the mempool keeps with a transaction, or the journal of departures.
fn kept_prevouts(transaction: &Transaction, vins: &Range<usize>) -> Option<Vec<Option<FundedOutput>>> {
    let departed = || transaction.departed.as_ref()?.entry.as_ref();
    let entry = transaction.unconfirmed.as_ref().or_else(departed)?;
    let prevouts = entry.prevouts.iter().map(|prevout| {
        let output = TxOut {
            value: bitcoin::Amount::from_sat(prevout.value),
            script_pubkey: bitcoin::ScriptBuf::from_bytes(prevout.script_pubkey.to_vec()),
        };
        let height = match prevout.source {
            PrevoutSource::Confirmed { height, .. } => Some(height),
            PrevoutSource::Unconfirmed => None,
        };
        Some(FundedOutput { output, height })
    });
    Some(prevouts.skip(vins.start).take(vins.len()).collect())
}

fn txid(input: &bitcoin::TxIn) -> Txid {
    input.previous_output.txid
}
