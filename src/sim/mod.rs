//! A simulated regtest chain, for tests, loads and the demo.
//!
//! ```text
//!   Load, Hostile      choose what happens next            load, hostile
//!        │ transactions, spending what an Owner can unlock  scripts
//!   SimChain           makes consensus-valid blocks         chain
//!        │ blocks      and keeps the unspent outputs        utxo
//!        ├──► straight to an index
//!        ├──► `submitblock` of a real node
//!        ├──► a file for `bitcoind -loadblock`, or a node's whole directory of blocks     blkfile
//!        └──► World: with a mempool, and all that happens to both                         world, mempool
//!               ▲  └──► SimNode: JSON-RPC and REST, as a node answers                     node
//!               └── Life: people who pay, miners, branches                                life
//!
//!   LivingNode = World + SimNode + Life at the pace of the clock                          living_node
//! ```
//!
//! Chains are a function of a seed and of the calls made: there is no wall clock, no randomness of the operating system
//! and no I/O but in the writers of block files, in the node's server, and in what lives at the pace of the clock.

pub mod blkfile;
mod chain;
mod coinbase;
mod error;
mod hostile;
mod hostile_body;
mod life;
mod living_node;
mod load;
mod mempool;
mod node;
mod payment;
mod rng;
mod scripts;
mod signer;
mod utxo;
mod world;

pub use chain::{ChainTip, SimChain, Template, TipChange, TipStatus};
pub use coinbase::Reward;
pub use error::ChainError;
pub use hostile::Hostile;
pub use life::{Deed, Life, Profile, Step};
pub use living_node::{LivingNode, LivingNodeError};
pub use load::{Load, LoadProfile};
pub use mempool::{Assessment, ChainLimit, Entry, Mempool, Policy, Rejection, Sums};
pub use node::{SimNode, SimNodeError, SimNodeOptions};
pub use payment::{Payment, Spendable};
pub use rng::Rng;
pub use scripts::{Owner, ScriptKind, UnlockError};
pub use utxo::{Coin, Coins};
pub use world::{Accepted, Happening, Mining, Noted, World};
