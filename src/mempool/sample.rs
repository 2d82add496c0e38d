//! A sample of the mempool's statistics at one time, stored in the index.

use bitcoin::VarInt;
use bitcoin::consensus::encode::{Error, deserialize, deserialize_partial, serialize};

use super::feerate::FeeFraction;
use super::histogram::{FeeBin, FeeBins, FeerateKind};
use super::snapshot::MempoolSnapshot;
use crate::chain::{Feerate, Height};

/// The lower bounds of the bins of a sample, in hundredths of a sat/vB; the lowest begins at 0.
const RATES: [u64; 42] = [
    10, 20, 30, 50, 70, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1_000, 1_200, 1_500, 2_000, 2_500, 3_000, 4_000,
    5_000, 6_000, 7_000, 8_000, 10_000, 12_500, 15_000, 17_500, 20_000, 25_000, 30_000, 35_000, 40_000, 50_000, 60_000,
    70_000, 80_000, 100_000, 120_000, 150_000, 200_000,
];

/// The numbers of blocks for which a sample has an estimate, as [`RecommendedFees`](super::RecommendedFees) has them.
pub const SAMPLED_TARGETS: [u32; 3] = [1, 3, 6];

/// What was recommended when a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledEstimates {
    /// The tip at that time: the estimates are for the blocks above it.
    pub tip: Height,
    /// For confirmation within each of [`SAMPLED_TARGETS`] blocks.
    pub feerates: [Feerate; 3],
}

/// The statistics of the mempool at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct MempoolSample {
    /// The number of transactions.
    pub count: u64,
    /// The sum of their virtual sizes in vbytes.
    pub vsize: u64,
    /// The sum of their fees in sat.
    pub total_fee: u64,
    /// The lowest feerate that the node accepted, in sat/vB.
    pub min_fee_rate: f64,
    /// New transactions per second, the mean over the minute before.
    pub transactions_per_second: f64,
    /// New virtual bytes per second, the mean over the minute before.
    pub vbytes_per_second: f64,
    /// The histogram by effective feerate, the highest bin first, without empty bins.
    pub bins: Vec<FeeBin>,
    /// What was recommended. `None` for a sample of a version that did not store it.
    pub estimates: Option<SampledEstimates>,
}

/// Counts, rates as the bits of their numbers, and (number of the bin, vbytes, transactions) for each bin. Behind it the
/// height of the tip and the estimates, if they are stored.
type EncodedSample = ((u64, u64, u64), (u64, u64, u64), Vec<VarInt>);

impl MempoolSample {
    /// Samples this state on top of the block `tip`; the rates of arrival end at `now`, in seconds since 1970.
    #[must_use]
    pub fn of(mempool: &MempoolSnapshot, tip: Height, now: u64) -> Self {
        let (totals, rate) = (mempool.totals(), mempool.arrival_rate(now));
        let bins = mempool.fee_histogram(FeerateKind::Effective, &FeeBins::At(rates().collect()));
        Self {
            count: totals.count,
            vsize: totals.vsize,
            total_fee: totals.fee,
            min_fee_rate: mempool.node().min_fee_rate,
            transactions_per_second: rate.transactions,
            vbytes_per_second: rate.vsize,
            bins: bins.into_iter().filter(|bin| bin.count > 0).collect(),
            estimates: SampledEstimates::of(mempool, tip),
        }
    }

    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bins = self.bins.iter().filter_map(|bin| {
            let number = starts().position(|start| start == bin.from_rate).and_then(|at| u64::try_from(at).ok())?;
            Some([number, bin.vsize, bin.count].map(VarInt))
        });
        let rates = [self.min_fee_rate, self.transactions_per_second, self.vbytes_per_second].map(f64::to_bits);
        let counts = (self.count, self.vsize, self.total_fee);
        let encoded: EncodedSample = (counts, rates.into(), bins.flatten().collect());
        let mut row = serialize(&encoded);
        if let Some(SampledEstimates { tip, feerates }) = self.estimates {
            let feerates = feerates.map(|feerate| VarInt(feerate.to_sat_per_kvb()));
            row.extend(serialize(&std::iter::once(VarInt(tip.to_u32().into())).chain(feerates).collect::<Vec<_>>()));
        }
        row
    }

    /// Decodes the result of [`encode`](Self::encode).
    ///
    /// Errors: the bytes are not a valid encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (sample, length) = deserialize_partial::<EncodedSample>(bytes)?;
        let ((count, vsize, total_fee), rates, encoded) = sample;
        let estimates = match bytes.get(length..).unwrap_or_default() {
            [] => None,
            rest => Some(SampledEstimates::decode(rest)?),
        };
        let starts: Vec<_> = starts().collect();
        let (bins, rest) = encoded.as_chunks();
        if !rest.is_empty() {
            return Err(Error::ParseFailed("a bin of a sample is cut off"));
        }
        let mut cumulative_vsize = 0_u64;
        let bins = bins.iter().map(|[number, vsize, count]| {
            let number = usize::try_from(number.0).ok();
            let from_rate = number.and_then(|number| starts.get(number)).copied();
            let from_rate = from_rate.ok_or(Error::ParseFailed("a sample has no such bin"))?;
            let to_rate = number.and_then(|number| starts.get(number + 1)).copied();
            cumulative_vsize = cumulative_vsize.saturating_add(vsize.0);
            Ok(FeeBin { from_rate, to_rate, vsize: vsize.0, count: count.0, cumulative_vsize })
        });
        let bins = bins.collect::<Result<_, Error>>()?;
        let (min_fee_rate, transactions_per_second, vbytes_per_second) = rates;
        Ok(Self {
            count,
            vsize,
            total_fee,
            min_fee_rate: f64::from_bits(min_fee_rate),
            transactions_per_second: f64::from_bits(transactions_per_second),
            vbytes_per_second: f64::from_bits(vbytes_per_second),
            bins,
            estimates,
        })
    }
}

impl SampledEstimates {
    /// `None` if a feerate exceeds the coin supply, as none of real transactions does.
    fn of(mempool: &MempoolSnapshot, tip: Height) -> Option<Self> {
        let fees = mempool.recommended_fees();
        let feerate = Feerate::from_sat_per_vb;
        let feerates = [feerate(fees.next_block)?, feerate(fees.within_3_blocks)?, feerate(fees.within_6_blocks)?];
        Some(Self { tip, feerates })
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = || Error::ParseFailed("estimates of a sample are not four numbers");
        let [tip, feerates @ ..]: [VarInt; 4] = deserialize::<Vec<VarInt>>(bytes)?.try_into().map_err(|_| wrong())?;
        let tip = u32::try_from(tip.0).map_err(|_| wrong())?;
        Ok(Self { tip: tip.into(), feerates: feerates.map(|feerate| Feerate::from_sat_per_kvb(feerate.0)) })
    }
}

fn rates() -> impl Iterator<Item = FeeFraction> {
    // a hundredth of a sat/vB is ten sat for 1,000 vbytes
    RATES.iter().map(|rate| Feerate::from_sat_per_kvb(rate * 10).into())
}

/// The lower bounds of the bins, the lowest first.
fn starts() -> impl Iterator<Item = FeeFraction> {
    std::iter::once(FeeFraction::ZERO).chain(rates())
}
