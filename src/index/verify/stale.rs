//! Blocks that left the chain: each must be whole, and found by its hash and by its transactions.

use bitcoin::hashes::Hash;

use super::super::block::Parser;
use super::super::error::IndexError;
use super::super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::tables::stale_transactions;
use super::{Work, sorting};

impl Work<'_> {
    pub(super) fn expect_stale_blocks(&mut self) -> Result<(), IndexError> {
        let parser = Parser { salt: self.snapshot.salt() };
        for (height, hash) in self.snapshot.stale_block_hashes()? {
            let Some(stale) = self.differences.tell(self.snapshot.stale_block(height, hash))?.flatten() else {
                continue;
            };
            let block = match parser.parse(hash, stale.raw) {
                Ok(block) => block,
                Err(error) => {
                    self.differences.add(format!("stale_blocks: the block at height {height} is not whole: {error}"));
                    continue;
                }
            };
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
