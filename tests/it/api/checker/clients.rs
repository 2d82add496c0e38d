//! Clients that ask the whole time, and stop everything at the first answer that cannot be.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_graphql::{Executor, Request};
use btcgraph::api::Schema;
use btcgraph::sim::Rng;
use serde_json::Value;

use super::figures::{Checked, at, int, same, text};
use super::known::Known;
use super::questions::{Kind, ask};

/// How long the next answer, or the next state, is waited for.
const PATIENCE: Duration = Duration::from_millis(300);

/// What was read in the end.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) answers: usize,
    pub(super) states: usize,
    pub(super) kinds: BTreeMap<Kind, usize>,
}

/// What all clients share.
#[derive(Default)]
struct Shared {
    done: AtomicBool,
    answers: AtomicUsize,
    /// By tip and number of the mempool's newest event: what each answer from that state says of it.
    states: Mutex<HashMap<(String, i128), Value>>,
    kinds: Mutex<BTreeMap<Kind, usize>>,
}

pub(super) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Checked>>,
}

impl Clients {
    pub(super) fn start(schema: &Schema, count: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |seed| {
            let (shared, schema) = (Arc::clone(&shared), schema.clone());
            thread::spawn(move || read(&shared, &schema, seed))
        };
        Self { threads: (0..count).map(start).collect(), shared }
    }

    pub(super) fn answers(&self) -> usize {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Of how many different states there are answers.
    pub(super) fn states(&self) -> usize {
        self.shared.states.lock().unwrap().len()
    }

    pub(super) fn have_read(&self, answers: usize, states: usize) -> bool {
        self.answers() >= answers && self.states() >= states
    }

    /// Whether nothing wrong was read so far.
    pub(super) fn go_on(&self) -> bool {
        !self.shared.done.load(Ordering::Relaxed)
    }

    /// Waits for something, but not for long: what is waited for need not come.
    pub(super) fn wait_for(&self, is_there: impl Fn() -> bool) {
        let begun = Instant::now();
        while self.go_on() && !is_there() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(500));
        }
    }

    /// Ends all of them. Panics with the first answer that cannot be.
    pub(super) fn stop(self) -> Read {
        self.shared.done.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(wrong) = thread.join().unwrap() {
                panic!("{wrong}");
            }
        }
        let shared = &self.shared;
        let (states, kinds) = (shared.states.lock().unwrap().len(), shared.kinds.lock().unwrap().clone());
        Read { answers: shared.answers.load(Ordering::Relaxed), states, kinds }
    }
}

/// Says that all is over, even when a thread panics.
struct Done<'s>(&'s Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Relaxed);
    }
}

fn read(shared: &Shared, schema: &Schema, seed: u64) -> Checked {
    let _done = Done(shared);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut random, mut known) = (Rng::new(seed), Known::default());
    while !shared.done.load(Ordering::Relaxed) {
        let question = ask(&known, &mut random);
        let response = runtime.block_on(schema.execute(Request::new(question.document.clone())));
        let response = serde_json::to_value(response).unwrap();
        let data = &response["data"];
        question
            .check(&response)
            .and_then(|()| is_one_state(shared, data))
            .map_err(|wrong| format!("{wrong}\n{}\n{response:#}", question.document))?;
        known.learn(data, &mut random);
        *shared.kinds.lock().unwrap().entry(question.kind).or_default() += 1;
        shared.answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether answers from the same state agree on what is in all of them.
fn is_one_state(shared: &Shared, data: &Value) -> Checked {
    let state = (text(data, "first.hash").to_owned(), int(data, "first.mempoolSequence"));
    let says = at(data, "waiting.stats");
    let mut states = shared.states.lock().unwrap();
    let before = states.entry(state).or_insert_with(|| says.clone());
    same("two answers from one state", &*before, says)
}
