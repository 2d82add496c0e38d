//! A block of the active chain or a stale one, as the index knows it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bitcoin::consensus::encode;

use crate::chain::Height;
use crate::chain::raw::{HEADER_SIZE, RawBlock, RawError, RawTransaction};
use crate::index::{BlockRow, ChainMembership, IndexError, TxNum};

/// A block that the index knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its height in its own chain.
    pub height: Height,
    /// Its row. Running totals of a stale block are those of its own chain.
    pub row: Arc<BlockRow>,
    /// Whether it is part of the active chain.
    pub membership: ChainMembership,
    /// The serialised block, for a stale block only, whose transactions have no rows; read on first use.
    pub(super) stale: OnceLock<StaleBytes>,
}

/// A serialised stale block. It is parsed once for all its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StaleBytes {
    pub(super) raw: Vec<u8>,
    /// The byte range of each transaction.
    pub(super) transactions: Vec<Range<usize>>,
}

impl StaleBytes {
    pub(super) fn parse(raw: Vec<u8>) -> Result<Self, RawError> {
        let block = RawBlock::parse(&raw)?;
        let mut end = block.frame_size;
        let place = |transaction: &RawTransaction<'_>| {
            let start = end;
            end += transaction.bytes().len();
            start..end
        };
        let transactions = block.transactions.iter().map(place).collect();
        Ok(Self { raw, transactions })
    }
}

impl Block {
    pub(super) fn new(height: Height, row: BlockRow, membership: ChainMembership) -> Self {
        Self { height, row: Arc::new(row), membership, stale: OnceLock::new() }
    }

    pub(super) fn main(height: Height, row: BlockRow) -> Self {
        Self::new(height, row, ChainMembership::Main)
    }

    /// Whether it is part of the active chain.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.membership == ChainMembership::Main
    }

    /// The bytes that are read before any of its transactions but the coinbase: a stale block is read as a whole.
    #[must_use]
    pub fn bytes_to_open(&self) -> usize {
        if self.is_main() { 0 } else { self.row.size.try_into().unwrap_or(usize::MAX) }
    }

    /// The weight of all its transactions but the coinbase, whose serialisation is given: the weight that pays fees.
    pub fn paying_weight(&self, coinbase: &[u8]) -> Result<u64, IndexError> {
        let damaged = |what: String| IndexError::corrupt("blocks", format!("block {}: {what}", self.row.hash));
        let coinbase = RawTransaction::parse_whole(coinbase).map_err(|error| damaged(error.to_string()))?;
        // header and transaction count have no witness, so each of their bytes weighs four
        let frame = 4 * (HEADER_SIZE + encode::VarInt(self.row.transactions.into()).size());
        let rest = u64::try_from(frame.saturating_add(coinbase.weight())).ok();
        let weight = rest.and_then(|rest| u64::from(self.row.weight).checked_sub(rest));
        weight.ok_or_else(|| damaged("it weighs less than its coinbase".to_owned()))
    }

    /// The position of its first transaction. Meaningless for a stale block.
    pub(super) fn first_txnum(&self) -> Result<TxNum, IndexError> {
        self.row.first_txnum(self.height)
    }

    /// The position after its last transaction. Meaningless for a stale block.
    pub(super) fn end_txnum(&self) -> Result<TxNum, IndexError> {
        let count = u32::try_from(self.row.running.transactions);
        count.map(TxNum).map_err(|_| IndexError::corrupt("blocks", "the chain has more transactions than fit"))
    }
}
