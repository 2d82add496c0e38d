//! What is wrong with an argument, as errors report it: its path, the value and the rule.

use btcgraph::limits::Limits;
use serde_json::{Value, json};

use crate::api::mempool::projected::chain_with_coins;
use crate::api::subscriptions::watched_descriptors::resumed;
use crate::support::api::Api;

const TXID: &str = "0000000000000000000000000000000000000000000000000000000000000007";

/// The errors about one argument each: their path, the argument, and the message.
fn faults(response: &Value) -> Vec<(Value, String, String)> {
    let errors = response["errors"].as_array().unwrap();
    let fault = |error: &Value| {
        let (extensions, message) = (&error["extensions"], error["message"].as_str().unwrap());
        assert_eq!(extensions["code"], "BAD_USER_INPUT", "{error}");
        let argument = extensions["argument"].as_str().unwrap();
        assert!(message.starts_with(&format!("{argument} ")), "{error}");
        (error["path"].clone(), argument.to_owned(), message.to_owned())
    };
    errors.iter().map(fault).collect()
}

#[test]
fn an_error_names_the_argument_the_value_and_the_rule() {
    let (chain, coins) = chain_with_coins(2);
    let api = Api::of_chain_within(&chain, Limits::default());
    let first = coins[0].txid;
    // a transaction whose last input spends an output that no transaction can have
    let spending = |inputs: &str, txid: &str, vout: &str| {
        format!("02000000{inputs}{}{vout}00ffffffff01{}", txid.repeat(32), "00".repeat(13))
    };
    let huge = spending("01", "aa", "feffffff");
    let null = spending(&format!("02{}0000000000ffffffff", "aa".repeat(32)), "00", "ffffffff");
    let spends = |txid: &str, vout: u32| {
        format!("spends {}:{vout}, and no output has an index above 2147483647", txid.repeat(32))
    };
    let [huge_fault, null_fault] = [spends("aa", 4_294_967_294), spends("00", 4_294_967_295)]
        .map(|spends| format!("does not decode as a transaction: it {spends}"));
    let psbt_fault = format!("does not decode: the PSBT {}", spends("aa", 4_294_967_294));
    for (document, argument, fault) in [
        (format!("decodeTransaction(hex: \"{huge}\") {{ missingInputs {{ vout }} }}"), "hex", &*huge_fault),
        (format!("decodeTransaction(hex: \"{null}\") {{ isResolved }}"), "hex", &*null_fault),
        (format!("testTransactions(hexes: [\"{huge}\"]) {{ allowed }}"), "hexes[0]", &*huge_fault),
        (
            format!(
                "decodePsbt(psbt: \"70736274ff01003c{huge}000000\") {{ inputs {{ nodes {{ outpoint {{ txid }} }} }} }}"
            ),
            "psbt",
            &*psbt_fault,
        ),
        ("feeEstimate(targetBlocks: 0) { feeRate }".to_owned(), "targetBlocks", "is 0, and it must be 1 to 1008"),
        ("feeEstimate(targetBlocks: -1) { feeRate }".to_owned(), "targetBlocks", "is -1, and it must be 1 to 1008"),
        (
            "address(address: \"nonsense\") { address }".to_owned(),
            "address",
            "is \"nonsense\": the checksum does not match: the address is mistyped",
        ),
        ("address(address: \"\") { address }".to_owned(), "address", "is \"\": the address is empty"),
        (
            "mempool { feeHistogram(bins: [1, -2]) { fromRate } }".to_owned(),
            "bins[1]",
            "is -2, and a feerate is from 0 to the coin supply per vbyte",
        ),
        (
            "mempool { feeHistogram(binVsize: 0) { fromRate } }".to_owned(),
            "binVsize",
            "is 0, and a bin has at least one vbyte",
        ),
        ("blocks(first: -1) { totalCount }".to_owned(), "first", "is -1, and a count cannot be negative"),
        (
            "validateDescriptor(text: \"pkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)\") \
             { derivedAddresses(branch: -1) { index } }"
                .to_owned(),
            "branch",
            "is -1, and the descriptor has 1, counted from 0",
        ),
        (
            "validateDescriptor(text: \"pkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)\") \
             { derivedAddresses(fromIndex: -1) { index } }"
                .to_owned(),
            "fromIndex",
            "is -1, and an index cannot be negative",
        ),
        ("blocks(last: -1) { totalCount }".to_owned(), "last", "is -1, and a count cannot be negative"),
        (
            "blocks(after: \"x\") { totalCount }".to_owned(),
            "after",
            "is \"x\", which is not a cursor of Query.blocks with these arguments: give one that this connection returned, \
             with the same filter and order",
        ),
        (
            "blocks(before: \"x\") { totalCount }".to_owned(),
            "before",
            "is \"x\", which is not a cursor of Query.blocks with these arguments: give one that this connection returned, \
             with the same filter and order",
        ),
        (
            "mempool { txids(before: \"x\") { totalCount } }".to_owned(),
            "before",
            "is \"x\", which is not a cursor of Mempool:main.txids with these arguments: give one that this connection \
             returned, with the same filter and order",
        ),
        (
            format!("output(txid: \"{TXID}\", vout: -1) {{ value }}"),
            "vout",
            "is -1, and the first output of a transaction has index 0",
        ),
        ("block(height: -5) { hash }".to_owned(), "height", "is -5, and the first block is at height 0"),
        (
            "chain { range(of: { lastBlocks: 0 }) { blockCount } }".to_owned(),
            "of.lastBlocks",
            "is 0: a range has at least one block",
        ),
        (
            "chain { range(of: { heights: { from: 3, to: 1 } }) { blockCount } }".to_owned(),
            "of.heights.from",
            "is 3, and of.heights.to is 1, which is below it",
        ),
        (
            "script(scriptPubKey: \"51\") { balance(at: { height: 100000 }) { total } }".to_owned(),
            "at.height",
            "is 100000, and there is no such block yet: the tip is at 102",
        ),
        (
            "script(scriptHash: \"51\") { hex }".to_owned(),
            "scriptHash",
            "is \"51\", 1 byte: give the 32 bytes of a SHA-256, 64 hexadecimal digits",
        ),
        (
            format!("transaction(txid: \"{first}\") {{ netEffect(of: {{ addresses: [\"\"] }}) {{ net }} }}"),
            "of.addresses[0]",
            "is \"\": the address is empty",
        ),
        (
            "ledgerSet(of: {}) { id }".to_owned(),
            "of",
            "has neither addresses nor scripts nor descriptors: give at least one of the lists",
        ),
        (
            "descriptor(text: \"raw(51)\", gapLimit: 0) { id }".to_owned(),
            "gapLimit",
            "is 0: give a number of scripts, at least 1",
        ),
        (
            "descriptor(text: \"hello\") { id }".to_owned(),
            "text",
            "is not a descriptor of this network: \"hello\" is neither a descriptor, such as wpkh(xpub…/<0;1>/*), nor an \
             extended public key",
        ),
        (
            "descriptor(text: \" raw(51)\") { id }".to_owned(),
            "text",
            "is not a descriptor of this network: ' ' at position 0 (counted from 0): a descriptor is written without spaces",
        ),
        (
            "validateDescriptor(text: \"raw(51)\") { derivedAddresses(branch: 1, first: 1) { index } }".to_owned(),
            "branch",
            "is 1, and the descriptor has 1, counted from 0",
        ),
        ("opReturns(prefix: \"0102\") { totalCount }".to_owned(), "prefix", "has 2 bytes: give at least 3"),
        ("testTransactions(hexes: []) { allowed }".to_owned(), "hexes", "is empty: give at least one transaction"),
        (
            "testTransactions(hexes: [\"00\"], maxFeeRate: -1) { allowed }".to_owned(),
            "maxFeeRate",
            "is -1, and it must be at least 0 (no limit) and below 100000 sat/vB",
        ),
    ] {
        let response = api.ask(&format!("{{ {document} }}"));
        let found = faults(&response);
        let expected = (argument.to_owned(), format!("{argument} {fault}"));
        assert_eq!(found.len(), 1, "{document}: {response}");
        assert_eq!((found[0].1.clone(), found[0].2.clone()), expected, "{document}");
    }
}

