//! What inputs reveal of the outputs that they spend: scripts, signatures, and relative locks.

use std::collections::BTreeMap;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::key::Secp256k1;
use bitcoin::taproot::ControlBlock;
use bitcoin::{ScriptBuf, Transaction, TxOut, XOnlyPublicKey};
use btcgraph::sim::{Hostile, Owner, Payment, Reward, ScriptKind, SimChain, Spendable, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, sat};
use crate::support::bitcoind::RealNode;
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    every_way_to_spend_reveals_its_scripts_and_signatures,
    a_script_shows_its_keys_and_how_many_must_sign,
    relative_locks_count_from_the_confirmation_of_the_spent_output,
    an_output_ages_until_it_is_spent
);

const FIELDS: &str = "scriptSigAsm redeemScript { hex } witnessScript { hex } annex sighashTypes
    tapLeaf { script { hex asm } leafVersion internalKey controlBlock }";

fn inputs(api: &Api, txid: impl std::fmt::Display, fields: &str) -> Value {
    let asked = format!("{{ transaction(txid: \"{txid}\") {{ inputs {{ nodes {{ {fields} }} }} }} }}");
    api.data(&asked)["transaction"]["inputs"]["nodes"].take()
}

#[test]
fn script_sigs_read_as_a_node_writes_them_and_scripts_have_their_hash() {
    let Some(node) = RealNode::start(&[]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(80), Hostile::new(80));
    for _ in 0..150 {
        let block = hostile.mine(&mut chain).unwrap();
        assert_eq!(node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    }
    let api = Api::of_chain(&chain);
    let mut seen = BTreeMap::<String, u32>::new();
    for height in 101..=150 {
        let hash = node.must("getblockhash", &[json!(height)]);
        let block = node.must("getblock", &[hash, json!(3)]);
        for transaction in block["tx"].as_array().unwrap() {
            let ours = inputs(&api, transaction["txid"].as_str().unwrap(), FIELDS);
            for (ours, core) in ours.as_array().unwrap().iter().zip(transaction["vin"].as_array().unwrap()) {
                // a coinbase has no scriptSig here, and none in Core
                assert_eq!(ours["scriptSigAsm"], core["scriptSig"]["asm"]);
                let script = |name: &str| ours[name]["hex"].as_str().map(|hex| ScriptBuf::from_hex(hex).unwrap());
                let (redeem_script, witness_script) = (script("redeemScript"), script("witnessScript"));
                let prevout = &core["prevout"]["scriptPubKey"];
                let spent = ScriptBuf::from_hex(prevout["hex"].as_str().unwrap_or_default()).unwrap();
                let kind = prevout["type"].as_str().unwrap_or("coinbase");
                let is_p2sh = kind == "scripthash";
                assert_eq!(redeem_script.as_ref().map(|script| script.to_p2sh()), is_p2sh.then(|| spent.clone()));
                let program = if is_p2sh { redeem_script.unwrap() } else { spent };
                let has_script = program.is_p2wsh();
                assert_eq!(witness_script.map(|script| script.to_p2wsh()), has_script.then_some(program));
                let is_signed = ours["sighashTypes"] != json!([]);
                *seen.entry(kind.to_owned()).or_default() += 1;
                *seen.entry("signed".to_owned()).or_default() += u32::from(is_signed);
                *seen.entry("p2wsh".to_owned()).or_default() += u32::from(has_script);
                *seen.entry("leaf".to_owned()).or_default() += u32::from(!ours["tapLeaf"].is_null());
            }
        }
    }
    for kind in ["coinbase", "scripthash", "witness_v1_taproot", "pubkeyhash", "signed", "p2wsh", "leaf"] {
        assert!(seen.get(kind).is_some_and(|count| *count > 5), "{kind}: {seen:?}");
    }
}

/// A chain whose first coinbases are paid to these owners and are mature, and those coins.
fn coins_of(owners: &[Owner]) -> (SimChain, Vec<Spendable>) {
    let mut chain = SimChain::new(81).with_clock(1_700_000_000, 600);
    let coins = owners.iter().map(|owner| {
        let reward = Some(Reward::to(owner.script_pubkey()));
        let block = chain.mine_template(Template { reward, ..Template::default() }).unwrap();
        Spendable::of(&block.txdata[0], 0, *owner).unwrap()
    });
    let coins = coins.collect();
    chain.mine_empty(100).unwrap();
    (chain, coins)
}

/// What each kind of output reveals when it is spent.
fn every_way_to_spend_reveals_its_scripts_and_signatures(form: IndexForm) {
    use ScriptKind::{Multisig, P2pk, P2pkh, P2sh, P2shP2wpkh, P2shP2wsh, P2trKey, P2trScript, P2wpkh, P2wsh};
    let kinds = [P2pk, P2pkh, Multisig, P2sh, P2shP2wpkh, P2shP2wsh, P2wpkh, P2wsh, P2trScript, P2trKey];
    let owners = kinds.map(|kind| Owner::new(kind, 3));
    let (mut chain, coins) = coins_of(&owners);
    let spends = coins.into_iter().map(|coin| Payment::of([coin]).change(SimChain::miner(), 2).sign().unwrap());
    let spends: Vec<Transaction> = spends.collect();
    chain.mine(spends.clone()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    for (kind, spend) in kinds.into_iter().zip(&spends) {
        let ours = inputs(&api, spend.compute_txid(), FIELDS)[0].take();
        let input = &spend.input[0];
        let last_push = || {
            let last = input.script_sig.instructions().last().unwrap().unwrap();
            last.push_bytes().unwrap().as_bytes().to_vec()
        };
        let script = |bytes: &[u8]| json!({ "hex": bytes.to_lower_hex_string() });
        let hex = |bytes: &[u8]| bytes.to_lower_hex_string();
        let redeem_script = matches!(kind, P2sh | P2shP2wpkh | P2shP2wsh).then(|| script(&last_push()));
        let witness_script = matches!(kind, P2wsh | P2shP2wsh).then(|| script(input.witness.last().unwrap()));
        let tap_leaf = (kind == P2trScript).then(|| {
            let (leaf, control_block) = (input.witness.nth(0).unwrap(), input.witness.nth(1).unwrap());
            json!({
                "script": { "hex": hex(leaf), "asm": "3 OP_DROP 1" },
                "leafVersion": 192,
                "internalKey": "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0",
                "controlBlock": hex(control_block),
            })
        });
        let sighash_types = match kind {
            P2pk | P2pkh | Multisig | P2shP2wpkh | P2wpkh => json!(["ALL"]),
            P2trKey => json!(["DEFAULT"]),
            _ => json!([]),
        };
        let expected = json!({
            "scriptSigAsm": ours["scriptSigAsm"],
            "redeemScript": redeem_script,
            "witnessScript": witness_script,
            "annex": null,
            "sighashTypes": sighash_types,
            "tapLeaf": tap_leaf,
        });
        assert_eq!(ours, expected, "{kind:?}");
        let has_signature = matches!(kind, P2pk | P2pkh | Multisig);
        assert_eq!(ours["scriptSigAsm"].as_str().unwrap().contains("[ALL]"), has_signature, "{kind:?}");
    }
}

/// BIP341: an annex is the last of at least two items of a witness and begins with 50; what is left of the witness is read
/// without it. The control block of a leaf proves the output key from the internal key and the path to the root.
#[test]
fn a_taproot_spend_shows_its_leaf_its_annex_and_its_sighash_type() {
    let owners = [ScriptKind::P2trScript, ScriptKind::P2trKey].map(|kind| Owner::new(kind, 3));
    let (chain, coins) = coins_of(&owners);
    let api = Api::of_chain(&chain);
    let spends: Vec<Transaction> =
        coins.into_iter().map(|coin| Payment::of([coin]).change(SimChain::miner(), 2).sign().unwrap()).collect();
    let decoded = |witness: &[Vec<u8>], spend: &Transaction| {
        let mut spend = spend.clone();
        spend.input[0].witness = bitcoin::Witness::from_slice(witness);
        let hex = serialize_hex(&spend);
        let asked = format!(
            "{{ decodeTransaction(hex: \"{hex}\") {{ transaction {{ inputs {{ nodes {{ {FIELDS} prevout {{ scriptPubKey }} }} }} }} }} }}"
        );
        api.data(&asked)["decodeTransaction"]["transaction"]["inputs"]["nodes"][0].take()
    };
    let by_script: Vec<Vec<u8>> = spends[0].input[0].witness.to_vec();
    let plain = decoded(&by_script, &spends[0]);
    let leaf = &plain["tapLeaf"];
    let bytes = |value: &Value| Vec::<u8>::from_hex(value.as_str().unwrap()).unwrap();
    let control_block = ControlBlock::decode(&bytes(&leaf["controlBlock"])).unwrap();
    let output_key = XOnlyPublicKey::from_slice(&bytes(&plain["prevout"]["scriptPubKey"])[2..]).unwrap();
    let script = ScriptBuf::from_bytes(bytes(&leaf["script"]["hex"]));
    assert!(control_block.verify_taproot_commitment(&Secp256k1::verification_only(), output_key, &script));
    assert_eq!(leaf["leafVersion"], json!(control_block.leaf_version.to_consensus()));
    assert_eq!(leaf["internalKey"], json!(control_block.internal_key.to_string()));

    let annex = [&by_script[..], &[vec![0x50, 0xab]]].concat();
    let with_annex = decoded(&annex, &spends[0]);
    assert_eq!((&with_annex["annex"], &with_annex["tapLeaf"]), (&json!("50ab"), leaf));

    let signature = spends[1].input[0].witness.nth(0).unwrap().to_vec();
    assert_eq!(signature.len(), 64);
    let with_type = |byte: u8| [&signature[..], &[byte]].concat();
    for (witness, annex, types) in [
        (vec![signature.clone()], json!(null), json!(["DEFAULT"])),
        (vec![signature.clone(), vec![0x50]], json!("50"), json!(["DEFAULT"])),
        (vec![with_type(0x01)], json!(null), json!(["ALL"])),
        (vec![with_type(0x02)], json!(null), json!(["NONE"])),
        (vec![with_type(0x03), vec![0x50, 1, 2]], json!("500102"), json!(["SINGLE"])),
        (vec![with_type(0x81)], json!(null), json!(["ALL_ANYONE_CAN_PAY"])),
        (vec![with_type(0x83)], json!(null), json!(["SINGLE_ANYONE_CAN_PAY"])),
    ] {
        let found = decoded(&witness, &spends[1]);
        assert_eq!((&found["annex"], &found["sighashTypes"], &found["tapLeaf"]), (&annex, &types, &Value::Null));
    }
}

fn a_script_shows_its_keys_and_how_many_must_sign(form: IndexForm) {
    let owner = Owner::new(ScriptKind::Multisig, 3);
    let (chain, _) = coins_of(&[owner]);
    let api = Api::of_chain_in(form, &chain);
    let script = owner.script_pubkey();
    let pushes = script.instructions().filter_map(|op| op.unwrap().push_bytes().map(|key| key.as_bytes().to_vec()));
    let keys: Vec<_> = pushes.collect();
    let answer = api.data(
        "{ block(height: 1) { transaction(index: 0) { outputs(first: 1) { nodes { script {
            hex info { publicKeys requiredSignatureCount script { hex } }
        } } } } } }",
    );
    let hex = |bytes: &[u8]| json!(bytes.to_lower_hex_string());
    assert_eq!(
        answer["block"]["transaction"]["outputs"]["nodes"][0]["script"],
        json!({
            "hex": hex(script.as_bytes()),
            "info": {
                "publicKeys": keys.iter().map(|key| hex(key)).collect::<Vec<_>>(),
                "requiredSignatureCount": 1,
                "script": { "hex": hex(script.as_bytes()) },
            },
        })
    );
    assert_eq!(keys.len(), 2);
    let unknown = format!("{{ script(scriptHash: \"{}\") {{ info {{ hash160 }} }} }}", "ab".repeat(32));
    assert_eq!(api.data(&unknown), json!({ "script": { "info": null } }));
}

