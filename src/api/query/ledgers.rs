//! Addresses and scripts.

use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::DisplayHex;

use super::root::QueryRoot;
use crate::api::costs;
use crate::api::error::{ApiError, in_bytes, shown};
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hash256, Hex};
use crate::api::types::ledger::{Address, AddressLookup, AddressSet, LedgerInput, Script};
use crate::view::View;

/// Finds what holds coins.
pub(crate) struct LedgerQuery(pub(crate) QueryRoot);

impl LedgerQuery {
    async fn set(&self, ctx: &Context<'_>, of: LedgerInput) -> Result<AddressSet, ApiError> {
        AddressSet::of(ctx, &self.0.view(ctx)?, of).await
    }
}

impl FieldCacheability for LedgerQuery {
    const IMMUTABLE_IF_FOUND: &'static str = "address ledgers ledgerSet script";
}

#[Object]
impl LedgerQuery {
    /// An address. Every valid address of the network returns a result, even if it was never used. Anything else fails
    /// with BAD_USER_INPUT.
    /// Example: `{ address(address: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4") { balance { confirmed unconfirmedDelta }
    /// transactions(first: 10) { nodes { net } } } }`.
    async fn address(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "An address of this server's network, in base58, bech32 or bech32m.")] address: String,
    ) -> Option<Result<Address, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| Address::parse(&view, "address", &address)))
    }

    /// Several addresses, scripts and descriptors, each as its own ledger: one entry for each, in the given order, addresses first. An
    /// entry that is not an address of this network says why; a text that is no descriptor fails the whole list, with its place. For
    /// one sum, see `ledgerSet`.
    /// Example: `{ ledgers(of: { addresses: ["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"] }) { input ledger { balance {
    /// total } } error { message } } }`.
    #[graphql(
        complexity = "costs::list(of.script_count(), child_complexity.saturating_add(1)).saturating_add(of.accounts_cost(child_complexity))"
    )]
    async fn ledgers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The addresses, scripts and descriptors.")] of: LedgerInput,
    ) -> Option<Result<Vec<AddressLookup>, ApiError>> {
        Some(self.set(ctx, of).await.map(AddressSet::into_members))
    }

    /// Several addresses, scripts and descriptors as one ledger.
    /// Example: `{ ledgerSet(of: { addresses: ["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"] }) { balance { total } utxos {
    /// totalCount totalValue } } }`.
    #[graphql(
        complexity = "AddressSet::cost(of.script_count(), child_complexity).saturating_add(of.accounts_cost(child_complexity))"
    )]
    async fn ledger_set(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What the set holds. Duplicates count once.")] of: LedgerInput,
    ) -> Option<Result<AddressSet, ApiError>> {
        Some(self.set(ctx, of).await)
    }

    /// A script, given as a scriptPubKey or by its SHA-256, in one of two byte orders. Give exactly one of the three. Every
    /// script returns a result, even if it was never used.
    /// Example: `{ script(scriptPubKey: "0014751e76e8199196d454941c45d1b3a323f1433bd6") { type asm balance { total } } }`.
    async fn script(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scriptPubKey.")] script_pub_key: Option<Hex>,
        #[graphql(
            desc = "The SHA-256 of the scriptPubKey in natural byte order, 32 bytes, as in `Script.scriptHash` and \
                          in esplora."
        )]
        script_hash: Option<Hex>,
        #[graphql(desc = "The SHA-256 of the scriptPubKey, byte-reversed, as in `Script.electrumScriptHash` and \
                          in the Electrum protocol.")]
        electrum_script_hash: Option<Hash256>,
    ) -> Option<Result<Script, ApiError>> {
        let find = |view: &Arc<View>| match (script_pub_key, script_hash, electrum_script_hash) {
            (Some(script), None, None) => Ok(Script::of(view, ScriptBuf::from_bytes(script.into_bytes()))),
            (None, Some(hash), None) => Script::with_hash(view, script_hash_of(&hash)?),
            (None, None, Some(hash)) => Script::with_hash(view, sha256::Hash::from_byte_array(hash.to_byte_array())),
            (script, hash, electrum_hash) => Err(ApiError::not_exactly_one(&[
                ("scriptPubKey", script.is_some()),
                ("scriptHash", hash.is_some()),
                ("electrumScriptHash", electrum_hash.is_some()),
            ])),
        };
        Some(self.0.view(ctx).and_then(|view| find(&view)))
    }
}

/// The 32 bytes of an argument. Errors: BAD_USER_INPUT for any other number of bytes.
fn script_hash_of(hash: &Hex) -> Result<sha256::Hash, ApiError> {
    sha256::Hash::from_slice(hash.as_bytes()).map_err(|_| {
        let (given, bytes) = (shown(&hash.as_bytes().to_lower_hex_string()), in_bytes(hash.as_bytes().len()));
        let fault = format!("is {given}, {bytes}: give the 32 bytes of a SHA-256, 64 hexadecimal digits");
        ApiError::bad_argument("scriptHash", fault)
    })
}
