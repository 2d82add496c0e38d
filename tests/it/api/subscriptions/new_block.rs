//! `newBlock`: every block is sent once it is connected, from its own state, however slow the reader is.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Executor, Request, Response};
use bitcoin::{Block, Network};
use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use crate::api::mempool::projected::{chain_with_coins, paying};
use crate::support::api::{Api, branch, response_json};

type Blocks = BoxStream<'static, Response>;

fn subscribe(api: &Api, fields: &str) -> Blocks {
    api.schema.execute_stream(Request::new(format!("subscription {{ newBlock {{ {fields} }} }}")), None)
}

/// The next response, within a time that only a lost block exceeds.
async fn next(blocks: &mut Blocks) -> Value {
    let response = tokio::time::timeout(Duration::from_secs(10), blocks.next()).await;
    response_json(response.expect("a block arrives").expect("the subscription goes on"))
}

async fn next_hash(blocks: &mut Blocks) -> String {
    let response = next(blocks).await;
    response["data"]["newBlock"]["hash"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

/// Lets the subscription take its place; it has nothing to tell yet.
async fn settle(blocks: &mut Blocks) {
    let waits = tokio::time::timeout(Duration::ZERO, blocks.next()).await;
    assert!(waits.is_err(), "nothing happened yet: {waits:?}");
}

fn hash(block: &Block) -> String {
    block.block_hash().to_string()
}

fn all(blocks: &[Arc<Block>]) -> impl Iterator<Item = &Block> {
    blocks.iter().map(Arc::as_ref)
}

#[tokio::test]
async fn each_event_has_the_whole_allowance_of_transaction_bytes() {
    let mut chain = SimChain::new(37);
    let mut api = Api::empty(Network::Regtest, Limits { transaction_bytes: 2_000, ..Limits::default() });
    api.change(0, chain.active_blocks().map(Arc::as_ref));
    let mut blocks = subscribe(&api, "transactions { nodes { hex } }");
    settle(&mut blocks).await;
    for _ in 0..20 {
        api.connect(&chain.mine(Vec::new()).unwrap());
        let response = next(&mut blocks).await;
        assert_eq!(response.get("errors"), None, "{response}");
    }
}

#[tokio::test]
async fn a_thousand_events_are_answered_from_a_thousand_tips_and_leave_no_read_open() {
    let mut chain = SimChain::new(30);
    chain.mine(Vec::new()).unwrap();
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(
        &api,
        "height hash confirmations nextBlock { hash } transactions { nodes { confirmations block { confirmations } } }",
    );
    settle(&mut blocks).await;
    for height in 2..=1_001 {
        let block = chain.mine(Vec::new()).unwrap();
        api.connect(&block);
        let expected = json!({
            "height": height,
            "hash": hash(&block),
            "confirmations": 1,
            "nextBlock": null,
            "transactions": { "nodes": [{ "confirmations": 1, "block": { "confirmations": 1 } }] },
        });
        assert_eq!(next(&mut blocks).await, json!({ "data": { "newBlock": expected } }));
    }
    settle(&mut blocks).await;
    assert_eq!(api.live_heads(), 1, "only the published Head is held");
}

#[tokio::test]
async fn blocks_of_one_commit_are_sent_one_by_one() {
    let mut chain = SimChain::new(31);
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "height confirmations");
    settle(&mut blocks).await;
    api.change(0, all(&chain.mine_empty(3).unwrap()));
    for (height, confirmations) in [(1, 3), (2, 2), (3, 1)] {
        let reported = json!({ "data": { "newBlock": { "height": height, "confirmations": confirmations } } });
        assert_eq!(next(&mut blocks).await, reported);
    }
    settle(&mut blocks).await;
}

#[tokio::test]
async fn a_reader_that_falls_behind_the_ring_misses_no_block() {
    let mut chain = SimChain::new(32);
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "hash");
    settle(&mut blocks).await;
    let mined = chain.mine_empty(300).unwrap();
    for block in &mined {
        api.connect(block);
    }
    for block in &mined {
        assert_eq!(next_hash(&mut blocks).await, hash(block));
    }
    settle(&mut blocks).await;
}

