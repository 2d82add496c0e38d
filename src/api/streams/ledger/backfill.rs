//! Scripts that become watched while a stream runs, and what they did before.
//!
//! What counts as before is the place of the stream: the chain that ends with the newest block that it sent, be that on the main
//! chain or not, and what had arrived in the mempool and still waits. Each block of that chain is gone through as if it joined,
//! so that the history is the same however the main chain moves meanwhile, and a height and a number say where in it a reader is.

use std::sync::Arc;

use bitcoin::BlockHash;

use super::blocks::{LedgerBlockEffect, LedgerSelection};
use super::event::{LedgerEffect, LedgerUpdate};
use super::follower::{Backfill, LedgerFollower, MempoolCoverage, PAGE};
use crate::api::accounts::HistoryEnd;
use crate::api::error::ApiError;
use crate::api::streams::follower::block_not_stored;
use crate::api::streams::resume::{ChainCursor, LedgerCursor};
use crate::api::streams::watch_place::{BackfillPlace, BackfillPosition, WatchPlace};
use crate::api::types::ledger::{LedgerEventKind, Watched};
use crate::chain::Height;
use crate::view::{Block, Head, Ledger, TxNum, View};

impl LedgerFollower {
    /// What a cursor says of the descriptors.
    pub(crate) fn place_of_watch(&self, backfill: Option<BackfillPlace>) -> Option<Arc<WatchPlace>> {
        (self.watch.branch_count() > 0).then(|| Arc::new(WatchPlace { ends: self.watch.ends(), backfill }))
    }

    /// Notes that the scripts of effects are used. Whether more scripts must be watched for that.
    pub(crate) fn note_used<'e>(&mut self, effects: impl IntoIterator<Item = &'e LedgerEffect>) -> bool {
        let (mut is_short, watched) = (false, &self.selection.watched);
        for effect in effects {
            is_short |= self.watch.note_used(watched, effect.scripts());
        }
        self.is_extended &= !is_short;
        is_short
    }

    /// Watches the scripts again that a place says.
    pub(crate) fn return_to(&mut self, view: &Arc<View>, place: &WatchPlace) {
        self.watch.return_to(&place.ends);
        let watched = self.watch.watched(view);
        self.backfill = place.backfill.clone().map(|backfill| {
            let added = Arc::new(added_since(&watched, &backfill.before));
            Backfill { place: backfill, added }
        });
        self.select(watched);
    }

    /// Watches more scripts if those near the end of a branch are used in a Head. Whether it does.
    pub(crate) async fn extend(&mut self, head: &Arc<Head>) -> Result<bool, ApiError> {
        // what waits is being sent, of the scripts that were watched when that began
        if matches!(self.reach, MempoolCoverage::Replaying { .. }) {
            return Ok(false);
        }
        self.is_extended = true;
        let (view, before) = (Arc::new(View::new(Arc::clone(head))), self.watch.ends());
        if self.watch.branch_count() == 0 || !self.watch.extend(&view, HistoryEnd::ALL).await? {
            return Ok(false);
        }
        let watched = self.watch.watched(&view);
        let added = Arc::new(added_since(&watched, &before));
        let position = BackfillPosition::Chain { height: 0, sent: 0 };
        self.backfill = Some(Backfill { place: BackfillPlace { before, position }, added });
        self.select(watched);
        Ok(true)
    }

    fn select(&mut self, watched: Watched) {
        let (depths, stale) = (self.selection.depths.clone(), Arc::clone(&self.selection.stale));
        self.selection = Arc::new(LedgerSelection { watched, depths, stale });
        self.mined = None;
        self.watch_place = self.place_of_watch(None);
    }

    /// Sends the next part of the history of the scripts that became watched.
    pub(crate) async fn continue_backfill(&mut self, head: &Arc<Head>, view: &View) -> Result<(), ApiError> {
        let Some(Backfill { place: BackfillPlace { before, position }, added }) = self.backfill.take() else {
            return Ok(());
        };
        let next = match position {
            BackfillPosition::Chain { height, sent } => {
                let fork = view.fork_height(self.sent)?.ok_or_else(|| block_not_stored(self.sent))?;
                let (first, scripts) = (Height::from(height), Arc::clone(&added));
                if first <= fork {
                    let work = move |selection: &LedgerSelection, view: &View| {
                        selection.backfilled_in(view, &scripts, first, fork)
                    };
                    let (rows, last) = self.selection.work(head, work).await?;
                    self.queue_backfilled(&before, rows, (height, sent));
                    Some(BackfillPosition::Chain { height: last.next().to_u32(), sent: 0 })
                } else if let Some(block) = block_below(view, self.sent, first)? {
                    let mut rows = self.selection.joined_stale(head, view, &block).await?;
                    rows.retain(|row| row.effect.scripts().iter().any(|script| added.contains(*script)));
                    self.queue_backfilled(&before, rows, (height, sent));
                    Some(BackfillPosition::Chain { height: first.next().to_u32(), sent: 0 })
                } else {
                    Some(BackfillPosition::Mempool { from: 0 })
                }
            }
            BackfillPosition::Mempool { from } => match self.reach {
                MempoolCoverage::Exact { sequence, .. } => {
                    self.backfill_mempool(view, &before, &added, from..sequence.saturating_add(1))
                }
                // what waits is sent behind the gap
                MempoolCoverage::Lost | MempoolCoverage::Replaying { .. } => None,
            },
        };
        self.backfill = next.map(|position| Backfill { place: BackfillPlace { before, position }, added });
        Ok(())
    }

    fn queue_backfilled(&mut self, before: &[u32], rows: Vec<LedgerBlockEffect>, (first, sent): (u32, u32)) {
        let mut block = None;
        for LedgerBlockEffect { height, kind, effect, depth } in rows {
            let height = height.to_u32();
            let number = match block {
                Some((at, number)) if at == height => number + 1,
                _ => 1,
            };
            block = Some((height, number));
            if height == first && number <= sent {
                continue;
            }
            let position = BackfillPosition::Chain { height, sent: number };
            let place = self.backfill_cursor(before, position);
            self.pending.push_back(LedgerUpdate { depth, ..LedgerUpdate::new(kind, Some(effect), place) });
        }
    }

    /// Takes the next transactions that wait, by their numbers of arrival. Where it continues, if it does.
    fn backfill_mempool(
        &mut self,
        view: &View,
        before: &[u32],
        added: &Ledger,
        within: std::ops::Range<u64>,
    ) -> Option<BackfillPosition> {
        let entries: Vec<_> = view.arrivals(added, &within, true).take(PAGE).cloned().collect();
        let mut position = None;
        for entry in &entries {
            let effect = LedgerEffect::Pending(view.pending_movement(self.selection.watched.ledger(), entry));
            let behind = BackfillPosition::Mempool { from: entry.sequence.saturating_add(1) };
            let place = self.backfill_cursor(before, behind);
            self.pending.push_back(LedgerUpdate::new(LedgerEventKind::Seen, Some(effect), place));
            position = Some(behind);
        }
        position.filter(|_| entries.len() == PAGE)
    }

    /// Where a reader is that was sent so much of the history.
    fn backfill_cursor(&self, before: &[u32], position: BackfillPosition) -> LedgerCursor {
        let watch = self.place_of_watch(Some(BackfillPlace { before: before.to_vec(), position }));
        let block = ChainCursor::Connected(self.sent);
        LedgerCursor { block, sent: LedgerCursor::WHOLE, reached: self.reached(), replayed: None, watch }
    }
}

