//! The least that any index has to do: read, parse and hash every transaction once.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bitcoin::Network;
use bitcoin::hashes::Hash;
use btcgraph::chain::raw::RawBlock;
use btcgraph::node::BlockFileReader;

use super::{resources, world};

pub(super) fn scan(directory: &Path, threads: usize) -> anyhow::Result<()> {
    let (reader, start) = (BlockFileReader::open(&world::blocks_dir(directory), Network::Regtest)?, Instant::now());
    let files = reader.files()?.into_iter().map(|file| reader.scan(file, 0)).collect::<Result<Vec<_>, _>>()?;
    let records = Mutex::new(files.into_iter().flatten());
    let (bytes, transactions, mixed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> anyhow::Result<()> {
        loop {
            let record = records.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?.next();
            let Some(record) = record else { return Ok(()) };
            let block = reader.read(&record?)?;
            let raw = RawBlock::parse(&block)?;
            bytes.fetch_add(u64::try_from(block.len())?, Ordering::Relaxed);
            transactions.fetch_add(u64::try_from(raw.transactions.len())?, Ordering::Relaxed);
            let hash =
                raw.transactions.iter().fold(0, |mixed, transaction| mixed ^ transaction.txid().to_byte_array()[0]);
            mixed.fetch_xor(hash.into(), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (bytes, transactions) = (bytes.into_inner(), transactions.into_inner());
    println!("  seconds: {seconds:.2}");
    println!("  transactions: {transactions}, {:.0} MB/s, hash {}", bytes as f64 / 1e6 / seconds, mixed.into_inner());
    resources::print(usize::try_from(transactions)?)
}
