//! How fast the mempool is and how much memory it takes, on transactions of the shape of mainnet's that it makes
//! itself, always the same.
//!
//! `cargo bench --bench mempool`; the figures stand in `benches/README.md`.

use std::time::{Duration, Instant};

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};
use btcgraph::chain::Height;
use btcgraph::mempool::{
    Arrival, ConnectedBlock, FeeBins, FeerateKind, Mempool, MempoolLimits, PrevoutSource, Remainder,
};

mod transaction_maker;

use transaction_maker::Maker;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    load(300_000)?;
    projection(100_000)?;
    snapshots()?;
    cluster(5_000)?;
    Ok(())
}

/// Load one by one, memory, and what is asked of so many.
fn load(count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let before = resident();
    let start = Instant::now();
    let (mut mempool, mut making) = (Mempool::new(MempoolLimits::default()), Duration::ZERO);
    let mut maker = Maker::new();
    for _ in 0..count {
        let made = Instant::now();
        let arrival = maker.arrival();
        making += made.elapsed();
        mempool.add(arrival)?;
    }
    let added = start.elapsed().saturating_sub(making);
    let settled = Instant::now();
    let snapshot = mempool.snapshot();
    let settled = settled.elapsed();
    println!("load of {count}: added in {added:.2?}, first snapshot in {settled:.2?}");
    let totals = snapshot.totals();
    let memory = resident().saturating_sub(before);
    println!("  {} bytes raw, {} outputs, {} MB resident memory", totals.size, totals.outputs, memory / 1_000_000);

    let start = Instant::now();
    let bins = snapshot.fee_histogram(FeerateKind::Effective, &FeeBins::Filled(50_000)).len();
    println!("  histogram of {bins} bins in {:.2?}", start.elapsed());
    let start = Instant::now();
    let blocks = snapshot.projected_blocks(usize::MAX, Remainder::Left);
    println!("  projection of {} blocks in {:.2?}", blocks.len(), start.elapsed());
    let start = Instant::now();
    let joined = snapshot.projected_blocks(8, Remainder::InLast).len();
    println!("  joined into {joined} in {:.2?}", start.elapsed());
    println!("  {} MB resident memory with the projection", resident().saturating_sub(before) / 1_000_000);

    let best = blocks.first().into_iter().flat_map(|block| &block.sequences);
    let entries: Vec<_> = best.filter_map(|sequence| snapshot.by_sequence(*sequence)).collect();
    let txids: Vec<Txid> = entries.iter().map(|entry| entry.txid).collect();
    let spends: Vec<(OutPoint, Txid)> =
        entries.iter().flat_map(|entry| entry.outpoints().map(|outpoint| (outpoint, entry.txid))).collect();
    let (hash, height) = (BlockHash::all_zeros(), Height::from(900_001));
    let start = Instant::now();
    mempool.connect_block(&ConnectedBlock { hash, height, txids: &txids, spends: &spends, at: 0 });
    let next = mempool.snapshot();
    println!("  block of {} connected, with snapshot, in {:.2?}; {} left", txids.len(), start.elapsed(), next.len());
    Ok(())
}

fn projection(count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (mut mempool, mut maker) = (Mempool::new(MempoolLimits::default()), Maker::new());
    for _ in 0..count {
        mempool.add(maker.arrival())?;
    }
    let snapshot = mempool.snapshot();
    let start = Instant::now();
    let blocks = snapshot.projected_blocks(usize::MAX, Remainder::Left).len();
    println!("projection of {count}: {blocks} blocks in {:.2?}", start.elapsed());
    Ok(())
}

/// One snapshot after each arrival, the one before kept until then, on top of 100,000 transactions.
fn snapshots() -> Result<(), Box<dyn std::error::Error>> {
    let (mut mempool, mut maker) = (Mempool::new(MempoolLimits::default()), Maker::new());
    for _ in 0..100_000 {
        mempool.add(maker.arrival())?;
    }
    let arrivals: Vec<Arrival> = (0..20_000).map(|_| maker.arrival()).collect();
    let count = u32::try_from(arrivals.len())?;
    let mut kept = mempool.snapshot();
    let start = Instant::now();
    for arrival in arrivals {
        mempool.add(arrival)?;
        kept = mempool.snapshot();
    }
    let each = start.elapsed() / count;
    println!(
        "an arrival and a snapshot: {each:.2?}, {:.0} a second ({} at the end)",
        each.as_secs_f64().recip(),
        kept.len()
    );
    Ok(())
}

/// Children of one parent, with a snapshot after each.
fn cluster(children: u32) -> Result<(), Box<dyn std::error::Error>> {
    let (mut mempool, mut maker) = (Mempool::new(MempoolLimits::default()), Maker::new());
    let coin = maker.confirmed();
    let parent = maker.paying(&[coin], usize::try_from(children)?);
    let txid = parent.txid;
    mempool.add(parent)?;
    let (mut slowest, start) = (Duration::ZERO, Instant::now());
    for vout in 0..children {
        let child = maker.paying(&[(OutPoint { txid, vout }, PrevoutSource::Unconfirmed)], 1);
        let one = Instant::now();
        mempool.add(child)?;
        mempool.snapshot();
        slowest = slowest.max(one.elapsed());
    }
    let all = start.elapsed();
    println!(
        "cluster of one parent with {children} children, a snapshot after each: {all:.2?}, at most {slowest:.2?} each"
    );
    Ok(())
}

/// Bytes of memory that the process has, 0 where the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
