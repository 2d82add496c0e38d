//! Blocks: what is known of one, by which key it is found, and what is left of it after a reorganisation.

use std::sync::Arc;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Block, Network};
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, branch, coinbase_output, error, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    a_block_is_answered_whole,
    hash_height_and_tip_lead_to_one_block,
    a_transaction_of_a_stale_block_is_shown_where_it_is_now,
    a_transaction_of_a_stale_block_that_waits_again_is_shown_in_the_mempool
);

const MINER: Owner = Owner::new(ScriptKind::P2wsh, 0);

/// 101 blocks, and one that spends the first coinbase with a fee of 1,000 sat and claims 400 sat less than it may.
fn chain() -> (SimChain, Arc<Block>) {
    let mut chain = SimChain::new(1).with_clock(1_700_000_000, 600);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let paid = vec![Owner::new(ScriptKind::P2wpkh, 7).output(Amount::from_sat(4_999_999_000))];
    let spending = spend(&chain, MINER, &[coinbase_output(&first, 0)], paid);
    let reward = Reward::to(MINER.script_pubkey()).withholding(sat(400));
    let template = Template { transactions: vec![spending], reward: Some(reward), ..Template::default() };
    let block = chain.mine_template(template).unwrap();
    (chain, block)
}

fn a_block_is_answered_whole(form: IndexForm) {
    let (mut chain, block) = chain();
    chain.mine(Vec::new()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let header = block.header;
    let hash = block.block_hash().to_string();
    let answer = api.data(&format!(
        "{{ block(hash: \"{hash}\") {{
            id hash height headerHex version merkleRoot time medianTime timestamp bits nonce
            difficulty target chainwork size strippedSize weight txCount chainStatus confirmations
            previousBlock {{ hash height }} nextBlock {{ hash height previousBlock {{ hash }} }}
            subsidy totalFees coinbaseValue unclaimedReward
            header {{ hash height hex version previousBlockHash merkleRoot time timestamp bits nonce }}
            transactions {{ totalCount nodes {{ txid indexInBlock }} pageInfo {{ hasNextPage hasPreviousPage }} }}
        }} }}"
    ));
    let header_fields = json!({
        "hash": hash,
        "height": 102,
        "hex": serialize_hex(&header),
        "version": 0x2000_0000,
        "previousBlockHash": header.prev_blockhash.to_string(),
        "merkleRoot": header.merkle_root.to_string(),
        "time": "2023-11-15T15:03:20Z",
        "timestamp": 1_700_000_000 + 101 * 600,
        "bits": 0x207f_ffff,
        "nonce": header.nonce,
    });
    let expected = json!({
        "id": format!("Block:{hash}"),
        "hash": hash,
        "height": 102,
        "headerHex": serialize_hex(&header),
        "version": 0x2000_0000,
        "merkleRoot": header.merkle_root.to_string(),
        "time": "2023-11-15T15:03:20Z",
        "medianTime": "2023-11-15T14:13:20Z",
        "timestamp": 1_700_000_000 + 101 * 600,
        "bits": 0x207f_ffff,
        "nonce": header.nonce,
        "difficulty": 65_535.0 / 8_388_607.0 / 16_777_216.0,
        "target": format!("7fffff{}", "0".repeat(58)),
        "chainwork": format!("{:064x}", 103 * 2),
        "size": block.total_size(),
        "strippedSize": (block.weight().to_wu() - u64::try_from(block.total_size()).unwrap()) / 3,
        "weight": block.weight().to_wu(),
        "txCount": 2,
        "chainStatus": "MAIN",
        "confirmations": 2,
        "previousBlock": { "hash": header.prev_blockhash.to_string(), "height": 101 },
        "nextBlock": { "hash": chain.tip().to_string(), "height": 103, "previousBlock": { "hash": hash } },
        "subsidy": 5_000_000_000_u64,
        "totalFees": 1_000,
        "coinbaseValue": 5_000_000_600_u64,
        "unclaimedReward": 400,
        "header": header_fields,
        "transactions": {
            "totalCount": 2,
            "nodes": [
                { "txid": block.txdata[0].compute_txid().to_string(), "indexInBlock": 0 },
                { "txid": block.txdata[1].compute_txid().to_string(), "indexInBlock": 1 },
            ],
            "pageInfo": { "hasNextPage": false, "hasPreviousPage": false },
        },
    });
    assert_eq!(answer["block"], expected);
}

