use std::sync::Arc;

use async_graphql::{ComplexObject, Context, SimpleObject};

use super::fee_bin::FeeBinObject;
use super::past_estimate::PastFeeEstimate;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::page::count_of;
use crate::api::scalars::{DateTime, Sats, UInt53, int_of};
use crate::api::types::block::BlockRangeInput;
use crate::limits::Limits;
use crate::view::{self, SAMPLED_TARGETS, SampledEstimates, View};

/// A sample is taken once in so many seconds.
const MINUTE: u32 = 60;
/// The length of a time without a start.
const DAY: u32 = 86_400;

/// Reading the blocks that the farthest of [`SAMPLED_TARGETS`] is for.
const READ_BLOCKS: usize = (SAMPLED_TARGETS[SAMPLED_TARGETS.len() - 1] as usize).div_ceil(costs::ROWS_APART);

/// The mempool at one point in time.
#[derive(SimpleObject)]
#[graphql(complex, name = "MempoolSample")]
pub(crate) struct MempoolSampleObject {
    #[graphql(skip)]
    view: Arc<View>,
    #[graphql(skip)]
    estimates: Option<SampledEstimates>,
    /// The time of the sample, to the minute.
    taken_at: DateTime,
    /// The number of transactions in the mempool.
    tx_count: i32,
    /// The total virtual size by which nodes judge the transactions (`adjustedVsize`), in vbytes.
    total_vsize: UInt53,
    /// The total fees of the transactions, in satoshis.
    total_fees: Sats,
    /// The lowest feerate that the node accepted, in sat/vB.
    min_fee_rate: f64,
    /// The mean rate of arrivals over the minute before, in transactions per second.
    tx_per_second: f64,
    /// The mean rate of arrivals, in vbytes per second.
    vbytes_per_second: f64,
    /// The distribution of the mempool over effective feerates (`effectiveFeeRate`), highest bin first. All samples use
    /// the same bins; empty bins are omitted.
    #[graphql(complexity = "costs::list(costs::FEE_BINS, child_complexity)")]
    vsize_by_fee_rate: Vec<FeeBinObject>,
}

impl FieldCacheability for MempoolSampleObject {
    const UNTIL_NEXT_HEAD: &'static str =
        "takenAt txCount totalVsize totalFees minFeeRate txPerSecond vbytesPerSecond vsizeByFeeRate pastFeeEstimates";
}

#[ComplexObject]
impl MempoolSampleObject {
    /// What this server recommended at that time (`recommendedFees`) for the next block and for one of the next three and six,
    /// and what the blocks after it took. Empty for a sample of a version that did not store it.
    #[graphql(complexity = "costs::more(READ_BLOCKS, costs::list(SAMPLED_TARGETS.len(), child_complexity))")]
    async fn past_fee_estimates(&self, ctx: &Context<'_>) -> Option<Result<Vec<PastFeeEstimate>, ApiError>> {
        let Some(estimates) = self.estimates else { return Some(Ok(Vec::new())) };
        let read = costs::spend(ctx, READ_BLOCKS);
        Some(read.and_then(|()| PastFeeEstimate::all(&self.view, estimates, self.min_fee_rate)))
    }
}

impl MempoolSampleObject {
    fn new(view: &Arc<View>, minute: u32, sample: view::MempoolSample) -> Result<Self, ApiError> {
        Ok(Self {
            taken_at: DateTime::from_unix(minute.saturating_mul(MINUTE)),
            tx_count: int_of(sample.count)?,
            total_vsize: UInt53::new(sample.vsize)?,
            total_fees: Sats::new(sample.total_fee)?,
            min_fee_rate: sample.min_fee_rate,
            tx_per_second: sample.transactions_per_second,
            vbytes_per_second: sample.vbytes_per_second,
            vsize_by_fee_rate: sample.bins.into_iter().map(FeeBinObject::new).collect::<Result<_, _>>()?,
            view: Arc::clone(view),
            estimates: sample.estimates,
        })
    }
}

/// The time that is asked for, `None` if it is none.
///
/// Errors: those of [`BlockRangeInput::time`].
pub(crate) fn time(range: Option<BlockRangeInput>, view: &View) -> Result<Option<(DateTime, DateTime)>, ApiError> {
    BlockRangeInput::time("range", range, DAY, view)
}

