//! Answers against those of a real node whose wallet made all sorts of transactions: transactions and blocks field by
//! field, and the coins of scripts, before and after reorganisations.

use std::collections::BTreeSet;

use bitcoin::block::Header;
use bitcoin::consensus::encode::deserialize_hex;
use bitcoin::{MerkleBlock, Network, TxMerkleNode};
use btcgraph::chain::merkle::root_from_branch;
use btcgraph::limits::Limits;
use btcgraph::node::Node;
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::walk::List;
use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

const TRANSACTION: &str = "txid wtxid version size vsize weight hex isCoinbase fee lockTime { raw }
    inputs(first: 100) { nodes { outpoint { txid vout } sequence scriptSigHex witness
        prevout { value scriptPubKey scriptType address isCoinbase transaction { block { height } } } } }
    outputs(first: 100) { nodes { vout value scriptPubKey scriptType address } }";

/// An amount of the node, which it writes in bitcoin.
pub(super) fn sats(amount: &Value) -> Value {
    let text = amount.to_string();
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let (whole, rest) = (whole.parse::<u64>().unwrap(), format!("{rest:0<8}").parse::<u64>().unwrap());
    json!(whole * 100_000_000 + rest)
}

fn script_type(output: &Value) -> Value {
    json!(match output["scriptPubKey"]["type"].as_str().unwrap() {
        "pubkey" => "P2PK",
        "pubkeyhash" => "P2PKH",
        "scripthash" => "P2SH",
        "witness_v0_keyhash" => "P2WPKH",
        "witness_v0_scripthash" => "P2WSH",
        "witness_v1_taproot" => "P2TR",
        "multisig" => "P2MS",
        "nulldata" => "OP_RETURN",
        other => panic!("the wallet made {other}"),
    })
}

fn output(node: &Value) -> Value {
    let script = &node["scriptPubKey"];
    json!({
        "value": sats(&node["value"]), "scriptPubKey": script["hex"], "scriptType": script_type(node), "address": script["address"],
    })
}

/// What the node says of a transaction, in the shape of [`TRANSACTION`].
fn reported_by_node(node: &Value) -> Value {
    let inputs = node["vin"].as_array().unwrap().iter().map(|input| {
        let coinbase = input.get("coinbase");
        let prevout = input.get("prevout").map_or(Value::Null, |prevout| {
            let mut reported = output(prevout);
            reported["isCoinbase"] = prevout["generated"].clone();
            reported["transaction"] = json!({ "block": { "height": prevout["height"] } });
            reported
        });
        json!({
            "outpoint": input.get("txid").map(|txid| json!({ "txid": txid, "vout": input["vout"] })),
            "sequence": input["sequence"],
            "scriptSigHex": coinbase.unwrap_or(&input["scriptSig"]["hex"]),
            "witness": input.get("txinwitness").unwrap_or(&json!([])),
            "prevout": prevout,
        })
    });
    let inputs: Vec<_> = inputs.collect();
    let outputs = node["vout"].as_array().unwrap().iter().map(|part| {
        let mut reported = output(part);
        reported["vout"] = part["n"].clone();
        reported
    });
    let is_coinbase = node["vin"][0].get("coinbase").is_some();
    json!({
        "txid": node["txid"], "wtxid": node["hash"], "version": node["version"], "size": node["size"],
        "vsize": node["vsize"], "weight": node["weight"], "hex": node["hex"], "isCoinbase": is_coinbase,
        "fee": if is_coinbase { Value::Null } else { sats(&node["fee"]) },
        "lockTime": { "raw": node["locktime"] },
        "inputs": { "nodes": inputs },
        "outputs": { "nodes": outputs.collect::<Vec<_>>() },
    })
}

