//! Accounts against a real node: the addresses, checksums and balances of random descriptors.

use bitcoin::Network;
use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use btcgraph::limits::Limits;
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::real_node::sats;
use crate::api::subscriptions::ledger_events::EventReader;
use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

/// A key expression with two branches: an account key at a random path, with or without its origin.
fn key(random: &mut Rng) -> String {
    let secp = Secp256k1::new();
    let seed: Vec<u8> = (0..32).map(|_| u8::try_from(random.between(0, 255)).unwrap()).collect();
    let master = Xpriv::new_master(Network::Regtest, &seed).unwrap();
    let path = format!("{}h/{}h/{}", random.between(0, 90), random.between(0, 3), random.between(0, 100_000));
    let account: DerivationPath = path.parse().unwrap();
    let key = Xpub::from_priv(&secp, &master.derive_priv(&secp, &account).unwrap());
    let first = random.between(0, 1_000);
    let steps = if random.between(0, 1) == 0 { String::new() } else { format!("/{}", random.between(0, 5_000)) };
    let origin = match random.between(0, 2) {
        0 => String::new(),
        1 => format!("[{}/{path}]", master.fingerprint(&secp)),
        _ => format!("[{}/{}]", master.fingerprint(&secp), path.replace('h', "'")),
    };
    format!("{origin}{key}{steps}/<{first};{}>/*", first + random.between(1, 9))
}

/// The number of forms of [`descriptor`].
const FORMS: u64 = 15;

/// A descriptor of every form that both sides know.
fn descriptor(form: u64, random: &mut Rng) -> String {
    let mut key = || key(random);
    match form {
        0 => format!("pkh({})", key()),
        1 => format!("wpkh({})", key()),
        2 => format!("sh(wpkh({}))", key()),
        3 => format!("tr({})", key()),
        4 => format!("wsh(sortedmulti(2,{},{},{}))", key(), key(), key()),
        5 => format!("sh(wsh(multi(1,{},{})))", key(), key()),
        6 => format!("sh(sortedmulti(2,{},{}))", key(), key()),
        7 => format!("tr({},{{pk({}),multi_a(2,{},{})}})", key(), key(), key(), key()),
        8 => format!("wsh(and_v(v:pk({}),or_d(pk({}),older(144))))", key(), key()),
        9 => format!("rawtr({})", key()),
        10 => format!(
            "tr({},{{sortedmulti_a(2,{},{}),{{pk({}),sortedmulti_a(1,{},{})}}}})",
            key(),
            key(),
            key(),
            key(),
            key(),
            key()
        ),
        11 => format!("wsh(thresh(2,pk({}),s:pk({}),sln:after(500)))", key(), key()),
        // a key with two votes
        12 => {
            let key = [key(), key()];
            format!("wsh(multi(2,{},{},{}))", key[0], key[1], key[0])
        }
        13 => {
            let key = key();
            format!("sh(sortedmulti(1,{key},{key}))")
        }
        _ => {
            let key = [key(), key()];
            format!("tr({},{{multi_a(2,{},{}),pk({})}})", key[0], key[1], key[1], key[1])
        }
    }
}

/// The descriptor of one branch, as older nodes know no multipath steps.
fn single(text: &str, branch: usize) -> String {
    let mut parts = text.split('<');
    let mut single = parts.next().unwrap().to_owned();
    for part in parts {
        let (paths, rest) = part.split_once('>').unwrap();
        single += paths.split(';').nth(branch).unwrap();
        single += rest;
    }
    single
}

fn with_checksum(node: &RealNode, text: &str) -> String {
    let info = node.must("getdescriptorinfo", &[json!(text)]);
    format!("{text}#{}", info["checksum"].as_str().unwrap())
}

