//! No answer is older than what was announced, also of a server that was restarted: a crash may take a block back that the
//! disk did not have yet, and then it is awaited; for a bounded time, after which it was announced in vain.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::{Amount, BlockHash, OutPoint};
use btcgraph::index::{Index, IndexOptions};
use btcgraph::sim::{Mining, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::api::spend;
use crate::support::bitcoind::wait_for;
use crate::support::indexed::options;
use crate::support::test_process::TestProcess;

const PATIENCE: Duration = Duration::from_mins(1);
const TIP: &str = "{ tip { height hash } }";
/// Looks at the node often, so that a block is announced soon.
const OFTEN: [(&str, &str); 2] = [("BTCGRAPH_NODE__POLL_SECONDS", "1"), ("BTCGRAPH_NODE__PATIENCE_SECONDS", "0")];
/// So small that a block may change more pages than the cache should hold.
const SMALL_MEMORY: (&str, &str) = ("BTCGRAPH_INDEX__MEMORY", "1MiB");
/// The chain that is followed at first, and another.
const SEED: u64 = 17;
const OTHER_SEED: u64 = 18;

/// A node with a chain of so many blocks: the same blocks each time.
fn chain_of(seed: u64, blocks: u32) -> World {
    let mut chain = SimChain::new(seed);
    chain.mine_empty(blocks).unwrap();
    World::new(chain)
}

/// A node, the program on it, and their last tip.
struct Stage {
    node: SimNode,
    directory: TempDir,
}

/// A block that was announced before a crash took it out of the index.
struct Lost {
    height: u32,
    tip: Value,
    /// Of the row that `blocks` has of it.
    row: String,
    /// Of the event that announced it.
    event: String,
}

impl Stage {
    fn with_blocks(blocks: u32) -> Self {
        Self::of(chain_of(SEED, blocks))
    }

    fn of(world: World) -> Self {
        let world = Arc::new(Mutex::new(world));
        let node = SimNode::start(world, SimNodeOptions::default()).unwrap();
        Self { node, directory: tempfile::tempdir().unwrap() }
    }

    fn serve(&self) -> TestProcess {
        self.serve_awaiting("600")
    }

    /// A server that awaits a lost block for so many seconds.
    fn serve_awaiting(&self, seconds: &str) -> TestProcess {
        let url = self.node.url();
        let login = ["--rpc-url", &url, "--rpc-user", "user", "--rpc-password", "password"].map(Into::into);
        let variables = [OFTEN[0], OFTEN[1], SMALL_MEMORY, ("BTCGRAPH_SYNC__LOST_BLOCK_SECONDS", seconds)];
        let log = File::create(self.directory.path().join("log")).unwrap();
        TestProcess::start_logged(&login, self.directory.path(), &variables, log)
    }

    /// The warnings of the server that was started last that contain this text.
    fn warnings(&self, text: &str) -> Vec<Value> {
        self.log_lines("WARN", text)
    }

    fn log_lines(&self, level: &str, text: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["level"] == level && line.to_string().contains(text)).collect()
    }

    fn set_chain(&self, seed: u64, blocks: u32) {
        self.node.with(|world| *world = chain_of(seed, blocks)).unwrap();
    }

    fn tip(&self) -> Value {
        let (height, hash) = self.node.with(|world| (world.chain().height().to_u32(), world.chain().tip())).unwrap();
        tip(height, hash)
    }

    /// The height of the index as the disk has it, while no server runs on it.
    fn height_on_disk(&self) -> u32 {
        height_in(&self.directory.path().join("regtest"))
    }

    /// Has the server announce one block more and kills it before the disk has that.
    fn crash_after_announcing(&self) -> Lost {
        self.crash_after_announcing_on(SEED)
    }

    /// As [`Stage::crash_after_announcing`], on the chain of this seed, which the node has.
    fn crash_after_announcing_on(&self, seed: u64) -> Lost {
        self.crash_after_announcing_block(|height| self.set_chain(seed, height))
    }

    /// As [`Stage::crash_after_announcing`], of a block that is mined at the height that it is given.
    fn crash_after_announcing_block(&self, mut mine: impl FnMut(u32)) -> Lost {
        let mut height = self.node.with(|world| world.chain().height().to_u32()).unwrap();
        // the machine may be so slow that the disk was faster, or the subscription later
        for _ in 0..20 {
            let mut served = self.serve();
            served.wait_for_height(height);
            let events = events(&served, "chainEvents { ... on BlockConnected { cursor block { hash } } }");
            height += 1;
            mine(height);
            let tip = self.tip();
            let deadline = Instant::now() + PATIENCE;
            let mut row = Value::Null;
            while row.is_null() {
                assert!(Instant::now() < deadline, "the block is not announced");
                thread::sleep(Duration::from_millis(1));
                let mut answer = served.query("{ tip { height hash } blocks(first: 1) { edges { cursor } } }");
                if answer["data"]["tip"] == tip {
                    row = answer["data"]["blocks"]["edges"][0]["cursor"].take();
                }
            }
            served.kill();
            let event = events.map(|mut event| event["data"]["chainEvents"].take());
            let mut event = event.filter(|event| event["block"]["hash"] == tip["hash"]);
            if let Some(event) = event.next().filter(|_| self.height_on_disk() < height) {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                return Lost { height, tip, row: text(&row), event: text(&event["cursor"]) };
            }
        }
        panic!("the disk has every block before it is announced");
    }
}

