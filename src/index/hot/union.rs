//! The union of two sorted sequences of rows, read from either end.

use super::super::error::IndexError;

/// The rows of both, in the order of their keys; of equal keys the row of the first. Errors are returned as they are met.
pub(in crate::index) struct Union<A: Iterator, B: Iterator> {
    first: Ends<A>,
    second: Ends<B>,
}

/// A sequence with the items at its ends that were looked at.
struct Ends<I: Iterator> {
    items: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(items: I) -> Self {
        Self { items, front: None, back: None }
    }

    fn front(&mut self) -> Option<&I::Item> {
        if self.front.is_none() {
            self.front = self.items.next().or_else(|| self.back.take());
        }
        self.front.as_ref()
    }

    fn back(&mut self) -> Option<&I::Item> {
        if self.back.is_none() {
            self.back = self.items.next_back().or_else(|| self.front.take());
        }
        self.back.as_ref()
    }
}

impl<K: Ord, V, A, B> Union<A, B>
where
    A: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
    B: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
{
    pub(in crate::index) fn new(first: A, second: B) -> Self {
        Self { first: Ends::new(first), second: Ends::new(second) }
    }
}

/// Which of the two has the next item.
enum NextRow {
    First,
    Second,
    Both,
}

/// Which item is before the other; an error is before all rows.
fn choose<K: Ord, V>(
    first: Option<&Result<(K, V), IndexError>>,
    second: Option<&Result<(K, V), IndexError>>,
    is_reversed: bool,
) -> NextRow {
    match (first, second) {
        (None, _) | (Some(Ok(_)), Some(Err(_))) => NextRow::Second,
        (_, None) | (Some(Err(_)), _) => NextRow::First,
        (Some(Ok((one, _))), Some(Ok((other, _)))) => match one.cmp(other) {
            std::cmp::Ordering::Equal => NextRow::Both,
            order if (order == std::cmp::Ordering::Less) != is_reversed => NextRow::First,
            _ => NextRow::Second,
        },
    }
}

impl<K: Ord, V, A, B> Iterator for Union<A, B>
where
    A: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
    B: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
{
    type Item = Result<(K, V), IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        match choose(self.first.front(), self.second.front(), false) {
            NextRow::First => self.first.front.take(),
            NextRow::Second => self.second.front.take(),
            NextRow::Both => {
                self.second.front = None;
                self.first.front.take()
            }
        }
    }
}

impl<K: Ord, V, A, B> DoubleEndedIterator for Union<A, B>
where
    A: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
    B: DoubleEndedIterator<Item = Result<(K, V), IndexError>>,
{
    fn next_back(&mut self) -> Option<Self::Item> {
        match choose(self.first.back(), self.second.back(), true) {
            NextRow::First => self.first.back.take(),
            NextRow::Second => self.second.back.take(),
            NextRow::Both => {
                self.second.back = None;
                self.first.back.take()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_union_has_every_key_once_from_either_end(
            first in btree_map(0..40_u8, any::<u8>(), 0..12),
            second in btree_map(0..40_u8, any::<u8>(), 0..12),
            ends in vec(any::<bool>(), 80),
        ) {
            let mut all: BTreeMap<u8, u8> = second.clone();
            all.extend(first.clone());
            let mut all: VecDeque<_> = all.into_iter().collect();
            let mut union = Union::new(first.into_iter().map(Ok), second.into_iter().map(Ok));
            for from_back in ends {
                let (found, expected) =
                    if from_back { (union.next_back(), all.pop_back()) } else { (union.next(), all.pop_front()) };
                prop_assert_eq!(found.map(Result::unwrap), expected);
            }
            prop_assert!(all.is_empty());
        }

        #[test]
        fn an_error_is_returned_before_the_rows_behind_it(at in 0..5_usize, from_back in any::<bool>()) {
            let rows = (0..5).map(|key| if key == at { Err(IndexError::Broken) } else { Ok((key, ())) });
            let mut union = Union::new(rows, [7, 8].map(|key| Ok((key, ()))).into_iter());
            let items: Vec<_> =
                std::iter::from_fn(|| if from_back { union.next_back() } else { union.next() }).take(9).collect();
            prop_assert_eq!(items.iter().filter(|item| item.is_err()).count(), 1);
            prop_assert_eq!(items.len(), 7);
        }
    }
}
