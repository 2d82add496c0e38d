//! A simulated regtest chain, for tests, loads and the demo.
//!
//! ```text
//!   LoadGenerator, Hostile   choose the next block          load, hostile
//!        │ transactions, signed for an Owner                scripts
//!   SimChain           makes consensus-valid blocks         chain
//!        │ blocks      and keeps the unspent outputs        utxo
//!        ├──► directly to an index
//!        ├──► `submitblock` of a real node
//!        ├──► a file for `bitcoind -loadblock`, or a node's whole directory of blocks     blkfile
//!        └──► World: with a mempool, and the events of both                               world, mempool
//!               ▲  └──► SimNode: JSON-RPC, REST and ZMQ, as a node                        node
//!               └── Life: payments, miners, branches                                      life
//!
//!   LivingNode = World + SimNode + Life at the pace of the clock                          living_node
//! ```
//!
//! A chain is a function of a seed and of the calls: there is no wall clock, no randomness of the operating system and
//! no I/O but in the writers of block files, in the node's server, and in [`LivingNode`].

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
mod script_kind;
mod scripts;
mod signer;
mod utxo;
mod world;

pub use chain::{BranchTip, ChainPath, SimChain, Template, TipStatus};
pub use coinbase::Reward;
pub use error::{ChainError, UnlockError};
pub use hostile::Hostile;
pub use life::{Life, LifeAction, LifeStep, Profile, demo_block_weight, demo_pools};
pub use living_node::{LivingNode, LivingNodeError};
pub use load::{LoadGenerator, LoadProfile};
pub use mempool::{Assessment, ChainLimit, PackageSums, Policy, Rejection, SimMempool, SimMempoolEntry};
pub use node::{SimNode, SimNodeError, SimNodeOptions};
pub use payment::{Payment, Spendable};
pub use rng::Rng;
pub use script_kind::ScriptKind;
pub use scripts::Owner;
pub use utxo::{CoinMap, SimCoin};
pub use world::{Accepted, Mining, NumberedEvent, World, WorldEvent};
