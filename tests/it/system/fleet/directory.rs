//! The program on a directory as its store.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use bitcoin::Transaction;
use btcgraph::fleet::JoinedNote;
use btcgraph::sim::{Hostile, Mining, Payment, SimChain, Spendable, World};
use serde_json::json;

use super::stage::{Stage, run, salted};
use crate::support::bitcoind::wait_for;
use crate::support::program::btcgraph;
use crate::support::test_process::TestProcess;
use crate::sync::freezing::hostile_chain;

#[test]
fn a_joined_index_has_the_rows_of_the_publisher() {
    let stage = Stage::start(60);
    let published = stage.publish();
    published.assert_success();
    let height = stage.height() - 5;
    assert_eq!(published.logged("published", "height"), json!(height));
    // two generations with their checksums
    assert_eq!(published.logged("published", "uploaded_objects"), json!(4));
    let manifests = stage.objects("manifests");
    assert_eq!(manifests.len(), 1);
    assert_eq!(manifests[0].0.file_name().unwrap().to_str(), Some(published.printed.trim_end()));

    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(joined.logged("joined: the index has the published blocks", "height"), json!(height.to_string()));
    let tip = joined.logged("the index is at the node's tip", "height");
    assert_eq!(tip, json!(stage.height().to_string()));
    assert!(JoinedNote::read(&directory.path().join("regtest/index.redb")).unwrap().txids_match, "{}", joined.stderr);
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    assert!(!directory.path().join("regtest/index.joining").exists());
}

#[test]
fn publishing_again_uploads_nothing_but_what_is_new() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let before = (stage.objects("objects"), stage.objects("manifests"));
    let again = stage.publish();
    again.assert_success();
    assert_eq!(again.logged("published", "uploaded_objects"), json!(0));
    assert_eq!(again.logged("published", "is_new"), json!(false));
    assert_eq!((stage.objects("objects"), stage.objects("manifests")), before);

    // what is known of a file that a merge replaced, and another file
    let publishing = stage.publisher.path().join("regtest/index.publishing");
    let replaced = ["0-9-ab-00000000.redb.json", "0-9-ab-00000000.redb.sums"].map(|name| publishing.join(name));
    for path in replaced.iter().chain([&publishing.join("note.json")]) {
        fs::write(path, "").unwrap();
    }
    let known = || fs::read_dir(&publishing).unwrap().count();
    let before = known();
    stage.mine(15);
    stage.import(&[]).assert_success();
    let more = stage.publish();
    assert_eq!(more.logged("published", "uploaded_objects"), json!(2), "{}", more.stderr);
    // of the new generation two files, too
    assert!(!replaced.iter().any(|path| path.exists()) && known() == before);
    assert_eq!(stage.objects("manifests").len(), 2);
    // and what a joiner has is what the publisher had
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    let published = run(stage.program(directory.path(), &["publish", "--to", &stage.url()]));
    assert_eq!(published.logged("published", "uploaded_objects"), json!(0), "{}", published.stderr);
    // its own manifest, for it is another publisher
    assert_eq!(stage.objects("manifests").len(), 3);
}

#[test]
fn publishing_again_and_again_ends_once_the_index_is_refused() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    let command = ["publish", "--to", &stage.url(), "--every", "1s"];
    let mut program = stage.program(directory.path(), &command);
    let mut publishing = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // that of another publisher
    wait_for("a manifest", Duration::from_secs(30), || (stage.objects("manifests").len() == 2).then_some(()));
    assert_eq!(publishing.try_wait().unwrap(), None);
    let index = directory.path().join("regtest/index.redb");
    JoinedNote::read(&index).unwrap().refuse(&index, "block 7 is not of the chain".to_owned()).unwrap();
    let ended = wait_for("publishing to end", Duration::from_secs(30), || publishing.try_wait().unwrap());
    assert_eq!(ended.code(), Some(4));
}

#[test]
fn a_running_server_is_published_and_joined_by_another() {
    let stage = Stage::start(40);
    let variables = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"), ("BTCGRAPH_NODE__POLL_SECONDS", "1")];
    let mut served = TestProcess::start_on(&stage.login(), stage.publisher.path(), &salted(&stage, &variables));
    served.wait_for_height(stage.height());
    stage.publish().assert_success();
    // a server that is published goes on
    stage.mine(1);
    served.wait_for_height(stage.height());

    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let mut program =
            stage.program(directory.path(), &["serve", "--from", &stage.url(), "--listen", "127.0.0.1:0"]);
        program.arg("--port-file").arg(directory.path().join("port"));
        let _ = fs::remove_file(directory.path().join("port"));
        let log = fs::File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
        program.stderr(log).spawn().unwrap()
    };
    let tip = || {
        let port = fs::read_to_string(directory.path().join("port")).ok()?;
        let answer = ureq::post(format!("http://127.0.0.1:{port}/graphql"))
            .header("content-type", "application/json")
            .send(json!({ "query": "{ tip { height } }" }).to_string())
            .ok()?;
        let answer: serde_json::Value = serde_json::from_str(&answer.into_body().read_to_string().ok()?).ok()?;
        (answer["data"]["tip"]["height"] == json!(stage.height())).then_some(())
    };
    for _ in 0..2 {
        // the second time there is an index already
        let mut replica = start();
        wait_for("the replica to follow", Duration::from_mins(1), tip);
        let index = directory.path().join("regtest/index.redb");
        wait_for("the txids to be compared", Duration::from_mins(1), || {
            JoinedNote::read(&index).filter(|note| note.txids_match)
        });
        replica.kill().unwrap();
        replica.wait().unwrap();
        stage.mine(1);
    }
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(log.contains("the index has blocks already, so --from has no effect"), "{log}");
    assert!(served.stop().success());
}