/// The events of a subscription, up to the end of the server.
fn events(served: &TestProcess, field: &str) -> impl Iterator<Item = Value> + use<> {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let request = agent.post(format!("http://{}/graphql", served.address)).header("content-type", "application/json");
    let query = json!({ "query": format!("subscription {{ {field} }}") }).to_string();
    let response = request.header("accept", "text/event-stream").send(query).unwrap();
    let lines = BufReader::new(response.into_body().into_reader()).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok())
}

fn tip(height: u32, hash: BlockHash) -> Value {
    json!({ "height": height, "hash": hash.to_string() })
}

/// The height of the index in this directory as the disk has it.
pub(super) fn height_in(directory: &Path) -> u32 {
    // opened as a copy, or it would be closed cleanly
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("index.redb");
    std::fs::copy(directory.join("index.redb"), &path).unwrap();
    let index = Index::open(&IndexOptions { path, salt: None, ..options(copy.path()) }).unwrap();
    index.snapshot().unwrap().tip().unwrap().height.to_u32()
}

/// Whatever it answers for the next seconds, nothing is of a block but the one that is awaited.
#[track_caller]
fn assert_answers_nothing(served: &TestProcess, lost: &Lost) {
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let answer = served.query(TIP);
        assert_eq!(answer["data"]["tip"], Value::Null, "{answer}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_READY", "{answer}");
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(lost.tip["hash"].as_str().unwrap()), "{message}");
        let state = served.query("{ sync { phase indexedHeight isReady lostBlock { height hash } } }");
        let waits =
            json!({ "phase": "WAITING_FOR_NODE", "indexedHeight": null, "isReady": false, "lostBlock": lost.tip });
        assert_eq!(state, json!({ "data": { "sync": waits } }));
        assert_eq!(is_ready(served), 503);
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_ready(served: &TestProcess) -> u16 {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    agent.get(format!("http://{}/health/ready", served.address)).call().unwrap().status().as_u16()
}

/// The first tip that it answers for.
fn first_tip(served: &TestProcess) -> Value {
    wait_for("an answer", PATIENCE, || Some(served.query(TIP)["data"]["tip"].take()).filter(|tip| !tip.is_null()))
}

fn lost_block(served: &TestProcess) -> Value {
    served.query("{ sync { lostBlock { height hash } } }")["data"]["sync"]["lostBlock"].take()
}

