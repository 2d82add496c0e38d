//! Whole blocks that were requested recently.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::Mutex;

/// The most blocks that are cached, as they are searched in order.
const MOST: usize = 64;

/// An LRU of blocks, bounded by their bytes.
pub(super) struct RecentBlocks {
    blocks: Mutex<VecDeque<(BlockHash, Arc<Vec<u8>>)>>,
    bytes: usize,
}

impl RecentBlocks {
    pub(super) fn new(bytes: usize) -> Self {
        Self { blocks: Mutex::default(), bytes }
    }

    pub(super) fn get(&self, hash: &BlockHash) -> Option<Arc<Vec<u8>>> {
        let mut blocks = self.blocks.lock();
        let at = blocks.iter().position(|(cached, _)| cached == hash)?;
        let block = blocks.remove(at)?;
        let bytes = Arc::clone(&block.1);
        blocks.push_front(block);
        Some(bytes)
    }

    pub(super) fn insert(&self, hash: BlockHash, block: &Arc<Vec<u8>>) {
        let mut blocks = self.blocks.lock();
        blocks.retain(|(cached, _)| *cached != hash);
        blocks.push_front((hash, Arc::clone(block)));
        let mut bytes = 0;
        let kept = blocks.iter().take(MOST).take_while(|(_, block)| {
            bytes += block.len();
            bytes <= self.bytes
        });
        let kept = kept.count();
        blocks.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn the_least_recently_used_blocks_are_evicted_at_the_byte_bound() {
        let hash = |number: u8| BlockHash::from_byte_array([number; 32]);
        let recent = RecentBlocks::new(100);
        let cached = || (0..10).filter(|number| recent.get(&hash(*number)).is_some()).collect::<Vec<_>>();
        (0..3).for_each(|number| recent.insert(hash(number), &Arc::new(vec![number; 40])));
        assert_eq!(cached(), [1, 2]);
        assert_eq!(*recent.get(&hash(1)).unwrap(), [1; 40]);
        recent.insert(hash(3), &Arc::new(vec![3; 60]));
        assert_eq!(cached(), [1, 3]);
        recent.insert(hash(4), &Arc::new(vec![4; 101]));
        assert_eq!(cached(), [0_u8; 0], "a block that exceeds the bound evicts all");
    }
}