/// Transactions of every kind that a wallet makes, and blocks to bare keys and scripts without address.
fn make_transactions(node: &RealNode, rounds: u32) {
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let kinds = ["legacy", "p2sh-segwit", "bech32", "bech32m"];
    for round in 0..rounds {
        let to = kinds.map(|kind| node.wallet_address(kind));
        let amounts = json!({ &to[0]: 0.5, &to[1]: 0.25, &to[2]: 1.125, &to[3]: 0.000_010_00 });
        node.must("sendmany", &[json!(""), amounts]);
        node.must("sendtoaddress", &[json!(to[0]), json!(0.75), json!(""), json!(""), json!(true)]);
        let data = format!("{round:08x}").repeat(5);
        node.must("send", &[json!([{ "data": data }, { &to[2]: 0.01 }])]);
        // spends what is not confirmed, and is replaced
        let all = json!([{ &to[1]: 2 }]);
        let replaced = node.must("send", &[all, Value::Null, json!("unset"), json!(3), json!({ "replaceable": true })]);
        node.must("bumpfee", &[replaced["txid"].clone()]);
        match round % 4 {
            0 => node.must("generatetodescriptor", &[json!(1), json!(format!("pk({KEY})"))]),
            1 => node.must("generatetodescriptor", &[json!(1), json!(format!("multi(1,{KEY},{KEY})"))]),
            2 => node.must("generatetodescriptor", &[json!(1), json!(format!("wsh(pk({KEY}))"))]),
            _ => json!(node.mine_to(&to[3], 1)),
        };
    }
}

struct Compared {
    node: RealNode,
    client: Node,
    api: Api,
    random: Rng,
}

impl Compared {
    fn start() -> Option<Self> {
        let node = RealNode::start(&[])?;
        let client = node.client();
        Some(Self {
            node,
            client,
            api: Api::empty(Network::Regtest, Limits { complexity: usize::MAX, ..Limits::default() }),
            random: Rng::new(6),
        })
    }

    fn assert_agrees(&mut self) {
        self.api.follow(&self.client);
        let tip = self.node.must("getblockcount", &[]).as_u64().unwrap();
        let mut scripts = BTreeSet::new();
        // all blocks with transactions, and some without
        let early: Vec<_> = (0..5).map(|_| self.random.between(1, 99)).collect();
        for height in (100..=tip).chain(early) {
            self.assert_block(height, tip, &mut scripts);
        }
        self.assert_scripts(&scripts);
    }

