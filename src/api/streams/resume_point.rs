//! How far subscriptions are that give their clients no cursors, for a server that hands the events of one to several
//! readers: one who has lost some of them goes on by himself behind the last that he has.
//!
//! ```text
//!   request ── Progress ──► subscription ──► event ──► Events::place(): where a reader is who has this event
//!   request ── Place ─────► subscription, from behind that place
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::Context;

use super::resume::{ChainPlace, MempoolPlace};

/// Where a reader of a subscription is. It is good for the same subscription in the same run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(At);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Chain(ChainPlace),
    Mempool(MempoolPlace),
}

/// The place of the one who reads the subscription, if it is of a kind that can go on from one. Cheap to clone; all clones
/// are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Mutex<Option<Place>>>);

impl Progress {
    /// Of this request.
    pub(crate) fn of(ctx: &Context<'_>) -> Self {
        // without one nobody asks
        ctx.data_opt::<Self>().cloned().unwrap_or_default()
    }

    pub(crate) fn place(&self) -> Option<Place> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, at: At) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Place(at));
    }

    /// The reader is here in the chain.
    pub(crate) fn reach_in_chain(&self, place: ChainPlace) {
        self.reach(At::Chain(place));
    }

    /// The reader is here in what happens in the mempool.
    pub(crate) fn reach_in_mempool(&self, place: MempoolPlace) {
        self.reach(At::Mempool(place));
    }
}

impl Place {
    /// From where in the chain this request is to go on.
    pub(crate) fn in_chain(ctx: &Context<'_>) -> Option<ChainPlace> {
        match ctx.data_opt::<Self>()?.0 {
            At::Chain(place) => Some(place),
            At::Mempool(_) => None,
        }
    }

    /// From where in what happens in the mempool this request is to go on.
    pub(crate) fn in_mempool(ctx: &Context<'_>) -> Option<MempoolPlace> {
        match ctx.data_opt::<Self>()?.0 {
            At::Mempool(place) => Some(place),
            At::Chain(_) => None,
        }
    }
}

#[cfg(test)]
impl Place {
    /// One for tests that compare places, which leads nowhere.
    pub(crate) fn number(sequence: u64) -> Self {
        Self(At::Mempool(MempoolPlace { run: 0, sequence }))
    }

    pub(crate) fn to_number(self) -> u64 {
        match self.0 {
            At::Mempool(place) => place.sequence,
            At::Chain(_) => 0,
        }
    }
}
