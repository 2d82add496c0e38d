use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::stream::Stream;
use async_graphql::{Context, Subscription};

use super::field_sharing::{FieldSharing, Sharing};
use super::source::StreamSource;
use crate::api::context::{Pinned, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::page::{count_of, list_size};
use crate::api::streams::follower::events_until_error;
use crate::api::streams::open::CountedEvents;
use crate::api::streams::sampled::{SampleTimer, SampledFollower, has_changed};
use crate::api::types::chain::DifficultyAdjustment;
use crate::api::types::mempool::{
    MempoolStats, PROJECTED, ProjectedBlockDelta, ProjectedBlockObject, ProjectedBlockReader, RecommendedFeesObject,
};
use crate::api::types::node::SyncProgress;
use crate::view::{ReadSet, View};

/// The least time between two events of what can change with every transaction.
const PAUSE: Duration = Duration::from_secs(1);
/// Seconds between two looks at the figures of the mempool if nothing else is asked for, and what can be asked for.
const STATS_SECONDS: i32 = 5;
const MOST_STATS_SECONDS: i32 = 3_600;

/// The subscriptions to figures: the present value at once, and then each change.
pub(crate) struct SampledSubscription(pub(crate) StreamSource);

impl SampledSubscription {
    /// Makes views of what is newest, with the allowance of an event each.
    fn views(&self, ctx: &Context<'_>) -> Result<impl Fn() -> Result<Arc<View>, ApiError> + Send + use<>, ApiError> {
        self.0.head()?;
        let (published, allowance) = (self.0.published.clone(), limits(ctx)?.transaction_bytes);
        Ok(move || {
            let head = published.head().ok_or_else(|| ApiError::not_ready(&published.state()))?;
            Ok(Arc::new(published.view_of(head, allowance, published.node_client())))
        })
    }

    /// What `look` finds each time, as events.
    fn sent<T: Send + 'static>(
        &self,
        timer: SampleTimer,
        look: impl FnMut(&mut SampleTimer) -> Result<Option<T>, ApiError> + Send + 'static,
    ) -> CountedEvents<Result<T, ApiError>> {
        self.0.counted(events_until_error(SampledFollower::new(timer, look)))
    }
}

/// Seconds between two looks. Errors: BAD_USER_INPUT.
fn stats_pause(seconds: i32) -> Result<Duration, ApiError> {
    let within = u64::try_from(seconds).ok().filter(|_| (1..=MOST_STATS_SECONDS).contains(&seconds));
    within.map(Duration::from_secs).ok_or_else(|| {
        ApiError::bad_argument("everySeconds", format!("is {seconds}, and it must be 1 to {MOST_STATS_SECONDS}"))
    })
}

pub(crate) const SHARING: [FieldSharing; 6] = [
    // with another pause than the default the newest may be an hour old
    FieldSharing::shared("mempoolStats", Sharing::NewestFirst).only_if(|field, _| field.arguments.is_empty()),
    // an event comes when the feerates change, and is of that moment: the newest one may be of long ago
    FieldSharing::not_shared("recommendedFees"),
    // an event comes when a figure changes, and what else is asked for may have changed since
    FieldSharing::not_shared("projectedBlocks"),
    // the first event is whole, and those behind it are changes to it
    FieldSharing::not_shared("projectedBlock"),
    // each event is the whole value, and the newest one is the present one, or was a second ago
    FieldSharing::shared("difficultyAdjustment", Sharing::NewestFirst),
    FieldSharing::shared("syncProgress", Sharing::NewestFirst),
];

