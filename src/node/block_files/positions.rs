//! Where blocks are in the block files.

use bitcoin::BlockHash;

use super::BlockRecord;
use crate::chain::Height;

/// Where a block is in the block files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockPosition {
    /// The number of the file.
    pub file: u32,
    /// Where the block begins in the file, in bytes. A node's files are smaller than 4 GiB.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl BlockPosition {
    /// Stands for no block, as a block has a header.
    const NONE: Self = Self { file: 0, offset: 0, length: 0 };

    /// `None` in a file that no node writes.
    pub(super) fn of(record: &BlockRecord) -> Option<Self> {
        Some(Self { file: record.file, offset: u32::try_from(record.offset).ok()?, length: record.length })
    }

    /// Where the block ends in its file.
    pub(in crate::node) fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }
}

/// The positions of blocks by height, 12 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPositions(Vec<BlockPosition>);

impl BlockPositions {
    /// The position of the block at a height, if it is known.
    #[must_use]
    pub fn get(&self, height: Height) -> Option<BlockPosition> {
        self.0.get(index(height)).copied().filter(|position| *position != BlockPosition::NONE)
    }

    /// Stores the position of the block at a height.
    pub fn insert(&mut self, height: Height, position: BlockPosition) {
        let at = index(height);
        if self.0.len() <= at {
            self.0.resize(at + 1, BlockPosition::NONE);
        }
        self.0[at] = position;
    }

    /// Every known position with its height, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (Height, BlockPosition)> + '_ {
        let heights = (0..).map(Height::from);
        heights.zip(self.0.iter().copied()).filter(|(_, position)| *position != BlockPosition::NONE)
    }

    /// How many are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }
}

impl FromIterator<(Height, BlockPosition)> for BlockPositions {
    fn from_iter<I: IntoIterator<Item = (Height, BlockPosition)>>(positions: I) -> Self {
        let mut all = Self::default();
        positions.into_iter().for_each(|(height, position)| all.insert(height, position));
        all
    }
}

fn index(height: Height) -> usize {
    usize::try_from(height.to_u32()).unwrap_or(usize::MAX)
}

/// Blocks that are searched for, 16 bytes each beside their hashes.
pub(super) struct WantedBlocks<'h> {
    hashes: &'h [BlockHash],
    /// The first bytes of each hash and its index, in order.
    sorted: Vec<(u64, u32)>,
}

impl<'h> WantedBlocks<'h> {
    pub(super) fn new(hashes: &'h [BlockHash]) -> Self {
        let mut sorted: Vec<_> = (0..).zip(hashes).map(|(at, hash)| (prefix(hash), at)).collect();
        sorted.sort_unstable();
        Self { hashes, sorted }
    }

    /// The index of a hash.
    pub(super) fn index_of(&self, hash: &BlockHash) -> Option<usize> {
        let from = self.sorted.partition_point(|(first, _)| *first < prefix(hash));
        let equal = self.sorted[from..].iter().take_while(|(first, _)| *first == prefix(hash));
        let mut indices = equal.filter_map(|(_, at)| usize::try_from(*at).ok());
        indices.find(|at| self.hashes.get(*at) == Some(hash))
    }
}

/// The first bytes as they are hashed: those that are displayed last, which proof of work leaves random.
fn prefix(hash: &BlockHash) -> u64 {
    let bytes: &[u8; 32] = hash.as_ref();
    bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn positions_are_stored_by_height() {
        let position = |file| BlockPosition { file, offset: 8, length: 285 };
        let mut positions = BlockPositions::default();
        positions.insert(5.into(), position(1));
        positions.insert(2.into(), position(2));
        positions.insert(5.into(), position(3));
        assert_eq!(positions.get(5.into()), Some(position(3)));
        assert_eq!((positions.get(4.into()), positions.get(6.into())), (None, None));
        let all: Vec<_> = positions.iter().collect();
        assert_eq!(all, [(2.into(), position(2)), (5.into(), position(3))]);
        assert_eq!((positions.count(), all.into_iter().collect::<BlockPositions>()), (2, positions));
        assert_eq!(size_of::<BlockPosition>(), 12);
    }

    #[test]
    fn hashes_with_equal_prefixes_are_distinguished_by_the_rest() {
        let hash = |prefix: u8, rest: u8| {
            let mut bytes = [rest; 32];
            bytes[..8].fill(prefix);
            BlockHash::from_byte_array(bytes)
        };
        let hashes = [hash(9, 0), hash(1, 1), hash(1, 2), hash(0, 3)];
        let wanted = WantedBlocks::new(&hashes);
        for (at, hash) in hashes.iter().enumerate() {
            assert_eq!(wanted.index_of(hash), Some(at));
        }
        assert_eq!(wanted.index_of(&hash(1, 3)), None);
        assert_eq!(wanted.index_of(&hash(10, 0)), None);
    }
}
