//! Subscriptions that tell what something comes to: at once, and then when it is something else.

use std::collections::BTreeSet;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Executor, Request, Response};
use bitcoin::{Network, OutPoint, Transaction, Txid};
use btcgraph::limits::Limits;
use btcgraph::mempool::{Departure, NodeMempool};
use btcgraph::sim::SimChain;
use btcgraph::view::{IndexingSpeed, SyncPhase, SyncState};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::mempool::projected::{NODE, chain_with_coins, large, output_of, paying, paying_of};
use crate::support::api::{Api, response_json};

type Events = BoxStream<'static, Response>;

/// The least time between two events of most of them, and a little more.
const PAUSE: Duration = Duration::from_millis(1_100);
/// How long an event may take that has happened: its execution may yield several times.
const YIELDS: Duration = Duration::from_millis(20);

fn subscribe(api: &Api, field: &str) -> Events {
    api.schema.execute_stream(Request::new(format!("subscription {{ event: {field} }}")), None)
}

/// The next event, within a time that only a lost event exceeds.
async fn next(events: &mut Events) -> Value {
    let response = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
    let mut response = response_json(response.expect("an event arrives").expect("the subscription goes on"));
    assert_eq!(response.get("errors"), None, "{response:#}");
    response["data"]["event"].take()
}

/// No event arrives for a while.
async fn is_quiet(events: &mut Events) {
    let reported = tokio::time::timeout(PAUSE, events.next()).await;
    assert!(reported.is_err(), "nothing is news: {reported:?}");
}

async fn data(api: &Api, document: &str) -> Value {
    let mut response = response_json(api.schema.execute(Request::new(document)).await);
    assert_eq!(response.get("errors"), None, "{response:#}");
    response["data"].take()
}

async fn refusal(api: &Api, field: &str) -> Value {
    let response = subscribe(api, field).next().await.expect("a refusal");
    response_json(response)["errors"][0]["extensions"]["code"].take()
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_the_mempool_come_at_once_and_then_as_often_as_asked_if_they_change() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = subscribe(&api, "mempoolStats(everySeconds: 1) { txCount totalFees minFeeRate }");
    assert_eq!(next(&mut events).await, json!({ "txCount": 0, "totalFees": 0, "minFeeRate": 0.0 }));
    is_quiet(&mut events).await;
    let reported = Instant::now();
    api.arrive([&paying(coins[0], 100)]);
    api.arrive([&paying(coins[1], 200)]);
    assert_eq!(next(&mut events).await, json!({ "txCount": 2, "totalFees": 300, "minFeeRate": 0.0 }), "both in one");
    api.set_node_mempool(NODE);
    assert_eq!(next(&mut events).await, json!({ "txCount": 2, "totalFees": 300, "minFeeRate": 1.5 }));
    assert!(reported.elapsed() >= Duration::from_secs(1), "a second lies between two events");
    is_quiet(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_the_mempool_come_each_second_to_each_hour() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    for seconds in [0, -1, 3_601] {
        let field = format!("mempoolStats(everySeconds: {seconds}) {{ txCount }}");
        assert_eq!(refusal(&api, &field).await, json!("BAD_USER_INPUT"), "{seconds}");
    }
    for field in ["mempoolStats", "mempoolStats(everySeconds: null)", "mempoolStats(everySeconds: 3600)"] {
        assert_eq!(next(&mut subscribe(&api, &format!("{field} {{ txCount }}"))).await, json!({ "txCount": 0 }));
    }
}

#[tokio::test(start_paused = true)]
async fn recommended_fees_come_once_the_mempool_is_known_and_then_when_they_are_others() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = subscribe(&api, "recommendedFees { within1Block minimum asOf { mempoolSequence } }");
    is_quiet(&mut events).await;
    api.set_node_mempool(NODE);
    let reported = json!({ "within1Block": 1.5, "minimum": 1.5, "asOf": { "mempoolSequence": 0 } });
    assert_eq!(next(&mut events).await, reported);
    // the next block has room for it
    api.arrive([&paying(coins[0], 10_000)]);
    is_quiet(&mut events).await;
    api.set_node_mempool(NodeMempool { min_fee_rate: 3.0, ..NODE });
    let reported = json!({ "within1Block": 3.0, "minimum": 3.0, "asOf": { "mempoolSequence": 1 } });
    assert_eq!(next(&mut events).await, reported);
}

