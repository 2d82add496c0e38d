//! Balances, histories and coins of one script or of several together, now or right after any block.
//!
//! ```text
//!   Ledger (scripts) ──► totals.rs     received, spent and immature amounts
//!                    ├─► history_series.rs  its balance period by period
//!                    ├─► movements.rs  the transactions that paid or spent it
//!                    ├─► coins.rs      its unspent outputs
//!                    ├─► pending.rs    its transactions in the mempool
//!                    ├─► stale.rs      its transactions in a stale block
//!                    ├─► net_effect.rs what one transaction, sent or not, does to it
//!                    └─► keys.rs       the public key that was revealed, and scripts that pay it bare
//!                        merge.rs      several scripts' rows as one list
//! ```
//!
//! The index knows a script by a salted key, the mempool by its SHA-256, so a ledger has both.

mod coins;
mod history_series;
mod keys;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod ledger;
mod merge;
mod movements;
mod net_effect;
mod pending;
mod stale;
mod totals;

pub use coins::{Coin, UnspentCandidate};
pub use history_series::{LedgerPeriod, SeriesRead, SeriesShape, TooManyPeriods};
pub use ledger::Ledger;
pub use movements::{Movement, Movements};
pub use net_effect::{FeeAttribution, NetEffect};
pub use pending::{Pending, PendingMovement};
pub use stale::{LostMovement, StaleMovements};
pub use totals::LedgerTotals;