fn hash_height_and_tip_lead_to_one_block(form: IndexForm) {
    let (chain, block) = chain();
    let api = Api::of_chain_in(form, &chain);
    let found = api.data(&format!(
        "{{ tip {{ id }} byHeight: block(height: 102) {{ id }} byHash: block(hash: \"{}\") {{ id }} }}",
        block.block_hash()
    ));
    let id = json!({ "id": format!("Block:{}", block.block_hash()) });
    assert_eq!(found, json!({ "tip": id, "byHeight": id, "byHash": id }));
}

#[test]
fn genesis_has_none_before_it_and_the_tip_none_after_it() {
    let (chain, _) = chain();
    let api = Api::of_chain(&chain);
    assert_eq!(
        api.data("{ block(height: 0) { hash confirmations previousBlock { id } nextBlock { height } header { previousBlockHash } } tip { nextBlock { id } confirmations } }"),
        json!({
            "block": {
                "hash": bitcoin::constants::genesis_block(Network::Regtest).block_hash().to_string(),
                "confirmations": 103,
                "previousBlock": null,
                "nextBlock": { "height": 1 },
                "header": { "previousBlockHash": null },
            },
            "tip": { "nextBlock": null, "confirmations": 1 },
        })
    );
}

#[test]
fn what_is_not_there_is_null_without_an_error() {
    let (chain, _) = chain();
    let api = Api::of_chain(&chain);
    let unknown = "00".repeat(32);
    assert_eq!(
        api.data(&format!("{{ above: block(height: 103) {{ id }} far: block(height: 2147483647) {{ id }} unknown: block(hash: \"{unknown}\") {{ id }} transaction(txid: \"{unknown}\") {{ id }} }}")),
        json!({ "above": null, "far": null, "unknown": null, "transaction": null })
    );
}

#[test]
fn a_block_has_exactly_one_key_and_no_height_below_zero() {
    let (chain, block) = chain();
    let api = Api::of_chain(&chain);
    let hash = block.block_hash();
    let none = "give exactly one of hash, height, got none of them";
    for (arguments, argument, message) in [
        (String::new(), "hash", none),
        (format!("(hash: \"{hash}\", height: 102)"), "hash", "give exactly one of hash, height, got hash and height"),
        ("(hash: null, height: null)".to_owned(), "hash", none),
        ("(height: -1)".to_owned(), "height", "height is -1, and the first block is at height 0"),
    ] {
        let extensions = json!({ "code": "BAD_USER_INPUT", "argument": argument });
        assert_eq!(
            api.ask(&format!("{{ block{arguments} {{ id }} tip {{ height }} }}")),
            json!({
                "data": { "block": null, "tip": { "height": 102 } },
                "errors": [error(&json!(["block"]), 3, message, &extensions)],
            })
        );
    }
    assert_eq!(api.refusal("{ transaction { id } }"), json!("BAD_USER_INPUT"));
    assert_eq!(api.refusal("{ block(height: 2147483648) { id } }"), json!("GRAPHQL_VALIDATION_FAILED"));
}

#[test]
fn a_text_that_is_no_hash_does_not_pass_validation() {
    let (chain, _) = chain();
    let api = Api::of_chain(&chain);
    for bad in ["", "102", &"0".repeat(63), &"0".repeat(65), &"x".repeat(64)] {
        assert_eq!(api.refusal(&format!("{{ block(hash: \"{bad}\") {{ id }} }}")), json!("GRAPHQL_VALIDATION_FAILED"));
        let by_variable = api.ask_with("query($h: BlockHash) { block(hash: $h) { id } }", json!({ "h": bad }));
        assert_eq!(by_variable["data"], Value::Null);
        assert_eq!(by_variable["errors"][0]["extensions"]["code"], json!("GRAPHQL_VALIDATION_FAILED"), "{by_variable}");
    }
}

