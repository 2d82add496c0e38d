//! What was computed of whole blocks for an answer: each of its fields may ask for another transaction of one block.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::Mutex;

/// Values of blocks, of an answer so far. What was read for them was counted before, so that the limits of an answer bound them.
#[derive(Debug)]
pub(in crate::view) struct KeptByBlock<T>(Mutex<HashMap<BlockHash, Arc<T>>>);

impl<T> KeptByBlock<T> {
    pub(in crate::view) fn get(&self, block: &BlockHash) -> Option<Arc<T>> {
        self.0.lock().get(block).cloned()
    }

    pub(in crate::view) fn keep(&self, block: BlockHash, value: T) -> Arc<T> {
        let kept = Arc::new(value);
        self.0.lock().insert(block, Arc::clone(&kept));
        kept
    }

    /// The value of a block, computed at the first question.
    pub(in crate::view) fn get_or<E>(
        &self,
        block: BlockHash,
        compute: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        match self.get(&block) {
            Some(kept) => Ok(kept),
            None => Ok(self.keep(block, compute()?)),
        }
    }
}

impl<T> Default for KeptByBlock<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
