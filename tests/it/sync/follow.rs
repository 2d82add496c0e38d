//! Following a real node: through reorganisations of any depth, restarts and back to genesis, the index agrees
//! with the node and contains the rows of a fresh index of the same chain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Block, Network};
use btcgraph::chain::Height;
use btcgraph::index::{BlockRow, Index, IndexOptions, OutputPosition};
use btcgraph::live::{ChainEvent, Live};
use btcgraph::node::{Auth, Node, NodeOptions, StopFlag};
use btcgraph::sim::{Hostile, SimChain};
use btcgraph::sync::{Follow, NodeState, SyncError, Until, Wake, compare_with_node, run};
use btcgraph::view::Published;
use serde_json::{Value, json};

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::following;
use crate::support::indexed::{Indexed, options};

/// A node, its client and an index that follows it.
struct Followed {
    real: RealNode,
    node: Node,
    indexed: Indexed,
    published: Published,
    live: Live,
}

impl Followed {
    fn start(args: &[&str]) -> Option<Self> {
        let real = RealNode::start(args)?;
        let auth = Auth::Cookie(real.cookie_path());
        let node = Node::connect(NodeOptions::new(Network::Regtest, real.rpc_url(), auth)).unwrap();
        Some(Self { real, node, indexed: Indexed::empty(), published: Published::default(), live: Live::default() })
    }

    fn submit<'b>(&self, blocks: impl IntoIterator<Item = &'b Arc<Block>>) {
        for block in blocks {
            let verdict = self.real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
            assert!(verdict.is_null() || verdict == "inconclusive", "{verdict}");
        }
    }

    fn catch_up(&mut self) {
        follow(&self.node, &mut self.indexed.index, &self.published, &self.live);
    }

    fn try_to_catch_up(&mut self) -> Result<(), SyncError> {
        try_to_follow(&self.node, &mut self.indexed.index, &self.published, &self.live, Until::CaughtUp)
    }

    /// Everything the node can be asked about the chain, and the rows of a fresh index of it.
    fn assert_agrees(&mut self) {
        self.catch_up();
        let report = self.indexed.verified();
        let snapshot = self.indexed.index.snapshot().unwrap();
        let blocks = usize::try_from(snapshot.tip().unwrap().height.to_u32()).unwrap() + 1;
        let state = NodeState::at(&self.node, snapshot.tip()).unwrap();
        let comparison = compare_with_node(&self.node, &snapshot, &report, state, blocks.min(60)).unwrap();
        assert_eq!(comparison.differences, Vec::<String>::new());
        assert!(comparison.node.utxo_set.is_some_and(|info| info.hash_serialized_3.is_some()));
        assert_eq!(comparison.blocks.len(), blocks.min(60));

        let mut fresh = Indexed::empty();
        follow(&self.node, &mut fresh.index, &Published::default(), &Live::default());
        assert_eq!(self.indexed.rows(), fresh.rows());
        assert_eq!(self.published.head().unwrap().tip, snapshot.tip().unwrap());
    }

    fn block(&self, height: u32) -> BlockRow {
        self.indexed.index.snapshot().unwrap().block(Height::from(height)).unwrap().unwrap()
    }
}

fn follow(node: &Node, index: &mut Index, published: &Published, live: &Live) {
    try_to_follow(node, index, published, live, Until::CaughtUp).unwrap();
}

fn try_to_follow(
    node: &Node,
    index: &mut Index,
    published: &Published,
    live: &Live,
    until: Until,
) -> Result<(), SyncError> {
    run(Follow { until, ..following::follow(node, index, published, live, &Wake::default()) })
}

fn hostile_chain(seed: u64, blocks: u32) -> (SimChain, Hostile, Vec<Arc<Block>>) {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    let blocks = (0..blocks).map(|_| hostile.mine(&mut chain).unwrap()).collect();
    (chain, hostile, blocks)
}

