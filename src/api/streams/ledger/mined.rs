//! The transactions of a ledger that were mined before a reader got to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bitcoin::Txid;

use super::blocks::LedgerSelection;
use super::event::LedgerEffect;
use crate::api::error::ApiError;
use crate::chain::Height;
use crate::view::{Block, Head, TipHistory, View};

/// The transactions of a ledger in the newest blocks, stale ones too, by txid: of what came and was mined before it could
/// be sent, or left with a block and did not come back.
pub(crate) struct Mined {
    /// The height from which on the blocks are looked through.
    pub(crate) from: Height,
    pub(crate) effect: HashMap<Txid, LedgerEffect>,
}

impl Mined {
    /// Of the main chain from this height on, and of the stale blocks that joined it by a turn behind the first `passed`.
    pub(crate) async fn of(
        head: &Arc<Head>,
        selection: &Arc<LedgerSelection>,
        from: Height,
        passed: u64,
    ) -> Result<Self, ApiError> {
        let tip_changes = head.tip_history.clone();
        let blocks = selection.work(head, move |_, view| stale_blocks(view, &tip_changes, passed)).await?;
        let stale = selection.stale_of(head, blocks).await?;
        selection
            .work(head, move |selection, view| {
                let (ledger, mut effect) = (selection.watched.ledger(), HashMap::new());
                for movements in stale.values() {
                    let movements = movements.of(ledger).into_iter();
                    effect.extend(movements.map(|movement| (movement.txid, LedgerEffect::Lost(movement))));
                }
                let txnums = view.txnums(from..view.tip().height.next())?;
                for movement in view.movements(ledger, &txnums, true)? {
                    let movement = movement?;
                    effect.insert(view.txid_at(movement.txnum)?, LedgerEffect::Confirmed(movement));
                }
                Ok(Self { from, effect })
            })
            .await
    }
}

/// The blocks that joined the chain by a turn behind the first `passed`, and are stale.
fn stale_blocks(view: &View, tip_changes: &TipHistory, passed: u64) -> Result<Vec<Block>, ApiError> {
    let (mut blocks, mut seen) = (Vec::new(), HashSet::new());
    for turn in (passed..tip_changes.count()).filter_map(|passed| tip_changes.after(passed)) {
        let mut at = turn.to;
        while let Some(block) = view.block(at)?.filter(|block| !block.is_main() && seen.insert(block.row.hash)) {
            at = block.row.header.prev_blockhash;
            blocks.push(block);
        }
    }
    Ok(blocks)
}