#[test]
fn joining_without_a_node_ends_with_the_published_blocks() {
    let stage = Stage::start(40);
    stage.publish().assert_success();
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["import", "--from", &stage.url(), "--without-node", "--rpc-url", "http://127.0.0.1:9"];
    let mut program = btcgraph(directory.path(), &arguments);
    program.env_remove("BTCGRAPH_INDEX__SALT");
    run(program).assert_success();
    let tip = stage.open(directory.path()).snapshot().unwrap().tip().unwrap();
    assert_eq!(tip.height.to_u32(), stage.height() - 5);
    // the node is followed from there
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn an_output_that_is_unspent_again_is_spent_after_joining() {
    let mut chain = SimChain::new(72);
    chain.mine_empty(120).unwrap();
    let stage = Stage::of_chain(chain);
    let mine = |transactions: Vec<Transaction>| {
        stage.node.with(|world| world.mine_exactly(transactions, Mining::default())).unwrap().unwrap();
    };
    let pay = |tx: &Transaction| {
        let coin = Spendable::of(tx, 0, SimChain::miner()).unwrap();
        Payment::of([coin]).change(SimChain::miner(), 2).sign().unwrap()
    };
    // an output that is created and spent in the second generation
    let coinbase = stage.node.with(|world| world.chain().active_blocks().nth(1).unwrap().txdata[0].clone()).unwrap();
    let created = pay(&coinbase);
    let spent = pay(&created);
    mine(vec![created]);
    stage.mine(9);
    mine(vec![spent.clone()]);
    stage.mine(9);
    stage.import(&[]).assert_success();
    let published = stage.publish();
    assert_eq!(published.logged("published", "height"), json!(135), "{}", published.stderr);
    // the block that spends it leaves the chain, and the generation cannot be built again
    let empty = |world: &mut World| world.reorg(12, 13, Vec::new(), &Mining::default());
    stage.node.with(empty).unwrap().unwrap();
    let merging = stage.publisher.path().join("regtest/index.merging");
    fs::create_dir_all(merging.join("something")).unwrap();
    stage.import(&[]).assert_success();
    let published = stage.publish();
    assert_eq!(published.logged("published", "height"), json!(115), "{}", published.stderr);
    let message = "publishing up to this height: a reorganisation shortened the generation above it, which `serve` and \
                   `import` build again";
    assert_eq!(published.logged(message, "frozen"), json!(128));
    let (joined, below) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(stage.rows(below.path()), stage.rows(stage.publisher.path()));

    fs::remove_dir_all(&merging).unwrap();
    stage.import(&[]).assert_success();
    let published = stage.publish();
    assert_eq!(published.logged("published", "height"), json!(128), "{}", published.stderr);
    let (joined, whole) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(joined.logged("joined: the index has the published blocks", "height"), json!("128"));
    assert_eq!(stage.rows(whole.path()), stage.rows(stage.publisher.path()));
    // another block spends it
    mine(vec![spent]);
    stage.import(&[]).assert_success();
    for directory in [&below, &whole] {
        run(stage.program(directory.path(), &["import"])).assert_success();
        assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    }
}

#[test]
fn hostile_blocks_are_joined_and_followed_after_a_reorganisation() {
    let (chain, mut hostile) = hostile_chain(73, 130);
    let stage = Stage::of_chain(chain);
    let mut change = |change: &dyn Fn(&mut SimChain, &mut Hostile)| {
        stage.node.with(|world| world.change_chain(|chain| change(chain, &mut hostile))).unwrap();
        stage.import(&[]).assert_success();
    };
    let mine = |chain: &mut SimChain, hostile: &mut Hostile| {
        for _ in 0..20 {
            hostile.mine(chain).unwrap();
        }
    };
    change(&mine);
    // into the second generation, and on
    change(&|chain, hostile| drop(hostile.branch(chain, 13, 14).unwrap()));
    stage.publish().assert_success();
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    for _ in 0..2 {
        change(&mine);
        run(stage.program(directory.path(), &["import"])).assert_success();
        assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    }
}
