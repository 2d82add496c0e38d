//! Unconfirmed transactions: both nodes get the same ones, and their responses are equal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bitcoin::consensus::deserialize;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, ScriptBuf, Transaction, TxOut};
use btcgraph::chain::Feerate;
use btcgraph::node::{Answer, EstimateMode, MaxFees, MempoolInfo, MempoolList, Node, Question};
use btcgraph::sim::{Owner, Payment, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, World};
use serde_json::{Value, json};

use super::comparison::{Comparison, Exceptions};
use super::pair::{Pair, submit};
use crate::support::bitcoind::RealNode;

const EXCEPTIONS: Exceptions = Exceptions {
    left_out: &[
        ("asm", "a disassembled script, which no client here reads"),
        ("desc", "a descriptor, which no client here reads"),
        ("unbroadcast", "there are no peers to broadcast to"),
        ("unbroadcastcount", "there are no peers to broadcast to"),
        ("dustrelayfee", "the simulated node has no dust limit"),
    ],
    of_knots: &[
        ("hash", "of an entry: a former name of wtxid"),
        ("startingpriority", "a policy of its own"),
        ("currentpriority", "a policy of its own"),
        ("dustrelayfeefloor", "a policy of its own"),
        ("dustdynamic", "a policy of its own"),
        ("rbf_policy", "a policy of its own"),
        ("usage", "of a verdict: the memory that it would use"),
        ("truc_policy", "a policy of its own"),
    ],
    own: &[("usage", "the memory of each node")],
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The time of both nodes.
const NOW: u32 = 1_700_000_000;

fn owner(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wpkh, n)
}

/// Both with 120 blocks, without transactions, and the coins of the first twenty blocks.
fn start() -> Option<(Pair, Vec<Spendable>)> {
    let time = format!("-mocktime={NOW}");
    let fees = ["-minrelaytxfee=0.00001", "-incrementalrelayfee=0.00001", "-blockmintxfee=0.00001"];
    let real = RealNode::start(&[&["-txindex=0", "-disablewallet", "-acceptnonstdtxn=1", &time], &fees[..]].concat())?;
    let mut chain = SimChain::new(11);
    let blocks = chain.mine_empty(120).unwrap();
    for block in &blocks {
        submit(&real, block);
    }
    let coins = blocks.iter().take(20).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    let coins = coins.collect();
    let mut world = World::new(chain);
    world.set_time(NOW);
    let stale = world.chain().tip();
    let sim = SimNode::start(Arc::new(Mutex::new(world)), SimNodeOptions::default()).unwrap();
    Some((Pair { sim, real, stale }, coins))
}

/// Sends requests to both and collects the differences.
struct Requests<'p> {
    pair: &'p Pair,
    comparison: Comparison,
}

impl Requests<'_> {
    /// Compares both responses and returns that of the simulated node.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let body = json!({"method": method, "params": params, "id": 1}).to_string();
        let (sim, real) = self.pair.post(&body);
        let request = format!("{method} {}", params.to_string().chars().take(80).collect::<String>());
        self.comparison.compare(&request, &sim, &real, &EXCEPTIONS);
        serde_json::from_slice(&sim.body).unwrap()
    }

    fn send(&mut self, tx: &Transaction) -> Value {
        self.ask("testmempoolaccept", &json!([[serialize_hex(tx)]]));
        self.ask("sendrawtransaction", &json!([serialize_hex(tx)]))
    }

    fn get(&mut self, path: &str) {
        let (sim, real) = self.pair.get(path);
        self.comparison.compare(path, &sim, &real, &EXCEPTIONS);
    }

    fn everything(&mut self, txids: &[String]) {
        self.ask("getrawmempool", &json!([]));
        self.ask("getrawmempool", &json!([true]));
        self.ask("getrawmempool", &json!([false, true]));
        self.ask("getmempoolinfo", &json!([]));
        for txid in txids {
            self.ask("getmempoolentry", &json!([txid]));
            self.ask("getrawtransaction", &json!([txid]));
            self.ask("getrawtransaction", &json!([txid, 1]));
            self.ask("gettxout", &json!([txid, 0]));
            self.ask("gettxout", &json!([txid, 1, false]));
            self.get(&format!("/rest/tx/{txid}.bin"));
            self.get(&format!("/rest/tx/{txid}.json"));
        }
        self.get("/rest/mempool/info.json");
        self.get("/rest/mempool/contents.json");
        self.get("/rest/mempool/contents.json?verbose=false");
        self.get("/rest/mempool/contents.json?verbose=false&mempool_sequence=true");
    }
}

