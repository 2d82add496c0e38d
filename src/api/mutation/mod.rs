//! The root of all mutations: what goes out through the node into the network.
//!
//! ```text
//!   bytes ──► brought.rs ──► the node judges and sends ──► what is published has it, for a moment at most
//!               no transaction:      │ refused                │
//!               REJECTED             ▼                        ▼
//!                            reject_info.rs           BroadcastResult, PackageResult
//! ```
//!
//! To send again what was sent is a success: who got no answer does just that. So an outcome, and no error, says what
//! became of a transaction, the node's silence included. Mutations of one request come one after the other, each with a
//! state of the server from after it.

mod broadcast_outcome;
mod broadcast_result;
mod package_result;
mod sender;

use std::sync::Arc;

use async_graphql::{Context, Object};

use super::account::Account;
use super::brought::{check_package, max_fees};
use super::costs;
use super::error::ApiError;
use super::features::Features;
use super::request::limits;
use super::scalars::{Hex, Sats};
use crate::live::Live;
use crate::view::Published;
use broadcast_result::BroadcastResult;
use package_result::PackageResult;
use sender::Sender;

/// What can be done.
pub(super) struct Mutation {
    sender: Sender,
    features: Features,
}

impl Mutation {
    pub(super) fn new(published: &Published, live: &Live, features: Features) -> Self {
        Self { sender: Sender::new(published, live), features }
    }

    fn check_enabled(&self, ctx: &Context<'_>) -> Result<(), ApiError> {
        if !self.features.broadcast {
            return Err(ApiError::feature_disabled(Features::BROADCAST));
        }
        match ctx.data_opt::<Arc<Account>>() {
            Some(account) if !account.may_broadcast() => {
                Err(ApiError::forbidden("who asks may not send transactions; a token of this server may allow it"))
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
        self.check_enabled(ctx)?;
        check_package(hexes.len())?;
        let max = max_fees(max_fee_rate, max_burn)?;
        self.sender.send_package(hexes, max, limits(ctx)?.transaction_bytes).await
    }
}

/// What can be done. Fields of one request are executed one after the other.
#[Object]
impl Mutation {
    /// Sends a transaction through the Bitcoin node of this server, which tells it to the network. It can be sent again at
    /// any time: what is there already is a success. FEATURE_DISABLED unless whoever runs the server allows it.
    #[graphql(complexity = "costs::NODE.saturating_add(child_complexity)")]
    async fn broadcast_transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Its serialisation, with witnesses. Text that is not hexadecimal is refused as any bad argument; bytes \
                    that are no transaction are REJECTED."
        )]
        hex: Hex,
        #[graphql(
            desc = "The highest feerate that it may pay, in sat/vB; 0 for any. If it is not given, the node's own limit: \
                    10,000."
        )]
        max_fee_rate: Option<f64>,
        #[graphql(
            desc = "The most satoshis that one output may pay to a script that nobody can ever spend from. If it is not \
                    given, the node's own limit: 0."
        )]
        max_burn: Option<Sats>,
    ) -> Option<Result<BroadcastResult, ApiError>> {
        Some(self.send(ctx, hex, max_fee_rate, max_burn).await)
    }

    /// Sends a transaction together with parents of it that pay too little by themselves, so that it pays for them. Needs a
    /// node of Bitcoin Core 28 or newer to reach the network, and one of 26 or newer to be taken by this node.
    #[graphql(complexity = "costs::list(hexes.len(), child_complexity.saturating_add(1)).saturating_add(costs::NODE)")]
    async fn broadcast_package(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Their serialisations, the child last; at most `server.limits.packageSize` of them.")]
        hexes: Vec<Hex>,
        #[graphql(
            desc = "The highest feerate that any may pay, in sat/vB; 0 for any. If it is not given, the node's own \
                    limit: 10,000."
        )]
        max_fee_rate: Option<f64>,
        #[graphql(
            desc = "The most satoshis that one output may pay to a script that nobody can ever spend from. If it is not \
                    given, the node's own limit: 0."
        )]
        max_burn: Option<Sats>,
    ) -> Option<Result<PackageResult, ApiError>> {
        Some(self.send_together(ctx, hexes, max_fee_rate, max_burn).await)
    }
}
