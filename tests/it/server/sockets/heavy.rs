//! Subscriptions that ask for much of each event: what they cost others, and what they may cost themselves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::{Block, TxOut};
use btcgraph::server::Options;
use btcgraph::sim::SimChain;
use serde_json::json;

use super::{Client, chain, until_subscriptions};
use crate::support::api::{Api, coinbase_output, sat, spend};
use crate::support::test_server::TestServer;

/// A chain with one block to come, in which one transaction has a hundred outputs.
fn chain_and_block() -> (SimChain, Arc<Block>) {
    let mut chain = SimChain::new(43);
    chain.mine_empty(102).unwrap();
    let before = chain.clone();
    let coin = coinbase_output(chain.active_blocks().nth(1).unwrap(), 0);
    let script = coinbase_script(&chain);
    let outputs = (1..=100).map(|number| TxOut { value: sat(1_000 + number), script_pubkey: script.clone() });
    let transaction = spend(&chain, SimChain::miner(), &[coin], outputs.collect());
    let block = chain.mine(vec![transaction]).unwrap();
    (before, block)
}

fn coinbase_script(chain: &SimChain) -> bitcoin::ScriptBuf {
    chain.active_blocks().nth(1).unwrap().txdata[0].output[0].script_pubkey.clone()
}

/// A document whose execution takes long, and another one for every number.
fn heavy(number: usize) -> String {
    let outputs = "outputs(first: 100) { nodes { value asm scriptPubKey address } }";
    let list = |alias: usize| format!("l{alias}: transactions(first: 2) {{ nodes {{ txid {outputs} }} }}");
    let lists: Vec<_> = (0..16).map(list).collect();
    format!("subscription {{ newBlock {{ n{number}: height {} }} }}", lists.join(" "))
}