#[test]
fn a_lost_block_is_fetched_before_anything_is_answered() {
    let mut stage = Stage::with_blocks(20);
    let lost = stage.crash_after_announcing();
    stage.node.stop_serving();
    let mut served = stage.serve();
    assert_answers_nothing(&served, &lost);
    // asked to stop, and to begin again, it has forgotten nothing
    assert!(served.stop().success());
    let served = stage.serve();
    assert_answers_nothing(&served, &lost);
    stage.node.answer().unwrap();
    assert_eq!(first_tip(&served), lost.tip);
    assert_eq!(lost_block(&served), Value::Null);
}

#[test]
fn a_node_that_lost_the_block_too_is_waited_for() {
    let stage = Stage::with_blocks(20);
    let Lost { height, tip, .. } = stage.crash_after_announcing();
    stage.set_chain(SEED, height - 3);
    let served = stage.serve();
    let wait_for_height = |height: u32| {
        wait_for("the node to be asked", PATIENCE, || {
            (served.query("{ sync { targetHeight } }")["data"]["sync"]["targetHeight"] == json!(height)).then_some(())
        });
    };
    for blocks in height - 2..height {
        // the node catches up, and is asked at each height
        wait_for_height(blocks - 1);
        stage.set_chain(SEED, blocks);
    }
    wait_for_height(height - 1);
    wait_for("it to be seen that the node is behind", PATIENCE, || {
        (served.query("{ sync { phase } }")["data"]["sync"]["phase"] == json!("WAITING_FOR_NODE")).then_some(())
    });
    assert_eq!(served.query(TIP)["data"]["tip"], Value::Null);
    // several polls, none of which may log
    thread::sleep(Duration::from_secs(3));
    let warnings = stage.warnings("following the node is interrupted");
    assert_eq!(warnings.len(), 1, "the wait is logged once, not at every poll: {warnings:?}");
    stage.set_chain(SEED, height);
    assert_eq!(first_tip(&served), tip);
    assert_eq!(stage.log_lines("INFO", "at the height of the lost block").len(), 1, "the end of the wait is logged");
}

#[test]
fn a_node_that_left_the_block_meanwhile_is_followed() {
    let stage = Stage::with_blocks(20);
    let Lost { height, tip, .. } = stage.crash_after_announcing();
    let announced: BlockHash = serde_json::from_value(stage.tip()["hash"].clone()).unwrap();
    stage.node.with(|world| world.invalidate(&announced)).unwrap().unwrap();
    // the block is invalid, and there is no other
    let mut served = stage.serve();
    assert_eq!(first_tip(&served), stage.tip());
    assert_eq!(stage.tip()["height"], json!(height - 1));
    assert_eq!(lost_block(&served), tip, "it was announced in vain");
    served.kill();
    // there is another
    stage.node.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap();
    let served = stage.serve();
    // the one below is answered for at once
    wait_for("the other block", PATIENCE, || (first_tip(&served) == stage.tip()).then_some(()));
    assert_ne!(stage.tip(), tip);
    assert_eq!(lost_block(&served), Value::Null, "another is in its place");
}

#[test]
fn a_node_that_left_more_than_the_block_is_followed() {
    let stage = Stage::with_blocks(20);
    let Lost { height, tip, .. } = stage.crash_after_announcing();
    let announced: BlockHash = serde_json::from_value(stage.tip()["hash"].clone()).unwrap();
    stage.node.with(|world| world.invalidate(&announced)).unwrap().unwrap();
    let below = stage.node.with(|world| world.chain().tip()).unwrap();
    stage.node.with(|world| world.invalidate(&below)).unwrap().unwrap();
    stage.node.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap();
    let served = stage.serve();
    assert_eq!(first_tip(&served), stage.tip());
    assert_eq!(stage.tip()["height"], json!(height - 1));
    assert_eq!(lost_block(&served), tip);
}

#[test]
fn after_a_crash_without_loss_reads_go_on_without_the_node() {
    let mut stage = Stage::with_blocks(20);
    let mut served = stage.serve();
    served.wait_for_height(20);
    stage.set_chain(SEED, 21);
    served.wait_for_height(21);
    wait_for("the disk to have the block", PATIENCE, || {
        (height_in(&stage.directory.path().join("regtest")) == 21).then_some(())
    });
    served.kill();
    let tip = stage.tip();
    stage.node.stop_serving();
    assert_eq!(stage.serve().query(TIP)["data"]["tip"], tip);
}

