//! The entries of one table of several generations, in the order of the keys.

use std::iter::Peekable;

use super::super::error::IndexError;
use super::generation::scan::PackedEntries;

/// Merges entries, each with the place of its source among the sources. Of equal keys the first source is first.
pub(super) struct MergedEntries<K, V> {
    sources: Vec<Peekable<PackedEntries<K, V>>>,
}

impl<K: Ord, V> MergedEntries<K, V> {
    /// The sources are in the order of their keys each.
    pub(super) fn new(sources: Vec<PackedEntries<K, V>>) -> Self {
        Self { sources: sources.into_iter().map(Iterator::peekable).collect() }
    }
}

impl<K: Ord, V> Iterator for MergedEntries<K, V> {
    type Item = Result<(usize, K, V), IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut least, mut failed): (Option<(usize, &K)>, _) = (None, None);
        // there are few: a heap would not be faster
        for (at, source) in self.sources.iter_mut().enumerate() {
            match source.peek() {
                Some(Ok((key, _))) if least.is_none_or(|(_, other)| key < other) => least = Some((at, key)),
                Some(Err(_)) => failed = Some(at),
                _ => {}
            }
        }
        let at = failed.or(least.map(|(at, _)| at))?;
        self.sources[at].next().map(|entry| entry.map(|(key, value)| (at, key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(entries: &[(u32, char)]) -> PackedEntries<u32, char> {
        let entries = entries.to_vec();
        Box::new(entries.into_iter().map(Ok))
    }

    #[test]
    fn entries_come_in_the_order_of_their_keys_and_equal_ones_in_that_of_the_sources() {
        let sources = vec![source(&[(1, 'a'), (4, 'b')]), source(&[]), source(&[(0, 'c'), (4, 'd'), (5, 'e')])];
        let merged: Vec<_> = MergedEntries::new(sources).map(Result::unwrap).collect();
        assert_eq!(merged, [(2, 0, 'c'), (0, 1, 'a'), (0, 4, 'b'), (2, 4, 'd'), (2, 5, 'e')]);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_reported_before_others() {
        let damaged = std::iter::once(Err(IndexError::corrupt("txids", "damaged")));
        let sources = vec![source(&[(1, 'a')]), Box::new(damaged) as PackedEntries<u32, char>];
        let merged: Vec<_> = MergedEntries::new(sources).map(|entry| entry.is_ok()).collect();
        assert_eq!(merged, [false, true]);
    }
}
