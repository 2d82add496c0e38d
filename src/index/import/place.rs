//! Sorting by numbers that are known to be small: one pass puts every item where it belongs.

/// Puts items behind each other by the lists to which they belong, and those of a list in their order. `lengths` has the length of
/// each list, and afterwards where it ends.
pub(super) fn place<T: Copy>(items: &[T], lengths: &mut [usize], list_of: impl Fn(&T) -> usize, placed: &mut [T]) {
    // from lengths to where each list begins, and by placing the items to where it ends
    let mut begin = 0;
    for length in &mut *lengths {
        begin += std::mem::replace(length, begin);
    }
    let ends = lengths;
    for item in items {
        let end = &mut ends[list_of(item)];
        placed[*end] = *item;
        *end += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_placed_by_their_lists_in_their_order() {
        let items = [(2, 'a'), (0, 'b'), (2, 'c'), (3, 'd'), (0, 'e')];
        let (mut lengths, mut placed) = ([2, 0, 2, 1], [(9, ' '); 5]);
        place(&items, &mut lengths, |(list, _)| *list, &mut placed);
        assert_eq!(placed, [(0, 'b'), (0, 'e'), (2, 'a'), (2, 'c'), (3, 'd')]);
        assert_eq!(lengths, [2, 2, 4, 5]);
        place(&[], &mut [], |(list, _): &(usize, char)| *list, &mut []);
    }
}
