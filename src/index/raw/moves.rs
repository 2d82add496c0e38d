//! Brings the bytes of blocks to where they are stored: into the raw files when blocks are frozen or their storage changes, and
//! back to the node alone.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::block::{Parser, assemble};
use super::super::error::IndexError;
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::super::snapshot::Snapshot;
use super::sources::unavailable;
use crate::chain::Height;

/// How many of the frozen blocks are in the raw files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawProgress {
    /// The lowest frozen block that is not in them; `None` if all are.
    pub first_missing: Option<Height>,
    /// Bytes of those from there on that are not in them.
    pub missing_bytes: u64,
    /// Bytes of those that are.
    pub stored_bytes: u64,
    /// Bytes of all frozen blocks.
    pub frozen_bytes: u64,
}

impl Snapshot {
    /// How many of the frozen blocks are in the raw files, of which all below `from` are not looked at.
    ///
    /// Errors: storage errors.
    pub fn raw_progress(&self, from: Height) -> Result<RawProgress, IndexError> {
        let (own, frozen) = (self.generations.raw().own(), self.frozen());
        let frozen_bytes =
            frozen.map_or(Ok(0), |frozen| Ok::<_, IndexError>(self.block_row(frozen.height)?.running.size))?;
        let first_missing = own.first_missing(from);
        let behind = frozen.filter(|last| first_missing <= last.height);
        let missing_bytes = behind.map_or(Ok(0), |last| {
            let bytes = self.bytes_of_blocks(first_missing..=last.height)?;
            Ok::<_, IndexError>(bytes.saturating_sub(own.bytes_from(first_missing)))
        })?;
        Ok(RawProgress {
            first_missing: behind.map(|_| first_missing),
            missing_bytes,
            stored_bytes: own.bytes(),
            frozen_bytes,
        })
    }

    /// The bytes of blocks of the active chain.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn bytes_of_blocks(&self, heights: RangeInclusive<Height>) -> Result<u64, IndexError> {
        let below = heights
            .start()
            .previous()
            .map_or(Ok(0), |below| Ok::<_, IndexError>(self.block_row(below)?.running.size))?;
        Ok(self.block_row(*heights.end())?.running.size.saturating_sub(below))
    }

    /// Checks that the node returns the bytes of these live blocks.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if it does not, or returns others; `Interrupted` once `stop` is raised; storage
    /// errors.
    pub fn check_raw_blocks(&self, heights: RangeInclusive<Height>, stop: &AtomicBool) -> Result<(), IndexError> {
        let sources = self.generations.raw();
        self.each_live_block(heights, stop, |block, expected| {
            let length = u32::try_from(expected.len()).unwrap_or(u32::MAX);
            let check = |found: Vec<u8>| {
                if found == expected {
                    Ok(())
                } else {
                    Err("the bytes that were returned are another block's".to_owned())
                }
            };
            sources.read_node(block, 0, length, check).map_err(|why| unavailable(block, why))
        })
    }

    /// Appends these live blocks to the raw files durably. They are named when their generation is put into force.
    ///
    /// Errors: [`IndexError::File`], `DiskFull`; `Interrupted` once `stop` is raised; storage errors.
    pub fn store_raw_blocks(&self, heights: RangeInclusive<Height>, stop: &AtomicBool) -> Result<(), IndexError> {
        let own = self.generations.raw().own();
        own.keep_tail(&[])?;
        self.each_live_block(heights, stop, |block, bytes| own.append(block.hash, &bytes))?;
        own.sync()
    }

    /// Visits live blocks with their bytes.
    fn each_live_block(
        &self,
        heights: RangeInclusive<Height>,
        stop: &AtomicBool,
        mut visit: impl FnMut(Tip, Vec<u8>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut txnum = self.range_of(heights.clone())?.txnums.0;
        for height in (heights.start().to_u32()..=heights.end().to_u32()).map(Height::from) {
            if stop.load(Ordering::Relaxed) {
                return Err(IndexError::Interrupted);
            }
            let row = self.block_row(height)?;
            visit(Tip { height, hash: row.hash }, assemble(&row, txnum, &self.transactions)?)?;
            txnum = TxNum(txnum.0.saturating_add(row.transactions));
        }
        Ok(())
    }

    /// Appends frozen blocks from a height on to the raw files that do not have them yet, durably, until `watch` breaks, which
    /// is called after each. Returns their heights: [`Index::name_raw_blocks`](super::super::Index::name_raw_blocks)
    /// has them read from there.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if the node does not return the first of them; `File`, `DiskFull`; storage errors.
    pub fn copy_raw_blocks(
        &self,
        from: Height,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Height>, IndexError> {
        let (sources, mut copied) = (self.generations.raw(), Vec::new());
        let own = sources.own();
        own.keep_tail(&[])?;
        let last = self.frozen().map_or(0, |frozen| frozen.height.to_u32().saturating_add(1));
        for height in (from.to_u32()..last).map(Height::from).filter(|height| !own.has(*height)) {
            let row = self.block_row(height)?;
            let block = match sources.block_of_node(Tip { height, hash: row.hash }, row.size, self.parser()) {
                // the next call meets it again
                Err(_) if !copied.is_empty() => break,
                block => block?,
            };
            own.append(row.hash, &block.bytes)?;
            copied.push(height);
            if watch().is_break() {
                break;
            }
        }
        own.sync()?;
        Ok(copied)
    }

    /// Reads frozen blocks from a height on back from the node, until `watch` breaks, which is called after each. Returns
    /// the last of them, `None` if there is none.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if the node does not return the first of them; storage errors.
    pub fn read_back_raw_blocks(
        &self,
        from: Height,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Tip>, IndexError> {
        let end = self.frozen().map_or(0, |frozen| frozen.height.to_u32().saturating_add(1));
        let mut last = None;
        for height in (from.to_u32()..end).map(Height::from) {
            let row = self.block_row(height)?;
            let block = Tip { height, hash: row.hash };
            match self.generations.raw().block_of_node(block, row.size, self.parser()) {
                Err(_) if last.is_some() => break,
                read => read?,
            };
            last = Some(block);
            if watch().is_break() {
                break;
            }
        }
        Ok(last)
    }

    fn parser(&self) -> Parser {
        Parser { salt: self.salt() }
    }

    fn block_row(&self, height: Height) -> Result<BlockRow, IndexError> {
        let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
        self.block(height)?.ok_or_else(missing)
    }
}
