//! Accounts by descriptor: which scripts belong to one, their figures as one ledger, and what is refused.

use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, absolute, transaction};
use btcgraph::chain::address_of;
use btcgraph::chain::descriptor::OutputDescriptor;
use btcgraph::limits::Limits;
use btcgraph::sim::{Owner, ScriptKind, SimChain};
use serde_json::{Value, json};

use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, sat, spend_outputs};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    an_account_answers_as_the_set_of_its_scripts,
    pages_of_a_set_go_on_when_another_script_of_its_descriptor_is_used
);

/// The owner of the coins of [`chain_with_coins`].
pub(crate) const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);
pub(crate) const PRIVATE: &str =
    "tprv8ZgxMBicQKsPeDgjzdC36fs6bMjGApWDNLR9erAXMs5skhMv36j9MV5ecvfavji5khqjWaWSFhN3YcCUUdiKH6isR4Pwy3U5y5egddBr16m";

/// The account key of a wallet for tests.
pub(crate) fn account_key() -> Xpub {
    let secp = Secp256k1::new();
    let path: DerivationPath = "m/84h/1h/0h".parse().unwrap();
    let master = Xpriv::new_master(Network::Regtest, &[7; 32]).unwrap();
    Xpub::from_priv(&secp, &master.derive_priv(&secp, &path).unwrap())
}

pub(crate) fn wallet() -> String {
    format!("wpkh([d34db33f/84'/1'/0']{}/<0;1>/*)", account_key())
}

pub(crate) fn script(text: &str, branch: usize, index: u32) -> ScriptBuf {
    OutputDescriptor::parse(text, Network::Regtest).unwrap().branch(branch).unwrap().script(index).unwrap()
}

fn address(branch: usize, index: u32) -> String {
    address_of(&script(&wallet(), branch, index), Network::Regtest).unwrap()
}

/// A payment of a coin of the payer to these scripts of the wallet.
pub(crate) fn pay(coin: OutPoint, outputs: &[(usize, u32, u64)]) -> Transaction {
    let wallet = OutputDescriptor::parse(&wallet(), Network::Regtest).unwrap();
    let branches = [0, 1].map(|branch| wallet.branch(branch).unwrap());
    let outputs = outputs.iter().map(|(branch, index, value)| TxOut {
        value: sat(*value),
        script_pubkey: branches[*branch].script(*index).unwrap(),
    });
    spend_outputs(PAYER, &[coin], &[PAYER.output(sat(100_000))], outputs.collect())
}

/// A transaction that spends a coin of the wallet. The simulated chain does not execute scripts of strangers.
pub(crate) fn spend_wallet(coin: OutPoint, output: Vec<TxOut>) -> Transaction {
    let input = TxIn { previous_output: coin, sequence: Sequence::MAX, ..TxIn::default() };
    Transaction { version: transaction::Version::TWO, lock_time: absolute::LockTime::ZERO, input: vec![input], output }
}

fn field(text: &str, arguments: &str) -> String {
    format!("descriptor(text: {} {arguments})", json!(text))
}

fn account(api: &Api, arguments: &str, fields: &str) -> Value {
    api.data(&format!("{{ {} {{ {fields} }} }}", field(&wallet(), arguments)))["descriptor"].take()
}

/// A chain in which the wallet was paid at 0, 19 and 39 of its receive branch, and behind the gap at 60, and got change.
fn paid_wallet() -> (SimChain, Vec<OutPoint>) {
    let (mut chain, coins) = chain_with_coins(5);
    let first = pay(coins[0], &[(0, 0, 50_000), (0, 19, 20_000)]);
    chain.mine(vec![first.clone()]).unwrap();
    chain.mine(vec![pay(coins[1], &[(0, 39, 7_000)]), pay(coins[2], &[(0, 60, 3_000)])]).unwrap();
    let change = TxOut { value: sat(15_000), script_pubkey: script(&wallet(), 1, 0) };
    let coin = OutPoint { txid: first.compute_txid(), vout: 0 };
    chain.mine(vec![spend_wallet(coin, vec![PAYER.output(sat(34_000)), change])]).unwrap();
    (chain, coins)
}

