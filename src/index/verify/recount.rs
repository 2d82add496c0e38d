//! Pass 2: reads the stored chain again, together with the outputs that its inputs spend, and recounts every block.

use std::iter::Peekable;

use super::super::block::{BlockTransaction, ParsedBlock, assemble};
use super::super::codec::small;
use super::super::error::IndexError;
use super::super::frozen::tables::positions::BlockOffset;
use super::super::hot::resolve::ResolvedPrevout;
use super::super::hot::tables::blocks::{BlockRow, ChainTotals};
use super::super::hot::tables::history::{self, HistoryChange};
use super::super::hot::tables::spends;
use super::super::hot::tables::transactions::TransactionRow;
use super::super::keys::{Position, TxNum};
use super::super::sorter::{SortedRecords, Sorter};
use super::super::statistics::{BlockFacts, OutputFacts, Tally};
use super::super::witnesses::witnesses_are_committed;
use super::filters::FilterChain;
use super::link::Link;
use super::merged::InOrder;
use super::miners::MinerSums;
use super::report::Differences;
use super::work::{Work, sorting};
use crate::chain::subsidy::subsidy;
use crate::chain::{Height, median_time_past};
use crate::index::Parser;

/// Outputs that are spent, in the order of the inputs that spend them.
type Links = Peekable<std::iter::Flatten<std::option::IntoIter<SortedRecords>>>;

/// What is read beside the blocks.
struct BesideBlocks<'a> {
    links: Links,
    /// The stored fees of transactions in generations.
    positions: InOrder<'a, [u8; 4], BlockOffset>,
    /// Differences that the first pass reported.
    seen: Differences,
    filters: FilterChain,
}

