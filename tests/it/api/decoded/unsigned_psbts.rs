//! `decodePsbt` of unsigned PSBTs: the outputs that they spend, in the PSBT and on the chain.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::psbt::raw;
use bitcoin::{Amount, Psbt, Transaction, TxOut};
use btcgraph::sim::{Owner, ScriptKind, SimChain};
use serde_json::{Value, json};

use crate::support::api::{Api, coinbase_output, sat, spend};

const FIELDS: &str = "version nextRole isFinalized fee estimatedVsize estimatedFeeRate
    unsignedTransaction { txid wtxid size weight vsize state inputCount outputCount } finalTransaction { txid hex }
    inputs { totalCount nodes { index outpoint { text } isUtxoKnown isUtxoConsistent value script { hex } prevout { value }
        redeemScript { hex } witnessScript { hex } sighashType derivations { publicKey fingerprint path }
        signatures { publicKey signature } requiredSignatureCount unsignedKeys missingKeyHash missingRedeemScriptHash
        missingWitnessScriptHash isFinalized finalScriptSig finalWitness nextRole } }
    outputs { totalCount nodes { index value script { hex } redeemScript { hex } witnessScript { hex }
        derivations { publicKey fingerprint path } isChange } }";

pub(super) fn decode(api: &Api, psbt: &str) -> Value {
    api.data(&format!("{{ decodePsbt(psbt: {}) {{ {FIELDS} }} }}", json!(psbt)))["decodePsbt"].take()
}

/// A chain with a coin, and a PSBT that spends it.
pub(super) fn unsigned() -> (Api, Psbt, TxOut) {
    let (mut chain, owner) = (SimChain::new(5), Owner::new(ScriptKind::P2wpkh, 9));
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let miner = Owner::new(ScriptKind::P2wsh, 0);
    let paid = spend(&chain, miner, &[coinbase_output(&first, 0)], vec![owner.output(sat(70_000))]);
    chain.mine(vec![paid.clone()]).unwrap();
    let mut parts = paid.clone();
    parts.input[0].previous_output = bitcoin::OutPoint { txid: paid.compute_txid(), vout: 0 };
    parts.input[0].witness.clear();
    parts.input[0].script_sig = bitcoin::ScriptBuf::new();
    parts.output = vec![owner.output(sat(69_000))];
    (Api::of_chain(&chain), Psbt::from_unsigned_tx(parts).unwrap(), paid.output[0].clone())
}

pub(super) fn text(psbt: &Psbt) -> String {
    STANDARD.encode(psbt.serialize())
}

#[test]
fn the_chain_knows_what_a_psbt_does_not_say() {
    let (api, mut psbt, coin) = unsigned();
    let found = decode(&api, &text(&psbt));
    let input = &found["inputs"]["nodes"][0];
    assert_eq!(
        (&found["fee"], &found["nextRole"], &found["estimatedVsize"], &found["finalTransaction"]),
        (&json!(1_000), &json!("UPDATER"), &Value::Null, &Value::Null)
    );
    assert_eq!(
        (&input["isUtxoKnown"], &input["isUtxoConsistent"], &input["value"], &input["prevout"]["value"]),
        (&json!(false), &Value::Null, &json!(70_000), &json!(70_000))
    );
    // an amount that is too high makes a fee look low
    psbt.inputs[0].witness_utxo = Some(TxOut { value: sat(90_000), ..coin.clone() });
    let found = decode(&api, &text(&psbt));
    let input = &found["inputs"]["nodes"][0];
    assert_eq!(
        (&found["fee"], &input["isUtxoConsistent"], &input["value"]),
        (&json!(1_000), &json!(false), &json!(70_000))
    );
    psbt.inputs[0].witness_utxo = Some(coin);
    let found = decode(&api, &psbt.serialize().to_lower_hex_string());
    let input = &found["inputs"]["nodes"][0];
    assert_eq!((&input["isUtxoKnown"], &input["isUtxoConsistent"]), (&json!(true), &json!(true)));
    assert_eq!((&found["nextRole"], &input["requiredSignatureCount"]), (&json!("UPDATER"), &json!(1)));
    assert_eq!(input["missingKeyHash"], input["script"]["hex"].as_str().unwrap()[4..]);

    // the whole transaction says otherwise, whose bytes the outpoint commits to
    let txid = psbt.unsigned_tx.input[0].previous_output.txid;
    let found = api.data(&format!("{{ transaction(txid: \"{txid}\") {{ hex }} }}"));
    let whole: Transaction =
        deserialize(&Vec::from_hex(found["transaction"]["hex"].as_str().unwrap()).unwrap()).unwrap();
    let consistent = |psbt: &Psbt| {
        let found = decode(&api, &text(psbt));
        let input = &found["inputs"]["nodes"][0];
        (input["isUtxoKnown"].clone(), input["isUtxoConsistent"].clone())
    };
    let mut both = psbt.clone();
    both.inputs[0].non_witness_utxo = Some(whole.clone());
    assert_eq!(consistent(&both), (json!(true), json!(true)));
    both.inputs[0].witness_utxo.as_mut().unwrap().value = sat(65_000);
    assert_eq!(consistent(&both), (json!(true), json!(false)));
    let mut forged = whole;
    forged.output[0].value = sat(65_000);
    both.inputs[0].non_witness_utxo = Some(forged);
    assert_eq!(consistent(&both), (json!(false), json!(false)));

    // an output that is not on the chain, and an amount above the supply
    psbt.unsigned_tx.input[0].previous_output.vout = 7;
    for (utxo, value) in [(sat(5), json!(5)), (Amount::MAX_MONEY + sat(1), Value::Null)] {
        psbt.inputs[0].witness_utxo.as_mut().unwrap().value = utxo;
        let found = decode(&api, &text(&psbt));
        let input = &found["inputs"]["nodes"][0];
        assert_eq!((&found["fee"], &input["value"], &input["prevout"]), (&Value::Null, &value, &Value::Null));
        assert_eq!(input["isUtxoConsistent"], Value::Null);
    }
}

