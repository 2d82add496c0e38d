//! The whole path: a real node, the program that follows it, and clients over HTTP and a websocket.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::program::btcgraph_on;

/// A running `btcgraph serve`, killed when dropped.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(node: &RealNode, directory: &Path) -> Self {
        let port_file = directory.join("port");
        let _ = std::fs::remove_file(&port_file);
        let mut program = btcgraph_on(node, directory, &["serve", "--listen", "127.0.0.1:0"]);
        let process = program.arg("--port-file").arg(&port_file).stderr(Stdio::null()).spawn().unwrap();
        let port = wait_for("the port file", Duration::from_secs(30), || {
            std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
        });
        Self { process, address: format!("127.0.0.1:{port}") }
    }

    fn query(&self, query: &str) -> Value {
        let body = json!({ "query": query }).to_string();
        let request = ureq::post(format!("http://{}/graphql", self.address)).header("content-type", "application/json");
        let mut response = request.send(&body).unwrap();
        serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
    }

    fn wait_for_height(&self, height: u32) {
        wait_for("the server to catch up", Duration::from_secs(30), || {
            (self.query("{ tip { height } }")["data"]["tip"]["height"] == json!(height)).then_some(())
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_new_block_of_the_node_reaches_a_subscriber_and_is_answered_at_once() {
    let Some(node) = RealNode::start(&[]) else { return };
    node.mine(3);
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&node, directory.path());
    served.wait_for_height(3);

    let mut request = format!("ws://{}/graphql", served.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let send = |message: Value| Message::text(message.to_string());
    socket.send(send(json!({ "type": "connection_init" }))).await.unwrap();
    assert_eq!(next(&mut socket).await["type"], "connection_ack");
    let query = "subscription { newBlock { height hash previous { height } } }";
    socket.send(send(json!({ "type": "subscribe", "id": "1", "payload": { "query": query } }))).await.unwrap();

    // a subscription begins at some moment after its message: mine until a block is told
    let mut mined = Vec::new();
    let told = loop {
        mined.extend(node.mine(1));
        if let Ok(message) = tokio::time::timeout(Duration::from_secs(5), next(&mut socket)).await {
            break message;
        }
        assert!(mined.len() < 6, "no block was told");
    };
    let block = &told["payload"]["data"]["newBlock"];
    let height = block["height"].as_u64().unwrap();
    assert_eq!(node.must("getblockhash", &[json!(height)]), block["hash"]);
    assert_eq!(block["previous"]["height"], json!(height - 1));
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
fn what_is_indexed_is_answered_while_the_node_is_away_and_a_signal_stops_it_cleanly() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    node.mine(2);
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&node, directory.path());
    served.wait_for_height(2);
    drop(served);
    node.stop();
    let mut served = Served::start(&node, directory.path());
    assert_eq!(served.query("{ tip { height } }"), json!({ "data": { "tip": { "height": 2 } } }));
    let question = "{ snapshot { height inSync } sync { phase ready } bitcoinNode { reachable chain } }";
    let away = json!({
        "snapshot": { "height": 2, "inSync": false },
        "sync": { "phase": "WAITING_FOR_NODE", "ready": false },
        "bitcoinNode": { "reachable": false, "chain": null },
    });
    assert_eq!(served.query(question)["data"], away);
    node.start_again();
    node.mine(1);
    served.wait_for_height(3);
    let back = json!({
        "snapshot": { "height": 3, "inSync": true },
        "sync": { "phase": "FOLLOWING", "ready": true },
        "bitcoinNode": { "reachable": true, "chain": "regtest" },
    });
    wait_for("the server to be in sync", Duration::from_secs(30), || {
        (served.query(question)["data"] == back).then_some(())
    });

    let pid = served.process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = wait_for("the server to stop", Duration::from_secs(10), || served.process.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}
