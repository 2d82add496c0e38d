//! The outputs of a generation that are unspent at its end and have no row in its `unspent`, because a reorganisation shortened
//! it: blocks that it lost spent or overwrote them. Their scripts and values are read from the bytes of their transactions.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::error::IndexError;
use super::super::hot::tables::block_starts::Occurrence;
use super::super::hot::tables::spends::{TxPoint, split_tx_point};
use super::super::hot::tables::unspent::{self, UnspentKeyBytes, UnspentRow, UnspentValue};
use super::super::keys::{Salt, TxNum};
use super::super::raw::RawSources;
use super::super::sorter::Sorter;
use super::builder::sorted_rows;
use super::derive::with_block;
use super::generation::scan::PackedEntries;
use super::in_force::InForce;
use super::tables::spends::OutputState;
use crate::chain::Height;

/// Memory for sorting the rows.
const SORT: usize = 16 << 20;

/// Where rows are read from, and sorted.
#[derive(Clone, Copy)]
pub(super) struct RowSources<'a> {
    pub(super) raw: &'a RawSources,
    pub(super) salt: Salt,
    /// For temporary files.
    pub(super) directory: &'a Path,
    /// Ends the work when it is raised.
    pub(super) stop: &'a AtomicBool,
}

/// Their rows, in the order of the keys; `None` for a generation that is whole. Reads all spends of one that is shortened.
///
/// Errors: [`IndexError::RawUnavailable`] if a block cannot be read; [`IndexError::Interrupted`]; storage errors.
pub(super) fn unspent_again(
    in_force: &InForce,
    sources: RowSources<'_>,
) -> Result<Option<PackedEntries<UnspentKeyBytes, UnspentValue>>, IndexError> {
    if in_force.is_whole() {
        return Ok(None);
    }
    let (generation, end) = (&in_force.generation, in_force.end);
    let rows = Sorter::new(sources.directory, SORT);
    let mut restored = RestoredOutputs { in_force, sources, rows, height: Height::GENESIS, outputs: Vec::new() };
    for row in generation.scan_spends()? {
        let (outpoint, state) = row?;
        if state.spender().is_some_and(|spender| spender.txnum >= end) {
            restored.push(outpoint)?;
        }
        if sources.stop.load(Ordering::Relaxed) {
            return Err(IndexError::Interrupted);
        }
    }
    for row in generation.scan_overwritten()? {
        let (outpoint, later) = row?;
        if TxNum::from_key(later) >= end {
            restored.push(outpoint)?;
        }
    }
    restored.finish().map(Some)
}

/// What became of an output up to the end of its generation.
pub(super) fn state_at_end(in_force: &InForce, state: OutputState) -> OutputState {
    match state {
        OutputState::Spent(spender) if spender.txnum >= in_force.end => OutputState::Unspent,
        state => state,
    }
}

/// Outputs, whose blocks are read one by one.
struct RestoredOutputs<'a> {
    in_force: &'a InForce,
    sources: RowSources<'a>,
    rows: Sorter,
    /// The block of those that are not read yet.
    height: Height,
    /// These, each with the index of its transaction in the block.
    outputs: Vec<(u32, TxPoint)>,
}

impl RestoredOutputs<'_> {
    /// Adds an output, unless the generation does not have it up to its end.
    fn push(&mut self, outpoint: TxPoint) -> Result<(), IndexError> {
        let (txnum, _) = split_tx_point(&outpoint);
        let missing = || IndexError::corrupt("block_starts", format!("the block of transaction {txnum} is missing"));
        if !self.in_force.has(txnum) {
            return Ok(());
        }
        let Occurrence { height, index } = self.in_force.generation.occurrence(txnum)?.ok_or_else(missing)?;
        if height != self.height {
            self.read_block()?;
            self.height = height;
        }
        self.outputs.push((index, outpoint));
        Ok(())
    }

    /// Reads the block of the outputs that are not read yet.
    fn read_block(&mut self) -> Result<(), IndexError> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        let (salt, outputs) = (self.sources.salt, std::mem::take(&mut self.outputs));
        let mut found = Vec::with_capacity(outputs.len());
        with_block(&self.in_force.generation, self.sources.raw, self.height, |block| {
            for (index, outpoint) in &outputs {
                let (txnum, vout) = split_tx_point(outpoint);
                let transaction = usize::try_from(*index).ok().and_then(|index| block.transactions.get(index));
                let output = transaction.and_then(|transaction| transaction.output(vout.to_u32()));
                found.extend(output.map(|output| {
                    let row = UnspentRow { value: output.value, is_coinbase: *index == 0 };
                    (unspent::key(salt.script_key(output.script_pubkey), txnum, vout), row.encode())
                }));
            }
        })?;
        if found.len() != outputs.len() {
            let what = format!("a row has outputs that the block at height {} does not have", self.height);
            return Err(IndexError::corrupt("spends", what));
        }
        for (key, row) in found {
            self.rows.push(&[&key, &row]).map_err(IndexError::Sorting)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<PackedEntries<UnspentKeyBytes, UnspentValue>, IndexError> {
        self.read_block()?;
        Ok(Box::new(sorted_rows(self.rows)?))
    }
}
