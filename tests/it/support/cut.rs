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

impl IndexForm {
    /// Freezes the blocks up to this height, if the index has generations.
    pub(crate) fn freeze_to(self, index: &mut Index, last: u32) {
        if self == Self::Cut {
            freeze_to(index, last);
        }
    }
}

/// Freezes the lower half of the live blocks, whose bytes the index stores itself from then on, and deletes some of their rows.
pub(crate) fn freeze_half(index: &mut Index) {
    let snapshot = index.snapshot().unwrap();
    let first = snapshot.frozen().map_or(0, |frozen| frozen.height.to_u32() + 1);
    freeze_to(index, u32::midpoint(first, snapshot.tip().unwrap().height.to_u32()));
}

/// The same of the live blocks up to this height, if there are any.
fn freeze_to(index: &mut Index, last: u32) {
    // as following does: rows that an earlier generation shadows are deleted before there is a further one
    while index.sweep(10_000).unwrap() {}
    let snapshot = index.snapshot().unwrap();
    let first = snapshot.frozen().map_or(0, |frozen| frozen.height.to_u32() + 1);
    if last < first {
        return;
    }
    let (heights, last) = (Height::from(first)..=Height::from(last), Height::from(last));
    if index.raw_storage().unwrap().is_none() {
        index.set_raw_storage(RawStorage::Index).unwrap();
    }
    snapshot.store_raw_blocks(heights.clone(), &AtomicBool::new(false)).unwrap();
    let path = index.freezing_path();
    snapshot.pack(heights, &path).unwrap();
    assert_eq!(index.adopt(&path).unwrap().height, last);
    index.sweep(700).unwrap();
}
