//! Addresses and scripts.

use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;

use super::root::QueryRoot;
use crate::api::context::limits;
use crate::api::error::ApiError;
use crate::api::scalars::Hex;
use crate::api::types::ledger::{Address, AddressSet, ByteOrder, Script, WatchInput};
use crate::view::View;

/// Finds what holds coins.
pub(crate) struct LedgerQuery(pub(crate) QueryRoot);

#[Object]
impl LedgerQuery {
    /// An address. Every valid address of the network returns a result, even if it was never used. Anything else fails
    /// with BAD_USER_INPUT.
    async fn address(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "An address of this server's network, in base58, bech32 or bech32m.")] address: String,
    ) -> Option<Result<Address, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| Address::parse(&view, &address)))
    }

    /// Several addresses and scripts as one ledger.
    #[graphql(complexity = "AddressSet::cost(of.len(), child_complexity)")]
    async fn addresses(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The addresses and scripts of the set. Duplicates count once.")] of: WatchInput,
    ) -> Option<Result<AddressSet, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| AddressSet::of(&view, of, limits(ctx)?)))
    }

    /// A script, given as a scriptPubKey or by its SHA-256. Give exactly one of the two. Every script returns a result,
    /// even if it was never used.
    async fn script(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scriptPubKey.")] script_pub_key: Option<Hex>,
        #[graphql(desc = "The SHA-256 of the scriptPubKey, 32 bytes.")] script_hash: Option<Hex>,
        #[graphql(desc = "The byte order of `scriptHash`.", default_with = "Some(ByteOrder::ElectrumReversed)")]
        byte_order: Option<ByteOrder>,
    ) -> Option<Result<Script, ApiError>> {
        let find = |view: &Arc<View>| match (script_pub_key, script_hash) {
            (Some(script), None) => Ok(Script::of(view, ScriptBuf::from_bytes(script.into_bytes()))),
            (None, Some(hash)) => Script::with_hash_in(view, &hash, byte_order.unwrap_or(ByteOrder::ElectrumReversed)),
            _ => Err(ApiError::bad_user_input("give scriptPubKey or scriptHash, exactly one of them")),
        };
        Some(self.0.view(ctx).and_then(|view| find(&view)))
    }
}
