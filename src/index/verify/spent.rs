//! What became of each output: the rows of `spends`, packed and live, read in the order of the outputs.

use super::super::error::IndexError;
use super::super::frozen::InForce;
use super::super::frozen::tables::spends::OutputState;
use super::super::hot::tables::spends::{TxPoint, split_tx_point, tx_point};
use super::super::keys::{Position, TxNum};
use super::super::snapshot::Snapshot;
use super::merged::{Extent, InOrder, MergedRows, SortedRows, first_u32, in_force, live};
use super::report::{Differences, hex};

/// What a generation says about one of its own outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackedState {
    Unspent,
    Unspendable,
    Spent(TxPoint),
    /// By a transaction of the generation that does not count any more.
    SpentAboveEnd,
}

/// What is stored about an output.
pub(super) struct OutputFate {
    /// The input that spends it.
    pub(super) spender: Option<TxPoint>,
    /// What its generation says; `None` of a live output.
    pub(super) packed: Option<PackedState>,
}

/// The three places that say which input spends an output.
pub(super) struct SpendsReader<'a> {
    packed: InOrder<'a, TxPoint, PackedState>,
    late: InOrder<'a, TxPoint, TxPoint>,
    live: InOrder<'a, TxPoint, TxPoint>,
    /// The first live transaction.
    end: TxNum,
}

impl<'a> SpendsReader<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Result<Self, IndexError> {
        let generations = &snapshot.generations;
        let packed = generations.iter().map(packed).collect::<Result<Vec<_>, _>>()?;
        let late = generations.iter().map(late).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            packed: InOrder::new("spends", packed.into_iter().flatten()),
            late: InOrder::new("late_spends", MergedRows::new(late)),
            live: InOrder::new("spends", live(&snapshot.spends, [0; 7], |value| *value)?),
            end: generations.end(),
        })
    }

    /// What is stored about the next output.
    ///
    /// Errors: storage errors. Rows that are damaged, of no output, or contradict each other are differences.
    pub(super) fn take(&mut self, outpoint: TxPoint, differences: &mut Differences) -> Result<OutputFate, IndexError> {
        let live = self.live.take(&outpoint, differences)?;
        if TxNum(first_u32(&outpoint)) >= self.end {
            return Ok(OutputFate { spender: live, packed: None });
        }
        let (packed, late) = (self.packed.take(&outpoint, differences)?, self.late.take(&outpoint, differences)?);
        let own = match packed {
            Some(PackedState::Spent(spender)) => Some(spender),
            Some(_) => None,
            None => {
                differences.add(format!("spends: output {} is missing in its generation", hex(&outpoint)));
                None
            }
        };
        if own.is_some() && late.is_some() {
            differences.add(format!("late_spends: row {} is of an output that is spent before", hex(&outpoint)));
        }
        let frozen = own.or(late);
        // until it is deleted, a live row may repeat what was frozen
        let is_frozen = |spender: &TxPoint| split_tx_point(spender).0 < self.end;
        if live.is_some_and(|live| frozen != Some(live) && (frozen.is_some() || is_frozen(&live))) {
            differences.add(format!("spends: the live row {} contradicts the generations", hex(&outpoint)));
        }
        Ok(OutputFate { spender: live.or(frozen), packed })
    }

    /// Reports rows behind the last output.
    ///
    /// Errors: as [`SpendsReader::take`].
    pub(super) fn finish(self, differences: &mut Differences) -> Result<(), IndexError> {
        self.packed.finish(differences)?;
        self.late.finish(differences)?;
        self.live.finish(differences)
    }
}

/// The outputs of a generation.
fn packed(of: &InForce) -> Result<SortedRows<'static, TxPoint, PackedState>, IndexError> {
    let extent = Extent::of_txnums(of);
    let outputs = in_force("spends", of.generation.scan_spends()?, extent.clone(), |key, _| first_u32(key));
    Ok(Box::new(outputs.map(move |output| {
        let (outpoint, state) = output?;
        let state = match state {
            OutputState::Unspent => PackedState::Unspent,
            OutputState::Unspendable => PackedState::Unspendable,
            OutputState::Spent(spender) => {
                let wrong = || IndexError::corrupt("spends", format!("output {} has no such spender", hex(&outpoint)));
                let vin = Position::new(spender.vin).ok_or_else(wrong)?;
                if extent.counts(spender.txnum.0).ok_or_else(wrong)? {
                    PackedState::Spent(tx_point(spender.txnum, vin))
                } else {
                    PackedState::SpentAboveEnd
                }
            }
        };
        Ok((outpoint, state))
    })))
}

/// The outputs of older generations that a generation spends.
fn late(of: &InForce) -> Result<SortedRows<'static, TxPoint, TxPoint>, IndexError> {
    let extent = Extent::of_txnums(of);
    let first = extent.first();
    let rows = in_force("late_spends", of.generation.scan_late_spends()?, extent, |_, spender| first_u32(spender));
    Ok(Box::new(rows.map(move |row| {
        let (outpoint, spender) = row?;
        if first_u32(&outpoint) < first {
            return Ok((outpoint, spender));
        }
        Err(IndexError::corrupt("late_spends", format!("row {} is not of an older generation", hex(&outpoint))))
    })))
}
