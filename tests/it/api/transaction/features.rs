//! Features of transactions, the filter by them, their ancestors and descendants, and the tweaks of silent payments.

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{OutPoint, Transaction, TxOut, Txid};
use btcgraph::chain::silent_payments;
use btcgraph::sim::{Hostile, Owner, Payment, Reward, ScriptKind, SimChain, Spendable, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, sat};

const FEATURES: [&str; 12] = [
    "WITNESS",
    "RBF_SIGNAL",
    "TRUC",
    "LOCK_TIME",
    "RELATIVE_LOCK_TIME",
    "OP_RETURN",
    "TAPROOT_KEY_SPEND",
    "TAPROOT_SCRIPT_SPEND",
    "ANNEX",
    "MULTISIG_SPEND",
    "INSCRIPTION_ENVELOPE",
    "PARTIAL_SIGHASH",
];

/// A chain whose first coinbases are paid to owners of these kinds and are mature, and those coins.
fn coins_of(kinds: &[ScriptKind]) -> (SimChain, Vec<Spendable>) {
    let mut chain = SimChain::new(91);
    let coins = kinds.iter().map(|kind| {
        let owner = Owner::new(*kind, 3);
        let reward = Some(Reward::to(owner.script_pubkey()));
        let block = chain.mine_template(Template { reward, ..Template::default() }).unwrap();
        Spendable::of(&block.txdata[0], 0, owner).unwrap()
    });
    let coins = coins.collect();
    chain.mine_empty(100).unwrap();
    (chain, coins)
}

#[test]
fn features_follow_from_a_transaction_and_what_it_spends() {
    use ScriptKind::{Multisig, P2pkh, P2trKey, P2trScript, P2wsh};
    let (mut chain, coins) = coins_of(&[P2pkh, Multisig, P2trKey, P2trScript, P2wsh]);
    let data = Owner::new(ScriptKind::OpReturn, 1);
    let payments: Vec<Transaction> = coins
        .into_iter()
        .enumerate()
        .map(|(number, coin)| {
            let payment = Payment::of([coin]).change(SimChain::miner(), 2);
            let payment = match number {
                0 => payment.sequence(0xffff_ffff).to(data, sat(0)),
                1 => payment.version(3).sequence(0xffff_fffe).lock_time(50),
                2 => payment.sequence(5),
                _ => payment,
            };
            payment.sign().unwrap()
        })
        .collect();
    let expected = [
        json!(["OP_RETURN"]),
        json!(["TRUC", "LOCK_TIME", "MULTISIG_SPEND"]),
        json!(["WITNESS", "RBF_SIGNAL", "RELATIVE_LOCK_TIME", "TAPROOT_KEY_SPEND"]),
        json!(["WITNESS", "RBF_SIGNAL", "TAPROOT_SCRIPT_SPEND"]),
        json!(["WITNESS", "RBF_SIGNAL"]),
    ];
    let mut api = Api::of_chain(&chain);
    api.arrive(&payments);
    let features = |api: &Api, payment: &Transaction| {
        let txid = payment.compute_txid();
        api.data(&format!("{{ transaction(txid: \"{txid}\") {{ features }} }}"))["transaction"]["features"].take()
    };
    let waiting = |api: &Api, feature: &str| {
        let asked =
            format!("{{ mempool {{ transactions(filter: {{ features: [{feature}] }}) {{ nodes {{ txid }} }} }} }}");
        let found = api.data(&asked)["mempool"]["transactions"]["nodes"].take();
        let mut found: Vec<Value> = found.as_array().unwrap().iter().map(|node| node["txid"].clone()).collect();
        found.sort_by_key(Value::to_string);
        found
    };
    for (payment, expected) in payments.iter().zip(&expected) {
        assert_eq!(features(&api, payment), *expected, "unconfirmed");
    }
    for feature in FEATURES {
        let having = payments.iter().zip(&expected);
        let having = having.filter(|(_, features)| features.as_array().unwrap().contains(&json!(feature)));
        let mut having: Vec<_> = having.map(|(payment, _)| json!(payment.compute_txid().to_string())).collect();
        having.sort_by_key(Value::to_string);
        assert_eq!(waiting(&api, feature), having, "{feature}");
    }
    let block = chain.mine(payments.clone()).unwrap();
    api.connect(&block);
    for (payment, expected) in payments.iter().zip(&expected) {
        assert_eq!(features(&api, payment), *expected, "confirmed");
    }
    let mut unknown = payments[0].clone();
    unknown.input[0].previous_output.txid = Txid::from_byte_array([7; 32]);
    let decoded = api.data(&format!(
        "{{ decodeTransaction(hex: \"{}\") {{ transaction {{ features sigopCost adjustedVsize coinDaysDestroyed }} }} }}",
        serialize_hex(&unknown)
    ));
    let nothing = json!({ "features": null, "sigopCost": null, "adjustedVsize": null, "coinDaysDestroyed": null });
    assert_eq!(decoded["decodeTransaction"]["transaction"], nothing, "it spends an unknown output");
}

