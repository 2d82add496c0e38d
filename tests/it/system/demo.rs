//! The demo as a newcomer meets it: one command, no node, blocks that come by themselves, and nothing left behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::bitcoind::wait_for;
use crate::support::program::run;

/// A running demo, which has nothing to write to but `directory`.
struct Demo {
    process: Child,
    address: String,
}

impl Demo {
    fn start(directory: &Path) -> Self {
        let (files, port_file) = (directory.join("tmp"), directory.join("port"));
        std::fs::create_dir(&files).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
        program.args(["demo", "--listen", "127.0.0.1:0", "--port-file"]).arg(&port_file);
        // neither a home nor a node of the user's
        program.env_clear().env("TMPDIR", &files).current_dir(directory);
        let process = program.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let port = wait_for("the port file", Duration::from_secs(30), || {
            std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
        });
        Self { process, address: format!("127.0.0.1:{port}") }
    }

    fn query(&self, query: &str) -> Value {
        let request = ureq::post(format!("http://{}/graphql", self.address)).header("content-type", "application/json");
        let mut response = request.send(json!({ "query": query }).to_string()).unwrap();
        serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_subscriber_receives_blocks_and_ctrl_c_removes_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path());
    let ready = wait_for("the history to be indexed", Duration::from_secs(30), || {
        let answer = demo.query("{ sync { isReady } tip { height txCount } server { features { name enabled } } }");
        (answer["data"]["sync"]["isReady"] == json!(true)).then_some(answer)
    });
    assert!(ready["data"]["tip"]["height"].as_u64() >= Some(100), "{ready}");
    let features = ready["data"]["server"]["features"].as_array().unwrap();
    let enabled: Vec<_> = features.iter().filter(|feature| feature["enabled"] == true).collect();
    assert_eq!(json!(enabled), json!([{ "name": "BROADCAST", "enabled": true }]));

    let mined = demo.query("{ blocks(first: 50) { nodes { miner { name } coinbase { text } } } }");
    let blocks = mined["data"]["blocks"]["nodes"].as_array().unwrap();
    for block in blocks {
        let text = block["coinbase"]["text"].as_str().unwrap();
        let name = text.split('/').nth(1);
        assert_eq!(block["miner"]["name"].as_str(), name, "{block}");
    }
    assert!(
        blocks.iter().any(|block| block["miner"].is_null()) && blocks.iter().any(|block| !block["miner"].is_null())
    );

    let mut request = format!("ws://{}/graphql", demo.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let query = "subscription { newBlock { height txCount transactions(first: 3) { nodes { txid fee } } } }";
    let subscribe = json!({ "type": "subscribe", "id": "1", "payload": { "query": query } });
    for message in [json!({ "type": "connection_init" }), subscribe] {
        socket.send(Message::text(message.to_string())).await.unwrap();
    }
    let block = loop {
        let next = tokio::time::timeout(Duration::from_mins(1), socket.next());
        let message = next.await.expect("a block comes").unwrap().unwrap();
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message["type"] == "next" {
            break message["payload"]["data"]["newBlock"].clone();
        }
    };
    assert!(block["txCount"].as_u64() > Some(1), "payments are in it: {block}");

    let pid = demo.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = wait_for("the demo to end", Duration::from_secs(10), || demo.process.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let left: Vec<_> =
        std::fs::read_dir(directory.path().join("tmp")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_is_for_a_real_node_is_refused() {
    for flag in ["--network", "--data-dir", "--rpc-url", "--rpc-cookie", "--rpc-user", "--rpc-password", "--admin"] {
        let (code, printed) = run(Command::new(env!("CARGO_BIN_EXE_btcgraph")).args(["demo", flag, "x"]));
        assert_eq!(code, Some(2));
        assert!(printed.contains(&format!("leave {flag} out")), "{printed}");
    }
}
