use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::parser::types::Field;
use async_graphql::{Context, Subscription, Value, Variables};

use super::field_sharing::{FieldSharing, Sharing};
use super::source::{SeqCounter, StreamSource};
use crate::api::accounts::HistoryEnd;
use crate::api::allowance::find_transaction;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::streams::follower::events_until_error;
use crate::api::streams::resume::MempoolCursor;
use crate::api::streams::resume_point::{LastEventId, ResumePoint, ResumeTracker};
use crate::api::streams::unconfirmed::{UnconfirmedArrival, UnconfirmedFollower};
use crate::api::types::ledger::{LedgerInput, WatchSet};
use crate::api::types::mempool::MempoolEventObject;
use crate::api::types::transaction::{Transaction, TransactionFilter};
use crate::view::{Entry, MempoolEventKind, View};

/// The subscriptions to unconfirmed transactions.
pub(crate) struct UnconfirmedSubscription(pub(crate) StreamSource);

/// What is watched and filtered are arguments, and so are the same; but scripts of descriptors become more as they are used, from
/// when the client came.
pub(crate) const SHARING: [FieldSharing; 2] = [
    FieldSharing::numbered("mempoolEvents"),
    FieldSharing::shared("unconfirmedTransaction", Sharing::FromNowOn).only_if(watches_no_descriptors),
];

fn watches_no_descriptors(field: &Field, variables: &Variables) -> bool {
    let variable = |name| variables.get(&name).cloned().ok_or(());
    match field.get_argument("watch").map(|watch| watch.node.clone().into_const_with(variable)) {
        Some(Ok(Value::Object(fields))) => !fields.contains_key("descriptors"),
        // the default of a variable may have some
        Some(Err(())) => false,
        Some(Ok(_)) | None => true,
    }
}

#[Subscription]
impl UnconfirmedSubscription {
    /// Every transaction that enters the mempool and every transaction that leaves it, in order. When a reason that was
    /// UNKNOWN becomes known, the removal is sent again with that reason and `isCorrection`.
    /// Example: `subscription { mempoolEvents { seq cursor __typename ... on TransactionRemoved { txid reason } } }`.
    async fn mempool_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only events after the event or the snapshot with this cursor. Fails with CURSOR_EXPIRED if it belongs to an \
                    earlier run of the server, or is older than the events that the server stores."
        )]
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<MempoolEventObject, ApiError>> + use<>, ApiError> {
        let run = self.0.live.run();
        let after = LastEventId::or_argument(ctx, after);
        let after = after.as_deref().map(MempoolCursor::decode).transpose()?;
        let (mut seq, tracker) = (SeqCounter::after(after.as_ref()), ResumeTracker::of(ctx));
        let happenings = events_until_error(self.0.mempool(ctx, after.map(|after| after.place), |_| true)?);
        let events = happenings.map(move |found| {
            let (view, event) = found?;
            let event = MempoolEventObject::new(view, event, run, seq.next()?);
            tracker.reach_cursor(event.position());
            Ok(event)
        });
        Ok(self.0.counted(events))
    }

    /// Every transaction that enters the mempool from now on. A transaction that leaves before it can be sent is
    /// skipped; `mempoolEvents` skips none.
    /// Example: `subscription { unconfirmedTransaction(filter: { minFeeRate: 10 }) { txid feeRate } }`.
    #[graphql(complexity = "costs::more(watch.as_ref().map_or(0, |watch| watch.accounts_cost(0)), child_complexity)")]
    async fn unconfirmed_transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
        #[graphql(
            desc = "Only transactions that pay or spend one of these, at most `server.limits.subscriptions.watchedItems` addresses and \
                    scripts, or a script of the descriptors. When a script near the end of a descriptor is used, more are \
                    watched, and transactions in the mempool that pay or spend these are sent first."
        )]
        watch: Option<LedgerInput>,
    ) -> Result<impl Stream<Item = Result<Transaction, ApiError>> + use<>, ApiError> {
        let filter = TransactionFilter::checked(filter)?.unwrap_or_default();
        let arrivals = |kind: &MempoolEventKind| matches!(kind, MempoolEventKind::Added { .. });
        let (run, progress) = (self.0.live.run(), ResumeTracker::of(ctx));
        let follower = self.0.mempool(ctx, ResumePoint::in_mempool(ctx), arrivals)?;
        progress.advance_mempool(MempoolCursor { run, sequence: follower.begun_behind() });
        // as of the state that it begins with
        let view = Arc::new(follower.view());
        let watch = match watch {
            Some(watch) => {
                let mut watch = WatchSet::read(ctx, &view, watch, &self.0.serving).await?;
                watch.extend(&view, HistoryEnd::ALL).await?;
                Some((watch, &view))
            }
            None => None,
        };
        let follower = UnconfirmedFollower::new(follower, watch);
        let added = events_until_error(follower).filter_map(move |found| {
            if let Ok(UnconfirmedArrival { sequence: Some(sequence), .. }) = &found {
                progress.advance_mempool(MempoolCursor { run, sequence: *sequence });
            }
            let found = match found {
                Ok(UnconfirmedArrival { entry, .. }) => {
                    entry.and_then(|(view, entry)| added(&view, &entry, &filter).transpose())
                }
                Err(error) => Some(Err(error)),
            };
            std::future::ready(found)
        });
        Ok(self.0.counted(added))
    }
}

/// The transaction of the mempool, if it is wanted.
fn added(view: &Arc<View>, entry: &Arc<Entry>, filter: &TransactionFilter) -> Result<Option<Transaction>, ApiError> {
    if !filter.keeps_unconfirmed(entry) {
        return Ok(None);
    }
    let found = find_transaction(view, |view| Ok(view.unconfirmed(entry)))?;
    Ok(found.map(|found| Transaction::new(view, found)))
}
