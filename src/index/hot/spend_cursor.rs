//! Who spends outputs, for outputs that follow each other: those of a page of transactions are in few rows.

use super::super::error::IndexError;
use super::super::frozen::KeptRow;
use super::super::hot::tables::spends::SpendingInput;
use super::super::keys::{Position, TxNum};
use super::super::snapshot::Snapshot;
use super::tables::spends::{TxPoint, tx_point};

/// What was read of one snapshot around the output that was asked for last.
#[derive(Debug, Default)]
pub struct SpendCursor {
    /// No live row spends an output from the first on, up to the second.
    live_gap: Option<(TxPoint, Option<TxPoint>)>,
    frozen: Option<KeptRow>,
}

impl SpendCursor {
    fn is_in_live_gap(&self, outpoint: TxPoint) -> bool {
        self.live_gap.is_some_and(|(from, until)| from <= outpoint && until.is_none_or(|until| outpoint < until))
    }
}

impl Snapshot {
    /// Returns what [`Snapshot::spender`] does. `cursor` is the one of earlier calls for this snapshot.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is damaged.
    pub fn spender_near(
        &self,
        cursor: &mut SpendCursor,
        txnum: TxNum,
        vout: u32,
    ) -> Result<Option<SpendingInput>, IndexError> {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let outpoint = tx_point(txnum, vout);
        if !cursor.is_in_live_gap(outpoint) {
            let next = self.spends.range::<&TxPoint>(&outpoint..)?.next().transpose()?;
            let next = next.map(|(outpoint, input)| (*outpoint.value(), *input.value()));
            if let Some((_, input)) = next.filter(|(spent, _)| *spent == outpoint) {
                return Ok(Some(SpendingInput::of_row(&input)));
            }
            cursor.live_gap = Some((outpoint, next.map(|(spent, _)| spent)));
        }
        self.generations.spender_near(&mut cursor.frozen, outpoint)
    }
}
