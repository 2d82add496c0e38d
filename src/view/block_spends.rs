//! The outputs that the transactions of a block spend, read together.

use std::collections::HashMap;

use bitcoin::{TxOut, Txid};

use super::prevouts::Funding;
use super::{BlockContents, BudgetExceeded, OutputPart, View};
use crate::chain::raw::{RawInput, RawTransaction};
use crate::index::IndexError;

/// The transactions of a block of the active chain, and those outside it whose outputs they spend, as far as was asked for.
pub(super) struct BlockSpends<'b> {
    transactions: Vec<RawTransaction<'b>>,
    own: HashMap<Txid, usize>,
    elsewhere: HashMap<Txid, Funding>,
}

/// An output that a transaction of a block spends.
pub(super) struct SpentInBlock {
    pub(super) output: TxOut,
    /// Whether the block itself creates it.
    pub(super) is_own: bool,
}

impl<'b> BlockSpends<'b> {
    /// The transactions, in block order.
    pub(super) fn transactions(&self) -> &[RawTransaction<'b>] {
        &self.transactions
    }

    /// The outputs that a transaction spends, one of those that were asked for. None for the coinbase.
    pub(super) fn prevouts(&self, transaction: &RawTransaction<'_>) -> Result<Vec<TxOut>, IndexError> {
        let inputs = transaction.inputs().filter(|input| !input.is_null());
        inputs.map(|input| Ok(self.of(&input)?.output)).collect()
    }

    /// The output that an input spends, which is not that of the coinbase.
    ///
    /// Errors: [`IndexError::Corrupt`] if it is not in the index.
    pub(super) fn of(&self, input: &RawInput<'_>) -> Result<SpentInBlock, IndexError> {
        let txid = input.outpoint_txid();
        let within = self.own.get(&txid).and_then(|place| self.transactions.get(*place));
        let output = match within {
            Some(parent) => parent.output(input.vout).map(|output| OutputPart::from(output).to_tx_out()),
            None => self.elsewhere.get(&txid).and_then(|(funding, _)| Some(funding.output(input.vout)?.to_tx_out())),
        };
        let output = output.ok_or_else(|| {
            IndexError::corrupt(
                "txids",
                format!("{txid}:{} is spent on the active chain, but not in the index", input.vout),
            )
        })?;
        Ok(SpentInBlock { output, is_own: within.is_some() })
    }
}

impl View {
    /// Reads what those transactions of a block spend for which `is_asked`. `count` is called with the number of their inputs before.
    ///
    /// Errors: those of the index and of `count`, and the byte budget.
    pub(super) fn block_spends<'b, E>(
        &self,
        contents: &'b BlockContents,
        is_asked: impl Fn(&RawTransaction<'_>) -> bool,
        count: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<BlockSpends<'b>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let transactions = contents.transactions()?;
        let own: HashMap<Txid, usize> = contents.txids().zip(0..).collect();
        let asked = transactions.iter().filter(|transaction| is_asked(transaction));
        let spent = asked.flat_map(RawTransaction::inputs).filter(|input| !input.is_null());
        let spent: Vec<Txid> = spent.map(|input| input.outpoint_txid()).collect();
        count(spent.len())?;
        let elsewhere = self.all_funding::<E>(spent.into_iter().filter(|txid| !own.contains_key(txid)).collect())?;
        Ok(BlockSpends { transactions, own, elsewhere })
    }
}
