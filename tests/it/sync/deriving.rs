//! Optional tables while a node is followed: built after imports and freezes, through reorganisations, switches, restarts
//! and kills.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash;
use bitcoin::{Block, Wtxid};
use btcgraph::chain::Height;
use btcgraph::chain::pools::PoolId;
use btcgraph::index::{Index, IndexOptions, OptionalTables};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Hostile, Rng, SimChain};
use btcgraph::sync::{FreezeBounds, read_frozen_blocks};
use serde_json::{Value, json};

use crate::index::miners::pools;
use crate::index::wtxids::{OFF, ON, is_answered};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::indexed::options;
use crate::support::program::{btcgraph_on, run};
use crate::support::test_process::TestProcess;
use crate::sync::freezing::{FrozenFollower, hostile_chain};

/// The names of the files in the directory of generations: those of generations, and those of tables.
fn frozen_files(index: &Path) -> (Vec<String>, Vec<String>) {
    let entries = fs::read_dir(index.with_extension("frozen")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.partition(|name| !name.contains(".wtxids-"))
}

#[test]
fn tables_are_built_after_imports_and_freezes_and_through_reorganisations() {
    let (chain, mut hostile) = hostile_chain(81, 150);
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth: 5, every: 20, transactions: u64::MAX });
    followed.indexed.index.switch_tables(ON).unwrap();
    let knows_miners = RefCell::new(false);
    let assert_complete = |followed: &mut FrozenFollower, tables: OptionalTables| {
        followed.catch_up();
        let snapshot = followed.indexed.index.snapshot().unwrap();
        let unknown = snapshot.find_wtxid(&Wtxid::all_zeros()).map(|found| found.map(|found| found.txnum));
        let due = followed.indexed.index.due_table().unwrap().map(|due| due.range());
        assert_eq!(is_answered(&snapshot, &followed.blocks()), tables == ON, "{unknown:?}, due: {due:?}");
        followed.indexed.verified();
        let (generations, files) = frozen_files(&options(followed.indexed.directory.path()).path);
        assert_eq!(files.len(), if tables == ON { generations.len() } else { 0 }, "{generations:?} {files:?}");
        assert!(!followed.indexed.index.has_shadowed_rows().unwrap());
        assert!(!followed.indexed.index.lacks_miners().unwrap());
        let all = Height::GENESIS..snapshot.tip().unwrap().height.next();
        let miners = [None, Some(PoolId(0))].map(|miner| snapshot.miner_totals_within(miner, &all).unwrap().blocks);
        let has_tag = |block: &&Arc<Block>| has_tag(block, b"/hostile/");
        let tagged = u32::try_from(followed.blocks().iter().filter(has_tag).count()).unwrap();
        let expected = if *knows_miners.borrow() { tagged } else { 0 };
        assert_eq!(miners, [all.end.to_u32() - expected, expected]);
    };
    // in bulk
    assert_complete(&mut followed, ON);
    let mut change = |followed: &FrozenFollower, depth, length| {
        followed.sim.with(|world| world.change_chain(|chain| hostile.branch(chain, depth, length))).unwrap().unwrap();
    };
    // into a second generation
    change(&followed, 2, 30);
    assert_complete(&mut followed, ON);
    let mut changes = 0;
    for (depth, tables) in [(9, ON), (60, OFF), (8, OFF), (3, ON), (170, ON), (4, OFF), (4, ON)] {
        followed.restart();
        followed.indexed.index.switch_tables(tables).unwrap();
        // the table of pools changes with every other start
        let knows = knows_miners.replace(matches!(depth, 9 | 3 | 170));
        let tags = if *knows_miners.borrow() { ["/hostile/", "/none/"] } else { ["/nothing/", "/none/"] };
        followed.indexed.index.set_pools(pools(tags));
        changes += u32::from(knows != *knows_miners.borrow());
        change(&followed, depth, depth + 2);
        assert_complete(&mut followed, tables);
    }
    assert!(changes > 2, "{changes}");
}

fn has_tag(block: &Block, tag: &[u8]) -> bool {
    block.txdata[0].input[0].script_sig.as_bytes().windows(tag.len()).any(|window| window == tag)
}

