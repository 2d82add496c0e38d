//! What is answered about the server, the progress of the index and the node behind it.

use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request};
use bitcoin::Network;
use btcgraph::limits::{DECLARED, Limits};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::SimChain;
use btcgraph::view::{IndexingSpeed, SyncPhase, SyncState};
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::bitcoind::RealNode;
use crate::support::proxy::CountingProxy;

fn connect(real: &RealNode, url: String) -> Node {
    Node::connect(NodeOptions::new(Network::Regtest, url, Auth::Cookie(real.cookie_path()))).unwrap()
}

/// An index that has followed the node to its tip, and asks it.
fn followed(real: &RealNode) -> Api {
    let mut api = Api::empty(Network::Regtest, Limits::default());
    api.follow(&connect(real, real.rpc_url()));
    api
}

#[test]
fn what_needs_no_block_is_answered_before_there_is_one() {
    let api = Api::empty(Network::Regtest, Limits::default());
    let questions = "{ sync { phase indexedHeight targetHeight progress blocksPerSecond etaSeconds isReady }
        server { id softwareVersion features { name enabled } subscriptionCount limits { requests { fieldLevels } } database { formatVersion fileBytes } }
        node(id: \"Server:main\") { __typename }
        bitcoinNode { isReachable softwareVersion subversion network height headerHeight bestBlockHash verificationProgress
            isInitialBlockDownload pruned peerCount warnings } }";
    let nothing_known = json!({
        "phase": "WAITING_FOR_NODE",
        "indexedHeight": null,
        "targetHeight": null,
        "progress": null,
        "blocksPerSecond": null,
        "etaSeconds": null,
        "isReady": false,
    });
    let features =
        ["BROADCAST", "WTXIDS", "ADDRESS_PREFIXES", "OP_RETURNS", "BLOCK_FILTERS", "BLOCK_TEMPLATE", "RATES"];
    let server = json!({
        "id": "Server:main",
        "softwareVersion": env!("CARGO_PKG_VERSION"),
        "features": features.map(|name| json!({ "name": name, "enabled": false })),
        "subscriptionCount": 0,
        "limits": { "requests": { "fieldLevels": 20 } },
        "database": { "formatVersion": btcgraph::index::FORMAT_VERSION, "fileBytes": null },
    });
    let node = json!({
        "isReachable": false,
        "softwareVersion": null,
        "subversion": null,
        "network": null,
        "height": null,
        "headerHeight": null,
        "bestBlockHash": null,
        "verificationProgress": null,
        "isInitialBlockDownload": null,
        "pruned": null,
        "peerCount": null,
        "warnings": null,
    });
    let typename = json!({ "__typename": "ServerInfo" });
    let expected = json!({ "sync": nothing_known, "server": server, "node": typename, "bitcoinNode": node });
    assert_eq!(api.data(questions), expected);
    let response = api.ask("{ chain { network } mempool { id } sync { isReady } }");
    assert_eq!(response["data"], json!({ "chain": null, "mempool": null, "sync": { "isReady": false } }));
    let codes = [0, 1].map(|at| response["errors"][at]["extensions"]["code"].clone());
    assert_eq!(codes, [json!("NOT_READY"), json!("NOT_READY")]);
    let response = api.ask("{ server { database { tables { rowCount } } } }");
    assert_eq!(response["data"], json!({ "server": { "database": { "tables": null } } }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("NOT_READY"));
}

#[test]
fn progress_has_its_pace_before_readiness() {
    let api = Api::empty(Network::Regtest, Limits::default());
    api.set_state(SyncState {
        phase: SyncPhase::CatchingUp,
        node_height: Some(99.into()),
        node_headers: Some(120.into()),
        speed: Some(IndexingSpeed { blocks_per_second: 2.5, remaining: Duration::from_secs(40) }),
        ..SyncState::default()
    });
    let response =
        api.ask("{ sync { phase indexedHeight targetHeight progress blocksPerSecond etaSeconds } tip { id } }");
    let progress = json!({
        "phase": "CATCHING_UP",
        "indexedHeight": null,
        "targetHeight": 99,
        "progress": 0.0,
        "blocksPerSecond": 2.5,
        "etaSeconds": 40,
    });
    assert_eq!(response["data"], json!({ "sync": progress, "tip": null }));
    let extensions = json!({
        "code": "NOT_READY",
        "phase": "CATCHING_UP",
        "indexedHeight": null,
        "nodeHeight": 99,
        "blocksPerSecond": 2.5,
        "etaSeconds": 40,
    });
    assert_eq!(response["errors"][0]["extensions"], extensions);
}

#[test]
fn an_answer_is_in_sync_only_if_its_own_tip_is_the_nodes() {
    let mut chain = SimChain::new(63);
    chain.mine_empty(3).unwrap();
    let mut api = Api::of_chain(&chain);
    let question = "{ snapshot { height hash nodeHeight nodeHeaderHeight isInSync } sync { isReady progress } }";
    let tip = api.view().tip();
    let (node_height, node_headers) = (Some(tip.height), Some(7.into()));
    let following = SyncState { phase: SyncPhase::Following, node_height, node_headers, ..SyncState::default() };
    let expected = |in_sync: bool| {
        json!({
            "snapshot": {
                "height": 3, "hash": tip.hash.to_string(), "nodeHeight": 3, "nodeHeaderHeight": 7, "isInSync": in_sync,
            },
            "sync": { "isReady": in_sync, "progress": 1.0 },
        })
    };
    api.set_state(SyncState { node_tip: Some(tip.hash), ..following });
    assert_eq!(api.data(question), expected(true));
    api.set_state(SyncState { node_tip: None, ..following });
    assert_eq!(api.data(question), expected(false), "the node is away");
    // the node's tip is known, and this is another block of the same height
    let parent = chain.active_blocks().nth(2).unwrap().block_hash();
    let other = chain.mine_on(parent, Vec::new()).unwrap();
    api.change(1, [other.as_ref()]);
    api.set_state(SyncState { node_tip: Some(tip.hash), ..following });
    assert_eq!(api.data("{ snapshot { height isInSync } }"), json!({ "snapshot": { "height": 3, "isInSync": false } }));
}

#[test]
fn following_reports_its_phase_and_that_it_is_in_sync() {
    let Some(real) = RealNode::start(&[]) else { return };
    real.mine(20);
    let api = followed(&real);
    assert_eq!(
        api.data("{ sync { phase indexedHeight targetHeight progress blocksPerSecond etaSeconds isReady } snapshot { isInSync } }"),
        json!({
            "sync": {
                "phase": "FOLLOWING",
                "indexedHeight": 20,
                "targetHeight": 20,
                "progress": 1.0,
                "blocksPerSecond": null,
                "etaSeconds": null,
                "isReady": true,
            },
            "snapshot": { "isInSync": true },
        })
    );
}

#[test]
fn every_declared_limit_is_a_field_with_its_value() {
    // a value of its own for each, near its highest
    let mut limits = Limits::default();
    for (below_highest, limit) in (0..).zip(DECLARED) {
        limit.set(&mut limits, limit.bounds.end() - below_highest).unwrap();
    }
    let api = Api::empty(Network::Regtest, limits);
    let described =
        api.data("{ __type(name: \"Limits\") { fields { name type { ofType { fields { name description } } } } } }");
    let groups = described["__type"]["fields"].as_array().unwrap().iter();
    let fields = groups.flat_map(|group| {
        let fields = group["type"]["ofType"]["fields"].as_array().unwrap().iter();
        let fields = fields.filter(|field| field["name"] != "packageTransactions");
        fields.map(move |field| (group["name"].as_str().unwrap(), field))
    });

    let mut read_by_operators_only = DECLARED.iter();
    for ((group, field), limit) in fields.zip(read_by_operators_only.by_ref()) {
        let name = field["name"].as_str().unwrap();
        let values = api.data(&format!("{{ server {{ limits {{ {group} {{ {name} }} }} }} }}"));
        let value = values["server"]["limits"][group][name].as_f64().unwrap();
        assert_eq!((value, limit.setting), (f64_of(limit.get(&limits)), limit.setting), "{}", field["name"]);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(field["description"].as_str().unwrap()), words(limit.description));
    }
    let operators: Vec<_> = read_by_operators_only.map(|limit| limit.setting).collect();
    assert_eq!(operators, ["server.socket_init_timeout_seconds", "server.socket_ping_seconds"]);
    assert_eq!(
        api.data("{ server { limits { requests { packageTransactions } } } }")["server"]["limits"]["requests"]["packageTransactions"],
        25
    );
}

