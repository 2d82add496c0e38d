//! The clock of the chain: median time past.
//!
//! Header times are set by miners, may lie up to two hours ahead and may precede their parent's. The median of the
//! last eleven never decreases, so it is the time to search and to compare by (BIP113).

/// The number of blocks in the median (`nMedianTimeSpan`, Core `chain.h`).
const MEDIAN_TIME_SPAN: usize = 11;

/// The median time past of a block in Unix seconds (Core `CBlockIndex::GetMedianTimePast`).
///
/// `times` are header times in height order, ending with the block's own; only the last eleven count, and near the
/// genesis block fewer are enough. Of an even number it is the later of the two in the middle. `None` if there are
/// none.
#[must_use]
pub fn median_time_past(times: &[u32]) -> Option<u32> {
    let mut last = times[times.len().saturating_sub(MEDIAN_TIME_SPAN)..].to_vec();
    last.sort_unstable();
    last.get(last.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::test_data::shared_data;

    #[test]
    fn the_median_of_what_is_there() {
        for (times, median) in [
            (&[][..], None),
            (&[7], Some(7)),
            (&[7, 5], Some(7)),
            (&[5, 7, 6], Some(6)),
            (&[1, 2, 3, 4], Some(3)),
            (&[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1], Some(6)),
            (&[0, 0, 0, 0, 0, 0, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1], Some(6)),
        ] {
            assert_eq!(median_time_past(times), median, "of {times:?}");
        }
    }

    #[test]
    fn on_a_real_chain_it_never_falls_and_every_block_is_later() {
        let name = "on_a_real_chain_it_never_falls_and_every_block_is_later";
        let Some(blocks) = shared_data::chain("mainnet-0-4521", name) else { return };
        let times: Vec<u32> = blocks.iter().map(|block| block.header.time).collect();
        let medians: Vec<u32> = (1..=times.len()).filter_map(|end| median_time_past(&times[..end])).collect();
        assert_eq!(medians.len(), times.len());
        assert!(medians.is_sorted());
        assert!(medians.iter().zip(&times[1..]).all(|(median, next_time)| next_time > median));
        assert_eq!(medians[10], 1_231_471_428, "of genesis to 10: the time of block 5");
    }

    proptest! {
        #[test]
        fn as_many_of_the_last_eleven_are_above_as_below(times in prop::collection::vec(any::<u32>(), 11..30)) {
            let median = median_time_past(&times).unwrap();
            let last = &times[times.len() - 11..];
            prop_assert!(last.contains(&median));
            prop_assert!(last.iter().filter(|time| **time < median).count() <= 5);
            prop_assert!(last.iter().filter(|time| **time > median).count() <= 5);
        }
    }
}
