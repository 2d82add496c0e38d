//! What the phases of an import know about the chain as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::super::codec::{Decoder, small};
use super::super::error::IndexError;
use super::super::hot::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::hot::tables::block_starts::BlockStart;
use super::super::hot::tables::blocks::too_many;
use super::super::hot::tip::Tip;
use super::super::keys::{ScriptKey, TxNum, TxidPrefix};
use super::checkpoint::ImportPlan;
use super::options::ImportOptions;
use super::runs::Runs;
use super::space::TemporarySpace;
use crate::chain::{Height, median_time_past, wide};

/// The bits of the first four bytes of a script key that never name its partition.
pub(super) const BITS_BEHIND_PARTITION: u32 = 20;

/// What the phases know about the chain as a whole.
pub(super) struct ImportedChain {
    pub(super) options: ImportOptions,
    pub(super) space: Arc<TemporarySpace>,
    pub(super) partition_bits: u32,
    pub(super) starts: Vec<BlockStart>,
    pub(super) hashes: Vec<BlockHash>,
    /// The first transaction of each range.
    pub(super) ranges: Vec<TxNum>,
    /// The number of the next transaction.
    pub(super) next: TxNum,
    /// An earlier copy → the next one with its txid.
    pub(super) overwritten: HashMap<TxNum, TxNum>,
    /// The times of the last eleven blocks, oldest first.
    times: Vec<u32>,
}

/// Bytes of a record of [`RunKind::Blocks`](super::run_kinds::RunKind::Blocks).
pub(super) const BLOCK: usize = 32 + 4 + 4;

/// As much of a block as its place in the chain needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImportedBlock {
    pub(super) hash: BlockHash,
    pub(super) time: u32,
    pub(super) transactions: u32,
}

impl ImportedBlock {
    pub(super) fn encode(&self, record: &mut Vec<u8>) {
        record.extend(self.hash.as_byte_array());
        record.extend(self.time.to_be_bytes());
        record.extend(self.transactions.to_be_bytes());
    }

    fn decode(record: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let hash = BlockHash::from_byte_array(record.array()?);
        Ok(Self { hash, time: record.u32()?, transactions: record.u32()? })
    }
}

impl ImportedChain {
    /// A chain without blocks.
    pub(super) fn new(options: ImportOptions, plan: &ImportPlan, space: Arc<TemporarySpace>) -> Self {
        Self {
            options: ImportOptions { range: plan.range, ..options },
            space,
            partition_bits: plan.partition_bits,
            starts: Vec::new(),
            hashes: Vec::new(),
            ranges: Vec::new(),
            next: TxNum(0),
            overwritten: HashMap::new(),
            times: Vec::new(),
        }
    }

    /// Adds the next block. Returns where its transactions begin.
    ///
    /// Errors: there are more transactions than numbers.
    pub(super) fn push(&mut self, block: &ImportedBlock) -> Result<BlockStart, IndexError> {
        let end = self.next.0.checked_add(block.transactions).ok_or_else(too_many)?;
        self.times.push(block.time);
        if self.times.len() > 11 {
            self.times.remove(0);
        }
        let median_time = median_time_past(&self.times).unwrap_or(block.time);
        let start = BlockStart { first: self.next, height: Height::from(small(self.starts.len())), median_time };
        self.starts.push(start);
        self.hashes.push(block.hash);
        if self.ranges.last().is_none_or(|begun| start.first.0 - begun.0 >= self.options.range) {
            self.ranges.push(start.first);
        }
        self.next = TxNum(end);
        Ok(start)
    }

    /// Adds the blocks of an interrupted import.
    pub(super) fn read_blocks(&mut self, blocks: &Runs) -> Result<(), IndexError> {
        blocks.read(0, |chunk| {
            let mut chunk = Decoder::new("import", chunk);
            while !chunk.is_empty() {
                self.push(&ImportedBlock::decode(&mut chunk)?)?;
            }
            Ok(())
        })
    }

    /// The rows of `block_hashes`, in their order.
    pub(super) fn block_hashes(&self) -> Vec<([u8; 32], [u8; 5])> {
        let heights = (0..).map(Height::from);
        let row = |(hash, height): (&BlockHash, Height)| {
            (hash.to_byte_array(), BlockPlace { height, membership: ChainMembership::Main }.value())
        };
        let mut rows: Vec<_> = self.hashes.iter().zip(heights).map(row).collect();
        rows.sort_unstable();
        rows
    }

    /// The newest block, `None` before the first.
    pub(super) fn tip(&self) -> Option<Tip> {
        let (start, hash) = self.starts.last().zip(self.hashes.last())?;
        Some(Tip { height: start.height, hash: *hash })
    }

    /// The block of a transaction.
    pub(super) fn start_of(&self, txnum: TxNum) -> Result<&BlockStart, IndexError> {
        let behind = self.starts.partition_point(|start| start.first <= txnum);
        let start = behind.checked_sub(1).and_then(|at| self.starts.get(at));
        start.ok_or_else(|| IndexError::corrupt("block_starts", format!("transaction {txnum} is in no block")))
    }

