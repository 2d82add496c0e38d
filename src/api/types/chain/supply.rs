use std::sync::Arc;

use async_graphql::{Context, Object};

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, int};
use crate::view::{self, View};

/// The supply right after a block of the main chain.
pub(crate) struct SupplyObject {
    view: Arc<View>,
    block: view::Block,
    coins: view::Supply,
}

impl SupplyObject {
    pub(crate) fn of(view: &Arc<View>, block: view::Block) -> Result<Self, ApiError> {
        let coins = view::Supply::of(&block.row.running)?;
        Ok(Self { view: view.clone(), block, coins })
    }
}

impl FieldCacheability for SupplyObject {
    const IMMUTABLE: &'static str = "height subsidyIssued circulating unspendable genesis bip30 unspendableScripts \
        unclaimedRewards immatureCoinbase";
}

/// The coin supply right after a block. `circulating` plus `unspendable` equals `subsidyIssued`, to the satoshi.
/// `genesis`, `bip30`, `unspendableScripts` and `unclaimedRewards` add up to `unspendable`.
#[Object(name = "SupplyTotals")]
impl SupplyObject {
    /// The height of the block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.block.height.to_u32())
    }

    /// The sum of the subsidies up to and including this block, in satoshis, whether claimed or not.
    async fn subsidy_issued(&self) -> BigInt {
        u128::from(self.coins.subsidy_issued).into()
    }

    /// The value of all unspent outputs, in satoshis, including immature coinbase outputs. Coins whose keys are lost
    /// are included, because they cannot be identified.
    async fn circulating(&self) -> BigInt {
        u128::from(self.coins.circulating).into()
    }

    /// The sum of all coins that can never be spent, in satoshis.
    async fn unspendable(&self) -> BigInt {
        u128::from(self.coins.unspendable).into()
    }

    /// The part of `unspendable` in the genesis coinbase, which never entered the UTXO set, in satoshis.
    async fn genesis(&self) -> BigInt {
        u128::from(self.coins.genesis).into()
    }

    /// The part of `unspendable` in unspent outputs that a later transaction with the same txid overwrote (BIP30), in
    /// satoshis.
    async fn bip30(&self) -> BigInt {
        u128::from(self.coins.bip30).into()
    }

    /// The part of `unspendable` in outputs whose script can never succeed, because it starts with OP_RETURN or is
    /// longer than 10,000 bytes, in satoshis.
    async fn unspendable_scripts(&self) -> BigInt {
        u128::from(self.coins.scripts).into()
    }

    /// The part of `unspendable` in rewards that coinbases did not claim and that therefore never existed, in satoshis.
    async fn unclaimed_rewards(&self) -> BigInt {
        u128::from(self.coins.unclaimed).into()
    }

    /// The part of `circulating` that the next block cannot spend, in satoshis: coinbase outputs of the last 99 blocks.
    // read one by one: a count of unspendable outputs does not tell whether a coinbase has them
    #[graphql(complexity = "costs::more(costs::HUNDRED_COINBASES, 0)")]
    async fn immature_coinbase(&self, ctx: &Context<'_>) -> Result<BigInt, ApiError> {
        costs::spend(ctx, costs::HUNDRED_COINBASES)?;
        self.view.count(0)?;
        let immature = self.view.immature_coinbase(&self.block)?;
        self.view.count(immature.bytes_read)?;
        Ok(u128::from(immature.value).into())
    }
}
