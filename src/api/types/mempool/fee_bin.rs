use async_graphql::SimpleObject;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::page::count_of;
use crate::api::scalars::{UInt53, int_of};
use crate::chain::Feerate;
use crate::view::{self, FeeBins, FeeFraction, FeerateKind};

/// How many vbytes a bin has at least if nothing else is asked for, as on Esplora servers.
pub(crate) const VSIZE: i32 = 50_000;

/// The transactions within a feerate range: at least one feerate and below another.
#[derive(SimpleObject)]
#[graphql(name = "FeeBin")]
pub(crate) struct FeeBinObject {
    /// The lower bound of the feerate, in sat/vB, inclusive. For bins cut by size, the lowest feerate in the bin.
    from_rate: f64,
    /// The upper bound of the feerate, in sat/vB, exclusive: the lower bound of the next higher bin. Null for the
    /// highest bin.
    to_rate: Option<f64>,
    /// The total virtual size of the transactions, in vbytes: of `adjustedVsize` where bins are of effective feerates, so that they
    /// add up to `MempoolStats.totalVsize`; else of `vsize`.
    total_vsize: UInt53,
    /// The number of transactions.
    tx_count: i32,
    /// The total virtual size of this bin and all higher bins, in vbytes. Where bins are of effective feerates, this is mined before
    /// a transaction that pays less than this bin.
    cumulative_vsize: UInt53,
}

impl FieldCacheability for FeeBinObject {
    const UNTIL_NEXT_HEAD: &'static str = "fromRate toRate totalVsize txCount cumulativeVsize";
}

impl FeeBinObject {
    pub(crate) fn new(bin: view::FeeBin) -> Result<Self, ApiError> {
        Ok(Self {
            from_rate: bin.from_rate.to_sat_per_vb(),
            to_rate: bin.to_rate.map(FeeFraction::to_sat_per_vb),
            total_vsize: UInt53::new(bin.vsize)?,
            tx_count: int_of(bin.count)?,
            cumulative_vsize: UInt53::new(bin.cumulative_vsize)?,
        })
    }
}

/// Whose feerate counts.
pub(crate) fn kind(effective: bool) -> FeerateKind {
    if effective { FeerateKind::Effective } else { FeerateKind::Own }
}

/// Bins at these feerates in sat/vB. Errors: QUERY_LIMIT_EXCEEDED, and BAD_USER_INPUT for what is no feerate.
pub(crate) fn at(rates: &[f64], limit: u32) -> Result<FeeBins, ApiError> {
    let count = u64::try_from(rates.len()).unwrap_or(u64::MAX);
    if count > limit.into() {
        return Err(ApiError::argument_exceeds("bins", "pointsPerSeries", limit.into(), count));
    }
    let read = |(place, rate): (usize, &f64)| feerate(&format!("bins[{place}]"), *rate).map(FeeFraction::from);
    rates.iter().enumerate().map(read).collect::<Result<_, _>>().map(FeeBins::At)
}

/// Bins of at least so many vbytes, and of so many more that `limit` of them hold all vbytes there are.
///
/// Errors: BAD_USER_INPUT for less than one vbyte.
pub(crate) fn filled(vsize: i32, all: u64, limit: u32) -> Result<FeeBins, ApiError> {
    let vsize = count_of("binVsize", vsize)?;
    if vsize == 0 {
        return Err(ApiError::bad_argument("binVsize", "is 0, and a bin has at least one vbyte"));
    }
    Ok(FeeBins::Filled(all.div_ceil(limit.max(1).into()).max(vsize.into())))
}

/// A feerate in sat/vB as a client gives it. Errors: BAD_USER_INPUT for one that cannot be.
pub(crate) fn feerate(argument: &str, sat_per_vb: f64) -> Result<Feerate, ApiError> {
    Feerate::from_sat_per_vb(sat_per_vb).ok_or_else(|| {
        let fault = format!("is {sat_per_vb}, and a feerate is from 0 to the coin supply per vbyte");
        ApiError::bad_argument(argument, fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_bins_than_the_limit() {
        assert_eq!(filled(50_000, 1_000_000, 2_000), Ok(FeeBins::Filled(50_000)));
        assert_eq!(filled(1, 1_000_001, 10), Ok(FeeBins::Filled(100_001)));
        assert_eq!(filled(1, 0, 0), Ok(FeeBins::Filled(1)));
        for wrong in [0, -1, i32::MIN] {
            assert_eq!(filled(wrong, 0, 10).unwrap_err().code(), "BAD_USER_INPUT");
        }
        assert_eq!(at(&[1.0; 3], 2), Err(ApiError::argument_exceeds("bins", "pointsPerSeries", 2, 3)));
        assert_eq!(at(&[1.0, -1.0], 2).unwrap_err().code(), "BAD_USER_INPUT");
    }
}
