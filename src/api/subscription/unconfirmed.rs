use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::source::{SeqCounter, StreamSource};
use crate::api::allowance::find_transaction;
use crate::api::context::limits;
use crate::api::error::ApiError;
use crate::api::streams::follower::events_until_error;
use crate::api::streams::resume::MempoolCursor;
use crate::api::streams::resume_point::{ResumePoint, ResumeTracker};
use crate::api::types::ledger::{WatchInput, Watched};
use crate::api::types::mempool::MempoolEventObject;
use crate::api::types::transaction::{Transaction, TransactionFilter};
use crate::view::{MempoolEventKind, View};

/// The subscriptions to unconfirmed transactions.
pub(crate) struct UnconfirmedSubscription(pub(crate) StreamSource);

#[Subscription]
impl UnconfirmedSubscription {
    /// Every transaction that enters the mempool and every transaction that leaves it, in order. When a reason that was
    /// UNKNOWN becomes known, the removal is sent again with that reason and `isCorrection`.
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
        let after = after.as_deref().map(MempoolCursor::decode).transpose()?;
        let mut seq = SeqCounter::after(after.as_ref());
        let happenings = events_until_error(self.0.mempool(ctx, after.map(|after| after.place), |_| true)?);
        let events = happenings.map(move |found| {
            let (view, event) = found?;
            Ok(MempoolEventObject::new(view, event, run, seq.next()?))
        });
        Ok(self.0.counted(events))
    }

    /// Every transaction that enters the mempool from now on. A transaction that leaves before it can be sent is
    /// skipped; `mempoolEvents` skips none.
    async fn unconfirmed_transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
        #[graphql(
            desc = "Only transactions that pay or spend one of these, at most `server.limits.watch` addresses and \
                    scripts."
        )]
        watch: Option<WatchInput>,
    ) -> Result<impl Stream<Item = Result<Transaction, ApiError>> + use<>, ApiError> {
        let (filter, limits) = (filter.unwrap_or_default(), limits(ctx)?);
        let watched = match watch {
            Some(watch) => {
                let (published, bytes) = (&self.0.published, limits.transaction_bytes);
                let view = Arc::new(published.view_of(self.0.head()?, bytes, published.node_client()));
                Some(Watched::of(&view, watch, limits)?)
            }
            None => None,
        };
        let arrivals = |kind: &MempoolEventKind| matches!(kind, MempoolEventKind::Added { .. });
        let (run, progress) = (self.0.live.run(), ResumeTracker::of(ctx));
        let follower = self.0.mempool(ctx, ResumePoint::in_mempool(ctx), arrivals)?;
        progress.advance_mempool(MempoolCursor { run, sequence: follower.begun_behind() });
        let added = events_until_error(follower).filter_map(move |found| {
            if let Ok((_, event)) = &found {
                progress.advance_mempool(MempoolCursor { run, sequence: event.sequence });
            }
            let found = match found {
                Ok((view, event)) => added(view, event.kind, &filter, watched.as_ref()).transpose(),
                Err(error) => Some(Err(error)),
            };
            std::future::ready(found)
        });
        Ok(self.0.counted(added))
    }
}

/// The transaction that entered the mempool, if it is still there and wanted.
fn added(
    view: View,
    event: MempoolEventKind,
    filter: &TransactionFilter,
    watched: Option<&Watched>,
) -> Result<Option<Transaction>, ApiError> {
    let MempoolEventKind::Added { txid, .. } = event else { return Ok(None) };
    let Some(entry) = view.mempool().get(&txid).cloned().filter(|entry| filter.keeps_unconfirmed(entry)) else {
        return Ok(None);
    };
    if let Some(watched) = watched {
        let movement = view.pending_movement(watched.ledger(), &entry);
        if !movement.pays && !movement.spends {
            return Ok(None);
        }
    }
    let found = find_transaction(&view, |view| Ok(view.unconfirmed(&entry)))?;
    let view = Arc::new(view);
    Ok(found.map(|found| Transaction::new(&view, found)))
}
