//! The published Head, and the answer to a question over it.
//!
//! `sync` opens one snapshot after each commit and publishes it by one atomic swap. A request, and each event of a
//! subscription, pins the Head it begins with in a [`View`], so that everything in one answer is from one state of the
//! chain. Nothing else begins reads.
//!
//! ```text
//!   Published ── head() ──► Head ── View::new ──► View ──► Block         block
//!                                                     ├──► Transaction   transaction, output
//!                                                     └──► Totals        ledger
//! ```
//!
//! How rows are stored is the index's business, and how questions are asked is the API's.

mod block;
mod head;
mod ledger;
mod output;
mod transaction;

use std::sync::Arc;

use bitcoin::Network;

pub use block::Block;
pub use head::{Head, Published, SyncState};
pub use ledger::Totals;
pub use output::{Spender, UnspendableReason};
pub use transaction::{Place, Transaction};

pub use crate::index::{ChainMembership, HistoryRow, IndexError, ScriptKey, Tip};

/// One state of the chain and the questions that can be asked of it. Kept for one request or one event.
///
/// Every question fails only where the index does ([`IndexError::Storage`], [`IndexError::Corrupt`]).
pub struct View {
    head: Arc<Head>,
}

impl View {
    /// A view of this Head.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self { head }
    }

    /// The newest block.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.head.tip
    }

    /// The network whose chain this is.
    #[must_use]
    pub fn network(&self) -> Network {
        self.head.chain.network()
    }
}

/// An error of the index that says which row cannot be what was written.
fn corrupt(table: &'static str, what: impl Into<String>) -> IndexError {
    IndexError::Corrupt { table, what: what.into() }
}
