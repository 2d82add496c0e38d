//! The unspent outputs as seen from a block, and what each block did to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, OutPoint};

use super::super::ChainError;
use super::super::utxo::{Change, Coin, Coins};
use super::SimChain;
use super::tree::Kept;

impl SimChain {
    /// The unspent outputs at the tip, in no order to rely on.
    #[must_use]
    pub fn unspent(&self) -> &Coins {
        self.utxos.coins()
    }

    /// An output that is unspent at the tip.
    #[must_use]
    pub fn coin(&self, outpoint: &OutPoint) -> Option<&Coin> {
        self.utxos.coins().get(outpoint)
    }

    /// The unspent outputs as seen from any block of the tree, in order.
    pub fn unspent_at(&mut self, hash: &BlockHash) -> Result<BTreeMap<OutPoint, Coin>, ChainError> {
        self.move_view(*hash)?;
        let coins = self.utxos.sorted();
        self.move_view(self.tip)?;
        Ok(coins)
    }

    /// What a block spent: for each of its transactions but the coinbase, in their order, the coin of each input, in
    /// their order.
    pub fn spent_coins(&self, hash: &BlockHash) -> Result<Vec<Vec<Coin>>, ChainError> {
        let kept = self.kept(hash)?;
        // Nothing but an input removes a coin, save a repeated coinbase, whose changes come last.
        let mut removed = kept.changes.iter().filter_map(|change| match change {
            Change::Removed(_, coin) => Some(coin.clone()),
            Change::Added(..) => None,
        });
        let transactions = kept.block.txdata.iter().skip(1);
        Ok(transactions.map(|tx| removed.by_ref().take(tx.input.len()).collect()).collect())
    }

    /// Shows the unspent outputs as seen from another block, through the last common block of both.
    pub(super) fn move_view(&mut self, to: BlockHash) -> Result<(), ChainError> {
        let path = self.path(&self.view, &to)?;
        // All that is needed is found before anything changes.
        let changes =
            |hashes: &[BlockHash]| hashes.iter().map(|hash| self.changes(hash)).collect::<Result<Vec<_>, _>>();
        let (back, forward) = (changes(&path.disconnected)?, changes(&path.connected)?);
        for changes in back {
            self.utxos.undo(&changes);
        }
        for changes in forward {
            self.utxos.redo(&changes);
        }
        self.view = to;
        Ok(())
    }

    fn changes(&self, hash: &BlockHash) -> Result<Arc<[Change]>, ChainError> {
        self.kept(hash).map(|kept| Arc::clone(&kept.changes))
    }

    pub(super) fn body(&self, hash: &BlockHash) -> Result<&Arc<Block>, ChainError> {
        self.kept(hash).map(|kept| &kept.block)
    }

    fn kept(&self, hash: &BlockHash) -> Result<&Kept, ChainError> {
        let record = self.records.get(hash).ok_or(ChainError::UnknownBlock(*hash))?;
        record.kept.as_ref().ok_or(ChainError::Forgotten(*hash))
    }
}