#[tokio::test]
async fn after_a_reorganisation_the_new_branch_follows_from_the_fork() {
    let mut chain = SimChain::new(33);
    let old = chain.mine_empty(5).unwrap();
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "hash chainStatus");
    settle(&mut blocks).await;
    let mut branch = vec![chain.mine_on(old[1].block_hash(), Vec::new()).unwrap()];
    for _ in 0..3 {
        branch.push(chain.mine_on(branch[branch.len() - 1].block_hash(), Vec::new()).unwrap());
    }
    api.change(3, all(&branch));
    for block in &branch {
        let reported = json!({ "data": { "newBlock": { "hash": hash(block), "chainStatus": "MAIN" } } });
        assert_eq!(next(&mut blocks).await, reported);
    }
    // and back again: the blocks of the first branch are connected, and sent, anew
    api.change(4, all(&old[2..]));
    for block in &old[2..] {
        assert_eq!(next_hash(&mut blocks).await, hash(block));
    }
    settle(&mut blocks).await;
}

#[tokio::test]
async fn a_reader_that_slept_through_a_reorganisation_goes_on_from_the_fork() {
    let mut chain = SimChain::new(34);
    let first = chain.mine_empty(4).unwrap();
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "hash");
    settle(&mut blocks).await;
    // sent up to block 6 of a branch that leaves at block 3
    let old = chain.mine_empty(2).unwrap();
    for block in &old {
        api.connect(block);
        assert_eq!(next_hash(&mut blocks).await, hash(block));
    }
    let mut new = vec![chain.mine_on(first[2].block_hash(), Vec::new()).unwrap()];
    for _ in 0..200 {
        new.push(chain.mine_on(new[new.len() - 1].block_hash(), Vec::new()).unwrap());
    }
    api.change(3, all(&new[..4]));
    for block in &new[4..] {
        api.connect(block);
    }
    for block in &new {
        assert_eq!(next_hash(&mut blocks).await, hash(block));
    }
    settle(&mut blocks).await;
}

#[tokio::test]
async fn a_block_connected_again_is_reported_again() {
    let mut chain = SimChain::new(35);
    chain.mine(Vec::new()).unwrap();
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "hash");
    settle(&mut blocks).await;
    let block = chain.mine(Vec::new()).unwrap();
    api.connect(&block);
    api.change(1, []);
    api.connect(&block);
    for _ in 0..2 {
        assert_eq!(next_hash(&mut blocks).await, hash(&block));
    }
    settle(&mut blocks).await;
}

fn subscribe_at(api: &Api, confirmations: &str) -> Blocks {
    let document = format!("subscription {{ newBlock(confirmations: {confirmations}) {{ hash confirmations }} }}");
    api.schema.execute_stream(Request::new(document), None)
}

/// Each block by its hash with the confirmations that it has by then.
async fn assert_reports<'b>(blocks: &mut Blocks, expected: impl IntoIterator<Item = (&'b Arc<Block>, u32)>) {
    for (block, confirmations) in expected {
        let reported = json!({ "newBlock": { "hash": hash(block), "confirmations": confirmations } });
        assert_eq!(next(blocks).await, json!({ "data": reported }));
    }
    settle(blocks).await;
}

#[tokio::test]
async fn a_block_is_reported_at_the_requested_depth() {
    let mut chain = SimChain::new(38);
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe_at(&api, "3");
    settle(&mut blocks).await;
    let mined = chain.mine_empty(6).unwrap();
    // the genesis block is the first with three, and nothing below it has
    api.change(0, all(&mined[..1]));
    settle(&mut blocks).await;
    api.connect(&mined[1]);
    let genesis = chain.active_blocks().next().unwrap().clone();
    assert_reports(&mut blocks, [(&genesis, 3)]).await;
    api.connect(&mined[2]);
    assert_reports(&mut blocks, [(&mined[0], 3)]).await;
    // of several in one commit each is sent, from the state behind all of them
    api.change(0, all(&mined[3..]));
    assert_reports(&mut blocks, [(&mined[1], 5), (&mined[2], 4), (&mined[3], 3)]).await;
}

