//! What a reader is sent that skipped something that is not remembered: that it is missing, and what waits now.
//!
//! The gap has a place of its own in the order of events: the number of the newest at the time. What waits is sent as far
//! as it had arrived by then, and behind it the reader continues from there. Nothing has to be kept for that, so however
//! slowly it reads, it can be answered from newer and newer states. What leaves before it is its turn to hear of it is not
//! sent as waiting; that it left is. A reader that resumes within the gap, in the same run of the server, continues there: its
//! cursor has the place of the gap, and the number of the next arrival.

use std::sync::Arc;

use super::event::{LedgerEffect, LedgerUpdate};
use super::follower::{LedgerFollower, MempoolCoverage, PAGE};
use crate::api::streams::resume::LedgerCursor;
use crate::api::types::ledger::LedgerEventKind;
use crate::view::{Head, View};

impl LedgerFollower {
    /// Tells that what happened in the mempool up to this state is missing.
    pub(crate) fn queue_gap(&mut self, head: &Arc<Head>) {
        let (sequence, tip_changes) = (head.mempool.sequence(), head.tip_history.count());
        let place = self.cursor_in_gap(0, (sequence, tip_changes));
        self.pending.push_back(LedgerUpdate::new(LedgerEventKind::Gap, None, place));
        self.reach = MempoolCoverage::Replaying { from: 0, sequence, tip_changes };
    }

    /// Takes the next transactions that wait, in the order of their arrival, and behind the last that it is the last.
    pub(crate) fn replay_mempool(&mut self, view: &View, from: u64, (sequence, tip_changes): (u64, u64)) {
        let ledger = self.selection.watched.ledger();
        let arrivals = view.arrivals(ledger, &(from..sequence.saturating_add(1)), true);
        let entries: Vec<_> = arrivals.take(PAGE).cloned().collect();
        for entry in &entries {
            let effect = LedgerEffect::Pending(view.pending_movement(self.selection.watched.ledger(), entry));
            self.note_used([&effect]);
            let place = self.cursor_in_gap(entry.sequence.saturating_add(1), (sequence, tip_changes));
            self.pending.push_back(LedgerUpdate::new(LedgerEventKind::Seen, Some(effect), place));
        }
        if let (PAGE, Some(last)) = (entries.len(), entries.last()) {
            self.reach = MempoolCoverage::Replaying { from: last.sequence.saturating_add(1), sequence, tip_changes };
            return;
        }
        self.reach = MempoolCoverage::Exact { sequence, tip_changes };
        let place = self.cursor_after(sequence, tip_changes);
        self.pending.push_back(LedgerUpdate::new(LedgerEventKind::GapEnd, None, place));
    }

    /// Where a reader is that has heard of what waits and arrived before the transaction with the number `from`.
    fn cursor_in_gap(&self, from: u64, (sequence, tip_changes): (u64, u64)) -> LedgerCursor {
        LedgerCursor { replayed: Some(from), ..self.cursor_after(sequence, tip_changes) }
    }
}
