//! Transactions, their inputs and outputs, and what became of each output.

use std::sync::Arc;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Block, Network, ScriptBuf, Sequence, TxOut, absolute};
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, coinbase_output, real_chain, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    a_transaction_is_answered_whole,
    a_coinbase_has_nulls_where_there_is_nothing_and_no_errors,
    a_coinbase_output_is_mature_once_the_next_block_may_spend_it,
    outputs_that_can_never_be_spent_say_why,
    a_lock_time_is_a_height_or_a_moment_and_says_whether_it_has_passed,
    a_transaction_that_only_stale_blocks_hold_is_reorged_out,
    of_a_txid_that_the_chain_holds_twice_the_later_copy_answers
);

const MINER: Owner = Owner::new(ScriptKind::P2wsh, 0);

fn address_of(script: &ScriptBuf) -> Value {
    json!(bitcoin::Address::from_script(script, Network::Regtest).unwrap().to_string())
}

/// A chain whose first coinbase has matured, and that coinbase's block.
fn mature_chain() -> (SimChain, Arc<Block>) {
    let mut chain = SimChain::new(2).with_clock(1_700_000_000, 600);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    (chain, first)
}

#[test]
fn the_first_payment_ever_made_is_shown_with_what_it_spent() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks[..=248]);
    let txid = "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16";
    let answer = api.data(
        "{ block(height: 170) { hash time transactions(first: 1, after: null) { totalCount } last: transactions(last: 1) { nodes {
            txid fee feeRate totalInputValue totalOutputValue size vsize isCoinbase
            inputs { nodes { outpoint { txid vout } prevout { value scriptType address isCoinbase spentHeight spentBy { index transaction { txid } } transaction { block { height } } } } }
            outputs { totalCount nodes { vout value scriptType address spendStatus } }
        } } } }",
    );
    assert_eq!(
        answer,
        json!({ "block": {
            "hash": "00000000d1145790a8694403d4063f323d499e655c83426834d4ce2f8dd4a2ee",
            "time": "2009-01-12T03:30:25Z",
            "transactions": { "totalCount": 2 },
            "last": { "nodes": [{
                "txid": txid,
                "fee": 0,
                "feeRate": 0.0,
                "totalInputValue": 5_000_000_000_u64,
                "totalOutputValue": 5_000_000_000_u64,
                "size": 275,
                "vsize": 275,
                "isCoinbase": false,
                "inputs": { "nodes": [{
                    "outpoint": { "txid": "0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9", "vout": 0 },
                    "prevout": {
                        "value": 5_000_000_000_u64,
                        "scriptType": "P2PK",
                        "address": null,
                        "isCoinbase": true,
                        "spentHeight": 170,
                        "spentBy": { "index": 0, "transaction": { "txid": txid } },
                        "transaction": { "block": { "height": 9 } },
                    },
                }] },
                "outputs": { "totalCount": 2, "nodes": [
                    { "vout": 0, "value": 1_000_000_000, "scriptType": "P2PK", "address": null, "spendStatus": "UNSPENT" },
                    { "vout": 1, "value": 4_000_000_000_u64, "scriptType": "P2PK", "address": null, "spendStatus": "SPENT" },
                ] },
            }] },
        } })
    );
}