#[test]
fn every_script_type_equals_the_node_through_a_reorg() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(1, 260);
    followed.submit(&blocks[..130]);
    followed.assert_agrees();
    followed.submit(&blocks[130..]);
    followed.assert_agrees();
    let types = followed.block(260).running.types;
    let never_spent = [btcgraph::chain::ScriptType::OpReturn];
    for script_type in btcgraph::chain::ScriptType::ALL {
        let totals = types[script_type.index()];
        assert!(totals.created.count > 0, "{script_type:?} is created");
        assert!(totals.spent.count > 0 || never_spent.contains(&script_type), "{script_type:?} is spent");
    }
    for depth in [1, 6, 100] {
        let branch = hostile.branch(&mut chain, depth, depth + 1).unwrap();
        followed.submit(&branch);
        followed.assert_agrees();
    }
    assert_stale_blocks_are_tips_of_the_node(&followed, 1 + 6 + 100);
}

/// Every stale block of the index stands on a branch that the node lists as well, and no block is missing.
fn assert_stale_blocks_are_tips_of_the_node(followed: &Followed, expected: usize) {
    let mut known = BTreeSet::new();
    for tip in followed.real.must("getchaintips", &[]).as_array().unwrap() {
        let mut hash = tip["hash"].clone();
        for _ in 0..tip["branchlen"].as_u64().unwrap() {
            known.insert(hash.as_str().unwrap().to_owned());
            hash = followed.real.must("getblockheader", &[hash])["previousblockhash"].clone();
        }
    }
    let stale = followed.indexed.index.snapshot().unwrap().stale_block_hashes().unwrap();
    let stale: BTreeSet<_> = stale.into_iter().map(|(_, hash)| hash.to_string()).collect();
    assert_eq!(stale, known);
    assert_eq!(stale.len(), expected);
}

#[test]
fn statistics_of_blocks_are_those_of_getblockstats() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (_, _, blocks) = hostile_chain(2, 230);
    followed.submit(&blocks);
    followed.catch_up();
    for height in 1..=230_u32 {
        let stats = followed.real.must("getblockstats", &[json!(height)]);
        let row = followed.block(height);
        let previous = followed.block(height - 1).running;
        let whole = |row: u64| row / 1_000;
        let found = json!({
            "blockhash": row.hash.to_string(),
            "ins": row.inputs,
            "outs": row.outputs,
            "txs": row.transactions,
            "total_out": row.output_value - u128::from(row.coinbase_value),
            "totalfee": row.fees,
            "subsidy": row.subsidy,
            "mediantime": row.median_time,
            "minfee": row.fee_quantiles[0],
            "medianfee": row.fee_quantiles[3],
            "maxfee": row.fee_quantiles[6],
            "minfeerate": whole(row.feerate_quantiles[0]),
            "maxfeerate": whole(row.feerate_quantiles[6]),
            "feerate_percentiles": row.feerate_quantiles[1..6].iter().copied().map(whole).collect::<Vec<_>>(),
            "swtxs": row.segwit_transactions,
            "swtotal_size": row.segwit_size,
            "swtotal_weight": row.segwit_weight,
            "utxo_increase_actual": i128::from(row.running.utxo_count) - i128::from(previous.utxo_count),
        });
        for (name, value) in found.as_object().unwrap() {
            assert_eq!(*value, stats[name], "{name} at height {height}");
        }
        let header = followed.real.must("getblock", &[json!(row.hash.to_string()), json!(1)]);
        let found = (row.size, row.stripped_size, row.weight);
        let theirs = ["size", "strippedsize", "weight"].map(|name| header[name].as_u64().unwrap());
        assert_eq!([found.0, found.1, found.2].map(u64::from), theirs, "sizes at height {height}");
        assert_eq!(format!("{:064x}", row.running.chainwork), header["chainwork"].as_str().unwrap());
    }
}