/// The seconds since 1970 of a time on or after 2023-11-14T22:13:20Z, within a day or so.
fn seconds_of(text: &str) -> u64 {
    let part = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap();
    assert_eq!(&text[..8], "2023-11-");
    let days = part(8..10) - 14;
    let midnight = 1_700_000_000 - (22 * 3_600 + 13 * 60 + 20);
    midnight + days * 86_400 + part(11..13) * 3_600 + part(14..16) * 60 + part(17..19)
}

const LOCK: &str = "relativeLock { blockCount seconds spendableAtHeight spendableAt isSatisfiedAtNextBlock }";

fn relative_locks_count_from_the_confirmation_of_the_spent_output(form: IndexForm) {
    let owner = Owner::new(ScriptKind::P2wsh, 5);
    let (chain, coins) = coins_of(&[owner; 7]);
    let mut api = Api::of_chain_in(form, &chain);
    let median_time = |height: u32| chain.median_time_past(&chain.hash_at(height.into()).unwrap()).unwrap();
    // the tip is at height 107, the first coin that is locked by time at height 5
    let reached = (median_time(107) - median_time(4)) / 512;
    let lock = |blocks: Option<u32>, seconds: Option<u32>, height: Option<u32>, satisfied: bool| json!({ "blockCount": blocks, "seconds": seconds, "spendableAtHeight": height, "isSatisfiedAtNextBlock": satisfied });
    let cases = [
        (2, 0, Some(lock(Some(0), None, Some(1), true))),
        (2, 106, Some(lock(Some(106), None, Some(108), true))),
        (3, 106, Some(lock(Some(106), None, Some(109), false))),
        (1, 106, None),
        (2, 0x40_0000 | reached, Some(lock(None, Some(reached * 512), None, true))),
        (2, 0x40_0000 | (reached + 3), Some(lock(None, Some((reached + 3) * 512), None, false))),
        (2, 0x8000_0001, None),
    ];
    for (number, (coin, (version, sequence, expected))) in coins.into_iter().zip(cases).enumerate() {
        let spend = Payment::of([coin]).to(owner, sat(1_000)).version(version).sequence(sequence).sign().unwrap();
        api.arrive([&spend]);
        let mut found = inputs(&api, spend.compute_txid(), LOCK)[0]["relativeLock"].take();
        if let Some(found) = found.as_object_mut() {
            let at = found.remove("spendableAt").unwrap();
            // the block before the coin's own is where the time is counted from
            let from = u32::try_from(number).unwrap();
            let end = found["seconds"].as_u64().map(|seconds| u64::from(median_time(from)) + seconds);
            assert_eq!(at.as_str().map(seconds_of), end);
        }
        assert_eq!(found, expected.unwrap_or_default(), "version {version}, sequence {sequence:x}");
        let parent = Spendable::of(&spend, 0, owner).unwrap();
        let child = Payment::of([parent]).to(owner, sat(500)).sequence(1).sign().unwrap();
        api.arrive([&child]);
        let of_child = inputs(&api, child.compute_txid(), LOCK)[0]["relativeLock"].take();
        let waits = json!({
            "blockCount": 1, "seconds": null, "spendableAtHeight": null, "spendableAt": null, "isSatisfiedAtNextBlock": false,
        });
        assert_eq!(of_child, waits);
    }
    let coinbase = api.data(&format!(
        "{{ block(height: 1) {{ transaction(index: 0) {{ inputs {{ nodes {{ {LOCK} {FIELDS} }} }} }} }} }}"
    ));
    assert_eq!(
        coinbase["block"]["transaction"]["inputs"]["nodes"][0],
        json!({
            "relativeLock": null, "scriptSigAsm": null, "redeemScript": null, "witnessScript": null, "annex": null,
            "sighashTypes": [], "tapLeaf": null,
        })
    );
}

