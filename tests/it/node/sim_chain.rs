//! The simulated chain against a real node and against the naive model: its blocks are valid, and its unspent outputs
//! are those of the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::Encodable;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{Amount, Block, OutPoint};
use btcgraph::chain::Height;
use btcgraph::sim::blkfile::BlkWriter;
use btcgraph::sim::{Hostile, LoadGenerator, LoadProfile, SimChain, SimCoin};
use serde_json::{Value, json};

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::model::{Model, Unspendable, Unspent};

/// Submits a block and returns the reason of its rejection. A valid block of a branch is "inconclusive".
fn submit(node: &RealNode, block: &Block) -> Option<String> {
    match node.must("submitblock", &[json!(serialize_hex(block))]) {
        Value::Null => None,
        Value::String(verdict) if verdict == "inconclusive" => None,
        reason => Some(reason.to_string()),
    }
}

/// Count, total amount, and `hash_serialized_3` of these coins, as in `gettxoutsetinfo`.
fn txoutset(coins: impl IntoIterator<Item = (OutPoint, SimCoin)>) -> (u64, Amount, String) {
    let ordered: BTreeMap<([u8; 32], u32), SimCoin> =
        coins.into_iter().map(|(outpoint, coin)| ((outpoint.txid.to_byte_array(), outpoint.vout), coin)).collect();
    let (mut count, mut amount, mut hashed) = (0, Amount::ZERO, Vec::new());
    for ((txid, vout), coin) in ordered {
        count += 1;
        amount += coin.output.value;
        hashed.extend_from_slice(&txid);
        hashed.extend_from_slice(&vout.to_le_bytes());
        hashed.extend_from_slice(&(coin.height.to_u32() * 2 + u32::from(coin.coinbase)).to_le_bytes());
        coin.output.consensus_encode(&mut hashed).unwrap();
    }
    (count, amount, sha256d::Hash::hash(&hashed).to_string())
}

fn txoutset_of(node: &RealNode) -> (u64, Amount, String) {
    let info = node.must("gettxoutsetinfo", &[]);
    let amount = Amount::from_btc(info["total_amount"].as_f64().unwrap()).unwrap();
    (info["txouts"].as_u64().unwrap(), amount, info["hash_serialized_3"].as_str().unwrap().to_owned())
}

fn coins_of(chain: &SimChain) -> impl Iterator<Item = (OutPoint, SimCoin)> {
    chain.unspent().iter().map(|(outpoint, coin)| (*outpoint, coin.clone()))
}

#[track_caller]
fn assert_node_agrees(node: &RealNode, chain: &SimChain) {
    assert_eq!(node.must("getbestblockhash", &[]), json!(chain.tip().to_string()));
    assert_eq!(txoutset_of(node), txoutset(coins_of(chain)));
}

#[test]
fn a_node_accepts_a_hostile_chain_through_its_reorgs() {
    let Some(node) = RealNode::start(&[]) else { return };
    let mut chain = SimChain::new(1);
    let mut hostile = Hostile::new(1);
    let follow = |blocks: Vec<Arc<Block>>| {
        for block in blocks {
            assert_eq!(submit(&node, &block), None, "block {}", block.block_hash());
        }
    };
    for _ in 0..200 {
        follow(vec![hostile.mine(&mut chain).unwrap()]);
    }
    assert_node_agrees(&node, &chain);
    for (depth, length) in [(1, 2), (3, 3), (12, 14), (60, 61), (2, 5)] {
        follow(hostile.branch(&mut chain, depth, length).unwrap());
        follow(vec![hostile.mine(&mut chain).unwrap(), hostile.mine(&mut chain).unwrap()]);
        assert_node_agrees(&node, &chain);
    }
    let tips = node.must("getchaintips", &[]);
    assert!(tips.as_array().unwrap().iter().all(|tip| tip["status"] != "invalid"), "{tips}");
}

#[test]
fn a_node_imports_a_load_chain_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("load.blk");
    let mut file = BlkWriter::new(std::fs::File::create(&path).unwrap());
    let mut chain = SimChain::new(1).keeping(1);
    file.write(chain.active_blocks().next().unwrap()).unwrap();
    let mut load = LoadGenerator::new(LoadProfile { transactions: 20_000, blocks: 115, seed: 1 });
    while let Some(block) = load.next_block(&mut chain).unwrap() {
        file.write(&block).unwrap();
    }
    file.finish().unwrap();
    assert_eq!((load.transactions(), chain.height()), (20_000, Height::from(115)));

    let Some(node) = RealNode::start(&[&format!("-loadblock={}", path.display())]) else { return };
    wait_for("the import", Duration::from_mins(2), || (node.must("getblockcount", &[]) == json!(115)).then_some(()));
    assert_node_agrees(&node, &chain);
}