#[test]
fn transactions_are_accepted_refused_and_replaced_like_a_node() {
    let Some((pair, coins)) = start() else { return };
    let mut requests = Requests { pair: &pair, comparison: Comparison::default() };
    // half to an owner, and the rest as change
    let pay = |coin: &Spendable, n: u32, rate: u64| {
        let payment = Payment::of([coin.clone()]).to(owner(n), coin.output.value / 2);
        payment.change(owner(n + 100), rate).sign().unwrap()
    };
    let parent = pay(&coins[0], 1, 5);
    let child = pay(&Spendable::of(&parent, 1, owner(101)).unwrap(), 2, 20);
    let grandchild = pay(&Spendable::of(&child, 0, owner(2)).unwrap(), 3, 8);
    let other = pay(&coins[1], 4, 3);
    let final_one = Payment::of([coins[2].clone()]).sequence(0xffff_fffe).change(owner(5), 2).sign().unwrap();
    let all = [&parent, &child, &grandchild, &other, &final_one];
    let txids: Vec<String> = all.iter().map(|tx| tx.compute_txid().to_string()).collect();
    for tx in all {
        let answer = requests.send(tx);
        assert_eq!(answer["result"], json!(tx.compute_txid().to_string()), "{answer}");
    }
    requests.everything(&txids);
    // a repeated submission is no error, but a refusal of testmempoolaccept
    requests.send(&parent);

    let replacement = pay(&coins[1], 6, 30);
    for tx in [
        pay(&coins[1], 6, 3),
        pay(&coins[3], 7, 0),
        pay(&Spendable { outpoint: bitcoin::OutPoint::new(parent.compute_txid(), 7), ..coins[4].clone() }, 8, 2),
        pay(&Spendable::of(&pair.sim_tip_coinbase(), 0, SimChain::miner()).unwrap(), 8, 2),
        replacement.clone(),
    ] {
        requests.send(&tx);
    }
    requests.everything(&[replacement.compute_txid().to_string(), txids[3].clone()]);

    let dear = pay(&coins[5], 9, 20_000);
    let burning = Payment::of([coins[6].clone()])
        .output(TxOut { value: Amount::from_sat(1_000), script_pubkey: ScriptBuf::new_op_return([7]) })
        .change(owner(10), 2)
        .sign()
        .unwrap();
    for (tx, limits) in [
        (&dear, json!([])),
        (&dear, json!([0.0001])),
        (&dear, json!(["0.0001"])),
        (&dear, json!([1])),
        (&dear, json!([0])),
        (&burning, json!([])),
        (&burning, json!([0.1, "0.00000999"])),
        (&burning, json!([null, 0.00001])),
    ] {
        let with = |mut first: Vec<Value>| {
            first.extend(limits.as_array().unwrap().iter().cloned());
            Value::Array(first)
        };
        if limits.as_array().unwrap().len() < 2 {
            requests.ask("testmempoolaccept", &with(vec![json!([serialize_hex(tx)])]));
        }
        requests.ask("sendrawtransaction", &with(vec![json!(serialize_hex(tx))]));
    }
    for (method, params) in [
        ("sendrawtransaction", json!(["00"])),
        ("sendrawtransaction", json!(["zz"])),
        ("sendrawtransaction", json!([7])),
        ("testmempoolaccept", json!([["00"]])),
        ("testmempoolaccept", json!(["00"])),
        ("getmempoolentry", json!([coins[0].outpoint.txid.to_string()])),
        ("getmempoolentry", json!(["00"])),
        ("getrawmempool", json!([true, true])),
        ("getrawmempool", json!([1])),
        ("gettxout", json!([coins[0].outpoint.txid.to_string(), 0])),
        ("gettxout", json!([coins[0].outpoint.txid.to_string(), 0, false])),
        ("gettxout", json!([coins[9].outpoint.txid.to_string(), 0])),
        ("gettxout", json!([coins[9].outpoint.txid.to_string(), 5])),
        ("gettxout", json!([coins[9].outpoint.txid.to_string(), -1])),
        ("gettxout", json!(["00", 0])),
    ] {
        requests.ask(method, &params);
    }
    requests.get(&format!("/rest/tx/{}.bin", coins[0].outpoint.txid));
    requests.get("/rest/tx/00.bin");
    requests.get("/rest/mempool/info.bin");
    requests.comparison.assert_equal(&EXCEPTIONS, pair.real_is_knots());
}

