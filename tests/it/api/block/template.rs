//! The block that the node itself would make next.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{Amount, ScriptBuf, Transaction, TxOut};
use btcgraph::sim::{
    Owner, Payment, Reward, Rng, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, Template, World,
};
use btcgraph::view::NodeLimits;
use serde_json::{Value, json};

use crate::node::sim_node::client;
use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

const TEMPLATE: &str = "{ mempool { nextBlockTemplate { height previousBlockHash totalFees txCount weight txids takenAt } } tip { height } }";
const ALLOWED: NodeLimits =
    NodeLimits { requests: 1, timeout: std::time::Duration::from_secs(20), block_template: true };

#[test]
fn the_block_template_is_served_if_the_settings_allow_it() {
    let mut chain = SimChain::new(90);
    let blocks = chain.mine_empty(105).unwrap();
    let mut world = World::new(chain.clone());
    world.set_time(1_800_000_000);
    let owner = Owner::new(ScriptKind::P2wpkh, 1);
    let coins = blocks.iter().take(2).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    let mut paid: Vec<_> =
        (2..).zip(coins).map(|(rate, coin)| Payment::of([coin]).change(owner, rate * 10).sign().unwrap()).collect();
    for payment in &paid {
        world.submit(payment.clone()).unwrap();
    }
    let fees: u64 = paid.iter().map(|tx| world.mempool().get(&tx.compute_txid()).unwrap().fee.to_sat()).sum();
    let sim = SimNode::start(Arc::new(Mutex::new(world)), SimNodeOptions::default()).unwrap();

    let api = Api::of_chain_asking(&chain, ALLOWED);
    let response = api.ask(TEMPLATE);
    assert_eq!(response["data"], json!({ "mempool": { "nextBlockTemplate": null }, "tip": { "height": 105 } }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"), "no node was reached yet");

    api.set_node(&client(&sim));
    let mut template = api.data(TEMPLATE)["mempool"]["nextBlockTemplate"].take();
    assert!(template["takenAt"].take().is_string());
    // what pays best comes first
    paid.reverse();
    let weight: u64 = paid.iter().map(|tx| tx.weight().to_wu()).sum();
    let txids: Vec<_> = paid.iter().map(|tx| tx.compute_txid().to_string()).collect();
    let expected = json!({
        "height": 106, "previousBlockHash": chain.tip().to_string(), "totalFees": fees, "txCount": 2, "weight": weight,
        "txids": txids, "takenAt": null,
    });
    assert_eq!(template, expected);

    let api = Api::of_chain(&chain);
    api.set_node(&client(&sim));
    let response = api.ask(TEMPLATE);
    let refused = &response["errors"][0];
    assert_eq!(response["data"]["mempool"]["nextBlockTemplate"], json!(null));
    let expected =
        json!({ "code": "FEATURE_DISABLED", "feature": "BLOCK_TEMPLATE", "setting": "server.block_template" });
    assert_eq!(refused["extensions"], expected);
}

/// Random payments of a wallet that often spends what is not confirmed: chains and trees in which the fees of children pay for
/// parents, of scripts with signature operations of every cost.
struct Wallet {
    random: Rng,
    owners: Vec<Owner>,
    /// Each with the number of unconfirmed transactions in a row that it follows from.
    coins: Vec<(Spendable, u32)>,
}

/// As many unconfirmed transactions in a row are made at most; a node takes 25 of a family.
const DEEPEST: u32 = 6;

impl Wallet {
    /// A wallet with a coin of its own in each of the first blocks of the chain.
    fn start(blocks: u32) -> (Self, SimChain) {
        // not those with scriptPubKeys of more than 34 bytes, which some nodes do not relay
        use ScriptKind::{P2pkh, P2shP2wpkh, P2shP2wsh, P2trKey, P2wpkh, P2wsh};
        let kinds = [P2pkh, P2shP2wpkh, P2shP2wsh, P2wpkh, P2wsh, P2trKey];
        let owners: Vec<Owner> = kinds.map(|kind| Owner::new(kind, 91)).to_vec();
        let mut chain = SimChain::new(91).with_clock(1_700_000_000, 600);
        let coins = owners.iter().cycle().zip(0..blocks).map(|(owner, _)| {
            let reward = Some(Reward::to(owner.script_pubkey()));
            let block = chain.mine_template(Template { reward, ..Template::default() }).unwrap();
            (Spendable::of(&block.txdata[0], 0, *owner).unwrap(), 0)
        });
        let coins = coins.collect();
        chain.mine_empty(100).unwrap();
        (Self { random: Rng::new(91), owners, coins }, chain)
    }

    /// A payment to itself, with so many outputs of data. The newer a coin is, the sooner it is spent.
    fn pay(&mut self, data: usize) -> Transaction {
        let random = &mut self.random;
        let count = self.coins.len();
        let newest = if random.chance(60) { count.saturating_sub(6) } else { 0 };
        let first = self.coins.remove(newest + random.index(count - newest));
        let second = random.chance(20).then(|| self.coins.remove(random.index(self.coins.len())));
        let (spent, depths): (Vec<Spendable>, Vec<u32>) = [Some(first), second].into_iter().flatten().unzip();
        let depth = depths.iter().max().unwrap() + 1;
        let total: Amount = spent.iter().map(|coin| coin.output.value).sum();
        let payees: Vec<Owner> = (0..=random.index(3)).map(|_| self.owners[random.index(self.owners.len())]).collect();
        let (change, others) = payees.split_last().unwrap();
        let part = total / u64::try_from(payees.len()).unwrap();
        let mut payment = others.iter().fold(Payment::of(spent), |payment, owner| payment.to(*owner, part));
        for _ in 0..data {
            let script_pubkey = ScriptBuf::from_bytes(vec![0x6a; 80]);
            payment = payment.output(TxOut { value: Amount::ZERO, script_pubkey });
        }
        let rate = if random.chance(50) { random.between(1, 4) } else { random.between(5, 90) };
        let paid = payment.change(*change, rate).sign().unwrap();
        for owner in payees {
            let is_known = |coin: &Spendable| self.coins.iter().any(|(known, _)| known.outpoint == coin.outpoint);
            let vouts = 0..u32::try_from(paid.output.len()).unwrap();
            let owned = vouts.filter_map(|vout| Spendable::of(&paid, vout, owner)).find(|coin| !is_known(coin));
            self.coins.extend(owned.filter(|_| depth <= DEEPEST).map(|coin| (coin, depth)));
        }
        paid
    }
}

/// A node that takes and mines whatever pays anything, also families of large transactions.
const ANY_FEERATE: [&str; 6] = [
    "-acceptnonstdtxn=1",
    "-maxtipage=9999999999",
    "-minrelaytxfee=0",
    "-blockmintxfee=0",
    "-limitancestorsize=1000",
    "-limitdescendantsize=1000",
];

/// A node and this server, which have the same chain and the same mempool.
struct Both {
    node: RealNode,
    api: Api,
    clock: u32,
}

impl Both {
    /// Submits payments to the node, and those that it takes to this server. Returns how many.
    fn submit(&mut self, payments: impl Iterator<Item = Transaction>) -> usize {
        let accepted: Vec<Transaction> = payments
            .filter(|payment| {
                let answer = self.node.call("sendrawtransaction", &[json!(serialize_hex(payment)), json!(0)]);
                let refusal = answer.err().map(|error| error.message);
                let is_expected = |message: &str| {
                    message.contains("too-long-mempool-chain") || message.contains("inputs-missingorspent")
                };
                assert!(refusal.as_deref().is_none_or(is_expected), "{refusal:?}");
                refusal.is_none()
            })
            .collect();
        self.api.arrive(&accepted);
        accepted.len()
    }

    /// Compares what both say of the next block. Returns the template of the node.
    fn compare(&mut self) -> Value {
        // a node repeats its template for some seconds
        self.clock += 60;
        self.node.must("setmocktime", &[json!(self.clock)]);
        let theirs = self.node.must("getblocktemplate", &[json!({ "rules": ["segwit"] })]);
        let listed = theirs["transactions"].as_array().unwrap();
        let sum = |name: &str| listed.iter().map(|transaction| transaction[name].as_u64().unwrap()).sum::<u64>();
        let txids: Vec<&Value> = listed.iter().map(|transaction| &transaction["txid"]).collect();
        let mut ours = self.api.data(TEMPLATE)["mempool"]["nextBlockTemplate"].take();
        assert!(ours["takenAt"].take().is_string());
        let expected = json!({
            "height": theirs["height"], "previousBlockHash": theirs["previousblockhash"], "totalFees": sum("fee"),
            "txCount": listed.len(), "weight": sum("weight"), "txids": txids, "takenAt": null,
        });
        assert_eq!(ours, expected);
        assert_eq!(theirs["previousblockhash"], json!(self.api.view().tip().hash.to_string()));

        // and what this server itself knows of each of them
        for listed in listed.chunks(25) {
            let txids: Vec<&Value> = listed.iter().map(|transaction| &transaction["txid"]).collect();
            let fields = "txid fee weight sigopCost hex";
            let asked = format!("{{ transactionsByTxid(txids: {}) {{ {fields} }} }}", json!(txids));
            let found = self.api.data(&asked)["transactionsByTxid"].take();
            let expected: Vec<Value> = listed
                .iter()
                .map(|one| {
                    json!({
                        "txid": one["txid"], "fee": one["fee"], "weight": one["weight"], "sigopCost": one["sigops"],
                        "hex": one["data"],
                    })
                })
                .collect();
            assert_eq!(found, json!(expected));
        }
        theirs
    }

    /// The txids of the first projected block, its weight, and its fees.
    fn projected(&self) -> (BTreeSet<String>, u64, u64) {
        let (mut txids, mut after) = (BTreeSet::new(), Value::Null);
        loop {
            let page = format!(
                "transactions(first: 100, after: {after}) {{ nodes {{ txid }} pageInfo {{ endCursor hasNextPage }} }}"
            );
            let asked = format!("{{ mempool {{ projectedBlocks(first: 1) {{ weight totalFees {page} }} }} }}");
            let block = self.api.data(&asked)["mempool"]["projectedBlocks"][0].take();
            let nodes = block["transactions"]["nodes"].as_array().unwrap();
            txids.extend(nodes.iter().map(|node| node["txid"].as_str().unwrap().to_owned()));
            let info = &block["transactions"]["pageInfo"];
            if info["hasNextPage"] == false {
                return (txids, block["weight"].as_u64().unwrap(), block["totalFees"].as_u64().unwrap());
            }
            after = info["endCursor"].clone();
        }
    }
}

#[test]
fn the_template_is_that_of_a_node_in_every_field() {
    let Some(node) = RealNode::start(&ANY_FEERATE) else { return };
    let (mut wallet, mut chain) = Wallet::start(60);
    let clock = 1_800_000_000;
    node.must("setmocktime", &[json!(clock)]);
    for block in chain.active_blocks().skip(1) {
        assert_eq!(node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    }
    let api = Api::of_chain_asking(&chain, ALLOWED);
    api.set_node(&node.client());
    let mut both = Both { node, api, clock };
    let txids = |template: &Value| -> BTreeSet<String> {
        let listed = template["transactions"].as_array().unwrap().iter();
        listed.map(|transaction| transaction["txid"].as_str().unwrap().to_owned()).collect()
    };
    let sum = |template: &Value, name: &str| -> u64 {
        template["transactions"].as_array().unwrap().iter().map(|transaction| transaction[name].as_u64().unwrap()).sum()
    };
    assert_eq!(txids(&both.compare()), BTreeSet::new(), "the mempool is empty");

    // all of it fits into a block
    let payments: Vec<Transaction> = (0..150).map(|_| wallet.pay(0)).collect();
    let small = both.submit(payments.into_iter());
    let template = both.compare();
    assert_eq!(txids(&template).len(), small);
    assert_eq!(both.projected(), (txids(&template), sum(&template, "weight"), sum(&template, "fee")));
    let depends = |one: &&Value| one["depends"].as_array().unwrap().len();
    let has_parents = template["transactions"].as_array().unwrap().iter().filter(|one| depends(one) > 0).count();
    assert!(small > 100 && has_parents > 40, "{has_parents} of {small} have parents in the mempool");

    // more than fits
    let payments: Vec<Transaction> = (0..110).map(|number| wallet.pay(if number % 2 == 0 { 340 } else { 0 })).collect();
    let large = both.submit(payments.into_iter());
    let template = both.compare();
    let found = txids(&template);
    assert!(found.len() < small + large, "{} of {small} and {large} are in the template", found.len());
    let (projected, weight, fees) = both.projected();
    // which of the last fit differs: packages are formed anew by a node, and not by the projection
    let differing = projected.symmetric_difference(&found).count();
    assert!(differing * 4 < found.len(), "{differing} of {} differ", found.len());
    for (ours, theirs) in [(weight, sum(&template, "weight")), (fees, sum(&template, "fee"))] {
        assert!(ours.abs_diff(theirs) * 30 < theirs, "{ours} is not about {theirs}");
    }

    // the rest, after a block of the template
    let listed = template["transactions"].as_array().unwrap().iter();
    let mined = listed.map(|one| deserialize_hex::<Transaction>(one["data"].as_str().unwrap()).unwrap());
    let block = chain.mine(mined.collect()).unwrap();
    assert_eq!(both.node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    both.api.connect(&block);
    let template = both.compare();
    assert_eq!(txids(&template).len(), small + large - found.len());
    assert_eq!(both.projected(), (txids(&template), sum(&template, "weight"), sum(&template, "fee")));
}
