//! How blocks compare with the ones that were projected before they arrived, summed over many.

use std::collections::BTreeMap;
use std::ops::Range;

use super::View;
use super::observed::damaged_audit;
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::index::IndexError;
use crate::mempool::BlockAudit;

/// The blocks of the active chain within a range that were compared: the match rate of each ([`BlockAudit::match_rate`]), and the
/// fees of the projected block in sat.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedBlocks(BTreeMap<Height, (f64, u64)>);

/// Sums over compared blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComparedTotals {
    /// The number of the blocks.
    pub blocks: u32,
    /// The sum of their match rates.
    pub match_rates: f64,
    /// The sum of their fees, in sat.
    pub fees: u64,
    /// The sum of the fees of the projected blocks, in sat.
    pub projected_fees: u64,
}

impl ComparedBlocks {
    /// The ranges of heights at which each block was compared, lowest first.
    fn runs(&self) -> Vec<Range<Height>> {
        let mut runs: Vec<Range<Height>> = Vec::new();
        for height in self.0.keys() {
            match runs.last_mut() {
                Some(run) if run.end == *height => run.end = height.next(),
                _ => runs.push(*height..height.next()),
            }
        }
        runs
    }
}

impl ComparedTotals {
    fn add(&mut self, (match_rate, projected_fees): (f64, u64)) {
        self.blocks = self.blocks.saturating_add(1);
        self.match_rates += match_rate;
        self.projected_fees = self.projected_fees.saturating_add(projected_fees);
    }
}

impl View {
    /// The blocks of the active chain at these heights that were compared with a projected one. `count` is called for each row that
    /// is read.
    ///
    /// Errors: those of the index and of `count`.
    pub fn compared_blocks<E: From<IndexError>>(
        &self,
        heights: Range<Height>,
        mut count: impl FnMut() -> Result<(), E>,
    ) -> Result<ComparedBlocks, E> {
        let mut found = BTreeMap::new();
        for row in self.head.chain.audits(heights, BlockAudit::HEAD_BYTES)? {
            count()?;
            let (block, audit) = row?;
            if !audit.is_empty() && self.head.chain.block_hash(block.height)? == block.hash {
                let figures = BlockAudit::decode_head(&audit).map_err(|error| damaged_audit(block.hash, &error))?;
                found.insert(block.height, figures);
            }
        }
        Ok(ComparedBlocks(found))
    }

    /// The sums over all compared blocks. `count` is called for each range of them without a gap: two rows are read.
    ///
    /// Errors: those of the index and of `count`.
    pub fn compared_totals<E: From<IndexError>>(
        &self,
        compared: &ComparedBlocks,
        mut count: impl FnMut() -> Result<(), E>,
    ) -> Result<ComparedTotals, E> {
        let mut totals = ComparedTotals::default();
        for run in compared.runs() {
            count()?;
            let blocks = self.range(run.start, run.end.previous().unwrap_or(run.start))?;
            totals.fees = totals.fees.saturating_add(blocks.sum(|totals| totals.fees)?);
        }
        for figures in compared.0.values() {
            totals.add(*figures);
        }
        Ok(totals)
    }

    /// The sums over those of the compared blocks that are ascribed to a pool, or to none. `count` is called for each range of compared
    /// blocks without a gap, with the number of the pool's in it, before these are read.
    ///
    /// Errors: those of `count`, [`IndexError::MinersNotReady`].
    pub fn compared_totals_of<E: From<IndexError>>(
        &self,
        compared: &ComparedBlocks,
        miner: Option<PoolId>,
        mut count: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<ComparedTotals, E> {
        let mut totals = ComparedTotals::default();
        for run in compared.runs() {
            let own = self.miner_totals(miner, &run)?;
            count(own.blocks)?;
            if own.blocks == 0 {
                continue;
            }
            totals.fees = totals.fees.saturating_add(own.fees);
            for height in self.miner_blocks(miner, &run, true)? {
                if let Some(figures) = compared.0.get(&height?) {
                    totals.add(*figures);
                }
            }
        }
        Ok(totals)
    }
}