fn a_transaction_is_answered_whole(form: IndexForm) {
    let (mut chain, first) = mature_chain();
    let (payee, change) = (Owner::new(ScriptKind::P2wpkh, 1), Owner::new(ScriptKind::P2trKey, 2));
    let outputs = vec![payee.output(sat(1_000_000)), change.output(sat(4_998_999_000))];
    let spending = spend(&chain, MINER, &[coinbase_output(&first, 0)], outputs);
    let block = chain.mine(vec![spending.clone()]).unwrap();
    let next = spend(
        &chain,
        payee,
        &[bitcoin::OutPoint { txid: spending.compute_txid(), vout: 0 }],
        vec![MINER.output(sat(999_000))],
    );
    chain.mine(vec![next.clone()]).unwrap();
    let api = Api::of_chain_in(form, &chain);

    let txid = spending.compute_txid();
    let answer = api.data(&format!(
        "{{ transaction(txid: \"{txid}\") {{
            id txid wtxid version size strippedSize weight vsize isCoinbase hex state confirmations indexInBlock
            lockTime {{ raw height time isFinalAtNextBlock }} block {{ hash }}
            inputCount outputCount totalInputValue totalOutputValue fee feeRate
            inputs {{ totalCount nodes {{
                index transaction {{ txid }} outpoint {{ txid vout }} sequence isCoinbase scriptSigHex witness
                prevout {{ id value spendStatus spentBy {{ index transaction {{ id }} }} }}
            }} }}
            outputs {{ totalCount nodes {{
                id outpoint {{ text }} vout transaction {{ txid }} value scriptPubKey asm scriptType address isCoinbase
                matureAtHeight isMature spendStatus unspendableReason spentHeight
                spentBy {{ index outpoint {{ txid vout }} transaction {{ txid }} }}
            }} }}
        }} }}"
    ));
    let weight = spending.weight().to_wu();
    let feerate = 1_000.0 * 4.0 / f64::from(u32::try_from(weight).unwrap());
    let input = &spending.input[0];
    let (payee_script, change_script) = (payee.script_pubkey(), change.script_pubkey());
    let inputs = json!([{
        "index": 0,
        "transaction": { "txid": txid.to_string() },
        "outpoint": { "txid": input.previous_output.txid.to_string(), "vout": 0 },
        "sequence": 4_294_967_295_u32,
        "isCoinbase": false,
        "scriptSigHex": "",
        "witness": input.witness.iter().map(hex).collect::<Vec<_>>(),
        "prevout": {
            "id": format!("Output:{}:0", input.previous_output.txid),
            "value": 5_000_000_000_u64,
            "spendStatus": "SPENT",
            "spentBy": { "index": 0, "transaction": { "id": format!("Transaction:{txid}") } },
        },
    }]);
    let outputs = json!([
        {
            "id": format!("Output:{txid}:0"),
            "outpoint": { "text": format!("{txid}:0") },
            "vout": 0,
            "transaction": { "txid": txid.to_string() },
            "value": 1_000_000,
            "scriptPubKey": payee_script.to_hex_string(),
            "asm": format!("0 {}", payee_script[2..].to_hex_string()),
            "scriptType": "P2WPKH",
            "address": address_of(&payee_script),
            "isCoinbase": false,
            "matureAtHeight": null,
            "isMature": true,
            "spendStatus": "SPENT",
            "unspendableReason": null,
            "spentHeight": 103,
            "spentBy": { "index": 0, "outpoint": { "txid": txid.to_string(), "vout": 0 }, "transaction": { "txid": next.compute_txid().to_string() } },
        },
        {
            "id": format!("Output:{txid}:1"),
            "outpoint": { "text": format!("{txid}:1") },
            "vout": 1,
            "transaction": { "txid": txid.to_string() },
            "value": 4_998_999_000_u64,
            "scriptPubKey": change_script.to_hex_string(),
            "asm": format!("1 {}", change_script[2..].to_hex_string()),
            "scriptType": "P2TR",
            "address": address_of(&change_script),
            "isCoinbase": false,
            "matureAtHeight": null,
            "isMature": true,
            "spendStatus": "UNSPENT",
            "unspendableReason": null,
            "spentHeight": null,
            "spentBy": null,
        },
    ]);
    let expected = json!({
        "id": format!("Transaction:{txid}"),
        "txid": txid.to_string(),
        "wtxid": spending.compute_wtxid().to_string(),
        "version": 2,
        "size": spending.total_size(),
        "strippedSize": spending.base_size(),
        "weight": weight,
        "vsize": weight.div_ceil(4),
        "isCoinbase": false,
        "hex": serialize_hex(&spending),
        "state": "CONFIRMED",
        "confirmations": 2,
        "indexInBlock": 1,
        "lockTime": { "raw": 0, "height": 0, "time": null, "isFinalAtNextBlock": true },
        "block": { "hash": block.block_hash().to_string() },
        "inputCount": 1,
        "outputCount": 2,
        "totalInputValue": 5_000_000_000_u64,
        "totalOutputValue": 4_999_999_000_u64,
        "fee": 1_000,
        "feeRate": feerate,
        "inputs": { "totalCount": 1, "nodes": inputs },
        "outputs": { "totalCount": 2, "nodes": outputs },
    });
    assert_eq!(answer["transaction"], expected);
}

fn hex(bytes: &[u8]) -> String {
    bytes.to_lower_hex_string()
}

