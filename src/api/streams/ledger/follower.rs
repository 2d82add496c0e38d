//! The reader of a ledger: which event is next.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::blocks::{Row, Rules, StaleBlocks};
use super::event::Happening;
use super::mined::Mined;
use super::route::{self, Step};
use crate::api::error::ApiError;
use crate::api::streams::follower::{Following, unknown};
use crate::api::streams::head_lease::Held;
use crate::api::streams::resume::{ChainPlace, LedgerPlace, Reached};
use crate::api::types::ledger::Watched;
use crate::live::{Event, Live};
use crate::view::{Block, Head, Published, View};

/// After so many events a reader who walks far turns to the newest Head, and lets go of the one he read from.
pub(crate) const PAGE: usize = 1_000;
/// How many events of the mempool a reader takes first.
pub(crate) const FIRST_PAGE: usize = 16;

/// Where the events come from, and how much each may read.
pub(crate) struct Sources<'s> {
    pub(crate) published: &'s Published,
    pub(crate) live: &'s Live,
    pub(crate) stale: &'s Arc<StaleBlocks>,
    pub(crate) allowance: usize,
}

/// How far a reader has come in the mempool.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// Up to the event with this number, and with the chain as it was after so many turns, or on the way to the next.
    Exact { sequence: u64, turns: u64 },
    /// What happened since is not remembered. The chain is told, and then that there is a gap.
    Lost,
    /// He was told that there is a gap, and of what arrived before the one with number `from` and waits. The rest of what
    /// had arrived up to the event `sequence` follows; then he is there, with the chain after so many turns.
    Retelling { from: u64, sequence: u64, turns: u64 },
}

/// The place of one reader.
pub(crate) struct LedgerFollower {
    pub(crate) events: Receiver<Arc<Event>>,
    pub(crate) published: Published,
    pub(crate) run: u64,
    /// Bytes of transactions that each view may read and tell.
    pub(crate) allowance: usize,
    pub(crate) rules: Arc<Rules>,
    /// The newest block of the chain as it was told.
    pub(crate) told: BlockHash,
    /// A block of which some is told, and how much.
    pub(crate) begun: Option<(ChainPlace, usize)>,
    pub(crate) reach: Reach,
    /// What is read from now; none while there is nothing to be told.
    pub(crate) held: Option<Held>,
    /// How many events were told since that was turned to.
    pub(crate) told_from_head: usize,
    /// How many events of the mempool are taken next.
    pub(crate) page: usize,
    /// Found, and yet to be told.
    pub(crate) pending: VecDeque<Happening>,
    /// Where he is who has heard of what was told last.
    pub(crate) heard: Option<LedgerPlace>,
    pub(crate) mined: Option<Mined>,
}

impl LedgerFollower {
    /// A reader of a ledger from now on, or behind a place, who is told of these numbers of confirmations above 1.
    pub(crate) fn new(
        sources: &Sources<'_>,
        (watched, depths): (Watched, Vec<u32>),
        place: Option<LedgerPlace>,
        events: Receiver<Arc<Event>>,
        head: &Arc<Head>,
    ) -> Result<Self, ApiError> {
        let Sources { published, live, stale, allowance } = sources;
        let mut follower = Self {
            events,
            published: (*published).clone(),
            run: live.run(),
            allowance: *allowance,
            rules: Arc::new(Rules { watched, depths, stale: Arc::clone(stale) }),
            told: head.tip.hash,
            begun: None,
            reach: Reach::Exact { sequence: head.mempool.sequence(), turns: head.tip_history.count() },
            held: None,
            told_from_head: 0,
            page: FIRST_PAGE,
            pending: VecDeque::new(),
            heard: None,
            mined: None,
        };
        if let Some(place) = place {
            follower.stand_at(place, head)?;
        }
        Ok(follower)
    }

    /// Errors: CURSOR_EXPIRED if the place is on a block that is not known here.
    pub(crate) fn stand_at(&mut self, place: LedgerPlace, head: &Arc<Head>) -> Result<(), ApiError> {
        let LedgerPlace { block, told, reached } = place;
        self.reach = match reached {
            Some(Reached { run, sequence, turns }) if run == self.run => Reach::Exact { sequence, turns },
            _ => Reach::Lost,
        };
        let view = View::new(head.clone());
        let hash = block.hash();
        let row = view.block(hash)?.ok_or_else(|| unknown(hash))?.row;
        let below = row.header.prev_blockhash;
        let whole = told == LedgerPlace::WHOLE;
        self.told = if matches!(block, ChainPlace::Connected(_)) == whole { hash } else { below };
        self.begun = match usize::try_from(told) {
            Ok(told) if !whole => Some((block, told)),
            _ => None,
        };
        self.turn_to(head.clone());
        Ok(())
    }

