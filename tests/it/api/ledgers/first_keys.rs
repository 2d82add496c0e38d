//! Ledgers of the first blocks of mainnet, whose coins went to bare keys.

use std::collections::BTreeMap;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Network, OutPoint, PublicKey, ScriptBuf};
use serde_json::{Value, json};

use crate::support::api::{Api, real_chain};

const COIN: u64 = 100_000_000;
/// The key that block 9 paid and that made the first payment, to another.
const KEY: &str = "0411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3";
const ADDRESS: &str = "12cbQLTFMXRnSzktFkuoG3eHoMeFtpTu3S";

#[test]
fn the_ledger_of_the_first_payer_is_found_by_script_and_by_its_hash_in_either_byte_order() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks);
    let script = ScriptBuf::new_p2pk(&KEY.parse::<PublicKey>().unwrap());
    let natural = sha256::Hash::hash(script.as_bytes()).to_string();
    let reversed: String = (0..32).rev().map(|byte| &natural[2 * byte..2 * byte + 2]).collect();

    // what the blocks themselves say
    let (mut held, mut moves) = (BTreeMap::new(), Vec::new());
    for (height, transaction) in
        (0_u32..).zip(&blocks).flat_map(|(height, block)| block.txdata.iter().map(move |tx| (height, tx)))
    {
        let spent: u64 = transaction.input.iter().filter_map(|input| held.remove(&input.previous_output)).sum();
        let (txid, mut received) = (transaction.compute_txid(), 0);
        for (vout, output) in (0..).zip(&transaction.output).filter(|(_, output)| output.script_pubkey == script) {
            held.insert(OutPoint { txid, vout }, output.value.to_sat());
            received += output.value.to_sat();
        }
        if received > 0 || spent > 0 {
            moves.push((height, received, spent));
        }
    }
    assert_eq!(moves[..2], [(9, 50 * COIN, 0), (170, 40 * COIN, 50 * COIN)]);
    let balance: u64 = held.values().sum();
    let turnover = moves.iter().fold((0, 0), |sum, (_, received, spent)| (sum.0 + received, sum.1 + spent));
    let entries = moves.iter().map(|(height, received, spent)| {
        json!({
            "received": received, "spent": spent, "sentToSelf": *received > 0 && *spent > 0, "touched": [script.to_hex_string()],
            "transaction": { "block": { "height": height } },
        })
    });
    let expected = json!({
        "id": format!("Script:{natural}"),
        "hex": script.to_hex_string(),
        "address": null,
        "scriptHash": natural,
        "electrumScriptHash": reversed,
        "balance": { "confirmed": balance, "immature": 0 },
        "stats": { "received": turnover.0.to_string(), "spent": turnover.1.to_string(), "txCount": moves.len(), "minedBlockCount": 1 },
        "transactions": { "nodes": entries.collect::<Vec<_>>() },
        "coinbaseBlocks": { "nodes": [{ "height": 9 }] },
    });
    let ask = "id hex address scriptHash electrumScriptHash balance { confirmed immature } stats { received spent txCount minedBlockCount }
        transactions(order: ASC, first: 100) { nodes { received spent sentToSelf touched transaction { block { height } } } }
        coinbaseBlocks { nodes { height } }";
    for arguments in [
        format!("scriptPubKey: \"{script:x}\""),
        format!("scriptHash: \"{natural}\""),
        format!("electrumScriptHash: \"{reversed}\""),
    ] {
        assert_eq!(api.data(&format!("{{ script({arguments}) {{ {ask} }} }}"))["script"], expected, "{arguments}");
    }
    // in the other order it is the hash of something that never was
    let other = api.data(&format!(
        "{{ script(electrumScriptHash: \"{natural}\") {{ id hex scriptHash stats {{ used }} balance {{ confirmed }} }} }}"
    ));
    let unknown = format!("ScriptHash:{reversed}");
    assert_eq!(
        other["script"],
        json!({ "id": unknown, "hex": null, "scriptHash": reversed, "stats": { "used": false }, "balance": { "confirmed": 0 } })
    );
    // no two objects have one id and different content
    let node =
        |id: &str| api.data(&format!("{{ node(id: \"{id}\") {{ id ... on Script {{ hex }} }} }}"))["node"].clone();
    assert_eq!(node(&unknown), json!({ "id": unknown, "hex": null }));
    assert_eq!(node(&format!("Script:{reversed}")), Value::Null);
    assert_eq!(node(&format!("ScriptHash:{natural}")), Value::Null);
    assert_eq!(
        node(&format!("Script:{natural}")),
        json!({ "id": format!("Script:{natural}"), "hex": format!("{script:x}") })
    );
}

#[test]
fn the_address_of_a_key_that_was_paid_bare_knows_the_key_and_counts_none_of_it() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let ask = format!(
        "{{ address(address: \"{ADDRESS}\") {{ publicKey stats {{ used }} p2pkScripts {{ hex stats {{ firstSeenBlock {{ height }} }} }} }} }}"
    );
    let before = Api::of(Network::Bitcoin, &blocks[..9]).data(&ask);
    assert_eq!(before["address"], json!({ "publicKey": null, "stats": { "used": false }, "p2pkScripts": [] }));
    let found = Api::of(Network::Bitcoin, &blocks[..10]).data(&ask);
    let script = json!({ "hex": format!("41{KEY}ac"), "stats": { "firstSeenBlock": { "height": 9 } } });
    assert_eq!(found["address"], json!({ "publicKey": KEY, "stats": { "used": false }, "p2pkScripts": [script] }));
    let together = Api::of(Network::Bitcoin, &blocks[..=170]).data(&format!(
        "{{ ledgerSet(of: {{ addresses: [\"{ADDRESS}\"], scripts: [\"41{KEY}ac\"] }}) {{ balance {{ confirmed }}
            transactions {{ nodes {{ touched }} }} members {{ ledger {{ ... on Address {{ address }} ... on Script {{ hex }} }} error {{ code }} }} }} }}"
    ));
    let member = |ledger: Value| json!({ "ledger": ledger, "error": null });
    assert_eq!(
        together["ledgerSet"],
        json!({
            "balance": { "confirmed": 40 * COIN },
            "transactions": { "nodes": [{ "touched": [format!("41{KEY}ac")] }, { "touched": [format!("41{KEY}ac")] }] },
            "members": [member(json!({ "address": ADDRESS })), member(json!({ "hex": format!("41{KEY}ac") }))],
        })
    );
}

#[test]
fn each_entry_of_a_list_is_a_ledger_of_its_own() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks[..=170]);
    let of = format!("{{ addresses: [\"{ADDRESS}\", \"1\"], scripts: [\"41{KEY}ac\"] }}");
    let ledger = "__typename balance { confirmed } coinbaseBlocks { totalCount nodes { height } }";
    let data = api.data(&format!("{{ ledgers(of: {of}) {{ input ledger {{ {ledger} }} error {{ code }} }} }}"));
    let unpaid = json!({
        "__typename": "Address", "balance": { "confirmed": 0 }, "coinbaseBlocks": { "totalCount": 0, "nodes": [] },
    });
    let paid = json!({
        "__typename": "Script", "balance": { "confirmed": 40 * COIN },
        "coinbaseBlocks": { "totalCount": 1, "nodes": [{ "height": 9 }] },
    });
    let expected = json!([
        { "input": ADDRESS, "ledger": unpaid, "error": null },
        { "input": "1", "ledger": null, "error": { "code": "WRONG_LENGTH" } },
        { "input": format!("41{KEY}ac"), "ledger": paid, "error": null },
    ]);
    assert_eq!(data["ledgers"], expected);
}
