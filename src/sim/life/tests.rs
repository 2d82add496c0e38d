//! What a life does, and that it does the same again.

use std::collections::BTreeSet;
use std::mem::discriminant;

use bitcoin::Network;

use super::super::Happening;
use super::*;
use crate::chain::{Height, ScriptType, address_of};

const NOW: u32 = 1_800_000_000;

/// A life after so many steps of its own time, and what it did.
fn lead(profile: Profile, seed: u64, steps: u32) -> (World, Vec<Step>) {
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

fn count(steps: &[Step], counted: impl Fn(&Deed) -> bool) -> usize {
    steps.iter().filter(|step| counted(&step.deed)).count()
}

#[test]
fn the_same_seed_leads_the_same_life_and_another_seed_another() {
    for (profile, steps) in [(Profile::Demo, 300), (Profile::Hostile, 150), (Profile::MainnetLike, 20)] {
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
    assert!((150..=200).contains(&height), "{height}");
    let blocks: Vec<_> = world.chain().active_blocks().skip(1).collect();
    let times: Vec<u32> = blocks.iter().map(|block| block.header.time).collect();
    assert!(times.is_sorted());
    assert!((NOW - 60..NOW).contains(times.last().unwrap()));
    assert!(blocks[..100].iter().all(|block| block.txdata.len() == 1));
    assert!(blocks[110..].iter().all(|block| block.txdata.len() < 100));
    assert!(blocks[100..].iter().map(|block| block.txdata.len() - 1).sum::<usize>() > 200);
    assert_eq!(world.chain().tips().len(), 2, "one block was overtaken");
}

#[test]
fn a_demo_goes_on_at_the_pace_that_its_profile_promises() {
    let (world, steps) = lead(Profile::Demo, 1, 6_000);
    let seconds = steps.iter().map(|step| step.wait).sum::<Duration>().as_secs_f64();
    let a_second = |n: usize| f64::from(u32::try_from(n).unwrap()) / seconds;
    let payments = count(&steps, |deed| {
        matches!(deed, Deed::Submitted { refused: 0, .. } | Deed::Replaced { .. } | Deed::Bumped { .. })
    });
    assert!((2.0..4.0).contains(&a_second(payments)), "{} payments a second", a_second(payments));
    let blocks = count(&steps, |deed| matches!(deed, Deed::Mined(_) | Deed::Branched { .. }));
    assert!((0.08..0.12).contains(&a_second(blocks)), "{} blocks a second", a_second(blocks));
    let reorgs = count(&steps, |deed| matches!(deed, Deed::Branched { depth: 1, length: 2 }));
    assert!((blocks / 20..=blocks / 7).contains(&reorgs), "{reorgs} of {blocks} blocks");
    for (what, n) in [
        ("replacements", count(&steps, |deed| matches!(deed, Deed::Replaced { .. }))),
        ("children that pay", count(&steps, |deed| matches!(deed, Deed::Bumped { .. }))),
        ("evictions", count(&steps, |deed| matches!(deed, Deed::Removed(_)))),
    ] {
        assert!((steps.len() / 200..steps.len() / 10).contains(&n), "{n} {what}");
    }
    assert!(world.mempool().len() < 400, "{} wait", world.mempool().len());
    let returned = steps.iter().flat_map(|step| &step.happenings);
    assert!(returned.clone().any(|noted| matches!(noted.happening, Happening::Returned { .. })));
}

#[test]
fn the_people_of_a_demo_have_addresses_of_all_usual_types_and_some_are_paid_all_the_time() {
    let (world, _) = lead(Profile::Demo, 1, 1_500);
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
fn a_hostile_life_does_everything_and_repeats_coinbases_only_when_told_to() {
    let (world, steps) = lead(Profile::Hostile, 1, 700);
    let happenings = steps.iter().flat_map(|step| &step.happenings);
    let kinds: std::collections::HashSet<_> = happenings.map(|noted| discriminant(&noted.happening)).collect();
    assert_eq!(kinds.len(), 10, "of happenings");
    let deeds: std::collections::HashSet<_> = steps.iter().map(|step| discriminant(&step.deed)).collect();
    assert_eq!(deeds.len(), 9, "of deeds, all but one");
    assert!(world.chain().height() > Height::from(150));

    let (life, mut world) = Life::start(Profile::Hostile, 1, NOW).unwrap();
    let mut life = life.repeating_coinbases();
    assert!((0..700).any(|_| matches!(life.next(&mut world).unwrap().deed, Deed::RepeatedCoinbase(_))));
}

#[test]
fn a_life_like_mainnet_fills_its_blocks_from_a_mempool() {
    let (world, steps) = lead(Profile::MainnetLike, 1, 3_205);
    let mined = steps.iter().position(|step| matches!(step.deed, Deed::Mined(_))).unwrap();
    let Deed::Mined(hash) = steps[mined].deed else { unreachable!() };
    assert_eq!(world.chain().block(&hash).unwrap().txdata.len(), mined + 1);
    assert!((2_500..=3_200).contains(&mined), "{mined} transactions");
    let refused = count(&steps, |deed| matches!(deed, Deed::Submitted { refused: 1, .. }));
    assert!(refused * 2 < mined, "{refused} refused");
    let pace = steps[0].wait * u32::try_from(mined).unwrap();
    assert!((400..=600).contains(&pace.as_secs()), "{pace:?}");
}
