//! How soon subscribers receive an event, and what following a mempool takes, on a simulated node over a chain of the shape of
//! mainnet's.
//!
//! ```text
//!   this process                                    btcgraph serve, a process of its own
//!   Payer ──► SimNode ── ZMQ: a txid, a block ────► sync ──► index, mempool ──► live
//!                ▲   ◄── RPC: the transaction ─────┘                              │
//!                └────── REST: the block                                          │
//!   Subscribers ◄──────── websockets, text frames ────────────────────────────────┘
//! ```
//!
//! A latency is counted from the moment in which the node's world has taken the transaction or the block, before the node
//! says a word of it, to the moment in which the text frame has been read from the subscriber's socket. Node, subscribers
//! and server share the processors, so that the figures are those of a machine that does all of this at once.
//!
//! `cargo bench --bench live`, and for another world `cargo bench --bench live -- TRANSACTIONS MEMPOOL SECONDS BLOCKS`; the figures
//! stand in `benches/README.md`. `cargo bench --bench live -- load [TRANSACTIONS MEMPOOL]` measures the last of it alone, how a
//! mempool is loaded; `cargo bench --bench live -- fanout` is another measurement, of very many subscribers ([`fanout`]).

mod baseline;
mod fanout;
mod figures;
mod payer;
mod served;
mod simulated;
mod subscribers;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bitcoin::Weight;
use btcgraph::sim::SimNode;
use tokio::runtime::Runtime;

use figures::Figures;
use payer::Payer;
use served::Served;
use subscribers::{Kind, Subscribers};

/// Most of the simulated node's time goes into small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Websockets of each kind.
const SUBSCRIBERS: usize = 100;
/// Transactions that are sent one by one: so many a second,
const SENT_A_SECOND: u32 = 100;
/// and so many a second while nobody listens and the processor time is taken.
const FOLLOWED_A_SECOND: u32 = 500;
/// Blocks that are mined if no other number is given, and whose transactions wait before the first,
const BLOCKS: usize = 20;
/// with a pause before each: there is time enough to have a look at the mempool and to write down what a block changed, as there
/// is between nearly all blocks,
const BETWEEN_BLOCKS: Duration = Duration::from_secs(8);
/// and how many transactions each has without its coinbase.
const IN_BLOCK: usize = 3_199;
/// The pause after a block in which no transaction arrives, because signing and checking it would compete with the block.
const QUIET_AFTER_BLOCK: Duration = Duration::from_secs(1);
/// Transactions that then arrive in place of those of the block, no fewer than it has: so many a second, which the node's queue of
/// messages can hold,
const ARRIVALS_A_SECOND: u32 = 800;
/// for so long.
const ARRIVALS_LAST: Duration = Duration::from_secs(4);
/// The cache of the index, as it is by default,
const MEMORY: &str = "1GiB";
/// and so little that what is taken is the mempool's own.
const LITTLE_MEMORY: &str = "32MiB";
/// For what is under way at the end.
const LAST_FRAMES: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    // cargo adds flags of its own
    let mut numbers = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    if numbers.next_if(|argument| argument == "fanout").is_some() {
        return fanout::run(numbers);
    }
    // of all that, only how a mempool is loaded that is there when the server starts
    let only_loads = numbers.next_if(|argument| argument == "load").is_some();
    let mut number = |default: usize| numbers.next().map_or(Ok(default), |number| number.parse());
    let (transactions, mempool) = (number(1_000_000)?, number(300_000)?);
    // how long transactions are sent, and followed
    let lasts = Duration::from_secs(u64::try_from(number(30)?)?);
    let blocks = number(BLOCKS)?;

    let directory = tempfile::tempdir()?;
    let started = Instant::now();
    let (node, mut payer) =
        simulated::start(directory.path(), transactions, mempool + 50_000 + blocks.saturating_sub(BLOCKS) * IN_BLOCK)?;
    println!("chain of {transactions} transactions made in {:.1?}", started.elapsed());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;

    let imported = Instant::now();
    let served = Served::start(directory.path(), &node, MEMORY)?;
    served.wait_for_mempool(0)?;
    println!("imported in {:.1?}", imported.elapsed());
    served.stop()?;
    if only_loads {
        return load(directory.path(), &node, &mut payer, mempool);
    }

    let figures = runtime.block_on(baseline::ping(SUBSCRIBERS, SENT_A_SECOND, Duration::from_secs(10)))?;
    println!("baseline: a frame to {SUBSCRIBERS} websockets: {figures}");
    let served = Served::start(directory.path(), &node, MEMORY)?;
    served.wait_for_mempool(0)?;
    measure_transactions(&runtime, &node, &mut payer, &served, lasts)?;
    processor_time(&node, &mut payer, &served, lasts)?;
    measure_blocks(&runtime, &node, &mut payer, &served, blocks)?;
    served.stop()?;
    load(directory.path(), &node, &mut payer, mempool)
}