#[test]
fn an_account_is_every_script_up_to_the_gap() {
    let (chain, _) = paid_wallet();
    let api = Api::of_chain(&chain);
    let found = account(
        &api,
        "",
        "descriptor checksum scriptType isRanged gapLimit usedCount balance { confirmed total spendable }
         branches { index path isChange usedCount derivedCount lastUsed { index } nextUnused { index address path } }
         receive: nextUnused { address path branch index used } change: nextUnused(branch: 1) { address path }
         transactions { totalCount nodes { net balanceAfter } } utxos { totalCount totalValue }
         stats { txCount receivedCount received spentCount spent }",
    );
    let normal = wallet().replace('\'', "h");
    let text = found["descriptor"].as_str().unwrap().to_owned();
    assert_eq!(text, format!("{normal}#{}", found["checksum"].as_str().unwrap()));
    // 60 lies 21 behind 39: the 20 scripts between them end the branch
    let expected = json!({
        "descriptor": text, "checksum": text.rsplit_once('#').unwrap().1, "scriptType": "P2WPKH", "isRanged": true,
        "gapLimit": 20, "usedCount": 4,
        "balance": { "confirmed": 42_000, "total": 42_000, "spendable": 42_000 },
        "branches": [
            {
                "index": 0, "path": "m/84h/1h/0h/0/*", "isChange": false, "usedCount": 3, "derivedCount": 60,
                "lastUsed": { "index": 39 },
                "nextUnused": { "index": 40, "address": address(0, 40), "path": "m/84h/1h/0h/0/40" },
            },
            {
                "index": 1, "path": "m/84h/1h/0h/1/*", "isChange": true, "usedCount": 1, "derivedCount": 21,
                "lastUsed": { "index": 0 },
                "nextUnused": { "index": 1, "address": address(1, 1), "path": "m/84h/1h/0h/1/1" },
            },
        ],
        "receive": { "address": address(0, 40), "path": "m/84h/1h/0h/0/40", "branch": 0, "index": 40, "used": false },
        "change": { "address": address(1, 1), "path": "m/84h/1h/0h/1/1" },
        "transactions": { "totalCount": 3, "nodes": [
            { "net": -35_000, "balanceAfter": 42_000 },
            { "net": 7_000, "balanceAfter": 77_000 },
            { "net": 70_000, "balanceAfter": 70_000 },
        ] },
        "utxos": { "totalCount": 3, "totalValue": 42_000 },
        "stats": { "txCount": 3, "receivedCount": 4, "received": "92000", "spentCount": 1, "spent": "50000" },
    });
    assert_eq!(found, expected);
}

#[test]
fn the_gap_limit_decides_what_belongs_to_an_account() {
    let (chain, _) = paid_wallet();
    let api = Api::of_chain(&chain);
    for (gap, used, confirmed) in [(1, 2, 15_000), (18, 2, 15_000), (19, 3, 35_000), (20, 4, 42_000), (21, 5, 45_000)] {
        let found = account(&api, &format!("gapLimit: {gap}"), "gapLimit usedCount balance { confirmed }");
        let expected = json!({ "gapLimit": gap, "usedCount": used, "balance": { "confirmed": confirmed } });
        assert_eq!(found, expected);
    }
}

