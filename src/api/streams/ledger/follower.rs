//! The reader of a ledger: which event is next.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::blocks::{LedgerBlockEffect, LedgerSelection, StaleBlocks};
use super::event::LedgerUpdate;
use super::mined::Mined;
use super::route::{self, Step};
use crate::api::error::ApiError;
use crate::api::streams::follower::{Follower, block_not_stored};
use crate::api::streams::head_lease::HeadLease;
use crate::api::streams::resume::{ChainCursor, LedgerCursor, MempoolReached};
use crate::api::streams::watch_place::{BackfillPlace, WatchPlace};
use crate::api::types::ledger::{WatchSet, Watched};
use crate::live::{Event, Live};
use crate::view::{Block, Head, Ledger, Published, View};

/// After so many events a reader that walks far turns to the newest Head, and lets go of the one it read from.
pub(crate) const PAGE: usize = 1_000;
/// How many events of the mempool a reader takes first.
pub(crate) const FIRST_PAGE: usize = 16;

/// Where the events come from, and how much each may read.
pub(crate) struct LedgerSources<'s> {
    pub(crate) published: &'s Published,
    pub(crate) live: &'s Live,
    pub(crate) stale: &'s Arc<StaleBlocks>,
    pub(crate) allowance: usize,
}

/// How far a reader has come in the mempool.
#[derive(Clone, Copy)]
pub(crate) enum MempoolCoverage {
    /// Up to the event with this number, and with the chain as it was after so many turns, or on the way to the next.
    Exact { sequence: u64, tip_changes: u64 },
    /// What happened since is not remembered. The chain is sent, and then that there is a gap.
    Lost,
    /// It was sent that there is a gap, and of what arrived before the one with number `from` and waits. The rest of what
    /// had arrived up to the event `sequence` follows; then it is there, with the chain after so many turns.
    Replaying { from: u64, sequence: u64, tip_changes: u64 },
}

/// History that is to be sent of scripts that became watched.
pub(crate) struct Backfill {
    pub(crate) place: BackfillPlace,
    /// These scripts.
    pub(crate) added: Arc<Ledger>,
}

/// The place of one reader.
pub(crate) struct LedgerFollower {
    pub(crate) events: Receiver<Arc<Event>>,
    pub(crate) published: Published,
    pub(crate) run: u64,
    /// Bytes of transactions that each view may read.
    pub(crate) allowance: usize,
    /// What is watched from the next step on that reads more scripts, and now.
    pub(crate) watch: WatchSet,
    pub(crate) selection: Arc<LedgerSelection>,
    /// What cursors say of the descriptors.
    pub(crate) watch_place: Option<Arc<WatchPlace>>,
    /// Whether the Head was searched for scripts that are to be watched, and nothing was found to be used since.
    pub(crate) is_extended: bool,
    /// History that is to be sent of scripts that became watched.
    pub(crate) backfill: Option<Backfill>,
    /// The newest block of the chain as it was sent.
    pub(crate) sent: BlockHash,
    /// A block of which some is sent, and how much.
    pub(crate) partial_block: Option<(ChainCursor, usize)>,
    pub(crate) reach: MempoolCoverage,
    /// What is read from now; none while there is nothing to be sent.
    pub(crate) lease: Option<HeadLease>,
    /// How many events were sent since that was turned to.
    pub(crate) sent_from_head: usize,
    /// How many events of the mempool are taken next.
    pub(crate) page: usize,
    /// Found, and not sent yet.
    pub(crate) pending: VecDeque<LedgerUpdate>,
    /// Where it is that has heard of what was sent last.
    pub(crate) last_sent: Option<LedgerCursor>,
    pub(crate) mined: Option<Mined>,
}

