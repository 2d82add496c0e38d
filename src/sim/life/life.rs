//! A life of one of the profiles, and its steps.

use std::time::Duration;

use super::action::LifeAction;
use super::demo::Demo;
use super::hostile::HostileLife;
use super::mainnet::MainnetLike;
use crate::sim::world::NumberedEvent;
use crate::sim::{ChainError, World};

/// The kind of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// A few hundred people and a few miners on a small chain, for demonstrations: 2 to 4 transactions a second, a
    /// block about every ten seconds, sometimes a replacement, a child that pays for its parent, an eviction, a
    /// one-block reorganisation.
    Demo,
    /// Transactions of the shape of mainnet at its pace, about 3,200 a block every ten minutes.
    MainnetLike,
    /// Corner cases at random, to find errors: all script types, replacements, packages, evictions, chains at their
    /// limits, lock times around the tip, coinbases spent as soon as they are mature, blocks of transactions that were
    /// never announced, reorganisations of random depth, invalidations.
    Hostile,
}

/// A step of a life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeStep {
    /// The action.
    pub action: LifeAction,
    /// The events that it caused, in order.
    pub events: Vec<NumberedEvent>,
    /// How long to wait before the next step.
    pub wait: Duration,
}

/// Activity in a world. Equal profiles, seeds, times and calls make equal blocks and transactions.
#[derive(Clone, Debug)]
pub struct Life {
    kind: ProfileState,
}

#[derive(Clone, Debug)]
enum ProfileState {
    Demo(Box<Demo>),
    MainnetLike(Box<MainnetLike>),
    Hostile(Box<HostileLife>),
}

impl Life {
    /// A life and its world, with a history up to just before `now`, in seconds since 1970.
    pub fn start(profile: Profile, seed: u64, now: u32) -> Result<(Life, World), ChainError> {
        let (kind, world) = match profile {
            Profile::Demo => {
                let (demo, world) = Demo::start(seed, now)?;
                (ProfileState::Demo(Box::new(demo)), world)
            }
            Profile::MainnetLike => {
                let (mainnet, world) = MainnetLike::start(seed, now)?;
                (ProfileState::MainnetLike(Box::new(mainnet)), world)
            }
            Profile::Hostile => {
                let (hostile, world) = HostileLife::start(seed, now)?;
                (ProfileState::Hostile(Box::new(hostile)), world)
            }
        };
        Ok((Life { kind }, world))
    }

    /// Lets a hostile life sometimes repeat earlier coinbases, as happened on mainnet before BIP30. **A node refuses
    /// such blocks**: feed them to an index directly.
    #[must_use]
    pub fn repeating_coinbases(mut self) -> Self {
        if let ProfileState::Hostile(hostile) = &mut self.kind {
            hostile.repeat_coinbases();
        }
        self
    }

    /// Makes one step in the world that it started. The caller sets the world's time before. Others may submit and mine
    /// there as well, but not in a world like mainnet, whose blocks build on each other.
    pub fn next(&mut self, world: &mut World) -> Result<LifeStep, ChainError> {
        let before = world.event_count();
        let (action, wait) = match &mut self.kind {
            ProfileState::Demo(demo) => demo.next(world)?,
            ProfileState::MainnetLike(mainnet) => mainnet.next(world)?,
            ProfileState::Hostile(hostile) => hostile.next(world)?,
        };
        let events = world.events_since(before).map(|numbered| numbered.copied().collect()).unwrap_or_default();
        Ok(LifeStep { action, events, wait })
    }
}