#[test]
fn a_node_on_a_lower_chain_is_awaited_for_the_set_time() {
    let stage = Stage::with_blocks(20);
    let lost = stage.crash_after_announcing();
    let Lost { height, ref tip, .. } = lost;
    stage.set_chain(SEED, height - 3);
    let mut served = stage.serve_awaiting("3");
    assert_eq!(first_tip(&served)["height"], json!(height - 1), "what is on the disk");
    assert_eq!(lost_block(&served), *tip);
    let warnings = stage.warnings("announced in vain");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((&warning["height"], &warning["hash"]), (&tip["height"], &tip["hash"]), "{warning}");
    // killed and restarted with a long wait: the server already knows that the block is lost
    served.kill();
    let served = stage.serve();
    assert_eq!(first_tip(&served)["height"], json!(height - 1));
    assert_eq!(lost_block(&served), *tip);
    stage.set_chain(SEED, height);
    wait_for("the block", PATIENCE, || (first_tip(&served) == *tip).then_some(()));
    assert_eq!(lost_block(&served), Value::Null);
}

#[test]
fn a_node_on_another_chain_is_followed_when_the_wait_is_over() {
    let stage = Stage::with_blocks(20);
    let Lost { height, tip, row, event } = stage.crash_after_announcing();
    stage.set_chain(OTHER_SEED, height - 2);
    let served = stage.serve_awaiting("3");
    wait_for("the node's tip", PATIENCE, || (first_tip(&served) == stage.tip()).then_some(()));
    wait_for("it to be ready", PATIENCE, || (is_ready(&served) == 200).then_some(()));
    let answer = served.query("{ snapshot { isInSync isMempoolInSync } sync { isReady lostBlock { height hash } } }");
    let expected = json!({
        "snapshot": { "isInSync": true, "isMempoolInSync": true },
        "sync": { "isReady": true, "lostBlock": tip },
    });
    assert_eq!(answer["data"], expected);

    // requests that refer to the lost block fail with an error
    let code = |answer: &Value| answer["errors"][0]["extensions"]["code"].clone();
    let page = served.query(&format!("{{ blocks(first: 1, after: \"{row}\") {{ edges {{ cursor }} }} }}"));
    assert_eq!(code(&page), "CURSOR_ORPHANED", "{page}");
    let refused = events(&served, &format!("chainEvents(after: \"{event}\") {{ __typename }}")).next().unwrap();
    assert_eq!(code(&refused), "CURSOR_EXPIRED", "{refused}");
    let message = refused["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains(&format!("at height {height}")) && message.contains("crash"), "{message}");
    let waits = json!({ "query": TIP, "extensions": { "waitForTip": { "hash": tip["hash"], "timeoutMs": 100 } } });
    let timed_out = served.post::<Value>(&waits);
    assert_eq!(code(&timed_out), "TIP_NOT_REACHED", "{timed_out}");

    // the other chain goes on: once another block is in its place it is an ordinary one that was left
    stage.set_chain(OTHER_SEED, height);
    wait_for("the height of the lost block", PATIENCE, || (first_tip(&served) == stage.tip()).then_some(()));
    assert_eq!(lost_block(&served), Value::Null);
}

#[test]
fn an_abandoned_block_stays_lost_while_a_lower_one_is_awaited() {
    let mut stage = Stage::with_blocks(40);
    let abandoned = stage.crash_after_announcing();
    // a lower chain of another branch replaces all but its first block
    stage.set_chain(OTHER_SEED, 5);
    let mut served = stage.serve_awaiting("0");
    wait_for("the node's tip", PATIENCE, || (first_tip(&served) == stage.tip()).then_some(()));
    wait_for("the disk to have it", PATIENCE, || {
        (height_in(&stage.directory.path().join("regtest")) == 5).then_some(())
    });
    served.kill();
    let awaited = stage.crash_after_announcing_on(OTHER_SEED);
    assert!(awaited.height < abandoned.height, "the disk was faster than the server, again and again");
    stage.node.stop_serving();
    let served = stage.serve_awaiting("3");
    assert_eq!(lost_block(&served), awaited.tip);
    assert_eq!(first_tip(&served)["height"], json!(awaited.height - 1), "the wait is over");
    assert_eq!(lost_block(&served), awaited.tip);
    for lost in [&awaited, &abandoned] {
        let refused =
            events(&served, &format!("chainEvents(after: \"{}\") {{ __typename }}", lost.event)).next().unwrap();
        assert_eq!(refused["errors"][0]["extensions"]["code"], "CURSOR_EXPIRED", "{refused}");
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(lost.tip["hash"].as_str().unwrap()) && message.contains("crash"), "{message}");
    }
    stage.node.answer().unwrap();
    wait_for("the awaited block", PATIENCE, || (first_tip(&served) == awaited.tip).then_some(()));
    assert_eq!(lost_block(&served), abandoned.tip);
}

