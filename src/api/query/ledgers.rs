//! Addresses and scripts.

use async_graphql::{Context, Object};

use super::super::address::Address;
use super::super::error::ApiError;
use super::Root;

/// Finds what holds coins.
pub(super) struct LedgerQuery(pub(super) Root);

#[Object]
impl LedgerQuery {
    /// An address. Every valid address of the network has an answer, also one that was never used; a text that is none
    /// is BAD_USER_INPUT.
    async fn address(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The address: base58, bech32 or bech32m, of this server's network.")] address: String,
    ) -> Option<Result<Address, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| Address::parse(&view, &address)))
    }
}