impl LedgerFollower {
    /// A reader of a ledger from now on, or behind a place, that is informed of these numbers of confirmations above 1.
    pub(crate) fn new(
        sources: &LedgerSources<'_>,
        (watch, depths): (WatchSet, Vec<u32>),
        place: Option<LedgerCursor>,
        events: Receiver<Arc<Event>>,
        head: &Arc<Head>,
    ) -> Result<Self, ApiError> {
        let LedgerSources { published, live, stale, allowance } = sources;
        let watched = watch.watched(&Arc::new(View::new(Arc::clone(head))));
        let mut follower = Self {
            events,
            published: (*published).clone(),
            run: live.run(),
            allowance: *allowance,
            selection: Arc::new(LedgerSelection { watched, depths, stale: Arc::clone(stale) }),
            watch_place: None,
            // without a place nothing was passed that it does not watch
            is_extended: false,
            backfill: None,
            watch,
            sent: head.tip.hash,
            partial_block: None,
            reach: MempoolCoverage::Exact { sequence: head.mempool.sequence(), tip_changes: head.tip_history.count() },
            lease: None,
            sent_from_head: 0,
            page: FIRST_PAGE,
            pending: VecDeque::new(),
            last_sent: None,
            mined: None,
        };
        follower.watch_place = follower.place_of_watch(None);
        if let Some(place) = place {
            follower.resume_at(place, head)?;
        }
        Ok(follower)
    }

    /// Errors: CURSOR_EXPIRED if the place is on a block that is not known here.
    pub(crate) fn resume_at(&mut self, place: LedgerCursor, head: &Arc<Head>) -> Result<(), ApiError> {
        let LedgerCursor { block, sent, reached, replayed, watch } = place;
        self.reach = match reached {
            Some(MempoolReached { run, sequence, tip_changes }) if run == self.run => match replayed {
                None => MempoolCoverage::Exact { sequence, tip_changes },
                Some(from) => MempoolCoverage::Replaying { from, sequence, tip_changes },
            },
            _ => MempoolCoverage::Lost,
        };
        let view = Arc::new(View::new(head.clone()));
        if let Some(watch) = watch {
            self.return_to(&view, &watch);
        }
        let hash = block.hash();
        let row = view.block(hash)?.ok_or_else(|| block_not_stored(hash))?.row;
        let below = row.header.prev_blockhash;
        let whole = sent == LedgerCursor::WHOLE;
        self.sent = if matches!(block, ChainCursor::Connected(_)) == whole { hash } else { below };
        self.partial_block = match usize::try_from(sent) {
            Ok(sent) if !whole => Some((block, sent)),
            _ => None,
        };
        self.switch_to(head.clone());
        Ok(())
    }

    /// Finds what comes next in a Head. Whether there was anything to look at, be there something to be sent of it or
    /// not.
    pub(crate) async fn advance(&mut self, head: &Arc<Head>) -> Result<bool, ApiError> {
        let view = View::new(head.clone());
        if let Some((block, sent)) = self.partial_block.take() {
            Box::pin(self.finish_block(head, &view, block, sent)).await?;
            return Ok(true);
        }
        if self.backfill.is_some() {
            Box::pin(self.continue_backfill(head, &view)).await?;
            return Ok(true);
        }
        if !self.is_extended && Box::pin(self.extend(head)).await? {
            return Ok(true);
        }
        if let MempoolCoverage::Exact { sequence, tip_changes } = self.reach
            && !self.is_retained(head, sequence, tip_changes)
        {
            tracing::debug!(sequence, tip_changes, "a subscription fell behind the stored mempool events");
            self.reach = MempoolCoverage::Lost;
        }
        match self.reach {
            MempoolCoverage::Exact { sequence, tip_changes } => {
                let turn = head.tip_history.after(tip_changes);
                let up_to = turn.map_or(head.mempool.sequence(), |turn| turn.sequence);
                if sequence < up_to {
                    self.reach = match Box::pin(self.take_events(head, &view, (sequence, up_to), tip_changes)).await? {
                        Some(sequence) => MempoolCoverage::Exact { sequence, tip_changes },
                        None => MempoolCoverage::Lost,
                    };
                    return Ok(true);
                }
                let Some(turn) = turn else { return Ok(false) };
                if !Box::pin(self.walk(head, &view, turn.to)).await? {
                    self.reach = MempoolCoverage::Exact { sequence, tip_changes: tip_changes.saturating_add(1) };
                }
                Ok(true)
            }
            MempoolCoverage::Lost => {
                if !Box::pin(self.walk(head, &view, head.tip.hash)).await? {
                    self.queue_gap(head);
                }
                Ok(true)
            }
            MempoolCoverage::Replaying { from, sequence, tip_changes } => {
                self.replay_mempool(&view, from, (sequence, tip_changes));
                Ok(true)
            }
        }
    }