#[test]
fn random_descriptors_are_those_of_the_node() {
    let limits = Limits { complexity: usize::MAX, ..Limits::default() };
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let (mut api, mut random) = (Api::empty(Network::Regtest, limits), Rng::new(20));
    let miner = node.wallet_address("bech32");
    node.mine_to(&miner, 120);

    let descriptors: Vec<String> = (0..30).map(|form| descriptor(form % FORMS, &mut random)).collect();
    let mut paid = serde_json::Map::new();
    for text in &descriptors {
        for branch in 0..2 {
            let ours = with_checksum(&node, &single(text, branch));
            let addresses = node.must("deriveaddresses", &[json!(ours), json!([0, 60])]);
            // used ones are never more than 20 apart
            let mut index = random.between(0, 19);
            while index < 60 {
                let amount = random.between(10_000, 99_999);
                paid.insert(
                    addresses[usize::try_from(index).unwrap()].as_str().unwrap().to_owned(),
                    json!(format!("0.000{amount}")),
                );
                index += random.between(1, 20);
            }
        }
    }
    node.must("sendmany", &[json!(""), Value::Object(paid)]);
    node.mine(1);
    api.follow(&client);

    for text in &descriptors {
        let info = node.must("getdescriptorinfo", &[json!(single(text, 0))]);
        let found = api.data(&format!(
            "{{ descriptor(text: {0}) {{ descriptor usedCount balance {{ confirmed }} utxos(first: 100) {{ nodes {{ outpoint {{ text }} }} }}
                    nextUnused {{ address }} }}
                validateDescriptor(text: {0}) {{ isValid isRanged isSolvable isPrivate
                    derivedAddresses(first: 61) {{ address }} change: derivedAddresses(branch: 1, first: 61) {{ address }} }}
                first: validateDescriptor(text: {1}) {{ checksum isRanged isMultipath }} }}",
            json!(text),
            json!(single(text, 0))
        ));
        let (account, valid) = (&found["descriptor"], &found["validateDescriptor"]);
        for (branch, field) in ["derivedAddresses", "change"].into_iter().enumerate() {
            let ours = with_checksum(&node, &single(text, branch));
            let theirs = node.must("deriveaddresses", &[json!(ours), json!([0, 60])]);
            let found: Vec<_> = valid[field].as_array().unwrap().iter().map(|node| node["address"].clone()).collect();
            assert_eq!(json!(found), theirs, "{text} {branch}");
        }
        assert_eq!(valid["isRanged"], info["isrange"]);
        assert_eq!(valid["isSolvable"], info["issolvable"]);
        assert_eq!(valid["isPrivate"], info["hasprivatekeys"]);
        // the checksum of the canonical form is the node's own for that text
        let canonical = account["descriptor"].as_str().unwrap();
        let body = single(canonical.rsplit_once('#').unwrap().0, 0);
        let checksum = node.must("getdescriptorinfo", &[json!(body)])["checksum"].clone();
        assert_eq!(found["first"], json!({ "checksum": checksum, "isRanged": true, "isMultipath": false }), "{text}");

        let scanned = (0..2).map(|branch| json!({ "desc": with_checksum(&node, &single(text, branch)), "range": 100 }));
        let scan = node.must("scantxoutset", &[json!("start"), json!(scanned.collect::<Vec<_>>())]);
        let mut theirs: Vec<_> = scan["unspents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|coin| format!("{}:{}", coin["txid"].as_str().unwrap(), coin["vout"]))
            .collect();
        assert!(theirs.len() > 4, "the account was paid");
        theirs.sort();
        let nodes = account["utxos"]["nodes"].as_array().unwrap();
        let mut ours: Vec<_> = nodes.iter().map(|coin| coin["outpoint"]["text"].as_str().unwrap().to_owned()).collect();
        ours.sort();
        assert_eq!(ours, theirs, "{text}");
        assert_eq!(account["usedCount"], json!(theirs.len()));
        assert_eq!(account["balance"]["confirmed"], sats(&scan["total_amount"]), "{text}");
    }
}

