//! Fees and the statistics of blocks, from what their inputs spend.

use redb::ReadableTable;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::frozen::builder::GenerationBuilder;
use super::super::frozen::tables::blocks;
use super::super::frozen::tables::positions::{self, BlockOffset};
use super::super::hot::tables::blocks::{ChainTotals, key};
use super::super::keys::TxNum;
use super::super::statistics::{OutputFacts, Tally};
use super::amount;
use super::chain::ImportedChain;
use super::place::place;
use super::stream::{CompactBlocks, SCRIPT_TYPE, script_type, script_type_flags};
use crate::chain::ScriptType;
use crate::chain::subsidy::subsidy;

/// A flag of an input, beside those of its script type and amount.
const OVERWRITTEN: u8 = 1 << 4;
const _: () = assert!(OVERWRITTEN & (SCRIPT_TYPE | amount::SIZE) == 0, "no flag is another");
/// What every input begins with: flags, txnum, median time.
const INPUT_HEAD: usize = 1 + 4 + 4;

/// An output that a transaction spends or overwrites.
#[derive(Clone, Copy)]
pub(super) struct InputValue {
    /// The transaction that does.
    pub(super) by: TxNum,
    /// In sat.
    pub(super) value: u64,
    pub(super) script_type: ScriptType,
    pub(super) is_overwritten: bool,
    /// Of the block that created it.
    pub(super) median_time: u32,
}

impl InputValue {
    pub(super) fn encode(&self, record: &mut Vec<u8>) {
        let is_overwritten = if self.is_overwritten { OVERWRITTEN } else { 0 };
        let mut head = [0; INPUT_HEAD];
        head[0] = script_type_flags(self.script_type) | is_overwritten | amount::flags(self.value);
        head[1..5].copy_from_slice(&self.by.to_key());
        head[5..].copy_from_slice(&self.median_time.to_be_bytes());
        record.extend_from_slice(&head);
        amount::put(record, self.value);
    }

    fn decode(record: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let (flags, by, median_time) = (record.u8()?, TxNum(record.u32()?), record.u32()?);
        let (value, script_type) = (amount::read(record, flags)?, script_type(record, flags)?);
        Ok(Self { by, value, script_type, is_overwritten: flags & OVERWRITTEN != 0, median_time })
    }
}

/// Computes the statistics of the blocks, in their order.
pub(super) struct Statistics {
    packer: positions::PositionPacker,
    /// The totals of the chain so far; `None` after resuming, because the last row of `blocks` has them.
    running: Option<ChainTotals>,
    /// Memory for the inputs of a range: as they are read, and in the order of their transactions.
    inputs: [Vec<InputValue>; 2],
}

impl Default for Statistics {
    fn default() -> Self {
        Self { packer: positions::PositionPacker::new(TxNum(0)), running: None, inputs: Default::default() }
    }
}

impl Statistics {
    /// Writes what is in no row yet, for [`Statistics::decode_state`].
    pub(super) fn encode_state(&self, state: &mut Encoder) {
        self.packer.encode_state(state);
    }

