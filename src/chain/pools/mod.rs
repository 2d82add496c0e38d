//! Mining pools, and which of them mined a block.
//!
//! ```text
//!   known.rs: the largest pools ─┐
//!                                ├─► Pools ── identify(coinbase) ──► a pool, and what it was recognised by
//!   file.rs: pools of a file ────┘
//! ```
//!
//! No block names its miner. A pool is recognised by a **tag**, text that it writes into the coinbase's scriptSig, or else
//! by a **payout script** that the coinbase pays. The tag comes first: it is what the pool says of itself, while pools that
//! have the same custodian, or that resell the work of another, share payout scripts. Neither is proof: anybody can write a
//! tag. Of several tags one of the file counts before those that are built in, then the longest, as the most specific; of several
//! payout scripts that of the first output. The case of ASCII letters in tags does not count.

mod file;
mod known;
mod pool;
mod table;
#[cfg(test)]
mod tests;

pub use file::PoolsFileError;
pub use pool::{Pool, slug};
pub use table::{MinerEvidence, PoolId, Pools};