impl LedgerSelection {
    /// What blocks of the main chain at these heights did by joining it that concerns some scripts of the ledger, with its effect
    /// on all of them, and the last of the blocks that was looked at.
    fn backfilled_in(
        &self,
        view: &View,
        added: &Ledger,
        first: Height,
        last: Height,
    ) -> Result<(Vec<LedgerBlockEffect>, Height), ApiError> {
        // a block brings those so far below it to the greatest depth
        let below = self.depths().map(|(depth, _)| depth.saturating_sub(1)).max().unwrap_or_default();
        let lowest = Height::from(first.to_u32().saturating_sub(below));
        let Some(oldest) = view.movements(added, &view.txnums(lowest..last.next())?, true)?.next() else {
            return Ok((Vec::new(), last));
        };
        let first = first.max(view.height_of(oldest?.txnum)?);
        let (mut rows, last) = self.joined_in(view, added, first, last)?;
        for row in &mut rows {
            let LedgerEffect::Confirmed(movement) = &mut row.effect else { continue };
            let one = movement.txnum..TxNum(movement.txnum.0.saturating_add(1));
            if let Some(whole) = view.movements(self.watched.ledger(), &one, true)?.next() {
                *movement = whole?;
            }
        }
        Ok((rows, last))
    }
}

/// The block at a height of the chain that ends with another; `None` above that.
fn block_below(view: &View, end: BlockHash, height: Height) -> Result<Option<Block>, ApiError> {
    let mut hash = end;
    loop {
        let block = view.block(hash)?.ok_or_else(|| block_not_stored(hash))?;
        if block.height <= height {
            return Ok(Some(block).filter(|block| block.height == height));
        }
        hash = block.row.header.prev_blockhash;
    }
}

/// The scripts of a set that were not watched while its branches had these ends.
fn added_since(watched: &Watched, before: &[u32]) -> Ledger {
    watched.ledger().filtered(|script| {
        let mut derivations = watched.derivations(script).peekable();
        derivations.peek().is_some()
            && !watched.is_given(script)
            && derivations.all(|(branch, index)| before.get(branch).is_some_and(|end| index >= *end))
    })
}