fn an_account_answers_as_the_set_of_its_scripts(form: IndexForm) {
    let (chain, coins) = paid_wallet();
    let mut api = Api::of_chain_in(form, &chain);
    api.arrive([&pay(coins[3], &[(0, 40, 9_000), (1, 20, 1_000)])]);
    // the payment at 40 brings 60 within the gap
    let scripts = [(0, 0), (0, 19), (0, 39), (1, 0), (0, 40), (0, 60), (1, 20)];
    let scripts = scripts.map(|(branch, index)| script(&wallet(), branch, index).to_hex_string());
    for at in [None, Some(0), Some(102), Some(103), Some(104)] {
        let at = at.map_or_else(String::new, |height| format!("(at: {{ height: {height} }})"));
        let within = at.replace(['(', ')'], "");
        let fields = format!(
            "balance{at} {{ confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable }}
             stats{at} {{ txCount mempoolTxCount receivedCount received spentCount spent utxoCount firstSeenBlock {{ height }}
                lastSeenBlock {{ height }} minedBlockCount used }}
             utxos(first: 100 {within}) {{ totalCount totalValue nodes {{ outpoint {{ text }} value height }} }}
             transactions(first: 100) {{ totalCount nodes {{ net received spent balanceAfter touched transaction {{ txid }} }} }}
             coinbaseBlocks {{ totalCount }}"
        );
        let set = format!("ledgerSet(of: {{ scripts: {} }}) {{ {fields} }}", json!(scripts));
        // a script that is also derived counts once
        let given = format!("descriptors: [{{ text: {} }}], scripts: [{}]", json!(wallet()), json!(scripts[1]));
        let given = format!("given: ledgerSet(of: {{ {given} }}) {{ {fields} }}");
        let found = api.data(&format!("{{ {} {{ {fields} }} {set} {given} }}", field(&wallet(), "")));
        assert_eq!(found["descriptor"], found["ledgerSet"], "{at}");
        assert_eq!(found["descriptor"], found["given"], "{at}");
        assert_eq!(found["descriptor"]["transactions"]["totalCount"], json!(5));
    }
}

