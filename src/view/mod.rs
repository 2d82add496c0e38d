//! The published Head, and the answer to a question over it.
//!
//! `sync` opens one snapshot after each commit and publishes it by one atomic swap. A request, and each event of a
//! subscription, pins the Head it begins with in a [`View`], so that everything in one answer is from one state of the
//! chain. Nothing else begins reads.
//!
//! ```text
//!   Published ── head() ──► Head ── View::new ──► View ──► Block         block, chain
//!                                                     ├──► Transaction   transaction, output
//!                                                     └──► Totals …      ledger
//! ```
//!
//! How rows are stored is the index's business, and how questions are asked is the API's.

mod allowance;
mod block;
mod chain;
mod head;
mod ledger;
mod output;
mod transaction;

use std::sync::Arc;

use bitcoin::Network;

use allowance::Allowance;

pub use allowance::AllowanceExceeded;
pub use block::Block;
pub use chain::{BlockRange, ImmatureCoinbase, Pace, Supply};
pub use head::{Head, Published, SyncState};
pub use ledger::{Candidate, Coin, Ledger, Movement, Movements, Totals};
pub use output::{SpendStatus, Spender, UnspendableReason};
pub use transaction::{Place, Transaction};

pub use crate::index::{
    BlockRow, ChainMembership, CountAndValue, IndexError, OutputPosition, QUANTILES, Running, ScriptKey, Tip, TxNum,
    TypeTotals,
};

/// One state of the chain and the questions that can be asked of it. Kept for one request or one event.
///
/// Every question fails only where the index does ([`IndexError::Storage`], [`IndexError::Corrupt`]).
pub struct View {
    head: Arc<Head>,
    allowance: Allowance,
}

impl View {
    /// A view of this Head, to ask without limit.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self::with_allowance(head, usize::MAX)
    }

    /// A view of this Head for an answer that may read and tell this many bytes of transactions.
    #[must_use]
    pub fn with_allowance(head: Arc<Head>, bytes: usize) -> Self {
        Self { head, allowance: Allowance::new(bytes) }
    }

    /// Counts bytes of transactions that the answer has read or is about to tell; the view cannot know by itself what
    /// of it a question is worth.
    ///
    /// Errors: more than the allowance, now or before. With 0 bytes it only asks whether there is any left.
    pub fn count(&self, bytes: usize) -> Result<(), AllowanceExceeded> {
        self.allowance.take(bytes)
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
