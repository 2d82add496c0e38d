//! Joins each output with its spend, range by range of the transactions that create them.

use std::sync::Arc;

use super::super::block::BlockOutput;
use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::frozen::tables::spends::{self, OutputState};
use super::super::hot::tables::overwritten;
use super::super::hot::tables::spends::{SpendingInput, TxPoint, tx_point};
use super::super::keys::TxNum;
use super::super::statistics::OutputFacts;
use super::chain::ImportedChain;
use super::ordered::{ImportThreads, in_order};
use super::progress::{ImportPhase, ReportedProgress};
use super::read::STREAM_BUNDLE;
use super::run_buffers::{RunBuffers, ThreadBuffers};
use super::run_kinds::RunKind;
use super::runs::Runs;
use super::scripts::{Fate, ScriptOutput};
use super::stages::OUTPUTS;
use super::statistics::{InputValue, Statistics};
use super::stream::CompactBlocks;
use super::workspace::Workspace;
use crate::chain::Height;

/// What a range gives, but what went into runs.
struct RangeOutputs {
    stream: Vec<u8>,
    /// All outputs of its blocks.
    outputs: Vec<OutputFacts>,
    first: TxNum,
    spends: spends::PackedOutputs,
    overwritten: Vec<(TxPoint, [u8; 4])>,
}

/// What this phase has between two ranges.
#[derive(Default)]
pub(super) struct OutputsState {
    /// The next range.
    pub(super) next: usize,
    packer: spends::SpendPacker,
    statistics: Statistics,
}

impl OutputsState {
    fn encode(&self, row: &mut Encoder) {
        row.varint(self.next as u64);
        self.packer.encode_state(row);
        self.statistics.encode_state(row);
    }

    pub(super) fn decode(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let (next, packer) = (row.varint()?, spends::SpendPacker::decode_state(row)?);
        Ok(Self { next, packer, statistics: Statistics::decode_state(row)? })
    }
}

/// The runs of this phase, and the buffers before those that it makes.
struct OutputRuns {
    stream: Arc<Runs>,
    spends: Arc<Runs>,
    /// What inputs spend, by the ranges of the inputs.
    inputs: Arc<Runs>,
    /// For outputs by their script keys, and for the inputs.
    buffers: ThreadBuffers<2>,
}

/// Writes `spends` and `overwritten`, and the tables of [`Statistics`], and makes the runs of scripts.
pub(super) fn outputs(
    work: &mut Workspace,
    mut state: OutputsState,
    progress: &mut ReportedProgress<'_>,
) -> Result<(), IndexError> {
    let (ranges, partitions) = (work.chain.ranges.len(), work.chain.partitions());
    progress.begin(ImportPhase::Outputs, state.next, ranges)?;
    let [scripts, inputs] = [(RunKind::Scripts, partitions), (RunKind::Inputs, ranges)]
        .map(|(kind, partitions)| work.runs(kind, Runs::bundle_of(partitions)));
    let threads = ImportThreads::start(work.chain.options.threads)?;
    let memory = work.chain.options.memory / 8 / threads.count();
    let runs = OutputRuns {
        buffers: ThreadBuffers::new(threads.count(), || {
            [scripts.buffers(partitions, memory), inputs.buffers(ranges, memory)]
        }),
        inputs,
        stream: work.runs(RunKind::Stream, STREAM_BUNDLE),
        spends: work.runs(RunKind::Spends, Runs::bundle_of(ranges)),
    };
    while state.next < ranges {
        let clock = work.clock();
        let (chain, builder) = (&work.chain, &mut work.builder);
        let make = |range| runs.buffers.with(|own| outputs_of_range(chain, range, &runs, own));
        in_order(state.next..ranges, &threads, 1, make, |range: RangeOutputs| {
            let mut rows = Vec::new();
            state.packer.append(range.first, &range.spends, &mut rows)?;
            builder.append(spends::TABLE, &rows, Vec::as_slice)?;
            builder.append(overwritten::TABLE, &range.overwritten, |row| row)?;
            // all outputs that this range spends are in it or in ranges that are done
            let inputs = runs.inputs.consume_whole(state.next)?;
            state.statistics.range(chain, builder, range.first, &range.stream, &range.outputs, &inputs)?;
            state.next += 1;
            progress.advance()?;
            Ok(clock.flow(chain))
        })?;
        runs.buffers.flush()?;
        if state.next < ranges {
            work.checkpoint(|row| state.encode(row.bytes(&[OUTPUTS])))?;
        }
    }
    let last: Vec<_> = state.packer.finish().into_iter().collect();
    work.builder.append(spends::TABLE, &last, Vec::as_slice)?;
    state.statistics.finish(&mut work.builder)?;
    [RunKind::Stream, RunKind::Spends, RunKind::Inputs].into_iter().try_for_each(|kind| work.retire(kind))
}

/// The spends of a range, found by their outputs.
struct SpendsByOutput {
    /// Where the outputs of each transaction begin.
    starts: Vec<usize>,
    /// Spending txnum and vin of each output; txnum 0, the coinbase of the first block, spends nothing.
    spenders: Vec<(TxNum, u32)>,
}

