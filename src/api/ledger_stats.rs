use std::sync::Arc;

use async_graphql::Object;
use bitcoin::Script;

use super::block::Block;
use super::error::ApiError;
use super::scalars::{BigInt, UInt53, int};
use crate::view::{IndexError, ScriptKey, Totals, View};

/// The totals of a script.
pub(super) struct LedgerStats {
    view: Arc<View>,
    script: ScriptKey,
    totals: Totals,
}

impl LedgerStats {
    pub(super) fn of(view: &Arc<View>, script: &Script) -> Result<Self, ApiError> {
        let script = view.script_key(script);
        Ok(Self { view: view.clone(), script, totals: view.totals(script)? })
    }

    fn first(&self) -> Result<Option<crate::view::Block>, IndexError> {
        match self.view.first_seen(self.script)? {
            Some(txnum) => self.view.block_at(self.view.height_of(txnum)?),
            None => Ok(None),
        }
    }

    fn last(&self) -> Result<Option<crate::view::Block>, IndexError> {
        match self.totals.last_seen {
            Some(txnum) => self.view.block_at(self.view.height_of(txnum)?),
            None => Ok(None),
        }
    }
}

/// What a script received and spent on the main chain. Outputs that can never be spent are counted nowhere.
#[Object]
impl LedgerStats {
    /// How many transactions paid or spent it; one that did both counts once.
    async fn tx_count(&self) -> Option<UInt53> {
        Some(self.totals.row.transactions.into())
    }

    /// How many outputs it received.
    async fn received_count(&self) -> UInt53 {
        self.totals.row.outputs_received.into()
    }

    /// The sum of these outputs, in satoshis: lifetime turnover, change to itself included.
    async fn received(&self) -> BigInt {
        self.totals.row.received.into()
    }

    /// How many of its outputs were spent.
    async fn spent_count(&self) -> UInt53 {
        self.totals.row.outputs_spent.into()
    }

    /// The sum of the spent outputs, in satoshis. Received minus spent is the confirmed balance.
    async fn spent(&self) -> BigInt {
        self.totals.row.spent.into()
    }

    /// How many of its outputs are unspent.
    async fn utxo_count(&self) -> Result<UInt53, ApiError> {
        Ok(self.totals.utxo_count()?.into())
    }

    /// The block of the first transaction that paid it; null if there is none.
    async fn first_seen(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.first())
    }

    /// The block of the newest transaction that paid or spent it; null if there is none.
    async fn last_seen(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.last())
    }

    /// How many coinbases paid it.
    async fn mined_blocks(&self) -> Result<i32, ApiError> {
        int(self.totals.row.coinbase_transactions)
    }

    /// Whether any transaction ever paid it.
    async fn used(&self) -> bool {
        self.totals.row.transactions > 0
    }
}