#[test]
fn packages_are_checked_and_accepted_like_a_real_node() {
    let Some((pair, coins)) = start() else { return };
    let mut requests = Requests { pair: &pair, comparison: Comparison::default() };
    let pay = |spends: &[&Spendable], n: u32, rate: u64| {
        Payment::of(spends.iter().map(|coin| (*coin).clone())).version(3).change(owner(n), rate).sign().unwrap()
    };
    let output = |tx: &Transaction, n: u32| Spendable::of(tx, 0, owner(n)).unwrap();
    let hexes = |transactions: &[&Transaction]| transactions.iter().map(|tx| serialize_hex(*tx)).collect::<Vec<_>>();

    let parent = pay(&[&coins[0]], 1, 5);
    let child = pay(&[&output(&parent, 1)], 2, 9);
    let poor_child = pay(&[&output(&parent, 1)], 3, 0);
    let rival = pay(&[&coins[0]], 4, 7);
    let there = pay(&[&coins[1]], 5, 5);
    requests.send(&there);
    let better = pay(&[&coins[1]], 6, 50);
    let many = vec![&parent; 26];
    for transactions in [
        &[&parent, &child][..],
        &[&child, &parent],
        &[&parent, &parent],
        &[&parent, &rival],
        &[&parent, &poor_child],
        &[&poor_child, &parent],
        &[&better, &parent],
        &[&parent, &there],
        &[&child],
        &[],
        &many,
    ] {
        requests.ask("testmempoolaccept", &json!([hexes(transactions)]));
    }
    requests.ask("testmempoolaccept", &json!([hexes(&[&parent, &child]), 0.000_06]));
    requests.ask("getrawmempool", &json!([false, true]));

    // a parent that pays nothing, for which its child pays
    let free = pay(&[&coins[2]], 7, 0);
    let generous = pay(&[&output(&free, 7)], 8, 20);
    let both = hexes(&[&free, &generous]);
    requests.ask("submitpackage", &json!([both, 0.000_01]));
    assert_eq!(requests.ask("submitpackage", &json!([both]))["result"]["package_msg"], json!("success"));
    requests.everything(&[free.compute_txid().to_string(), generous.compute_txid().to_string()]);
    requests.ask("submitpackage", &json!([both]));
    // each is accepted by itself
    requests.ask("submitpackage", &json!([hexes(&[&parent, &child])]));
    requests.ask("submitpackage", &json!([hexes(&[&better])]));
    let free = pay(&[&coins[3]], 9, 0);
    let stingy = pay(&[&output(&free, 9)], 10, 0);
    for transactions in [&[&free, &stingy][..], &[&free], &[&stingy, &free], &[&free, &rival], &[], &many] {
        requests.ask("submitpackage", &json!([hexes(transactions)]));
    }
    requests.ask("submitpackage", &json!([["00"]]));
    requests.ask("getrawmempool", &json!([false, true]));
    for params in [json!([2]), json!([1, "CONSERVATIVE"]), json!([0]), json!([1009]), json!([6, "other"]), json!([])] {
        requests.ask("estimatesmartfee", &params);
    }
    requests.comparison.assert_no_difference();
}

#[test]
fn the_client_gets_equal_mempool_answers_from_both() {
    let Some((pair, coins)) = start() else { return };
    let nodes = <[Node; 2]>::from(pair.clients());
    let pay = |coin: &Spendable, rate| Payment::of([coin.clone()]).version(3).change(owner(1), rate).sign().unwrap();
    let (sent, free) = (pay(&coins[0], 5), pay(&coins[1], 0));
    let generous = pay(&Spendable::of(&free, 0, owner(1)).unwrap(), 20);
    let unknown = pay(&coins[3], 0);
    let package = [serialize_hex(&free), serialize_hex(&generous)];
    let [sim, real] = nodes.each_ref().map(|node| {
        let tested = node.test_accept(&[serialize_hex(&sent)], None, TIMEOUT).unwrap();
        let first = node.send_raw_transaction(&serialize_hex(&sent), MaxFees::default(), TIMEOUT).unwrap();
        let again = node.send_raw_transaction(&serialize_hex(&sent), MaxFees::default(), TIMEOUT).unwrap();
        assert_eq!((&first, &again), (&Ok(sent.compute_txid()), &Ok(sent.compute_txid())));
        let refused = node.send_raw_transaction(&serialize_hex(&unknown), MaxFees::default(), TIMEOUT).unwrap();
        let limit = MaxFees { feerate: Some(Feerate::from_sat_per_kvb(1_000)), burn: Some(Amount::ZERO) };
        let dear = node.send_raw_transaction(&serialize_hex(&pay(&coins[4], 9)), limit, TIMEOUT).unwrap();
        let submitted = node.submit_package(&package, MaxFees::default(), TIMEOUT).unwrap();
        let MempoolList { mut txids, mempool_sequence: sequence, status: standing } = node.mempool_list().unwrap();
        assert_eq!(standing, node.mempool_status().unwrap());
        txids.sort_unstable();
        txids.push(unknown.compute_txid());
        let bytes = node.raw_transactions(&txids).unwrap();
        let with_times = node.raw_transactions_with_times(&txids).unwrap();
        let times: Vec<_> = with_times.iter().map(|given| given.as_ref().map(|(_, time)| *time)).collect();
        let again: Vec<_> = with_times.into_iter().map(|given| given.map(|(raw, _)| raw)).collect();
        assert_eq!(again, bytes);
        let info = MempoolInfo { usage: 0, ..node.mempool_info().unwrap() };
        let estimates = node.estimate_fees(&[1, 6, 1_008, 1_009], EstimateMode::Conservative).unwrap();
        let template = node.ask_once(&[Question::BlockTemplate], TIMEOUT).unwrap().remove(0);
        (tested, refused, dear, submitted, (txids, sequence), bytes, times, info, estimates, template.unwrap())
    });
    assert_eq!(sim, real);
    let (tested, refused, _, submitted, (txids, sequence), bytes, times, info, estimates, template) = sim;
    assert!(matches!(template, Answer::BlockTemplate(template) if template.transactions.len() == 3));
    assert!(tested.unwrap()[0].verdict.as_ref().unwrap().is_ok());
    assert_eq!(refused.unwrap_err().reason, "min relay fee not met");
    assert_eq!(submitted.unwrap().message, "success");
    assert_eq!((txids.len(), sequence, info.size), (4, 4, 3));
    assert_eq!(times, [Some(NOW.into()), Some(NOW.into()), Some(NOW.into()), None]);
    let id_of = |bytes: &Vec<u8>| deserialize::<Transaction>(bytes).unwrap().compute_txid();
    let expected = [Some(txids[0]), Some(txids[1]), Some(txids[2]), None];
    assert_eq!(bytes.iter().map(|bytes| bytes.as_ref().map(id_of)).collect::<Vec<_>>(), expected);
    assert_eq!(estimates, [None; 4]);
}