#[test]
fn sigops_and_the_size_they_count_for_are_those_of_a_node() {
    use ScriptKind::{Multisig, P2pk, P2pkh, P2shP2wpkh, P2shP2wsh, P2trKey, P2wpkh, P2wsh};
    let Some(node) = RealNode::start(&["-acceptnonstdtxn=1", "-maxtipage=9999999999"]) else { return };
    let kinds = [P2pk, P2pkh, Multisig, P2shP2wpkh, P2shP2wsh, P2wpkh, P2wsh, P2trKey];
    let owners = kinds.map(|kind| Owner::new(kind, 3));
    let (mut chain, coins) = coins_of(&owners);
    for block in chain.active_blocks().skip(1) {
        assert_eq!(node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    }
    let mut api = Api::of_chain(&chain);
    let mut spends = Vec::new();
    for (number, coin) in coins.into_iter().enumerate() {
        // outputs with more signature operations each time: of single keys, and of keys of an unknown number
        let checks = |script: &[u8]| TxOut { value: sat(1_000), script_pubkey: ScriptBuf::from_bytes(script.to_vec()) };
        let (single, multisig) = (checks(&[0xac; 30]), checks(&[0x52, 0xae]));
        let payment =
            (0..number).fold(Payment::of([coin]).output(multisig), |payment, _| payment.output(single.clone()));
        let spend = payment.change(SimChain::miner(), 20).sign().unwrap();
        node.must("sendrawtransaction", &[json!(serialize_hex(&spend)), json!(0)]);
        api.arrive([&spend]);
        spends.push(spend);
    }
    let template = node.must("getblocktemplate", &[json!({ "rules": ["segwit"] })]);
    let listed = template["transactions"].as_array().unwrap();
    assert_eq!(listed.len(), kinds.len());
    let mut adjusted = 0;
    for listed in listed {
        let txid = listed["txid"].as_str().unwrap();
        let fields = "vsize sigopCost adjustedVsize fee effectiveFeeRate mempoolEntry { totalAncestorVsize }";
        let ours = api.data(&format!("{{ transaction(txid: \"{txid}\") {{ {fields} }} }}"))["transaction"].take();
        let entry = node.must("getmempoolentry", &[json!(txid)]);
        assert_eq!(ours["sigopCost"], listed["sigops"]);
        assert_eq!(ours["adjustedVsize"], entry["vsize"]);
        assert_eq!(ours["mempoolEntry"]["totalAncestorVsize"], entry["ancestorsize"]);
        if ours["adjustedVsize"] != ours["vsize"] {
            adjusted += 1;
            let [fee, vsize] = ["fee", "adjustedVsize"].map(|figure| ours[figure].as_f64().unwrap());
            assert_eq!(ours["effectiveFeeRate"].as_f64(), Some(fee / vsize), "{txid}");
        }
    }
    assert!(adjusted > 2, "{adjusted} have more signature operations than their size");
    let coinbase = api.data("{ block(height: 1) { transaction(index: 0) { sigopCost vsize adjustedVsize } } }");
    let coinbase = &coinbase["block"]["transaction"];
    assert_eq!((&coinbase["sigopCost"], &coinbase["adjustedVsize"]), (&json!(4), &coinbase["vsize"]), "P2PK");

    // the miner orders by these sizes, and so does the projection
    let projected =
        "{ mempool { stats { totalVsize } projectedBlocks { transactions { nodes { txid effectiveFeeRate } } } } }";
    let projected = api.data(projected)["mempool"].take();
    assert_eq!(projected["stats"]["totalVsize"], node.must("getmempoolinfo", &[])["bytes"]);
    let ordered = projected["projectedBlocks"][0]["transactions"]["nodes"].as_array().unwrap();
    let ids = |listed: &[Value]| listed.iter().map(|listed| listed["txid"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(ordered), ids(listed));
    // and they have the feerates that they had once they are mined, each by itself and in the whole block
    api.connect(&chain.mine(spends).unwrap());
    let block = api.data("{ tip { summary { txids effectiveFeeRates } } }")["tip"]["summary"].take();
    for waited in ordered {
        let alone = api.data(&format!("{{ transaction(txid: {}) {{ effectiveFeeRate }} }}", waited["txid"]));
        assert_eq!(alone["transaction"]["effectiveFeeRate"], waited["effectiveFeeRate"]);
        let place = block["txids"].as_array().unwrap().iter().position(|txid| *txid == waited["txid"]).unwrap();
        assert_eq!(block["effectiveFeeRates"][place], waited["effectiveFeeRate"]);
    }
}

fn an_output_ages_until_it_is_spent(form: IndexForm) {
    let owner = Owner::new(ScriptKind::P2wsh, 5);
    let (mut chain, mut coins) = coins_of(&[owner, owner]);
    let spend = Payment::of([coins.remove(1)]).change(owner, 2).sign().unwrap();
    chain.mine(vec![spend]).unwrap();
    chain.mine_empty(1).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let median_time = |height: u32| chain.median_time_past(&chain.hash_at(height.into()).unwrap()).unwrap();
    let life = |height: u32| {
        let fields = "age { blockCount seconds } lifespan { blockCount seconds }";
        let asked = format!(
            "{{ block(height: {height}) {{ transaction(index: 0) {{ outputs {{ nodes {{ {fields} }} }} }} }} }}"
        );
        api.data(&asked)["block"]["transaction"]["outputs"]["nodes"].take()
    };
    let between =
        |from: u32, to: u32| json!({ "blockCount": to - from, "seconds": median_time(to) - median_time(from) });
    // the tip is at height 104, and the second coin is spent at 103
    assert_eq!(life(1)[0], json!({ "age": between(1, 104), "lifespan": null }));
    assert_eq!(life(2)[0], json!({ "age": null, "lifespan": between(2, 103) }));
    assert_eq!(life(0)[0], json!({ "age": null, "lifespan": null }), "nor the output of the genesis block");
}
