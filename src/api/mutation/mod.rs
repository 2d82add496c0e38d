//! The root of all mutations: what the node sends into the network.
//!
//! ```text
//!   bytes ──► submitted.rs ─► the node judges and sends ──► what is published has it, for a moment at most
//!               no transaction:      │ refused                │
//!               REJECTED             ▼                        ▼
//!                            reject_info.rs           BroadcastResult, PackageResult
//! ```
//!
//! To send a transaction again is a success: a client without an answer does just that. So an outcome, and no error, says what
//! became of a transaction, the node's silence included. Mutations of one request come one after the other, each with a
//! state of the server from after it.

mod sender;

use std::sync::Arc;

use async_graphql::{Context, Object};

use super::context::limits;
use super::costs;
use super::error::ApiError;
use super::features::{Feature, Features};
use crate::api::extensions::account::Account;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::mutation::sender::Sender;
use crate::api::scalars::{Hex, Sats};
use crate::api::types::transaction::{BroadcastResult, PackageResult, check_package, max_fees};
use crate::live::Live;
use crate::view::Published;

/// What can be done.
pub(crate) struct Mutation {
    sender: Sender,
    can_broadcast: bool,
}

impl Mutation {
    pub(crate) fn new(published: &Published, live: &Live, features: &Features) -> Self {
        Self { sender: Sender::new(published, live), can_broadcast: features.broadcast }
    }

    fn check_enabled(&self, ctx: &Context<'_>) -> Result<(), ApiError> {
        if !self.can_broadcast {
            return Err(ApiError::feature_disabled(Feature::Broadcast));
        }
        match ctx.data_opt::<Arc<Account>>() {
            Some(account) if !account.may_broadcast() => {
                Err(ApiError::forbidden("this client may not submit transactions; use a token that allows it"))
            }
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        ctx: &Context<'_>,
        hex: Hex,
        max_fee_rate: Option<f64>,
        max_burn: Option<Sats>,
    ) -> Result<BroadcastResult, ApiError> {
        costs::spend(ctx, costs::NODE)?;
        self.check_enabled(ctx)?;
        let max = max_fees(max_fee_rate, max_burn)?;
        self.sender.send(hex, max, limits(ctx)?.transaction_bytes).await
    }

    async fn send_together(
        &self,
        ctx: &Context<'_>,
        hexes: Vec<Hex>,
        max_fee_rate: Option<f64>,
        max_burn: Option<Sats>,
    ) -> Result<PackageResult, ApiError> {
        costs::spend(ctx, costs::NODE)?;
        self.check_enabled(ctx)?;
        check_package(hexes.len())?;
        let max = max_fees(max_fee_rate, max_burn)?;
        self.sender.send_package(hexes, max, limits(ctx)?.transaction_bytes).await
    }
}

impl FieldCacheability for Mutation {
    const NEVER: &'static str = "broadcastTransaction broadcastPackage";
}

/// The operations that change something. The fields of one request execute one after another.
#[Object]
impl Mutation {
    /// Submits a transaction through the Bitcoin node of this server, which relays it to the network. Safe to repeat: a
    /// transaction that is already in the mempool or in a block is a success. Fails with FEATURE_DISABLED unless the
    /// operator enables it.
    /// Example: `mutation { broadcastTransaction(hex:
    /// "0200000001169e1e83e930853391bc6f35f605c6754cfead57cf8387639d3b4096c54f18f40000000000ffffffff0100ca9a3b00000000015100000000")
    /// { outcome reject { code details } } }`.
    #[graphql(complexity = "costs::more(costs::NODE, child_complexity)")]
    async fn broadcast_transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The serialised transaction, with witnesses. Invalid hexadecimal fails as a bad argument; bytes \
                    that do not decode as a transaction are REJECTED."
        )]
        hex: Hex,
        #[graphql(
            desc = "The highest feerate that the transaction may pay, in sat/vB. 0 for no limit. If not given, the \
                    node's default: 10,000."
        )]
        max_fee_rate: Option<f64>,
        #[graphql(
            desc = "The highest amount that a single output may pay to a provably unspendable script, in satoshis. If \
                    not given, the node's default: 0."
        )]
        max_burn: Option<Sats>,
    ) -> Option<Result<BroadcastResult, ApiError>> {
        Some(self.send(ctx, hex, max_fee_rate, max_burn).await)
    }

    /// Submits a transaction together with parents whose own feerate is too low, so that the child pays for them
    /// (CPFP). The node must be Bitcoin Core 26 or newer to accept the package, and 28 or newer to relay it to the
    /// network.
    /// Example: `mutation { broadcastPackage(hexes:
    /// ["0200000001169e1e83e930853391bc6f35f605c6754cfead57cf8387639d3b4096c54f18f40000000000ffffffff0100ca9a3b00000000015100000000"])
    /// { accepted results { outcome } } }`.
    #[graphql(complexity = "costs::list(hexes.len(), child_complexity.saturating_add(1)).saturating_add(costs::NODE)")]
    async fn broadcast_package(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The serialised transactions, the child last; at most `server.limits.requests.packageTransactions` of them."
        )]
        hexes: Vec<Hex>,
        #[graphql(
            desc = "The highest feerate that any of the transactions may pay, in sat/vB. 0 for no limit. If not given, \
                    the node's default: 10,000."
        )]
        max_fee_rate: Option<f64>,
        #[graphql(
            desc = "The highest amount that a single output may pay to a provably unspendable script, in satoshis. If \
                    not given, the node's default: 0."
        )]
        max_burn: Option<Sats>,
    ) -> Option<Result<PackageResult, ApiError>> {
        Some(self.send_together(ctx, hexes, max_fee_rate, max_burn).await)
    }
}
