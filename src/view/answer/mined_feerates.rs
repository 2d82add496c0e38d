//! The effective feerates of whole blocks, kept for an answer.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::mempool::{FeeFraction, ahead_of_better};

/// The effective feerates of a block's transactions.
#[derive(Debug)]
pub struct MinedFeerates {
    /// That of each transaction without the coinbase, in block order.
    pub effective: Vec<FeeFraction>,
    ahead: OnceLock<HashSet<usize>>,
}

impl MinedFeerates {
    pub(in crate::view) fn new(effective: Vec<FeeFraction>) -> Self {
        Self { effective, ahead: OnceLock::new() }
    }

    /// The places of those that stand ahead of higher ones ([`ahead_of_better`]).
    pub fn ahead(&self) -> &HashSet<usize> {
        self.ahead.get_or_init(|| ahead_of_better(&self.effective).into_iter().collect())
    }
}
