//! What blocks that join or leave the chain do to a ledger.
//!
//! Of the active chain the histories of its scripts tell it, wherever they have a row within the blocks: no block is read
//! through. A stale block has no rows, so what it did is worked out from its bytes, once for all that ask.
//!
//! For many scripts and depths that takes thousands of reads, so it is done aside ([`BlockingPool`]), and the part that waits for what
//! another is working out holds no thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bitcoin::BlockHash;
use bitcoin::constants::COINBASE_MATURITY;

use super::event::LedgerEffect;
use crate::api::blocking::{BlockingPool, SingleFlight};
use crate::api::error::ApiError;
use crate::api::streams::follower::block_not_stored;
use crate::api::types::ledger::{LedgerEventKind, Watched};
use crate::chain::Height;
use crate::view::{Block, Head, Ledger, LostMovement, Movement, StaleMovements, View};

/// How many blocks are looked at together.
const BLOCKS: u32 = 1_000;
/// From how many rows on they are looked at one by one.
const ROWS: usize = 2_000;
/// How many stale blocks are kept taken apart.
const STALE_KEPT: usize = 16;
/// Up to so many places of the index are looked at where the reader is: that takes less than going elsewhere for it.
const FEW: usize = 32;

/// What is sent, and of what.
pub(crate) struct LedgerSelection {
    pub(crate) watched: Watched,
    /// Numbers of confirmations above 1, ascending, each once.
    pub(crate) depths: Vec<u32>,
    pub(crate) stale: Arc<StaleBlocks>,
}

/// Something that a block did, by joining or leaving.
pub(crate) struct LedgerBlockEffect {
    /// The height of the block.
    pub(crate) height: Height,
    pub(crate) kind: LedgerEventKind,
    pub(crate) effect: LedgerEffect,
    pub(crate) depth: Option<u32>,
}

/// What stale blocks did, by their hashes.
type Stale = HashMap<BlockHash, Arc<StaleMovements>>;

/// The depths to be sent of what joined with a stale block: the place among the events of that block, the depth, what is
/// informed of it, and the block that reached it.
type DepthsReached = Vec<(usize, u32, LedgerEventKind, Block)>;

impl LedgerSelection {
    fn ledger(&self) -> &Ledger {
        self.watched.ledger()
    }

