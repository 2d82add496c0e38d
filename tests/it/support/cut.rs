//! An index whose cut lies in the middle of its chain: the tests of a model run over it as over one that freezes nothing.

use std::sync::atomic::AtomicBool;

use btcgraph::chain::Height;
use btcgraph::index::{Index, RawStorage};

/// Whether an index has generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexForm {
    /// All rows are live.
    Live,
    /// The lower half of its blocks is frozen.
    Cut,
}

/// Makes two tests of each function that receives an [`IndexForm`].
macro_rules! live_and_cut {
    ($($test:ident),* $(,)?) => {
        mod live {
            $(#[test] fn $test() { super::$test(crate::support::cut::IndexForm::Live); })*
        }
        mod cut {
            $(#[test] fn $test() { super::$test(crate::support::cut::IndexForm::Cut); })*
        }
    };
}
pub(crate) use live_and_cut;

/// Freezes the lower half of the live blocks, whose bytes the index stores itself from then on, and deletes some of their rows.
pub(crate) fn freeze_half(index: &mut Index) {
    let snapshot = index.snapshot().unwrap();
    let first = snapshot.frozen().map_or(0, |frozen| frozen.height.to_u32() + 1);
    let last = Height::from(u32::midpoint(first, snapshot.tip().unwrap().height.to_u32()));
    let heights = Height::from(first)..=last;
    if last.to_u32() < first {
        return;
    }
    if index.raw_storage().unwrap().is_none() {
        index.set_raw_storage(RawStorage::Index).unwrap();
    }
    snapshot.store_raw_blocks(heights.clone(), &AtomicBool::new(false)).unwrap();
    let path = index.freezing_path();
    snapshot.pack(heights, &path).unwrap();
    assert_eq!(index.adopt(&path).unwrap().height, last);
    index.sweep(700).unwrap();
}
