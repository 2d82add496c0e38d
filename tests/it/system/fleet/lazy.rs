//! Joining before the download is complete: within this process on a directory, and the program on a slow bucket.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_graphql::{Executor, Request};
use bitcoin::hashes::{Hash, sha256};
use btcgraph::api::{self, Features, Schema};
use btcgraph::chain::address_of;
use btcgraph::fleet::{FleetError, FleetStore, JoinOptions, LazyJoin};
use btcgraph::index::{Index, IndexError, IndexOptions, Patience};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::{Hostile, SimChain};
use btcgraph::sync::read_frozen_blocks;
use btcgraph::view::{Head, Published};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::s3::{FlakyProxy, S3Server};
use super::stage::{Ended, Stage, run, runtime};
use crate::node::sim_node::client;
use crate::support::bitcoind::wait_for;
use crate::support::indexed::options;

/// The newest blocks with their transactions: some hundred reads of most tables.
const BLOCKS: &str = "{ blocks(first: 20) { nodes { hash height transactions(first: 5) { nodes { txid fee
    inputs { nodes { prevout { value address } } } outputs { nodes { value address spendStatus } } } } } } }";
/// The explorer's queries of addresses, as it sends them.
const LEDGER_PAGES: &str = include_str!("../../../../playground/src/explorer/pages/ledger.generated.ts");

/// A chain whose one generation has some MiB, of which the newest blocks have transactions of all kinds.
fn stage() -> Stage {
    let (mut chain, mut hostile) = (SimChain::new(9), Hostile::new(9));
    chain.mine_empty(6_000).unwrap();
    for _ in 0..60 {
        hostile.mine(&mut chain).unwrap();
    }
    Stage::of_chain(chain)
}

/// Publishes to a bucket of this server.
fn publish_to(server: &S3Server, stage: &Stage) {
    let mut publish = stage.program(stage.publisher.path(), &["publish", "--to", "s3://private/chain"]);
    publish.envs(S3Server::variables(&server.endpoint()));
    run(publish).assert_success();
}

/// An index of which files are missing, within this process: nothing is downloaded but what is read.
struct LazyIndex {
    runtime: tokio::runtime::Runtime,
    lazy: Option<LazyJoin>,
    schema: Schema,
    index: Index,
    directory: TempDir,
}

impl LazyIndex {
    fn begin(stage: &Stage) -> Result<Self, FleetError> {
        let (runtime, directory) = (runtime(), tempfile::tempdir().unwrap());
        let store = FleetStore::open(&stage.url(), [], false).unwrap();
        let index = index_options(directory.path());
        let options = JoinOptions { index: index.clone(), on_chain: None, stop: CancellationToken::new() };
        let (lazy, joined) = runtime.block_on(LazyJoin::begin(&store, &options))?;
        let index = Index::open_partial(&index, &lazy.partial_files())?;
        assert!(index.is_partial());
        let schema = schema_of(&index, stage)?;
        assert_eq!(joined.tip, index.snapshot()?.tip().unwrap());
        Ok(Self { runtime, lazy: Some(lazy), schema, index, directory })
    }

    fn answer(&self, query: &str, variables: Value) -> Value {
        answer(&self.runtime, &self.schema, query, variables)
    }

    fn requests(&self) -> u64 {
        self.lazy.as_ref().map_or(0, LazyJoin::requests)
    }

    /// Downloads the rest, and closes the index.
    fn complete(mut self) -> TempDir {
        let lazy = self.lazy.take().unwrap();
        self.runtime.block_on(lazy.complete_beside_readers(&CancellationToken::new())).unwrap();
        assert!(!self.index.is_partial());
        self.directory
    }
}

fn index_options(directory: &Path) -> IndexOptions {
    IndexOptions { salt: None, ..options(&directory.join("regtest")) }
}

fn schema_of(index: &Index, stage: &Stage) -> Result<Schema, IndexError> {
    read_frozen_blocks(index, &client(&stage.node), None).unwrap();
    let head = Head::after(None, Arc::new(index.snapshot()?), MempoolSnapshot::default());
    let published = Published::default();
    published.publish(Arc::new(head.unwrap()));
    Ok(api::schema(published, Live::default(), Limits::default(), Features::default()))
}

fn answer(runtime: &tokio::runtime::Runtime, schema: &Schema, query: &str, variables: Value) -> Value {
    let request = Request::new(query).variables(async_graphql::Variables::from_json(variables));
    serde_json::to_value(runtime.block_on(schema.execute(request))).unwrap()
}

/// The codes of the errors of an answer.
fn codes(answer: &Value) -> Vec<&str> {
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["extensions"]["code"].as_str()).collect()
}

