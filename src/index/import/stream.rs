//! The blocks again without what the later phases do not need: sizes, counts, and the outputs' values and script keys.

use bitcoin::block::Header;
use bitcoin::consensus::{deserialize, serialize};

use super::super::block::BlockOutput;
use super::super::codec::{Decoder, Encoder, low_byte, put_varint};
use super::super::error::IndexError;
use super::super::keys::{Position, ScriptKey};
use super::super::statistics::{BlockFacts, TransactionFacts};
use super::amount;
use crate::chain::raw::HEADER_SIZE;
use crate::chain::{ScriptType, wide};

/// The flags of an output or input that are its script type. Others are those of its amount.
pub(super) const SCRIPT_TYPE: u8 = 0b1111;
const _: () = assert!(ScriptType::ALL.len() <= 1 + SCRIPT_TYPE as usize, "all types fit");
const NEVER_SPENDABLE: u8 = 1 << 4;
const _: () = assert!(SCRIPT_TYPE & NEVER_SPENDABLE == 0 && (SCRIPT_TYPE | NEVER_SPENDABLE) & amount::SIZE == 0);
/// What every output begins with: flags, script key.
const OUTPUT_HEAD: usize = 1 + 10;
/// The fewest bytes of an output. Its amount has one at least.
const LEAST_OUTPUT: u64 = OUTPUT_HEAD as u64 + 1;

/// The flags of this script type.
pub(super) fn script_type_flags(script_type: ScriptType) -> u8 {
    low_byte(script_type.index())
}

/// The script type of a record with these flags.
pub(super) fn script_type(record: &Decoder<'_>, flags: u8) -> Result<ScriptType, IndexError> {
    let script_type = ScriptType::from_index((flags & SCRIPT_TYPE).into());
    script_type.ok_or_else(|| record.corrupt("has an unknown script type"))
}

/// Writes a block: its transactions, and behind them the outputs of all.
pub(super) struct CompactBlockWriter {
    transactions: Vec<u8>,
    outputs: Vec<u8>,
}

impl CompactBlockWriter {
    /// For a block of so many bytes.
    pub(super) fn of_size(block: usize) -> Self {
        Self { transactions: Vec::new(), outputs: Vec::with_capacity(block / 3) }
    }

    /// Adds a transaction with so many outputs, which follow.
    pub(super) fn transaction(&mut self, facts: TransactionFacts, outputs: usize) {
        let row = &mut self.transactions;
        facts.encode(row);
        put_varint(row, outputs as u64);
    }

    /// Adds an output of the last transaction.
    pub(super) fn output(&mut self, output: &BlockOutput) {
        let row = &mut self.outputs;
        let never_spendable = if output.never_spendable { NEVER_SPENDABLE } else { 0 };
        let mut head = [0; OUTPUT_HEAD];
        head[0] = script_type_flags(output.script_type) | never_spendable | amount::flags(output.value);
        head[1..].copy_from_slice(&output.script.0);
        row.extend_from_slice(&head);
        amount::put(row, output.value);
        if output.script_type == ScriptType::OpReturn {
            put_varint(row, output.script_size.into());
        }
    }

    /// The bytes of the block.
    pub(super) fn finish(self, facts: &BlockFacts) -> Vec<u8> {
        let Self { transactions, outputs } = self;
        let mut stream = Encoder::with_capacity(transactions.len() + outputs.len() + 128);
        stream.bytes(&serialize(&facts.header));
        let BlockFacts { median_time, size, stripped_size, transactions: count, inputs, outputs: created, .. } = *facts;
        for number in [median_time, size, stripped_size, count, inputs, created] {
            stream.varint(number);
        }
        stream.blob(&transactions).blob(&outputs);
        stream.finish()
    }
}

/// Reads the blocks of a range.
pub(super) struct CompactBlocks<'a>(Decoder<'a>);

/// A block. Its outputs can be left unread.
pub(super) struct CompactBlock<'a> {
    pub(super) facts: BlockFacts,
    transactions: Decoder<'a>,
    outputs: Decoder<'a>,
}