#[test]
fn a_filter_keeps_the_transactions_that_show_all_features() {
    let (mut chain, mut hostile) = (SimChain::new(92), Hostile::new(92));
    for _ in 0..150 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    let walk = |filter: &str| {
        let (mut rows, mut after) = (Vec::new(), Value::Null);
        loop {
            let mut page = api.data(&format!(
                "{{ transactions(order: ASC, range: {{ heights: {{ from: 101 }} }}, first: 100, after: {after} {filter}) {{
                    nodes {{ txid features }} pageInfo {{ hasNextPage endCursor }} }} }}"
            ))["transactions"]
                .take();
            rows.extend(page["nodes"].as_array().unwrap().clone());
            if page["pageInfo"]["hasNextPage"] == json!(false) {
                return rows;
            }
            after = page["pageInfo"]["endCursor"].take();
        }
    };
    let all = walk("");
    let mut found = 0;
    for wanted in FEATURES.iter().map(|feature| vec![*feature]).chain([vec!["WITNESS", "RBF_SIGNAL"]]) {
        let has_all = |row: &&Value| {
            let features = row["features"].as_array().unwrap();
            wanted.iter().all(|feature| features.contains(&json!(feature)))
        };
        let expected: Vec<_> = all.iter().filter(has_all).cloned().collect();
        let kept = walk(&format!(", filter: {{ features: [{}] }}", wanted.join(", ")));
        assert_eq!(kept, expected, "{wanted:?}");
        found += kept.len();
    }
    assert!(found > 200, "{found}");
}

#[test]
fn a_block_lists_the_tweaks_of_its_possible_silent_payments() {
    use ScriptKind::{P2pkh, P2trKey, P2trScript, P2wpkh, P2wsh};
    let (mut chain, coins) = coins_of(&[P2pkh, P2wpkh, P2trKey, P2trScript, P2wsh, P2wpkh]);
    let taproot = Owner::new(P2trKey, 9);
    let payments = coins.iter().cloned().enumerate().map(|(number, coin)| {
        let payment = Payment::of([coin]);
        let payment = if number < 5 { payment.to(taproot, sat(10_000)) } else { payment };
        payment.change(Owner::new(P2wsh, 1), 2).sign().unwrap()
    });
    let payments: Vec<Transaction> = payments.collect();
    chain.mine(payments.clone()).unwrap();
    let mut api = Api::of_chain(&chain);
    let secp = Secp256k1::verification_only();
    // a leaf under a key that nobody knows, and a script, have no key that counts; the last pays no taproot output
    let expected: Vec<_> = [0, 1, 2]
        .into_iter()
        .map(|number: usize| {
            let prevouts: [TxOut; 1] = [coins[number].output.clone()];
            let tweak = silent_payments::tweak(&secp, &payments[number], &prevouts).unwrap();
            json!({ "tweak": tweak.to_string(), "transaction": { "txid": payments[number].compute_txid().to_string() } })
        })
        .collect();
    let ask = |api: &Api, arguments: &str| {
        let hash = chain.tip();
        api.data(&format!(
            "{{ block(hash: \"{hash}\") {{ silentPaymentTweaks({arguments}) {{
                totalCount nodes {{ tweak transaction {{ txid }} }} pageInfo {{ hasNextPage endCursor }} }} }} }}"
        ))["block"]["silentPaymentTweaks"]
            .take()
    };
    let all = ask(&api, "first: 100");
    assert_eq!((&all["nodes"], &all["totalCount"]), (&json!(expected), &Value::Null));
    let first = ask(&api, "first: 2");
    assert_eq!(first["nodes"], json!(expected[..2]));
    let rest = ask(&api, &format!("first: 2, after: {}", first["pageInfo"]["endCursor"]));
    assert_eq!((&rest["nodes"], &rest["pageInfo"]["hasNextPage"]), (&json!(expected[2..]), &json!(false)));
    api.change(1, []);
    assert_eq!(ask(&api, "first: 100"), Value::Null, "it is stale");
}

