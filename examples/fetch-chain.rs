//! Fetches every block of a node, parses it and hashes every transaction once, and keeps nothing: the least that any
//! index has to do, to compare an import with.
//!
//! ```text
//! cargo run --release --example fetch-chain -- --network regtest --rpc-url http://127.0.0.1:18443 --rpc-cookie .cookie --from 301
//! ```

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use btcgraph::chain::raw::{RawBlock, RawTransaction};
use btcgraph::chain::{Height, network};
use btcgraph::node::{Auth, BlockFetcher, Node, NodeOptions};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Fetches, parses and hashes every block of a node, and keeps nothing")]
struct Arguments {
    /// The node's network.
    #[arg(long, default_value = "regtest")]
    network: String,
    /// Address of the node's RPC server.
    #[arg(long)]
    rpc_url: String,
    /// The node's authentication cookie.
    #[arg(long)]
    rpc_cookie: PathBuf,
    /// The height of the first block.
    #[arg(long, default_value_t = 0)]
    from: u32,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let network = network::from_name(&arguments.network)?;
    let node = Node::connect(NodeOptions::new(network, arguments.rpc_url, Auth::Cookie(arguments.rpc_cookie)))?;
    let tip = node.chain_info()?.blocks.to_u32();
    let mut hashes = Vec::new();
    for height in arguments.from..=tip {
        hashes.push(node.block_hash(Height::from(height))?.context("the node's chain became shorter")?);
    }
    let started = Instant::now();
    let (blocks, mut transactions, mut last) = (hashes.len(), 0_u32, None);
    for block in BlockFetcher::new(&node, hashes, NonZeroUsize::MIN.saturating_add(3), 64 << 20)? {
        let block = block?;
        for transaction in RawBlock::parse(&block.bytes)?.transactions {
            last = Some(RawTransaction::txid(&transaction));
            transactions += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = f64::from(transactions) / seconds;
    println!("{blocks} blocks, {transactions} transactions in {seconds:.2} s, {rate:.0} transactions a second");
    println!("last txid {}", last.context("no block")?);
    Ok(())
}
