//! The unspent outputs of a ledger, now or right after a block.

use std::collections::VecDeque;
use std::ops::Range;

use super::Ledger;
use super::merge::{Merge, directed};
use crate::chain::Height;
use crate::chain::script::never_spendable;
use crate::index::{IndexError, OutputPosition, TxNum, UnspentKey};
use crate::view::{Block, View};

/// An unspent output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coin {
    /// Its position in the active chain.
    pub position: OutputPosition,
    /// In sat.
    pub value: u64,
    /// Whether a coinbase created it, so that it matures.
    pub is_coinbase: bool,
}

/// An output found in a history or among rows: its position, the bytes of transactions read for it, and the coin unless it
/// was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnspentCandidate {
    /// The position of the output. For a transaction without outputs to the ledger, the end of its outputs in the direction
    /// of the search.
    pub position: OutputPosition,
    /// Serialised size of the transaction, at its first row.
    pub bytes: usize,
    /// The coin, if it was unspent.
    pub coin: Option<Coin>,
}

impl View {
    /// The outputs of a ledger at these positions that have a row, with those unspent now; oldest or newest first.
    pub fn coins(
        &self,
        ledger: &Ledger,
        positions: &Range<OutputPosition>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<UnspentCandidate, IndexError>> + use<>, IndexError> {
        let coins = ledger.scripts().iter().map(|script| {
            let rows = self.head.chain.unspent_rows(*script, positions.clone())?.map(|row| {
                let (UnspentKey { txnum, vout, .. }, row) = row?;
                let position = OutputPosition { txnum, vout };
                let coin = row.map(|row| Coin { position, value: row.value, is_coinbase: row.is_coinbase });
                Ok(UnspentCandidate { position, bytes: 0, coin })
            });
            Ok(directed(rows, ascending))
        });
        Merge::new(coins.collect::<Result<Vec<_>, IndexError>>()?, ascending, |found| found.position.to_u64())
    }

    /// The outputs of a ledger at these positions, with those unspent right after the block `at`; oldest or newest
    /// first. No table has past unspent outputs: each transaction of the history up to that block is read.
    pub fn coins_at<'v>(
        &'v self,
        ledger: &Ledger,
        at: &Block,
        positions: &Range<OutputPosition>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<UnspentCandidate, IndexError>> + use<'v>, IndexError> {
        let end = at.end_txnum()?;
        let last = TxNum(positions.end.txnum.0.saturating_add(1)).min(end);
        let mut movements = self.movements(ledger, &(positions.start.txnum..last), ascending)?;
        let (ledger, positions) = (ledger.clone(), positions.clone());
        let mut pending = VecDeque::new();
        Ok(std::iter::from_fn(move || {
            loop {
                if let Some(candidate) = pending.pop_front() {
                    return Some(Ok(candidate));
                }
                let txnum = match movements.next()? {
                    Ok(movement) => movement.txnum,
                    Err(error) => return Some(Err(error)),
                };
                match self.outputs_at(&ledger, txnum, end, ascending) {
                    Ok(found) => pending.extend(found.into_iter().filter(|found| positions.contains(&found.position))),
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }

    /// The outputs of one transaction to a ledger that are unspent before the transaction `end`.
    fn outputs_at(
        &self,
        ledger: &Ledger,
        txnum: TxNum,
        end: TxNum,
        ascending: bool,
    ) -> Result<Vec<UnspentCandidate>, IndexError> {
        let transaction = self.transaction_at(txnum)?;
        let overwritten = self.is_overwritten(&transaction.txid, txnum, end)?;
        let mut found = Vec::new();
        for (output, vout) in transaction.parts.output.iter().zip(0_u32..) {
            if never_spendable(&output.script_pubkey) || !ledger.contains(self.script_key(&output.script_pubkey)) {
                continue;
            }
            let spent = self.head.chain.spender(txnum, vout)?.is_some_and(|spender| spender.txnum < end);
            let position = OutputPosition { txnum, vout };
            let is_coinbase = transaction.parts.is_coinbase();
            let coin = Coin { position, value: output.value.to_sat(), is_coinbase };
            found.push(UnspentCandidate { position, bytes: 0, coin: (!spent && !overwritten).then_some(coin) });
        }
        if !ascending {
            found.reverse();
        }
        match found.first_mut() {
            Some(first) => first.bytes = transaction.raw().len(),
            None => found.push(UnspentCandidate {
                position: OutputPosition { txnum, vout: if ascending { u32::MAX } else { 0 } },
                bytes: transaction.raw().len(),
                coin: None,
            }),
        }
        Ok(found)
    }

    /// Heights among these of the blocks whose coinbase pays a ledger, each once, lowest or highest first.
    pub fn payouts(
        &self,
        ledger: &Ledger,
        heights: &Range<Height>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let rows = ledger
            .scripts()
            .iter()
            .map(|script| Ok(directed(self.head.chain.payouts(*script, heights.clone())?, ascending)));
        let rows = rows.collect::<Result<Vec<_>, IndexError>>()?;
        let mut merged = Merge::new(rows, ascending, |height: &Height| u64::from(height.to_u32()))?.peekable();
        Ok(std::iter::from_fn(move || {
            let row = merged.next()?;
            if let Ok(height) = &row {
                while merged.next_if(|next| next.as_ref().is_ok_and(|next| next == height)).is_some() {}
            }
            Some(row)
        }))
    }
}