#[test]
fn descriptors_are_members_of_a_set_and_lists_of_their_own() {
    let (chain, _) = paid_wallet();
    let api = Api::of_chain(&chain);
    let given = |gap: u32| format!("{{ text: {}, gapLimit: {gap} }}", json!(wallet()));
    let both = format!("{{ scripts: [\"51\"], descriptors: [{}, {}] }}", given(1), given(20));
    let member = "ledger { __typename balance { confirmed } ... on DescriptorAccount { gapLimit } }";
    let found = api.data(&format!(
        "{{ ledgers(of: {both}) {{ input {member} error {{ code }} }} ledgerSet(of: {both}) {{ id balance {{ confirmed }} members {{ {member} }} }}
            other: ledgerSet(of: {{ scripts: [\"51\"], descriptors: [{}, {}] }}) {{ id }} }}",
        given(2), given(20)
    ));
    let account = |gap: u32, confirmed: u32| json!({ "__typename": "DescriptorAccount", "balance": { "confirmed": confirmed }, "gapLimit": gap });
    let script = json!({ "__typename": "Script", "balance": { "confirmed": 0 } });
    let ledgers = [script, account(1, 15_000), account(20, 42_000)];
    let members: Vec<_> = ledgers.iter().map(|ledger| json!({ "ledger": ledger })).collect();
    assert_eq!(found["ledgerSet"]["members"], json!(members));
    // what both accounts have counts once
    assert_eq!(found["ledgerSet"]["balance"], json!({ "confirmed": 42_000 }));
    assert_ne!(found["ledgerSet"]["id"], found["other"]["id"], "other gap limits are another set");
    let inputs = ["51".to_owned(), wallet(), wallet()];
    let expected: Vec<_> = inputs
        .iter()
        .zip(&ledgers)
        .map(|(input, ledger)| json!({ "input": input, "ledger": ledger, "error": null }))
        .collect();
    assert_eq!(found["ledgers"], json!(expected));
    let refused = api.ask("{ ledgerSet(of: { descriptors: [{ text: \"raw(51)\" }, { text: \"raw(5)\" }] }) { id } }");
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    assert!(
        refused["errors"][0]["message"].as_str().unwrap().starts_with("of.descriptors[1].text is not"),
        "{refused}"
    );
}

fn pages_of_a_set_go_on_when_another_script_of_its_descriptor_is_used(form: IndexForm) {
    let (chain, coins) = paid_wallet();
    let mut api = Api::of_chain_in(form, &chain);
    let set = format!("ledgerSet(of: {{ descriptors: [{{ text: {} }}] }})", json!(wallet()));
    let page = |api: &Api, after: &str| {
        let found = api.data(&format!(
            "{{ {set} {{ transactions(first: 2, order: ASC{after}) {{ pageInfo {{ endCursor }} nodes {{ transaction {{ txid }} }} }} }} }}"
        ));
        found["ledgerSet"]["transactions"].clone()
    };
    let all = page(&api, "")["pageInfo"]["endCursor"].clone();
    let before = page(&api, &format!(", after: {all}"));
    api.arrive([&pay(coins[3], &[(0, 1, 9_000)])]);
    let after = page(&api, &format!(", after: {all}"));
    assert_eq!(before["nodes"].as_array().unwrap()[0], after["nodes"][0]);
}

#[test]
fn two_thousand_used_scripts_are_one_ledger() {
    let (mut chain, coins) = chain_with_coins(2);
    for (branch, coin) in coins.iter().enumerate() {
        let outputs: Vec<_> = (0..1_000).map(|index| (branch, index, 50 + u64::from(index % 2))).collect();
        chain.mine(vec![pay(*coin, &outputs)]).unwrap();
    }
    let api = Api::of_chain(&chain);
    let fields = "usedCount balance { confirmed } stats { receivedCount txCount } branches { nextUnused { index } }";
    let expected = json!({
        "usedCount": 2_000, "balance": { "confirmed": 101_000 }, "stats": { "receivedCount": 2_000, "txCount": 2 },
        "branches": [{ "nextUnused": { "index": 1_000 } }, { "nextUnused": { "index": 1_000 } }],
    });
    assert_eq!(account(&api, "", fields), expected);
    assert_eq!(account(&api, "", fields), expected, "the same of cached scripts");
}

#[test]
fn a_script_in_the_mempool_is_used_and_extends_the_gap() {
    let (chain, coins) = paid_wallet();
    let mut api = Api::of_chain(&chain);
    let fields = "usedCount nextUnused { index } balance { confirmed pendingIn }";
    let payment = pay(coins[3], &[(0, 40, 9_000)]);
    api.arrive([&payment]);
    // 60 is within 20 of 40
    assert_eq!(
        account(&api, "", fields),
        json!({ "usedCount": 6, "nextUnused": { "index": 61 }, "balance": { "confirmed": 45_000, "pendingIn": 9_000 } })
    );
    api.depart(&payment.compute_txid(), btcgraph::mempool::Departure::Expired);
    assert_eq!(
        account(&api, "", fields),
        json!({ "usedCount": 4, "nextUnused": { "index": 40 }, "balance": { "confirmed": 42_000, "pendingIn": 0 } })
    );
}

#[test]
fn addresses_are_paged_in_both_directions() {
    let (chain, _) = paid_wallet();
    let api = Api::of_chain(&chain);
    let place = |node: &Value| (node["branch"].as_u64().unwrap(), node["index"].as_u64().unwrap());
    for (filter, expected) in [
        ("", (0..60).map(|index| (0, index)).chain((0..21).map(|index| (1, index))).collect::<Vec<_>>()),
        ("branch: 1", (0..21).map(|index| (1, index)).collect()),
        ("used: true", vec![(0, 0), (0, 19), (0, 39), (1, 0)]),
        ("used: false, branch: 1", (1..21).map(|index| (1, index)).collect()),
    ] {
        for (size, from, next, cursor) in
            [("first: 7", "after", "hasNextPage", "endCursor"), ("last: 7", "before", "hasPreviousPage", "startCursor")]
        {
            let (mut places, mut at) = (Vec::new(), String::new());
            loop {
                let page = account(
                    &api,
                    "",
                    &format!(
                        "addresses({filter} {size} {at}) {{ totalCount pageInfo {{ {next} {cursor} }} nodes {{ branch index address used path }} }}"
                    ),
                );
                let page = &page["addresses"];
                assert_eq!(page["totalCount"], json!(expected.len()));
                let nodes = page["nodes"].as_array().unwrap();
                for node in nodes {
                    let (branch, index) = place(node);
                    let (branch, index) = (usize::try_from(branch).unwrap(), u32::try_from(index).unwrap());
                    assert_eq!(node["address"], json!(address(branch, index)));
                    assert_eq!(node["path"], json!(format!("m/84h/1h/0h/{branch}/{index}")));
                    let used = [(0, 0), (0, 19), (0, 39), (1, 0)].contains(&(branch, index));
                    assert_eq!(node["used"], json!(used));
                }
                let found = nodes.iter().map(place);
                places = if from == "after" {
                    places.into_iter().chain(found).collect()
                } else {
                    found.chain(places).collect()
                };
                if page["pageInfo"][next] != json!(true) {
                    break;
                }
                at = format!("{from}: {}", page["pageInfo"][cursor]);
            }
            assert_eq!(places, expected, "{filter} {size}");
        }
    }
    let refused = format!("{{ {} {{ addresses(branch: 2) {{ totalCount }} }} }}", field(&wallet(), ""));
    assert_eq!(api.ask(&refused)["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
}

#[test]
fn an_account_key_alone_is_the_account_of_its_descriptor() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let key = account_key();
    for (version, body) in [
        ([0x04, 0x35, 0x87, 0xcf], format!("pkh({key}/<0;1>/*)")),
        ([0x04, 0x4a, 0x52, 0x62], format!("sh(wpkh({key}/<0;1>/*))")),
        ([0x04, 0x5f, 0x1c, 0xf6], format!("wpkh({key}/<0;1>/*)")),
    ] {
        let alone = bitcoin::base58::encode_check(&[&version[..], &key.encode()[4..]].concat());
        let found = api.data(&format!(
            "{{ key: {} {{ id descriptor nextUnused {{ address }} }} whole: {} {{ id descriptor nextUnused {{ address }} }} }}",
            field(&alone, ""),
            field(&body, "")
        ));
        assert_eq!(found["key"], found["whole"]);
        let address = address_of(&script(&body, 0, 0), Network::Regtest).unwrap();
        assert_eq!(found["key"]["nextUnused"]["address"], json!(address));
        let node = api.data(&format!("{{ node(id: {}) {{ id }} }}", found["key"]["id"]));
        assert_eq!(node, json!({ "node": null }));
    }
}

#[test]
fn a_descriptor_without_range_is_one_script() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let text = format!("raw({})", PAYER.script_pubkey().to_hex_string());
    let found = api.data(&format!(
        "{{ {} {{ scriptType isRanged usedCount balance {{ confirmed }} nextUnused {{ index }}
            branches {{ path derivedCount lastUsed {{ scriptPubKey address path ledger {{ ... on Script {{ hex }} }} }} }} }} }}",
        field(&text, "gapLimit: 7")
    ));
    let owner = format!("script(scriptPubKey: \"{}\")", PAYER.script_pubkey().to_hex_string());
    let confirmed = api.data(&format!("{{ {owner} {{ balance {{ confirmed }} }} }}"))["script"]["balance"].take();
    let hex = PAYER.script_pubkey().to_hex_string();
    let expected = json!({
        "scriptType": "NONSTANDARD", "isRanged": false, "usedCount": 1, "balance": confirmed, "nextUnused": null,
        "branches": [{ "path": null, "derivedCount": 1, "lastUsed": {
            "scriptPubKey": hex, "address": null, "path": null, "ledger": { "hex": hex },
        } }],
    });
    assert_eq!(found["descriptor"], expected);
}

