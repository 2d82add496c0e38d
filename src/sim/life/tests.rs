//! The actions of a life, and that they are deterministic.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::LazyLock;
use std::time::Duration;

use bitcoin::{Block, Network};

use super::*;
use crate::chain::{Height, ScriptType, address_of};
use crate::sim::{World, WorldEvent};

const NOW: u32 = 1_800_000_000;

/// The world after this many steps of its own time, and the steps.
fn lead(profile: Profile, seed: u64, steps: u32) -> (World, Vec<LifeStep>) {
    let (mut life, mut world) = Life::start(profile, seed, NOW).unwrap();
    let mut passed = Duration::ZERO;
    let steps = (0..steps).map(|_| {
        world.set_time(NOW + u32::try_from(passed.as_secs()).unwrap());
        let step = life.next(&mut world).unwrap();
        passed += step.wait;
        step
    });
    let steps = steps.collect();
    (world, steps)
}

/// A demo of 6,000 steps: the world behind them, and the steps.
static DEMO: LazyLock<(World, Vec<LifeStep>)> = LazyLock::new(|| lead(Profile::Demo, 1, 6_000));

fn count(steps: &[LifeStep], counted: impl Fn(&LifeAction) -> bool) -> usize {
    steps.iter().filter(|step| counted(&step.action)).count()
}

#[test]
fn equal_seeds_make_equal_lives_and_others_make_others() {
    assert_eq!(DEMO.1[..300], lead(Profile::Demo, 1, 300).1);
    assert_ne!(DEMO.1[..300], lead(Profile::Demo, 2, 300).1);
    for (profile, steps) in [(Profile::Hostile, 150), (Profile::MainnetLike, 20)] {
        let ((one, one_steps), (same, same_steps)) = (lead(profile, 1, steps), lead(profile, 1, steps));
        assert_eq!(one_steps, same_steps);
        assert_eq!(one.chain().tip(), same.chain().tip());
        let (_, other) = lead(profile, 2, steps);
        assert_ne!(one_steps, other);
    }
}

#[test]
fn a_demo_begins_with_a_history_that_ends_just_before_now() {
    let (world, _) = lead(Profile::Demo, 1, 0);
    let height = world.chain().height().to_u32();
    assert!((650..=750).contains(&height), "{height}");
    let blocks: Vec<_> = world.chain().active_blocks().skip(1).collect();
    let times: Vec<u32> = blocks.iter().map(|block| block.header.time).collect();
    assert!(times.is_sorted());
    assert!((NOW - 60..NOW).contains(times.last().unwrap()));
    assert!(blocks[..100].iter().all(|block| block.txdata.len() == 1));
    assert!(blocks[110..].iter().all(|block| block.txdata.len() < 150));
    assert_eq!(world.chain().tips().len(), 2, "one block was overtaken");
    assert!(world.mempool().len() > 10, "{} wait", world.mempool().len());
}

#[test]
fn the_history_of_a_demo_goes_on_as_it_ended() {
    let (world, _) = &*DEMO;
    let blocks: Vec<&Block> = world.chain().active_blocks().skip(1).map(AsRef::as_ref).collect();
    let (past, present): (Vec<&Block>, Vec<&Block>) = blocks.into_iter().partition(|block| block.header.time < NOW);
    let recent = &past[past.len() - 144..];
    assert!(present.len() > 80);
    let outputs = |block: &Block| block.txdata.iter().map(|tx| tx.output.len()).sum();
    let weight = |block: &Block| usize::try_from(block.weight().to_wu()).unwrap();
    let figures = |block: &Block| [block.txdata.len(), weight(block), outputs(block)];
    for (at, name) in ["transactions", "weight", "outputs"].into_iter().enumerate() {
        let mean =
            |blocks: &[&Block]| 1_000 * blocks.iter().map(|block| figures(block)[at]).sum::<usize>() / blocks.len();
        let (before, after) = (mean(recent), mean(&present));
        assert!((before * 3 / 4..before * 4 / 3).contains(&after), "1,000 {name}: {before} before, {after} after");
    }
    let seconds = |blocks: &[&Block]| (blocks[blocks.len() - 1].header.time - blocks[0].header.time) as usize;
    let pace = |blocks: &[&Block]| 1_000 * seconds(blocks) / blocks.len();
    let (before, after) = (pace(recent), pace(&present));
    assert!((before * 3 / 4..before * 4 / 3).contains(&after), "1,000 seconds a block: {before} before, {after} after");

    let days = past.chunk_by(|one, next| next.header.time - one.header.time < 3_600);
    let days: Vec<(usize, usize)> =
        days.map(|day| (day.len(), day.iter().map(|block| block.txdata.len()).sum::<usize>() / day.len())).collect();
    assert_eq!(days.len(), 9, "the first blocks, seven days, and today: {days:?}");
    assert!(days[1..].is_sorted_by_key(|(blocks, _)| *blocks), "{days:?}");
    assert!(days.is_sorted_by_key(|(_, transactions)| *transactions), "{days:?}");
}

