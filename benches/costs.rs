//! What a unit of cost is in time, for each kind of field in the table of costs (`src/api/costs.rs`).
//!
//! `cargo bench --bench costs`; the figures stand in `benches/README.md`. The unit is a field of a page of blocks. A kind of
//! field that takes much more time for its cost than this is too cheap, and much less too dear. The node is a simulated one
//! in the same process, over HTTP.

mod indexed;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_graphql::{Executor, Request};
use bitcoin::Network;
use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use btcgraph::api::{Account, Schema};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{SimNode, SimNodeOptions, World};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What all are compared with.
const UNIT: &str = "{ blocks(first: 100) { nodes { hash height time size txCount } } }";

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (chain, published, schema) = indexed::index(directory.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;

    let tip = chain.block(&chain.tip()).context("it is in memory")?.clone();
    let middle = tip.txdata[tip.txdata.len() / 2].compute_txid();
    let paid = &tip.txdata[tip.txdata.len() / 2].output[0].script_pubkey;
    let address = bitcoin::Address::from_script(paid, Network::Regtest)?;
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default())?;
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    published.set_node(Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth))?);

    let key = Xpub::from_priv(&Secp256k1::new(), &Xpriv::new_master(Network::Regtest, &[7; 32])?);
    let first = Instant::now();
    let request = Request::new(account(&format!("wpkh({key}/<6;7>/*)"), 1_000));
    ensure!(runtime.block_on(schema.execute(request)).errors.is_empty(), "the account is derived");
    println!("an account of 2 × 1,000 scripts, the first time: {:.1?}", first.elapsed());

    let unit = measure(&runtime, &schema, UNIT)?;
    println!("the unit, of a page of 100 blocks with five fields each: {:.2?}", unit.per_cost());
    let outputs = "transactions(first: 25) { nodes { outputs(first: 4) { nodes { value address spendStatus } } } }";
    for (what, query) in [
        (
            "a page of 100 transactions, fees and sizes",
            "{ tip { transactions(first: 100) { nodes { txid fee vsize } } } }",
        ),
        ("25 pages of 4 outputs, addresses and spenders", &format!("{{ tip {{ {outputs} }} }}")),
        ("all txids of a block of 3,000", "{ tip { txids } }"),
        ("what a block of 3,000 contains", "{ tip { feeStats { feeRatePercentiles(percents: [33]) } } }"),
        (
            "the effective feerates of a block of 3,000",
            "{ tip { feeStats { feeRatePercentiles(percents: [33], effective: true) } } }",
        ),
        ("the features of a block of 3,000", "{ tip { summary { txFeatures } } }"),
        (
            "a filter that leaves out a block of 3,000",
            "{ tip { transactions(filter: { minValue: 9007199254740991 }) { totalCount } } }",
        ),
        ("a filter that leaves out all blocks", "{ blocks(filter: { minTxCount: 1000000 }) { totalCount } }"),
        (
            "a proof that a block of 3,000 holds a transaction",
            &format!("{{ transaction(txid: \"{middle}\") {{ merkleProof {{ position }} }} }}"),
        ),
        ("the key of an address, by bisection", &format!("{{ address(address: \"{address}\") {{ publicKey }} }}")),
        (
            "an address: balance and the newest 25",
            &format!(
                "{{ address(address: \"{address}\") {{ balance {{ confirmed }} transactions {{ nodes {{ net balanceAfter }} }} }} }}"
            ),
        ),
        ("the coinbases of the last 99 blocks", "{ chain { supply { immatureCoinbase } } }"),
        ("an account of 2 × 20 scripts", &account(&format!("wpkh({key}/<0;1>/*)"), 20)),
        ("an account of 2 × 1,000 scripts", &account(&format!("wpkh({key}/<0;1>/*)"), 1_000)),
        (
            "an account of 2 × 300 scripts of three keys",
            &account(&format!("wsh(sortedmulti(2,{key}/<0;1>/*,{key}/<2;3>/*,{key}/<4;5>/*))"), 300),
        ),
        ("a search for a txid", &search(&middle.to_string())),
        ("a search for an address", &search(&address.to_string())),
        ("a search for what does not exist", &search(&"ab".repeat(32))),
        ("a search for an extended key", &search(&key.to_string())),
        ("an address of two mistyped characters", &mistyped(&address.to_string())),
        ("the stale blocks of a month", "{ chain { summary { recentStaleBlockCount } } }"),
        ("a question to the node", "{ bitcoinNode { softwareVersion } }"),
    ] {
        let found = measure(&runtime, &schema, query)?;
        let ratio = found.per_cost().as_secs_f64() / unit.per_cost().as_secs_f64();
        println!(
            "  {what}: cost {}, {:.1?}, {:.2?} for each, {ratio:.1} units",
            found.cost,
            found.taken,
            found.per_cost()
        );
    }
    Ok(())
}

/// The account of a descriptor, with this gap limit.
fn account(descriptor: &str, gap_limit: u32) -> String {
    format!("{{ descriptor(text: {descriptor:?}, gapLimit: {gap_limit}) {{ balance {{ confirmed }} usedCount }} }}")
}

/// What a text means.
fn search(text: &str) -> String {
    format!("{{ search(text: {text:?}) {{ totalCount nodes {{ __typename }} }} }}")
}

/// Where an address is mistyped whose last two characters are changed.
fn mistyped(address: &str) -> String {
    let (rest, _) = address.split_at(address.len() - 2);
    format!("{{ validateAddress(address: \"{rest}qq\") {{ error {{ positions }} }} }}")
}

/// What a query takes and costs.
struct Found {
    taken: Duration,
    cost: u32,
}

impl Found {
    fn per_cost(&self) -> Duration {
        self.taken / self.cost
    }
}

/// The median of many runs, from the text on, less what `{ __typename }` takes.
fn measure(runtime: &Runtime, schema: &Schema, query: &str) -> Result<Found> {
    let (nothing, _) = time(runtime, schema, "{ __typename }")?;
    let (all, cost) = time(runtime, schema, query)?;
    Ok(Found { taken: all.saturating_sub(nothing), cost: u32::try_from(cost)?.max(1) })
}

fn time(runtime: &Runtime, schema: &Schema, query: &str) -> Result<(Duration, u64)> {
    let (begun, mut taken, mut cost) = (Instant::now(), Vec::new(), 0);
    while taken.len() < 20 || (taken.len() < 5_000 && begun.elapsed() < Duration::from_secs(1)) {
        let account = Arc::new(Account::default());
        let request = Request::new(query).data(account.clone());
        let started = Instant::now();
        let answer = runtime.block_on(schema.execute(request));
        taken.push(started.elapsed());
        ensure!(answer.errors.is_empty(), "{query}: {:?}", answer.errors);
        cost = account.cost();
    }
    taken.sort_unstable();
    Ok((taken[taken.len() / 2], cost))
}