#[test]
fn the_outputs_of_a_script_are_those_of_scantxoutset() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (chain, _, blocks) = hostile_chain(3, 200);
    followed.submit(&blocks);
    followed.catch_up();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    let scripts: BTreeSet<_> = chain.unspent().values().map(|coin| coin.output.script_pubkey.clone()).collect();
    assert!(scripts.len() > 50);
    // the node cannot be asked for the empty script
    for script in scripts.into_iter().filter(|script| !script.is_empty()) {
        let scan =
            followed.real.must("scantxoutset", &[json!("start"), json!([format!("raw({})", script.to_hex_string())])]);
        let mut theirs: Vec<_> = scan["unspents"].as_array().unwrap().iter().map(unspent).collect();
        let everywhere = OutputPosition::default()..OutputPosition::END;
        let rows = snapshot.unspent(snapshot.script_key(script.as_bytes()), everywhere).unwrap();
        let mut ours: Vec<_> = rows
            .map(|row| {
                let (key, row) = row.unwrap();
                let txid = snapshot.txid(key.txnum).unwrap().unwrap().to_string();
                let height = snapshot.occurrence(key.txnum).unwrap().height.to_u32();
                (txid, u64::from(key.vout), row.value, u64::from(height), row.is_coinbase)
            })
            .collect();
        theirs.sort();
        ours.sort();
        assert_eq!(ours, theirs, "{script}");
        let totals = snapshot.totals(snapshot.script_key(script.as_bytes()), btcgraph::index::TxNum(u32::MAX)).unwrap();
        let (_, totals) = totals.unwrap();
        let sum: u64 = theirs.iter().map(|unspent| unspent.2).sum();
        assert_eq!(totals.received - totals.spent, u128::from(sum));
    }
}

fn unspent(unspent: &Value) -> (String, u64, u64, u64, bool) {
    (
        unspent["txid"].as_str().unwrap().to_owned(),
        unspent["vout"].as_u64().unwrap(),
        Amount::from_btc(unspent["amount"].as_f64().unwrap()).unwrap().to_sat(),
        unspent["height"].as_u64().unwrap(),
        unspent["coinbase"].as_bool().unwrap(),
    )
}

#[test]
fn a_shortened_chain_and_the_way_back_to_genesis_are_followed() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (_, _, blocks) = hostile_chain(4, 140);
    followed.submit(&blocks);
    followed.assert_agrees();
    let invalidate = |followed: &Followed, height: u32| {
        let hash = followed.real.must("getblockhash", &[json!(height)]);
        followed.real.must("invalidateblock", &[hash]);
    };
    invalidate(&followed, 131);
    followed.assert_agrees();
    assert_eq!(followed.published.head().unwrap().tip.height, Height::from(130));
    invalidate(&followed, 1);
    followed.assert_agrees();
    assert_eq!(followed.published.head().unwrap().tip.height, Height::GENESIS);
    followed.real.mine(3);
    followed.assert_agrees();
    followed.real.must("reconsiderblock", &[json!(blocks[0].block_hash().to_string())]);
    followed.assert_agrees();
    assert_eq!(followed.published.head().unwrap().tip.height, Height::from(140));
}

#[test]
fn a_node_that_starts_over_is_awaited_another_chain_followed() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(8, 160);
    followed.submit(&blocks);
    followed.catch_up();
    let before = followed.indexed.rows();

    // a node with a new data directory, which downloads the same chain again
    let Some(other) = Followed::start(&[]) else { return };
    (followed.real, followed.node) = (other.real, other.node);
    // the last is what one that was killed has to connect again
    for downloaded in [&blocks[..0], &blocks[..10], &blocks[10..140]] {
        followed.submit(downloaded);
        let error = followed.try_to_catch_up().unwrap_err();
        assert!(matches!(error, SyncError::NodeBehind { .. }) && error.is_transient(), "{error}");
        assert!(!followed.published.is_in_sync());
        assert_eq!(followed.published.head().unwrap().tip.height, Height::from(160));
        assert_eq!(followed.indexed.rows(), before);
    }
    followed.submit(&blocks[140..]);
    followed.assert_agrees();
    assert!(followed.published.is_in_sync());
    followed.submit(&hostile.branch(&mut chain, 150, 152).unwrap());
    followed.assert_agrees();
}

