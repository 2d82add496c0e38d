//! The outputs that the transactions of a block spend, read together.

use std::collections::HashMap;

use bitcoin::{Amount, ScriptBuf, TxOut, Txid};

use super::prevouts::Funding;
use super::{BudgetExceeded, View, corrupt};
use crate::chain::raw::{RawInput, RawTransaction};
use crate::index::IndexError;

/// The transactions of a block of the active chain, and those outside it whose outputs they spend.
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

    /// The output that an input spends, which is not that of the coinbase.
    ///
    /// Errors: [`IndexError::Corrupt`] if it is not in the index.
    pub(super) fn of(&self, input: &RawInput<'_>) -> Result<SpentInBlock, IndexError> {
        let txid = input.outpoint_txid();
        let within = self.own.get(&txid).and_then(|place| self.transactions.get(*place));
        let output = match within {
            Some(parent) => parent.output(input.vout).map(|output| TxOut {
                value: Amount::from_sat(output.value),
                script_pubkey: ScriptBuf::from_bytes(output.script_pubkey.to_vec()),
            }),
            None => self
                .elsewhere
                .get(&txid)
                .and_then(|(outputs, _)| usize::try_from(input.vout).ok().and_then(|vout| outputs.get(vout)).cloned()),
        };
        let output = output.ok_or_else(|| {
            corrupt("txids", format!("{txid}:{} is spent on the active chain, but not in the index", input.vout))
        })?;
        Ok(SpentInBlock { output, is_own: within.is_some() })
    }
}

impl View {
    /// Reads what these transactions of a block of the active chain spend; the txids are theirs.
    ///
    /// Errors: those of the index, and the byte budget.
    pub(super) fn block_spends<'b, E>(
        &self,
        txids: Vec<Txid>,
        transactions: Vec<RawTransaction<'b>>,
    ) -> Result<BlockSpends<'b>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let own: HashMap<Txid, usize> = txids.into_iter().zip(0..).collect();
        let spent = transactions.iter().flat_map(RawTransaction::inputs).filter(|input| !input.is_null());
        let elsewhere = spent.map(|input| input.outpoint_txid()).filter(|txid| !own.contains_key(txid)).collect();
        let elsewhere = self.all_funding::<E>(elsewhere)?;
        Ok(BlockSpends { transactions, own, elsewhere })
    }
}
