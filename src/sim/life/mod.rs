//! What goes on in a world by itself, step by step: people pay, miners mine, branches overtake each other.
//!
//! ```text
//!   Life::start(profile, seed, now) ──► a history, made at once
//!   loop {                                        demo         payments of people, a block every ten seconds
//!       world.set_time(now)                       hostile      everything odd at once
//!       step = life.next(&mut world)  ◄───────────mainnet      full blocks at the pace of mainnet
//!       sleep step.wait                              │
//!   }                                             wallet       which coins can be spent, and by whom
//! ```
//!
//! Nothing here looks at a clock or sleeps: all is a function of the profile, the seed, and the times that the caller
//! sets. What is in the world is always valid by consensus; a node that is fed the blocks accepts each, unless the
//! life was told to repeat coinbases.

mod demo;
mod hostile;
mod mainnet;
mod wallet;

use std::time::Duration;

use bitcoin::{BlockHash, Txid};

use self::demo::Demo;
use self::hostile::HostileLife;
use self::mainnet::MainnetLike;
use super::world::Noted;
use super::{ChainError, World};

/// What kind of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// A few hundred people and a few miners on a small chain, for people to look at: 2 to 4 transactions a second, a
    /// block about every ten seconds, now and then a replacement, a child that pays for its parent, an eviction, a
    /// one-block reorganisation.
    Demo,
    /// Transactions of the shape of mainnet at its pace, about 3,200 a block every ten minutes.
    MainnetLike,
    /// Everything odd at once, to find errors with: all script types, replacements, packages, evictions, chains at
    /// their limits, lock times around the tip, coinbases spent as soon as they can be, blocks of transactions that
    /// nobody saw before, reorganisations of random depth, invalidations.
    Hostile,
}

/// What was done in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Transactions were submitted: those taken, and how many were refused.
    Submitted {
        /// What is in the mempool now, unless a later one of them replaced it.
        taken: Vec<Txid>,
        /// How many were refused.
        refused: usize,
    },
    /// A transaction was submitted in place of another.
    Replaced {
        /// The new one.
        by: Txid,
    },
    /// A transaction was submitted that pays for one that it spends.
    Bumped {
        /// The one that pays.
        child: Txid,
    },
    /// Transactions left the mempool for want of room or for their age.
    Removed(Vec<Txid>),
    /// A block was mined on the tip.
    Mined(BlockHash),
    /// A branch was mined beside the active chain, from so many blocks below the tip, of so many blocks.
    Branched {
        /// From how many blocks below the tip.
        depth: u32,
        /// How many blocks.
        length: u32,
    },
    /// A block was invalidated.
    Invalidated(BlockHash),
    /// An invalidated block was let in again.
    Reconsidered(BlockHash),
    /// A block has the coinbase of an earlier one, which no node accepts.
    RepeatedCoinbase(BlockHash),
    /// Nothing could be done.
    Nothing,
}

/// What happened in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was done.
    pub deed: Deed,
    /// All that came of it, in order.
    pub happenings: Vec<Noted>,
    /// How long to wait before the next step.
    pub wait: Duration,
}

/// A life that goes on in a world. The same profile, seed, times and calls make the same blocks and transactions.
#[derive(Clone, Debug)]
pub struct Life {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Demo(Box<Demo>),
    MainnetLike(Box<MainnetLike>),
    Hostile(Box<HostileLife>),
}

impl Life {
    /// A life and the world it has led so far, up to just before `now`, in seconds since 1970.
    pub fn start(profile: Profile, seed: u64, now: u32) -> Result<(Life, World), ChainError> {
        let (kind, world) = match profile {
            Profile::Demo => {
                let (demo, world) = Demo::start(seed, now)?;
                (Kind::Demo(Box::new(demo)), world)
            }
            Profile::MainnetLike => {
                let (mainnet, world) = MainnetLike::start(seed, now)?;
                (Kind::MainnetLike(Box::new(mainnet)), world)
            }
            Profile::Hostile => {
                let (hostile, world) = HostileLife::start(seed, now)?;
                (Kind::Hostile(Box::new(hostile)), world)
            }
        };
        Ok((Life { kind }, world))
    }

    /// Lets a hostile life repeat earlier coinbases now and then, as happened on mainnet before BIP30. **A node refuses
    /// such blocks**: it is for feeding an index directly.
    #[must_use]
    pub fn repeating_coinbases(mut self) -> Self {
        if let Kind::Hostile(hostile) = &mut self.kind {
            hostile.repeat_coinbases();
        }
        self
    }

    /// Goes one step on in the world that it started. The world's time should be set before. Others may submit and mine
    /// there as well, but not in a world like mainnet, whose blocks follow from each other.
    pub fn next(&mut self, world: &mut World) -> Result<Step, ChainError> {
        let before = world.happened();
        let (deed, wait) = match &mut self.kind {
            Kind::Demo(demo) => demo.next(world)?,
            Kind::MainnetLike(mainnet) => mainnet.next(world)?,
            Kind::Hostile(hostile) => hostile.next(world)?,
        };
        let happenings = world.happenings_since(before).map(|noted| noted.copied().collect()).unwrap_or_default();
        Ok(Step { deed, happenings, wait })
    }
}

#[cfg(test)]
mod tests;
