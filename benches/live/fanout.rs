//! Very many who listen to the same, very many who each listen to something else, and those who never read.
//!
//! ```text
//!   10,000 websockets   subscription { newBlock { hash txCount } }           one execution for all
//!      200 websockets   the same, and answers of a megabyte, never read      nobody waits for them
//!    1,000 websockets   unconfirmedTransaction, an address of its own each   an execution each
//! ```
//!
//! `cargo bench --bench live -- fanout`, and for less `cargo bench --bench live -- fanout SUBSCRIBERS WATCHES STUCK`. Each
//! websocket is a descriptor of this process and one of the server's, and the baseline has both ends here: the limit is
//! raised by `prlimit` (util-linux), above the hard limit too where one may, and else up to that, with a baseline of as many
//! websockets as it lets be; the server inherits it.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bitcoin::{Address, Network};
use btcgraph::sim::SimNode;
use futures_util::{SinkExt, StreamExt, stream};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use crate::figures::Figures;
use crate::payer::Payer;
use crate::served::Served;
use crate::subscribers::{Kind, Read, Socket, note, open};
use crate::{MEMORY, baseline, fill, latencies, mine, simulated};

/// Transactions of the chain; and of a block, few, so that telling of it is most of what is measured.
const TRANSACTIONS: usize = 100_000;
const IN_BLOCK: usize = 200;
/// Blocks sent to all, and sent while some never read: less time than after which the server ends these (10 s).
const BLOCKS: u32 = 10;
const BLOCKS_BESIDE_STUCK: u32 = 4;
const BETWEEN_BLOCKS: Duration = Duration::from_millis(1_500);
/// The transactions of which each concerns one who watches, a second.
const WATCHED_A_SECOND: u32 = 50;
/// After this the memory of sockets is counted.
const SETTLED: Duration = Duration::from_secs(5);
/// How many websockets are being opened at a time.
const OPENED_AT_ONCE: usize = 32;
/// Descriptors for everything but websockets.
const OTHERS: usize = 500;

/// Its answer is a megabyte, and more than what the system keeps for a socket if it is asked some times.
const LARGE: &str = "{ __schema { types { name description fields { name description args { name description } } } } }";
const LARGE_ANSWERS: usize = 20;

/// Measures all of it.
pub(crate) fn run(mut numbers: impl Iterator<Item = String>) -> Result<()> {
    let mut number = |default: usize| numbers.next().map_or(Ok(default), |number| number.parse());
    let (subscribers, watches, stuck) = (number(10_000)?, number(1_000)?, number(200)?);
    let descriptors = raise_descriptors(2 * subscribers + OTHERS)?.saturating_sub(OTHERS);
    ensure!(subscribers + stuck <= descriptors, "only {descriptors} websockets may be open: `ulimit -Hn`");

    let directory = tempfile::tempdir()?;
    let blocks = usize::try_from(BLOCKS + BLOCKS_BESIDE_STUCK)?;
    let (node, mut payer) = simulated::start(directory.path(), TRANSACTIONS, blocks * IN_BLOCK + watches + 5_000)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let both_ends = subscribers.min(descriptors / 2);
    let figures = runtime.block_on(baseline::ping(both_ends, 1, Duration::from_secs(10)))?;
    println!("baseline: a frame to {both_ends} websockets: {figures}");

    let served = Served::start(directory.path(), &node, MEMORY)?;
    served.wait_for_mempool(0)?;
    // what the import took would be in the memory of those who listen
    served.stop()?;
    let served = Served::start(directory.path(), &node, MEMORY)?;
    served.wait_for_mempool(0)?;
    fill(&node, &mut payer, blocks * IN_BLOCK)?;
    served.wait_for_mempool(blocks * IN_BLOCK)?;
    std::thread::sleep(SETTLED);
    many(&runtime, &node, &served, subscribers, stuck)?;
    std::thread::sleep(SETTLED);
    watched(&runtime, &node, &mut payer, &served, watches)?;
    served.stop()
}

/// Lets this process, and those that it starts, open so many files, or as many as the hard limit lets it. How many.
fn raise_descriptors(wanted: usize) -> Result<usize> {
    let process = std::process::id().to_string();
    let raise = |count: usize| {
        let mut program = Command::new("prlimit");
        program.args(["--pid", &process, &format!("--nofile={count}:{count}")]).stderr(Stdio::null());
        anyhow::Ok(program.status().context("cannot run prlimit, of util-linux")?.success())
    };
    if raise(wanted)? {
        return Ok(wanted);
    }
    // "Max open files", the soft limit, the hard limit
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1)).context("the system does not tell its limits")?;
    let hard = hard.parse()?;
    ensure!(raise(hard)?, "cannot raise the limit of open files to {hard}");
    Ok(hard)
}

/// Websockets that note what they read. Dropping them closes all.
struct Listeners {
    tasks: Vec<JoinHandle<()>>,
    noted: mpsc::UnboundedSender<Read>,
    read: mpsc::UnboundedReceiver<Read>,
}

impl Listeners {
    fn new() -> Self {
        let (noted, read) = mpsc::unbounded_channel();
        Self { tasks: Vec::new(), noted, read }
    }

    /// One for each of these subscriptions.
    async fn add(&mut self, address: &str, kind: Kind, queries: impl IntoIterator<Item = String>) -> Result<()> {
        let opening = queries.into_iter().map(|query| async move { open(address, &query).await });
        let mut opened = stream::iter(opening).buffer_unordered(OPENED_AT_ONCE);
        while let Some(socket) = opened.next().await {
            self.tasks.push(tokio::spawn(note(socket?, kind, self.noted.clone())));
        }
        Ok(())
    }