#[test]
fn a_stale_block_is_found_by_its_hash_and_says_so() {
    let (mut chain, old) = chain();
    let mut api = Api::of_chain(&chain);
    let parent = old.header.prev_blockhash;
    let branch = branch(&mut chain, parent, 2, &[]);
    api.change(1, branch.iter().map(Arc::as_ref));
    let hash = old.block_hash();
    let (coinbase, spending) = (old.txdata[0].compute_txid(), old.txdata[1].compute_txid());
    assert_eq!(
        api.data(&format!(
            "{{ block(hash: \"{hash}\") {{
                hash height chainStatus confirmations previousBlock {{ hash chainStatus nextBlock {{ hash }} }} nextBlock {{ hash }}
                transactions {{ totalCount nodes {{ txid state confirmations indexInBlock block {{ id }} fee }} }}
            }} block102: block(height: 102) {{ hash }} }}"
        )),
        json!({
            "block": {
                "hash": hash.to_string(),
                "height": 102,
                "chainStatus": "STALE",
                "confirmations": 0,
                "previousBlock": { "hash": parent.to_string(), "chainStatus": "MAIN", "nextBlock": { "hash": branch[0].block_hash().to_string() } },
                "nextBlock": null,
                "transactions": {
                    "totalCount": 2,
                    "nodes": [
                        { "txid": coinbase.to_string(), "state": "REORGED_OUT", "confirmations": 0, "indexInBlock": null, "block": null, "fee": null },
                        { "txid": spending.to_string(), "state": "REORGED_OUT", "confirmations": 0, "indexInBlock": null, "block": null, "fee": 1_000 },
                    ],
                },
            },
            "block102": { "hash": branch[0].block_hash().to_string() },
        })
    );
}

fn a_transaction_of_a_stale_block_is_shown_where_it_is_now(form: IndexForm) {
    let (mut chain, old) = chain();
    let mut api = Api::of_chain_in(form, &chain);
    let spending = old.txdata[1].clone();
    let branch = branch(&mut chain, old.header.prev_blockhash, 2, std::slice::from_ref(&spending));
    api.change(1, branch.iter().map(Arc::as_ref));
    let place = json!({ "state": "CONFIRMED", "block": { "height": 103 }, "indexInBlock": 1, "confirmations": 1 });
    let found = api.data(&format!(
        "{{ transaction(txid: \"{}\") {{ ...Place }}
           block(hash: \"{}\") {{ transactions(last: 1) {{ nodes {{ ...Place }} }} }} }}
         fragment Place on Transaction {{ state block {{ height }} indexInBlock confirmations }}",
        spending.compute_txid(),
        old.block_hash()
    ));
    assert_eq!(found, json!({ "transaction": place, "block": { "transactions": { "nodes": [place] } } }));
}

fn a_transaction_of_a_stale_block_that_waits_again_is_shown_in_the_mempool(form: IndexForm) {
    let (mut chain, old) = chain();
    let mut api = Api::of_chain_in(form, &chain);
    let spending = old.txdata[1].clone();
    let (txid, hash) = (spending.compute_txid(), old.block_hash());
    let branch = branch(&mut chain, old.header.prev_blockhash, 2, &[]);
    api.change(1, branch.iter().map(Arc::as_ref));
    let shown = |api: &Api| {
        let mut found = api.data(&format!(
            "{{ transaction(txid: \"{txid}\") {{ ...Place }}
               block(hash: \"{hash}\") {{ transactions(last: 1) {{ nodes {{ ...Place }} }} transaction(index: 1) {{ ...Place }} }} }}
             fragment Place on Transaction {{ id state firstSeenAt mempoolEntry {{ addedAt }} outputs {{ nodes {{ spendStatus }} }} }}",
        ));
        let now = found["transaction"].take();
        let block = json!({ "transactions": { "nodes": [now] }, "transaction": now });
        assert_eq!(found, json!({ "transaction": null, "block": block }));
        now
    };
    assert_eq!(shown(&api)["state"], json!("REORGED_OUT"));
    api.arrive([&spending]);
    let waiting = shown(&api);
    assert_eq!(waiting["mempoolEntry"], json!({ "addedAt": waiting["firstSeenAt"] }));
    assert!(waiting["firstSeenAt"].is_string(), "{waiting}");
    assert_eq!(waiting["outputs"]["nodes"][0]["spendStatus"], json!("UNSPENT"));
    // and what is known of it once it has left
    api.arrive([&conflicting(&spending)]);
    let replaced = shown(&api);
    assert_eq!(replaced["state"], json!("REPLACED"));
    assert!(replaced["firstSeenAt"].is_string(), "{replaced}");
}

/// Another transaction that spends the same.
fn conflicting(spending: &bitcoin::Transaction) -> bitcoin::Transaction {
    let mut other = spending.clone();
    other.output[0].value -= Amount::from_sat(500);
    other
}