#[tokio::test(start_paused = true)]
async fn the_next_difficulty_comes_at_once_and_then_with_each_tip() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut events = subscribe(&api, "difficultyAdjustment { minedBlockCount remainingBlockCount nextHeight }");
    let reported =
        |done: u32| json!({ "minedBlockCount": done, "remainingBlockCount": 2_016 - done, "nextHeight": 2_016 });
    assert_eq!(next(&mut events).await, reported(103));
    api.arrive([&paying(coins[0], 100)]);
    is_quiet(&mut events).await;
    for done in [104, 105] {
        api.connect(&chain.mine(Vec::new()).unwrap());
        assert_eq!(next(&mut events).await, reported(done));
    }
    // several while nobody reads are one: it is a view, and no journal
    for _ in 0..200 {
        api.connect(&chain.mine(Vec::new()).unwrap());
    }
    assert_eq!(next(&mut events).await, reported(305));
    is_quiet(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_reported_before_any_block_is_indexed() {
    let mut api = Api::empty(Network::Regtest, Limits::default());
    let mut events =
        subscribe(&api, "syncProgress { phase indexedHeight targetHeight progress blocksPerSecond isReady }");
    let reported = next(&mut events).await;
    let nothing = json!({
        "phase": "WAITING_FOR_NODE", "indexedHeight": null, "targetHeight": null, "progress": null,
        "blocksPerSecond": null, "isReady": false,
    });
    assert_eq!(reported, nothing);
    is_quiet(&mut events).await;
    let speed = Some(IndexingSpeed { blocks_per_second: 7.0, remaining: Duration::from_mins(1) });
    let catching_up =
        SyncState { phase: SyncPhase::CatchingUp, node_height: Some(9.into()), speed, ..SyncState::default() };
    api.set_state(catching_up);
    let far = json!({
        "phase": "CATCHING_UP", "indexedHeight": null, "targetHeight": 9, "progress": 0.0, "blocksPerSecond": 7.0,
        "isReady": false,
    });
    assert_eq!(next(&mut events).await, far);

    let mut chain = SimChain::new(3);
    chain.mine_empty(9).unwrap();
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    api.set_state(SyncState { phase: SyncPhase::Following, node_tip: Some(chain.tip()), speed: None, ..catching_up });
    let ready = json!({
        "phase": "FOLLOWING", "indexedHeight": 9, "targetHeight": 9, "progress": 1.0, "blocksPerSecond": null,
        "isReady": true,
    });
    assert_eq!(next(&mut events).await, ready);
    is_quiet(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn all_but_progress_wait_for_the_first_block() {
    let api = Api::empty(Network::Regtest, Limits::default());
    for field in [
        "mempoolStats { txCount }",
        "recommendedFees { minimum }",
        "projectedBlock { index }",
        "difficultyAdjustment { progress }",
    ] {
        assert_eq!(refusal(&api, field).await, json!("NOT_READY"), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_that_do_not_read_hold_no_state() {
    let (mut chain, coins) = chain_with_coins(30);
    let mut api = Api::of_chain(&chain);
    api.set_node_mempool(NODE);
    let mut readers: Vec<Events> = [
        "mempoolStats(everySeconds: 3600) { txCount }",
        "recommendedFees { minimum }",
        "projectedBlock { index projectedBlock { txCount } }",
        "projectedBlocks { index }",
        "difficultyAdjustment { progress }",
        "syncProgress { indexedHeight }",
    ]
    .map(|field| subscribe(&api, field))
    .into();
    for reader in &mut readers {
        next(reader).await;
    }
    for coin in coins {
        api.arrive([&paying(coin, 100)]);
        api.connect(&chain.mine(Vec::new()).unwrap());
    }
    assert_eq!(api.live_heads(), 1, "only the published Head is held");
    assert_eq!(data(&api, "{ server { subscriptionCount } }").await, json!({ "server": { "subscriptionCount": 6 } }));
    drop(readers);
    assert_eq!(data(&api, "{ server { subscriptionCount } }").await, json!({ "server": { "subscriptionCount": 0 } }));
}

const DELTA: &str = "index sequence projectedBlock { index txCount } added { txid } removed";

#[tokio::test(start_paused = true)]
async fn a_projected_block_is_sent_whole_and_then_by_changes() {
    let (chain, coins) = chain_with_coins(4);
    let mut api = Api::of_chain(&chain);
    let transactions: Vec<_> =
        [40_000, 30_000, 20_000, 50_000].iter().zip(&coins).map(|(fee, coin)| large(*coin, *fee)).collect();
    let id = |number: usize| transactions[number].compute_txid().to_string();
    api.arrive(&transactions[..2]);
    let mut first = subscribe(&api, &format!("projectedBlock {{ {DELTA} }}"));
    let mut second = subscribe(&api, &format!("projectedBlock(index: 1) {{ {DELTA} }}"));
    let whole = json!({
        "index": 0, "sequence": 1, "projectedBlock": { "index": 0, "txCount": 2 },
        "added": [{ "txid": id(0) }, { "txid": id(1) }], "removed": [],
    });
    assert_eq!(next(&mut first).await, whole);
    let none = json!({ "index": 1, "sequence": 1, "projectedBlock": null, "added": [], "removed": [] });
    assert_eq!(next(&mut second).await, none);

    // the best of all pushes one into the block behind
    api.arrive(&transactions[2..]);
    let delta = json!({
        "index": 0, "sequence": 2, "projectedBlock": { "index": 0, "txCount": 2 },
        "added": [{ "txid": id(3) }], "removed": [id(1)],
    });
    assert_eq!(next(&mut first).await, delta);
    let delta = json!({
        "index": 1, "sequence": 2, "projectedBlock": { "index": 1, "txCount": 2 },
        "added": [{ "txid": id(1) }, { "txid": id(2) }], "removed": [],
    });
    assert_eq!(next(&mut second).await, delta);
    // what changes only the second is no news of the first
    api.depart(&transactions[2].compute_txid(), Departure::Expired);
    let block = json!({ "index": 1, "txCount": 1 });
    let delta = json!({ "index": 1, "sequence": 3, "projectedBlock": block, "added": [], "removed": [id(2)] });
    assert_eq!(next(&mut second).await, delta);
    is_quiet(&mut first).await;
    assert_eq!(refusal(&api, "projectedBlock(index: -1) { index }").await, json!("BAD_USER_INPUT"));
}

#[tokio::test(start_paused = true)]
async fn all_projected_blocks_are_sent_when_a_figure_changes() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let transactions: Vec<_> =
        [40_000, 30_000, 20_000].iter().zip(&coins).map(|(fee, coin)| large(*coin, *fee)).collect();
    api.arrive(&transactions[..2]);
    let mut all = subscribe(&api, "projectedBlocks { index txCount totalFees }");
    let mut first = subscribe(&api, "projectedBlocks(first: 1) { txCount }");
    let block = |index: u32, count: u32, fees: u32| json!({ "index": index, "txCount": count, "totalFees": fees });
    assert_eq!(next(&mut all).await, json!([block(0, 2, 70_000)]));
    assert_eq!(next(&mut first).await, json!([{ "txCount": 2 }]));
    api.arrive(&transactions[2..]);
    assert_eq!(next(&mut all).await, json!([block(0, 2, 70_000), block(1, 1, 20_000)]));
    // the first block is as it was
    is_quiet(&mut first).await;
    assert_eq!(refusal(&api, "projectedBlocks(first: 101) { index }").await, json!("QUERY_LIMIT_EXCEEDED"));
}

#[tokio::test(start_paused = true)]
async fn large_changes_of_a_projected_block_are_several_events() {
    let (chain, coins) = chain_with_coins(2_100);
    let mut api = Api::of_chain(&chain);
    let payments: Vec<_> = coins.iter().map(|coin| paying(*coin, 500)).collect();
    api.arrive(&payments);
    let mut events = subscribe(&api, "projectedBlock { sequence projectedBlock { txCount } added { txid } removed }");
    let started = Instant::now();
    let mut has = BTreeSet::new();
    for (sequence, added) in [(1, 1_000), (2, 1_000), (3, 100)] {
        let event = next(&mut events).await;
        let block = json!({ "txCount": 2_100 });
        assert_eq!(
            (&event["sequence"], &event["projectedBlock"], &event["removed"]),
            (&json!(sequence), &block, &json!([]))
        );
        assert_eq!(event["added"].as_array().unwrap().len(), added);
        has.extend(event["added"].as_array().unwrap().iter().map(|added| added["txid"].to_string()));
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "there is no pause between them");
    assert_eq!(has.len(), 2_100);
    is_quiet(&mut events).await;
}

/// A mempool to which random things happen, and readers of some of its projected blocks.
struct Stage {
    chain: SimChain,
    api: Api,
    coins: Vec<OutPoint>,
    waiting: Vec<Transaction>,
    readers: Vec<(usize, Events, BTreeSet<String>)>,
}

/// What happens: which of five kinds of things, to what, and for what fee.
type Happening = (u8, prop::sample::Index, u64);

impl Stage {
    fn new() -> Self {
        let (chain, coins) = chain_with_coins(40);
        let api = Api::of_chain(&chain);
        let reader =
            |index| (index, subscribe(&api, &format!("projectedBlock(index: {index}) {{ {DELTA} }}")), BTreeSet::new());
        let readers = (0..3).map(reader).collect();
        Self { chain, api, coins, waiting: Vec::new(), readers }
    }

    fn happen(&mut self, (kind, which, fee): &Happening) {
        let coin = *which.get(&self.coins);
        let waiting = (!self.waiting.is_empty()).then(|| which.get(&self.waiting).clone());
        match (kind % 6, waiting) {
            (0, Some(gone)) => self.api.depart(&gone.compute_txid(), Departure::Expired),
            (1, Some(parent)) => {
                // a child that pays for its parent; it spends what another may have spent
                let value = parent.output[0].value.to_sat();
                self.arrive(paying_of(output_of(&parent), value, (*fee).min(value)));
            }
            (2, Some(mined)) if mined.input.iter().all(|input| self.coins.contains(&input.previous_output)) => {
                let spent = mined.input[0].previous_output;
                self.coins.retain(|coin| *coin != spent);
                let block = self.chain.mine(vec![mined]).unwrap();
                self.api.connect(&block);
            }
            (3, _) => self.arrive(paying(coin, *fee)),
            _ => self.arrive(large(coin, *fee)),
        }
        let there = |transaction: &Transaction| self.api.view().mempool().get(&transaction.compute_txid()).is_some();
        self.waiting.retain(there);
    }

    fn arrive(&mut self, transaction: Transaction) {
        self.api.arrive([&transaction]);
        self.waiting.push(transaction);
    }

    /// What each reader has that applied every event, and what it should have.
    async fn compare(&mut self) {
        for (index, events, has) in &mut self.readers {
            let mut expected_sequence = None;
            while let Ok(Some(event)) = tokio::time::timeout(YIELDS, events.next()).await {
                let mut response = response_json(event);
                assert_eq!(response.get("errors"), None, "{response:#}");
                let event = response["data"]["event"].take();
                if let Some(before) = expected_sequence.replace(event["sequence"].as_u64().unwrap()) {
                    assert_eq!(event["sequence"].as_u64().unwrap(), before + 1);
                }
                for gone in event["removed"].as_array().unwrap() {
                    assert!(has.remove(gone.as_str().unwrap()), "{gone} was not reported before");
                }
                for added in event["added"].as_array().unwrap() {
                    assert!(has.insert(added["txid"].as_str().unwrap().to_owned()), "{added} was reported before");
                }
                let count = event["projectedBlock"]["txCount"].as_u64().unwrap_or_default();
                assert_eq!(usize::try_from(count), Ok(has.len()), "the figures of block {index}: {event}");
            }
            let list = "projectedBlocks { transactions(first: 100) { nodes { txid } } }";
            let answer = data(&self.api, &format!("{{ mempool {{ {list} }} }}")).await;
            let nodes = &answer["mempool"]["projectedBlocks"][*index]["transactions"]["nodes"];
            let nodes = nodes.as_array().into_iter().flatten();
            let expected: BTreeSet<String> = nodes.map(|node| node["txid"].as_str().unwrap().to_owned()).collect();
            assert_eq!(*has, expected, "projectedBlock {index}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn following_the_events_yields_the_projected_block() {
    const STAGES: usize = 6;
    const STEPS: usize = 6;
    let mut runner = TestRunner::deterministic();
    let happening = (any::<u8>(), any::<prop::sample::Index>(), 1_000_u64..90_000);
    let happenings = prop::collection::vec(happening, 0..8);
    let mut stages: Vec<Stage> = (0..STAGES).map(|_| Stage::new()).collect();
    let mut seen = BTreeSet::<Txid>::new();
    for _ in 0..STEPS {
        for stage in &mut stages {
            for happening in happenings.new_tree(&mut runner).unwrap().current() {
                stage.happen(&happening);
            }
            seen.extend(stage.waiting.iter().map(Transaction::compute_txid));
        }
        tokio::time::sleep(PAUSE).await;
        for stage in &mut stages {
            stage.compare().await;
        }
    }
    assert!(seen.len() > 40, "something happened: {}", seen.len());
}