    fn received(&mut self) -> Vec<(String, Instant)> {
        std::iter::from_fn(|| self.read.try_recv().ok()).map(|(_, id, at)| (id, at)).collect()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// From the node's block to all who listen to the same, first alone and then beside those who never read.
fn many(runtime: &Runtime, node: &SimNode, served: &Served, subscribers: usize, stuck: usize) -> Result<()> {
    let (address, before) = (served.address(), served.memory()?);
    let mut listeners = Listeners::new();
    let began = Instant::now();
    let queries = std::iter::repeat_n(Kind::Block.query().to_owned(), subscribers);
    runtime.block_on(listeners.add(&address, Kind::Block, queries))?;
    println!("{subscribers} websockets have subscribed in {:.1?}", began.elapsed());
    std::thread::sleep(SETTLED);
    let idle = served.memory()?;
    let each = idle.saturating_sub(before) / u64::try_from(subscribers.max(1))?;
    println!("  each takes {each} bytes of the server's memory");
    measure_blocks(node, served, &mut listeners, subscribers, BLOCKS)?;

    let before = served.memory()?;
    let kept: Vec<Socket> = runtime.block_on(async {
        let mut kept = Vec::new();
        for _ in 0..stuck {
            kept.push(never_reads(&address).await?);
        }
        anyhow::Ok(kept)
    })?;
    std::thread::sleep(BETWEEN_BLOCKS);
    println!("beside {stuck} websockets that never read:");
    println!("  memory {} MB before, {} MB now", before / 1_000_000, served.memory()? / 1_000_000);
    measure_blocks(node, served, &mut listeners, subscribers, BLOCKS_BESIDE_STUCK)?;
    drop(kept);
    Ok(())
}

/// A websocket that subscribes, asks for much more than the system keeps for it, and reads nothing of that.
async fn never_reads(address: &str) -> Result<Socket> {
    let mut socket = open(address, Kind::Block.query()).await?;
    for number in 0..LARGE_ANSWERS {
        let asked = json!({ "type": "subscribe", "id": number.to_string(), "payload": { "query": LARGE } });
        socket.send(Message::text(asked.to_string())).await?;
    }
    Ok(socket)
}

/// Each latency, and of each block the time until the last subscriber has it.
fn measure_blocks(
    node: &SimNode,
    served: &Served,
    listeners: &mut Listeners,
    subscribers: usize,
    blocks: u32,
) -> Result<()> {
    let (mut mined, before) = (HashMap::new(), served.processor_time()?);
    for _ in 0..blocks {
        let (hash, at) = mine(node, IN_BLOCK)?;
        mined.insert(hash, at);
        std::thread::sleep(BETWEEN_BLOCKS);
    }
    std::thread::sleep(BETWEEN_BLOCKS);
    let taken = served.processor_time()?.saturating_sub(before) / blocks;
    let received = listeners.received();
    let mut ends: HashMap<&str, (Instant, Instant)> = HashMap::new();
    for (hash, at) in &received {
        let (first, last) = ends.entry(hash).or_insert((*at, *at));
        (*first, *last) = ((*first).min(*at), (*last).max(*at));
    }
    let last = ends.iter().filter_map(|(hash, (_, last))| Some(last.saturating_duration_since(*mined.get(*hash)?)));
    let spread = ends.values().map(|(first, last)| last.duration_since(*first));
    println!("a block, to the last of {subscribers}: {}", Figures::of(last));
    println!("  from the first of them to the last: {}", Figures::of(spread));
    println!("  processor time of the server a block: {taken:.1?}");
    let figures = latencies(&mined, received);
    println!("  to each: {figures}");
    let expected = subscribers * usize::try_from(blocks)?;
    ensure!(figures.count() == expected, "{} frames were read of {expected}", figures.count());
    Ok(())
}

/// From the node's message of a transaction to the one whom it concerns, of many who each watch an address.
fn watched(runtime: &Runtime, node: &SimNode, payer: &mut Payer, served: &Served, watches: usize) -> Result<()> {
    let (address, transactions) = (served.address(), payer.take(watches)?);
    let mut listeners = Listeners::new();
    let mut queries = Vec::with_capacity(watches);
    for tx in &transactions {
        let output = tx.output.first().context("a transaction without an output")?;
        let address = Address::from_script(&output.script_pubkey, Network::Regtest)?;
        let field = format!("unconfirmedTransaction(watch: {{ addresses: [\"{address}\"] }}) {{ txid fee vsize }}");
        queries.push(format!("subscription {{ {field} }}"));
    }
    runtime.block_on(listeners.add(&address, Kind::Transaction, queries))?;
    let (started, before, mut submitted) = (Instant::now(), served.processor_time()?, HashMap::new());
    for (place, tx) in (0_u32..).zip(transactions) {
        let due = started + Duration::from_secs(1) * place / WATCHED_A_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let taken = node.with(|world| world.submit(tx).map(|accepted| (accepted.txid, Instant::now())))?;
        let (txid, at) = taken?;
        submitted.insert(txid.to_string(), at);
    }
    std::thread::sleep(BETWEEN_BLOCKS);
    let taken = served.processor_time()?.saturating_sub(before);
    let figures = latencies(&submitted, listeners.received());
    println!("a transaction to the one of {watches} who watches it, {WATCHED_A_SECOND} a second: {figures}");
    println!("  {:.1} % of a core", 100.0 * taken.as_secs_f64() / started.elapsed().as_secs_f64());
    ensure!(figures.count() >= submitted.len(), "{} frames were read of {}", figures.count(), submitted.len());
    Ok(())
}