    fn assert_block(&mut self, height: u64, tip: u64, scripts: &mut BTreeSet<String>) {
        let hash = self.node.must("getblockhash", &[json!(height)]);
        let block = self.node.must("getblock", &[hash.clone(), json!(3)]);
        let found = self.api.data(&format!(
            "{{ block(height: {height}) {{ hash size strippedSize weight txCount totalFees
                transactions(first: 100) {{ nodes {{ {TRANSACTION} indexInBlock }} }} }} }}"
        ));
        let mut fees = 0;
        let reported = (0..).zip(block["tx"].as_array().unwrap()).map(|(index, transaction): (u32, _)| {
            let mut reported = reported_by_node(transaction);
            fees += reported["fee"].as_u64().unwrap_or_default();
            reported["indexInBlock"] = json!(index);
            reported
        });
        let reported: Vec<_> = reported.collect();
        let expected = json!({
            "hash": hash, "size": block["size"], "strippedSize": block["strippedsize"], "weight": block["weight"],
            "txCount": block["nTx"], "totalFees": fees, "transactions": { "nodes": reported },
        });
        assert_eq!(found["block"], expected, "block {height}");
        let outputs =
            block["tx"].as_array().unwrap().iter().flat_map(|transaction| transaction["vout"].as_array().unwrap());
        scripts.extend(outputs.map(|output| output["scriptPubKey"]["hex"].as_str().unwrap().to_owned()));

        let some = self.random.choose(block["tx"].as_array().unwrap()).unwrap();
        let node = self.node.must("getrawtransaction", &[some["txid"].clone(), json!(2)]);
        let found = self.api.data(&format!(
            "{{ transaction(txid: {}) {{ {TRANSACTION} confirmations block {{ hash height medianTime }} }} }}",
            some["txid"]
        ));
        let mut expected = reported_by_node(&node);
        expected["confirmations"] = node["confirmations"].clone();
        assert_eq!(node["confirmations"], json!(tip - height + 1));
        expected["block"] = json!({
            "hash": node["blockhash"], "height": height, "medianTime": found["transaction"]["block"]["medianTime"],
        });
        assert_eq!(found["transaction"], expected);
        self.assert_proof(some["txid"].as_str().unwrap(), &hash);
    }

    /// The proof that a block holds a transaction leads to the root in its header, from the place where the node's own
    /// proof has it.
    fn assert_proof(&self, txid: &str, block: &Value) {
        let found = self.api.data(&format!(
            "{{ transaction(txid: \"{txid}\") {{ merkleProof {{ blockHash position merkleBranch root headerHex }} }} }}"
        ));
        let proof = &found["transaction"]["merkleProof"];
        assert_eq!(proof["blockHash"], *block);
        let header: Header = deserialize_hex(proof["headerHex"].as_str().unwrap()).unwrap();
        assert_eq!(json!(header.block_hash()), *block);
        assert_eq!(json!(header.merkle_root), proof["root"]);
        let branch: Vec<TxMerkleNode> = serde_json::from_value(proof["merkleBranch"].clone()).unwrap();
        let position = usize::try_from(proof["position"].as_u64().unwrap()).unwrap();
        assert_eq!(root_from_branch(txid.parse().unwrap(), position, &branch), Some(header.merkle_root));

        let theirs = self.node.must("gettxoutproof", &[json!([txid]), block.clone()]);
        let theirs: MerkleBlock = deserialize_hex(theirs.as_str().unwrap()).unwrap();
        assert_eq!(theirs.header, header);
        let (mut txids, mut positions) = (Vec::new(), Vec::new());
        theirs.extract_matches(&mut txids, &mut positions).unwrap();
        assert_eq!((txids, positions), (vec![txid.parse().unwrap()], vec![u32::try_from(position).unwrap()]));
    }

    /// Coins of scripts against a scan of all unspent outputs.
    fn assert_scripts(&mut self, scripts: &BTreeSet<String>) {
        let all: Vec<_> = scripts.iter().collect();
        let some: BTreeSet<&String> = (0..40).filter_map(|_| self.random.choose(&all)).copied().collect();
        let descriptors: Vec<_> = some.iter().map(|script| format!("raw({script})")).collect();
        let scan = self.node.must("scantxoutset", &[json!("start"), json!(descriptors)]);
        let row = |coin: &Value| {
            json!({
                "outpoint": { "text": format!("{}:{}", coin["txid"].as_str().unwrap(), coin["vout"]) },
                "value": sats(&coin["amount"]),
                "height": coin["height"],
                "isCoinbase": coin["coinbase"],
            })
        };
        let by_outpoint = |mut rows: Vec<Value>| {
            rows.sort_by_key(|row| row["outpoint"]["text"].to_string());
            rows
        };
        let unspents = scan["unspents"].as_array().unwrap();
        for script in &some {
            let expected: Vec<_> =
                unspents.iter().filter(|coin| coin["scriptPubKey"] == json!(script)).map(row).collect();
            let owner = format!("script(scriptPubKey: \"{script}\")");
            let found = self.api.data(&format!(
                "{{ {owner} {{ balance {{ confirmed }} utxos(first: 0) {{ totalCount totalValue }} }} }}"
            ));
            let total = expected.iter().map(|coin| coin["value"].as_u64().unwrap()).sum::<u64>();
            let utxos = json!({ "totalCount": expected.len(), "totalValue": total });
            assert_eq!(found["script"], json!({ "balance": { "confirmed": total }, "utxos": utxos }), "{script}");
            let rows = List::new(owner, "utxos", "", "outpoint { text } value height isCoinbase").all(&mut self.api);
            assert_eq!(by_outpoint(rows), by_outpoint(expected), "{script}");
        }
        let hexes: Vec<_> = some.iter().collect();
        let together = self
            .api
            .data(&format!("{{ ledgerSet(of: {{ scripts: {} }}) {{ balance {{ confirmed }} }} }}", json!(hexes)));
        assert_eq!(together["ledgerSet"]["balance"]["confirmed"], sats(&scan["total_amount"]));
    }
}

#[test]
fn transactions_blocks_and_coins_are_those_of_the_node_through_reorganisations() {
    let Some(mut compared) = Compared::start() else { return };
    let miner = compared.node.wallet_address("bech32");
    compared.node.mine_to(&miner, 120);
    make_transactions(&compared.node, 6);
    compared.assert_agrees();
    for depth in [1, 6] {
        let tip = compared.node.must("getblockcount", &[]).as_u64().unwrap();
        let fork = compared.node.must("getblockhash", &[json!(tip - depth + 1)]);
        compared.node.must("invalidateblock", &[fork]);
        // what was confirmed is confirmed again, elsewhere and later, among new payments
        compared.node.mine(1);
        make_transactions(&compared.node, 3);
        compared.node.mine(4);
        compared.assert_agrees();
    }
}
