//! Addresses and scripts.

use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};

use super::root::QueryRoot;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::Hex;
use crate::api::types::ledger::{Address, AddressLookup, AddressSet, Script, WatchInput};
use crate::view::View;

/// Finds what holds coins.
pub(crate) struct LedgerQuery(pub(crate) QueryRoot);

impl LedgerQuery {
    fn set(&self, ctx: &Context<'_>, of: WatchInput) -> Result<AddressSet, ApiError> {
        costs::spend(ctx, of.len())?;
        AddressSet::of(&self.0.view(ctx)?, of, limits(ctx)?)
    }
}

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

    /// Several addresses and scripts, each as its own ledger: one entry for each, in the given order, addresses first. An
    /// entry that is not an address of this network says why. For one sum, see `ledgerSet`.
    #[graphql(complexity = "costs::list(of.len(), child_complexity.saturating_add(1))")]
    async fn ledgers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The addresses and scripts.")] of: WatchInput,
    ) -> Option<Result<Vec<AddressLookup>, ApiError>> {
        Some(self.set(ctx, of).map(AddressSet::into_members))
    }

    /// Several addresses and scripts as one ledger.
    #[graphql(complexity = "AddressSet::cost(of.len(), child_complexity)")]
    async fn ledger_set(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The addresses and scripts of the set. Duplicates count once.")] of: WatchInput,
    ) -> Option<Result<AddressSet, ApiError>> {
        Some(self.set(ctx, of))
    }

    /// A script, given as a scriptPubKey or by its SHA-256, in one of two byte orders. Give exactly one of the three. Every
    /// script returns a result, even if it was never used.
    async fn script(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scriptPubKey.")] script_pub_key: Option<Hex>,
        #[graphql(
            desc = "The SHA-256 of the scriptPubKey in natural byte order, 32 bytes, as in `Script.scriptHash` and \
                          in esplora."
        )]
        script_hash: Option<Hex>,
        #[graphql(
            desc = "The SHA-256 of the scriptPubKey, byte-reversed, 32 bytes, as in `Script.electrumScriptHash` and \
                          in the Electrum protocol."
        )]
        electrum_script_hash: Option<Hex>,
    ) -> Option<Result<Script, ApiError>> {
        let find = |view: &Arc<View>| match (script_pub_key, script_hash, electrum_script_hash) {
            (Some(script), None, None) => Ok(Script::of(view, ScriptBuf::from_bytes(script.into_bytes()))),
            (None, Some(hash), None) => Script::with_hash(view, script_hash_of("scriptHash", &hash)?),
            (None, None, Some(hash)) => {
                let mut bytes = script_hash_of("electrumScriptHash", &hash)?.to_byte_array();
                bytes.reverse();
                Script::with_hash(view, sha256::Hash::from_byte_array(bytes))
            }
            _ => Err(ApiError::bad_user_input(
                "give scriptPubKey, scriptHash or electrumScriptHash, exactly one of them",
            )),
        };
        Some(self.0.view(ctx).and_then(|view| find(&view)))
    }
}

/// The 32 bytes of an argument. Errors: BAD_USER_INPUT for any other number of bytes.
fn script_hash_of(name: &str, hash: &Hex) -> Result<sha256::Hash, ApiError> {
    sha256::Hash::from_slice(hash.as_bytes()).map_err(|_| {
        ApiError::bad_user_input(format!(
            "{name} has {} bytes: give the 32 bytes of a SHA-256, 64 hexadecimal digits",
            hash.as_bytes().len()
        ))
    })
}
