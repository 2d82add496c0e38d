//! Whether blocks arrive at subscribers later while the index is published.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::figures::Figures;
use crate::garage::Garage;
use crate::published_chain::{PublishedChain, remove_directory};
use crate::replica::Replica;
use crate::report::FleetReport;
use crate::subscribers::{Kind, Subscribers};

const SUBSCRIBERS: usize = 20;
/// Rounds without a publication, each of which is followed by one with.
const ROUNDS: usize = 8;
/// Blocks of a round, transactions of a block, and the pause before each.
const BLOCKS: usize = 6;
const IN_BLOCK: usize = 1_000;
const BETWEEN_BLOCKS: Duration = Duration::from_millis(1_500);
/// Stores that are published to at most.
const STORES: usize = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// How long the last frames of a round may be under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// The payments that this takes.
pub(crate) const PAYMENTS: usize = 2 * ROUNDS * BLOCKS * IN_BLOCK;

/// Follows with the publisher's index, in turn without and with a process that publishes it, so many bytes a second.
pub(crate) fn run(chain: &PublishedChain, garage: &Garage, rate: Option<&str>, report: &mut FleetReport) -> Result<()> {
    let directory = chain.publisher();
    let mut served = Replica::start(chain.program(&directory, &["serve"]), &directory)?;
    served.wait_until_ready()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut subscribers = runtime.block_on(Subscribers::connect(&served.address()?, SUBSCRIBERS))?;
    let (began, mut quiet, mut publishing) = (Instant::now(), Vec::new(), Vec::new());
    let publish = |store| {
        let mut command = chain.publish(&garage.endpoint(0), &format!("following{store}"));
        command.args(rate.map(|rate| ["--rate", rate]).into_iter().flatten());
        idle(&command)
    };
    let publication = Publication::start((0..STORES).map(publish).collect(), chain.notes());
    for _ in 0..ROUNDS {
        publication.pause()?;
        quiet.extend(latencies(chain, &runtime, &mut subscribers)?);
        publication.resume()?;
        publishing.extend(latencies(chain, &runtime, &mut subscribers)?);
    }
    let published = publication.stop()?;
    let what = format!("{}; while publishing ({published} complete): {}", Figures::of(quiet), Figures::of(publishing));
    report.add("blocks to subscribers of the publisher", began.elapsed(), what);
    served.stop()
}

/// A command as an operator runs it who leaves the processor to the server.
fn idle(command: &Command) -> Command {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    idle.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    idle
}

/// A thread that publishes to one store after the other, each time with checksums that are computed again.
struct Publication {
    state: Arc<Mutex<PublisherState>>,
    thread: Option<JoinHandle<Result<usize>>>,
}

#[derive(Default)]
struct PublisherState {
    process: Option<Child>,
    is_paused: bool,
    has_ended: bool,
}

impl Publication {
    fn start(commands: Vec<Command>, notes: PathBuf) -> Self {
        let state = Arc::<Mutex<PublisherState>>::default();
        let of_thread = Arc::clone(&state);
        let work = move || {
            for (mut command, complete) in commands.into_iter().zip(0..) {
                remove_directory(&notes)?;
                loop {
                    let mut state = of_thread.lock();
                    if state.has_ended {
                        return Ok(complete);
                    }
                    if let Some(status) = state.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
                        ensure!(status.success(), "publishing ended with {status}");
                        state.process = None;
                        break;
                    }
                    if state.process.is_none() && !state.is_paused {
                        state.process = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
                    }
                    drop(state);
                    thread::sleep(BETWEEN_LOOKS);
                }
            }
            bail!("so many stores are too few")
        };
        Self { state, thread: Some(thread::spawn(work)) }
    }

    fn pause(&self) -> Result<()> {
        self.signal("STOP", true)
    }

    fn resume(&self) -> Result<()> {
        self.signal("CONT", false)
    }

    fn signal(&self, signal: &str, is_paused: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.is_paused = is_paused;
        let Some(process) = &state.process else { return Ok(()) };
        let status = Command::new("kill").args(["-s", signal, &process.id().to_string()]).status()?;
        ensure!(status.success(), "cannot send {signal} to the publisher");
        Ok(())
    }

    /// Kills the publisher. Returns how many publications were complete.
    fn stop(mut self) -> Result<usize> {
        self.state.lock().end()?;
        let thread = self.thread.take().context("it was stopped")?;
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        // one that has ended is no error
        let _ = self.state.lock().end();
    }
}

impl PublisherState {
    fn end(&mut self) -> Result<()> {
        self.has_ended = true;
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }
}

/// Mines blocks, and returns how long each took to each subscriber.
fn latencies(chain: &PublishedChain, runtime: &Runtime, subscribers: &mut Subscribers) -> Result<Vec<Duration>> {
    let mut mined = HashMap::new();
    for _ in 0..BLOCKS {
        thread::sleep(BETWEEN_BLOCKS);
        let (hash, at) = chain.mine(IN_BLOCK)?;
        mined.insert(hash, at);
    }
    let (began, expected, mut latencies) = (Instant::now(), BLOCKS * SUBSCRIBERS, Vec::new());
    while latencies.len() < expected {
        ensure!(began.elapsed() < PATIENCE, "{} frames of {expected} arrived", latencies.len());
        thread::sleep(BETWEEN_LOOKS);
        let read = runtime.block_on(async { subscribers.received(Kind::Block) });
        latencies.extend(read.into_iter().filter_map(|(hash, at)| Some(at.duration_since(*mined.get(&hash)?))));
    }
    Ok(latencies)
}
