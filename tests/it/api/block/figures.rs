//! What a block comes to: fees, inputs and outputs, as a real node tells them, and what a stale block still knows.

use std::sync::Arc;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, Network};
use btcgraph::index::IndexOptions;
use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::support::api::{Api, branch, real_chain};
use crate::support::bitcoind::RealNode;

const FIGURES: &str = "
    fragment Figures on Block {
        height rawHex txids subsidy totalFees coinbaseValue unclaimedReward txCount
        feeStats { totalFees averageFee medianFee minFee maxFee medianFeeRate averageFeeRate feeRatePercentiles }
        stats {
            inputCount outputCount totalInputValue totalOutputValue segwitTxCount segwitSize segwitWeight taprootOutputCount
            opReturnCount opReturnBytes utxoDelta coinDaysDestroyed outputsByType { type outputCount totalValue }
        }
        cumulative {
            txCount inputCount outputCount outputValue fees subsidy unspendable size weight utxoCount
        }
    }";

fn figures(api: &Api, block: &str) -> Value {
    api.data(&format!("{{ block({block}) {{ ...Figures }} }} {FIGURES}"))["block"].take()
}

/// Hostile blocks that a node takes, which it has been given.
fn chain_of(node: &RealNode, blocks: u32) -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(60), Hostile::new(60));
    for _ in 0..blocks {
        let block = hostile.mine(&mut chain).unwrap();
        assert_eq!(node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    }
    chain
}

/// Whole satoshis a vbyte, as Core cuts them off.
fn truncated(rate: &Value) -> Value {
    format!("{:.0}", rate.as_f64().unwrap().floor()).parse::<u64>().unwrap().into()
}

#[test]
fn every_block_comes_to_what_a_node_says_of_it() {
    let Some(node) = RealNode::start(&[]) else { return };
    let chain = chain_of(&node, 160);
    let api = Api::of_chain(&chain);
    let mut with_fees = 0;
    for height in 1..=160 {
        let block = figures(&api, &format!("height: {height}"));
        let core = node.must("getblockstats", &[json!(height)]);
        let (fees, stats) = (&block["feeStats"], &block["stats"]);
        let percentiles = fees["feeRatePercentiles"].as_array().unwrap();
        let found = json!({
            "totalfee": fees["totalFees"], "avgfee": fees["averageFee"], "medianfee": fees["medianFee"], "minfee": fees["minFee"],
            "maxfee": fees["maxFee"], "avgfeerate": truncated(&fees["averageFeeRate"]),
            "minfeerate": truncated(&percentiles[0]), "maxfeerate": truncated(&percentiles[6]),
            "feerate_percentiles": percentiles[1..6].iter().map(truncated).collect::<Vec<_>>(),
            "ins": stats["inputCount"], "outs": stats["outputCount"],
            "total_out": stats["totalOutputValue"].as_u64().unwrap() - block["coinbaseValue"].as_u64().unwrap(),
            "swtxs": stats["segwitTxCount"], "swtotal_size": stats["segwitSize"],
            "swtotal_weight": stats["segwitWeight"], "utxo_increase_actual": stats["utxoDelta"],
            "subsidy": block["subsidy"], "txs": block["txCount"],
        });
        for (name, value) in found.as_object().unwrap() {
            assert_eq!(value, &core[name], "{name} at height {height}");
        }
        assert_eq!(fees["medianFeeRate"], percentiles[3]);
        let spent = core["total_out"].as_u64().unwrap() + core["totalfee"].as_u64().unwrap();
        assert_eq!(stats["totalInputValue"], json!(spent));
        with_fees += u32::from(core["totalfee"] != json!(0));

        let hash = node.must("getblockhash", &[json!(height)]);
        assert_eq!(block["rawHex"], node.must("getblock", &[hash.clone(), json!(0)]), "at height {height}");
        assert_eq!(block["txids"], node.must("getblock", &[hash, json!(1)])["tx"], "at height {height}");
    }
    assert!(with_fees > 20, "{with_fees} blocks have fees");
}

/// What the outputs and the witnesses of a block come to, counted one by one.
fn counted(block: &Block) -> Value {
    let outputs: Vec<_> = block.txdata.iter().flat_map(|transaction| &transaction.output).collect();
    let op_returns = outputs.iter().filter(|output| output.script_pubkey.is_op_return());
    json!({
        "opReturnCount": op_returns.clone().count(),
        "opReturnBytes": op_returns.map(|output| output.script_pubkey.len()).sum::<usize>(),
        "taprootOutputCount": outputs.iter().filter(|output| output.script_pubkey.is_p2tr()).count(),
    })
}

