//! What a reader is told who missed something that is not remembered: that it is missing, and what waits now.
//!
//! The gap has a place of its own in the order of events: the number of the newest at the time. What waits is told as far
//! as it had arrived by then, and behind it the reader goes on from there. Nothing has to be kept for that, so however
//! slowly he reads, he can be told from newer and newer states. What leaves before it is his turn to hear of it is not
//! told as waiting; that it left is.

use std::sync::Arc;

use super::event::{Happening, Moved};
use super::follower::{LedgerFollower, PAGE, Reach};
use crate::api::streams::resume::{ChainPlace, LedgerPlace, Reached};
use crate::api::types::ledger::LedgerEventKind;
use crate::view::{Head, View};

impl LedgerFollower {
    /// Tells that what happened in the mempool up to this state is missing.
    pub(crate) fn tell_gap(&mut self, head: &Arc<Head>) {
        self.pending.push_back(Happening::new(LedgerEventKind::Gap, None, self.place_within()));
        let (sequence, turns) = (head.mempool.sequence(), head.tip_history.count());
        self.reach = Reach::Retelling { from: 0, sequence, turns };
    }

    /// Takes the next transactions that wait, in the order of their arrival, and behind the last that it is the last.
    pub(crate) fn take_waiting(&mut self, view: &View, from: u64, (sequence, turns): (u64, u64)) {
        let ledger = self.rules.watched.ledger();
        let arrivals = view.arrivals(ledger, &(from..sequence.saturating_add(1)), true);
        let entries: Vec<_> = arrivals.take(PAGE).cloned().collect();
        let place = self.place_within();
        for entry in &entries {
            let moved = Moved::Waiting(view.pending_movement(ledger, entry));
            self.pending.push_back(Happening::new(LedgerEventKind::Seen, Some(moved), place));
        }
        if let (PAGE, Some(last)) = (entries.len(), entries.last()) {
            self.reach = Reach::Retelling { from: last.sequence.saturating_add(1), sequence, turns };
            return;
        }
        self.reach = Reach::Exact { sequence, turns };
        let place = self.place_behind(sequence, turns);
        self.pending.push_back(Happening::new(LedgerEventKind::GapEnd, None, place));
    }

    /// Where a reader is who has not heard of all that waits. If he goes on from here he is told of the gap again.
    fn place_within(&self) -> LedgerPlace {
        let block = ChainPlace::Connected(self.told);
        LedgerPlace { block, told: LedgerPlace::WHOLE, reached: None::<Reached> }
    }
}
