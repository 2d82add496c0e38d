//! How a subscription follows what enters the mempool and concerns watched scripts, of which those of descriptors become more.
//!
//! A transaction that pays a script near the end of a branch has more scripts watched. What waits already and pays one of
//! these, because the wallet used it behind its gap, is sent first.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;

use super::follower::Follower;
use super::mempool::MempoolFollower;
use crate::api::accounts::HistoryEnd;
use crate::api::error::ApiError;
use crate::api::types::ledger::{WatchSet, Watched};
use crate::view::{Entry, MempoolEvent, MempoolEventKind, View};

/// What a reader watches.
struct Watching {
    set: WatchSet,
    now: Watched,
    /// The tip, and the number of the newest event of the mempool, of the state that was searched last for used scripts.
    searched: Option<(BlockHash, u64)>,
}

/// A reader of what enters the mempool.
pub(crate) struct UnconfirmedFollower {
    events: MempoolFollower,
    watching: Option<Watching>,
    /// What waited before it was watched, and is to be sent.
    waiting: VecDeque<Arc<Entry>>,
    /// The event behind it.
    event: Option<MempoolEvent>,
}

/// An event of the mempool, or what waited before its scripts were watched.
pub(crate) struct UnconfirmedArrival {
    pub(crate) view: View,
    /// The transaction that entered, if it is still there and concerns what is watched.
    pub(crate) entry: Option<Arc<Entry>>,
    /// The number of the event.
    pub(crate) sequence: Option<u64>,
}

impl UnconfirmedFollower {
    /// A reader of these events; only of what concerns a set, with its scripts as of a view, if there is one.
    pub(crate) fn new(events: MempoolFollower, watch: Option<(WatchSet, &Arc<View>)>) -> Self {
        let watching = watch.map(|(set, view)| Watching { now: set.watched(view), set, searched: None });
        Self { events, watching, waiting: VecDeque::new(), event: None }
    }

    /// Watches more scripts if those near the end of a branch are used in a view. What arrived before an event, and concerns no
    /// other scripts that are watched, is to be sent.
    async fn extend(&mut self, view: &View, sequence: u64) -> Result<(), ApiError> {
        let Some(Watching { set, now, searched }) = &mut self.watching else { return Ok(()) };
        let state = Some((view.tip().hash, view.mempool().sequence()));
        if set.branch_count() == 0
            || std::mem::replace(searched, state) == state
            || !set.extend(view, HistoryEnd::ALL).await?
        {
            return Ok(());
        }
        let more = set.watched(&Arc::new(self.events.view()));
        let added = more.ledger().filtered(|script| !now.ledger().contains(script));
        let waiting = view.arrivals(&added, &(0..sequence), true);
        self.waiting.extend(waiting.filter(|entry| !concerns(view, now, entry)).cloned());
        *now = more;
        Ok(())
    }
}

/// Whether a transaction pays or spends what is watched.
fn concerns(view: &View, watched: &Watched, entry: &Arc<Entry>) -> bool {
    let movement = view.pending_movement(watched.ledger(), entry);
    movement.pays || movement.spends
}

impl Follower for UnconfirmedFollower {
    type Item = UnconfirmedArrival;

    /// The next arrival; `None` once there will be no more.
    ///
    /// Errors: those of the mempool's events; QUERY_LIMIT_EXCEEDED or RESOURCE_EXHAUSTED for too many scripts.
    async fn next(&mut self) -> Option<Result<UnconfirmedArrival, ApiError>> {
        if self.event.is_none() {
            let (view, event) = match self.events.next().await? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.extend(&view, event.sequence).await {
                return Some(Err(error));
            }
            self.event = Some(event);
        }
        self.events.switch_if_expired();
        let view = self.events.view();
        if let Some(entry) = self.waiting.pop_front() {
            let entry = view.mempool().get(&entry.txid).cloned();
            return Some(Ok(UnconfirmedArrival { view, entry, sequence: None }));
        }
        let MempoolEvent { sequence, kind } = self.event.take()?;
        let entry = match kind {
            MempoolEventKind::Added { txid, .. } => view.mempool().get(&txid).cloned(),
            MempoolEventKind::Removed { .. } | MempoolEventKind::Corrected { .. } => None,
        };
        let watched = self.watching.as_ref().map(|watching| &watching.now);
        let entry = entry.filter(|entry| watched.is_none_or(|watched| concerns(&view, watched, entry)));
        Some(Ok(UnconfirmedArrival { view, entry, sequence: Some(sequence) }))
    }
}
