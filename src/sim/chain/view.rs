//! The UTXO set at any block, and the changes that each block made to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, OutPoint};

use super::super::ChainError;
use super::super::utxo::{CoinMap, SimCoin, UtxoChange};
use super::sim_chain::SimChain;
use super::tree_entry::BlockData;

impl SimChain {
    /// The unspent outputs at the tip, in no order to rely on.
    #[must_use]
    pub fn unspent(&self) -> &CoinMap {
        self.utxos.coins()
    }

    /// An output that is unspent at the tip.
    #[must_use]
    pub fn coin(&self, outpoint: &OutPoint) -> Option<&SimCoin> {
        self.utxos.coins().get(outpoint)
    }

    /// The unspent outputs at any block of the tree, in order.
    pub fn unspent_at(&mut self, hash: &BlockHash) -> Result<BTreeMap<OutPoint, SimCoin>, ChainError> {
        self.move_view(*hash)?;
        let coins = self.utxos.sorted();
        self.move_view(self.tip)?;
        Ok(coins)
    }

    /// The coins that a block spent: for each of its transactions but the coinbase, in block order, the coin of each
    /// input, in the order of the inputs.
    pub fn spent_coins(&self, hash: &BlockHash) -> Result<Vec<Vec<SimCoin>>, ChainError> {
        let data = self.data(hash)?;
        // Only inputs remove coins, and a repeated coinbase, whose changes come last.
        let mut removed = data.changes.iter().filter_map(|change| match change {
            UtxoChange::Removed(_, coin) => Some(coin.clone()),
            UtxoChange::Added(..) => None,
        });
        let transactions = data.block.txdata.iter().skip(1);
        Ok(transactions.map(|tx| removed.by_ref().take(tx.input.len()).collect()).collect())
    }

    /// Moves the UTXO set to another block, through the last common ancestor of both.
    pub(super) fn move_view(&mut self, to: BlockHash) -> Result<(), ChainError> {
        let path = self.path(&self.view, &to)?;
        // All changes are collected before any is applied, so that an error leaves the view unchanged.
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

    fn changes(&self, hash: &BlockHash) -> Result<Arc<[UtxoChange]>, ChainError> {
        self.data(hash).map(|data| Arc::clone(&data.changes))
    }

    pub(super) fn body(&self, hash: &BlockHash) -> Result<&Arc<Block>, ChainError> {
        self.data(hash).map(|data| &data.block)
    }

    fn data(&self, hash: &BlockHash) -> Result<&BlockData, ChainError> {
        let record = self.records.get(hash).ok_or(ChainError::UnknownBlock(*hash))?;
        record.data.as_ref().ok_or(ChainError::Forgotten(*hash))
    }
}
