//! Blocks that left the chain: each must be complete, and found by its hash and by its transactions. The totals in its row
//! are those of its own branch, which is not stored, and cannot be recounted.

use bitcoin::hashes::Hash;

use super::super::block::Parser;
use super::super::error::IndexError;
use super::super::hot::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::hot::tables::stale_transactions;
use super::super::witnesses::witnesses_are_committed;
use super::work::{Work, sorting};

impl Work<'_> {
    pub(super) fn expect_stale_blocks(&mut self) -> Result<(), IndexError> {
        let parser = Parser { salt: self.snapshot.salt() };
        if self.snapshot.stale_raw_block_count()? != self.snapshot.stale_block_count()? {
            self.differences.add("stale_raw_blocks: it has other blocks than stale_blocks".to_owned());
        }
        for (height, hash) in self.snapshot.stale_block_hashes()? {
            let Some(stale) = self.differences.record(self.snapshot.stale_block(height, hash))?.flatten() else {
                continue;
            };
            let block = match parser.parse(hash, stale.raw) {
                Ok(block) => block,
                Err(error) => {
                    self.differences
                        .add(format!("stale_blocks: the block at height {height} cannot be parsed: {error}"));
                    continue;
                }
            };
            if !witnesses_are_committed(&block) {
                let what = "are not those that its coinbase commits to";
                self.differences.add(format!("stale_blocks: witnesses of the block at height {height} {what}"));
            }
            let what_it_is = (block.hash, block.header, block.size(), block.stripped_size);
            let size = usize::try_from(stale.row.size).unwrap_or(usize::MAX);
            let coinbase = self.differences.record(self.snapshot.stale_coinbase(height, hash))?.flatten();
            let own = block.transactions.first().and_then(|own| block.bytes.get(own.raw.clone()));
            let is_of_block = coinbase.as_deref() == own;
            if !is_of_block || what_it_is != (stale.row.hash, stale.row.header, size, stale.row.stripped_size) {
                self.differences.add(format!("stale_blocks: the row at height {height} does not match its block"));
            }
            let place = BlockPlace { height, membership: ChainMembership::Stale };
            self.block_hashes.push(&[hash.as_byte_array(), &place.value()]).map_err(sorting)?;
            for (transaction, index) in block.transactions.iter().zip(0..) {
                let key = stale_transactions::key(transaction.prefix, hash, index);
                self.stale_transactions.push(&[&key]).map_err(sorting)?;
            }
        }
        Ok(())
    }
}
