//! Whether blocks arrive at subscribers later while the index is published.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
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
/// Stores that are published to in a round at most.
const STORES: usize = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// How long the last frames of a round may be under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// The payments that this takes.
pub(crate) const PAYMENTS: usize = 2 * ROUNDS * BLOCKS * IN_BLOCK;

/// Follows with the publisher's index, in turn without and with a process that publishes it.
pub(crate) fn run(chain: &PublishedChain, garage: &Garage, report: &mut FleetReport) -> Result<()> {
    let directory = chain.publisher();
    let mut served = Replica::start(chain.program(&directory, &["serve"]), &directory)?;
    served.wait_until_ready()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut subscribers = runtime.block_on(Subscribers::connect(&served.address()?, SUBSCRIBERS))?;
    let (began, mut quiet, mut publishing, mut published) = (Instant::now(), Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        quiet.extend(latencies(chain, &runtime, &mut subscribers)?);
        let publish = |store| idle(&chain.publish(&garage.endpoint(0), &format!("following{round}-{store}")));
        let commands = (0..STORES).map(publish);
        let publication = Publication::start(commands.collect(), chain.notes());
        publishing.extend(latencies(chain, &runtime, &mut subscribers)?);
        published += publication.stop()?;
    }
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
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize>>,
}

impl Publication {
    fn start(commands: Vec<Command>, notes: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let work = move || {
            for (mut command, complete) in commands.into_iter().zip(0..) {
                remove_directory(&notes)?;
                let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
                let status = loop {
                    if let Some(status) = process.try_wait()? {
                        break status;
                    }
                    if of_thread.load(Ordering::Acquire) {
                        process.kill()?;
                        process.wait()?;
                        return Ok(complete);
                    }
                    thread::sleep(BETWEEN_LOOKS);
                };
                ensure!(status.success(), "publishing ended with {status}");
            }
            bail!("so many stores are too few")
        };
        Self { stop, thread: thread::spawn(work) }
    }

    /// Kills the publisher. Returns how many publications were complete.
    fn stop(self) -> Result<usize> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
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
        let read = runtime.block_on(async { subscribers.told(Kind::Block) });
        latencies.extend(read.into_iter().filter_map(|(hash, at)| Some(at.duration_since(*mined.get(&hash)?))));
    }
    Ok(latencies)
}
