//! Builds the first generation straight from blocks, at about the speed of reading them. Nothing is looked up: what
//! belongs together meets by sorting it into partitions that fit into memory.
//!
//! ```text
//!   blocks ─► read ──────► txids, p2pk, block_starts, block_hashes
//!               │  runs by hash of txid: transactions, prevouts          the blocks again, compact, by range
//!               ▼                                                                          │
//!             join ──────► txid_prefixes                                                   │
//!               │  runs by range of funding transactions: spends                           │
//!               ▼                                                                          │
//!             outputs ───► spends, overwritten  ◄──────────────────────────────────────────┤
//!               │  runs by range of spending transactions: input values ──► statistics ◄───┘
//!               │  runs by script key: outputs with their spenders              └──► positions, blocks
//!               ▼
//!             scripts ───► history, unspent, payouts
//! ```
//!
//! The rows are those that [`Snapshot::pack`](super::Snapshot::pack) makes of an index of the same blocks.

mod estimate;
mod join;
mod ordered;
mod outputs;
mod progress;
mod read;
mod runs;
mod scripts;
mod statistics;
mod stream;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use bitcoin::{BlockHash, Network};

use super::error::IndexError;
use super::frozen::builder::GenerationBuilder;
use super::frozen::{GenerationRange, facts};
use super::keys::{Salt, ScriptKey, TxNum, TxidPrefix};
use super::sorter::Sorter;
use super::tables::block_starts::BlockStart;
use super::tables::{block_hashes, p2pk};
use super::update::Tip;
use crate::chain::Height;
pub use estimate::ImportEstimate;
use progress::ReportedProgress;
pub use progress::{ImportPhase, ImportProgress};
use read::BlockReader;
use runs::{Runs, TemporarySpace};

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The file of the generation, which must not exist.
    pub path: PathBuf,
    /// The directory for temporary runs.
    pub directory: PathBuf,
    /// The network of the blocks.
    pub network: Network,
    /// The salt of the index.
    pub salt: Salt,
    /// Memory for buffers and partitions, in bytes.
    pub memory: usize,
    /// Threads that work beside the one that calls.
    pub threads: usize,
    /// About how many transactions there are, from which the number of partitions follows.
    pub transactions: u64,
    /// Transactions of a range, or a few more, as it ends with a block.
    pub range: u32,
}

impl ImportOptions {
    /// Transactions of a range of a chain of so many, if there is no reason for another number: what is known of their
    /// outputs fits the cache of a processor, and there are at most some 4,000 ranges.
    #[must_use]
    pub fn default_range(transactions: u64) -> u32 {
        u32::try_from(transactions / 4_096).unwrap_or(u32::MAX).clamp(1 << 16, 1 << 20)
    }
}

/// Bytes that the outputs of a transaction take in memory while their partition is sorted: three of 80.
const PARTITION_BYTES: u64 = 3 * 80;

/// How many leading bits of a hash name its partition: so many that what a thread sorts of one partition fits into
/// its part of the memory, and, for the largest chains nearly, the transactions of one into the cache of a processor.
fn partition_bits(transactions: u64, memory: usize, threads: usize) -> u32 {
    const CACHED: u64 = 1 << 17;
    let bytes = transactions.saturating_mul(PARTITION_BYTES);
    let share = u64::try_from(memory / 2 / threads.max(1)).unwrap_or(u64::MAX).max(1);
    let partitions = bytes.div_ceil(share).max(transactions / CACHED);
    (u64::BITS - partitions.leading_zeros()).clamp(2, 12)
}

/// What the phases know about the chain as a whole.
struct ImportedChain {
    options: ImportOptions,
    space: Arc<TemporarySpace>,
    partition_bits: u32,
    starts: Vec<BlockStart>,
    hashes: Vec<BlockHash>,
    /// The first transaction of each range.
    ranges: Vec<TxNum>,
    /// The number of the next transaction.
    next: TxNum,
    /// An earlier copy → the next one with its txid.
    overwritten: HashMap<TxNum, TxNum>,
}

impl ImportedChain {
    /// The newest block, `None` before the first.
    fn tip(&self) -> Option<Tip> {
        let (start, hash) = self.starts.last().zip(self.hashes.last())?;
        Some(Tip { height: start.height, hash: *hash })
    }

    /// The block of a transaction.
    fn start_of(&self, txnum: TxNum) -> Result<&BlockStart, IndexError> {
        let behind = self.starts.partition_point(|start| start.first <= txnum);
        let start = behind.checked_sub(1).and_then(|at| self.starts.get(at));
        start.ok_or_else(|| IndexError::corrupt("block_starts", format!("transaction {txnum} is in no block")))
    }

    /// The range of a transaction.
    fn range_of(&self, txnum: TxNum) -> usize {
        self.ranges.partition_point(|first| *first <= txnum).saturating_sub(1)
    }

    /// The first transaction of a range, and the one behind its last.
    fn range(&self, range: usize) -> (TxNum, TxNum) {
        let end = self.ranges.get(range + 1).copied();
        (self.ranges.get(range).copied().unwrap_or(self.next), end.unwrap_or(self.next))
    }

