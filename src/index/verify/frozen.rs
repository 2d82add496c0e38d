//! The generations themselves, and the blocks that they have.

use bitcoin::BlockHash;

use super::super::block::{ParsedBlock, Parser};
use super::super::error::IndexError;
use super::super::frozen::InForce;
use super::super::hot::tables::block_files::BlockFileRow;
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tables::spends;
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::merged::{Extent, first_u32, in_force};
use super::work::Work;
use crate::chain::Height;
use crate::chain::raw::MAX_BLOCK_SIZE;

impl Work<'_> {
    /// Checks the facts about generations, and that their blocks are a chain, so that their bytes can be requested
    /// by their hashes. Returns whether they can, and the highest of the blocks.
    pub(super) fn check_generations(&mut self) -> Result<(bool, Option<BlockHash>), IndexError> {
        let snapshot = self.snapshot;
        let (mut below, mut first, mut txnum) = (None, 0_u32, TxNum(0));
        let mut are_linked = true;
        for of in snapshot.generations.iter() {
            self.check_facts(of)?;
            for height in (first..=of.last.height.to_u32()).map(Height::from) {
                let Some(row) = self.differences.record(snapshot.block(height))?.flatten() else {
                    self.differences.add(format!("blocks: the row at height {height} is missing or damaged"));
                    return Ok((false, below));
                };
                are_linked &= self.check_links(height, &row, below.replace(row.hash));
                txnum = TxNum(txnum.0.saturating_add(row.transactions));
            }
            first = of.last.height.to_u32().saturating_add(1);
            if below != Some(of.last.hash) || txnum != of.end {
                self.differences.add(format!(
                    "meta: generation {} ends at another block or transaction than its rows at height {}",
                    of.name, of.last.height
                ));
                are_linked &= below == Some(of.last.hash);
                txnum = of.end;
            }
        }
        Ok((are_linked, below))
    }

    /// Checks what a generation says about all of it. Opening it checked where it begins and ends.
    fn check_facts(&mut self, of: &InForce) -> Result<(), IndexError> {
        for (table, rows, recorded) in of.generation.miscounted()? {
            self.differences.add(format!("{table}: generation {} has {rows} rows, but counted {recorded}", of.name));
        }
        self.differences.record(of.generation.check_filters())?;
        for row in in_force("blocks", of.generation.scan_blocks()?, Extent::of_heights(of), |key, ()| first_u32(key)) {
            self.differences.record(row)?;
        }
        Ok(())
    }

    /// Reads which outputs in force are overwritten by transactions of their own generation, also of those that do not count
    /// any more: the generation has no row of them in `unspent`. Outputs above its end are those of a later generation.
    pub(super) fn read_own_overwritten(&mut self) -> Result<(), IndexError> {
        for of in self.snapshot.generations.iter() {
            for row in of.generation.scan_overwritten()? {
                // damage is reported when the table is compared
                let Ok((outpoint, _)) = row else { continue };
                let funding = spends::split_tx_point(&outpoint).0;
                if of.first() <= funding && funding < of.end {
                    self.own_overwritten.insert(outpoint);
                }
            }
        }
        Ok(())
    }

    /// Checks that the raw files of the index have no blocks that are not frozen.
    pub(super) fn check_raw_rows(&mut self) -> Result<(), IndexError> {
        let Some(table) = &self.snapshot.raw_blocks else { return Ok(()) };
        let first = self.snapshot.first_live_height().to_u32().to_be_bytes();
        for row in table.range::<&[u8; 4]>(&first..)? {
            let height = u32::from_be_bytes(*row?.0.value());
            self.differences.add(format!("raw_blocks: there is a row of height {height}, which is not frozen"));
        }
        Ok(())
    }

    /// The row of a block in the raw files of the index, if it has one.
    fn raw_row(&self, height: Height) -> Result<Option<BlockFileRow>, IndexError> {
        let Some(table) = &self.snapshot.raw_blocks else { return Ok(None) };
        table.get(&height.to_u32().to_be_bytes())?.map(|row| BlockFileRow::decode(*row.value())).transpose()
    }

    /// A block that is in a generation, from the raw files of the index if they have it, else from the node; and what is wrong
    /// with its copy in the raw files.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if its bytes cannot be read or are another block's.
    pub(super) fn frozen_block(
        &self,
        height: Height,
        row: &BlockRow,
        first: TxNum,
    ) -> Result<(ParsedBlock, Option<String>), IndexError> {
        let (hash, sources) = (row.hash, self.snapshot.generations.raw());
        let (block, parser) = (Tip { height, hash }, Parser { salt: self.snapshot.salt() });
        let mut damage = None;
        if let Some(raw) = self.raw_row(height)? {
            match sources.own_block(block, raw, parser) {
                Ok(own) => return Ok((own, None)),
                Err(why) => {
                    if !sources.has_node() {
                        return Err(IndexError::RawUnavailable { height, hash, why });
                    }
                    damage = Some(format!("raw_blocks: block {hash} at height {height} is damaged or missing: {why}"));
                }
            }
        }
        let read = |size: u32| {
            let unavailable = |why: String| IndexError::RawUnavailable { height, hash, why };
            if size > MAX_BLOCK_SIZE {
                return Err(unavailable(format!("{size} bytes are more than a block can have")));
            }
            sources.block_of_node(block, size, parser)
        };
        let error = match read(row.size) {
            Ok(block) => return Ok((block, damage)),
            Err(error) => error,
        };
        // the size may be what is damaged: the positions say where the last transaction ends
        let last = TxNum(first.0.saturating_add(row.transactions.saturating_sub(1)));
        let position = match self.snapshot.generation_of(last) {
            Some((_, of)) => of.generation.block_offset(last).ok().flatten(),
            None => None,
        };
        let end = position.and_then(|(offset, length, _)| offset.checked_add(length));
        Ok((end.filter(|end| *end != row.size).map_or(Err(error), read)?, damage))
    }
}
