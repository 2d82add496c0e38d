//! Everything that a run of blocks changes in the index, computed before the first write.
//!
//! Connecting applies the effects, disconnecting reverts them; both compute them in one way from one set of facts, so
//! disconnecting removes exactly what connecting added.

use super::super::block::{BlockOutput, BlockTransaction, ParsedBlock};
use super::super::error::IndexError;
use super::super::keys::{Position, TxNum};
use super::super::statistics::{BlockFacts, OutputFacts, Tally};
use super::live_tables::Tables;
use super::resolve::{BlockRun, Resolved, ResolvedPrevout};
use super::tables::blocks::{BlockRow, ChainTotals};
use super::tables::history::{self, HistoryChange};
use super::tables::{p2pk, payouts, spends, txids, unspent};
use crate::chain::Height;
use crate::chain::subsidy::subsidy;
use redb::ReadableTable;

/// The changes of each table, sorted by key unless they are computed in key order.
pub(in crate::index) struct Effects {
    /// One for each block.
    pub(in crate::index) blocks: Vec<BlockRow>,
    /// Fee in sat of each transaction, 0 for coinbases.
    pub(in crate::index) fees: Vec<u64>,
    pub(in crate::index) txids: Vec<txids::TxidKey>,
    pub(in crate::index) spends: Vec<(spends::TxPoint, spends::TxPoint)>,
    /// One for each script that a transaction pays or spends.
    pub(in crate::index) history: Vec<(history::HistoryKey, HistoryChange)>,
    /// Outputs that are unspent after the run and were not there before.
    pub(in crate::index) created: Vec<(unspent::UnspentKeyBytes, unspent::UnspentValue)>,
    /// Outputs that were unspent before the run and are not after it.
    pub(in crate::index) consumed: Vec<(unspent::UnspentKeyBytes, unspent::UnspentValue)>,
    /// Outputs of earlier copies, with the later copy that overwrites them (BIP30).
    pub(in crate::index) overwritten: Vec<(spends::TxPoint, [u8; 4])>,
    pub(in crate::index) payouts: Vec<payouts::PayoutKey>,
    pub(in crate::index) p2pk: Vec<(p2pk::P2pkKey, TxNum)>,
}

impl Effects {
    /// The effects of these blocks on a chain with these totals.
    ///
    /// Errors: [`IndexError::InvalidBlock`] for impossible amounts; storage errors.
    pub(in crate::index) fn of(
        run: &BlockRun<'_>,
        resolved: &Resolved,
        before: &ChainTotals,
        network: bitcoin::Network,
        tables: &Tables<'_>,
    ) -> Result<Self, IndexError> {
        let mut builder = Builder { run, resolved, tables, effects: Self::empty(), inputs: resolved.prevouts.iter() };
        let mut txnums = (run.first.0..).map(TxNum);
        let starts = run.own_starts();
        let mut before = before;
        for (block, start) in run.blocks.iter().zip(starts) {
            let subsidy = subsidy(start.height, network).to_sat();
            let mut tally = Tally::new(&BlockFacts::of(block, start.median_time), start.height, subsidy, before);
            let mut coinbase_value = 0;
            for (transaction, txnum) in block.transactions.iter().zip(&mut txnums) {
                let value = builder.transaction(block, start.height, transaction, txnum, &mut tally)?;
                coinbase_value = if transaction.inputs.is_empty() { value } else { coinbase_value };
            }
            builder.effects.blocks.push(tally.finish(coinbase_value)?);
            before = &builder.effects.blocks[builder.effects.blocks.len() - 1].running;
        }
        Ok(builder.effects.sorted())
    }

    fn empty() -> Self {
        Self {
            blocks: Vec::new(),
            fees: Vec::new(),
            txids: Vec::new(),
            spends: Vec::new(),
            history: Vec::new(),
            created: Vec::new(),
            consumed: Vec::new(),
            overwritten: Vec::new(),
            payouts: Vec::new(),
            p2pk: Vec::new(),
        }
    }

    /// Rows of the tables whose keys are hashes or point far back.
    pub(in crate::index) fn scattered_rows(&self) -> u64 {
        let rows = self.txids.len() + self.spends.len() + self.history.len() + self.created.len() + self.consumed.len();
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    fn sorted(mut self) -> Self {
        self.txids.sort_unstable();
        self.spends.sort_unstable();
        self.payouts.sort_unstable();
        self.payouts.dedup();
        self.p2pk.sort_unstable();
        self.p2pk.dedup_by_key(|(key, _)| *key); // the first of each key is its first transaction
        self.history.sort_unstable_by_key(|(key, _)| *key);
        self.history.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.and(&next.1);
            }
            same
        });
        self.created.sort_unstable();
        self.consumed.sort_unstable();
        drop_common(&mut self.created, &mut self.consumed);
        self
    }
}

/// Removes common items of two sorted lists: outputs created and spent within the run never reach the table. An output
/// that is consumed twice remains once, and is then missing in the table, which is an error.
fn drop_common<T: Ord + Copy>(created: &mut Vec<T>, consumed: &mut Vec<T>) {
    let mut left = Vec::new();
    let mut spent = consumed.iter().copied().peekable();
    created.retain(|output| {
        while let Some(earlier) = spent.next_if(|next| next < output) {
            left.push(earlier);
        }
        spent.next_if_eq(output).is_none()
    });
    left.extend(spent);
    *consumed = left;
}