impl Work<'_> {
    pub(super) fn recount(&mut self) -> Result<(), IndexError> {
        let links = self.links.take().map(Sorter::sorted).transpose().map_err(sorting)?;
        let mut beside = BesideBlocks {
            links: links.into_iter().flatten().peekable(),
            positions: self.snapshot.of_each_frozen("positions", |of| of.generation.scan_positions())?,
            seen: Differences::default(),
            filters: FilterChain::default(),
        };
        let (mut before, mut times, mut txnum) = (ChainTotals::zero(), Vec::new(), TxNum(0));
        let mut miners = MinerSums::new();
        let heights = self.snapshot.tip().map_or(0, |tip| tip.height.to_u32() + 1);
        for height in (0..heights).map(Height::from) {
            // the first pass reported a missing row
            let Some(Some(stored)) = self.differences.record(self.snapshot.block(height))? else { return Ok(()) };
            times.push(stored.header.time);
            let Some(block) = self.block(height, &stored, txnum)? else { return Ok(()) };
            let median_time = median_time_past(&times).unwrap_or(stored.header.time);
            self.check_miner(&block, &stored, (height, txnum), &mut miners)?;
            let row = self.recount_block(&block, height, median_time, &before, txnum, &mut beside)?;
            if row.as_ref() != Some(&stored) {
                self.differences
                    .add(format!("blocks: the row at height {height} does not match the totals of its block"));
            }
            self.check_filter(&block, (height, txnum), &mut beside.filters)?;
            txnum = TxNum(txnum.0.saturating_add(small(block.transactions.len())));
            before = stored.running;
        }
        for record in beside.links {
            let link = Link::decode(&record.map_err(sorting)?)?;
            self.differences.superfluous("spends", &spends::tx_point(link.prevout.txnum, link.prevout.vout));
        }
        Ok(())
    }

    /// A block with its witnesses checked. `None`, with a difference recorded, if its rows cannot be assembled.
    fn block(&mut self, height: Height, row: &BlockRow, first: TxNum) -> Result<Option<ParsedBlock>, IndexError> {
        let what = "are not those that its coinbase commits to";
        if height < self.snapshot.first_live_height() {
            // the first pass reported what is wrong with a copy of it
            return self.frozen_block(height, row, first).map(|(block, _)| Some(block));
        }
        let parser = Parser { salt: self.snapshot.salt() };
        let assembled = assemble(row, first, &self.snapshot.transactions);
        match assembled.and_then(|bytes| parser.parse(row.hash, bytes)) {
            Ok(block) => {
                if !witnesses_are_committed(&block) {
                    self.differences.add(format!("transactions: witnesses of the block at height {height} {what}"));
                }
                Ok(Some(block))
            }
            Err(
                error @ (IndexError::Corrupt { .. } | IndexError::Malformed { .. } | IndexError::InvalidBlock { .. }),
            ) => {
                self.differences
                    .add(format!("transactions: the block at height {height} cannot be assembled: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The stored fee of a transaction, `None` with a difference recorded if it cannot be read.
    fn stored_fee(&mut self, txnum: TxNum, beside: &mut BesideBlocks<'_>) -> Result<Option<u64>, IndexError> {
        if txnum < self.snapshot.generations.end() {
            let position = beside.positions.take(&txnum.to_key(), &mut beside.seen)?;
            return Ok(position.map(|position| position.fee.unwrap_or(0)));
        }
        let stored = self.snapshot.transactions.get(&txnum.to_key())?;
        let stored = stored.map(|row| TransactionRow::decode(row.value()).map(|row| row.fee)).transpose();
        Ok(self.differences.record(stored)?.flatten())
    }

    /// The row that the block should have. `None`, with a difference recorded, if its amounts are impossible.
    fn recount_block(
        &mut self,
        block: &ParsedBlock,
        height: Height,
        median_time: u32,
        before: &ChainTotals,
        first: TxNum,
        beside: &mut BesideBlocks<'_>,
    ) -> Result<Option<BlockRow>, IndexError> {
        let subsidy = subsidy(height, self.snapshot.network()).to_sat();
        let mut tally = Tally::new(&BlockFacts::of(block, median_time), height, subsidy, before);
        let mut coinbase_value = 0;
        for (transaction, txnum) in block.transactions.iter().zip((first.0..).map(TxNum)) {
            let output_value = self.recount_outputs(block, transaction, height, txnum, &mut tally)?;
            let input_value = self.recount_inputs(block, transaction, txnum, &mut tally, beside)?;
            for overwritten in self.overwritten.remove(&txnum).unwrap_or_default() {
                tally.overwrite(overwritten.value, overwritten.script_type);
                self.change(history::key(overwritten.script, txnum), Kind::Overwritten, overwritten.value)?;
            }
            let fee = if transaction.inputs.is_empty() {
                coinbase_value = output_value;
                None
            } else {
                input_value.checked_sub(output_value)
            };
            tally.transaction(transaction.facts, fee);
            if self.stored_fee(txnum, beside)? != Some(fee.unwrap_or(0)) {
                let table = if txnum < self.snapshot.generations.end() { "positions" } else { "transactions" };
                self.differences.add(format!("{table}: row {txnum} has a fee that does not follow from its amounts"));
            }
            self.progress("recounting", u64::from(txnum.0) + 1, self.transactions)?;
        }
        match tally.finish(coinbase_value) {
            Ok(row) => Ok(Some(row)),
            Err(IndexError::InvalidBlock { what, .. }) => {
                self.differences.add(format!("blocks: height {height}: {what}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn recount_outputs(
        &mut self,
        block: &ParsedBlock,
        transaction: &BlockTransaction,
        height: Height,
        txnum: TxNum,
        tally: &mut Tally,
    ) -> Result<u64, IndexError> {
        let mut value = 0_u64;
        let kind = if transaction.inputs.is_empty() { Kind::CoinbaseReceived } else { Kind::Received };
        for output in &block.outputs[transaction.outputs.clone()] {
            value = value.saturating_add(output.value);
            tally.create(OutputFacts::of(output));
            if height != Height::GENESIS && !output.never_spendable {
                self.change(history::key(output.script, txnum), kind, output.value)?;
            }
        }
        Ok(value)
    }

    fn recount_inputs(
        &mut self,
        block: &ParsedBlock,
        transaction: &BlockTransaction,
        txnum: TxNum,
        tally: &mut Tally,
        beside: &mut BesideBlocks<'_>,
    ) -> Result<u64, IndexError> {
        let (mut value, links) = (0_u64, &mut beside.links);
        let inputs = &block.inputs[transaction.inputs.clone()];
        for ((txid, vout), vin) in inputs.iter().zip((0..).map_while(Position::new)) {
            let place = spends::tx_point(txnum, vin);
            while let Some(record) = links.next_if(|record| record.as_ref().is_ok_and(|record| record[..7] < place[..]))
            {
                let link = Link::decode(&record.map_err(sorting)?)?;
                self.differences.superfluous("spends", &spends::tx_point(link.prevout.txnum, link.prevout.vout));
            }
            let record = links.next_if(|record| !record.as_ref().is_ok_and(|record| record[..7] != place[..]));
            let link = record.map(|record| Link::decode(&record.map_err(sorting)?)).transpose()?;
            let named = link.as_ref().map(|link| (link.txid, link.prevout.vout.to_u32()));
            match link {
                Some(link) if named == Some((*txid, *vout)) && link.prevout.txnum < txnum => {
                    value = value.saturating_add(link.prevout.value);
                    beside.filters.spend(link.script);
                    let ResolvedPrevout { value, script_type, median_time, .. } = link.prevout;
                    tally.spend(value, script_type, median_time);
                    self.change(history::key(link.prevout.script, txnum), Kind::Spent, link.prevout.value)?;
                }
                _ => {
                    let vin = vin.to_u32();
                    self.differences.add(format!(
                        "spends: input {vin} of transaction {} spends {txid}:{vout}, which no row records",
                        transaction.txid
                    ));
                }
            }
        }
        Ok(value)
    }

    fn change(&mut self, key: history::HistoryKey, kind: Kind, value: u64) -> Result<(), IndexError> {
        self.history.push(&[&key, &[kind as u8], &value.to_be_bytes()]).map_err(sorting)
    }
}

/// What one output or input does to a script.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Received,
    CoinbaseReceived,
    Spent,
    Overwritten,
}

/// The change in a record of [`Work::change`], with its key.
pub(super) fn decode_change(record: &[u8]) -> Option<(history::HistoryKey, HistoryChange)> {
    let (key, rest) = record.split_first_chunk()?;
    let (kind, value) = rest.split_first_chunk::<1>()?;
    let value = u64::from_be_bytes(value.try_into().ok()?);
    let amount = u128::from(value);
    let change = match kind[0] {
        kind if kind == Kind::Received as u8 => {
            HistoryChange { received: amount, outputs_received: 1, ..HistoryChange::default() }
        }
        kind if kind == Kind::CoinbaseReceived as u8 => HistoryChange {
            received: amount,
            outputs_received: 1,
            coinbase_received: value,
            is_coinbase_payment: true,
            ..HistoryChange::default()
        },
        kind if kind == Kind::Spent as u8 => {
            HistoryChange { spent: amount, outputs_spent: 1, ..HistoryChange::default() }
        }
        kind if kind == Kind::Overwritten as u8 => {
            HistoryChange { overwritten: amount, outputs_overwritten: 1, ..HistoryChange::default() }
        }
        _ => return None,
    };
    Some((*key, change))
}