    /// Whether a Head knows what happened since.
    pub(crate) fn is_retained(&self, head: &Head, sequence: u64, tip_changes: u64) -> bool {
        let there = head.tip_history.count() == tip_changes && self.sent == head.tip.hash;
        let on_the_way = head.tip_history.count() > tip_changes && head.tip_history.contains_all_after(tip_changes);
        (there || on_the_way) && head.mempool.events_after(sequence).is_some()
    }

    /// Takes the next step to a block. Whether there was any to take.
    pub(crate) async fn walk(&mut self, head: &Arc<Head>, view: &View, to: BlockHash) -> Result<bool, ApiError> {
        let Some(step) = route::next(view, self.sent, to)? else { return Ok(false) };
        match step {
            Step::Left(block) => self.leave(head, &block, 0).await?,
            Step::Stale(block) => {
                let rows = self.selection.joined_stale(head, view, &block).await?;
                // the rest of what it pays is found only if it is watched
                if !self.note_used(rows.iter().map(|row| &row.effect)) {
                    self.queue_stale(&block, rows, 0);
                }
            }
            Step::Main(first, last) => {
                let (rows, last) = self.selection.joined(head, first, last).await?;
                self.queue_joined(view, rows, 0)?;
                self.sent = view.block_hash(last)?;
            }
        }
        Ok(true)
    }

    /// Tells the rest of what a block did, of which the first `sent` were sent.
    pub(crate) async fn finish_block(
        &mut self,
        head: &Arc<Head>,
        view: &View,
        place: ChainCursor,
        sent: usize,
    ) -> Result<(), ApiError> {
        let hash = place.hash();
        let block = view.block(hash)?.ok_or_else(|| block_not_stored(hash))?;
        match place {
            ChainCursor::Disconnected(_) => self.leave(head, &block, sent).await,
            ChainCursor::Connected(_) if !block.is_main() => {
                let rows = self.selection.joined_stale(head, view, &block).await?;
                self.queue_stale(&block, rows, sent);
                Ok(())
            }
            ChainCursor::Connected(_) => {
                let (rows, _) = self.selection.joined(head, block.height, block.height).await?;
                self.queue_joined(view, rows, sent)?;
                self.sent = hash;
                Ok(())
            }
        }
    }

    pub(crate) async fn leave(&mut self, head: &Arc<Head>, block: &Block, sent: usize) -> Result<(), ApiError> {
        let rows = self.selection.left(head, block).await?;
        self.queue(ChainCursor::Disconnected(block.row.hash), rows, sent);
        self.sent = block.row.header.prev_blockhash;
        Ok(())
    }

    /// What a block did that is stale by now waits to be sent, but for the first of it.
    fn queue_stale(&mut self, block: &Block, rows: Vec<LedgerBlockEffect>, sent: usize) {
        self.queue(ChainCursor::Connected(block.row.hash), rows, sent);
        self.sent = block.row.hash;
    }

    /// What blocks of the active chain did, each under its own block; of the first, `sent` were sent.
    pub(crate) fn queue_joined(
        &mut self,
        view: &View,
        rows: Vec<LedgerBlockEffect>,
        mut sent: usize,
    ) -> Result<(), ApiError> {
        let mut rows = rows.into_iter().peekable();
        while let Some(height) = rows.peek().map(|row| row.height) {
            let block = ChainCursor::Connected(view.block_hash(height)?);
            let mut of_one = Vec::new();
            while let Some(row) = rows.next_if(|row| row.height == height) {
                of_one.push(row);
            }
            self.queue(block, of_one, std::mem::take(&mut sent));
        }
        Ok(())
    }