#[test]
fn a_key_that_occurs_twice_is_refused_where_the_node_refuses_it() {
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let (mut api, mut random) = (Api::empty(Network::Regtest, Limits::default()), Rng::new(38));
    node.mine(1);
    api.follow(&client);
    let [one, other] = [(); 2].map(|()| key(&mut random).split('<').next().unwrap().replace('\'', "h") + "7");
    let fixed = "03a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
    let texts = [
        format!("multi(1,{one},{one})"),
        format!("sortedmulti(2,{one},{other},{one})"),
        format!("multi(1,{one},{one},{one},{one})"),
        format!("sh(multi(1,{one},{one}))"),
        format!("sh(multi(1,{}))", [one.as_str(); 15].join(",")),
        format!("sh(multi(1,{}))", [one.as_str(); 16].join(",")),
        format!("wsh(multi(1,{}))", [fixed; 20].join(",")),
        format!("wsh(multi(1,{}))", [fixed; 21].join(",")),
        format!("wsh(sortedmulti(2,{one},{one}))"),
        format!("sh(wsh(multi(2,{one},{one})))"),
        format!("tr({one},multi_a(2,{one},{one}))"),
        format!("tr({one},sortedmulti_a(2,{other},{one},{other}))"),
        format!("tr({one},{{pk({other}),pk({other})}})"),
        format!("tr({one},{{multi_a(1,{one},{one}),and_v(v:pk({one}),older(4))}})"),
        format!("tr({one},and_v(v:multi_a(1,{one},{one}),older(4)))"),
        format!("tr({one},and_v(v:pk({other}),pk({other})))"),
        format!("wsh(and_v(v:pk({one}),pk({one})))"),
        format!("wsh(and_v(v:multi(1,{one},{one}),older(4)))"),
        format!("wsh(or_d(pk({one}),and_v(v:pkh({one}),older(4))))"),
        format!("wsh(or_i(multi(1,{fixed},{fixed}),pk({one})))"),
        format!("multi(0,{one},{one})"),
        format!("wsh(multi(3,{one},{one}))"),
        "wsh(and_v(v:after(5),after(6)))".to_owned(),
    ];
    assert_eq!(verdicts(&node, &api, &texts), (11, 12));
}

#[test]
fn what_a_form_takes_is_what_the_node_takes() {
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let (mut api, mut random) = (Api::empty(Network::Regtest, Limits::default()), Rng::new(379));
    node.mine(1);
    api.follow(&client);
    let key = key(&mut random).split('<').next().unwrap().replace('\'', "h") + "7";
    let scripts = [
        format!("pk({key})"),
        format!("pkh({key})"),
        format!("wpkh({key})"),
        format!("multi(1,{key})"),
        format!("sortedmulti(1,{key})"),
        format!("wsh(pk({key}))"),
        format!("sh(pk({key}))"),
        format!("tr({key})"),
        format!("c:pk_k({key})"),
        format!("and_v(v:pk({key}),older(4))"),
        format!("thresh(1,pk({key}))"),
        format!("t:or_c(pk({key}),v:older(4))"),
        format!("multi_a(1,{key})"),
        key.clone(),
    ];
    let mut texts = scripts.to_vec();
    for script in &scripts {
        texts.extend(
            ["sh", "wsh", "sh(wsh"].map(|form| format!("{form}({script}){}", &"))"[..form.matches('(').count()])),
        );
        texts.push(format!("tr({key},{script})"));
    }
    // the keys 1 and 2: the first in the order of their compressed forms is the second as they are written
    let (one, two) = (
        "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
        "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
    );
    texts.push(format!("sh(sortedmulti(1,{one},{two}))"));
    // what nothing can satisfy
    texts.extend([format!("tr({key},0)"), format!("tr({key},and_v(v:pk({two}),0))"), "wsh(0)".to_owned()]);
    assert_eq!(verdicts(&node, &api, &texts), (35, 39));
}

