//! The blocks again without what the later phases do not need: sizes, counts, and the outputs' values and script keys.

use bitcoin::block::Header;
use bitcoin::consensus::{deserialize, serialize};

use super::super::block::BlockOutput;
use super::super::codec::{Decoder, put_varint};
use super::super::error::IndexError;
use super::super::keys::{Position, ScriptKey};
use super::super::statistics::{BlockFacts, TransactionFacts};
use crate::chain::ScriptType;
use crate::chain::raw::HEADER_SIZE;

const NEVER_SPENDABLE: u8 = 1 << 7;

/// Writes a block, which its transactions follow.
pub(super) fn put_block(stream: &mut Vec<u8>, facts: &BlockFacts) {
    stream.extend(serialize(&facts.header));
    let BlockFacts { median_time, size, stripped_size, transactions, inputs, outputs, .. } = *facts;
    for number in [median_time, size, stripped_size, transactions, inputs, outputs] {
        put_varint(stream, number.into());
    }
}

/// Writes a transaction with so many outputs, which follow.
pub(super) fn put_transaction(stream: &mut Vec<u8>, facts: TransactionFacts, outputs: usize) {
    put_varint(stream, facts.size.into());
    put_varint(stream, u64::from(facts.stripped_size) << 1 | u64::from(facts.has_witness));
    put_varint(stream, outputs as u64);
}

pub(super) fn put_output(stream: &mut Vec<u8>, output: &BlockOutput) {
    stream.extend(output.script.0);
    put_varint(stream, output.value);
    let script_type = u8::try_from(output.script_type.index()).unwrap_or(u8::MAX); // there are twelve
    stream.push(script_type | if output.never_spendable { NEVER_SPENDABLE } else { 0 });
    if output.script_type == ScriptType::OpReturn {
        put_varint(stream, output.script_size.into());
    }
}

/// Reads what was written.
pub(super) struct CompactBlocks<'a>(Decoder<'a>);

impl<'a> CompactBlocks<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(Decoder::new("import", bytes))
    }

    /// The next block, `None` at the end.
    pub(super) fn block(&mut self) -> Result<Option<BlockFacts>, IndexError> {
        let row = &mut self.0;
        if row.is_empty() {
            return Ok(None);
        }
        let header: Header = deserialize(&row.array::<HEADER_SIZE>()?).map_err(|_| row.corrupt("has no header"))?;
        Ok(Some(BlockFacts {
            hash: header.block_hash(),
            header,
            median_time: row.varint()?,
            size: row.varint()?,
            stripped_size: row.varint()?,
            transactions: row.varint()?,
            inputs: row.varint()?,
            outputs: row.varint()?,
        }))
    }

    /// The next transaction of the block, and its number of outputs.
    pub(super) fn transaction(&mut self) -> Result<(TransactionFacts, u32), IndexError> {
        let row = &mut self.0;
        let size = row.varint()?;
        let stripped: u64 = row.varint()?;
        let stripped_size = u32::try_from(stripped >> 1).map_err(|_| row.corrupt("has a size that is too large"))?;
        Ok((TransactionFacts { size, stripped_size, has_witness: stripped & 1 == 1 }, row.varint()?))
    }

    /// The next output of the transaction.
    pub(super) fn output(&mut self, vout: Position) -> Result<BlockOutput, IndexError> {
        let row = &mut self.0;
        let script = ScriptKey(row.array()?);
        let value = row.varint()?;
        let flags = row.u8()?;
        let script_type = ScriptType::from_index((flags & !NEVER_SPENDABLE).into());
        let script_type = script_type.ok_or_else(|| row.corrupt("has an unknown script type"))?;
        let script_size = if script_type == ScriptType::OpReturn { row.varint()? } else { 0 };
        let never_spendable = flags & NEVER_SPENDABLE != 0;
        Ok(BlockOutput { vout, script, value, script_type, never_spendable, script_size, p2pk: None })
    }

    /// The outputs of a transaction.
    pub(super) fn outputs(
        &mut self,
        count: u32,
        mut visit: impl FnMut(BlockOutput) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for vout in 0..count {
            let vout = Position::new(vout).ok_or_else(|| self.0.corrupt("has too many outputs"))?;
            visit(self.output(vout)?)?;
        }
        Ok(())
    }
}
