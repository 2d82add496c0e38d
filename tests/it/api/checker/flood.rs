//! What happens to the node, and how often it did.

use std::collections::BTreeMap;

use btcgraph::sim::{Life, Profile, SimNode, WorldEvent};

use crate::mempool::simulated::start;

/// How often each must happen at least.
const ENOUGH: [(&str, usize); 9] = [
    ("arrival", 1_000),
    ("replacement", 100),
    ("eviction", 30),
    ("expiry", 25),
    ("confirmation", 1_000),
    ("conflict with a block", 50),
    ("block", 500),
    ("reorganisation", 50),
    ("return", 500),
];
/// One of so many steps forgets a few of the node's signals.
const STEPS_A_LOSS: u32 = 60;
/// Seconds between two steps.
const SPACING: u32 = 5;

/// A node to which anything happens.
pub(super) struct Flood {
    life: Life,
    pub(super) sim: SimNode,
    pub(super) steps: u32,
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl Flood {
    pub(super) fn start(seed: u64) -> Self {
        let (life, sim) = start(Profile::Hostile, seed);
        Self { life, sim, steps: 0, counts: BTreeMap::new() }
    }

    /// One step; whether anything happened.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_A_LOSS) {
            self.sim.drop_messages(3);
        }
        let Self { life, sim, .. } = self;
        let step = sim.with(|world| {
            world.set_time(world.time() + SPACING);
            life.next(world)
        });
        let events = step.unwrap().unwrap().events;
        let mut left = false;
        for numbered in &events {
            let what = match numbered.event {
                WorldEvent::Arrived { .. } => "arrival",
                WorldEvent::Returned { .. } => "return",
                WorldEvent::Replaced { .. } => "replacement",
                WorldEvent::Evicted { .. } => "eviction",
                WorldEvent::Expired { .. } => "expiry",
                WorldEvent::Mined { .. } => "confirmation",
                WorldEvent::Conflicted { .. } => "conflict with a block",
                WorldEvent::Invalidated { .. } => "loss of what it spends",
                WorldEvent::BlockConnected { .. } => "block",
                WorldEvent::BlockDisconnected { .. } => {
                    left = true;
                    "block that left"
                }
            };
            *self.counts.entry(what).or_default() += 1;
        }
        if left {
            *self.counts.entry("reorganisation").or_default() += 1;
        }
        !events.is_empty()
    }

    /// Whether everything happened as often as it must, divided by `share`.
    pub(super) fn has_had_enough(&self, share: usize) -> bool {
        ENOUGH.iter().all(|(what, enough)| self.counts.get(what).is_some_and(|count| *count >= enough / share))
    }
}
