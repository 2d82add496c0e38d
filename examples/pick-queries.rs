//! Picks what to ask an index for, to measure how fast it answers:
//!
//! ```text
//! cargo run --release --example pick-queries -- --data-dir DIRECTORY --out DIRECTORY
//! ```
//!
//! Writes `transactions.txt`, random transactions with two inputs and two outputs, and `busy.txt` and `quiet.txt`, the
//! address with the most transactions and addresses with about 30.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use bitcoin::Network;
use bitcoin::hashes::{Hash, sha256};
use btcgraph::chain::address_of;
use btcgraph::index::{Index, IndexOptions, ObservedLimits, TxNum};
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::Rng;
use btcgraph::view::{Head, IndexError, Movements, View};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Picks what to ask an index for")]
struct Arguments {
    /// Where the index of a regtest chain is.
    #[arg(long)]
    data_dir: PathBuf,
    /// Where the lists go.
    #[arg(long)]
    out: PathBuf,
    /// How many transactions to pick.
    #[arg(long, default_value_t = 20_000)]
    transactions: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let index = Index::open_existing(&IndexOptions {
        path: arguments.data_dir.join("regtest").join("index.redb"),
        network: Network::Regtest,
        salt: None,
        cache_bytes: 512 << 20,
        freezes: false,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    })?;
    let head = Head::new(Arc::new(index.snapshot()?), MempoolSnapshot::default()).context("the index is empty")?;
    let tip = head.tip;
    let view = View::new(Arc::new(head));
    let count = view.txnums(tip.height..tip.height.next())?.end;
    let (mut rng, mut transactions, mut addresses) = (Rng::new(1), String::new(), BTreeMap::new());
    let (mut picked, mut tried) = (0, 0_u64);
    while picked < arguments.transactions && tried < 40 * u64::from(count.0) {
        tried += 1;
        let txnum = TxNum(u32::try_from(rng.below(count.0.into()))?);
        let transaction = view.transaction_at(txnum)?;
        if transaction.parts.input.len() != 2 || transaction.parts.output.len() != 2 {
            continue;
        }
        picked += 1;
        writeln!(transactions, "{}", transaction.txid)?;
        for output in &transaction.parts.output {
            let Some(address) = address_of(&output.script_pubkey, Network::Regtest) else { continue };
            let ledger = view.ledger([sha256::Hash::hash(output.script_pubkey.as_bytes())]);
            let counted = view.count_movements(&ledger, &(TxNum(0)..count), |_| Ok::<_, IndexError>(false))?;
            addresses.insert(address, counted.map_or(0, |Movements { transactions, .. }| transactions));
        }
    }
    let (busiest, most) = addresses.iter().max_by_key(|(_, count)| **count).context("no output has an address")?;
    let quiet: Vec<_> = addresses.iter().filter(|(_, count)| (28..=32).contains(*count)).collect();
    println!("{picked} transactions of 2 inputs and 2 outputs out of {}", count.0);
    println!("an address with {most} transactions, {} with about 30", quiet.len());
    std::fs::write(arguments.out.join("transactions.txt"), transactions)?;
    std::fs::write(arguments.out.join("busy.txt"), format!("{busiest}\n"))?;
    let quiet: Vec<_> = quiet.iter().map(|(address, _)| address.as_str()).collect();
    Ok(std::fs::write(arguments.out.join("quiet.txt"), quiet.join("\n"))?)
}