    /// Finds what comes next in a Head. Whether there was anything to look at, be there something to be told of it or
    /// not.
    pub(crate) async fn go_on(&mut self, head: &Arc<Head>) -> Result<bool, ApiError> {
        let view = View::new(head.clone());
        if let Some((block, told)) = self.begun.take() {
            Box::pin(self.go_on_within(head, &view, block, told)).await?;
            return Ok(true);
        }
        if let Reach::Exact { sequence, turns } = self.reach
            && !self.is_remembered(head, sequence, turns)
        {
            tracing::debug!(sequence, turns, "a subscription fell behind the stored mempool events");
            self.reach = Reach::Lost;
        }
        match self.reach {
            Reach::Exact { sequence, turns } => {
                let turn = head.tip_history.after(turns);
                let up_to = turn.map_or(head.mempool.sequence(), |turn| turn.sequence);
                if sequence < up_to {
                    self.reach = match Box::pin(self.take_events(head, &view, (sequence, up_to), turns)).await? {
                        Some(sequence) => Reach::Exact { sequence, turns },
                        None => Reach::Lost,
                    };
                    return Ok(true);
                }
                let Some(turn) = turn else { return Ok(false) };
                if !Box::pin(self.walk(head, &view, turn.to)).await? {
                    self.reach = Reach::Exact { sequence, turns: turns.saturating_add(1) };
                }
                Ok(true)
            }
            Reach::Lost => {
                if !Box::pin(self.walk(head, &view, head.tip.hash)).await? {
                    self.tell_gap(head);
                }
                Ok(true)
            }
            Reach::Retelling { from, sequence, turns } => {
                self.take_waiting(&view, from, (sequence, turns));
                Ok(true)
            }
        }
    }

    /// Whether a Head knows what happened since.
    pub(crate) fn is_remembered(&self, head: &Head, sequence: u64, turns: u64) -> bool {
        let there = head.tip_history.count() == turns && self.told == head.tip.hash;
        let on_the_way = head.tip_history.count() > turns && head.tip_history.contains_all_after(turns);
        (there || on_the_way) && head.mempool.events_after(sequence).is_some()
    }

    /// Takes the next step to a block. Whether there was any to take.
    pub(crate) async fn walk(&mut self, head: &Arc<Head>, view: &View, to: BlockHash) -> Result<bool, ApiError> {
        let Some(step) = route::next(view, self.told, to)? else { return Ok(false) };
        match step {
            Step::Left(block) => self.leave(head, &block, 0).await?,
            Step::Stale(block) => self.join_stale(head, view, &block, 0).await?,
            Step::Main(first, last) => {
                let (rows, last) = self.rules.joined(head, first, last).await?;
                self.tell_joined(view, rows, 0)?;
                self.told = view.block_hash(last)?;
            }
        }
        Ok(true)
    }

    /// Tells the rest of what a block did, of which the first `told` were told.
    pub(crate) async fn go_on_within(
        &mut self,
        head: &Arc<Head>,
        view: &View,
        place: ChainPlace,
        told: usize,
    ) -> Result<(), ApiError> {
        let hash = place.hash();
        let block = view.block(hash)?.ok_or_else(|| unknown(hash))?;
        match place {
            ChainPlace::Disconnected(_) => self.leave(head, &block, told).await,
            ChainPlace::Connected(_) if !block.is_main() => self.join_stale(head, view, &block, told).await,
            ChainPlace::Connected(_) => {
                let (rows, _) = self.rules.joined(head, block.height, block.height).await?;
                self.tell_joined(view, rows, told)?;
                self.told = hash;
                Ok(())
            }
        }
    }

    pub(crate) async fn leave(&mut self, head: &Arc<Head>, block: &Block, told: usize) -> Result<(), ApiError> {
        let rows = self.rules.left(head, block).await?;
        self.tell(ChainPlace::Disconnected(block.row.hash), rows, told);
        self.told = block.row.header.prev_blockhash;
        Ok(())
    }

    pub(crate) async fn join_stale(
        &mut self,
        head: &Arc<Head>,
        view: &View,
        block: &Block,
        told: usize,
    ) -> Result<(), ApiError> {
        let rows = self.rules.joined_stale(head, view, block).await?;
        self.tell(ChainPlace::Connected(block.row.hash), rows, told);
        self.told = block.row.hash;
        Ok(())
    }