/// Exact for every value of a limit, which is below 2^53.
#[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
fn f64_of(number: u64) -> f64 {
    number as f64
}

#[test]
fn tables_and_file_size_are_reported_and_no_path() {
    let mut chain = SimChain::new(62);
    chain.mine_empty(4).unwrap();
    let api = Api::of_chain(&chain);
    let answer = api.data("{ server { database { formatVersion fileBytes tables { name rowCount } } } }");
    let database = &answer["server"]["database"];
    assert!(database["fileBytes"].as_u64().unwrap() > 0);
    let rows = |name: &str| {
        let tables = database["tables"].as_array().unwrap();
        tables.iter().find(|table| table["name"] == name).unwrap_or_else(|| panic!("no table {name}"))["rowCount"]
            .clone()
    };
    assert_eq!((rows("blocks"), rows("block_hashes"), rows("transactions")), (json!(5), json!(5), json!(5)));
    assert_eq!((rows("spends"), rows("stale_blocks")), (json!(0), json!(0)));
    assert!(!answer.to_string().contains('/'), "{answer}");
}

#[tokio::test]
async fn the_bytes_of_every_table_are_those_of_its_rows() {
    let mut chain = SimChain::new(62);
    chain.mine_empty(4).unwrap();
    let api = Api::of_chain(&chain);
    let ask = async || {
        let response =
            api.schema.execute(Request::new("{ server { database { tables { name rowCount totalBytes } } } }"));
        response.await.data.into_json().unwrap()["server"]["database"]["tables"].take()
    };
    let tables = ask().await;
    let view = api.view();
    let mut compared = 0;
    for table in tables.as_array().unwrap() {
        let (name, rows) = (table["name"].as_str().unwrap(), table["rowCount"].as_u64().unwrap());
        let expected = match name {
            "block_hashes" => Some(rows * (32 + 5)),
            "block_starts" => Some(rows * (4 + 8)),
            "txids" => Some(rows * 10),
            _ => view.table_bytes(name).unwrap(),
        };
        compared += u32::from(expected.is_some_and(|bytes| bytes > 0));
        let bytes = table["totalBytes"].as_u64().unwrap_or_else(|| panic!("{name} has no size"));
        assert_eq!(bytes, expected.unwrap_or(bytes), "{name}");
    }
    assert!(compared >= 5, "only {compared} tables with rows were compared");
    assert_eq!(ask().await, tables, "what was measured before");
}