fn outputs_of_range(
    chain: &ImportedChain,
    range: usize,
    runs: &OutputRuns,
    [scripts, inputs]: &mut [RunBuffers; 2],
) -> Result<RangeOutputs, IndexError> {
    let (first, end) = chain.range(range);
    let bytes = runs.stream.consume_whole(range)?;
    let counts = counts(&bytes)?;
    let by_output = scatter(chain, first, &counts, |visit| runs.spends.consume(range, visit))?;

    let mut made = RangeOutputs {
        stream: Vec::new(),
        outputs: Vec::with_capacity(by_output.spenders.len()),
        first,
        spends: spends::PackedOutputs::default(),
        overwritten: Vec::new(),
    };
    let (mut stream, mut txnum, mut states) = (CompactBlocks::of(&bytes), first, Vec::new());
    while let Some(mut block) = stream.block()? {
        let facts = block.facts;
        let height = chain.start_of(txnum)?.height;
        for index in 0..facts.transactions {
            let (_, count) = block.transaction()?;
            let later = chain.overwritten.get(&txnum).copied();
            block.outputs(count, |output| {
                let (spender, vin) = by_output.spenders[made.outputs.len()];
                made.outputs.push(OutputFacts::of(&output));
                let is_spent = spender != TxNum(0);
                let is_unspendable = output.never_spendable || height == Height::GENESIS;
                if is_spent && is_unspendable {
                    return Err(chain.invalid(
                        spender,
                        format!("its input {vin} of transaction {spender} spends an output that can never be spent"),
                    ));
                }
                states.push(match (is_spent, is_unspendable) {
                    (true, _) => OutputState::Spent(SpendingInput { txnum: spender, vin }),
                    (false, true) => OutputState::Unspendable,
                    (false, false) => OutputState::Unspent,
                });
                if is_unspendable {
                    return Ok(());
                }
                let fate = match later {
                    _ if is_spent => Fate::Spent(spender),
                    Some(later) => Fate::Overwritten(later),
                    None => Fate::Unspent,
                };
                if let Fate::Overwritten(later) = fate {
                    made.overwritten.push((tx_point(txnum, output.vout), later.to_key()));
                }
                if let Fate::Spent(by) | Fate::Overwritten(by) = fate {
                    let BlockOutput { value, script_type, .. } = output;
                    let is_overwritten = !is_spent;
                    let value = InputValue { by, value, script_type, is_overwritten, median_time: facts.median_time };
                    value.encode(inputs.record(chain.range_of(by))?);
                }
                let BlockOutput { vout, script, value, .. } = output;
                let record = ScriptOutput { script, txnum, vout, value, is_coinbase: index == 0, fate };
                record.encode(scripts.record(chain.partition(script))?);
                Ok(())
            })?;
            made.spends.push(txnum, &states)?;
            states.clear();
            txnum = TxNum(txnum.0.saturating_add(1));
        }
        block.finish()?;
    }
    if txnum != end {
        return Err(IndexError::corrupt("import", "a range has another number of transactions than was counted"));
    }
    // unlike scripts they cannot wait in the buffers: the inputs of a range are read once it is taken, and these may be of this one
    inputs.flush()?;
    made.stream = bytes;
    Ok(made)
}

/// The number of outputs of each transaction of a range.
fn counts(bytes: &[u8]) -> Result<Vec<u32>, IndexError> {
    let (mut stream, mut counts) = (CompactBlocks::of(bytes), Vec::new());
    while let Some(block) = stream.block()? {
        counts.extend(block.output_counts()?);
    }
    Ok(counts)
}

/// Puts the spends of a range where their outputs are.
fn scatter(
    chain: &ImportedChain,
    first: TxNum,
    counts: &[u32],
    read: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError>,
) -> Result<SpendsByOutput, IndexError> {
    let mut starts = Vec::with_capacity(counts.len() + 1);
    let mut outputs = 0;
    starts.push(outputs);
    starts.extend(counts.iter().map(|count| {
        outputs += usize::try_from(*count).unwrap_or_default();
        outputs
    }));
    let mut spends = SpendsByOutput { starts, spenders: vec![(TxNum(0), 0); outputs] };
    read(&mut |chunk| {
        let mut chunk = Decoder::new("import", chunk);
        while !chunk.is_empty() {
            let (txnum, spender) = (TxNum(chunk.u32()?), TxNum(chunk.u32()?));
            let (vout, vin) = (chunk.varint_32()?, chunk.varint_32()?);
            spends.put(first, txnum, vout, spender, vin).map_err(|what| {
                chain.invalid(spender, format!("input {vin} of its transaction {spender} spends an output {what}"))
            })?;
        }
        Ok(())
    })?;
    Ok(spends)
}

impl SpendsByOutput {
    fn put(&mut self, first: TxNum, txnum: TxNum, vout: u32, spender: TxNum, vin: u32) -> Result<(), &'static str> {
        const ABSENT: &str = "that does not exist";
        let at = usize::try_from(txnum.0.wrapping_sub(first.0)).map_err(|_| ABSENT)?;
        let (Some(start), Some(end)) = (self.starts.get(at), self.starts.get(at + 1)) else { return Err(ABSENT) };
        let output = start + usize::try_from(vout).map_err(|_| ABSENT)?;
        match self.spenders.get_mut(output).filter(|_| output < *end) {
            None => Err(ABSENT),
            Some(slot) if slot.0 != TxNum(0) => Err("that is spent already"),
            Some(slot) => {
                *slot = (spender, vin);
                Ok(())
            }
        }
    }
}
