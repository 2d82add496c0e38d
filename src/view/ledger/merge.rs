//! A merge of sorted lists.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Reads a list from its beginning or, downwards, from its end.
pub(super) fn directed<I: DoubleEndedIterator>(mut rows: I, ascending: bool) -> impl Iterator<Item = I::Item> {
    std::iter::from_fn(move || if ascending { rows.next() } else { rows.next_back() })
}

/// Rows of several lists, each sorted in one direction, as one list sorted in that direction. It ends at the first error.
pub(super) struct Merge<I, R> {
    sources: Vec<I>,
    heads: BinaryHeap<MergeHead<R>>,
    key: fn(&R) -> u64,
    ascending: bool,
    failed: bool,
}

/// The next row of a list.
struct MergeHead<R> {
    /// Largest for the row that comes first.
    rank: u64,
    source: usize,
    row: R,
}

impl<I: Iterator<Item = Result<R, E>>, R, E> Merge<I, R> {
    /// Merges lists that are sorted by `key`, upwards or downwards. Errors: the first error that a list starts with.
    pub(super) fn new(sources: Vec<I>, ascending: bool, key: fn(&R) -> u64) -> Result<Self, E> {
        let mut merge =
            Self { heads: BinaryHeap::with_capacity(sources.len()), sources, key, ascending, failed: false };
        for source in 0..merge.sources.len() {
            merge.pull(source)?;
        }
        Ok(merge)
    }

    fn pull(&mut self, source: usize) -> Result<(), E> {
        if let Some(row) = self.sources.get_mut(source).and_then(Iterator::next) {
            let row = row?;
            let key = (self.key)(&row);
            let rank = if self.ascending { u64::MAX - key } else { key };
            self.heads.push(MergeHead { rank, source, row });
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Result<R, E>>, R, E> Iterator for Merge<I, R> {
    type Item = Result<R, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let MergeHead { source, row, .. } = self.heads.pop()?;
        if let Err(error) = self.pull(source) {
            self.failed = true;
            return Some(Err(error));
        }
        Some(Ok(row))
    }
}

impl<R> Ord for MergeHead<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then(other.source.cmp(&self.source))
    }
}

impl<R> PartialOrd for MergeHead<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R> PartialEq for MergeHead<R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<R> Eq for MergeHead<R> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorted_lists_become_one_sorted_list(lists: Vec<Vec<u64>>, ascending: bool) {
            let mut expected: Vec<u64> = lists.iter().flatten().copied().collect();
            let sorted = |mut list: Vec<u64>| {
                list.sort_unstable();
                if !ascending { list.reverse() }
                list
            };
            let sources = lists.into_iter().map(|list| sorted(list).into_iter().map(Ok::<_, ()>)).collect();
            let merged: Vec<_> = Merge::new(sources, ascending, |row| *row).unwrap().map(Result::unwrap).collect();
            expected = sorted(expected);
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn an_error_is_the_last_row() {
        let sources = vec![vec![Ok(1), Err("broken"), Ok(9)].into_iter(), vec![Ok(2), Ok(3)].into_iter()];
        let merged: Vec<_> = Merge::new(sources, true, |row| *row).unwrap().collect();
        assert_eq!(merged, [Err("broken")]);
    }
}
