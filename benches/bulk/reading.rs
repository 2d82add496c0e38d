//! What reads of an imported generation take, whose raw bytes are in the block files of the node.

use std::time::Instant;

use bitcoin::Network;
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions, ObservedLimits, Snapshot};
use btcgraph::sync::read_frozen_blocks;

use super::import::{SALT, generation};
use super::percentiles::Percentiles;
use super::snapshot_reads::{
    ADDRESS, BLOCK_PAGE, Subjects, TRANSACTION, read_address, read_block_page, read_transaction,
};
use super::{Arguments, world};

/// Reads of each kind.
const READS: usize = 3_000;
/// The cache of the index.
const CACHE: usize = 512 << 20;

pub(super) fn read(arguments: &Arguments) -> anyhow::Result<()> {
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let mut index = Index::open(&IndexOptions {
        path: directory.path().join("index.redb"),
        network: Network::Regtest,
        salt: Some(SALT),
        cache_bytes: CACHE,
        freezes: true,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    })?;
    // adopting moves the file, and the imported one is kept
    let adopted = directory.path().join("generation.redb");
    std::fs::hard_link(generation(arguments), &adopted)?;
    index.adopt(&adopted)?;
    let node = world::connect(arguments.port)?;
    let blocks = read_frozen_blocks(&index, &node, Some(world::blocks_dir(&arguments.directory)))?;
    blocks.locate(Height::GENESIS, &node.active_hashes(Height::from(u32::MAX))?, &mut |_| {})?;
    let snapshot = index.snapshot()?;
    let Subjects { txids, addresses, heights } = Subjects::pick(&snapshot, READS)?;
    println!("  p50 and p99 of {READS} reads at `Snapshot`, each of which was done once before");
    measure(TRANSACTION, &snapshot, &txids, |snapshot, txid| read_transaction(snapshot, *txid))?;
    measure(ADDRESS, &snapshot, &addresses, |snapshot, address| read_address(snapshot, address))?;
    measure(BLOCK_PAGE, &snapshot, &heights, |snapshot, height| read_block_page(snapshot, *height))
}

/// Reads everything twice, and prints what the second time takes.
fn measure<T>(
    what: &str,
    snapshot: &Snapshot,
    items: &[T],
    read: impl Fn(&Snapshot, &T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for is_measured in [false, true] {
        for item in items {
            let start = Instant::now();
            read(snapshot, item)?;
            if is_measured {
                times.push(start.elapsed());
            }
        }
    }
    println!("    {what}: {}", Percentiles::of(times));
    Ok(())
}
