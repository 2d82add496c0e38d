use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::field_sharing::FieldSharing;
use super::source::{SeqCounter, StreamSource};
use crate::api::accounts::HistoryEnd;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::streams::follower::{block_not_stored, events_until_error};
use crate::api::streams::ledger::blocks::StaleBlocks;
use crate::api::streams::ledger::follower::{LedgerFollower, LedgerSources};
use crate::api::streams::resume::LedgerCursor;
use crate::api::streams::resume_point::{LastEventId, ResumeTracker};
use crate::api::types::ledger::{LedgerEvent, LedgerEventKind, LedgerInput, WatchSet};
use crate::chain::Height;
use crate::view::View;

/// How many numbers of confirmations one subscription can ask for.
const DEPTHS: usize = 20;

/// The subscriptions to addresses and scripts.
pub(crate) struct LedgerSubscription {
    source: StreamSource,
    stale: Arc<StaleBlocks>,
}

impl LedgerSubscription {
    pub(crate) fn new(source: StreamSource) -> Self {
        Self { source, stale: Arc::default() }
    }
}

pub(crate) const SHARING: [FieldSharing; 1] = [FieldSharing::numbered("ledgerEvents")];

#[Subscription]
impl LedgerSubscription {
    /// The events of every transaction that pays or spends a watched address or script, or a script of a watched
    /// descriptor, in order: it enters the mempool, leaves it, is confirmed, reaches a requested number of confirmations, its coinbase outputs mature, or a
    /// reorg disconnects its block. In a reorg, events of disconnected blocks come first, newest first, then those of
    /// connected blocks, with each transaction at its position in its block.
    /// Example: `subscription { ledgerEvents(watch: { addresses: ["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"] }) { seq
    /// cursor kind entry { net } } }`.
    #[graphql(complexity = "costs::more(watch.accounts_cost(0), child_complexity)")]
    async fn ledger_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The addresses and scripts to watch, at most `server.limits.subscriptions.watchedItems`, and the descriptors, at most \
                    `server.limits.subscriptions.watchedDescriptors`. Duplicates count once. When a script near the end of a \
                    descriptor is used, more are watched: their history up to this place is sent first, with `isBackfill`. \
                    Deriving scripts costs as much as in `descriptor`."
        )]
        watch: LedgerInput,
        #[graphql(
            desc = "Only events after the event or the snapshot with this cursor. No event is missing while the server still stores \
                    the mempool and chain history since then, but for SEEN with `isBackfill`, which is sent while a \
                    transaction is unconfirmed. After a longer absence, or a restart of the server, the \
                    client receives all changes of the chain that were not undone in the meantime, then GAP, SEEN for \
                    every transaction in the current mempool, and GAP_END. If the server does not have the cursor's \
                    block yet, it waits for it for up to 10 seconds, then fails with CURSOR_EXPIRED."
        )]
        after: Option<String>,
        #[graphql(
            desc = "The numbers of confirmations at which to send DEPTH_REACHED, at most 20. 1 in the list does nothing: \
                    the first confirmation always sends CONFIRMED.",
            default_with = "Some(Vec::new())"
        )]
        depths: Option<Vec<i32>>,
        #[graphql(
            desc = "Only events of these kinds; all if not given. GAP and GAP_END are always sent, because a client without \
                    them keeps transactions that are gone. A cursor is valid whatever kinds are requested."
        )]
        kinds: Option<Vec<LedgerEventKind>>,
    ) -> Result<impl Stream<Item = Result<LedgerEvent, ApiError>> + use<>, ApiError> {
        let StreamSource { published, live, .. } = &self.source;
        let limits = *limits(ctx)?;
        let depths = above_one(depths.unwrap_or_default())?;
        if kinds.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::bad_argument("kinds", "is empty: give at least one kind, or leave it out for all"));
        }
        let view = Arc::new(View::new(self.source.head()?));
        let mut watch = WatchSet::read(ctx, &view, watch, &self.source.serving).await?;
        let scope = LedgerCursor::scope(format!("{} {depths:?}", watch.id()));
        let branches = watch.branch_count();
        let (after, tracker) = (LastEventId::or_argument(ctx, after), ResumeTracker::of(ctx));
        let after = after.map(|cursor| LedgerCursor::decode(&cursor, &scope, branches)).transpose()?;
        let (mut seq, place) = (SeqCounter::after(after.as_ref()), after.map(|after| after.place));
        if let Some(place) = &place {
            self.source.wait_for(place.block).await?;
        }
        let events = live.subscribe();
        let head = self.source.head()?;
        begin_at(&mut watch, &View::new(Arc::clone(&head)), place.as_ref(), live.run()).await?;
        let sources = LedgerSources { published, live, stale: &self.stale, allowance: limits.transaction_bytes };
        let follower =
            LedgerFollower::new(&sources, (watch, depths), place, events, &head).map_err(ApiError::of_after)?;
        let is_wanted = move |kind| kinds.as_ref().is_none_or(|kinds| is_always_sent(kind) || kinds.contains(&kind));
        let sent = events_until_error(follower).filter_map(move |found| {
            let event = match found {
                Ok((_, update, _)) if !is_wanted(update.kind) => None,
                found => Some(found.and_then(|(view, update, watched)| {
                    let seq = seq.next()?;
                    let cursor = update.place.encode(&scope, seq);
                    tracker.reach_cursor(&cursor);
                    LedgerEvent::new(view, &update, watched, (seq, cursor), limits.scan_rows)
                })),
            };
            std::future::ready(event)
        });
        Ok(self.source.counted(sent))
    }
}

/// Derives the scripts of descriptors that were watched at a place, or would have been.
async fn begin_at(watch: &mut WatchSet, view: &View, place: Option<&LedgerCursor>, run: u64) -> Result<(), ApiError> {
    let Some(LedgerCursor { block, reached, watch: ends, .. }) = place else {
        return watch.extend(view, HistoryEnd::ALL).await.map(drop);
    };
    if let Some(ends) = ends {
        return watch.begin_at(view, &ends.ends).await;
    }
    // a snapshot: what was used then
    let Some(fork) = view.fork_height(block.hash())? else { return Err(block_not_stored(block.hash()).of_after()) };
    let txnum = view.txnums(Height::from(0)..fork.next())?.end;
    let arrival = reached.filter(|reached| reached.run == run).map_or(0, |reached| reached.sequence.saturating_add(1));
    watch.extend(view, HistoryEnd { txnum, arrival }).await.map(drop)
}

/// Whether a client needs the event whatever kinds it asks for.
fn is_always_sent(kind: LedgerEventKind) -> bool {
    matches!(kind, LedgerEventKind::Gap | LedgerEventKind::GapEnd)
}

/// The numbers of confirmations above the first, ascending, each once.
fn above_one(depths: Vec<i32>) -> Result<Vec<u32>, ApiError> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    if depths.len() > DEPTHS {
        return Err(ApiError::argument_exceeds(
            "depths",
            "depthsPerSubscription",
            number(DEPTHS),
            number(depths.len()),
        ));
    }
    let mut above = Vec::with_capacity(depths.len());
    for (place, given) in depths.into_iter().enumerate() {
        let depth = u32::try_from(given).ok().filter(|depth| *depth > 0);
        let depth = depth.ok_or_else(|| {
            ApiError::bad_argument(
                format!("depths[{place}]"),
                format!("is {given}, and a number of confirmations is at least 1"),
            )
        })?;
        above.extend((depth > 1).then_some(depth));
    }
    above.sort_unstable();
    above.dedup();
    Ok(above)
}
