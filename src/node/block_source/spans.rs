//! Which blocks one read of a block file covers.

use std::ops::Range;

use super::super::block_files::BlockPosition;

/// The most bytes between two blocks that are read to save a read: a page.
const GAP: u64 = 4_096;

/// The ranges of `sorted` positions, each of which is read at once: blocks of one file with small gaps between them, of at
/// most `most` bytes together, or a single block.
pub(super) fn spans(sorted: &[BlockPosition], most: u64) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (at, position) in sorted.iter().enumerate() {
        if let Some(span) = spans.last_mut() {
            let (first, last) = (sorted[span.start], sorted[at - 1]);
            let is_near = (last.end()..=last.end() + GAP).contains(&position.offset.into());
            let is_small = position.end() <= u64::from(first.offset) + most;
            if first.file == position.file && is_near && is_small {
                span.end = at + 1;
                continue;
            }
        }
        spans.push(at..at + 1);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_lie_together_are_read_at_once() {
        let position = |(file, offset, length)| BlockPosition { file, offset, length };
        for (positions, expected) in [
            (vec![], &[][..]),
            // the frame of the next block lies between two blocks
            (vec![(0, 8, 100), (0, 116, 100)], &[(0, 2)][..]),
            // a block of another branch that is larger than a page
            (vec![(0, 8, 100), (0, 116 + 4_096, 100)], &[(0, 1), (1, 2)][..]),
            (vec![(0, 8, 100), (0, 108 + 4_096, 100)], &[(0, 2)][..]),
            (vec![(0, 8, 100), (1, 116, 100), (1, 224, 100)], &[(0, 1), (1, 3)][..]),
            (vec![(0, 8, 2_000), (0, 2_016, 2_000), (0, 4_024, 2_000)], &[(0, 2), (2, 3)][..]),
            (vec![(0, 8, 6_000), (0, 6_016, 10)], &[(0, 1), (1, 2)][..]),
        ] {
            let positions: Vec<_> = positions.into_iter().map(position).collect();
            let found: Vec<_> = spans(&positions, 5_000).into_iter().map(|span| (span.start, span.end)).collect();
            assert_eq!(found, expected, "{positions:?}");
        }
    }
}