/// Compares which texts are descriptors with what the node says, and their checksums and addresses: how many are, and how many not.
#[track_caller]
fn verdicts(node: &RealNode, api: &Api, texts: &[String]) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    for text in texts {
        let theirs = node.call("getdescriptorinfo", &[json!(text)]);
        let found = api.data(&format!(
            "{{ validateDescriptor(text: {}) {{ isValid checksum derivedAddresses(first: 1) {{ address }} }} }}",
            json!(text)
        ));
        let ours = &found["validateDescriptor"];
        assert_eq!(ours["isValid"], json!(theirs.is_ok()), "{text}: {theirs:?} {ours}");
        let Ok(theirs) = theirs else {
            refused += 1;
            continue;
        };
        accepted += 1;
        // that of the canonical form, which may be spelled otherwise
        let canonical = theirs["descriptor"].as_str().unwrap();
        assert_eq!(ours["checksum"].as_str(), canonical.split('#').nth(1), "{text}");
        let given = json!(canonical);
        // a bare script has no address
        let address = node.call("deriveaddresses", &[given]).map_or(Value::Null, |addresses| addresses[0].clone());
        assert_eq!(ours["derivedAddresses"][0]["address"], address, "{text}");
    }
    (accepted, refused)
}

#[test]
fn a_combo_has_the_scripts_and_outputs_that_the_node_finds() {
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let (mut api, mut random) = (Api::empty(Network::Regtest, Limits::default()), Rng::new(84));
    node.mine_to(&node.wallet_address("bech32"), 110);
    let text = format!("combo({})", key(&mut random));
    let ours: Vec<_> = (0..2).map(|branch| with_checksum(&node, &single(&text, branch))).collect();
    // three addresses an index: P2PK has none
    let derived = |branch: usize| node.must("deriveaddresses", &[json!(ours[branch]), json!([0, 5])]);
    let derived = [derived(0), derived(1)];
    let paid = [&derived[0][0], &derived[0][4], &derived[0][17], &derived[1][2], &derived[1][9]];
    let paid: serde_json::Map<_, _> = (1..)
        .zip(paid)
        .map(|(amount, address)| (address.as_str().unwrap().to_owned(), json!(format!("0.00{amount}"))))
        .collect();
    node.must("sendmany", &[json!(""), Value::Object(paid)]);
    node.mine(1);
    api.follow(&client);

    let fields: String = (2..8)
        .map(|branch| format!(" b{branch}: derivedAddresses(branch: {branch}, first: 6) {{ address path }}"))
        .collect::<Vec<_>>()
        .concat();
    let found = api.data(&format!(
        "{{ descriptor(text: {0}) {{ scriptType usedCount balance {{ confirmed }}
                branches {{ index path isChange usedCount nextUnused {{ address }} }} }}
            validateDescriptor(text: {0}) {{ isValid branchCount isMultipath scriptType isSolvable{fields} }} }}",
        json!(text)
    ));
    let (account, valid) = (&found["descriptor"], &found["validateDescriptor"]);
    assert_eq!((&account["scriptType"], &valid["scriptType"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&valid["isValid"], &valid["branchCount"], &valid["isMultipath"]),
        (&json!(true), &json!(8), &json!(true))
    );
    for (branch, theirs) in derived.iter().enumerate() {
        let theirs = theirs.as_array().unwrap();
        for form in 0..3 {
            let ours = valid[format!("b{}", 2 + form * 2 + branch)].as_array().unwrap();
            let ours: Vec<_> = ours.iter().map(|found| &found["address"]).collect();
            assert_eq!(ours, theirs.iter().skip(form).step_by(3).collect::<Vec<_>>(), "branch {branch} of form {form}");
        }
    }
    let scanned: Vec<_> = ours.iter().map(|text| json!({ "desc": text, "range": 30 })).collect();
    let scan = node.must("scantxoutset", &[json!("start"), json!(scanned)]);
    assert_eq!(account["balance"]["confirmed"], sats(&scan["total_amount"]));
    assert_eq!((&account["usedCount"], scan["unspents"].as_array().unwrap().len()), (&json!(5), 5));
    let branches = account["branches"].as_array().unwrap();
    let used: Vec<_> = branches.iter().map(|branch| (&branch["usedCount"], &branch["isChange"])).collect();
    let expected = [0, 0, 1, 1, 1, 0, 1, 1].map(|used| json!(used));
    let change = [false, true].map(|change| json!(change));
    assert_eq!(used, expected.iter().zip(change.iter().cycle()).collect::<Vec<_>>());
    // a script of P2PK has no address, and is derived all the same
    assert_eq!(branches[0]["nextUnused"]["address"], Value::Null);
}