#[tokio::test]
async fn after_a_reorg_a_block_is_reported_at_its_depth_again() {
    let mut chain = SimChain::new(39);
    let old = chain.mine_empty(6).unwrap();
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe_at(&api, "3");
    settle(&mut blocks).await;
    // in place of the blocks 5 and 6 there are four; the blocks 3 and 4 had three confirmations before, and have again
    let mut new = vec![chain.mine_on(old[3].block_hash(), Vec::new()).unwrap()];
    for _ in 0..3 {
        new.push(chain.mine_on(new[new.len() - 1].block_hash(), Vec::new()).unwrap());
    }
    api.change(2, all(&new));
    assert_reports(&mut blocks, [(&old[2], 6), (&old[3], 5), (&new[0], 4), (&new[1], 3)]).await;
    // what only leaves tells nothing
    api.change(2, []);
    settle(&mut blocks).await;
    api.connect(&new[2]);
    assert_reports(&mut blocks, [(&new[0], 3)]).await;
}

#[tokio::test]
async fn a_slow_reader_gets_every_block_that_got_deep_enough() {
    let mut chain = SimChain::new(40);
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe_at(&api, "100");
    settle(&mut blocks).await;
    let mined = chain.mine_empty(300).unwrap();
    for block in &mined {
        api.connect(block);
    }
    let genesis = chain.active_blocks().next().unwrap().clone();
    assert_eq!(next(&mut blocks).await["data"]["newBlock"]["hash"], json!(hash(&genesis)));
    for block in &mined[..201] {
        assert_eq!(next(&mut blocks).await["data"]["newBlock"]["hash"], json!(hash(block)));
    }
    settle(&mut blocks).await;
}

#[tokio::test]
async fn a_block_of_the_chain_has_one_confirmation_at_least() {
    let api = Api::of_chain(&SimChain::new(41));
    for confirmations in ["0", "-1"] {
        let refused = next(&mut subscribe_at(&api, confirmations)).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{confirmations}");
    }
    settle(&mut subscribe_at(&api, "null")).await;
    settle(&mut subscribe_at(&api, "2147483647")).await;
}

#[tokio::test]
async fn a_late_resume_walks_the_states_and_keeps_none() {
    let mut chain = SimChain::new(38);
    let mut api = Api::of_chain(&chain);
    let miner = SimChain::miner().script_pubkey().to_hex_string();
    let chain_events = |after: &str| format!("chainEvents(after: {after}) {{ ... on BlockConnected {{ cursor }} }}");
    let ledger_events =
        |after: &str| format!("ledgerEvents(watch: {{ scripts: [\"{miner}\"] }}, after: {after}) {{ cursor }}");
    let documents: [&dyn Fn(&str) -> String; 2] = [&chain_events, &ledger_events];
    for document in documents {
        let listen = |api: &Api, after: &str| {
            api.schema.execute_stream(Request::new(format!("subscription {{ event: {} }}", document(after))), None)
        };
        let mut events = listen(&api, "null");
        settle(&mut events).await;
        api.connect(&chain.mine(Vec::new()).unwrap());
        let cursor = next(&mut events).await["data"]["event"]["cursor"].to_string();
        drop(events);
        api.change(0, all(&chain.mine_empty(2_500).unwrap()));
        let mut events = listen(&api, &cursor);
        next(&mut events).await;
        api.connect(&chain.mine(Vec::new()).unwrap());
        assert_eq!(api.live_heads(), 2, "the newest, and the one that is read from");
        for _ in 0..2_300 {
            next(&mut events).await;
        }
        assert_eq!(api.live_heads(), 1);
    }
}

/// A request by what stands behind `after`.
type Document = Box<dyn Fn(&str) -> Request>;

