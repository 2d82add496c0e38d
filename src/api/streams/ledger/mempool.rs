//! What events of the mempool mean for a ledger.

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::Txid;

use super::event::{LedgerEffect, LedgerUpdate};
use super::follower::{LedgerFollower, PAGE};
use super::mined::Mined;
use crate::api::error::ApiError;
use crate::api::types::ledger::LedgerEventKind;
use crate::api::types::mempool::RemovalReason;
use crate::view::{Departure, Head, MempoolEvent, MempoolEventKind, View};

/// What is known of a transaction.
enum Lookup {
    /// What it does to the ledger.
    Found(LedgerEffect),
    /// It has nothing to do with the ledger.
    Elsewhere,
    /// Not even whether it has.
    Forgotten,
}

impl LedgerFollower {
    /// Takes the next events of the mempool behind a number, up to another: what they mean waits to be sent. The number
    /// of the last that was taken; `None` if there is one among them of which nothing is remembered but its name.
    pub(crate) async fn take_events(
        &mut self,
        head: &Arc<Head>,
        view: &View,
        (after, up_to): (u64, u64),
        turn: u64,
    ) -> Result<Option<u64>, ApiError> {
        let events = view.mempool().events_after(after).into_iter().flatten();
        let events: Vec<MempoolEvent> = events.take_while(|event| event.sequence <= up_to).take(self.page).collect();
        // a reader that resumes for a moment reads little, one that stays reads ever larger pages
        self.page = self.page.saturating_mul(4).min(PAGE);
        let Some(last) = events.last().map(|event| event.sequence) else { return Ok(Some(up_to)) };
        // what is still there is found by the scripts, if these are fewer
        let ledger = self.selection.watched.ledger();
        let by_scripts: Option<HashSet<u64>> = (events.len() > ledger.scripts().len()).then(|| {
            let arrivals = view.arrivals(ledger, &(after.saturating_add(1)..last.saturating_add(1)), true);
            arrivals.map(|entry| entry.sequence).collect()
        });
        let mut passed = after;
        for MempoolEvent { sequence, kind } in events {
            let is_correction = matches!(kind, MempoolEventKind::Corrected { .. });
            let (txid, kind, departure) = match kind {
                MempoolEventKind::Added { txid, .. } => (txid, LedgerEventKind::Seen, None),
                MempoolEventKind::Removed { txid, departure } | MempoolEventKind::Corrected { txid, departure } => {
                    match departure {
                        // the block reports it
                        Departure::Mined { .. } => continue,
                        _ => (txid, LedgerEventKind::of(departure), Some(departure)),
                    }
                }
            };
            if kind == LedgerEventKind::Seen
                && let Some(by_scripts) = &by_scripts
                && view.mempool().get(&txid).is_some_and(|entry| entry.sequence == sequence)
                && !by_scripts.contains(&sequence)
            {
                continue;
            }
            let effect = match self.find(head, view, &txid, turn).await? {
                Lookup::Found(effect) => effect,
                Lookup::Elsewhere => continue,
                Lookup::Forgotten => return Ok(None),
            };
            // it is taken again with the scripts that are to be watched for it
            if self.note_used([&effect]) {
                return Ok(Some(passed));
            }
            passed = sequence;
            // what left was not there any more, even if it is again
            let effect = match (kind, effect) {
                (LedgerEventKind::Seen, effect) => effect,
                (_, LedgerEffect::Pending(movement)) => LedgerEffect::Lost(movement.into()),
                (_, effect) => effect,
            };
            let place = self.cursor_after(sequence, turn);
            let (reason, replaced_by) = (departure.map(RemovalReason::of), departure.and_then(Departure::conflicting));
            let update = LedgerUpdate::new(kind, Some(effect), place);
            self.pending.push_back(LedgerUpdate { reason, replaced_by, is_correction, ..update });
        }
        Ok(Some(last))
    }

    /// What a transaction that is or was in the mempool does to the ledger, wherever it is now.
    async fn find(&mut self, head: &Arc<Head>, view: &View, txid: &Txid, turn: u64) -> Result<Lookup, ApiError> {
        let ledger = self.selection.watched.ledger();
        if let Some(entry) = view.mempool().get(txid) {
            let movement = view.pending_movement(ledger, entry);
            let concerns = movement.pays || movement.spends;
            return Ok(if concerns { Lookup::Found(LedgerEffect::Pending(movement)) } else { Lookup::Elsewhere });
        }
        if let Some(entry) = view.mempool().departed(txid).and_then(|departed| departed.entry.as_ref()) {
            let movement = view.pending_movement(ledger, entry);
            let concerns = movement.pays || movement.spends;
            return Ok(if concerns { Lookup::Found(LedgerEffect::Lost(movement.into())) } else { Lookup::Elsewhere });
        }
        // it was not in the chain as that was sent up to, so its block is none of those below
        let Some(fork) = view.fork_height(self.sent)? else { return Ok(Lookup::Forgotten) };
        let from = fork.next();
        if self.mined.as_ref().is_none_or(|mined| mined.from > from) {
            self.mined = Some(Mined::of(head, &self.selection, from, turn).await?);
        }
        if let Some(effect) = self.mined.as_ref().and_then(|mined| mined.effect.get(txid)) {
            return Ok(Lookup::Found(effect.clone()));
        }
        let forgotten = match view.mempool().departed(txid) {
            // what left with a block stands in that; of the others the fee is known, and once the bytes were, too
            Some(departed) => departed.fee.is_some(),
            None => view.current_state(txid)?.is_none(),
        };
        Ok(if forgotten { Lookup::Forgotten } else { Lookup::Elsewhere })
    }
}
