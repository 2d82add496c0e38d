//! Draws histories from seeds, plays them on all cores, and makes one that fails small.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::actions::Histories;
use super::counts::Counts;
use super::player::{Player, Way};

/// Names one seed: then only its history is played.
const VARIABLE: &str = "BTCGRAPH_HISTORY";

/// Plays the histories of these seeds and returns what they showed, `None` if the environment asked for one alone.
pub(crate) fn run<W: Way>(seeds: Range<u64>, way: impl Fn() -> W + Sync) -> Option<Counts> {
    if let Some(seed) = std::env::var_os(VARIABLE) {
        let seed = seed.to_str().and_then(|seed| seed.parse().ok());
        let counts = play(seed.expect("the variable BTCGRAPH_HISTORY is a number"), &way);
        println!("{}", counts.unwrap_or_else(|failure| panic!("{failure}")));
        return None;
    }
    let (next, counts, failures) = (AtomicU64::new(seeds.start), Mutex::new(Counts::default()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || !failures.lock().unwrap().is_empty() {
                        break;
                    }
                    match play(seed, &way) {
                        Ok(shown) => counts.lock().unwrap().extend(&shown),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Some(counts.into_inner().unwrap())
}

/// Plays the history of a seed; what it showed, or how it fails when it is made as small as it gets.
pub(crate) fn play<W: Way>(seed: u64, way: &impl Fn() -> W) -> Result<Counts, String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { failure_persistence: None, max_shrink_iters: 300, max_shrink_time: 60_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let drawn = Histories.new_tree(&mut runner).map_err(|reason| reason.to_string())?;
    let shown = RefCell::new(Counts::default());
    let played = runner.run_one(drawn, |history| {
        shown.replace(Player::new(way()).play(&history));
        Ok(())
    });
    match played {
        Ok(_) => Ok(shown.into_inner()),
        Err(error) => Err(format!("history {seed} fails; to play it alone: {VARIABLE}={seed}\n{error}")),
    }
}