impl<'a> CompactBlocks<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(Decoder::new("import", bytes))
    }

    /// The next block, `None` at the end.
    pub(super) fn block(&mut self) -> Result<Option<CompactBlock<'a>>, IndexError> {
        let row = &mut self.0;
        if row.is_empty() {
            return Ok(None);
        }
        let header: Header = deserialize(&row.array::<HEADER_SIZE>()?).map_err(|_| row.corrupt("has no header"))?;
        let facts = BlockFacts {
            hash: header.block_hash(),
            header,
            median_time: row.varint()?,
            size: row.varint()?,
            stripped_size: row.varint()?,
            transactions: row.varint()?,
            inputs: row.varint()?,
            outputs: row.varint()?,
        };
        let [transactions, outputs] = [row.blob()?, row.blob()?].map(|bytes| Decoder::new("import", bytes));
        Ok(Some(CompactBlock { facts, transactions, outputs }))
    }
}

impl CompactBlock<'_> {
    /// The number of outputs of each transaction, which are not read.
    ///
    /// Errors: [`IndexError::Corrupt`] if the block does not have as many transactions, outputs and bytes as it says.
    pub(super) fn output_counts(mut self) -> Result<Vec<u32>, IndexError> {
        let counts = (0..self.facts.transactions).map(|_| Ok(self.transaction()?.1));
        let counts = counts.collect::<Result<Vec<_>, IndexError>>()?;
        let sum: u64 = counts.iter().copied().map(u64::from).sum();
        // the least that `CompactBlockWriter::output` adds
        let least_bytes = sum.saturating_mul(LEAST_OUTPUT);
        if sum != u64::from(self.facts.outputs) || least_bytes > wide(self.outputs.left()) {
            return Err(self.transactions.corrupt("has other outputs than its block says"));
        }
        self.transactions.finish()?;
        Ok(counts)
    }

    /// Ends the block, of which all transactions and outputs must be read.
    ///
    /// Errors: [`IndexError::Corrupt`] if something is left.
    pub(super) fn finish(self) -> Result<(), IndexError> {
        self.transactions.finish()?;
        self.outputs.finish()
    }

    /// The next transaction, and its number of outputs.
    pub(super) fn transaction(&mut self) -> Result<(TransactionFacts, u32), IndexError> {
        let row = &mut self.transactions;
        Ok((TransactionFacts::decode(row)?, row.varint_32()?))
    }

    /// The next output.
    #[expect(
        clippy::inline_always,
        reason = "as a call it copies each output twice, which takes a twentieth of the processor time of an import"
    )]
    #[inline(always)]
    fn output(&mut self, vout: Position) -> Result<BlockOutput, IndexError> {
        let row = &mut self.outputs;
        let flags = row.u8()?;
        let script = ScriptKey(row.array()?);
        let (value, script_type) = (amount::read(row, flags)?, script_type(row, flags)?);
        let script_size = if script_type == ScriptType::OpReturn { row.varint()? } else { 0 };
        let never_spendable = flags & NEVER_SPENDABLE != 0;
        Ok(BlockOutput { vout, script, value, script_type, never_spendable, script_size, p2pk: None })
    }

    /// The next outputs, so many of one transaction.
    pub(super) fn outputs(
        &mut self,
        count: u32,
        mut visit: impl FnMut(BlockOutput) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for vout in 0..count {
            let vout = Position::new(vout).ok_or_else(|| self.outputs.corrupt("has too many outputs"))?;
            visit(self.output(vout)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Network;
    use bitcoin::constants::genesis_block;
    use bitcoin::{Script, opcodes::all::OP_RETURN};

    use super::super::super::keys::Salt;
    use super::*;
    use crate::chain::raw::RawTransaction;

    /// Those of the coinbase of the first block.
    fn facts() -> TransactionFacts {
        let coinbase = serialize(&genesis_block(Network::Regtest).txdata[0]);
        TransactionFacts::of(&RawTransaction::parse_whole(&coinbase).unwrap())
    }

    fn outputs() -> Vec<BlockOutput> {
        let scripts: [&[u8]; 4] = [&[0x51], &[OP_RETURN.to_u8(), 1, 7], &[0; 22], &[]];
        let output = |(vout, script): (u32, &[u8])| {
            BlockOutput::of(
                Salt([3; 16]),
                Position::new(vout).unwrap(),
                u64::from(vout) << 40,
                Script::from_bytes(script),
            )
        };
        (0..).zip(scripts).map(output).collect()
    }

    /// A block of transactions with so many outputs each, whose facts claim `total` outputs.
    fn written(counts: &[usize], total: usize) -> Vec<u8> {
        let mut writer = CompactBlockWriter::of_size(1_000);
        for count in counts {
            writer.transaction(facts(), *count);
            outputs()[..*count].iter().for_each(|output| writer.output(output));
        }
        let header = genesis_block(Network::Regtest).header;
        let number = |count: usize| u32::try_from(count).unwrap();
        let facts = BlockFacts {
            hash: header.block_hash(),
            header,
            median_time: 7,
            size: 1_000,
            stripped_size: 800,
            transactions: number(counts.len()),
            inputs: 5,
            outputs: number(total),
        };
        writer.finish(&facts)
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<BlockOutput>>, IndexError> {
        let mut block = CompactBlocks::of(bytes).block()?.unwrap();
        let mut found = Vec::new();
        for _ in 0..block.facts.transactions {
            let ((found_facts, count), mut outputs) = (block.transaction()?, Vec::new());
            assert_eq!(found_facts, facts());
            block.outputs(count, |output| {
                outputs.push(output);
                Ok(())
            })?;
            found.push(outputs);
        }
        block.finish()?;
        Ok(found)
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let bytes = written(&[4, 0, 2], 6);
        let fields = |output: &BlockOutput| {
            let BlockOutput { vout, script, value, script_type, never_spendable, .. } = *output;
            (vout, script, value, script_type, never_spendable)
        };
        let expected: Vec<_> = [4, 0, 2].map(|count| outputs()[..count].iter().map(fields).collect::<Vec<_>>()).into();
        let found = read(&bytes).unwrap();
        assert_eq!(found[0][1].script_size, 3, "of OP_RETURN the size is kept");
        assert_eq!(found.iter().map(|own| own.iter().map(fields).collect()).collect::<Vec<Vec<_>>>(), expected);
        let mut blocks = CompactBlocks::of(&bytes);
        let counted = blocks.block().unwrap().unwrap();
        assert_eq!((counted.facts.median_time, counted.facts.inputs), (7, 5));
        assert_eq!(counted.output_counts().unwrap(), [4, 0, 2]);
        assert!(blocks.block().unwrap().is_none());
    }

    #[test]
    fn counts_that_the_block_contradicts_are_errors() {
        let counts = |bytes: &[u8]| CompactBlocks::of(bytes).block()?.unwrap().output_counts();
        assert!(counts(&written(&[2, 1], 2)).is_err(), "another sum");
        // two outputs, where the transaction and the facts claim more than fit the bytes
        let mut writer = CompactBlockWriter::of_size(1_000);
        writer.transaction(facts(), 1 << 30);
        outputs()[..2].iter().for_each(|output| writer.output(output));
        let empty = written(&[], 1 << 30);
        let facts = CompactBlocks::of(&empty).block().unwrap().unwrap().facts;
        let bytes = writer.finish(&BlockFacts { transactions: 1, ..facts });
        assert!(counts(&bytes).is_err(), "no bytes for them");
    }

    #[test]
    fn outputs_that_are_left_over_are_an_error() {
        let mut writer = CompactBlockWriter::of_size(1_000);
        writer.transaction(facts(), 1);
        outputs()[..2].iter().for_each(|output| writer.output(output));
        let one = written(&[1], 1);
        let bytes = writer.finish(&CompactBlocks::of(&one).block().unwrap().unwrap().facts);
        assert!(read(&one).is_ok() && read(&bytes).is_err());
    }
}