#[test]
fn a_reorg_in_many_commits_announces_each_block_once() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(9, 140);
    // so little cache that every block is a commit
    let small = IndexOptions { cache_bytes: 1 << 14, ..options(followed.indexed.directory.path()) };
    drop(followed.indexed.index);
    followed.indexed.index = Index::open(&small).unwrap();
    followed.submit(&blocks);
    followed.catch_up();
    let mut events = followed.live.subscribe();
    followed.submit(&hostile.branch(&mut chain, 20, 22).unwrap());
    followed.assert_agrees();
    let (mut left, mut joined) = (Vec::new(), Vec::new());
    while let Ok(event) = events.try_recv() {
        for event in &event.chain {
            match event {
                ChainEvent::Disconnected(tip) => left.push(tip.height.to_u32()),
                ChainEvent::Connected(tip) => joined.push(tip.height.to_u32()),
            }
        }
    }
    assert_eq!(left, (121..=140).rev().collect::<Vec<_>>());
    assert_eq!(joined, (121..=142).collect::<Vec<_>>());
}

#[test]
fn a_node_that_flips_between_branches_is_followed_to_its_tip() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(10, 130);
    followed.submit(&blocks);
    let (tip, stop) = (chain.tip(), StopFlag::new());
    let branch = hostile.branch(&mut chain, 12, 14).unwrap();
    followed.submit(&branch);
    let node = followed.node.with_stop(stop.clone());
    std::thread::scope(|scope| {
        let Followed { real, indexed, published, live, .. } = &mut followed;
        let running = scope.spawn({
            let (published, live) = (published.clone(), live.clone());
            move || try_to_follow(&node, &mut indexed.index, &published, &live, Until::Stopped)
        });
        // each flip comes while the one before is still being read
        for round in 0..12 {
            let (method, root) = if round % 2 == 0 { ("invalidateblock", 0) } else { ("reconsiderblock", 0) };
            real.must(method, &[json!(branch[root].block_hash().to_string())]);
            if round == 5 {
                real.restart();
            }
        }
        real.must("invalidateblock", &[json!(branch[0].block_hash().to_string())]);
        real.must("preciousblock", &[json!(tip.to_string())]);
        let last = *real.mine(2).last().unwrap();
        let reached = || published.head().is_some_and(|head| head.tip.hash == last).then_some(());
        wait_for("the index to reach the last tip", Duration::from_mins(1), reached);
        stop.raise();
        running.join().unwrap().unwrap();
    });
    followed.assert_agrees();
}

#[test]
fn an_unreachable_node_is_out_of_sync_and_followed_again() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let stop = StopFlag::new();
    let auth = Auth::Cookie(followed.real.cookie_path());
    let mut impatient = NodeOptions::new(Network::Regtest, followed.real.rpc_url(), auth);
    impatient.retry.patience = Duration::ZERO;
    impatient.stop = stop.clone();
    let node = Node::connect(impatient).unwrap();
    std::thread::scope(|scope| {
        let Followed { real, indexed, published, live, .. } = &mut followed;
        let running = scope.spawn({
            let (published, live) = (published.clone(), live.clone());
            move || try_to_follow(&node, &mut indexed.index, &published, &live, Until::Stopped)
        });
        let wait = |what: &str, condition: &dyn Fn() -> bool| {
            wait_for(what, Duration::from_mins(1), || condition().then_some(()));
        };
        wait("the index to be in sync", &|| published.is_in_sync());
        real.stop();
        wait("the index to be out of sync", &|| !published.is_in_sync());
        real.start_again();
        let last = *real.mine(3).last().unwrap();
        wait("the index to be in sync again", &|| {
            published.is_in_sync() && published.head().is_some_and(|head| head.tip.hash == last)
        });
        stop.raise();
        running.join().unwrap().unwrap();
    });
    followed.assert_agrees();
}