#[test]
fn bad_arguments_are_refused_by_name_and_private_keys_never_repeated() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let key = account_key();
    for (text, arguments, code, part) in [
        ("hello".to_owned(), "", "BAD_USER_INPUT", "text is not a descriptor of this network: \"hello\" is neither"),
        (String::new(), "", "BAD_USER_INPUT", "empty"),
        (format!("wpkh({key}/0h/*)"), "", "BAD_USER_INPUT", "hardened"),
        (format!("{}#aaaaaaaa", wallet()), "", "BAD_USER_INPUT", "the checksum of this text is"),
        (PRIVATE.to_owned(), "", "BAD_USER_INPUT", "only public keys are accepted"),
        (format!("wpkh({PRIVATE}/0/*)"), "", "BAD_USER_INPUT", "only public keys are accepted"),
        (
            "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
                .to_owned(),
            "",
            "BAD_USER_INPUT",
            "this server's network is regtest",
        ),
        (wallet(), "gapLimit: 0", "BAD_USER_INPUT", "gapLimit is 0"),
        (wallet(), "gapLimit: -5", "BAD_USER_INPUT", "gapLimit is -5"),
        (wallet(), "gapLimit: 1001", "QUERY_LIMIT_EXCEEDED", "gapLimit is 1001, and the limit is 1000"),
    ] {
        let response = api.ask(&format!("{{ {} {{ id }} }}", field(&text, arguments)));
        assert_eq!(response["data"], json!({ "descriptor": null }), "{text}");
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["code"], json!(code), "{text}: {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{text}: {error}");
        assert!(!response.to_string().contains("tprv"), "{response}");
    }
    let checksum = api.ask(&format!("{{ {} {{ id }} }}", field("raw(deadbeef)#89f8spxq", "")));
    assert_eq!(checksum["errors"][0]["extensions"]["position"], json!(14));
}

