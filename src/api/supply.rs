use std::sync::Arc;

use async_graphql::Object;

use super::costs;
use super::error::ApiError;
use super::scalars::{Sats, int};
use crate::view::{self, View};

/// The supply right after a block of the main chain.
pub(super) struct Supply {
    view: Arc<View>,
    block: view::Block,
    coins: view::Supply,
}

impl Supply {
    pub(super) fn of(view: &Arc<View>, block: view::Block) -> Result<Self, ApiError> {
        let coins = view::Supply::of(&block.row.running)?;
        Ok(Self { view: view.clone(), block, coins })
    }
}

/// Where all coins are right after a block. Circulating and unspendable coins together are those that the subsidies
/// issued, to the satoshi; genesis, BIP30, scripts and unclaimed rewards together are the unspendable ones.
#[Object]
impl Supply {
    /// The height of the block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.block.height.to_u32())
    }

    /// The sum of the subsidies up to and including this block, in satoshis, claimed or not.
    async fn subsidy_issued(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.subsidy_issued)
    }

    /// The value of all unspent outputs, in satoshis, immature ones among them. Coins whose keys are lost are in it:
    /// nobody can tell them.
    async fn circulating(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.circulating)
    }

    /// The coins that can never be spent, in satoshis.
    async fn unspendable(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.unspendable)
    }

    /// Of these the coinbase of the genesis block, which never entered the UTXO set.
    async fn genesis(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.genesis)
    }

    /// Of these unspent outputs that a later transaction with the same txid overwrote (BIP30).
    async fn bip30(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.bip30)
    }

    /// Of these outputs whose script can never succeed: it starts with OP_RETURN or is longer than 10,000 bytes.
    async fn unspendable_scripts(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.scripts)
    }

    /// Of these rewards that coinbases did not claim, and which therefore never came to be.
    async fn unclaimed_rewards(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coins.unclaimed)
    }

    /// What of the circulating coins the next block could not spend, in satoshis: outputs of the coinbases of the last
    /// 99 blocks.
    // read one by one: a count of unspendable outputs does not tell whether a coinbase has them
    #[graphql(complexity = "costs::HUNDRED_COINBASES")]
    async fn immature_coinbase(&self) -> Result<Sats, ApiError> {
        self.view.count(0)?;
        let immature = self.view.immature_coinbase(&self.block)?;
        self.view.count(immature.bytes_read)?;
        Sats::new(immature.value)
    }
}