#[test]
fn a_demo_advances_at_the_pace_of_its_profile() {
    let (world, steps) = &*DEMO;
    let seconds = steps.iter().map(|step| step.wait).sum::<Duration>().as_secs_f64();
    let a_second = |n: usize| f64::from(u32::try_from(n).unwrap()) / seconds;
    let payments = count(steps, |action| {
        matches!(
            action,
            LifeAction::Submitted { refused: 0, .. } | LifeAction::Replaced { .. } | LifeAction::Bumped { .. }
        )
    });
    assert!((2.0..4.0).contains(&a_second(payments)), "{} payments a second", a_second(payments));
    let blocks = count(steps, |action| matches!(action, LifeAction::Mined(_) | LifeAction::Branched { .. }));
    assert!((0.08..0.12).contains(&a_second(blocks)), "{} blocks a second", a_second(blocks));
    let reorgs = count(steps, |action| matches!(action, LifeAction::Branched { depth: 1, length: 2 }));
    assert!((blocks / 20..=blocks / 7).contains(&reorgs), "{reorgs} of {blocks} blocks");
    for (what, n) in [
        ("replacements", count(steps, |action| matches!(action, LifeAction::Replaced { .. }))),
        ("children that pay", count(steps, |action| matches!(action, LifeAction::Bumped { .. }))),
        ("evictions", count(steps, |action| matches!(action, LifeAction::Removed(_)))),
    ] {
        assert!((steps.len() / 200..steps.len() / 10).contains(&n), "{n} {what}");
    }
    assert!(world.mempool().len() < 400, "{} wait", world.mempool().len());
    let returned = steps.iter().flat_map(|step| &step.events);
    assert!(returned.clone().any(|numbered| matches!(numbered.event, WorldEvent::Returned { .. })));
}

#[test]
fn a_demo_pays_all_usual_address_types_and_some_very_often() {
    let (world, _) = &*DEMO;
    let outputs = world.chain().active_blocks().skip(1).flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    let mut paid: std::collections::BTreeMap<_, u32> = std::collections::BTreeMap::new();
    for output in outputs {
        *paid.entry(&output.script_pubkey).or_default() += 1;
    }
    let types: BTreeSet<_> = paid.keys().map(|script| format!("{:?}", ScriptType::of(script))).collect();
    let all = ["OpReturn", "P2a", "P2ms", "P2pk", "P2pkh", "P2sh", "P2tr", "P2wpkh", "P2wsh"];
    assert_eq!(types.into_iter().collect::<Vec<_>>(), all);
    let with_address = paid.keys().filter(|script| address_of(script, Network::Regtest).is_some()).count();
    assert!(with_address * 10 > paid.len() * 9, "{with_address} of {}", paid.len());
    assert!(paid.values().any(|times| *times > 40));
    assert!(paid.values().filter(|times| **times == 1).count() * 3 > paid.len());
}

#[test]
fn a_hostile_life_does_all_actions_and_repeats_on_request() {
    let (world, steps) = lead(Profile::Hostile, 1, 700);
    let events = steps.iter().flat_map(|step| &step.events);
    let kinds: std::collections::HashSet<_> = events.map(|numbered| discriminant(&numbered.event)).collect();
    assert_eq!(kinds.len(), 10, "kinds of events");
    let actions: std::collections::HashSet<_> = steps.iter().map(|step| discriminant(&step.action)).collect();
    assert_eq!(actions.len(), 9, "kinds of actions, all but one");
    assert!(world.chain().height() > Height::from(150));

    let (life, mut world) = Life::start(Profile::Hostile, 1, NOW).unwrap();
    let mut life = life.repeating_coinbases();
    assert!((0..700).any(|_| matches!(life.next(&mut world).unwrap().action, LifeAction::RepeatedCoinbase(_))));
}

#[test]
fn a_life_like_mainnet_fills_its_blocks_from_a_mempool() {
    let (world, steps) = lead(Profile::MainnetLike, 1, 3_205);
    let mined = steps.iter().position(|step| matches!(step.action, LifeAction::Mined(_))).unwrap();
    let LifeAction::Mined(hash) = steps[mined].action else { unreachable!() };
    assert_eq!(world.chain().block(&hash).unwrap().txdata.len(), mined + 1);
    assert!((2_500..=3_200).contains(&mined), "{mined} transactions");
    let refused = count(&steps, |action| matches!(action, LifeAction::Submitted { refused: 1, .. }));
    assert!(refused * 2 < mined, "{refused} refused");
    let pace = steps[0].wait * u32::try_from(mined).unwrap();
    assert!((400..=600).contains(&pace.as_secs()), "{pace:?}");
}