    /// What blocks of the active chain did, each under its own block; of the first, `told` were told.
    pub(crate) fn tell_joined(&mut self, view: &View, rows: Vec<Row>, mut told: usize) -> Result<(), ApiError> {
        let mut rows = rows.into_iter().peekable();
        while let Some(height) = rows.peek().map(|row| row.height) {
            let block = ChainPlace::Connected(view.block_hash(height)?);
            let mut of_one = Vec::new();
            while let Some(row) = rows.next_if(|row| row.height == height) {
                of_one.push(row);
            }
            self.tell(block, of_one, std::mem::take(&mut told));
        }
        Ok(())
    }

    /// What one block did waits to be told, but for the first of it.
    pub(crate) fn tell(&mut self, block: ChainPlace, rows: Vec<Row>, told: usize) {
        let reached = self.reached();
        for (Row { kind, moved, depth, .. }, told) in rows.into_iter().zip(1_u32..).skip(told) {
            let place = LedgerPlace { block, told, reached };
            self.pending.push_back(Happening { depth, ..Happening::new(kind, Some(moved), place) });
        }
    }

    pub(crate) fn reached(&self) -> Option<Reached> {
        match self.reach {
            Reach::Exact { sequence, turns } => Some(Reached { run: self.run, sequence, turns }),
            Reach::Lost | Reach::Retelling { .. } => None,
        }
    }

    /// Where a reader is who has heard of an event of the mempool.
    pub(crate) fn place_behind(&self, sequence: u64, turns: u64) -> LedgerPlace {
        let reached = Some(Reached { run: self.run, sequence, turns });
        LedgerPlace { block: ChainPlace::Connected(self.told), told: LedgerPlace::WHOLE, reached }
    }

    /// Whether a Head can have anything that is yet to be told.
    pub(crate) fn is_news(&self, head: &Head) -> bool {
        match self.reach {
            Reach::Exact { sequence, turns } => head.tip_history.count() > turns || head.mempool.sequence() > sequence,
            Reach::Lost | Reach::Retelling { .. } => true,
        }
    }

    /// Switches to the newest Head when much was told from this one.
    pub(crate) fn turn_page(&mut self) {
        if self.told_from_head >= PAGE
            && let Some(newest) = self.published.head()
        {
            self.turn_to(newest);
        }
    }

    /// Switches to the newest Head when this one was held for long. What was found in this one and cannot be told from that
    /// one is found again.
    pub(crate) fn let_go(&mut self) -> Result<(), ApiError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let Some(newest) = held.outlived(&self.published) else { return Ok(()) };
        let same_chain = held.head().tip.hash == newest.tip.hash;
        match self.heard {
            Some(heard) if self.pending.iter().any(|happening| !happening.outlives_its_head(same_chain)) => {
                self.pending.clear();
                self.page = FIRST_PAGE;
                self.stand_at(heard, &newest)
            }
            _ => {
                self.turn_to(newest);
                Ok(())
            }
        }
    }

    pub(crate) fn turn_to(&mut self, head: Arc<Head>) {
        self.held = Some(Held::new(head));
        self.told_from_head = 0;
        self.mined = None;
    }
}

impl Following for LedgerFollower {
    type Found = (View, Happening);

    /// What happened next, and the view to answer from; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the way leads over stale blocks that are not kept any more. There is nothing to be told
    /// after an error.
    async fn next(&mut self) -> Option<Result<(View, Happening), ApiError>> {
        if let Err(error) = self.let_go() {
            return Some(Err(error));
        }
        loop {
            if let (Some(held), Some(happening)) = (&self.held, self.pending.pop_front()) {
                self.told_from_head += 1;
                self.heard = Some(happening.place);
                let view = self.published.view_of(held.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, happening)));
            }
            self.turn_page();
            if let Some(head) = self.held.as_ref().map(|held| held.head().clone()) {
                // on the heap while it goes on, since who waits is to hold little
                match Box::pin(self.go_on(&head)).await {
                    // a long way without anything to tell must not keep others from theirs
                    Ok(true) => tokio::task::yield_now().await,
                    Ok(false) => (self.held, self.mined) = (None, None),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            }
            match self.events.recv().await {
                Ok(event) if self.is_news(&event.head) => self.turn_to(event.head.clone()),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and continues from the stored mempool events");
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