#[test]
fn an_error_of_an_item_names_its_place_in_the_list() {
    let (chain, _) = chain_with_coins(2);
    let api = Api::of_chain_within(&chain, Limits::default());
    let response = api.ask(&format!(
        "{{ feeEstimates(targets: [1009, 0], source: MEMPOOL_PROJECTION) {{ requestedBlocks }}
            nodes(ids: [\"Chain:main\", \"nonsense\"]) {{ id }}
            outputsByOutpoint(outpoints: [{{ txid: \"{TXID}\", vout: 0 }}, {{ txid: \"{TXID}\", vout: -3 }}]) {{ vout }} }}"
    ));
    let found = faults(&response);
    let rule = "give one exactly as returned";
    let expected = [
        (json!(["feeEstimates", 0]), "targets[0]", "targets[0] is 1009, and it must be 1 to 1008"),
        (json!(["feeEstimates", 1]), "targets[1]", "targets[1] is 0, and it must be 1 to 1008"),
        (json!(["nodes", 1]), "ids[1]", "ids[1] is \"nonsense\", which is not an id: "),
        (
            json!(["outputsByOutpoint", 1]),
            "outpoints[1].vout",
            "outpoints[1].vout is -3, and the first output of a transaction has index 0",
        ),
    ];
    assert_eq!(found.len(), expected.len(), "{response}");
    for (path, argument, message) in expected {
        let fault = found.iter().find(|fault| fault.0 == path).unwrap();
        assert_eq!(fault.1, argument);
        assert!(fault.2.starts_with(message), "{fault:?}");
        assert_eq!(fault.2.contains(rule), argument == "ids[1]", "{fault:?}");
    }
}

#[test]
fn an_error_of_a_limit_names_the_argument_that_exceeds_it() {
    let (chain, _) = chain_with_coins(30);
    let api = Api::of_chain_within(
        &chain,
        Limits { points: 3, ids: 1, headers: 2, compact_filters: 2, gap_limit: 5, ..Limits::default() },
    );
    let all = "range: { heights: { from: 0 } }";
    for (document, argument, message) in [
        (format!("chain {{ series({all}, group: BLOCK) {{ startAt }} }}"), "range", "range: pointsPerSeries is "),
        (
            format!(
                "script(scriptPubKey: \"51\") {{ balanceHistory({all}, group: BLOCK, includeEmpty: true) {{ startAt }} }}"
            ),
            "range",
            "range: pointsPerSeries is ",
        ),
        (
            "mempool { history(range: { times: { from: \"2020-01-01T00:00:00Z\", to: \"2020-01-02T00:00:00Z\" } }, \
             stepSeconds: 60) { startAt } }"
                .to_owned(),
            "range",
            "range: pointsPerSeries is 1441, and the limit is 3",
        ),
        (
            "mempool { feeHistogram(bins: [1, 2, 3, 4]) { txCount } }".to_owned(),
            "bins",
            "bins: pointsPerSeries is 4, and the limit is 3",
        ),
        (
            "feeEstimates(targets: [1, 2, 3, 4]) { requestedBlocks }".to_owned(),
            "targets",
            "targets: pointsPerSeries is 4, and the limit is 3",
        ),
        (format!("headers({all}) {{ hash }}"), "range", "range: headersPerList is "),
        (format!("transactionsByTxid(txids: [\"{TXID}\", \"{TXID}\"]) {{ txid }}"), "txids", "txids: idsPerList is 2"),
        ("ledgerSet(of: { scripts: [\"51\", \"52\"] }) { id }".to_owned(), "of", "of: idsPerList is 2"),
        (
            "ledgerSet(of: { descriptors: [{ text: \"raw(51)\", gapLimit: 6 }] }) { id }".to_owned(),
            "of.descriptors[0].gapLimit",
            "of.descriptors[0].gapLimit is 6, and the limit is 5",
        ),
        // far beyond what an answer may cost, and refused for itself
        (
            "mempool { projectedBlocks(first: 10000000) { txCount } }".to_owned(),
            "first",
            "first is 10000000, and the limit is 100",
        ),
        (
            "descriptor(text: \"raw(51)\", gapLimit: 600000) { id }".to_owned(),
            "gapLimit",
            "gapLimit is 600000, and the limit is 5",
        ),
        ("search { nodes { __typename } }".to_owned(), "text", "Field \"search\" argument \"text\" of type "),
        ("block(heigth: 1) { hash }".to_owned(), "heigth", "Unknown argument \"heigth\" on field \"block\""),
    ] {
        let response = api.ask(&format!("{{ {document} }}"));
        assert_eq!(response["errors"].as_array().unwrap().len(), 1, "{document}: {response}");
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["argument"], argument, "{document}: {error}");
        let of_document = message.contains(&format!("argument \"{argument}\""));
        let code = if of_document { "GRAPHQL_VALIDATION_FAILED" } else { "QUERY_LIMIT_EXCEEDED" };
        assert_eq!(error["extensions"]["code"], code, "{document}");
        assert!(error["message"].as_str().unwrap().starts_with(message), "{document}: {error}");
    }
}

#[test]
fn a_subscription_names_the_wrong_part_of_what_it_watches() {
    let (chain, _) = chain_with_coins(2);
    let api = Api::of_chain_within(&chain, Limits::default());
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    for (field, argument, fault) in [
        (
            format!("ledgerEvents(watch: {{ addresses: [\"{address}\", \"x\"] }}) {{ seq }}"),
            "watch.addresses[1]",
            "is \"x\": ",
        ),
        (
            "ledgerEvents(watch: {}) { seq }".to_owned(),
            "watch",
            "has no address, script or descriptor: give at least one",
        ),
        (
            format!("ledgerEvents(watch: {{ addresses: [\"{address}\"] }}, depths: [1, 0]) {{ seq }}"),
            "depths[1]",
            "is 0, and a number of confirmations is at least 1",
        ),
        (
            format!("ledgerEvents(watch: {{ addresses: [\"{address}\"] }}, kinds: []) {{ seq }}"),
            "kinds",
            "is empty: give at least one kind",
        ),
        (
            format!("ledgerEvents(watch: {{ addresses: [\"{address}\"] }}, after: \"x\") {{ seq }}"),
            "after",
            "is \"x\", which is not a cursor of ledgerEvents with these arguments: ",
        ),
        ("chainEvents(after: \"x\") { seq }".to_owned(), "after", "is \"x\", which is not a cursor of chainEvents: "),
        (
            "mempoolEvents(after: \"x\") { seq }".to_owned(),
            "after",
            "is \"x\", which is not a cursor of mempoolEvents: ",
        ),
        (
            format!("outputSpent(outpoints: [{{ txid: \"{TXID}\", vout: -1 }}]) {{ isConfirmed }}"),
            "outpoints[0].vout",
            "is -1, and the first output of a transaction has index 0",
        ),
        ("outputSpent(outpoints: []) { isConfirmed }".to_owned(), "outpoints", "is empty: give at least one"),
        (
            format!("transactionStatus(txids: [\"{TXID}\"], untilConfirmations: 0) {{ state }}"),
            "untilConfirmations",
            "is 0, and it must be at least 1",
        ),
    ] {
        let events = resumed(&api, &format!("subscription {{ {field} }}"));
        assert_eq!(events.len(), 1, "{field}: {events:?}");
        let found = faults(&events[0]);
        assert_eq!((found.len(), found[0].1.as_str()), (1, argument), "{field}");
        assert!(found[0].2.starts_with(&format!("{argument} {fault}")), "{found:?}");
    }
}