#[test]
fn without_a_node_the_index_is_shown_when_the_wait_is_over() {
    let mut stage = Stage::with_blocks(20);
    let Lost { height, tip, .. } = stage.crash_after_announcing();
    stage.node.stop_serving();
    let served = stage.serve_awaiting("3");
    assert_eq!(first_tip(&served)["height"], json!(height - 1));
    let answer = served.query("{ snapshot { isInSync } sync { phase isReady lostBlock { height hash } } }");
    let expected = json!({
        "snapshot": { "isInSync": false },
        "sync": { "phase": "WAITING_FOR_NODE", "isReady": false, "lostBlock": tip },
    });
    assert_eq!(answer["data"], expected);
    // the node had the block all the time
    stage.node.answer().unwrap();
    wait_for("the block", PATIENCE, || (first_tip(&served) == tip).then_some(()));
    assert_eq!(lost_block(&served), Value::Null);
}

#[test]
fn without_a_lost_block_queries_are_answered_at_once() {
    let mut stage = Stage::with_blocks(20);
    let Lost { height, tip, .. } = stage.crash_after_announcing();
    stage.node.stop_serving();
    let served = stage.serve_awaiting("0");
    assert_eq!(served.query(TIP)["data"]["tip"]["height"], json!(height - 1));
    assert_eq!(lost_block(&served), tip);
}

#[test]
fn a_lost_block_that_came_back_is_awaited_when_lost_again() {
    let mut stage = Stage::with_blocks(20);
    let Lost { height, .. } = stage.crash_after_announcing();
    stage.set_chain(SEED, height - 1);
    let mut served = stage.serve_awaiting("0");
    served.wait_for_height(height - 1);
    served.kill();
    let again = stage.crash_after_announcing();
    stage.node.stop_serving();
    assert_answers_nothing(&stage.serve(), &again);
}

#[test]
fn a_block_is_announced_ahead_of_the_disk_however_many_pages_it_changes() {
    let owner = SimChain::miner();
    let mut chain = SimChain::new(SEED);
    let coins: Vec<_> = chain.mine_empty(130).unwrap().iter().map(|block| block.txdata[0].compute_txid()).collect();
    let mut coins = coins.into_iter().map(|txid| OutPoint::new(txid, 0));
    let mut fan_out = |chain: &SimChain| {
        let paid = vec![owner.output(Amount::from_sat(1_000)); 1_000];
        vec![spend(chain, owner, &[coins.next().unwrap()], paid)]
    };
    // rows that take more than half of the cache
    for _ in 0..8 {
        let transactions = fan_out(&chain);
        chain.mine(transactions).unwrap();
    }
    let stage = Stage::of(World::new(chain));
    let lost = stage.crash_after_announcing_block(|_| {
        let mine = |world: &mut World| {
            let transactions = fan_out(world.chain());
            world.mine_exactly(transactions, Mining::default()).unwrap();
        };
        stage.node.with(mine).unwrap();
    });
    assert_eq!(stage.tip(), lost.tip);
}
