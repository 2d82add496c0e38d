//! The effective feerates of whole blocks, kept for an answer.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use bitcoin::BlockHash;

use super::View;
use crate::mempool::{FeeFraction, ahead_of_better};

/// The effective feerates of a block's transactions.
#[derive(Debug)]
pub struct MinedFeerates {
    /// That of each transaction without the coinbase, in block order.
    pub effective: Vec<FeeFraction>,
    ahead: OnceLock<HashSet<usize>>,
}

impl MinedFeerates {
    /// The places of those that stand ahead of higher ones ([`ahead_of_better`]).
    pub fn ahead(&self) -> &HashSet<usize> {
        self.ahead.get_or_init(|| ahead_of_better(&self.effective).into_iter().collect())
    }
}

impl View {
    /// The effective feerates of a block, if they were computed for this answer before.
    #[must_use]
    pub fn mined_feerates(&self, block: &BlockHash) -> Option<Arc<MinedFeerates>> {
        self.mined.get(block)
    }

    /// Keeps the effective feerates of a block's transactions without the coinbase, in block order.
    pub fn keep_mined_feerates(&self, block: BlockHash, effective: Vec<FeeFraction>) -> Arc<MinedFeerates> {
        self.mined.keep(block, MinedFeerates { effective, ahead: OnceLock::new() })
    }
}
