//! A long chain of the shape of mainnet, made fast: it serves to measure an import, not to find errors.
//!
//! The first 100 blocks only pay coins to many owners. The later blocks are filled evenly: inputs and outputs a
//! transaction, spends within the block, recent and old coins, and owners who are paid once or a hundred thousand times
//! are distributed about as on mainnet. Script types are mostly those that a node validates without a signature; as many bytes as the
//! signatures would have are in the witnesses of a future version.
//!
//! ```text
//!   a thread of its own:  Traffic ──► writer ── bodies, a few ahead ──► LoadGenerator ──► SimChain
//!                                       ▲                                                    │
//!                                       └──── coinbases, once they are mature ───────────────┘
//! ```

mod generator;
mod profile;
mod traffic;
mod writer;

pub use generator::LoadGenerator;
pub use profile::LoadProfile;
pub(crate) use traffic::Traffic;