#[test]
fn a_node_refuses_a_repeated_coinbase() {
    let Some(node) = RealNode::start(&[]) else { return };
    let mut chain = SimChain::new(1);
    let (_, later) = Hostile::new(1).repeat_coinbase(&mut chain, 0).unwrap();
    for block in chain.active_blocks().skip(1) {
        assert_eq!(submit(&node, block).is_some(), block.block_hash() == later);
    }
}

#[test]
fn the_model_has_the_chains_unspent_outputs_after_repeats() {
    for spent in [0, 2, 3] {
        let mut chain = SimChain::new(1);
        let mut hostile = Hostile::new(1);
        hostile.repeat_coinbase(&mut chain, spent).unwrap();
        for _ in 0..20 {
            hostile.mine(&mut chain).unwrap();
        }
        hostile.branch(&mut chain, 5, 7).unwrap();
        let model = Model::of(chain.active_blocks().map(|block| &**block));
        let unspent: BTreeMap<_, _> = coins_of(&chain)
            .map(|(outpoint, coin)| {
                let value = coin.output.value.to_sat();
                let unspent = Unspent { value, height: coin.height.to_u32(), coinbase: coin.coinbase };
                (outpoint, (coin.output.script_pubkey, unspent))
            })
            .collect();
        assert_eq!(model.utxos(), unspent);

        let overwritten: u64 = model.blocks.iter().map(|block| block.unspendable.bip30).sum();
        assert_eq!(overwritten, u64::try_from(3 - spent).unwrap() * 10_000_001);
        assert_eq!(model.copies.values().filter(|copies| copies.len() > 1).count(), 1);
    }
}

#[test]
fn the_model_agrees_with_itself() {
    let mut chain = SimChain::new(2);
    let mut hostile = Hostile::new(2);
    for spent in [0, 1] {
        hostile.repeat_coinbase(&mut chain, spent).unwrap();
    }
    let model = Model::of(chain.active_blocks().map(|block| &**block));
    let tip = model.blocks.last().unwrap();

    let issued: u64 = model.blocks.iter().map(|block| block.subsidy).sum();
    let lost = |block: &Unspendable| block.genesis_block + block.bip30 + block.scripts + block.unclaimed_rewards;
    let unspendable: u64 = model.blocks.iter().map(|block| lost(&block.unspendable)).sum();
    assert_eq!(tip.utxo_value, issued - unspendable);
    assert_eq!(tip.utxo_count, u64::try_from(model.utxos().len()).unwrap());
    let inputs: u32 = model.blocks.iter().map(|block| block.inputs).sum();
    assert_eq!(model.spends.len(), usize::try_from(inputs).unwrap());
    assert_eq!(usize::try_from(tip.first_txnum + tip.transactions).unwrap(), model.transactions.len());
    for (script, rows) in &model.history {
        let totals = model.totals(script);
        let unspent = model.unspent.get(script).into_iter().flatten();
        let (count, value) = unspent.fold((0, 0), |(count, value), (_, coin)| (count + 1, value + coin.value));
        assert_eq!(totals.received - totals.spent, value);
        assert_eq!(totals.outputs_received - totals.outputs_spent, count);
        assert_eq!(usize::try_from(totals.transactions).unwrap(), rows.len());
        let payouts = model.payouts.get(script).map_or(0, std::collections::BTreeSet::len);
        assert_eq!(usize::try_from(totals.coinbase_transactions).unwrap(), payouts);
    }
}

#[test]
fn the_model_counts_lost_coins_like_a_node() {
    let Some(node) = RealNode::start(&["-coinstatsindex=1"]) else { return };
    let mut chain = SimChain::new(3);
    let mut hostile = Hostile::new(3);
    for _ in 0..180 {
        assert_eq!(submit(&node, &hostile.mine(&mut chain).unwrap()), None);
    }
    wait_for("the node's index", Duration::from_mins(1), || {
        let index = node.must("getindexinfo", &[json!("coinstatsindex")]);
        (index["coinstatsindex"]["best_block_height"] == json!(180)).then_some(())
    });
    let model = Model::of(chain.active_blocks().map(|block| &**block));
    for (height, block) in model.blocks.iter().enumerate() {
        let info = node.must("gettxoutsetinfo", &[json!("none"), json!(height), json!(true)]);
        let sat = |value: &Value| Amount::from_btc(value.as_f64().unwrap()).unwrap().to_sat();
        let of_block = &info["block_info"];
        let unspendables = &of_block["unspendables"];
        let lost = Unspendable {
            genesis_block: sat(&unspendables["genesis_block"]),
            bip30: sat(&unspendables["bip30"]),
            scripts: sat(&unspendables["scripts"]),
            unclaimed_rewards: sat(&unspendables["unclaimed_rewards"]),
        };
        assert_eq!(block.unspendable, lost, "at height {height}");
        assert_eq!(block.utxo_count, info["txouts"].as_u64().unwrap(), "at height {height}");
        assert_eq!(block.utxo_value, sat(&info["total_amount"]), "at height {height}");
        assert_eq!(block.input_value, sat(&of_block["prevout_spent"]), "at height {height}");
    }
}