/// How long each of the answers takes that it gives until it is asked to stop, without a break.
fn watch_over(address: SocketAddr, stop: Arc<AtomicBool>) -> thread::JoinHandle<Vec<Duration>> {
    thread::spawn(move || {
        let mut taken = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            taken.push(asked.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        taken.sort();
        taken
    })
}

async fn subscribed(served: &TestServer, document: &str) -> Client {
    let mut client = served.client().await;
    client.ask("1", document).await;
    client
}

#[test]
fn a_hundred_heavy_subscriptions_delay_no_ping_and_no_light_one() {
    const HEAVY: u64 = 100;
    // the server has threads of its own here, as it has where it is served
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (serving, asking) = (runtime(), runtime());
    let (chain, block) = chain_and_block();
    let mut api = Api::of_chain(&chain);
    let mut options = Options::default();
    // on a slow machine all of them together take longer than one may, which is not what this is about
    options.limits.timeout = Duration::from_mins(1);
    let served = serving.block_on(TestServer::with_options(&api.schema, options));
    let (address, stop) = (served.address, Arc::new(AtomicBool::new(false)));
    asking.block_on(async {
        let mut clients = Vec::new();
        for number in 0..HEAVY {
            clients.push(subscribed(&served, &heavy(usize::try_from(number).unwrap())).await);
        }
        // behind all the others
        let mut light = subscribed(&served, "subscription { newBlock { hash } }").await;
        until_subscriptions(&mut light, HEAVY + 1).await;
        let watching = watch_over(address, stop.clone());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        api.connect(&block);
        let all = tokio::spawn(async move {
            for client in &mut clients {
                let reported = client.receive().await;
                assert_eq!(reported["type"], "next");
                assert_eq!(
                    reported["payload"]["data"]["newBlock"]["l15"]["nodes"].as_array().unwrap().len(),
                    2,
                    "{reported}"
                );
            }
            Instant::now()
        });
        assert_eq!(light.receive().await["payload"]["data"]["newBlock"]["hash"], json!(block.block_hash().to_string()));
        let light = begun.elapsed();
        let all = all.await.unwrap().duration_since(begun);
        stop.store(true, Ordering::Relaxed);
        let taken = watching.join().unwrap();
        let (median, worst) = (taken[taken.len() / 2], taken[taken.len() - 1]);
        println!("light {light:?}, all {all:?}, alive {median:?}, at worst {worst:?} of {}", taken.len());
        assert!(worst < all / 4, "alive after {worst:?}, while the events took {all:?}");
        assert!(light < all / 4, "light after {light:?}, while the events took {all:?}");
    });
    serving.block_on(served.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_takes_too_long_ends_its_subscription_with_a_timeout_and_no_other() {
    let (chain, block) = chain_and_block();
    let mut api = Api::of_chain(&chain);
    let mut options = Options::default();
    // one after the other: the last of them wait for longer than they may
    options.limits.executions = 1;
    options.limits.timeout = Duration::from_millis(500);
    let served = TestServer::with_options(&api.schema, options).await;
    let mut clients = Vec::new();
    for number in 0..40 {
        let mut client = subscribed(&served, &heavy(number)).await;
        // one begins after the other, which is not what this is about
        until_subscriptions(&mut client, u64::try_from(number).unwrap() + 1).await;
        clients.push(client);
    }
    let mut light = subscribed(&served, "subscription { newBlock { hash } }").await;
    until_subscriptions(&mut light, 41).await;
    api.connect(&block);
    assert_eq!(light.receive().await["payload"]["data"]["newBlock"]["hash"], json!(block.block_hash().to_string()));
    let mut late = 0;
    for client in &mut clients {
        let reported = client.receive().await;
        assert_eq!(reported["type"], "next", "{reported}");
        if reported["payload"]["errors"][0]["extensions"]["code"] == json!("TIMEOUT") {
            late += 1;
            assert_eq!(client.receive().await, json!({ "type": "complete", "id": "1" }));
        } else {
            assert_eq!(reported["payload"].get("errors"), None, "{reported}");
        }
    }
    assert!(late > 0);
    until_subscriptions(&mut light, 41 - late).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_subscriptions_hold_is_bounded_for_all_of_them_and_freed_by_each_that_ends() {
    let (chain, _) = chain_and_block();
    let mut options = Options::default();
    options.limits.subscription_bytes = 200_000;
    let served = TestServer::with_options(&Api::of_chain(&chain).schema, options).await;
    let mut clients = Vec::new();
    let refused = loop {
        let mut client = subscribed(&served, &heavy(clients.len())).await;
        client.ask("count", "{ tip { height } }").await;
        let reported = client.receive().await;
        if reported["type"] == "error" {
            break reported["payload"][0]["extensions"].clone();
        }
        clients.push(client);
        assert!(clients.len() < 100);
    };
    assert_eq!((&refused["code"], &refused["limit"]), (&json!("RESOURCE_EXHAUSTED"), &json!(200_000)));
    assert!(refused["actual"].as_u64().unwrap() > 200_000, "{refused}");
    // those that are executed once for all are held once
    let mut shared = Vec::new();
    for _ in 0..5 {
        let mut client = served.client().await;
        client.ask("1", "subscription { newBlock { hash } }").await;
        assert!(client.is_silent().await);
        shared.push(client);
    }
    let count = u64::try_from(clients.len()).unwrap();
    until_subscriptions(&mut shared[0], count + 5).await;
    drop(clients.pop());
    until_subscriptions(&mut shared[0], count + 4).await;
    let mut another = subscribed(&served, &heavy(1_000)).await;
    until_subscriptions(&mut another, count + 5).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_after_a_subscription_is_answered_once_that_has_begun() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    for number in 0..30 {
        let mut client = served.client().await;
        client.ask("blocks", &format!("subscription {{ newBlock {{ n{number}: height }} }}")).await;
        client.ask("tip", "{ tip { height } }").await;
        let reported = client.receive().await;
        assert_eq!((&reported["id"], &reported["type"]), (&json!("tip"), &json!("next")), "{reported}");
        let height = reported["payload"]["data"]["tip"]["height"].as_u64().unwrap();
        assert_eq!(client.receive().await, json!({ "type": "complete", "id": "tip" }));
        api.connect(&chain.mine(Vec::new()).unwrap());
        let reported = client.receive().await;
        assert_eq!(reported["payload"]["data"]["newBlock"][format!("n{number}")], json!(height + 1), "{reported}");
    }
    served.stop().await;
}
