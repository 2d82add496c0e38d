//! How a subscription follows what enters the mempool and concerns watched scripts, of which those of descriptors become more.
//!
//! A transaction that pays a script near the end of a branch has more scripts watched. What waits already and pays one of
//! these, because the wallet used it behind its gap, is sent first.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::{BlockHash, Txid};

use super::follower::Follower;
use super::mempool::MempoolFollower;
use crate::api::accounts::HistoryEnd;
use crate::api::error::ApiError;
use crate::api::types::ledger::{WatchSet, Watched};
use crate::view::{Entry, Head, MempoolEvent, MempoolEventKind, View};

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
    /// The transaction that entered, if it is still there and concerns what is watched, and a view to answer from. A view is made
    /// for no other, as most readers leave most transactions out.
    pub(crate) entry: Option<(Arc<View>, Arc<Entry>)>,
    /// The number of the event.
    pub(crate) sequence: Option<u64>,
}

impl UnconfirmedFollower {
    /// A reader of these events; only of what concerns a set, with its scripts as of a view, if there is one.
    pub(crate) fn new(events: MempoolFollower, watch: Option<(WatchSet, &Arc<View>)>) -> Self {
        let watching = watch.map(|(set, view)| Watching { now: set.watched(view), set, searched: None });
        Self { events, watching, waiting: VecDeque::new(), event: None }
    }

    /// Watches more scripts if those near the end of a branch are used. What arrived before an event, and concerns no
    /// other scripts that are watched, is to be sent.
    async fn extend(&mut self, sequence: u64) -> Result<(), ApiError> {
        let Some(Watching { set, now, searched }) = &mut self.watching else { return Ok(()) };
        if set.branch_count() == 0 {
            return Ok(());
        }
        let head = self.events.head();
        let state = Some((head.tip.hash, head.mempool.sequence()));
        if std::mem::replace(searched, state) == state {
            return Ok(());
        }
        let view = Arc::new(self.events.view());
        if !set.extend(&view, HistoryEnd::ALL).await? {
            return Ok(());
        }
        let more = set.watched(&view);
        let added = more.ledger().filtered(|script| !now.ledger().contains(script));
        let waiting = view.arrivals(&added, &(0..sequence), true);
        self.waiting.extend(waiting.filter(|entry| !self.events.head().concerns(now.ledger(), entry)).cloned());
        *now = more;
        Ok(())
    }

    /// The transaction with a txid if it is in the mempool and wanted, and a view to answer from.
    fn wanted_entry(
        &self,
        txid: &Txid,
        is_wanted: impl FnOnce(&Head, &Entry) -> bool,
    ) -> Option<(Arc<View>, Arc<Entry>)> {
        let head = self.events.head();
        let entry = head.mempool.get(txid).filter(|entry| is_wanted(head, entry))?;
        Some((Arc::new(self.events.view()), Arc::clone(entry)))
    }
}

impl Follower for UnconfirmedFollower {
    type Item = UnconfirmedArrival;

    /// The next arrival; `None` once there will be no more.
    ///
    /// Errors: those of the mempool's events; QUERY_LIMIT_EXCEEDED or RESOURCE_EXHAUSTED for too many scripts.
    async fn next(&mut self) -> Option<Result<UnconfirmedArrival, ApiError>> {
        if self.event.is_none() {
            let event = match self.events.next_event().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.extend(event.sequence).await {
                return Some(Err(error));
            }
            self.event = Some(event);
        }
        self.events.switch_if_expired();
        if let Some(waiting) = self.waiting.pop_front() {
            return Some(Ok(UnconfirmedArrival {
                entry: self.wanted_entry(&waiting.txid, |_, _| true),
                sequence: None,
            }));
        }
        let MempoolEvent { sequence, kind } = self.event.take()?;
        let entry = match kind {
            MempoolEventKind::Added { txid, .. } => self.wanted_entry(&txid, |head, entry| {
                self.watching.as_ref().is_none_or(|watching| head.concerns(watching.now.ledger(), entry))
            }),
            MempoolEventKind::Removed { .. } | MempoolEventKind::Corrected { .. } => None,
        };
        Some(Ok(UnconfirmedArrival { entry, sequence: Some(sequence) }))
    }
}
