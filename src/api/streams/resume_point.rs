//! How far subscriptions are that give their clients no cursors, for a server that hands the events of one to several
//! readers: a reader that has lost some of them continues by itself behind the last that it has.
//!
//! ```text
//!   request ── Progress ──► subscription ──► event ──► Events::place(): where a reader is that has this event
//!   request ── Place ─────► subscription, from behind that place
//! ```

use std::sync::Arc;

use async_graphql::Context;
use parking_lot::Mutex;

use super::resume::{ChainCursor, MempoolCursor};

/// Where a reader of a subscription is. It is good for the same subscription in the same run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint(StreamPosition);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamPosition {
    Chain(ChainCursor),
    Mempool(MempoolCursor),
}

/// The cursor of the last event that a client has, which its transport sends beside the request. It is newer than the argument
/// `after` of a document that the client sends again.
#[derive(Clone, Debug)]
pub struct LastEventId(pub String);

impl LastEventId {
    /// The cursor behind which a stream begins: that of the transport, or the argument.
    pub(crate) fn or_argument(ctx: &Context<'_>, after: Option<String>) -> Option<String> {
        ctx.data_opt::<Self>().map(|last| last.0.clone()).or(after)
    }
}

/// The place of a reader that reads the subscription, if it is of a kind that can go on from one, and the cursor of its newest
/// event, if events have cursors. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResumeTracker {
    place: Arc<Mutex<Option<ResumePoint>>>,
    cursor: Arc<Mutex<Option<Arc<str>>>>,
}

impl ResumeTracker {
    /// Of this request.
    pub(crate) fn of(ctx: &Context<'_>) -> Self {
        // without one no client asks
        ctx.data_opt::<Self>().cloned().unwrap_or_default()
    }

    pub(crate) fn place(&self) -> Option<ResumePoint> {
        *self.place.lock()
    }

    /// The cursor of the newest event, once.
    pub(crate) fn take_cursor(&self) -> Option<Arc<str>> {
        self.cursor.lock().take()
    }

    /// The next event has this cursor.
    pub(crate) fn reach_cursor(&self, cursor: &str) {
        *self.cursor.lock() = Some(cursor.into());
    }

    fn reach(&self, at: StreamPosition) {
        *self.place.lock() = Some(ResumePoint(at));
    }

    /// The reader is here in the chain.
    pub(crate) fn advance_chain(&self, place: ChainCursor) {
        self.reach(StreamPosition::Chain(place));
    }

    /// The reader is here in what happens in the mempool.
    pub(crate) fn advance_mempool(&self, place: MempoolCursor) {
        self.reach(StreamPosition::Mempool(place));
    }
}

impl ResumePoint {
    /// From where in the chain this request is to go on.
    pub(crate) fn in_chain(ctx: &Context<'_>) -> Option<ChainCursor> {
        match ctx.data_opt::<Self>()?.0 {
            StreamPosition::Chain(place) => Some(place),
            StreamPosition::Mempool(_) => None,
        }
    }

    /// From where in what happens in the mempool this request is to go on.
    pub(crate) fn in_mempool(ctx: &Context<'_>) -> Option<MempoolCursor> {
        match ctx.data_opt::<Self>()?.0 {
            StreamPosition::Mempool(place) => Some(place),
            StreamPosition::Chain(_) => None,
        }
    }
}

#[cfg(test)]
impl ResumePoint {
    /// One for tests that compare places, which leads nowhere.
    pub(crate) fn number(sequence: u64) -> Self {
        Self(StreamPosition::Mempool(MempoolCursor { run: 0, sequence }))
    }

    pub(crate) fn to_number(self) -> u64 {
        match self.0 {
            StreamPosition::Mempool(place) => place.sequence,
            StreamPosition::Chain(_) => 0,
        }
    }
}
