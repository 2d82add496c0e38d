//! Generations that following adds are merged in the background: there are few at any time, and the index agrees with the model
//! and with an index whose blocks are all live.

use std::fs;
use std::path::Path;

use btcgraph::index::FrozenFiles;
use btcgraph::sim::Hostile;
use btcgraph::sync::FreezeBounds;

use super::freezing::{FrozenFollower, hostile_chain};

const BOUNDS: FreezeBounds = FreezeBounds { depth: 3, every: 4, transactions: u64::MAX };

fn mine(followed: &FrozenFollower, hostile: &mut Hostile, blocks: u32) {
    for _ in 0..blocks {
        followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
    }
}

/// The heights of the last blocks of the generations in force.
fn ends(followed: &FrozenFollower) -> Vec<u32> {
    let FrozenFiles { generations, .. } = followed.indexed.index.snapshot().unwrap().frozen_files().unwrap().unwrap();
    generations.iter().map(|generation| generation.last.height.to_u32()).collect()
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory.join("index.frozen")).unwrap().count()
}

#[test]
fn few_generations_are_left_of_many_that_following_adds() {
    let (chain, mut hostile) = hostile_chain(311, 150);
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    followed.catch_up();
    assert_eq!(ends(&followed), [followed.tip() - 3]);
    let mut most = 0;
    for round in 0..30 {
        mine(&followed, &mut hostile, 4);
        let before = ends(&followed).len();
        followed.catch_up();
        most = most.max(ends(&followed).len());
        // what was merged is removed, with nothing beside it
        assert_eq!(files(followed.indexed.directory.path()), ends(&followed).len());
        assert!(ends(&followed).len() <= before + 1 && !followed.indexed.index.merging_path().exists());
        if round % 10 == 9 {
            followed.restart();
            assert_eq!(followed.assert_agrees(), Some(followed.tip() - 3));
        }
    }
    assert!(most <= 9, "{most}");
    // through merged generations; one that is shortened is built again
    for depth in [5, 40] {
        let length = depth + 6;
        followed.sim.with(|world| world.change_chain(|chain| hostile.branch(chain, depth, length))).unwrap().unwrap();
        let frozen = followed.assert_agrees();
        assert_eq!(ends(&followed).last().copied(), frozen);
        assert!(!followed.indexed.index.has_shadowed_rows().unwrap());
        // generations that left the chain are removed when following begins after the next start
        followed.restart();
        followed.catch_up();
        assert_eq!(files(followed.indexed.directory.path()), ends(&followed).len());
    }
}

#[test]
fn generations_stay_as_they_are_while_they_cannot_be_merged() {
    let (chain, mut hostile) = hostile_chain(312, 150);
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    followed.catch_up();
    let path = followed.indexed.index.merging_path();
    fs::create_dir_all(path.join("something")).unwrap();
    for _ in 0..6 {
        mine(&followed, &mut hostile, 4);
        followed.catch_up();
    }
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 3));
    assert_eq!(ends(&followed).len(), 7);
    fs::remove_dir_all(&path).unwrap();
    // what a killed process left of an earlier merge
    fs::write(&path, "a part").unwrap();
    followed.restart();
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 3));
    assert!(ends(&followed).len() < 5 && !path.exists(), "{:?}", ends(&followed));
}