#[test]
fn what_is_no_psbt_is_refused_by_a_code() {
    let (api, psbt, _) = unsigned();
    let bytes = psbt.serialize();
    let encode = |bytes: &[u8]| STANDARD.encode(bytes);
    let mut version2 = psbt.clone();
    version2.unknown.insert(raw::Key { type_value: 0xfb, key: vec![] }, 2_u32.to_le_bytes().to_vec());
    // the global map, once more within itself
    let twice = [&bytes[..bytes.len() - 3], &bytes[5..]].concat();
    let mut costly = psbt.clone();
    costly.unsigned_tx.output[0].value = Amount::MAX_MONEY + sat(1);
    for (given, message) in [
        (String::new(), "the PSBT is empty"),
        ("nonsense!".to_owned(), "neither base64 nor hexadecimal digits: '!' does not belong there, at position 8 "),
        ("cHNidP8B=AAA".to_owned(), "'=' does not belong there, at position 8 "),
        // positions count characters, white space among them
        (" cHN\nidP8\u{e9}".to_owned(), "'\u{e9}' does not belong there, at position 9 "),
        ("\u{e9}\u{2603}".to_owned(), "'\u{e9}' does not belong there, at position 0 "),
        ("cHNidP8BA".to_owned(), "it is cut, a single letter is left of the last four"),
        ("cHNidP8BAB==".to_owned(), "it is cut, the last letter stands for less than a byte, at position 9 "),
        ("cHNidP8BAA".to_owned(), "it does not end with as many = as fill up the last four letters"),
        (encode(b"psbt"), "ends early, after 4 bytes"),
        (encode(b"nothing of that kind"), "do not begin with"),
        (bytes.to_lower_hex_string() + "0", "hexadecimal digits: it has an odd number of digits"),
        (bytes.to_lower_hex_string().replacen("ff01", "ff 0g", 1), "'g' does not belong there, at position 12 "),
        (encode(&bytes[..bytes.len() - 1]), "ends early, after"),
        (encode(&[&bytes[..], b"x"].concat()), "1 bytes more"),
        (text(&version2), "BIP370"),
        (encode(&twice), "a key twice"),
        (text(&costly), "exceed the coin supply"),
        (encode(&[b"psbt\xff\xfe\xff\xff\xff\xff".as_slice(), &[0; 40]].concat()), "malformed"),
    ] {
        let answer = api.ask(&format!("{{ decodePsbt(psbt: {}) {{ fee }} }}", json!(given)));
        let error = &answer["errors"][0];
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
        let found = error["message"].as_str().unwrap();
        assert!(found.starts_with("psbt does not decode: ") && found.contains(message), "{found}, not {message}");
        let position = found.split_once(" at position ").and_then(|(_, rest)| rest.split(' ').next());
        let position = position.map_or(Value::Null, |position| json!(position.parse::<u64>().unwrap()));
        assert_eq!(error["extensions"]["position"], position, "{found}");
    }
}

#[test]
fn a_psbt_without_inputs_waits_for_its_updater() {
    let (api, mut psbt, _) = unsigned();
    psbt.unsigned_tx.input.clear();
    psbt.inputs.clear();
    let document = format!(
        "{{ decodePsbt(psbt: {}) {{ nextRole isFinalized estimatedVsize finalTransaction {{ txid }} \
         unsignedTransaction {{ hex }} }} }}",
        json!(text(&psbt))
    );
    let answer = api.ask(&document);
    let parts = &psbt.unsigned_tx;
    // without the marker of witnesses
    let hex = [serialize(&parts.version), vec![0], serialize(&parts.output), serialize(&parts.lock_time)].concat();
    assert_eq!(
        answer["data"]["decodePsbt"],
        json!({
            "nextRole": "UPDATER", "isFinalized": false, "estimatedVsize": null, "finalTransaction": null,
            "unsignedTransaction": { "hex": hex.to_lower_hex_string() },
        }),
        "{answer}"
    );
}

#[test]
fn a_psbt_of_many_inputs_has_pages() {
    let (api, mut psbt, _) = unsigned();
    for vout in 1..250 {
        let mut input = psbt.unsigned_tx.input[0].clone();
        input.previous_output.vout = vout;
        psbt.unsigned_tx.input.push(input);
        psbt.inputs.push(bitcoin::psbt::Input::default());
    }
    let page = |arguments: &str| {
        let fields = "totalCount nodes { index outpoint { text } } pageInfo { hasNextPage endCursor }";
        let given = json!(text(&psbt));
        api.data(&format!("{{ decodePsbt(psbt: {given}) {{ inputs{arguments} {{ {fields} }} }} }}"))["decodePsbt"]["inputs"].take()
    };
    let first = page("");
    assert_eq!((&first["totalCount"], &first["pageInfo"]["hasNextPage"]), (&json!(250), &json!(true)));
    assert_eq!(first["nodes"].as_array().unwrap().len(), 100);
    let rest = page(&format!("(first: 100, after: {})", first["pageInfo"]["endCursor"]));
    assert_eq!(rest["nodes"][0]["index"], 100);
    let last = page("(last: 1)");
    assert_eq!(last["nodes"][0]["outpoint"]["text"], psbt.unsigned_tx.input[249].previous_output.to_string());
}