    /// The partition of a script key.
    fn partition(&self, ScriptKey([high, low, ..]): ScriptKey) -> usize {
        usize::from(u16::from_be_bytes([high, low])) >> (16 - self.partition_bits)
    }

    /// The partition of the hash of a txid, and the 64 bits of it behind those that name the partition. Two of 1.5e9
    /// txids share a partition and these with a probability of 1 in 70,000.
    fn partition_of_hash(&self, hash: [u8; 16]) -> (usize, u64) {
        let hash = u128::from_be_bytes(hash);
        let partition = usize::try_from(hash >> (128 - self.partition_bits)).unwrap_or(0);
        (partition, (hash << self.partition_bits >> 64) as u64)
    }

    /// The first bytes of the hash that [`ImportedChain::partition_of_hash`] took apart.
    fn prefix_of_hash(&self, partition: usize, rest: u64) -> TxidPrefix {
        let hash = (partition as u128) << (128 - self.partition_bits) | u128::from(rest) << (64 - self.partition_bits);
        let mut prefix = [0; 6];
        prefix.copy_from_slice(&hash.to_be_bytes()[..6]);
        TxidPrefix(prefix)
    }

    fn partitions(&self) -> usize {
        1 << self.partition_bits
    }

    /// The error for a transaction.
    fn invalid(&self, txnum: TxNum, what: String) -> IndexError {
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

/// An import that is given the blocks of the chain, in order. When it is dropped before [`Import::finish`] returns
/// success, the file of the generation is removed and the temporary runs are returned to the disk. A process that is
/// killed leaves the file, which is not a generation, and no runs.
pub struct Import {
    reading: BlockReader,
    /// Whether a push began and did not succeed: some of its blocks may be counted without their rows.
    is_broken: bool,
}

impl Import {
    /// Begins with no blocks.
    ///
    /// Errors: the files cannot be made; storage errors.
    pub fn begin(options: ImportOptions) -> Result<Self, IndexError> {
        Ok(Self { reading: BlockReader::begin(options)?, is_broken: false })
    }

    /// Adds the next blocks of the chain, each with its hash. Many at once keep all threads busy.
    ///
    /// Errors: [`IndexError::Malformed`], `InvalidBlock`, `NotOnTip`; storage errors. Every later call then fails with
    /// [`IndexError::Broken`]: drop the import, and begin another.
    pub fn push(&mut self, blocks: &[(BlockHash, Vec<u8>)]) -> Result<(), IndexError> {
        if self.is_broken {
            return Err(IndexError::Broken);
        }
        self.is_broken = true;
        self.reading.push(blocks)?;
        self.is_broken = false;
        Ok(())
    }

    /// Builds the generation of all blocks, and returns what it is. `None`, and no file, if there are none.
    ///
    /// `watch` receives the progress on this thread: as each phase begins, and after each partition or range, of which
    /// each thread may be two ahead. After [`ControlFlow::Break`] each thread ends its partition and begins no other.
    ///
    /// Errors: [`IndexError::Interrupted`] if `watch` stops the import; `TemporaryRuns`; `InvalidBlock` if an input spends what does not exist or is spent, or amounts are
    /// impossible; `Broken` after a failed push; storage errors. The file is removed then.
    pub fn finish(
        self,
        watch: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<Option<Imported>, IndexError> {
        if self.is_broken {
            return Err(IndexError::Broken);
        }
        let ReadBlocks { mut chain, mut builder, stream, transactions, prevouts, p2pk, block_hashes } =
            self.reading.finish()?;
        let Some(last) = chain.tip() else { return Ok(None) };
        let range = GenerationRange { first: Height::GENESIS, last, txnums: (TxNum(0), chain.next) };
        let mut progress = ReportedProgress::new(watch, Arc::clone(&chain.space));
        let spends = join::join(&mut chain, &mut builder, &transactions, &prevouts, &mut progress)?;
        drop((transactions, prevouts));
        let outputs = outputs::outputs(&chain, &mut builder, &stream, &spends, &mut progress)?;
        drop((stream, spends));
        scripts::scripts(&chain, &mut builder, &outputs, &mut progress)?;
        drop(outputs);
        progress.begin(ImportPhase::Flushing, 1)?;
        builder.append_sorted(p2pk::TABLE, p2pk)?;
        builder.append_sorted(block_hashes::TABLE, block_hashes)?;
        let facts = facts(&range, chain.options.network, chain.options.salt, builder.counts());
        builder.finish(&facts)?;
        Ok(Some(Imported { range, temporary_bytes: chain.space.peak() }))
    }
}

/// What was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The blocks and transactions of the generation.
    pub range: GenerationRange,
    /// The most bytes that temporary runs had at a time.
    pub temporary_bytes: u64,
}

/// What reading the blocks leaves to the other phases.
struct ReadBlocks {
    chain: ImportedChain,
    builder: GenerationBuilder,
    stream: Arc<Runs>,
    transactions: Arc<Runs>,
    prevouts: Arc<Runs>,
    p2pk: Sorter,
    block_hashes: Sorter,
}