#[test]
fn blocks_are_mined_and_invalidated_like_a_real_node() {
    let Some((pair, coins)) = start() else { return };
    let mut requests = Requests { pair: &pair, comparison: Comparison::default() };
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    let tip = pair.stale.to_string();
    let tx = Payment::of([coins[0].clone()]).change(owner(1), 5).sign().unwrap();
    requests.send(&tx);

    requests.ask("invalidateblock", &json!([tip]));
    requests.ask("getblockchaininfo", &json!([]));
    requests.ask("getchaintips", &json!([]));
    requests.ask("getrawmempool", &json!([false, true]));
    requests.ask("reconsiderblock", &json!([tip]));
    requests.ask("getchaintips", &json!([]));
    for method in ["invalidateblock", "reconsiderblock"] {
        requests.ask(method, &json!(["00".repeat(32)]));
        requests.ask(method, &json!(["00"]));
        requests.ask(method, &json!([]));
    }
    for params in [json!([1, "nowhere"]), json!([0, address]), json!([-1, address]), json!([1]), json!(["1", address])]
    {
        requests.ask("generatetoaddress", &params);
    }
    for params in [json!(["nowhere", []]), json!([address, ["00"]]), json!([address, ["00".repeat(32)]])] {
        requests.ask("generateblock", &params);
    }
    // the blocks differ in time and extra nonce, but not in their transactions
    for (method, params, field) in [
        ("generateblock", json!([address, []]), "/hash"),
        (
            "generateblock",
            json!([address, [serialize_hex(&Payment::of([coins[1].clone()]).change(owner(2), 5).sign().unwrap())]]),
            "/hash",
        ),
        ("generatetoaddress", json!([1, address]), "/0"),
    ] {
        let body = |method: &str, params: &Value| json!({"method": method, "params": params, "id": 1}).to_string();
        let result = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["result"].clone();
        let (sim, real) = pair.post(&body(method, &params));
        let blocks = [(&sim, pair.sim.url()), (&real, pair.real.rpc_url())].map(|(response, url)| {
            let hash = result(&response.body).pointer(field).unwrap().as_str().unwrap().to_owned();
            let block = super::pair::get(&url, &format!("/rest/block/{hash}.json"));
            let block: Value = serde_json::from_slice(&block.body).unwrap();
            let transactions = block["tx"].as_array().unwrap();
            let to_miner = transactions[0]["vout"][0].clone();
            let others: Vec<Value> = transactions[1..].iter().map(|tx| tx["txid"].clone()).collect();
            (block["height"].clone(), to_miner["value"].clone(), to_miner["scriptPubKey"]["address"].clone(), others)
        });
        assert_eq!(blocks[0], blocks[1], "{method} {params}");
        requests.ask("getrawmempool", &json!([false, true]));
    }
    assert_eq!(requests.ask("getblockcount", &json!([]))["result"], json!(123));
    requests.comparison.assert_no_difference();
}