/// What the publisher answers for its frozen blocks.
struct Expected {
    runtime: tokio::runtime::Runtime,
    schema: Schema,
    _directory: TempDir,
}

impl Expected {
    fn of(stage: &Stage) -> Self {
        let directory = tempfile::tempdir().unwrap();
        stage.join_in(directory.path(), &["--without-node"]).assert_success();
        let index = stage.open(directory.path());
        Self { runtime: runtime(), schema: schema_of(&index, stage).unwrap(), _directory: directory }
    }

    fn answer(&self, query: &str, variables: Value) -> Value {
        let answer = answer(&self.runtime, &self.schema, query, variables);
        assert_eq!(codes(&answer), [""; 0], "{answer}");
        answer
    }
}

#[test]
fn an_index_of_which_files_are_missing_answers_as_one_that_has_them() {
    let stage = stage();
    stage.publish().assert_success();
    let expected = Expected::of(&stage);
    let lazy = LazyIndex::begin(&stage).unwrap();
    assert_eq!(lazy.answer(BLOCKS, json!({})), expected.answer(BLOCKS, json!({})));
    let requests = lazy.requests();
    assert_eq!(lazy.answer(BLOCKS, json!({})), expected.answer(BLOCKS, json!({})));
    assert_eq!(lazy.requests(), requests);
    // what is published and backed up is read as a whole
    assert!(matches!(lazy.index.snapshot().unwrap().frozen_files(), Err(IndexError::Downloading)));

    let directory = lazy.complete();
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
    assert!(!directory.path().join("regtest/index.joining").exists());
}

#[test]
fn a_page_of_an_address_takes_few_requests_at_first_and_none_later() {
    let stage = stage();
    stage.publish().assert_success();
    let addresses = stage.node.with(|world| {
        let newest = world.chain().active_blocks().skip(6_020).take(30);
        let scripts = newest.flat_map(|block| block.txdata.iter()).flat_map(|transaction| &transaction.output);
        scripts.filter_map(|output| address_of(&output.script_pubkey, bitcoin::Network::Regtest)).collect::<Vec<_>>()
    });
    let page = LEDGER_PAGES.split("export const AddressPageDocument").nth(1).unwrap().split('`').nth(1).unwrap();
    let variables =
        json!({ "address": addresses.unwrap()[0], "first": 25, "group": "DAY", "range": { "lastBlocks": 52_560 } });
    let lazy = LazyIndex::begin(&stage).unwrap();
    let opening = lazy.requests();
    let first = lazy.answer(page, variables.clone());
    assert_eq!(codes(&first), [""; 0], "{first}");
    let cold = lazy.requests() - opening;
    let bytes = stage.largest_object().metadata().unwrap().len();
    assert!(opening <= 20 && cold > 0 && cold <= 30, "{opening} {cold} of {bytes} bytes");
    assert_eq!(lazy.answer(page, variables.clone()), first);
    assert_eq!(lazy.requests() - opening, cold);
    // the rest names the process
    assert_eq!(Expected::of(&stage).answer(page, variables)["data"]["address"], first["data"]["address"]);
}

#[test]
fn what_cannot_be_fetched_is_an_error_until_the_store_is_back() {
    let stage = stage();
    stage.publish().assert_success();
    let lazy = LazyIndex::begin(&stage).unwrap();
    let (objects, away) = (stage.store.path().join("objects"), stage.store.path().join("away"));
    fs::rename(&objects, &away).unwrap();
    for _ in 0..3 {
        let failed = lazy.answer(BLOCKS, json!({}));
        assert!(codes(&failed).contains(&"NOT_READY"), "{failed}");
        assert!(codes(&failed).iter().all(|code| *code == "NOT_READY"), "{failed}");
        assert!(!failed.to_string().contains("objects/"), "{failed}");
    }
    fs::rename(&away, &objects).unwrap();
    assert_eq!(lazy.answer(BLOCKS, json!({})), Expected::of(&stage).answer(BLOCKS, json!({})));
}