#[tokio::test]
async fn subscriptions_count_from_their_start_to_their_end() {
    let mut chain = SimChain::new(64);
    let mut api = Api::of_chain(&chain);
    let open = async |api: &Api| {
        let response = api.schema.execute(Request::new("{ server { subscriptionCount } }")).await;
        response.data.into_json().unwrap()["server"]["subscriptionCount"].clone()
    };
    let subscribe = || api.schema.execute_stream(Request::new("subscription { newBlock { height } }"), None);
    let (mut first, second) = (subscribe(), subscribe());
    assert_eq!(open(&api).await, json!(0), "a stream begins when it is read");
    api.connect(&chain.mine(Vec::new()).unwrap());
    let waits = tokio::time::timeout(Duration::ZERO, first.next()).await;
    assert!(waits.is_err(), "what happened before is not event: {waits:?}");
    assert_eq!(open(&api).await, json!(1));
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert!(first.next().await.unwrap().is_ok());
    assert_eq!(open(&api).await, json!(1));
    drop((first, second));
    assert_eq!(open(&api).await, json!(0));
}

#[test]
fn chain_tips_are_the_nodes_with_the_blocks_that_the_index_knows() {
    let Some(real) = RealNode::start(&[]) else { return };
    let stale = real.mine(3);
    let mut api = followed(&real);
    real.must("invalidateblock", &[json!(stale[1])]);
    let active = real.mine(4);
    api.follow(&connect(&real, real.rpc_url()));
    let question = "{ chainTips { hash height branchLength status block { height chainStatus } } }";
    let reported = |stale_status: &str| {
        let mut tips = api.data(question)["chainTips"].as_array().unwrap().clone();
        tips.sort_by_key(|tip| tip["height"].as_u64());
        let stale = json!({
            "hash": stale[2], "height": 3, "branchLength": 2, "status": stale_status,
            "block": { "height": 3, "chainStatus": "STALE" },
        });
        let active = json!({
            "hash": active[3], "height": 5, "branchLength": 0, "status": "ACTIVE",
            "block": { "height": 5, "chainStatus": "MAIN" },
        });
        assert_eq!(tips, [stale, active]);
    };
    reported("INVALID");
    real.must("reconsiderblock", &[json!(stale[1])]);
    reported("VALID_FORK");

    // one that the index has not seen yet
    let newest = real.mine(1)[0];
    let tips = api.data("{ snapshot { height } chainTips { hash block { hash } } }");
    let newest = tips["chainTips"].as_array().unwrap().iter().find(|tip| tip["hash"] == json!(newest)).unwrap();
    assert_eq!((&newest["block"], &tips["snapshot"]["height"]), (&Value::Null, &json!(5)));
}

