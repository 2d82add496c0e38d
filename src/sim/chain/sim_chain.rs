//! The blocks of a simulated chain, and which of them are active.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bitcoin::{Block, BlockHash, Network};

use super::tree_entry::{BlockData, TreeEntry};
use crate::chain::{Height, median_time_past};
use crate::sim::script_kind::ScriptKind;
use crate::sim::scripts::Owner;
use crate::sim::utxo::SimUtxoSet;

/// The number of blocks in the median time past (`nMedianTimeSpan` of Core's `chain.h`).
const MEDIAN_TIME_SPAN: usize = 11;
/// The default number of seconds from a block to the next.
const SPACING: u32 = 600;

/// A tree of regtest blocks and its active chain: the longest branch without an invalidated block, the first seen among
/// equals (all regtest blocks have the same work).
#[derive(Clone, Debug)]
pub struct SimChain {
    pub(super) seed: u64,
    pub(super) first_time: Option<u32>,
    pub(super) spacing: u32,
    pub(super) keep: Option<u32>,
    pub(super) core_coinbases: bool,
    pub(super) records: HashMap<BlockHash, TreeEntry>,
    pub(super) active: BTreeMap<Height, BlockHash>,
    pub(super) tip: BlockHash,
    /// The UTXO set at `view`, which is the tip between two calls.
    pub(super) utxos: SimUtxoSet,
    pub(super) view: BlockHash,
}

impl SimChain {
    /// A chain of the regtest genesis block alone. The seed is in every coinbase, so that chains of different
    /// seeds share no other block.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let genesis = bitcoin::constants::genesis_block(Network::Regtest);
        let hash = genesis.block_hash();
        // The genesis coinbase is not in the UTXO set: Core never adds it to its database.
        let record = TreeEntry {
            parent: genesis.header.prev_blockhash,
            height: Height::GENESIS,
            time: genesis.header.time,
            seen: 0,
            invalid: false,
            connected: true,
            data: Some(BlockData { block: Arc::new(genesis), changes: Arc::from([]) }),
        };
        SimChain {
            seed,
            first_time: None,
            spacing: SPACING,
            keep: None,
            core_coinbases: false,
            records: HashMap::from([(hash, record)]),
            active: BTreeMap::from([(Height::GENESIS, hash)]),
            tip: hash,
            utxos: SimUtxoSet::default(),
            view: hash,
        }
    }

    /// Sets the clock: block 1 at `first`, in seconds since 1970, and `spacing` seconds from each block to the next.
    #[must_use]
    pub fn with_clock(mut self, first: u32, spacing: u32) -> Self {
        (self.first_time, self.spacing) = (Some(first), spacing);
        self
    }

    /// Keeps bodies and changes of the last `blocks` blocks of the active chain only, for chains that do not fit into
    /// memory. No block can be built on a block below them.
    #[must_use]
    pub fn keeping(mut self, blocks: u32) -> Self {
        self.keep = Some(blocks);
        self
    }

    /// Makes coinbases exactly as Core's miner, so that equal calls make equal blocks here and on a node. They do not
    /// contain the seed, and two blocks with the same parent, time, receiver and transactions would be one block, which
    /// is an error.
    #[must_use]
    pub fn with_core_coinbases(mut self) -> Self {
        self.core_coinbases = true;
        self
    }

    /// The default owner of a block's reward.
    #[must_use]
    pub fn miner() -> Owner {
        Owner::new(ScriptKind::P2wsh, 0)
    }

    /// The hash of the last block of the active chain.
    #[must_use]
    pub fn tip(&self) -> BlockHash {
        self.tip
    }

    /// The height of the last block of the active chain.
    #[must_use]
    pub fn height(&self) -> Height {
        self.active.last_key_value().map_or(Height::GENESIS, |(height, _)| *height)
    }

    /// A block of the tree, on the active chain or not. `None` when it is unknown or its body was dropped.
    #[must_use]
    pub fn block(&self, hash: &BlockHash) -> Option<&Arc<Block>> {
        Some(&self.records.get(hash)?.data.as_ref()?.block)
    }

    /// The height of a block of the tree.
    #[must_use]
    pub fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        self.records.get(hash).map(|record| record.height)
    }

    /// The hash of the active chain's block at this height.
    #[must_use]
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.active.get(&height).copied()
    }

    /// The parent of a block of the tree; `None` for genesis and for a block that is unknown.
    #[must_use]
    pub fn parent(&self, hash: &BlockHash) -> Option<BlockHash> {
        self.records.get(hash).filter(|record| record.height > Height::GENESIS).map(|record| record.parent)
    }

    /// Whether a block is on the active chain.
    #[must_use]
    pub fn is_active(&self, hash: &BlockHash) -> bool {
        self.records.get(hash).is_some_and(|record| self.active.get(&record.height) == Some(hash))
    }

    /// The block `depth` blocks before `hash`, or genesis if the chain is shorter.
    #[must_use]
    pub fn ancestor(&self, hash: &BlockHash, depth: u32) -> Option<BlockHash> {
        let mut found = *hash;
        for _ in 0..depth {
            let record = self.records.get(&found)?;
            if record.height > Height::GENESIS {
                found = record.parent;
            }
        }
        self.records.contains_key(&found).then_some(found)
    }

    /// The blocks of the active chain, genesis first, as far as their bodies are kept.
    pub fn active_blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.active.values().filter_map(|hash| self.block(hash))
    }

    /// The median time past of a block, its own time included: its child's time must be above it.
    #[must_use]
    pub fn median_time_past(&self, hash: &BlockHash) -> Option<u32> {
        let record = self.records.get(hash)?;
        let back = std::iter::successors(Some(record), |record| self.records.get(&record.parent));
        let mut times: Vec<u32> = back.take(MEDIAN_TIME_SPAN).map(|record| record.time).collect();
        times.reverse();
        median_time_past(&times)
    }
}
