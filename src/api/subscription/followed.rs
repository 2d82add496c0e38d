use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::field_sharing::FieldSharing;
use super::source::StreamSource;
use crate::api::context::limits;
use crate::api::error::ApiError;
use crate::api::scalars::Txid;
use crate::api::streams::follower::events_until_error;
use crate::api::streams::heads::HeadFollower;
use crate::api::streams::projections::Projections;
use crate::api::types::transaction::{
    OutPointInput, OutputSpentEvent, SpendFollower, StatusFollower, StatusRequest, TransactionStatusEvent,
};
use crate::limits::Limits;

/// The subscriptions to single transactions and outputs.
pub(crate) struct FollowedSubscription {
    source: StreamSource,
    projections: Arc<Projections>,
}

impl FollowedSubscription {
    pub(crate) fn new(source: StreamSource) -> Self {
        Self { source, projections: Arc::default() }
    }

    fn heads(&self) -> Result<HeadFollower, ApiError> {
        let events = self.source.live.subscribe();
        Ok(HeadFollower::new(self.source.head()?, events, self.source.published.clone()))
    }
}

/// What is the case already is sent first, and then changes to that.
pub(crate) const SHARING: [FieldSharing; 2] =
    [FieldSharing::not_shared("transactionStatus"), FieldSharing::not_shared("outputSpent")];

#[Subscription]
impl FollowedSubscription {
    /// The status of transactions: one initial event for each, then an event whenever its status changes; a reorg can
    /// change it in any direction. The subscription ends when every transaction, or what replaced it, has the requested
    /// number of confirmations. A replacement alone does not end it, because a replaced transaction can return. Changes
    /// that are undone before they can be sent are skipped.
    /// Example: `subscription { transactionStatus(txids:
    /// ["f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16"]) { txid state confirmations } }`.
    async fn transaction_status(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txids, at most `server.limits.subscriptions.watchedItems`.")] txids: Vec<Txid>,
        #[graphql(
            desc = "The number of confirmations up to which each transaction is followed, at least 1.",
            default_with = "Some(6)"
        )]
        until_confirmations: Option<i32>,
    ) -> Result<impl Stream<Item = Result<TransactionStatusEvent, ApiError>> + use<>, ApiError> {
        let limits = limits(ctx)?;
        let txids = each_once("txids", txids.into_iter().map(|txid| txid.0), limits)?;
        let until = until_confirmations.unwrap_or(6);
        let until = u32::try_from(until).ok().filter(|until| *until > 0).ok_or_else(|| {
            ApiError::bad_argument("untilConfirmations", format!("is {until}, and it must be at least 1"))
        })?;
        // to know it all of the mempool is put in order
        let projected = ctx.look_ahead().field("projectedBlockIndex").exists();
        let wanted = StatusRequest { txids, until, projected };
        let (heads, projections) = (self.heads()?, Arc::clone(&self.projections));
        let follower =
            StatusFollower::new(heads, self.source.published.clone(), limits.transaction_bytes, (wanted, projections));
        let sent = events_until_error(follower).map(|found| {
            let (view, sent) = found?;
            Ok(TransactionStatusEvent::new(view, sent))
        });
        Ok(self.source.counted(sent))
    }

    /// The spends of outputs: one initial event for each output that is already spent, then an event whenever another
    /// transaction spends it or its spend is confirmed. After a reorg or a replacement, the new spend is sent; if no
    /// transaction spends the output any more, an event with `spentBy` null is sent. Outputs that do not exist yet may
    /// be included.
    /// Example: `subscription { outputSpent(outpoints: [{ txid:
    /// "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16", vout: 0 }]) { isConfirmed spentBy { transaction
    /// { txid } } } }`.
    async fn output_spent(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The outpoints to watch, at most `server.limits.subscriptions.watchedItems`.")] outpoints: Vec<
            OutPointInput,
        >,
        #[graphql(
            desc = "Whether to include spends by mempool transactions, or only those in blocks.",
            default_with = "Some(true)"
        )]
        include_mempool: Option<bool>,
    ) -> Result<impl Stream<Item = Result<OutputSpentEvent, ApiError>> + use<>, ApiError> {
        let limits = limits(ctx)?;
        let outpoints = outpoints.iter().enumerate();
        let outpoints = outpoints.map(|(place, outpoint)| outpoint.outpoint(format!("outpoints[{place}].vout")));
        let outpoints = outpoints.collect::<Result<Vec<_>, _>>()?;
        let wanted = (each_once("outpoints", outpoints, limits)?, include_mempool.unwrap_or(true));
        let follower =
            SpendFollower::new(self.heads()?, self.source.published.clone(), limits.transaction_bytes, wanted);
        let sent = events_until_error(follower).map(|found| {
            let (view, spend) = found?;
            OutputSpentEvent::new(view, spend)
        });
        Ok(self.source.counted(sent))
    }
}

/// What is given in the list of this name, each once, in the order given.
///
/// Errors: QUERY_LIMIT_EXCEEDED for too many; BAD_USER_INPUT for none, since no event could ever follow.
fn each_once<T: Copy + Eq + std::hash::Hash>(
    name: &str,
    given: impl IntoIterator<Item = T>,
    limits: &Limits,
) -> Result<Vec<T>, ApiError> {
    let given: Vec<T> = given.into_iter().collect();
    limits.check_watched_items(name, given.len())?;
    if given.is_empty() {
        return Err(ApiError::bad_argument(name, "is empty: give at least one"));
    }
    let mut seen = std::collections::HashSet::with_capacity(given.len());
    Ok(given.into_iter().filter(|item| seen.insert(*item)).collect())
}