/// Documents that tell the cursors of blocks.
fn with_cursors() -> [Document; 2] {
    let miner = SimChain::miner().script_pubkey().to_hex_string();
    [
        Box::new(|after| {
            let fields = "cursor ... on BlockConnected { block { hash } }";
            Request::new(format!("subscription {{ event: chainEvents(after: {after}) {{ {fields} }} }}"))
        }),
        Box::new(move |after| {
            let fields = "cursor entry { transaction { block { hash } } }";
            let watch = format!("watch: {{ scripts: [\"{miner}\"] }}");
            Request::new(format!("subscription {{ event: ledgerEvents({watch}, after: {after}) {{ {fields} }} }}"))
        }),
    ]
}

#[tokio::test]
async fn the_block_of_a_cursor_that_another_server_gave_is_waited_for() {
    let mut chain = SimChain::new(42);
    for document in with_cursors() {
        let mut ahead = Api::of_chain(&chain);
        let mut behind = Api::of_chain(&chain);
        let mut events = ahead.schema.execute_stream(document("null"), None);
        settle(&mut events).await;
        let [first, second] = [0; 2].map(|_| chain.mine(Vec::new()).unwrap());
        ahead.connect(&first);
        let cursor = next(&mut events).await["data"]["event"]["cursor"].to_string();

        let mut events = behind.schema.execute_stream(document(&cursor), None);
        settle(&mut events).await;
        assert_eq!(behind.live_heads(), 1, "who waits holds no state");
        behind.connect(&first);
        behind.connect(&second);
        // the other server's mempool is not this one's
        while let Some(event) = events.next().await.map(response_json) {
            assert_eq!(event.get("errors"), None);
            if event.to_string().contains(&hash(&second)) {
                break;
            }
            assert!(!event.to_string().contains(&hash(&first)), "{event}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_whose_block_does_not_come_has_expired() {
    let mut chain = SimChain::new(43);
    let (api, mut other) = (Api::of_chain(&chain), Api::of_chain(&chain));
    let started = tokio::time::Instant::now();
    let expired = with_cursors().map(|document| (other.schema.execute_stream(document("null"), None), document));
    let mut expired = expired.into_iter().collect::<Vec<_>>();
    for (events, _) in &mut expired {
        settle(events).await;
    }
    other.connect(&chain.mine(Vec::new()).unwrap());
    let mut refused = Vec::new();
    for (events, document) in &mut expired {
        let cursor = next(events).await["data"]["event"]["cursor"].to_string();
        refused.push(api.schema.execute_stream(document(&cursor), None));
    }
    for response in async_graphql::futures_util::future::join_all(refused.iter_mut().map(StreamExt::next)).await {
        let response = response_json(response.unwrap());
        let expected = json!({ "code": "CURSOR_EXPIRED", "argument": "after" });
        assert_eq!(response["errors"][0]["extensions"], expected, "{response}");
    }
    assert!(started.elapsed() >= Duration::from_secs(10), "it was not waited for");
}

#[tokio::test]
async fn an_event_from_before_the_newest_state_that_was_turned_to_is_passed_over() {
    let mut chain = SimChain::new(45);
    let mut api = Api::of_chain(&chain);
    let mut blocks = subscribe(&api, "hash");
    settle(&mut blocks).await;
    let far = chain.mine_empty(1_500).unwrap();
    api.change(0, all(&far));
    assert_eq!(next_hash(&mut blocks).await, hash(&far[0]));
    // these wait in the channel when the reader turns to the state behind all of them, and the first knows less than he
    let more = chain.mine_empty(3).unwrap();
    for block in &more {
        api.connect(block);
    }
    for block in far[1..].iter().chain(&more) {
        assert_eq!(next_hash(&mut blocks).await, hash(block));
    }
    settle(&mut blocks).await;
    let last = chain.mine(Vec::new()).unwrap();
    api.connect(&last);
    assert_eq!(next_hash(&mut blocks).await, hash(&last));
    settle(&mut blocks).await;
}

#[tokio::test]
async fn a_long_read_of_the_mempool_moves_to_the_newest_state() {
    let (mut chain, coins) = chain_with_coins(2_600);
    let mut api = Api::of_chain(&chain);
    let payments: Vec<_> = coins.iter().map(|coin| paying(*coin, 500)).collect();
    let listen = |api: &Api, after: &str| {
        let reported = format!("event: mempoolEvents(after: {after}) {{ ... on TransactionAdded {{ cursor txid }} }}");
        api.schema.execute_stream(Request::new(format!("subscription {{ {reported} }}")), None)
    };
    let mut events = listen(&api, "null");
    settle(&mut events).await;
    api.arrive(&payments[..1]);
    let cursor = next(&mut events).await["data"]["event"]["cursor"].to_string();
    drop(events);
    api.arrive(&payments[1..]);
    let mut events = listen(&api, &cursor);
    for (number, payment) in payments[1..].iter().enumerate() {
        let txid = json!(payment.compute_txid().to_string());
        assert_eq!(next(&mut events).await["data"]["event"]["txid"], txid, "{number}");
        if number == 0 {
            api.connect(&chain.mine(Vec::new()).unwrap());
            assert_eq!(api.live_heads(), 2, "the newest, and the one that is read from");
        }
        if number == 1_000 {
            assert_eq!(api.live_heads(), 1, "behind a thousand events");
        }
    }
    settle(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_new_states_and_misses_nothing() {
    let mut chain = SimChain::new(44);
    let fork = chain.mine(Vec::new()).unwrap();
    let mut api = Api::of_chain(&chain);
    let miner = SimChain::miner().script_pubkey().to_hex_string();
    let ledger = "kind entry { transaction { txid } }";
    let documents = [
        "event: chainEvents { ... on BlockConnected { block { hash } } ... on BlockDisconnected { block { hash } } }"
            .to_owned(),
        "event: newBlock { hash }".to_owned(),
        format!("event: ledgerEvents(watch: {{ scripts: [\"{miner}\"] }}) {{ {ledger} }}"),
    ];
    let mut readers = documents
        .map(|document| api.schema.execute_stream(Request::new(format!("subscription {{ {document} }}")), None));
    for events in &mut readers {
        settle(events).await;
    }
    let old = chain.mine_empty(4).unwrap();
    api.change(0, all(&old));
    for events in &mut readers {
        next(events).await;
    }
    let new = branch(&mut chain, fork.block_hash(), 5, &[]);
    api.change(4, all(&new));
    assert_eq!(api.live_heads(), 2, "the newest, and the one that is read from");
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    let mut reported = Vec::new();
    for events in &mut readers {
        reported.push(vec![next(events).await["data"]["event"].take()]);
    }
    assert_eq!(api.live_heads(), 1, "after a while only the newest is read from");
    for (events, reported) in readers.iter_mut().zip(&mut reported) {
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(100), events.next()).await {
            reported.push(response_json(event)["data"]["event"].take());
        }
    }
    // each received the first of the old ones; none received the others, and none will
    let hashes = |blocks: &[Arc<Block>]| blocks.iter().map(|block| json!(hash(block))).collect::<Vec<_>>();
    let [left, joined] = [hashes(&old[..1]), hashes(&new)];
    let with_left: Vec<_> = left.iter().chain(&joined).map(|hash| json!({ "block": { "hash": hash } })).collect();
    assert_eq!(reported[0], with_left);
    assert_eq!(reported[1], joined.iter().map(|hash| json!({ "hash": hash })).collect::<Vec<_>>());
    let coinbase = |kind: &str, block: &Block| {
        let txid = block.txdata[0].compute_txid().to_string();
        json!({ "kind": kind, "entry": { "transaction": { "txid": txid } } })
    };
    let heard = reported[2].iter().filter(|event| event["kind"] == "UNCONFIRMED_BY_REORG").count();
    let confirmed = all(&new).map(|block| coinbase("CONFIRMED", block));
    assert_eq!(reported[2][reported[2].len() - new.len()..], confirmed.collect::<Vec<_>>());
    assert_eq!(heard, reported[2].iter().filter(|event| event["kind"] == "CONFIRMED").count() - new.len() + 1);
}

#[tokio::test]
async fn a_subscription_to_an_empty_index_is_not_ready() {
    let api = Api::empty(Network::Regtest, Limits::default());
    let response = next(&mut subscribe(&api, "hash")).await;
    assert_eq!(response["data"], Value::Null);
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("NOT_READY"));
}
