//! What can happen in a history, and how histories are drawn.
//!
//! An action carries all that it needs, small numbers and a seed, so that a history from which others are taken out still
//! means something: that is how a failing one is made small, in `smaller.rs`.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::{BoxedStrategy, NewTree, Union, ValueTree};
use proptest::test_runner::TestRunner;

use super::smaller::Smaller;

/// What becomes of the transactions of blocks that leave the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They come back where they were.
    Return,
    /// One is spent twice: another transaction takes its coin on the new branch, and what stands on it goes with it.
    Die,
    /// They come back later and in another order.
    Elsewhere,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A block that tries every corner.
    Hostile { seed: u64 },
    /// Blocks with nothing but a coinbase.
    Empty { blocks: u32 },
    /// A block with a payment, which the next such block spends.
    Pay { seed: u64 },
    /// A block that spends a coinbase as soon as that may be spent.
    Mature { seed: u64 },
    /// A coinbase that was in the chain before (BIP30), of whose three outputs so many are spent by then.
    Repeat { which: usize, spent: usize },
    /// A branch that leaves the chain `depth` blocks below the tip and is one block longer.
    Reorganise { depth: u32, fate: Fate, seed: u64 },
    /// The last blocks are invalidated, and nothing takes their place until the index has followed.
    Shorten { depth: u32 },
    /// Back to the genesis block, and onto short chains of it, before the chain returns.
    Genesis { rounds: u32 },
    /// Onto a branch and back again (A, B, A), with the index following each time.
    ThereAndBack { depth: u32, seed: u64 },
    /// Branches that each replace the last, while the index does not look.
    Flicker { times: u32, seed: u64 },
    /// The node knows only the beginning of the chain for a while.
    Behind,
    /// The index is closed and opened again.
    Restart,
    /// An update goes part of the way and is dropped. With `killed`, the file is what a crash leaves at that moment.
    Abandon { depth: usize, blocks: usize, killed: bool },
}

/// What happens between two looks of the index at the chain.
pub(crate) type Step = Vec<Action>;

/// How many steps a history has at least, before one that fails is made smaller.
pub(crate) const STEPS: usize = 60;

/// Histories of [`STEPS`] steps and a few more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Histories;

impl Strategy for Histories {
    type Tree = Smaller;
    type Value = Vec<Step>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let step = vec(action(), 1..=3);
        Ok(Smaller::new(vec(step, STEPS..=STEPS + 4).new_tree(runner)?.current()))
    }
}

fn action() -> impl Strategy<Value = Action> {
    let seed = any::<u64>;
    let fate = || prop_oneof![3 => Just(Fate::Return), 5 => Just(Fate::Die), 3 => Just(Fate::Elsewhere)];
    let depth = || prop_oneof![8 => 1..=3_u32, 3 => 4..=8_u32, 1 => 9..=40_u32];
    let spent = || prop_oneof![2 => Just(0), 1 => Just(1), 1 => Just(2), 3 => Just(3_usize)];
    let actions: [(u32, BoxedStrategy<Action>); 13] = [
        (30, seed().prop_map(|seed| Action::Hostile { seed }).boxed()),
        (25, (1..=3_u32).prop_map(|blocks| Action::Empty { blocks }).boxed()),
        (50, seed().prop_map(|seed| Action::Pay { seed }).boxed()),
        (30, seed().prop_map(|seed| Action::Mature { seed }).boxed()),
        (75, (any::<usize>(), spent()).prop_map(|(which, spent)| Action::Repeat { which, spent }).boxed()),
        (
            120,
            (depth(), fate(), seed()).prop_map(|(depth, fate, seed)| Action::Reorganise { depth, fate, seed }).boxed(),
        ),
        (30, depth().prop_map(|depth| Action::Shorten { depth }).boxed()),
        // the way down and back up again is long, so there are few of these and each is worth many
        (1, (20..=30_u32).prop_map(|rounds| Action::Genesis { rounds }).boxed()),
        (27, (1..=4_u32, seed()).prop_map(|(depth, seed)| Action::ThereAndBack { depth, seed }).boxed()),
        (27, (2..=4_u32, seed()).prop_map(|(times, seed)| Action::Flicker { times, seed }).boxed()),
        (30, Just(Action::Behind).boxed()),
        (25, Just(Action::Restart).boxed()),
        (
            55,
            (0..=4_usize, 0..=3_usize, any::<bool>())
                .prop_map(|(depth, blocks, killed)| Action::Abandon { depth, blocks, killed })
                .boxed(),
        ),
    ];
    Union::new_weighted(actions.to_vec())
}