    /// What one block did waits to be sent, but for the first of it.
    pub(crate) fn queue(&mut self, block: ChainCursor, rows: Vec<LedgerBlockEffect>, sent: usize) {
        self.note_used(rows.iter().map(|row| &row.effect));
        let reached = self.reached();
        for (LedgerBlockEffect { kind, effect, depth, .. }, sent) in rows.into_iter().zip(1_u32..).skip(sent) {
            let place = LedgerCursor { block, sent, reached, replayed: None, watch: self.watch_place.clone() };
            self.pending.push_back(LedgerUpdate { depth, ..LedgerUpdate::new(kind, Some(effect), place) });
        }
    }

    pub(crate) fn reached(&self) -> Option<MempoolReached> {
        match self.reach {
            MempoolCoverage::Exact { sequence, tip_changes } => {
                Some(MempoolReached { run: self.run, sequence, tip_changes })
            }
            MempoolCoverage::Lost | MempoolCoverage::Replaying { .. } => None,
        }
    }

    /// Where a reader is that has heard of an event of the mempool.
    pub(crate) fn cursor_after(&self, sequence: u64, tip_changes: u64) -> LedgerCursor {
        let reached = Some(MempoolReached { run: self.run, sequence, tip_changes });
        let (block, watch) = (ChainCursor::Connected(self.sent), self.watch_place.clone());
        LedgerCursor { block, sent: LedgerCursor::WHOLE, reached, replayed: None, watch }
    }

    /// Whether a Head can have anything that is not sent yet.
    pub(crate) fn may_have_events(&self, head: &Head) -> bool {
        match self.reach {
            MempoolCoverage::Exact { sequence, tip_changes } => {
                head.tip_history.count() > tip_changes || head.mempool.sequence() > sequence
            }
            MempoolCoverage::Lost | MempoolCoverage::Replaying { .. } => true,
        }
    }

    /// Switches to the newest Head when much was answered from this one.
    pub(crate) fn switch_if_far(&mut self) {
        if self.sent_from_head >= PAGE
            && let Some(newest) = self.published.head()
        {
            self.switch_to(newest);
        }
    }

    /// Switches to the newest Head when this one was in use for long. What was found in this one and cannot be answered from that
    /// one is found again.
    pub(crate) fn switch_if_expired(&mut self) -> Result<(), ApiError> {
        let Some(lease) = &mut self.lease else { return Ok(()) };
        let Some(newest) = lease.newer_head(&self.published) else { return Ok(()) };
        let same_chain = lease.head().tip.hash == newest.tip.hash;
        match self.last_sent.clone() {
            Some(last_sent) if self.pending.iter().any(|update| !update.outlives_its_head(same_chain)) => {
                self.pending.clear();
                self.page = FIRST_PAGE;
                self.resume_at(last_sent, &newest)
            }
            _ => {
                self.switch_to(newest);
                Ok(())
            }
        }
    }

    pub(crate) fn switch_to(&mut self, head: Arc<Head>) {
        self.lease = Some(HeadLease::new(head));
        self.sent_from_head = 0;
        self.mined = None;
        self.is_extended = false;
    }
}

impl Follower for LedgerFollower {
    type Item = (View, LedgerUpdate, Watched);

    /// What happened next, and the view and the scripts to answer from; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the way leads over stale blocks that are not kept any more. There is nothing to be sent
    /// after an error.
    async fn next(&mut self) -> Option<Result<Self::Item, ApiError>> {
        if let Err(error) = self.switch_if_expired() {
            return Some(Err(error));
        }
        loop {
            if let (Some(lease), Some(update)) = (&self.lease, self.pending.pop_front()) {
                self.sent_from_head += 1;
                self.last_sent = Some(update.place.clone());
                let view = self.published.view_of(lease.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, update, self.selection.watched.clone())));
            }
            self.switch_if_far();
            if let Some(head) = self.lease.as_ref().map(|lease| lease.head().clone()) {
                // on the heap while it advances, since what waits is to be small
                match Box::pin(self.advance(&head)).await {
                    // a long way without anything to tell must not keep others from theirs
                    Ok(true) => tokio::task::yield_now().await,
                    Ok(false) => (self.lease, self.mined) = (None, None),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            }
            match self.events.recv().await {
                Ok(event) if self.may_have_events(&event.head) => self.switch_to(event.head.clone()),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and continues from the stored mempool events");
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