#[test]
fn outputs_by_type_add_up_to_the_block() {
    let (mut chain, mut hostile) = (SimChain::new(61), Hostile::new(61));
    for _ in 0..140 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    for (height, block) in (0..).zip(chain.active_blocks()) {
        let reported = figures(&api, &format!("height: {height}"));
        let types = reported["stats"]["outputsByType"].as_array().unwrap();
        let count: u64 = types.iter().map(|of_type| of_type["outputCount"].as_u64().unwrap()).sum();
        let value: u64 = types.iter().map(|of_type| of_type["totalValue"].as_u64().unwrap()).sum();
        assert_eq!(json!(count), reported["stats"]["outputCount"]);
        assert_eq!(json!(value), reported["stats"]["totalOutputValue"]);
        for (name, expected) in counted(block).as_object().unwrap() {
            assert_eq!(&reported["stats"][name], expected, "{name} at height {height}");
        }
        let of_type = |name: &str| {
            let found = types.iter().find(|of_type| of_type["type"] == json!(name));
            found.map_or(json!(0), |of_type| of_type["outputCount"].clone())
        };
        assert_eq!(of_type("P2TR"), reported["stats"]["taprootOutputCount"]);
        assert_eq!(of_type("OP_RETURN"), reported["stats"]["opReturnCount"]);
    }
}

#[test]
fn an_empty_block_has_no_fees_and_destroys_no_coin_days() {
    let mut chain = SimChain::new(62);
    chain.mine(Vec::new()).unwrap();
    let block = figures(&Api::of_chain(&chain), "height: 1");
    assert_eq!(
        block["feeStats"],
        json!({
            "totalFees": 0, "averageFee": 0, "medianFee": 0, "minFee": 0, "maxFee": 0, "medianFeeRate": 0.0, "averageFeeRate": 0.0,
            "feeRatePercentiles": vec![0.0; 7],
        })
    );
    assert_eq!((&block["stats"]["coinDaysDestroyed"], &block["stats"]["totalInputValue"]), (&json!(0.0), &json!(0)));
    assert_eq!(block["stats"]["utxoDelta"], json!(1));
}

#[test]
fn a_stale_block_comes_to_what_it_came_to_on_the_main_chain() {
    let (mut chain, mut hostile) = (SimChain::new(63), Hostile::new(63));
    for _ in 0..130 {
        hostile.mine(&mut chain).unwrap();
    }
    let old: Vec<Arc<Block>> = chain.active_blocks().cloned().collect();
    let mut api = Api::of_chain(&chain);
    let by_hash = |block: &Arc<Block>| format!("hash: \"{}\"", block.block_hash());
    let before: Vec<Value> = old[121..].iter().map(|block| figures(&api, &by_hash(block))).collect();
    let new = hostile.branch(&mut chain, 10, 11).unwrap();
    api.change(10, new.iter().map(Arc::as_ref));
    for (block, before) in old[121..].iter().zip(before) {
        assert_eq!(figures(&api, &by_hash(block)), before);
        assert_eq!(before["rawHex"], json!(serialize_hex(block.as_ref())));
    }
    let sibling = |block: &Arc<Block>| json!({ "siblings": [{ "hash": block.block_hash().to_string() }] });
    let found = api.data(&format!(
        "{{ stale: block({}) {{ siblings {{ hash }} }} main: block({}) {{ siblings {{ hash }} }}
            shared: block(height: 120) {{ siblings {{ hash }} }} tip {{ siblings {{ hash }} }} }}",
        by_hash(&old[125]),
        by_hash(&new[4]),
    ));
    let none = json!({ "siblings": [] });
    assert_eq!(found, json!({ "stale": sibling(&new[4]), "main": sibling(&old[125]), "shared": none, "tip": none }));
}

#[test]
fn what_needs_a_previous_block_that_is_not_kept_is_null() {
    let mut chain = SimChain::new(64);
    chain.mine_empty(5).unwrap();
    let old: Vec<Arc<Block>> = chain.active_blocks().cloned().collect();
    let keep = |options| IndexOptions { stale_blocks_kept: 2, ..options };
    let mut api = Api::with_index(Network::Regtest, Limits::default(), keep);
    api.change(0, old.iter().map(Arc::as_ref));
    let new = branch(&mut chain, old[2].block_hash(), 4, &[]);
    api.change(3, new.iter().map(Arc::as_ref));
    let stats = |block: &Arc<Block>| {
        let document = format!(
            "{{ block(hash: \"{}\") {{ stats {{ outputCount utxoDelta outputsByType {{ outputCount }} }} previousBlock {{ height }} }} }}",
            block.block_hash()
        );
        api.data(&document)["block"].take()
    };
    let none = json!({ "outputCount": 1, "utxoDelta": null, "outputsByType": null });
    assert_eq!(stats(&old[4]), json!({ "stats": none, "previousBlock": null }));
    let one = json!({ "outputCount": 1, "utxoDelta": 1, "outputsByType": [{ "outputCount": 1 }] });
    assert_eq!(stats(&old[5]), json!({ "stats": one, "previousBlock": { "height": 4 } }));
}