#[test]
fn ancestors_and_descendants_are_listed_by_their_distance() {
    let owner = Owner::new(ScriptKind::P2wsh, 3);
    let (mut chain, coins) = coins_of(&[ScriptKind::P2wsh, ScriptKind::P2wsh]);
    let halves = |coin: Spendable| {
        let half = sat(coin.output.value.to_sat() / 2);
        Payment::of([coin]).to(owner, half).change(owner, 2).sign().unwrap()
    };
    let output = |transaction: &Transaction, vout| Spendable::of(transaction, vout, owner).unwrap();
    // two coins; the first is split, one half is split again, and both ends of that meet with the second coin
    let first = halves(coins[0].clone());
    let second = halves(output(&first, 1));
    let joined = [output(&first, 0), output(&second, 0), coins[1].clone()];
    let joined = Payment::of(joined).change(owner, 2).sign().unwrap();
    chain.mine(vec![first.clone(), second.clone()]).unwrap();
    let mut api = Api::of_chain(&chain);
    api.arrive([&joined]);
    let [coinbase, other] = [0, 1].map(|index: usize| coins[index].outpoint);
    let outputs = [&first, &second].into_iter().flat_map(|transaction| {
        (0..2).map(|vout| output(transaction, vout)).map(|coin| (coin.outpoint, coin.output.value.to_sat()))
    });
    let all: Vec<_> = outputs.chain(coins.iter().map(|coin| (coin.outpoint, coin.output.value.to_sat()))).collect();
    let hops = |field: &str, of: &Transaction, arguments: &str| {
        let txid = of.compute_txid();
        let asked = format!("{field}{arguments} {{ depth transaction {{ txid }} outpoint {{ text }} value }}");
        let found =
            api.data(&format!("{{ transaction(txid: \"{txid}\") {{ {asked} }} }}"))["transaction"][field].take();
        let found = found.as_array().unwrap().iter().map(|hop| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let outpoint = text(&hop["outpoint"]["text"]);
            let funding = all.iter().find(|output| output.0.to_string() == outpoint).unwrap();
            assert_eq!(hop["value"], json!(funding.1), "{outpoint}");
            (hop["depth"].as_u64().unwrap(), text(&hop["transaction"]["txid"]), outpoint)
        });
        found.collect::<Vec<_>>()
    };
    let hop = |depth: u64, txid: Txid, outpoint: OutPoint| (depth, txid.to_string(), outpoint.to_string());
    let of = |transaction: &Transaction, vout| OutPoint { txid: transaction.compute_txid(), vout };
    let (a, b, c) = (first.compute_txid(), second.compute_txid(), joined.compute_txid());
    let ancestors = [
        hop(1, a, of(&first, 0)),
        hop(1, b, of(&second, 0)),
        hop(1, other.txid, other),
        hop(2, coinbase.txid, coinbase),
    ];
    assert_eq!(hops("ancestors", &joined, "(depth: 10)"), ancestors);
    assert_eq!(hops("ancestors", &joined, ""), ancestors[..3]);
    assert_eq!(hops("ancestors", &joined, "(depth: 10, first: 2)"), ancestors[..2]);
    assert_eq!(hops("ancestors", &joined, "(depth: 0)"), []);
    let descendants = [hop(1, c, of(&first, 0)), hop(1, b, of(&first, 1))];
    assert_eq!(hops("descendants", &first, "(depth: 10)"), descendants);
    assert_eq!(hops("descendants", &second, "(depth: 10)"), [hop(1, c, of(&second, 0))]);
    assert_eq!(hops("descendants", &joined, "(depth: 10)"), []);
    let negative = format!("{{ transaction(txid: \"{a}\") {{ ancestors(depth: -1) {{ depth }} }} }}");
    assert_eq!(api.ask(&negative)["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
}