fn a_coinbase_has_nulls_where_there_is_nothing_and_no_errors(form: IndexForm) {
    let (chain, first) = mature_chain();
    let api = Api::of_chain_in(form, &chain);
    let txid = first.txdata[0].compute_txid();
    assert_eq!(
        api.data(&format!(
            "{{ transaction(txid: \"{txid}\") {{ isCoinbase fee feeRate totalInputValue totalOutputValue inputCount
                inputs {{ nodes {{ isCoinbase outpoint {{ txid vout }} prevout {{ id }} sequence witness }} }}
                outputs(first: 1) {{ nodes {{ isCoinbase matureAtHeight isMature }} }} }} }}"
        )),
        json!({ "transaction": {
            "isCoinbase": true,
            "fee": null,
            "feeRate": null,
            "totalInputValue": null,
            "totalOutputValue": 5_000_000_000_u64,
            "inputCount": 1,
            "inputs": { "nodes": [{
                "isCoinbase": true,
                "outpoint": null,
                "prevout": null,
                "sequence": first.txdata[0].input[0].sequence.0,
                "witness": first.txdata[0].input[0].witness.iter().map(hex).collect::<Vec<_>>(),
            }] },
            "outputs": { "nodes": [{ "isCoinbase": true, "matureAtHeight": 101, "isMature": true }] },
        } })
    );
}

fn a_coinbase_output_is_mature_once_the_next_block_may_spend_it(form: IndexForm) {
    let mut chain = SimChain::new(3);
    let first = chain.mine(Vec::new()).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    let question = format!(
        "{{ transaction(txid: \"{}\") {{ confirmations outputs(first: 1) {{ nodes {{ isMature matureAtHeight }} }} }} }}",
        first.txdata[0].compute_txid()
    );
    for confirmations in 2..=101 {
        api.connect(&chain.mine(Vec::new()).unwrap());
        let node = json!({ "isMature": confirmations >= 100, "matureAtHeight": 101 });
        let expected = json!({ "transaction": { "confirmations": confirmations, "outputs": { "nodes": [node] } } });
        assert_eq!(api.data(&question), expected);
    }
}

fn outputs_that_can_never_be_spent_say_why(form: IndexForm) {
    let (mut chain, first) = mature_chain();
    let outputs = [ScriptKind::OpReturn, ScriptKind::BareOpReturn, ScriptKind::Oversized, ScriptKind::Empty]
        .map(|kind| Owner::new(kind, 1).output(Amount::ZERO));
    let spending = spend(&chain, MINER, &[coinbase_output(&first, 0)], outputs.to_vec());
    chain.mine(vec![spending.clone()]).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let found = api.data(&format!(
        "{{ transaction(txid: \"{}\") {{ outputs {{ nodes {{ scriptType spendStatus unspendableReason address }} }} }} }}",
        spending.compute_txid()
    ));
    let output = |script_type: &str, status: &str, reason: Value| json!({ "scriptType": script_type, "spendStatus": status, "unspendableReason": reason, "address": null });
    assert_eq!(
        found["transaction"]["outputs"]["nodes"],
        json!([
            output("OP_RETURN", "UNSPENDABLE", json!("OP_RETURN")),
            output("OP_RETURN", "UNSPENDABLE", json!("OP_RETURN")),
            output("NONSTANDARD", "UNSPENDABLE", json!("OVERSIZE_SCRIPT")),
            output("EMPTY", "UNSPENT", Value::Null),
        ])
    );

    let genesis = api.data("{ block(height: 0) { transactions { nodes { outputs { nodes { value spendStatus unspendableReason spentBy { index } } } } } } }");
    assert_eq!(
        genesis["block"]["transactions"]["nodes"][0]["outputs"]["nodes"],
        json!([{ "value": 5_000_000_000_u64, "spendStatus": "UNSPENDABLE", "unspendableReason": "GENESIS_COINBASE", "spentBy": null }])
    );
}