struct Builder<'r, 'a> {
    run: &'r BlockRun<'a>,
    resolved: &'r Resolved,
    tables: &'r Tables<'r>,
    effects: Effects,
    inputs: std::slice::Iter<'r, ResolvedPrevout>,
}

impl Builder<'_, '_> {
    /// Adds one transaction and returns the value of its outputs in sat.
    fn transaction(
        &mut self,
        block: &ParsedBlock,
        height: Height,
        transaction: &BlockTransaction,
        txnum: TxNum,
        tally: &mut Tally,
    ) -> Result<u64, IndexError> {
        let invalid = |what: String| IndexError::InvalidBlock { hash: block.hash, what };
        let too_much = || invalid(format!("transaction {} moves more coins than can exist", transaction.txid));
        let is_coinbase = transaction.inputs.is_empty();
        self.effects.txids.push(txids::key(transaction.prefix, txnum));

        let mut input_value = 0_u64;
        let spent = self.inputs.by_ref().take(transaction.inputs.len());
        for (vin, prevout) in (0..).map_while(Position::new).zip(spent) {
            input_value = input_value.checked_add(prevout.value).ok_or_else(too_much)?;
            tally.spend(prevout.value, prevout.script_type, prevout.median_time);
            self.effects.spends.push((spends::tx_point(prevout.txnum, prevout.vout), spends::tx_point(txnum, vin)));
            let row = unspent::UnspentRow { value: prevout.value, is_coinbase: prevout.is_coinbase };
            self.effects.consumed.push((unspent::key(prevout.script, prevout.txnum, prevout.vout), row.encode()));
            let change = HistoryChange { spent: prevout.value.into(), outputs_spent: 1, ..HistoryChange::default() };
            self.effects.history.push((history::key(prevout.script, txnum), change));
        }

        let outputs = &block.outputs[transaction.outputs.clone()];
        let mut output_value = 0_u64;
        for output in outputs {
            output_value = output_value.checked_add(output.value).ok_or_else(too_much)?;
            tally.create(OutputFacts::of(output));
            if let Some(key_hash) = output.p2pk {
                self.effects.p2pk.push((p2pk::key(key_hash, output.script), txnum));
            }
            if height != Height::GENESIS && !output.never_spendable {
                self.receive(output, txnum, is_coinbase);
                if is_coinbase {
                    self.effects.payouts.push(payouts::key(output.script, height));
                }
            }
        }
        if let Some(copy) = self.resolved.duplicates.get(&txnum) {
            self.overwrite(outputs, *copy, txnum, is_coinbase, tally)?;
        }

        let fee = match input_value.checked_sub(output_value) {
            _ if is_coinbase => None,
            Some(fee) => Some(fee),
            None => {
                let what = format!("transaction {} creates more than it spends", transaction.txid);
                return Err(invalid(what));
            }
        };
        tally.transaction(transaction.facts, fee);
        self.effects.fees.push(fee.unwrap_or(0));
        Ok(output_value)
    }

    fn receive(&mut self, output: &BlockOutput, txnum: TxNum, is_coinbase: bool) {
        let row = unspent::UnspentRow { value: output.value, is_coinbase };
        self.effects.created.push((unspent::key(output.script, txnum, output.vout), row.encode()));
        let change = HistoryChange {
            received: output.value.into(),
            outputs_received: 1,
            coinbase_received: if is_coinbase { output.value } else { 0 },
            is_coinbase_payment: is_coinbase,
            ..HistoryChange::default()
        };
        self.effects.history.push((history::key(output.script, txnum), change));
    }

    /// The outputs of an earlier copy that are still unspent leave the UTXO set (BIP30). They are equal to `outputs`,
    /// for the txid is.
    fn overwrite(
        &mut self,
        outputs: &[BlockOutput],
        copy: TxNum,
        txnum: TxNum,
        is_coinbase: bool,
        tally: &mut Tally,
    ) -> Result<(), IndexError> {
        for output in outputs.iter().filter(|output| !output.never_spendable && copy != TxNum(0)) {
            let outpoint = spends::tx_point(copy, output.vout);
            let spent_here = self.effects.spends.iter().any(|(spent, _)| *spent == outpoint);
            let live = self.tables.spends.get(&outpoint)?.map(|by| spends::split_tx_point(by.value()).0);
            let spender = match live {
                Some(spender) => Some(spender),
                None => self.tables.generations.spender(copy, output.vout.to_u32())?.map(|spender| spender.txnum),
            };
            if spent_here || spender.is_some_and(|spender| spender < self.run.first) {
                continue;
            }
            tally.overwrite(output.value, output.script_type);
            self.effects.overwritten.push((outpoint, txnum.to_key()));
            let row = unspent::UnspentRow { value: output.value, is_coinbase };
            self.effects.consumed.push((unspent::key(output.script, copy, output.vout), row.encode()));
            let change =
                HistoryChange { overwritten: output.value.into(), outputs_overwritten: 1, ..HistoryChange::default() };
            self.effects.history.push((history::key(output.script, txnum), change));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_created_and_spent_cancels_but_a_second_spend_stays() {
        let (mut created, mut consumed) = (vec![2, 4, 6], vec![1, 2, 4, 4, 9]);
        drop_common(&mut created, &mut consumed);
        assert_eq!((created, consumed), (vec![6], vec![1, 4, 9]));
    }
}