#[Subscription]
impl SampledSubscription {
    /// The statistics of the mempool: an initial event, then at the requested interval whenever a figure has changed
    /// since the last event.
    /// Example: `subscription { mempoolStats(everySeconds: 10) { txCount totalVsize minFeeRate } }`.
    async fn mempool_stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The minimum number of seconds between two events, 1 to 3,600.",
            default_with = "Some(STATS_SECONDS)"
        )]
        every_seconds: Option<i32>,
    ) -> Result<impl Stream<Item = Result<MempoolStats, ApiError>> + use<>, ApiError> {
        let pause = stats_pause(every_seconds.unwrap_or(STATS_SECONDS))?;
        let (view, mut sent) = (self.views(ctx)?, None);
        // their rates sink also while nothing happens
        Ok(self.sent(SampleTimer::every(pause), move |_| {
            let stats = MempoolStats::of(&*view()?)?;
            Ok(has_changed(&mut sent, stats.clone()).then_some(stats))
        }))
    }

    /// The recommended feerates: an initial event, then an event when one of them changes, at most once per second. The
    /// first event waits until the server has read the node's mempool.
    /// Example: `subscription { recommendedFees { within1Block within6Blocks } }`.
    async fn recommended_fees(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<RecommendedFeesObject, ApiError>> + use<>, ApiError> {
        let timer = SampleTimer::at_changes(self.0.live.changes(), PAUSE);
        let (view, mut sent) = (self.views(ctx)?, None);
        Ok(self.sent(timer, move |_| {
            let view = view()?;
            if !view.follows_mempool() || !has_changed(&mut sent, view.mempool().recommended_fees()) {
                return Ok(None);
            }
            RecommendedFeesObject::of(view).map(Some)
        }))
    }

    /// All blocks that miners would assemble from the mempool, next block first: an initial event, then an event when a figure
    /// of one of them changes, at most once per second. For the transactions of one block, `projectedBlock` sends changes.
    /// Example: `subscription { projectedBlocks(first: 3) { index txCount medianFeeRate } }`.
    #[graphql(complexity = "costs::beginning(first.unwrap_or(PROJECTED), child_complexity)")]
    async fn projected_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Maximum number of blocks, at most `server.limits.pages.pageSize`.",
            default_with = "Some(PROJECTED)"
        )]
        first: Option<i32>,
    ) -> Result<impl Stream<Item = Result<Vec<ProjectedBlockObject>, ApiError>> + use<>, ApiError> {
        let first = list_size(limits(ctx)?, first.unwrap_or(PROJECTED))?;
        let timer = SampleTimer::at_changes(self.0.live.changes(), PAUSE);
        let (view, mut sent) = (self.views(ctx)?, None);
        Ok(self.sent(timer, move |_| {
            let blocks = ProjectedBlockObject::first(&view()?, first);
            let figures: Vec<_> = blocks.iter().map(ProjectedBlockObject::figures).collect();
            Ok(has_changed(&mut sent, figures).then_some(blocks))
        }))
    }

    /// A block that miners would assemble from the mempool: all its transactions first, then those added and
    /// removed, at most once per second, with the figures of the block in each event. If more than 1,000 transactions are
    /// added, the rest follows in the next events at once. A change of only the order sends no event. An event that fails is
    /// not repeated: subscribe again.
    /// Example: `subscription { projectedBlock(index: 0) { projectedBlock { txCount } added { txid } removed } }`.
    async fn projected_block(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The number of blocks before it. 0 for the next block. If there are not enough projected blocks, \
                    the block has no transactions.",
            default_with = "Some(0)"
        )]
        index: Option<i32>,
    ) -> Result<impl Stream<Item = Result<ProjectedBlockDelta, ApiError>> + use<>, ApiError> {
        let timer = SampleTimer::at_changes(self.0.live.changes(), PAUSE);
        let mut reader = ProjectedBlockReader::of(count_of("index", index.unwrap_or_default())?)?;
        let view = self.views(ctx)?;
        Ok(self.sent(timer, move |timer| reader.look(&view()?, timer)))
    }

    /// The projected difficulty of the next epoch: an initial event, then one for every new tip.
    /// Example: `subscription { difficultyAdjustment { progress estimatedAt } }`.
    async fn difficulty_adjustment(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<DifficultyAdjustment, ApiError>> + use<>, ApiError> {
        let timer = SampleTimer::at_changes(self.0.live.changes(), Duration::ZERO);
        let (view, mut sent) = (self.views(ctx)?, None);
        Ok(self.sent(timer, move |_| {
            let view = view()?;
            has_changed(&mut sent, view.tip().hash).then(|| DifficultyAdjustment::of(&view)).transpose()
        }))
    }

    /// The progress of indexing: an initial event, then an event on every change, at most once per second. Available
    /// even before any block is indexed, and while the node is unreachable.
    /// Example: `subscription { syncProgress { phase indexedHeight } }`.
    async fn sync_progress(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<SyncProgress, ApiError>> + use<>, ApiError> {
        let (published, allowance) = (self.0.published.clone(), limits(ctx)?.transaction_bytes);
        let mut sent = None;
        // nothing is published while blocks are fetched, but the state says how far that is
        Ok(self.sent(SampleTimer::every(PAUSE), move |_| {
            let progress = SyncProgress::new(Pinned::new(&published, allowance, ReadSet::default()));
            Ok(has_changed(&mut sent, progress.facts()).then_some(progress))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_each_second_to_each_hour() {
        assert_eq!(stats_pause(1), Ok(Duration::from_secs(1)));
        assert_eq!(stats_pause(3_600), Ok(Duration::from_hours(1)));
        for wrong in [0, -1, 3_601, i32::MIN, i32::MAX] {
            assert_eq!(stats_pause(wrong).unwrap_err().code(), "BAD_USER_INPUT", "{wrong}");
        }
    }
}