#[test]
fn a_reader_with_endless_patience_waits_until_the_store_is_back() {
    let stage = stage();
    stage.publish().assert_success();
    let lazy = LazyIndex::begin(&stage).unwrap();
    let (objects, away) = (stage.store.path().join("objects"), stage.store.path().join("away"));
    let windows = stage.largest_object().metadata().unwrap().len().div_ceil(256 << 10);
    fs::rename(&objects, &away).unwrap();
    let before = lazy.requests();
    let answer = thread::scope(|scope| {
        let waiting = scope.spawn(|| Patience::ENDLESS.scope(|| lazy.answer(BLOCKS, json!({}))));
        // until it has asked again for what failed
        wait_for("requests that fail", Duration::from_mins(1), || {
            (waiting.is_finished() || lazy.requests() > before + windows).then_some(())
        });
        fs::rename(&away, &objects).unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(answer, Expected::of(&stage).answer(BLOCKS, json!({})));
}

#[test]
fn a_block_that_changes_on_the_disk_meanwhile_is_requested_again() {
    let stage = stage();
    stage.publish().assert_success();
    let lazy = LazyIndex::begin(&stage).unwrap();
    let joining = lazy.directory.path().join("regtest/index.joining");
    let parts = fs::read_dir(joining).unwrap().map(|file| file.unwrap().path());
    let part = parts.into_iter().find(|path| path.extension().is_some_and(|end| end == "part")).unwrap();
    // the first block of a file is read when it is opened
    let mut content = fs::read(&part).unwrap();
    content[5_000] ^= 1;
    fs::write(&part, content).unwrap();
    let directory = lazy.complete();
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

/// Changes a byte in the middle of the largest object, and publishes its checksums then with a manifest that names them.
fn misname(stage: &Stage) {
    let path = stage.largest_object();
    let mut object = fs::read(&path).unwrap();
    let middle = object.len() / 2;
    object[middle] ^= 1;
    let sums: Vec<u8> = object.chunks(64 << 10).flat_map(|block| sha256::Hash::hash(block).to_byte_array()).collect();
    fs::write(&path, &object).unwrap();
    let of_sums = sha256::Hash::hash(&sums).to_string();
    fs::write(stage.store.path().join("objects").join(&of_sums), &sums).unwrap();
    let manifests = fs::read_dir(stage.store.path().join("manifests")).unwrap();
    let manifest = manifests.map(|file| file.unwrap().path()).find(|path| path.extension().is_some()).unwrap();
    let mut content: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let generations = content["generations"].as_array_mut().unwrap();
    let generation = generations.iter_mut().find(|generation| generation["object"] == name).unwrap();
    generation["checksums"] = json!(of_sums);
    let content = content.to_string();
    let (begin, _) = manifest.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap();
    let renamed = manifest.with_file_name(format!("{begin}-{}.json", sha256::Hash::hash(content.as_bytes())));
    fs::remove_file(&manifest).unwrap();
    fs::write(renamed, content).unwrap();
}

#[test]
fn an_object_that_is_not_the_one_of_its_name_ends_the_server() {
    let stage = stage();
    stage.publish().assert_success();
    misname(&stage);
    let directory = tempfile::tempdir().unwrap();
    let serve = ["serve", "--from", &stage.url(), "--lazy", "--listen", "127.0.0.1:0"];
    let served = run(stage.program(directory.path(), &serve));
    let assert_refused = |served: &Ended| {
        assert_eq!(served.code, Some(4), "{}", served.stderr);
        assert!(served.stderr.contains("another content than its name says"), "{}", served.stderr);
    };
    assert_refused(&served);
    // it listened before, and does not again
    served.logged("serving", "url");
    let again = run(stage.program(directory.path(), &serve));
    assert_refused(&again);
    assert!(!again.stderr.contains("\"serving\""), "{}", again.stderr);
}

#[test]
fn a_changed_block_is_refused_and_no_answer_is_wrong() {
    let stage = stage();
    stage.publish().assert_success();
    let expected = Expected::of(&stage).answer(BLOCKS, json!({}));
    let path = stage.largest_object();
    let object = fs::read(&path).unwrap();
    let (mut refused, mut failed) = (0, 0);
    for at in (40_000..object.len()).step_by(1 << 18) {
        let mut changed = object.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        match LazyIndex::begin(&stage) {
            Err(error) => {
                assert!(error.to_string().contains("differs from its checksum at byte"), "{error}");
                refused += 1;
            }
            Ok(lazy) => {
                let found = lazy.answer(BLOCKS, json!({}));
                if found != expected {
                    assert!(codes(&found).iter().all(|code| *code == "NOT_READY"), "{found}");
                    assert!(!codes(&found).is_empty(), "{found}");
                    failed += 1;
                    fs::write(&path, &object).unwrap();
                    assert_eq!(lazy.answer(BLOCKS, json!({})), expected);
                }
            }
        }
    }
    assert!(refused > 0 && failed > 0, "{refused} {failed}");
}

/// The program, serving, with its log in a file.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn start(stage: &Stage, endpoint: &str, directory: &Path, arguments: &[&str]) -> Self {
        let command = [&["serve", "--from", "s3://private/chain", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut program = stage.program(directory, &command);
        let port = directory.join("port");
        let _ = fs::remove_file(&port);
        program.arg("--port-file").arg(&port).envs(S3Server::variables(endpoint));
        let log = fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
        let process = program.stderr(log).spawn().unwrap();
        let port =
            wait_for("the server to listen", Duration::from_mins(1), || fs::read_to_string(&port).ok()?.parse().ok());
        Self { process, port }
    }

    fn answer(&self, query: &str) -> Value {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let answer = agent
            .post(format!("http://127.0.0.1:{}/graphql", self.port))
            .header("content-type", "application/json")
            .send(json!({ "query": query }).to_string())
            .unwrap();
        serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap()
    }

    fn wait_for_height(&self, height: u32) {
        wait_for("the server to follow", Duration::from_mins(1), || {
            (self.answer("{ tip { height } }")["data"]["tip"]["height"] == json!(height)).then_some(())
        });
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_answers_and_follows_before_it_has_all_blocks_and_goes_on_after_a_kill() {
    let Some(store) = S3Server::start() else { return };
    let stage = stage();
    publish_to(&store, &stage);
    let proxy = FlakyProxy::start(&store);
    // what readers ask for is passed on, the download is not
    proxy.hold_above(256 << 10);
    let directory = tempfile::tempdir().unwrap();
    let joining = directory.path().join("regtest/index.joining");
    for round in 0..2 {
        let mut served = Served::start(&stage, &proxy.endpoint(), directory.path(), &["--lazy"]);
        served.wait_for_height(stage.height());
        // the txids are compared, and generations merged, when all are there
        stage.mine(1);
        served.wait_for_height(stage.height());
        served.kill();
        // what readers requested in the second round may be all that was missing
        if round == 0 {
            assert!(joining.join("lazy.json").exists());
            // without the store it is an index of which files are missing
            let alone = run(stage.program(directory.path(), &["serve", "--listen", "127.0.0.1:0"]));
            assert_eq!(alone.code, Some(4), "{}", alone.stderr);
            assert!(alone.stderr.contains("start with the --from with which that began"), "{}", alone.stderr);
        }
    }

    proxy.hold_above(0);
    let mut served = Served::start(&stage, &proxy.endpoint(), directory.path(), &["--lazy"]);
    wait_for("the download", Duration::from_mins(1), || (!joining.exists()).then_some(()));
    wait_for("the txids to be compared", Duration::from_mins(1), || {
        let log = fs::read_to_string(directory.path().join("log")).unwrap();
        log.contains("the txids of the joined blocks are those of the chain").then_some(())
    });
    served.wait_for_height(stage.height());
    served.kill();
    run(stage.program(directory.path(), &["import"])).assert_success();
    stage.import(&[]).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_start_without_lazy_completes_the_download_first() {
    let Some(store) = S3Server::start() else { return };
    let stage = stage();
    publish_to(&store, &stage);
    let proxy = FlakyProxy::start(&store);
    proxy.hold_above(256 << 10);
    let directory = tempfile::tempdir().unwrap();
    Served::start(&stage, &proxy.endpoint(), directory.path(), &["--lazy"]).kill();
    proxy.hold_above(0);
    let mut served = Served::start(&stage, &proxy.endpoint(), directory.path(), &[]);
    assert!(!directory.path().join("regtest/index.joining").exists());
    served.wait_for_height(stage.height());
    served.kill();
    run(stage.program(directory.path(), &["import"])).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_server_reports_what_it_cannot_fetch_and_has_it_once_the_store_is_back() {
    let Some(store) = S3Server::start() else { return };
    let stage = stage();
    publish_to(&store, &stage);
    let proxy = FlakyProxy::start(&store);
    proxy.hold_above(256 << 10);
    let directory = tempfile::tempdir().unwrap();
    let mut served = Served::start(&stage, &proxy.endpoint(), directory.path(), &["--lazy"]);
    // until the node is connected, transactions of a block are an error with another code
    wait_for("the node", Duration::from_mins(1), || {
        (served.answer("{ sync { phase } }")["data"]["sync"]["phase"] == "FOLLOWING").then_some(())
    });
    proxy.fail_one_in(1);
    proxy.hold_above(0);
    // the first block waits for the store, the others are not waited for as long
    let failed = served.answer(BLOCKS);
    assert!(!codes(&failed).is_empty(), "{failed}");
    assert!(codes(&failed).iter().all(|code| *code == "NOT_READY"), "{failed}");
    proxy.fail_one_in(0);
    let expected = wait_for("the blocks", Duration::from_mins(2), || {
        let answer = served.answer(BLOCKS);
        codes(&answer).is_empty().then_some(answer)
    });
    assert_eq!(expected["data"]["blocks"]["nodes"].as_array().map(Vec::len), Some(20));
    served.kill();
}
