//! Checks the whole index against itself.
//!
//! From the chain as it is stored (`blocks`, `block_starts`, `transactions`) and the links between transactions
//! (`spends`) every other row is computed again and compared with the stored row, in both directions: no row
//! may be missing, different or superfluous. Stored rows are those that count, live and packed, merged into one table
//! (`merged.rs`); the bytes of frozen blocks are read from where the index reads them (`RawBlocks`). Totals are recounted
//! from the first block on. The UTXO set is hashed as Bitcoin Core hashes it, so that one figure shows whether a node agrees.
//!
//! ```text
//!   pass 0   txids of generations, sorted ∥ `txid_prefixes` ──► transactions that repeat a txid
//!   pass 1   transactions ∥ spends, in order ──► expected rows, outputs to be spent ──► sorted on disk
//!   pass 2   transactions ∥ outputs they spend ──► fees, statistics, `blocks` rows, changes to scripts
//!   pass 3   expected rows ∥ tables, in order of their keys
//! ```
//!
//! No pass reads at random: each reads in order and sorts outside of memory where orders differ. Before them,
//! [`IndexFile`] checks the file itself: a damaged file can have a row that a scan finds and a lookup by key does not.

mod chain;
mod compare;
mod digest;
mod duplicates;
mod file;
mod filters;
mod frozen;
mod link;
mod merged;
mod miners;
mod optional;
mod passes;
mod progress;
mod recount;
mod report;
mod spent;
mod stale;
mod utxo;
mod work;

pub use file::{IndexFile, WatchFile};
pub use passes::verify;
pub use progress::VerifyProgress;
pub use report::{Report, TableReport, UtxoSet};
pub use work::VerifyOptions;
