//! The table `miner_blocks`: every block below the height that `meta` has must have the row that its coinbase and the table of
//! pools give it, and there must be no other row.

use std::collections::HashMap;

use super::super::block::ParsedBlock;
use super::super::error::IndexError;
use super::super::hot::miners::miner_of;
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tables::miner_blocks::{self, MinerTotals, MinersState, NAME};
use super::super::keys::TxNum;
use super::merged::live;
use super::report::TableReport;
use super::work::Work;
use crate::chain::Height;
use crate::chain::pools::PoolId;

/// The totals of each miner up to the block that was recounted last.
pub(super) type MinerSums = HashMap<Option<PoolId>, MinerTotals>;

impl Work<'_> {
    /// The height below which each block must have a row by the pools of the check; `None` if the rows are of other pools or
    /// are being deleted.
    fn rows_of_miners(&self) -> Option<Height> {
        match self.snapshot.miners_state {
            MinersState::Derived { fingerprint, next } if fingerprint == self.snapshot.pools().fingerprint() => {
                Some(next)
            }
            MinersState::Absent => Some(Height::GENESIS),
            _ => None,
        }
    }

    /// Compares the row of a block.
    pub(super) fn check_miner(
        &mut self,
        block: &ParsedBlock,
        row: &BlockRow,
        (height, first): (Height, TxNum),
        sums: &mut MinerSums,
    ) -> Result<(), IndexError> {
        if self.rows_of_miners().is_none_or(|next| height >= next) {
            return Ok(());
        }
        let miner = miner_of(block, first, self.snapshot.pools())?;
        let before = sums.get(&miner).copied().unwrap_or_default();
        let expected = before.checked_add(MinerTotals::of(row)).unwrap_or(before);
        sums.insert(miner, expected);
        let table = self.snapshot.miner_blocks.as_ref();
        let stored = table.map(|table| table.get(&miner_blocks::key(miner, height))).transpose()?.flatten();
        match stored.map(|stored| MinerTotals::decode(stored.value())) {
            Some(stored) if stored == expected => {}
            Some(_) => self.differences.add(format!("{NAME}: the row at height {height} differs from what it must be")),
            None => self.differences.add(format!("{NAME}: the row at height {height} is missing")),
        }
        Ok(())
    }

    /// Hashes and counts the rows. `None` while they are of other pools or are being deleted.
    pub(super) fn compare_miners(&mut self) -> Result<Option<TableReport>, IndexError> {
        let snapshot = self.snapshot;
        let Some(expected) = self.rows_of_miners() else { return Ok(None) };
        let rows =
            snapshot.miner_blocks.as_ref().map(|table| live(table, [0; 6], |value: &[u8; 24]| *value)).transpose()?;
        let report = self.compare_row_of_each_block(NAME, expected, rows.into_iter().flatten())?;
        Ok(Some(report))
    }
}
