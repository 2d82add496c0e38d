//! What blocks that join or leave the chain do to a ledger.
//!
//! Of the active chain the histories of its scripts tell it, wherever they have a row within the blocks: no block is read
//! through. A stale block has no rows, so what it did is worked out from its bytes, once for all who ask.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bitcoin::BlockHash;
use bitcoin::constants::COINBASE_MATURITY;

use super::super::error::ApiError;
use super::super::follow::unknown;
use super::super::ledger::Watched;
use super::super::ledger_event::LedgerEventKind;
use super::Moved;
use crate::chain::Height;
use crate::view::{Block, Ledger, LostMovement, Movement, StaleMovements, View};

/// How many blocks are looked at together.
const BLOCKS: u32 = 1_000;
/// From how many rows on they are looked at one by one.
const ROWS: usize = 2_000;
/// How many stale blocks are kept taken apart.
const STALE_KEPT: usize = 16;

/// What is told, and of what.
pub(super) struct Rules {
    pub(super) watched: Watched,
    /// Numbers of confirmations above 1, ascending, each once.
    pub(super) depths: Vec<u32>,
    pub(super) stale: Arc<StaleBlocks>,
}

/// Something that a block did, by joining or leaving.
pub(super) struct Row {
    /// The height of the block.
    pub(super) height: Height,
    pub(super) kind: LedgerEventKind,
    pub(super) moved: Moved,
    pub(super) depth: Option<u32>,
}

impl Rules {
    fn ledger(&self) -> &Ledger {
        self.watched.ledger()
    }

    /// What reaches which number of confirmations when a block joins, in the order in which it is told.
    fn depths(&self) -> impl Iterator<Item = (u32, LedgerEventKind)> + use<'_> {
        let reached = self.depths.iter().map(|depth| (*depth, LedgerEventKind::DepthReached));
        [(1, LedgerEventKind::Confirmed)]
            .into_iter()
            .chain(reached)
            // with so many confirmations the next block may spend a coinbase
            .chain([(COINBASE_MATURITY, LedgerEventKind::Matured)])
    }

    /// What the blocks at these heights of the active chain did by joining it, in order, and the last of them that was
    /// looked at.
    pub(super) fn joined(&self, view: &View, first: Height, last: Height) -> Result<(Vec<Row>, Height), ApiError> {
        let first = first.to_u32();
        let mut last = last.to_u32().min(first.saturating_add(BLOCKS - 1));
        let mut rows = Vec::new();
        for (depth, kind) in self.depths() {
            // a block of this height brings those so far below it to this depth
            let below = depth - 1;
            let Some(highest) = last.checked_sub(below) else { continue };
            let lowest = Height::from(first.saturating_sub(below));
            let txnums = view.txnums(lowest..Height::from(highest).next())?;
            for (taken, movement) in view.movements(self.ledger(), &txnums, true)?.enumerate() {
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
                let (height, moved) = (Height::from(height), Moved::Confirmed(movement));
                rows.push(Row { height, kind, moved, depth: Some(depth) });
            }
        }
        let last = Height::from(last);
        rows.retain(|row| row.height <= last);
        // stable: within a block it stays as it is
        rows.sort_by_key(|row| row.height);
        Ok((rows, last))
    }

    /// What a block that is stale by now did when it joined the chain.
    pub(super) fn joined_stale(&self, view: &View, block: &Block) -> Result<Vec<Row>, ApiError> {
        let mut depths: Vec<_> = self.depths().enumerate().collect();
        // downwards, whatever is told first
        depths.sort_by_key(|(_, (depth, _))| *depth);
        let (mut rows, mut at) = (Vec::new(), block.clone());
        for (place, (depth, kind)) in depths {
            let Some(height) = block.height.to_u32().checked_sub(depth.saturating_sub(1)).map(Height::from) else {
                break;
            };
            while !at.is_main() && at.height > height {
                let below = at.row.header.prev_blockhash;
                at = view.block(below)?.ok_or_else(|| unknown(below))?;
            }
            if at.height > height {
                at = view.main_block(height)?;
            }
            let moved = self.of_block(view, &at)?.into_iter();
            let told = moved.filter(|moved| kind != LedgerEventKind::Matured || moved.is_coinbase());
            rows.extend(told.map(|moved| (place, Row { height: block.height, kind, moved, depth: Some(depth) })));
        }
        // stable: of one depth they stay as they are
        rows.sort_by_key(|(place, _)| *place);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// What a block did by leaving the chain, the last of its transactions first.
    pub(super) fn left(&self, view: &View, block: &Block) -> Result<Vec<Row>, ApiError> {
        let moved = self.of_block(view, block)?.into_iter().rev();
        let kind = LedgerEventKind::UnconfirmedByReorg;
        Ok(moved.map(|moved| Row { height: block.height, kind, moved, depth: None }).collect())
    }

    /// What the transactions of a block did to the ledger, in the order of the block.
    fn of_block(&self, view: &View, block: &Block) -> Result<Vec<Moved>, ApiError> {
        if !block.is_main() {
            let moved = self.stale.movements(view, block)?.of(self.ledger());
            return Ok(moved.into_iter().map(Moved::Lost).collect());
        }
        let txnums = view.txnums(block.height..block.height.next())?;
        let movements = view.movements(self.ledger(), &txnums, true)?;
        movements.map(|movement| Ok(Moved::Confirmed(movement?))).collect()
    }
}

impl Moved {
    fn is_coinbase(&self) -> bool {
        match self {
            Self::Confirmed(Movement { is_coinbase, .. }) | Self::Lost(LostMovement { is_coinbase, .. }) => {
                *is_coinbase
            }
            Self::Waiting(_) => false,
        }
    }
}

/// The stale blocks that were asked for last, taken apart: after a reorganisation everybody who watches anything asks
/// for the same few.
#[derive(Default)]
pub(in crate::api) struct StaleBlocks(Mutex<VecDeque<(BlockHash, Arc<StaleMovements>)>>);

impl StaleBlocks {
    pub(super) fn movements(&self, view: &View, block: &Block) -> Result<Arc<StaleMovements>, ApiError> {
        // the others wait for the first, who does their work
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, movements)) = kept.iter().find(|(hash, _)| *hash == block.row.hash) {
            return Ok(Arc::clone(movements));
        }
        let movements = Arc::new(view.stale_movements(block)?);
        kept.push_back((block.row.hash, Arc::clone(&movements)));
        if kept.len() > STALE_KEPT {
            kept.pop_front();
        }
        Ok(movements)
    }
}