/// How many steps there are from one time to another; none if these are not in order, or the step cannot be.
pub(crate) fn steps((from, to): (DateTime, DateTime), step: Option<i32>) -> usize {
    let step = step.and_then(|step| u32::try_from(step).ok()).filter(|step| *step > 0).unwrap_or(MINUTE);
    let between = (to.to_unix() / step).checked_sub(from.to_unix() / step).filter(|_| from.to_unix() <= to.to_unix());
    between.map_or(0, |steps| usize::try_from(steps).unwrap_or(usize::MAX).saturating_add(1))
}

/// How many steps there are at most that are not refused: of blocks, the most that may be.
pub(crate) fn most_steps(range: Option<BlockRangeInput>, step: Option<i32>) -> usize {
    BlockRangeInput::given_time(range, DAY).map_or(costs::POINTS, |ends| steps(ends, step).min(costs::POINTS))
}

/// A step of time, and the mempool in it.
#[derive(SimpleObject)]
pub(crate) struct MempoolSeriesPoint {
    /// The first second of the step, even if the range begins later: a multiple of its length since 1970.
    start_at: DateTime,
    /// The last second of the step, even if the range ends earlier.
    end_at: DateTime,
    /// The newest sample of the step within the range. Null if there is none: the server was not running, or the node was away.
    sample: Option<MempoolSampleObject>,
}

impl FieldCacheability for MempoolSeriesPoint {
    const UNTIL_NEXT_HEAD: &'static str = "startAt endAt sample";
}

/// The steps with a sample, or all of them, the oldest first.
///
/// Errors: those of [`read`].
pub(crate) fn history(
    view: &Arc<View>,
    limits: &Limits,
    ends: (DateTime, DateTime),
    (step, include_empty): (i32, bool),
) -> Result<Vec<MempoolSeriesPoint>, ApiError> {
    let steps = read(view, limits, ends, step)?.into_iter().filter(|step| include_empty || step.sample.is_some());
    let point = |step: SampleStep| {
        Ok(MempoolSeriesPoint {
            start_at: DateTime::from_unix(step.start),
            end_at: DateTime::from_unix(step.end),
            sample: step.sample.map(|(minute, sample)| MempoolSampleObject::new(view, minute, sample)).transpose()?,
        })
    };
    steps.map(point).collect()
}

/// A step of time: its first and last second since 1970.
pub(super) struct SampleStep {
    start: u32,
    end: u32,
    /// The newest sample with its minute since 1970.
    pub(super) sample: Option<(u32, view::MempoolSample)>,
}

/// The steps, the oldest first.
///
/// Errors: BAD_USER_INPUT for a step below a minute, QUERY_LIMIT_EXCEEDED for too many steps.
pub(super) fn read(
    view: &View,
    limits: &Limits,
    (from, to): (DateTime, DateTime),
    step: i32,
) -> Result<Vec<SampleStep>, ApiError> {
    let step_seconds = count_of("stepSeconds", step)?;
    if step_seconds < MINUTE {
        return Err(ApiError::bad_argument("stepSeconds", format!("is {step}, and it must be at least 60")));
    }
    let (first, last) = (from.to_unix(), to.to_unix());
    let points = u64::try_from(steps((from, to), Some(step))).unwrap_or(u64::MAX);
    if points > limits.points.into() {
        return Err(ApiError::argument_exceeds("range", "pointsPerSeries", limits.points.into(), points));
    }
    let (mut found, mut start) = (Vec::new(), first - first % step_seconds);
    loop {
        let end = start.saturating_add(step_seconds - 1);
        // the minutes that begin within the step and the range
        let minutes = start.max(first).div_ceil(MINUTE)..=end.min(last) / MINUTE;
        let sample = if minutes.is_empty() { None } else { view.mempool_sample(minutes)? };
        found.push(SampleStep { start, end, sample });
        match start.checked_add(step_seconds).filter(|next| *next <= last) {
            Some(next) => start = next,
            None => return Ok(found),
        }
    }
}