    pub(super) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(Self { packer: positions::PositionPacker::decode_state(state)?, running: None, inputs: Default::default() })
    }

    /// Writes the rows of `positions` and `blocks` of the next range, which begins with `first`, from its blocks, their
    /// outputs, and records of all outputs that its transactions spend and overwrite.
    ///
    /// Errors: [`IndexError::InvalidBlock`] for impossible amounts; storage errors.
    pub(super) fn range(
        &mut self,
        chain: &ImportedChain,
        builder: &mut GenerationBuilder,
        first: TxNum,
        stream: &[u8],
        mut outputs: &[OutputFacts],
        inputs: &[u8],
    ) -> Result<(), IndexError> {
        let mut memory = std::mem::take(&mut self.inputs);
        let inputs = inputs_by_transaction(chain.range(chain.range_of(first)), inputs, &mut memory)?;
        let mut running = match self.running.take() {
            Some(running) => running,
            None => builder.with_table(blocks::TABLE, |table| last_totals(table))?,
        };
        let (mut rows, mut position_rows) = (Vec::new(), Vec::new());
        let (mut stream, mut txnum) = (CompactBlocks::of(stream), first);
        let mut inputs = inputs.iter().peekable();
        while let Some(mut block) = stream.block()? {
            let facts = block.facts;
            let height = chain.start_of(txnum)?.height;
            let subsidy = subsidy(height, chain.options.network).to_sat();
            let mut tally = Tally::new(&facts, height, subsidy, &running);
            let mut coinbase_value = 0;
            let mut offset = positions::first_offset(facts.transactions);
            for index in 0..facts.transactions {
                let (transaction, output_count) = block.transaction()?;
                let invalid = |what: &str| chain.invalid(txnum, format!("its transaction {txnum} {what}"));
                let too_much = || invalid("moves more coins than can exist");
                let mut output_value = 0_u64;
                let own = outputs.split_off(..usize::try_from(output_count).unwrap_or(usize::MAX));
                let own = own.ok_or_else(|| IndexError::corrupt("import", "outputs of a range are missing"))?;
                for output in own {
                    tally.create(*output);
                    output_value = output_value.checked_add(output.value).ok_or_else(too_much)?;
                }
                let mut input_value = 0_u64;
                while let Some(input) = inputs.next_if(|input| input.by == txnum) {
                    if input.is_overwritten {
                        tally.overwrite(input.value, input.script_type);
                    } else {
                        tally.spend(input.value, input.script_type, input.median_time);
                        input_value = input_value.checked_add(input.value).ok_or_else(too_much)?;
                    }
                }
                let fee = if index == 0 {
                    coinbase_value = output_value;
                    None
                } else {
                    let fee = input_value.checked_sub(output_value);
                    Some(fee.ok_or_else(|| invalid("creates more than it spends"))?)
                };
                tally.transaction(transaction, fee);
                position_rows.extend(self.packer.push(&BlockOffset { offset, length: transaction.size, fee }));
                offset = offset.saturating_add(transaction.size);
                txnum = TxNum(txnum.0.saturating_add(1));
            }
            let row = tally.finish(coinbase_value)?;
            running = row.running.clone();
            rows.push((key(height), blocks::encode(&row)));
        }
        (self.running, self.inputs) = (Some(running), memory);
        builder.append(blocks::TABLE, &rows, Vec::as_slice)?;
        builder.append(positions::TABLE, &position_rows, Vec::as_slice)
    }

    /// Writes the last row.
    pub(super) fn finish(self, builder: &mut GenerationBuilder) -> Result<(), IndexError> {
        let last: Vec<_> = self.packer.finish().into_iter().collect();
        builder.append(positions::TABLE, &last, Vec::as_slice)
    }
}

/// The outputs that the transactions of a range spend or overwrite, in the order of these.
fn inputs_by_transaction<'m>(
    (first, end): (TxNum, TxNum),
    records: &[u8],
    [inputs, placed]: &'m mut [Vec<InputValue>; 2],
) -> Result<&'m [InputValue], IndexError> {
    const NONE: InputValue =
        InputValue { by: TxNum(0), value: 0, script_type: ScriptType::P2pk, is_overwritten: false, median_time: 0 };
    let place_of = |input: &InputValue| usize::try_from(input.by.0.wrapping_sub(first.0)).unwrap_or(usize::MAX);
    let mut records = Decoder::new("import", records);
    let mut counts = vec![0; usize::try_from(end.0 - first.0).unwrap_or(0)];
    inputs.clear();
    while !records.is_empty() {
        let input = InputValue::decode(&mut records)?;
        *counts.get_mut(place_of(&input)).ok_or_else(|| records.corrupt("is of another range"))? += 1;
        inputs.push(input);
    }
    // there are some for nearly every transaction, so placing them takes less time than sorting; all of them are overwritten
    placed.resize(inputs.len(), NONE);
    place(inputs, &mut counts, place_of, placed);
    Ok(placed)
}

/// The totals of the last row, which are zero before the first.
fn last_totals(table: &impl ReadableTable<&'static [u8; 4], &'static [u8]>) -> Result<ChainTotals, IndexError> {
    let last = table.last()?.map(|(_, row)| blocks::decode(row.value())).transpose()?;
    Ok(last.map_or_else(ChainTotals::zero, |row| row.running))
}