/// The events of a stream that watches a descriptor with a gap limit of 4.
fn watching(text: &str) -> String {
    let watch = format!("{{ descriptors: [{{ text: {}, gapLimit: 4 }}] }}", json!(text));
    let fields = "kind isBackfill entry { net transaction { txid } } matches { derived { branch index address } }";
    format!("subscription {{ ledgerEvents(watch: {watch}) {{ {fields} }} }}")
}

#[test]
fn streams_follow_the_wallets_that_the_node_pays() {
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let (mut api, mut random) = (Api::empty(Network::Regtest, Limits::default()), Rng::new(21));
    node.mine_to(&node.wallet_address("bech32"), 120);
    api.follow(&client);

    let texts: Vec<String> = (0..10).map(|form| descriptor(form, &mut random)).collect();
    let mut streams: Vec<_> = texts.iter().map(|text| EventReader::begin(&api, &watching(text))).collect();
    assert!(streams.iter_mut().all(|stream| stream.more().is_empty()));
    let addresses: Vec<Vec<Value>> = texts
        .iter()
        .map(|text| {
            let derive = |branch| {
                node.must("deriveaddresses", &[json!(with_checksum(&node, &single(text, branch))), json!([0, 60])])
            };
            (0..2).map(derive).collect()
        })
        .collect();
    let mut used = vec![[0_u64; 2]; texts.len()];
    let (mut paid, mut found) = (vec![std::collections::BTreeSet::new(); texts.len()], vec![Vec::new(); texts.len()]);
    for round in 0..8 {
        let mut outputs = serde_json::Map::new();
        for (number, ends) in used.iter_mut().enumerate() {
            for (branch, end) in ends.iter_mut().enumerate() {
                // at the end of the gap, or within it
                let index = random.between(*end, *end + 3);
                *end = index + 1;
                let address = addresses[number][branch][usize::try_from(index).unwrap()].as_str().unwrap().to_owned();
                paid[number].insert((branch, index));
                outputs.insert(address, json!("0.00020000"));
            }
        }
        node.must("sendmany", &[json!(""), Value::Object(outputs)]);
        node.mine(1);
        if round % 3 == 2 {
            // the payment comes again in the next block
            node.must("invalidateblock", &[node.must("getbestblockhash", &[])]);
            node.mine(2);
        }
        api.follow(&client);
        if round % 2 == 1 {
            found.iter_mut().zip(&mut streams).for_each(|(found, stream)| found.extend(stream.more()));
        }
    }
    for (number, events) in found.iter().enumerate() {
        let (mut seen, mut total) = (std::collections::BTreeSet::new(), 0);
        for event in events {
            let net = event["entry"]["net"].as_i64().unwrap();
            total += match event["kind"].as_str().unwrap() {
                "CONFIRMED" => net,
                "UNCONFIRMED_BY_REORG" => -net,
                other => panic!("{other} of a server that has no mempool"),
            };
            assert_eq!(event["isBackfill"], false);
            for derived in event["matches"].as_array().unwrap().iter().map(|found| &found["derived"]) {
                let place = [&derived["branch"], &derived["index"]]
                    .map(|part| usize::try_from(part.as_u64().unwrap()).unwrap());
                assert_eq!(derived["address"], addresses[number][place[0]][place[1]]);
                seen.insert((place[0], u64::try_from(place[1]).unwrap()));
            }
        }
        assert_eq!(seen, paid[number], "{}", texts[number]);
        let scanned =
            (0..2).map(|branch| json!({ "desc": with_checksum(&node, &single(&texts[number], branch)), "range": 100 }));
        let scan = node.must("scantxoutset", &[json!("start"), json!(scanned.collect::<Vec<_>>())]);
        assert_eq!(json!(total), sats(&scan["total_amount"]), "{}", texts[number]);
    }
}
