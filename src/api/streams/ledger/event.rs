//! One event of a ledger, before it is put into words.

use std::sync::Arc;

use bitcoin::Txid;

use crate::api::error::ApiError;
use crate::api::streams::resume::LedgerCursor;
use crate::api::types::ledger::{LedgerEntry, LedgerEventKind, Watched};
use crate::api::types::mempool::RemovalReason;
use crate::view::{LostMovement, Movement, PendingMovement, ScriptKey, View};

/// What a transaction did to the ledger, by where it is.
#[derive(Clone)]
pub(crate) enum LedgerEffect {
    Confirmed(Movement),
    Pending(PendingMovement),
    Lost(LostMovement),
}

impl LedgerEffect {
    /// The scripts of the ledger that the transaction pays or spends, each once.
    pub(crate) fn scripts(&self) -> &[ScriptKey] {
        match self {
            Self::Confirmed(movement) => &movement.scripts,
            Self::Pending(movement) => &movement.scripts,
            Self::Lost(movement) => &movement.scripts,
        }
    }
}

/// Something that happened to the ledger.
pub(crate) struct LedgerUpdate {
    pub(crate) kind: LedgerEventKind,
    /// Nothing where it is not about a transaction.
    pub(crate) effect: Option<LedgerEffect>,
    /// Confirmations, if the event reports them.
    pub(crate) depth: Option<u32>,
    pub(crate) reason: Option<RemovalReason>,
    pub(crate) replaced_by: Option<Txid>,
    /// Whether it corrects the reason of an earlier departure.
    pub(crate) is_correction: bool,
    /// Where a reader is that has heard of it.
    pub(crate) place: LedgerCursor,
}

impl LedgerUpdate {
    pub(crate) fn new(kind: LedgerEventKind, effect: Option<LedgerEffect>, place: LedgerCursor) -> Self {
        Self { kind, effect, depth: None, reason: None, replaced_by: None, is_correction: false, place }
    }

    /// Whether it is history of scripts that became watched behind it.
    pub(crate) fn is_backfill(&self) -> bool {
        self.place.watch.as_ref().is_some_and(|watch| watch.backfill.is_some())
    }

    /// Whether it can be answered from a later state than the one that it was found in, of the same chain or another.
    pub(crate) fn outlives_its_head(&self, same_chain: bool) -> bool {
        match &self.effect {
            None | Some(LedgerEffect::Pending(_)) => true,
            // its position is that of another transaction in another chain
            Some(LedgerEffect::Confirmed(_)) => same_chain,
            // it may be forgotten
            Some(LedgerEffect::Lost(_)) => false,
        }
    }

    /// The transaction, as far as it concerns the ledger. For what an entry of the mempool has of the ledger at most
    /// this many others are read.
    pub(crate) fn entry(
        &self,
        view: &Arc<View>,
        watched: &Watched,
        most: u32,
    ) -> Result<Option<LedgerEntry>, ApiError> {
        let holdings = watched.in_view(view);
        Ok(match &self.effect {
            None => None,
            Some(LedgerEffect::Confirmed(movement)) => Some(LedgerEntry::confirmed(holdings, movement.clone())),
            Some(LedgerEffect::Lost(movement)) => Some(LedgerEntry::lost(holdings, movement.clone())),
            Some(LedgerEffect::Pending(movement)) => {
                let txid = movement.entry.txid;
                // found in an earlier state, it may have gone elsewhere since
                let is_elsewhere = view.mempool().get(&txid).is_none() && view.current_state(&txid)?.is_some();
                Some(if is_elsewhere && view.transaction(&txid)?.is_some() {
                    LedgerEntry::lost(holdings, movement.clone().into())
                } else {
                    LedgerEntry::waiting(holdings, movement.clone(), most)
                })
            }
        })
    }
}