    /// The range of a transaction.
    pub(super) fn range_of(&self, txnum: TxNum) -> usize {
        let begins_behind = |range: usize| self.ranges.get(range).is_none_or(|first| *first > txnum);
        // ranges are about equally long, so the proportion names it or one near it
        let proportion = wide(self.ranges.len()) * u64::from(txnum.0) / u64::from(self.next.0.max(1));
        let mut range = usize::try_from(proportion).unwrap_or_default().min(self.ranges.len());
        while range > 0 && begins_behind(range) {
            range -= 1;
        }
        while !begins_behind(range + 1) {
            range += 1;
        }
        range
    }

    /// The first transaction of a range, and the one behind its last.
    pub(super) fn range(&self, range: usize) -> (TxNum, TxNum) {
        let end = self.ranges.get(range + 1).copied();
        (self.ranges.get(range).copied().unwrap_or(self.next), end.unwrap_or(self.next))
    }

    /// The partition of a script key.
    pub(super) fn partition(&self, ScriptKey([high, low, ..]): ScriptKey) -> usize {
        usize::from(u16::from_be_bytes([high, low])) >> (16 - self.partition_bits)
    }

    /// So many bits of a script key behind those that name its partition, as a number: [`BITS_BEHIND_PARTITION`] at most.
    pub(super) fn bits_behind_partition(&self, ScriptKey([a, b, c, d, ..]): ScriptKey, bits: u32) -> usize {
        let behind = u64::from(u32::from_be_bytes([a, b, c, d]) << self.partition_bits);
        usize::try_from(behind >> (u32::BITS - bits)).unwrap_or(0)
    }

    /// The partition of the hash of a txid, and the 64 bits of it behind those that name the partition. Two of 1.5e9
    /// txids share a partition and these with a probability of 1 in 70,000.
    pub(super) fn partition_of_hash(&self, hash: [u8; 16]) -> (usize, u64) {
        let hash = u128::from_be_bytes(hash);
        let partition = usize::try_from(hash >> (128 - self.partition_bits)).unwrap_or(0);
        (partition, (hash << self.partition_bits >> 64) as u64)
    }

    /// The first bytes of the hash that [`ImportedChain::partition_of_hash`] took apart.
    pub(super) fn prefix_of_hash(&self, partition: usize, rest: u64) -> TxidPrefix {
        let hash = (partition as u128) << (128 - self.partition_bits) | u128::from(rest) << (64 - self.partition_bits);
        let mut prefix = [0; 6];
        prefix.copy_from_slice(&hash.to_be_bytes()[..6]);
        TxidPrefix(prefix)
    }

    pub(super) fn partitions(&self) -> usize {
        1 << self.partition_bits
    }

    /// The error for a transaction.
    pub(super) fn invalid(&self, txnum: TxNum, what: String) -> IndexError {
        match self.start_of(txnum) {
            Ok(start) => {
                let height = usize::try_from(start.height.to_u32()).unwrap_or(usize::MAX);
                match self.hashes.get(height) {
                    Some(hash) => IndexError::InvalidBlock { hash: *hash, what },
                    None => IndexError::corrupt("blocks", what),
                }
            }
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Network;
    use proptest::prelude::*;

    use super::super::super::keys::Salt;
    use super::*;

    /// A chain with ranges of so many transactions.
    fn chain(lengths: &[u32]) -> ImportedChain {
        let salt = Salt([0; 16]);
        let options = ImportOptions {
            path: "generation".into(),
            directory: "runs".into(),
            network: Network::Regtest,
            salt,
            memory: 0,
            threads: 1,
            transactions: 0,
            range: 1,
            checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
            raw_files: None,
        };
        let plan = ImportPlan { id: [0; 8], network: Network::Regtest, salt, partition_bits: 2, range: 1 };
        let mut chain = ImportedChain::new(options, &plan, Arc::default());
        for length in lengths {
            chain.ranges.push(chain.next);
            chain.next = TxNum(chain.next.0 + length);
        }
        chain
    }

    proptest! {
        #[test]
        fn the_range_of_a_transaction_is_the_last_that_begins_before_it(
            lengths in prop::collection::vec(prop_oneof![1..5_u32, 1_000..1_003_u32, Just(10_000)], 0..40),
        ) {
            let chain = chain(&lengths);
            let begin_and_before = chain.ranges.iter().flat_map(|first| [first.0, first.0.saturating_sub(1)]);
            for txnum in begin_and_before.chain([chain.next.0.saturating_sub(1), chain.next.0, u32::MAX]).map(TxNum) {
                let expected = chain.ranges.iter().rposition(|first| *first <= txnum).unwrap_or(0);
                prop_assert_eq!(chain.range_of(txnum), expected, "{} of {:?}", txnum, &lengths);
            }
        }
    }
}