#[test]
fn a_server_builds_a_table_while_it_answers_and_removes_it_when_it_is_off() {
    let Some(real) = RealNode::start(&[]) else { return };
    real.mine(60);
    let directory = tempfile::tempdir().unwrap();
    let index = directory.path().join("regtest/index.redb");
    let start = |wtxids: &str| {
        let variables = [
            ("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"),
            ("BTCGRAPH_INDEX__FREEZE_EVERY", "10"),
            ("BTCGRAPH_INDEX__WTXIDS", wtxids),
        ];
        TestProcess::start_with(&real, directory.path(), &variables)
    };
    let mut served = start("false");
    served.wait_for_height(60);
    let finds_wtxids = |served: &TestProcess| {
        let answer = served.query("{ server { features { name enabled } } }");
        let features = answer["data"]["server"]["features"].as_array().unwrap();
        features.iter().find(|feature| feature["name"] == "WTXIDS").unwrap()["enabled"].as_bool().unwrap()
    };
    let wtxid_at = |served: &TestProcess, index: u32| -> String {
        let found = served.query(&format!("{{ transactionByIndex(index: {index}) {{ wtxid }} }}"));
        found["data"]["transactionByIndex"]["wtxid"].as_str().unwrap().to_owned()
    };
    let wtxids = [3, 30, 60].map(|index| wtxid_at(&served, index));
    let find =
        |served: &TestProcess, wtxid: &str| served.query(&format!("{{ transaction(wtxid: \"{wtxid}\") {{ wtxid }} }}"));
    let code = |answer: &Value| answer["errors"][0]["extensions"]["code"].clone();
    assert_eq!((finds_wtxids(&served), code(&find(&served, &wtxids[0]))), (false, json!("FEATURE_DISABLED")));
    assert!(served.stop().success());
    let assert_found = |served: &TestProcess, wtxids: &[String]| {
        for wtxid in wtxids {
            let found = wait_for("the table", Duration::from_mins(1), || {
                let answer = find(served, wtxid);
                let is_ready = answer.get("errors").is_none();
                // a server answers before it reaches its node, which has the bytes of frozen blocks
                assert!(is_ready || code(&answer) == "NOT_READY" || code(&answer) == "NODE_UNAVAILABLE", "{answer}");
                is_ready.then_some(answer)
            });
            assert_eq!(found, json!({ "data": { "transaction": { "wtxid": wtxid } } }));
        }
    };
    for _ in 0..2 {
        let mut served = start("true");
        assert!(finds_wtxids(&served));
        assert_found(&served, &wtxids);
        real.mine(30);
        let height = real.must("getblockcount", &[]).as_u64().unwrap();
        served.wait_for_height(u32::try_from(height).unwrap());
        // lookups go on while the blocks are frozen
        let newest = wtxid_at(&served, u32::try_from(height).unwrap());
        for _ in 0..20 {
            let answer = find(&served, &newest);
            assert_eq!(answer, json!({ "data": { "transaction": { "wtxid": newest } } }));
            thread::sleep(Duration::from_millis(20));
        }
        assert!(served.stop().success());
        let mut served = start("true");
        assert_found(&served, &wtxids);
        assert!(served.stop().success());
        let mut served = start("false");
        assert_eq!(code(&find(&served, &wtxids[0])), json!("FEATURE_DISABLED"));
        wait_for("the files", Duration::from_mins(1), || frozen_files(&index).1.is_empty().then_some(()));
        assert!(served.stop().success());
        let (code, printed) = run(&mut btcgraph_on(&real, directory.path(), &["verify"]));
        assert_eq!(code, Some(0), "{printed}");
    }
}

/// Kills the program at random moments while it imports, freezes, builds and names tables, and drops them, while the chain
/// grows and reorganises.
#[test]
fn a_program_that_is_killed_while_it_builds_tables_loses_nothing() {
    let Some(real) = RealNode::start(&[]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(82), Hostile::new(82));
    let submit = |blocks: &[Arc<Block>]| {
        for block in blocks {
            real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
        }
    };
    let first: Vec<_> = (0..140).map(|_| hostile.mine(&mut chain).unwrap()).collect();
    submit(&first);
    let directory = tempfile::tempdir().unwrap();
    let import = |wtxids: bool| {
        let mut program = btcgraph_on(&real, directory.path(), &["import"]);
        program.env("BTCGRAPH_INDEX__FREEZE_DEPTH", "3").env("BTCGRAPH_INDEX__FREEZE_EVERY", "4");
        program.env("BTCGRAPH_INDEX__WTXIDS", wtxids.to_string());
        program
    };
    let (mut rng, mut kills, mut latest) = (Rng::new(83), 0, 250);
    while kills < 30 {
        let mut running = import(kills % 7 != 6).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(rng.between(1, latest)));
        let is_running = running.try_wait().unwrap().is_none();
        let _ = running.kill();
        running.wait().unwrap();
        if !is_running {
            // it ended before: the next are killed earlier, and have something to do
            latest = (latest * 3 / 4).max(2);
            submit(&[hostile.mine(&mut chain).unwrap(), hostile.mine(&mut chain).unwrap()]);
            continue;
        }
        kills += 1;
        match kills % 3 {
            0 => submit(&[hostile.mine(&mut chain).unwrap(), hostile.mine(&mut chain).unwrap()]),
            1 if kills > 10 => submit(&hostile.branch(&mut chain, 5, 7).unwrap()),
            _ => {}
        }
    }
    let (code, printed) = run(&mut import(true));
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = run(&mut btcgraph_on(&real, directory.path(), &["verify"]));
    assert_eq!(code, Some(0), "{printed}");

    let path = directory.path().join("regtest/index.redb");
    let index = Index::open(&IndexOptions { path: path.clone(), salt: None, ..options(directory.path()) }).unwrap();
    let node = NodeOptions::new(bitcoin::Network::Regtest, real.rpc_url(), Auth::Cookie(real.cookie_path()));
    read_frozen_blocks(&index, &Node::connect(node).unwrap(), Some(real.blocks_dir())).unwrap();
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    assert!(is_answered(&index.snapshot().unwrap(), &blocks));
    // one file for each generation, and nothing else
    let (generations, files) = frozen_files(&path);
    assert_eq!(generations.len(), files.len(), "{generations:?} {files:?}");
    let deriving = path.with_extension("deriving");
    assert!(!deriving.exists() || fs::read_dir(deriving).unwrap().count() == 0);
}
