//! The whole path: a real node, the program that follows it, and clients over HTTP and a websocket.

use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;

#[tokio::test]
async fn a_new_block_reaches_subscribers_and_queries_at_once() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(3);
    let directory = tempfile::tempdir().unwrap();
    let served = TestProcess::start(&node, directory.path());
    served.wait_for_height(3);

    let mut request = format!("ws://{}/graphql", served.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let send = |message: Value| Message::text(message.to_string());
    socket.send(send(json!({ "type": "connection_init" }))).await.unwrap();
    assert_eq!(next(&mut socket).await["type"], "connection_ack");
    let query = "subscription { newBlock { height hash previousBlock { height } } }";
    socket.send(send(json!({ "type": "subscribe", "id": "1", "payload": { "query": query } }))).await.unwrap();

    // a subscription begins at some moment after its message: mine until a block is reported
    let mut mined = Vec::new();
    let event = loop {
        mined.extend(node.mine(1));
        if let Ok(message) = tokio::time::timeout(Duration::from_secs(5), next(&mut socket)).await {
            break message;
        }
        assert!(mined.len() < 6, "no block was reported");
    };
    let block = &event["payload"]["data"]["newBlock"];
    let height = block["height"].as_u64().unwrap();
    assert_eq!(node.must("getblockhash", &[json!(height)]), block["hash"]);
    assert_eq!(block["previousBlock"]["height"], json!(height - 1));
    let answer = served.query("{ tip { height } }");
    assert!(answer["data"]["tip"]["height"].as_u64().unwrap() >= height, "{answer}");
}

async fn next(
    socket: &mut (impl StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin),
) -> Value {
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

#[test]
fn queries_work_without_the_node_and_a_signal_stops_cleanly() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    node.mine(2);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start(&node, directory.path());
    served.wait_for_height(2);
    assert!(served.stop().success());
    node.stop();
    let mut served = TestProcess::start(&node, directory.path());
    assert_eq!(served.query("{ tip { height } }"), json!({ "data": { "tip": { "height": 2 } } }));
    let question = "{ snapshot { height isInSync } sync { phase isReady } bitcoinNode { isReachable network } }";
    let away = json!({
        "snapshot": { "height": 2, "isInSync": false },
        "sync": { "phase": "WAITING_FOR_NODE", "isReady": false },
        "bitcoinNode": { "isReachable": false, "network": null },
    });
    assert_eq!(served.query(question)["data"], away);
    node.start_again();
    node.mine(1);
    served.wait_for_height(3);
    let back = json!({
        "snapshot": { "height": 3, "isInSync": true },
        "sync": { "phase": "FOLLOWING", "isReady": true },
        "bitcoinNode": { "isReachable": true, "network": "REGTEST" },
    });
    wait_for("the server to be in sync", Duration::from_secs(30), || {
        (served.query(question)["data"] == back).then_some(())
    });

    assert_eq!(served.stop().code(), Some(0));
}

#[test]
fn a_name_to_listen_on_is_resolved() {
    let directory = tempfile::tempdir().unwrap();
    let port_file = directory.path().join("port");
    let away = ["--rpc-url", "http://127.0.0.1:1", "--rpc-user", "user", "--rpc-password", "password"];
    let mut program = btcgraph(directory.path(), &["serve", "--listen", "localhost:0"]);
    let mut server = program.args(away).arg("--port-file").arg(&port_file).stderr(Stdio::null()).spawn().unwrap();
    let port = wait_for("the port file", Duration::from_mins(1), || {
        assert!(server.try_wait().unwrap().is_none(), "the server ends");
        std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
    });
    for host in ["localhost", "127.0.0.1"] {
        let live = ureq::get(format!("http://{host}:{port}/health/live")).call().unwrap();
        assert_eq!(live.status(), 200);
    }
    server.kill().unwrap();
    server.wait().unwrap();

    // of a network for documentation alone (RFC 5737): no machine has it
    let mut program = btcgraph(directory.path(), &["serve", "--listen", "192.0.2.1:0"]);
    let (code, printed) = run(program.args(away));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("cannot listen on 192.0.2.1:0: set another server.listen (--listen)"), "{printed}");
}