#[test]
fn a_transaction_is_found_by_its_place_in_the_block() {
    let (mut chain, mut hostile) = (SimChain::new(65), Hostile::new(65));
    while chain.height().to_u32() < 110 || chain.block(&chain.tip()).unwrap().txdata.len() < 3 {
        hostile.mine(&mut chain).unwrap();
    }
    let block = chain.block(&chain.tip()).unwrap().clone();
    let mut api = Api::of_chain(&chain);
    let check = |api: &Api| {
        for (index, transaction) in block.txdata.iter().enumerate() {
            let found = api.data(&format!(
                "{{ block(hash: \"{}\") {{ transaction(index: {index}) {{ txid hex }} }} }}",
                block.block_hash()
            ));
            let expected = json!({ "txid": transaction.compute_txid().to_string(), "hex": serialize_hex(transaction) });
            assert_eq!(found["block"]["transaction"], expected);
        }
        for beyond in [block.txdata.len(), 2_147_483_647] {
            let document =
                format!("{{ block(hash: \"{}\") {{ transaction(index: {beyond}) {{ txid }} }} }}", block.block_hash());
            assert_eq!(api.data(&document), json!({ "block": { "transaction": null } }));
        }
    };
    check(&api);
    let negative = api.ask("{ tip { height transaction(index: -1) { txid } } }");
    assert_eq!(negative["data"]["tip"]["transaction"], Value::Null);
    assert_eq!(negative["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));

    let new = hostile.branch(&mut chain, 1, 2).unwrap();
    api.change(1, new.iter().map(Arc::as_ref));
    check(&api);
}

#[test]
fn blocks_and_txid_lists_count_against_the_answer_limit() {
    let mut chain = SimChain::new(66);
    chain.mine_empty(3).unwrap();
    let size = chain.block(&chain.tip()).unwrap().total_size();
    let limits = |transaction_bytes| Limits { transaction_bytes, ..Limits::default() };
    let ask = |transaction_bytes, field: &str| {
        let mut api = Api::empty(Network::Regtest, limits(transaction_bytes));
        api.change(0, chain.active_blocks().map(Arc::as_ref));
        api.ask(&format!("{{ tip {{ {field} }} }}"))["errors"][0]["extensions"].clone()
    };
    assert_eq!(ask(size, "rawHex"), Value::Null);
    let refused = |limit, actual| json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "transactionBytes", "limit": limit, "actual": actual });
    assert_eq!(ask(size - 1, "rawHex"), refused(size - 1, size));
    assert_eq!(ask(2 * size - 1, "rawHex again: rawHex"), refused(2 * size - 1, 2 * size));
    assert_eq!(ask(64, "txids"), Value::Null);
    assert_eq!(ask(63, "txids"), refused(63, 64));
}

#[test]
fn the_blocks_of_a_real_chain_hash_back_to_what_they_are_and_add_up_to_their_range() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks);
    let (mut sums, mut height) = ([0; 7], 0);
    loop {
        let page = api.data(&format!(
            "{{ blocks(first: 15, order: ASC, range: {{ heights: {{ from: {height} }} }}) {{ nodes {{
                hash rawHex txids size weight txCount totalFees subsidy stats {{ inputCount outputCount totalOutputValue }}
            }} }} }}"
        ));
        let nodes = page["blocks"]["nodes"].as_array().unwrap();
        for node in nodes {
            let raw = node["rawHex"].as_str().unwrap();
            let block: Block = bitcoin::consensus::encode::deserialize_hex(raw).unwrap();
            assert_eq!(block, blocks[height]);
            assert_eq!(json!(block.block_hash().to_string()), node["hash"]);
            assert_eq!(
                json!(block.txdata.iter().map(|tx| tx.compute_txid().to_string()).collect::<Vec<_>>()),
                node["txids"]
            );
            let stats = &node["stats"];
            for (sum, value) in sums.iter_mut().zip([
                &node["size"],
                &node["weight"],
                &node["txCount"],
                &node["totalFees"],
                &node["subsidy"],
                &stats["inputCount"],
                &stats["outputCount"],
            ]) {
                *sum += value.as_u64().unwrap();
            }
            height += 1;
        }
        if nodes.len() < 15 {
            break;
        }
    }
    assert_eq!(height, blocks.len());
    let range = api.data(
        "{ chain { network genesisHash range { blockCount size weight txCount fees subsidy inputCount outputCount
           difficultySum emptyBlockCount } supply { circulating } } }",
    );
    let [size, weight, transactions, fees, subsidy, inputs, outputs] = sums;
    let mut sums = range["chain"]["range"].clone();
    // every block of it has difficulty 1, to the rounding of a work to whole hashes
    let difficulty = sums["difficultySum"].take().as_f64().unwrap();
    assert!((difficulty / 4_522.0 - 1.0).abs() < 1e-9, "{difficulty}");
    assert_eq!(
        sums,
        json!({
            "blockCount": 4_522, "size": size, "weight": weight, "txCount": transactions, "fees": fees.to_string(),
            "subsidy": subsidy.to_string(), "inputCount": inputs, "outputCount": outputs, "difficultySum": null,
            "emptyBlockCount": blocks.iter().filter(|block| block.txdata.len() == 1).count(),
        })
    );
    assert_eq!(range["chain"]["network"], json!("MAINNET"));
    assert_eq!(range["chain"]["genesisHash"], json!(blocks[0].block_hash().to_string()));
    assert_eq!(range["chain"]["supply"]["circulating"], json!("22605000000000"));
}