fn a_lock_time_is_a_height_or_a_moment_and_says_whether_it_has_passed(form: IndexForm) {
    let (chain, first) = mature_chain();
    let coin = coinbase_output(&first, 0);
    // the next block is 102, and the median time past of the tip is that of block 96
    let median = 1_700_000_000 + 95 * 600;
    for (lock, sequence, height, time, is_final) in [
        (101, 0, json!(101), Value::Null, true),
        (102, 0, json!(102), Value::Null, false),
        (102, u32::MAX, json!(102), Value::Null, true),
        (499_999_999, 0, json!(499_999_999), Value::Null, false),
        (median - 1, 0, Value::Null, json!("2023-11-15T14:03:19Z"), true),
        (median, 0, Value::Null, json!("2023-11-15T14:03:20Z"), false),
    ] {
        let mut chain = chain.clone();
        let mut locked = spend(&chain, MINER, &[coin], vec![MINER.output(sat(1))]);
        locked.lock_time = absolute::LockTime::from_consensus(lock);
        locked.input[0].sequence = Sequence(sequence);
        // it is in a stale block, and waits to be mined again
        let stale = chain.mine(vec![locked.clone()]).unwrap();
        let mut api = Api::of_chain_in(form, &chain);
        api.change(1, []);
        assert_eq!(
            api.data(&format!("{{ transaction(txid: \"{}\") {{ state lockTime {{ raw height time isFinalAtNextBlock }} }} tip {{ height }} }}", locked.compute_txid())),
            json!({
                "transaction": { "state": "REORGED_OUT", "lockTime": { "raw": lock, "height": height, "time": time, "isFinalAtNextBlock": is_final } },
                "tip": { "height": 101 },
            }),
            "in {}", stale.block_hash()
        );
    }
}

fn a_transaction_that_only_stale_blocks_hold_is_reorged_out(form: IndexForm) {
    let (mut chain, first) = mature_chain();
    let paid = spend(&chain, MINER, &[coinbase_output(&first, 0)], vec![MINER.output(sat(4_999_000_000))]);
    let again = |txid| bitcoin::OutPoint { txid, vout: 0 };
    chain.mine(vec![paid.clone()]).unwrap();
    let next = spend(
        &chain,
        MINER,
        &[again(paid.compute_txid())],
        vec![TxOut { value: sat(4_998_000_000), ..MINER.output(sat(0)) }],
    );
    chain.mine(vec![next.clone()]).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    api.change(2, []);
    assert_eq!(
        api.data(&format!(
            "{{ transaction(txid: \"{}\") {{ state confirmations block {{ id }} indexInBlock fee totalInputValue
                inputs {{ nodes {{ prevout {{ value transaction {{ state }} }} }} }}
                outputs {{ nodes {{ value spendStatus spentBy {{ index }} matureAtHeight isMature }} }} }} }}",
            next.compute_txid()
        )),
        json!({ "transaction": {
            "state": "REORGED_OUT",
            "confirmations": 0,
            "block": null,
            "indexInBlock": null,
            "fee": 1_000_000,
            "totalInputValue": 4_999_000_000_u64,
            "inputs": { "nodes": [{ "prevout": { "value": 4_999_000_000_u64, "transaction": { "state": "REORGED_OUT" } } }] },
            "outputs": { "nodes": [{ "value": 4_998_000_000_u64, "spendStatus": null, "spentBy": null, "matureAtHeight": null, "isMature": true }] },
        } })
    );
}

fn of_a_txid_that_the_chain_holds_twice_the_later_copy_answers(form: IndexForm) {
    let mut chain = SimChain::new(4);
    let owner = Owner::new(ScriptKind::P2pkh, 5);
    let template = Template { reward: Some(Reward::to(owner.script_pubkey())), ..Template::default() };
    let first = chain.mine_template(template).unwrap();
    chain.mine_empty(3).unwrap();
    let second = chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let txid = first.txdata[0].compute_txid().to_string();
    let copy = json!({ "txid": txid, "confirmations": 1, "block": { "hash": second.block_hash().to_string() }, "outputs": { "nodes": [{ "spendStatus": "UNSPENT", "unspendableReason": null, "matureAtHeight": 105 }] } });
    let found = api.data(&format!(
        "{{ transaction(txid: \"{txid}\") {{ ...Copy }}
            earlier: block(height: 1) {{ transactions {{ nodes {{ ...Copy }} }} }}
            later: block(height: 5) {{ transactions {{ nodes {{ ...Copy }} }} }} }}
         fragment Copy on Transaction {{ txid confirmations block {{ hash }} outputs(first: 1) {{ nodes {{ spendStatus unspendableReason matureAtHeight }} }} }}"
    ));
    let list = json!({ "transactions": { "nodes": [copy] } });
    assert_eq!(found, json!({ "transaction": copy, "earlier": list, "later": list }));
}