/// From the node's message of a transaction to 100 subscribers, while 100 others wait for blocks.
fn measure_transactions(
    runtime: &Runtime,
    node: &SimNode,
    payer: &mut Payer,
    served: &Served,
    lasts: Duration,
) -> Result<()> {
    let mut subscribers = subscribe(runtime, served)?;
    let before = served.processor_time()?;
    let submitted = submit(node, payer, SENT_A_SECOND, lasts)?;
    std::thread::sleep(LAST_FRAMES);
    let taken = served.processor_time()?.saturating_sub(before);
    let figures = latencies(&submitted, subscribers.received(Kind::Transaction));
    println!("a transaction to {SUBSCRIBERS} subscribers, {SENT_A_SECOND} a second: {figures}");
    println!("  {:.1} % of a core", 100.0 * taken.as_secs_f64() / lasts.as_secs_f64());
    let expected = submitted.len() * SUBSCRIBERS;
    ensure!(figures.count() == expected, "{} frames were read of {expected}", figures.count());
    Ok(())
}

/// What following many transactions takes while nobody listens, and what it takes to wait for some.
fn processor_time(node: &SimNode, payer: &mut Payer, served: &Served, lasts: Duration) -> Result<()> {
    let before = served.processor_time()?;
    std::thread::sleep(lasts);
    let idle = served.processor_time()?;
    let submitted = submit(node, payer, FOLLOWED_A_SECOND, lasts)?;
    let busy = served.processor_time()?.saturating_sub(idle);
    let share = |taken: Duration| 100.0 * taken.as_secs_f64() / lasts.as_secs_f64();
    let a_second = f64::from(u32::try_from(submitted.len())?) / lasts.as_secs_f64();
    println!("followed {a_second:.0} transactions a second: {:.1} % of a core", share(busy));
    println!("  baseline: nothing happens: {:.1} % of a core", share(idle.saturating_sub(before)));
    served.wait_for_mempool(node.with(|world| world.mempool().len())?)
}

/// From the node's message of each of so many blocks to 100 subscribers, while 100 others wait for transactions. In place of
/// what a block took from the mempool others arrive, if there are more blocks than wait.
fn measure_blocks(runtime: &Runtime, node: &SimNode, payer: &mut Payer, served: &Served, number: usize) -> Result<()> {
    fill(node, payer, number.min(BLOCKS) * IN_BLOCK)?;
    served.wait_for_mempool(node.with(|world| world.mempool().len())?)?;
    let mut subscribers = subscribe(runtime, served)?;
    let mut blocks = Vec::new();
    let mut pause_begun = Instant::now();
    for left in (1..=number).rev() {
        if node.with(|world| world.mempool().len())? < left.min(BLOCKS) * IN_BLOCK {
            std::thread::sleep(QUIET_AFTER_BLOCK);
            submit(node, payer, ARRIVALS_A_SECOND, ARRIVALS_LAST)?;
        }
        std::thread::sleep(BETWEEN_BLOCKS.saturating_sub(pause_begun.elapsed()));
        blocks.push(mine(node, IN_BLOCK)?);
        pause_begun = Instant::now();
    }
    std::thread::sleep(LAST_FRAMES);
    let received = subscribers.received(Kind::Block);
    let last_reported = |(hash, at): &(String, Instant)| {
        let read =
            received.iter().filter(|(what, _)| what == hash).map(|(_, read)| read.saturating_duration_since(*at));
        read.max().unwrap_or_default().as_millis().to_string()
    };
    println!(
        "the last subscriber of each block in turn, in ms: {}",
        blocks.iter().map(last_reported).collect::<Vec<_>>().join(" ")
    );
    let mined = HashMap::from_iter(blocks);
    let figures = latencies(&mined, received);
    println!("a block of {} transactions to {SUBSCRIBERS} subscribers: {figures}", IN_BLOCK + 1);
    let expected = mined.len() * SUBSCRIBERS;
    ensure!(figures.count() == expected, "{} frames were read of {expected}", figures.count());
    Ok(())
}