#[test]
fn transactions_move_vanish_or_confirm_elsewhere() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let address = followed.real.wallet_address("bech32");
    followed.real.mine_to(&address, 105);
    let to = followed.real.wallet_address("legacy");
    let moving = followed.real.must("sendtoaddress", &[json!(to), json!(1)]);
    let first = followed.real.mine(1);
    let vanishing = followed.real.must("sendtoaddress", &[json!(to), json!(2)]);
    followed.real.mine(1);
    followed.assert_agrees();
    let position = |followed: &Followed, txid: &Value| {
        let snapshot = followed.indexed.index.snapshot().unwrap();
        let found = snapshot.positions(&txid.as_str().unwrap().parse().unwrap()).unwrap();
        found.last().map(|txnum| snapshot.occurrence(*txnum).unwrap().height.to_u32())
    };
    assert_eq!((position(&followed, &moving), position(&followed, &vanishing)), (Some(106), Some(107)));

    followed.real.must("invalidateblock", &[json!(first[0].to_string())]);
    let only = followed.real.wallet_address("bech32");
    // an empty block first, then one with the moving transaction alone
    followed.real.must("generateblock", &[json!(only), json!([])]);
    followed.real.must("generateblock", &[json!(only), json!([moving])]);
    followed.real.must("generateblock", &[json!(only), json!([])]);
    followed.assert_agrees();
    assert_eq!((position(&followed, &moving), position(&followed, &vanishing)), (Some(107), None));
    let snapshot = followed.indexed.index.snapshot().unwrap();
    let stale = snapshot.stale_occurrences(&vanishing.as_str().unwrap().parse().unwrap()).unwrap();
    assert_eq!(stale.len(), 1);
}

#[test]
fn it_goes_on_after_a_restart_of_either_side() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(5, 150);
    followed.submit(&blocks[..120]);
    followed.catch_up();
    let Followed { mut real, node, indexed, published, live } = followed;
    let Indexed { index, directory } = indexed;
    drop(index);
    real.restart();
    let index = Index::open(&options(directory.path())).unwrap();
    let mut followed = Followed { real, node, indexed: Indexed { index, directory }, published, live };
    followed.submit(&blocks[120..]);
    followed.submit(&hostile.branch(&mut chain, 20, 22).unwrap());
    followed.assert_agrees();
}

#[test]
fn disconnect_events_precede_connect_events_with_their_head() {
    let Some(mut followed) = Followed::start(&[]) else { return };
    let (mut chain, mut hostile, blocks) = hostile_chain(6, 20);
    followed.submit(&blocks);
    followed.catch_up();
    let mut events = followed.live.subscribe();
    let old: Vec<_> = blocks.iter().rev().take(3).map(|block| block.block_hash()).collect();
    let branch = hostile.branch(&mut chain, 3, 4).unwrap();
    followed.submit(&branch);
    followed.catch_up();
    let mut reported = Vec::new();
    while let Ok(event) = events.try_recv() {
        assert_eq!(event.head.tip.hash, chain.tip());
        reported.extend(event.chain.iter().map(|event| match event {
            ChainEvent::Disconnected(tip) => (false, tip.height.to_u32(), tip.hash),
            ChainEvent::Connected(tip) => (true, tip.height.to_u32(), tip.hash),
        }));
    }
    let left = old.into_iter().zip([20, 19, 18]).map(|(hash, height)| (false, height, hash));
    let joined = branch.iter().zip(18..).map(|(block, height)| (true, height, block.block_hash()));
    assert_eq!(reported, left.chain(joined).collect::<Vec<_>>());
}

#[test]
fn without_rest_the_rows_are_the_same() {
    let Some(mut followed) = Followed::start(&["-rest=0"]) else { return };
    let (_, _, blocks) = hostile_chain(7, 130);
    followed.submit(&blocks);
    followed.assert_agrees();
    let genesis = bitcoin::constants::genesis_block(Network::Regtest);
    let straight = Indexed::of(std::iter::once(&genesis).chain(blocks.iter().map(Arc::as_ref)), 10);
    assert_eq!(followed.indexed.rows(), straight.rows());
}
