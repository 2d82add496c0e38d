//! What clients were told, they are told again by a server that begins anew: a crash may take a block back that the disk
//! did not have yet, but nobody is answered as if it had never been.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use btcgraph::index::{Index, IndexOptions};
use btcgraph::sim::{Mining, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::bitcoind::wait_for;
use crate::support::indexed::options;
use crate::support::served::Served;

const PATIENCE: Duration = Duration::from_mins(1);
const TIP: &str = "{ tip { height hash } }";
/// Looks at the node often, so that a block is told soon.
const OFTEN: [(&str, &str); 2] = [("BTCGRAPH_NODE__POLL_SECONDS", "1"), ("BTCGRAPH_NODE__PATIENCE_SECONDS", "0")];

/// A node with a chain of so many blocks: the same blocks each time.
fn chain_of(blocks: u32) -> World {
    let mut chain = SimChain::new(17);
    chain.mine_empty(blocks).unwrap();
    World::new(chain)
}

/// A node, the program on it, and their last tip.
struct Stage {
    node: SimNode,
    directory: TempDir,
}

impl Stage {
    fn with_blocks(blocks: u32) -> Self {
        let node = SimNode::start(Arc::new(Mutex::new(chain_of(blocks))), SimNodeOptions::default()).unwrap();
        Self { node, directory: tempfile::tempdir().unwrap() }
    }

    fn serve(&self) -> Served {
        let url = self.node.url();
        let login = ["--rpc-url", &url, "--rpc-user", "user", "--rpc-password", "password"].map(Into::into);
        Served::start_on(&login, self.directory.path(), &OFTEN)
    }

    fn set_chain(&self, blocks: u32) {
        self.node.with(|world| *world = chain_of(blocks)).unwrap();
    }

    fn tip(&self) -> Value {
        let (height, hash) = self.node.with(|world| (world.chain().height().to_u32(), world.chain().tip())).unwrap();
        tip(height, hash)
    }

    /// The height of the index as the disk has it, while no server runs on it.
    fn height_on_disk(&self) -> u32 {
        height_in(&self.directory.path().join("regtest"))
    }

    /// Has the server tell of one block more and kills it before the disk has that; the height of that block.
    fn crash_after_telling(&self) -> u32 {
        let mut height = self.node.with(|world| world.chain().height().to_u32()).unwrap();
        // the machine may be so slow that the disk was faster
        for _ in 0..20 {
            let mut served = self.serve();
            served.wait_for_height(height);
            height += 1;
            self.set_chain(height);
            let told = Instant::now() + PATIENCE;
            while served.query(TIP)["data"]["tip"] != self.tip() {
                assert!(Instant::now() < told, "the block is not told");
                thread::sleep(Duration::from_millis(1));
            }
            served.kill();
            if self.height_on_disk() < height {
                return height;
            }
        }
        panic!("the disk has every block before it is told");
    }
}

fn tip(height: u32, hash: BlockHash) -> Value {
    json!({ "height": height, "hash": hash.to_string() })
}

fn height_in(directory: &Path) -> u32 {
    // opened as a copy, or it would be closed cleanly
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("index.redb");
    std::fs::copy(directory.join("index.redb"), &path).unwrap();
    let index = Index::open(&IndexOptions { path, salt: None, ..options(copy.path()) }).unwrap();
    index.snapshot().unwrap().tip().unwrap().height.to_u32()
}

/// Whatever it answers for the next seconds, nothing is of a block.
#[track_caller]
fn assert_answers_nothing(served: &Served) {
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let answer = served.query(TIP);
        assert_eq!(answer["data"]["tip"], Value::Null, "{answer}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_READY", "{answer}");
        let state = served.query("{ sync { phase indexedHeight ready } }");
        let waits = json!({ "phase": "WAITING_FOR_NODE", "indexedHeight": null, "ready": false });
        assert_eq!(state, json!({ "data": { "sync": waits } }));
        assert_eq!(is_ready(served), 503);
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_ready(served: &Served) -> u16 {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    agent.get(format!("http://{}/health/ready", served.address)).call().unwrap().status().as_u16()
}

/// The first tip that it answers for.
fn first_tip(served: &Served) -> Value {
    wait_for("an answer", PATIENCE, || Some(served.query(TIP)["data"]["tip"].take()).filter(|tip| !tip.is_null()))
}

#[test]
fn a_block_that_was_told_and_lost_is_fetched_before_anything_is_answered() {
    let mut stage = Stage::with_blocks(20);
    let height = stage.crash_after_telling();
    stage.node.stop_answering();
    let mut served = stage.serve();
    assert_answers_nothing(&served);
    // asked to stop, and to begin again, it has forgotten nothing
    assert!(served.stop().success());
    let served = stage.serve();
    assert_answers_nothing(&served);
    stage.node.answer().unwrap();
    assert_eq!(first_tip(&served), stage.tip());
    assert_eq!(stage.tip()["height"], json!(height));
}

#[test]
fn a_node_that_lost_the_block_too_is_waited_for() {
    let stage = Stage::with_blocks(20);
    let height = stage.crash_after_telling();
    let told = stage.tip();
    stage.set_chain(height - 1);
    let served = stage.serve();
    wait_for("the node to be asked", PATIENCE, || {
        (served.query("{ sync { targetHeight } }")["data"]["sync"]["targetHeight"] == json!(height - 1)).then_some(())
    });
    wait_for("it to be seen that the node is behind", PATIENCE, || {
        (served.query("{ sync { phase } }")["data"]["sync"]["phase"] == json!("WAITING_FOR_NODE")).then_some(())
    });
    assert_eq!(served.query(TIP)["data"]["tip"], Value::Null);
    stage.set_chain(height);
    assert_eq!(first_tip(&served), told);
}

#[test]
fn a_node_that_left_the_block_meanwhile_is_followed() {
    let stage = Stage::with_blocks(20);
    let height = stage.crash_after_telling();
    let told: BlockHash = serde_json::from_value(stage.tip()["hash"].clone()).unwrap();
    stage.node.with(|world| world.invalidate(&told)).unwrap().unwrap();
    // the block is invalid, and there is no other
    let mut served = stage.serve();
    assert_eq!(first_tip(&served), stage.tip());
    assert_eq!(stage.tip()["height"], json!(height - 1));
    served.kill();
    // there is another
    stage.node.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap();
    let served = stage.serve();
    assert_eq!(first_tip(&served), stage.tip());
    assert_ne!(stage.tip()["hash"], json!(told.to_string()));
}

#[test]
fn a_node_that_left_more_than_the_block_is_followed_also_while_it_is_lower() {
    let stage = Stage::with_blocks(20);
    let height = stage.crash_after_telling();
    let told: BlockHash = serde_json::from_value(stage.tip()["hash"].clone()).unwrap();
    stage.node.with(|world| world.invalidate(&told)).unwrap().unwrap();
    let below = stage.node.with(|world| world.chain().tip()).unwrap();
    stage.node.with(|world| world.invalidate(&below)).unwrap().unwrap();
    stage.node.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap();
    let served = stage.serve();
    assert_eq!(first_tip(&served), stage.tip());
    assert_eq!(stage.tip()["height"], json!(height - 1));
}

#[test]
fn after_a_crash_that_took_nothing_back_reads_go_on_without_the_node() {
    let mut stage = Stage::with_blocks(20);
    let mut served = stage.serve();
    served.wait_for_height(20);
    stage.set_chain(21);
    served.wait_for_height(21);
    wait_for("the disk to have the block", PATIENCE, || {
        (height_in(&stage.directory.path().join("regtest")) == 21).then_some(())
    });
    served.kill();
    let told = stage.tip();
    stage.node.stop_answering();
    assert_eq!(stage.serve().query(TIP)["data"]["tip"], told);
}