#[test]
fn derived_scripts_and_cost_are_limited() {
    let (chain, _) = paid_wallet();
    let mut api = Api::empty(Network::Regtest, Limits { derived_scripts: 80, ..Limits::default() });
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    let response = api.ask(&format!("{{ {} {{ id }} }}", field(&wallet(), "")));
    assert_eq!(response["errors"][0]["message"], json!("text: derivedScripts is 81, and the limit is 80"));
    let extensions = &response["errors"][0]["extensions"];
    assert_eq!(
        *extensions,
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "text", "which": "derivedScripts", "limit": 80, "actual": 81 })
    );

    let api = Api::of_chain(&chain);
    let refused = |gap: u32, text: &str| {
        let response = api.ask(&format!("{{ {} {{ id }} }}", field(text, &format!("gapLimit: {gap}"))));
        response["errors"][0]["extensions"]["which"] == json!("complexity")
    };
    assert!(!refused(1_000, &wallet()), "2,000 scripts of one key fit");
    let multisig = format!("wsh(multi(2,{0}/<0;1>/*,{0}/<2;3>/*,{0}/<4;5>/*))", account_key());
    assert!(refused(1_000, &multisig) && !refused(500, &multisig), "the cost grows with keys and gap");
}

#[test]
fn a_valid_text_is_described_with_its_first_addresses() {
    let (chain, _) = paid_wallet();
    let api = Api::of_chain(&chain);
    let fields =
        "isValid error { code } descriptor checksum keyNetwork scriptType isRanged isMultipath branchCount isSolvable
        isPrivate derivedAddresses(branch: 1, fromIndex: 63, first: 3) { index path address used }";
    let found = api.data(&format!("{{ validateDescriptor(text: {}) {{ {fields} }} }}", json!(wallet())));
    let text = OutputDescriptor::parse(&wallet(), Network::Regtest).unwrap();
    let addresses: Vec<_> = (63..66)
        .map(|index| {
            json!({ "index": index, "path": format!("m/84h/1h/0h/1/{index}"), "address": address(1, index), "used": false })
        })
        .collect();
    let expected = json!({
        "isValid": true, "error": null, "descriptor": text.text(), "checksum": text.checksum(), "keyNetwork": "TEST",
        "scriptType": "P2WPKH", "isRanged": true, "isMultipath": true, "branchCount": 2, "isSolvable": true,
        "isPrivate": false, "derivedAddresses": addresses,
    });
    assert_eq!(found["validateDescriptor"], expected);
    let used = api.data(&format!(
        "{{ validateDescriptor(text: {}) {{ derivedAddresses(fromIndex: 18, first: 3) {{ used }} end: derivedAddresses(fromIndex: 2147483646) {{ index }} }} }}",
        json!(wallet())
    ));
    let used = &used["validateDescriptor"];
    assert_eq!(used["derivedAddresses"], json!([{ "used": false }, { "used": true }, { "used": false }]));
    assert_eq!(used["end"], json!([{ "index": 2_147_483_646 }, { "index": 2_147_483_647 }]));
}