/// Lets the node find a block with so many transactions: its hash, and when the node had taken it.
fn mine(node: &SimNode, transactions: usize) -> Result<(String, Instant)> {
    let block = node.with(|world| {
        let best = world.mempool().select(Weight::MAX);
        let best = best.iter().filter_map(|txid| world.mempool().get(txid)).take(transactions);
        let chosen: Vec<_> = best.map(|entry| (*entry.tx).clone()).collect();
        let held = chosen.len();
        world.mine_exactly(chosen, btcgraph::sim::Mining::default()).map(|block| (block, held, Instant::now()))
    })?;
    let (block, held, at) = block?;
    ensure!(held == transactions, "a block holds {held} transactions only");
    Ok((block.block_hash().to_string(), at))
}

/// A mempool that is there when the server starts.
fn load(directory: &std::path::Path, node: &SimNode, payer: &mut Payer, mempool: usize) -> Result<()> {
    let few = node.with(|world| world.mempool().len())?;
    let served = Served::start(directory, node, LITTLE_MEMORY)?;
    served.wait_for_mempool(few)?;
    std::thread::sleep(LAST_FRAMES);
    let without = served.memory_at_most()?;
    served.stop()?;
    fill(node, payer, mempool)?;
    let served = Served::start(directory, node, LITTLE_MEMORY)?;
    let started = Instant::now();
    served.wait_for_mempool(mempool)?;
    let took = started.elapsed();
    std::thread::sleep(LAST_FRAMES);
    let with = served.memory_at_most()?;
    println!("mempool of {mempool} loaded in {took:.1?}: {} MB of memory at most", with / 1_000_000);
    println!("  baseline: a mempool of {few}: {} MB of memory at most", without / 1_000_000);
    served.stop()
}

/// Hands transactions to the node until it has so many that wait.
fn fill(node: &SimNode, payer: &mut Payer, mempool: usize) -> Result<()> {
    loop {
        let missing = mempool.saturating_sub(node.with(|world| world.mempool().len())?);
        if missing == 0 {
            return Ok(());
        }
        let transactions = payer.take(missing.min(1_000))?;
        node.with(|world| transactions.into_iter().try_for_each(|tx| world.submit(tx).map(drop)))??;
    }
}

fn subscribe(runtime: &Runtime, served: &Served) -> Result<Subscribers> {
    let address = served.address();
    let subscribers = runtime.block_on(Subscribers::connect(&address, SUBSCRIBERS));
    subscribers.with_context(|| format!("cannot subscribe at {address}"))
}

/// Hands transactions to the node one by one, so many a second. When it had taken each, by txid.
fn submit(node: &SimNode, payer: &mut Payer, a_second: u32, lasts: Duration) -> Result<HashMap<String, Instant>> {
    let count = usize::try_from(a_second)? * usize::try_from(lasts.as_secs())?;
    let transactions = payer.take(count)?;
    let started = Instant::now();
    let mut submitted = HashMap::new();
    for (place, tx) in (0_u32..).zip(transactions) {
        let due = started + Duration::from_secs(1) * place / a_second;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let taken = node.with(|world| world.submit(tx).map(|accepted| (accepted.txid, Instant::now())))?;
        let (txid, at) = taken?;
        submitted.insert(txid.to_string(), at);
    }
    Ok(submitted)
}

/// How long each event was on its way to each subscriber.
fn latencies(happened: &HashMap<String, Instant>, received: Vec<(String, Instant)>) -> Figures {
    let on_the_way =
        received.into_iter().filter_map(|(what, read)| Some(read.saturating_duration_since(*happened.get(&what)?)));
    Figures::of(on_the_way)
}
