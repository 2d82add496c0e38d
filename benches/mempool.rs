//! How fast the mempool is and how much memory it takes, on transactions of the shape of mainnet's that it makes
//! itself, always the same.
//!
//! `cargo bench --bench mempool`; the figures stand in `benches/README.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};
use btcgraph::chain::Height;
use btcgraph::chain::raw::RawTransaction;
use btcgraph::mempool::{
    Arrival, Cause, ConnectedBlock, FeeBins, FeerateKind, Mempool, MempoolLimits, Prevout, PrevoutSource, Remainder,
};

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

/// Makes transactions: 2.25 inputs and 2.53 outputs each on average, spent by keys with witnesses, one input in ten of
/// an earlier transaction, one output in ten to one of 2,000 scripts that are used again and again.
struct Maker {
    state: u64,
    unspent: Vec<OutPoint>,
}

impl Maker {
    fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, unspent: Vec::new() }
    }

    /// A number below `end`, by xorshift.
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            let random = self.below(u64::MAX).to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
        bytes
    }

    fn confirmed(&mut self) -> (OutPoint, PrevoutSource) {
        let txid = Txid::from_byte_array(self.bytes());
        (OutPoint { txid, vout: 0 }, PrevoutSource::Confirmed { height: Height::from(800_000), coinbase: false })
    }

    /// A witness program of version 0: two thirds of 20 bytes, the others of 32.
    fn script(&mut self) -> Vec<u8> {
        let mut key: [u8; 32] = self.bytes();
        if self.below(10) == 0 {
            key = [0; 32];
            key[..8].copy_from_slice(&self.below(2_000).to_le_bytes());
        }
        let length = if self.below(3) == 0 { 32 } else { 20 };
        [&[0, length], &key[..length.into()]].concat()
    }

    fn arrival(&mut self) -> Arrival {
        // (1 × 55 + 2 × 25 + 5 × 15 + 9 × 5) % = 2.25
        let inputs = [1, 2, 5, 9][usize::try_from(self.percentile(&[55, 80, 95])).unwrap_or(0)];
        // (1 × 20 + 2 × 65 + 5 × 10 + 10 × 5) % = 2.5
        let outputs = [1, 2, 5, 10][usize::try_from(self.percentile(&[20, 85, 95])).unwrap_or(0)];
        let mut spends = Vec::new();
        for _ in 0..inputs {
            let earlier = (self.below(10) == 0).then(|| self.unspent.pop()).flatten();
            spends.push(earlier.map_or_else(|| self.confirmed(), |outpoint| (outpoint, PrevoutSource::Unconfirmed)));
        }
        let arrival = self.paying(&spends, outputs);
        self.unspent.push(OutPoint { txid: arrival.txid, vout: 0 });
        if self.unspent.len() > 5_000 {
            let at = self.below(5_000);
            self.unspent.swap_remove(usize::try_from(at).unwrap_or(0));
        }
        arrival
    }

    fn percentile(&mut self, bounds: &[u64]) -> u64 {
        let percent = self.below(100);
        bounds.iter().map(|bound| u64::from(percent >= *bound)).sum()
    }

    fn paying(&mut self, spends: &[(OutPoint, PrevoutSource)], outputs: usize) -> Arrival {
        const VALUE: u64 = 1_000_000_000_000;
        let mut raw = vec![2, 0, 0, 0, 0, 1];
        compact_size(&mut raw, spends.len());
        for (outpoint, _) in spends {
            raw.extend(outpoint.txid.to_byte_array());
            raw.extend(outpoint.vout.to_le_bytes());
            raw.extend([0, 0xfd, 0xff, 0xff, 0xff]);
        }
        compact_size(&mut raw, outputs);
        let paid = VALUE * u64::try_from(spends.len()).unwrap_or(1);
        let fee = 141 + ((self.below(1 << 10) * self.below(1 << 10)) >> 6);
        let each = (paid - fee) / u64::try_from(outputs).unwrap_or(1);
        for _ in 0..outputs {
            raw.extend(each.to_le_bytes());
            let script = self.script();
            compact_size(&mut raw, script.len());
            raw.extend(script);
        }
        for _ in spends {
            raw.extend([2, 71]);
            raw.extend(self.bytes::<71>());
            raw.push(33);
            raw.extend(self.bytes::<33>());
        }
        raw.extend([0; 4]);
        let (txid, wtxid) = match RawTransaction::parse_whole(&raw) {
            Ok(transaction) => (transaction.txid(), transaction.wtxid()),
            Err(error) => unreachable!("what was made is a transaction: {error}"),
        };
        let prevouts = spends
            .iter()
            .map(|(_, source)| Prevout { value: VALUE, script_pubkey: self.script().into(), source: *source })
            .collect();
        let (first_seen, height) = (1_700_000_000, Height::from(900_000));
        Arrival { txid, wtxid, raw: Arc::from(raw), prevouts, first_seen, height, cause: Cause::New }
    }
}

fn compact_size(raw: &mut Vec<u8>, size: usize) {
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(small @ ..0xfd), _) => raw.push(small),
        (_, Ok(size)) => {
            raw.push(0xfd);
            raw.extend(size.to_le_bytes());
        }
        _ => unreachable!("no list here is so long"),
    }
}

/// Bytes of memory that the process has, 0 where the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
