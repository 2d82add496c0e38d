//! Activity in a world, step by step: payments, blocks, branches and reorganisations.
//!
//! ```text
//!   Life::start(profile, seed, now) ──► a world with a history up to now
//!   loop {                                        demo         payments, a block every ten seconds
//!       world.set_time(now)                       hostile      corner cases at random
//!       step = life.next(&mut world)  ◄───────────mainnet      full blocks at the pace of mainnet
//!       sleep step.wait                              │
//!   }                                             wallet       the spendable coins and their owners
//! ```
//!
//! Nothing here reads a clock or sleeps: a life is a function of the profile, the seed, and the times that the caller
//! sets. The world is always valid by consensus: a node accepts every block, unless the life repeats coinbases.

mod action;
mod demo;
mod hostile;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod life;
mod mainnet;
#[cfg(test)]
mod tests;
mod wallet;

pub use action::LifeAction;
pub use demo::{demo_block_weight, demo_pools};
pub use life::{Life, LifeStep, Profile};