#[test]
fn an_invalid_text_is_described_with_its_fault() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let key = account_key();
    let xpub = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
    for (text, code, position, network, private) in [
        (String::new(), "WRONG_LENGTH", None, None, false),
        ("wpkh(é)".to_owned(), "INVALID_CHARACTER", Some(5), None, false),
        ("raw(deadbeef)#89f8spxq".to_owned(), "WRONG_CHECKSUM", Some(14), None, false),
        (format!("wpkh({PRIVATE}/0/*)"), "PRIVATE_KEY", None, None, true),
        ("musig(hello)".to_owned(), "UNSUPPORTED", None, None, false),
        (format!("wpkh({}/*)", &key.to_string()[..110]), "INVALID_KEY", Some(5), None, false),
        (format!("wsh(pk({key}/*),1)"), "MALFORMED", Some(122), None, false),
        (format!("tr({xpub}/*)"), "WRONG_NETWORK", None, Some("MAINNET"), false),
        (format!("wpkh({key}/0h/*)"), "HARDENED_DERIVATION", None, None, false),
        (format!("wpkh({key}/<1;1>/*)"), "INVALID_MULTIPATH", None, None, false),
        (format!("wpkh({key}{})", "/0".repeat(240)), "", None, Some("TEST"), false),
        (format!("wsh(pk({key}/*)"), "MALFORMED", Some(3), None, false),
    ] {
        let found = api.data(&format!(
            "{{ validateDescriptor(text: {}) {{ isValid error {{ code message position }} keyNetwork isPrivate derivedAddresses {{ index }} }} }}",
            json!(text)
        ));
        let found = &found["validateDescriptor"];
        assert!(!found.to_string().contains("tprv"));
        assert_eq!(found["isValid"], json!(code.is_empty()), "{text}");
        assert_eq!((&found["keyNetwork"], &found["isPrivate"]), (&json!(network), &json!(private)), "{text}");
        if code.is_empty() {
            assert_eq!(found["error"], Value::Null, "{text}");
        } else {
            assert_eq!(found["error"]["code"], json!(code), "{text}: {found}");
            assert_eq!(found["error"]["position"], json!(position), "{text}: {found}");
            assert_eq!(found["derivedAddresses"], json!([]));
        }
    }
    // an address of another network is described, too
    let address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    let found = api.data(&format!(
        "{{ validateDescriptor(text: \"addr({address})\") {{ error {{ code position }} descriptor scriptType }} }}"
    ));
    let expected = json!({
        "error": { "code": "WRONG_NETWORK", "position": null },
        "descriptor": format!("addr({address})#uyjndxcw"), "scriptType": "P2WPKH",
    });
    assert_eq!(found["validateDescriptor"], expected);
}