    /// Does work over the histories of the scripts in a state: aside, unless it is short.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        head: &Arc<Head>,
        work: impl FnOnce(&Self, &View) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let places = self.ledger().scripts().len().saturating_mul(self.depths.len().saturating_add(2));
        if places <= FEW {
            return work(self, &View::new(Arc::clone(head)));
        }
        let (selection, head) = (Arc::clone(self), Arc::clone(head));
        self.stale.pool.run(move || work(&selection, &View::new(head))).await
    }

    /// What the stale ones among these blocks did.
    pub(crate) async fn stale_of(&self, head: &Arc<Head>, blocks: Vec<Block>) -> Result<Stale, ApiError> {
        let mut stale = Stale::new();
        for block in blocks.into_iter().filter(|block| !block.is_main()) {
            let hash = block.row.hash;
            if let Entry::Vacant(place) = stale.entry(hash) {
                place.insert(self.stale.movements(head, block).await?);
            }
        }
        Ok(stale)
    }

    /// What reaches which number of confirmations when a block joins, in the order in which it is sent.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (u32, LedgerEventKind)> + use<'_> {
        let reached = self.depths.iter().map(|depth| (*depth, LedgerEventKind::DepthReached));
        [(1, LedgerEventKind::Confirmed)]
            .into_iter()
            .chain(reached)
            // with so many confirmations the next block may spend a coinbase
            .chain([(COINBASE_MATURITY, LedgerEventKind::Matured)])
    }

    /// What the blocks at these heights of the active chain did by joining it, in order, and the last of them that was
    /// looked at.
    pub(crate) async fn joined(
        self: &Arc<Self>,
        head: &Arc<Head>,
        first: Height,
        last: Height,
    ) -> Result<(Vec<LedgerBlockEffect>, Height), ApiError> {
        self.work(head, move |selection, view| selection.joined_in(view, selection.ledger(), first, last)).await
    }

    /// The part of it that concerns some scripts of the ledger: with their effect only.
    pub(crate) fn joined_in(
        &self,
        view: &View,
        ledger: &Ledger,
        first: Height,
        last: Height,
    ) -> Result<(Vec<LedgerBlockEffect>, Height), ApiError> {
        let first = first.to_u32();
        let mut last = last.to_u32().min(first.saturating_add(BLOCKS - 1));
        let mut rows = Vec::new();
        for (depth, kind) in self.depths() {
            // a block of this height brings those so far below it to this depth
            let below = depth - 1;
            let Some(highest) = last.checked_sub(below) else { continue };
            let lowest = Height::from(first.saturating_sub(below));
            let txnums = view.txnums(lowest..Height::from(highest).next())?;
            for (taken, movement) in view.movements(ledger, &txnums, true)?.enumerate() {
                let movement = movement?;
                let height = view.height_of(movement.txnum)?.to_u32().saturating_add(below);
                if height > last {
                    break;
                }
                if taken >= ROWS && height > first {
                    last = height - 1;
                    break;
                }
                if kind == LedgerEventKind::Matured && !movement.is_coinbase {
                    continue;
                }
                let (height, effect) = (Height::from(height), LedgerEffect::Confirmed(movement));
                rows.push(LedgerBlockEffect { height, kind, effect, depth: Some(depth) });
            }
        }
        let last = Height::from(last);
        rows.retain(|row| row.height <= last);
        // stable: within a block it stays as it is
        rows.sort_by_key(|row| row.height);
        Ok((rows, last))
    }

    /// What a block that is stale by now did when it joined the chain.
    pub(crate) async fn joined_stale(
        self: &Arc<Self>,
        head: &Arc<Head>,
        view: &View,
        block: &Block,
    ) -> Result<Vec<LedgerBlockEffect>, ApiError> {
        let reached = self.reached_with(view, block)?;
        let stale = self.stale_of(head, reached.iter().map(|(.., at)| at.clone()).collect()).await?;
        let height = block.height;
        self.work(head, move |selection, view| {
            let mut rows = Vec::new();
            for (_, depth, kind, at) in reached {
                let effect = selection.of_block(view, &at, &stale)?.into_iter();
                let sent = effect.filter(|effect| kind != LedgerEventKind::Matured || effect.is_coinbase());
                rows.extend(sent.map(|effect| LedgerBlockEffect { height, kind, effect, depth: Some(depth) }));
            }
            Ok(rows)
        })
        .await
    }

    /// Which blocks reached which depth when a block joined that is stale by now, in the order in which it is sent.
    fn reached_with(&self, view: &View, block: &Block) -> Result<DepthsReached, ApiError> {
        let mut depths: Vec<_> = self.depths().enumerate().collect();
        // downwards, whatever is sent first
        depths.sort_by_key(|(_, (depth, _))| *depth);
        let (mut reached, mut at) = (Vec::with_capacity(depths.len()), block.clone());
        for (place, (depth, kind)) in depths {
            let Some(height) = block.height.to_u32().checked_sub(depth.saturating_sub(1)).map(Height::from) else {
                break;
            };
            while !at.is_main() && at.height > height {
                let below = at.row.header.prev_blockhash;
                at = view.block(below)?.ok_or_else(|| block_not_stored(below))?;
            }
            if at.height > height {
                at = view.main_block(height)?;
            }
            reached.push((place, depth, kind, at.clone()));
        }
        reached.sort_by_key(|(place, ..)| *place);
        Ok(reached)
    }

    /// What a block did by leaving the chain, the last of its transactions first.
    pub(crate) async fn left(
        self: &Arc<Self>,
        head: &Arc<Head>,
        block: &Block,
    ) -> Result<Vec<LedgerBlockEffect>, ApiError> {
        let stale = self.stale_of(head, vec![block.clone()]).await?;
        let (height, kind, block) = (block.height, LedgerEventKind::UnconfirmedByReorg, block.clone());
        self.work(head, move |selection, view| {
            let effect = selection.of_block(view, &block, &stale)?.into_iter().rev();
            Ok(effect.map(|effect| LedgerBlockEffect { height, kind, effect, depth: None }).collect())
        })
        .await
    }

    /// What the transactions of a block did to the ledger, in the order of the block.
    fn of_block(&self, view: &View, block: &Block, stale: &Stale) -> Result<Vec<LedgerEffect>, ApiError> {
        if let Some(movements) = stale.get(&block.row.hash) {
            return Ok(movements.of(self.ledger()).into_iter().map(LedgerEffect::Lost).collect());
        }
        let txnums = view.txnums(block.height..block.height.next())?;
        let movements = view.movements(self.ledger(), &txnums, true)?;
        movements.map(|movement| Ok(LedgerEffect::Confirmed(movement?))).collect()
    }
}

impl LedgerEffect {
    fn is_coinbase(&self) -> bool {
        match self {
            Self::Confirmed(Movement { is_coinbase, .. }) | Self::Lost(LostMovement { is_coinbase, .. }) => {
                *is_coinbase
            }
            Self::Pending(_) => false,
        }
    }
}

/// The stale blocks that were asked for last, taken apart: after a reorganisation every client that watches anything asks
/// for the same few.
pub(crate) struct StaleBlocks {
    flights: SingleFlight<BlockHash, StaleMovements>,
    pool: BlockingPool,
}

impl Default for StaleBlocks {
    fn default() -> Self {
        Self { flights: SingleFlight::with_capacity(STALE_KEPT), pool: BlockingPool::default() }
    }
}

impl StaleBlocks {
    /// What a block did that is stale in a state.
    async fn movements(&self, head: &Arc<Head>, block: Block) -> Result<Arc<StaleMovements>, ApiError> {
        let (head, hash) = (Arc::clone(head), block.row.hash);
        let work = move || Ok(View::new(head).stale_movements(&block)?);
        self.flights.get(hash, || self.pool.run(work)).await
    }
}