#[test]
fn only_fields_of_the_node_fail_when_it_is_away() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let tip = real.mine(2)[1];
    let api = followed(&real);
    let question = "{ bitcoinNode { isReachable softwareVersion subversion network height headerHeight bestBlockHash
        verificationProgress isInitialBlockDownload pruned peerCount warnings } chainTips { hash } tip { hash } }";
    let answer = api.data(question);
    let (network, chain) = (real.must("getnetworkinfo", &[]), real.must("getblockchaininfo", &[]));
    let version = network["version"].as_u64().unwrap();
    let expected = json!({
        "isReachable": true,
        "softwareVersion": format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100),
        "subversion": network["subversion"],
        "network": "REGTEST",
        "height": 2,
        "headerHeight": 2,
        "bestBlockHash": tip,
        "verificationProgress": chain["verificationprogress"].as_f64(),
        "isInitialBlockDownload": chain["initialblockdownload"],
        "pruned": false,
        "peerCount": 0,
        "warnings": network["warnings"],
    });
    assert_eq!(answer["bitcoinNode"], expected);
    assert_eq!(answer["chainTips"], json!([{ "hash": tip }]));

    real.stop();
    let response = api.ask(question);
    assert_eq!(response["data"]["tip"], json!({ "hash": tip }));
    assert_eq!(
        (&response["data"]["chainTips"], &response["data"]["bitcoinNode"]["isReachable"]),
        (&json!(null), &json!(false))
    );
    let rest = response["data"]["bitcoinNode"].as_object().unwrap().iter().filter(|(name, _)| *name != "isReachable");
    assert!(rest.clone().count() == 11 && rest.clone().all(|(_, value)| value.is_null()), "{response}");
    assert_eq!(response["errors"].as_array().map(Vec::len), Some(1), "{response}");
    let error = &response["errors"][0];
    assert_eq!((&error["path"], &error["extensions"]), (&json!(["chainTips"]), &json!({ "code": "NODE_UNAVAILABLE" })));
    assert!(!response.to_string().contains("127.0.0.1") && !response.to_string().contains("cookie"), "{response}");

    real.start_again();
    assert_eq!(api.data("{ chainTips { hash } }"), json!({ "chainTips": [{ "hash": tip }] }));
}

#[test]
fn a_node_that_was_never_reached_is_unavailable_to_chain_tips() {
    let api = Api::of_chain(&SimChain::new(65));
    let response = api.ask("{ chainTips { hash } tip { height } }");
    assert_eq!(response["data"], json!({ "chainTips": null, "tip": { "height": 0 } }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"));
}

#[test]
fn all_that_a_request_asks_of_the_node_goes_out_in_one_request() {
    let Some(real) = RealNode::start(&[]) else { return };
    real.mine(1);
    let api = followed(&real);
    let proxy = CountingProxy::start(real.rpc_url().strip_prefix("http://").unwrap());
    api.set_node(&connect(&real, proxy.url()));
    let before = proxy.posts();
    assert!(before > 0, "connecting was counted");
    let answer = api.data(
        "{ chainTips { hash } again: chainTips { height } bitcoinNode { height subversion } other: bitcoinNode { network } }",
    );
    assert_eq!((&answer["again"], &answer["other"]), (&json!([{ "height": 1 }]), &json!({ "network": "REGTEST" })));
    assert_eq!(proxy.posts(), before + 1);
    api.data("{ tip { height } sync { isReady } server { id } snapshot { height } }");
    assert_eq!(proxy.posts(), before + 1, "what the index knows is not asked");
    api.data("{ bitcoinNode { isReachable } }");
    assert_eq!(proxy.posts(), before + 2);
}
