//! The program on a bucket of an S3 server, also through a connection that fails.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::hashes::{Hash, hash160};
use bitcoin::{Amount, ScriptBuf, TxOut, WPubkeyHash};
use btcgraph::sim::{Payment, SimChain, Spendable};
use serde_json::json;

use super::s3::{FlakyProxy, S3Server};
use super::stage::{Ended, Stage, run};
use crate::support::bitcoind::wait_for;

fn program(stage: &Stage, endpoint: &str, directory: &Path, command: &[&str]) -> Command {
    let mut program = stage.program(directory, command);
    program.envs(S3Server::variables(endpoint));
    program
}

fn publish(stage: &Stage, endpoint: &str, to: &str) -> Ended {
    run(program(stage, endpoint, stage.publisher.path(), &["publish", "--to", to]))
}

fn join(stage: &Stage, endpoint: &str, directory: &Path) -> Ended {
    run(program(stage, endpoint, directory, &["import", "--from", "s3://private/chain"]))
}

#[test]
fn a_bucket_is_published_to_and_joined_from() {
    let Some(server) = S3Server::start() else { return };
    let (stage, endpoint) = (Stage::start(60), server.endpoint());
    let published = publish(&stage, &endpoint, "s3://private/chain");
    published.assert_success();
    assert_eq!(published.logged("published", "uploaded_objects"), json!(4));
    let again = publish(&stage, &endpoint, "s3://private/chain/");
    assert_eq!(again.logged("published", "uploaded_objects"), json!(0), "{}", again.stderr);
    let directory = tempfile::tempdir().unwrap();
    join(&stage, &endpoint, directory.path()).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_bucket_that_anyone_can_read_is_refused_before_anything_is_uploaded() {
    let Some(server) = S3Server::start() else { return };
    let (stage, endpoint) = (Stage::start(40), server.endpoint());
    let published = publish(&stage, &endpoint, "s3://public/chain");
    assert_eq!(published.code, Some(1), "{}", published.stderr);
    assert!(
        published.stderr.contains("s3://public/chain answers a request without a signature"),
        "{}",
        published.stderr
    );
    let get = |key: &str| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer = agent.get(format!("{endpoint}/public/{key}")).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    assert_eq!(get("chain/manifests/probe").0, 200);
    let mut listing = ureq::get(format!("{endpoint}/public?list-type=2&prefix=chain/"))
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
        )
        .call()
        .unwrap();
    let listing = listing.body_mut().read_to_string().unwrap();
    assert_eq!(listing.matches("<Key>").count(), 1, "{listing}");
}

#[test]
fn a_bucket_that_is_not_there_is_an_error_with_its_name() {
    let Some(server) = S3Server::start() else { return };
    let stage = Stage::start(40);
    let published = publish(&stage, &server.endpoint(), "s3://absent/chain");
    assert_eq!(published.code, Some(1), "{}", published.stderr);
    assert!(published.stderr.contains("manifests/probe"), "{}", published.stderr);
    let joined = join(&stage, &server.endpoint(), tempfile::tempdir().unwrap().path());
    assert!(joined.stderr.contains("there are no manifests in s3://private/chain"), "{}", joined.stderr);
}

#[test]
fn a_bucket_that_fails_now_and_then_is_retried() {
    let Some(server) = S3Server::start() else { return };
    let (stage, proxy) = (Stage::start(60), FlakyProxy::start(&server));
    proxy.fail_one_in(4);
    publish(&stage, &proxy.endpoint(), "s3://private/chain").assert_success();
    let directory = tempfile::tempdir().unwrap();
    join(&stage, &proxy.endpoint(), directory.path()).assert_success();
    assert!(proxy.failed() > 3, "{}", proxy.failed());
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_bucket_that_always_fails_ends_the_command_with_the_reason() {
    let Some(server) = S3Server::start() else { return };
    let (stage, proxy) = (Stage::start(40), FlakyProxy::start(&server));
    proxy.fail_one_in(1);
    let published = publish(&stage, &proxy.endpoint(), "s3://private/chain");
    assert_eq!(published.code, Some(1), "{}", published.stderr);
    assert!(published.stderr.contains("cannot look for manifests/probe"), "{}", published.stderr);
    assert!(published.stderr.contains("500"), "{}", published.stderr);
    assert!(published.stderr.contains("run the command again to continue"), "{}", published.stderr);
}

/// A chain whose generation is uploaded in three parts: one of few blocks that pay many scripts.
fn chain_of_three_parts() -> SimChain {
    const BLOCKS: u32 = 12;
    const OUTPUTS: u32 = 28_000;
    let mut chain = SimChain::new(9);
    let blocks = chain.mine_empty(120).unwrap();
    for (block, number) in blocks.iter().zip(0..BLOCKS) {
        let coinbase = Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap();
        let payment = (0..OUTPUTS).fold(Payment::of([coinbase]), |payment, output| {
            let hash = hash160::Hash::hash(&(number * OUTPUTS + output).to_le_bytes());
            let script_pubkey = ScriptBuf::new_p2wpkh(&WPubkeyHash::from_raw_hash(hash));
            payment.output(TxOut { value: Amount::from_sat(10_000), script_pubkey })
        });
        chain.mine(vec![payment.sign().unwrap()]).unwrap();
    }
    // an import of fewer blocks makes no generation
    chain.mine_empty(1_900).unwrap();
    chain
}

#[test]
fn an_upload_in_parts_continues_behind_the_parts_that_the_bucket_has() {
    let Some(server) = S3Server::start() else { return };
    let (stage, proxy) = (Stage::of_chain(chain_of_three_parts()), FlakyProxy::start(&server));
    proxy.stall("partNumber=2");
    let command = ["publish", "--to", "s3://private/chain"];
    let mut command = program(&stage, &proxy.endpoint(), stage.publisher.path(), &command);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let noted = || {
        let files = std::fs::read_dir(stage.publisher.path().join("regtest/index.publishing")).ok()?;
        let note =
            files.map(|file| file.unwrap().path()).find(|path| path.extension().is_some_and(|it| it == "upload"))?;
        (std::fs::read_to_string(note).unwrap().lines().count() == 3).then_some(())
    };
    wait_for("two of three parts", Duration::from_mins(2), noted);
    process.kill().unwrap();
    process.wait().unwrap();
    proxy.stall("");
    thread::sleep(Duration::from_millis(100));
    let published = publish(&stage, &proxy.endpoint(), "s3://private/chain");
    published.assert_success();
    assert_eq!((proxy.passed("?uploads"), proxy.passed("partNumber=1&"), proxy.passed("partNumber=3&")), (1, 1, 1));
    assert!(proxy.passed("partNumber=2&") >= 1);
    let directory = tempfile::tempdir().unwrap();
    join(&stage, &proxy.endpoint(), directory.path()).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_signal_ends_a_transfer_to_a_slow_bucket_and_the_next_continues() {
    let Some(server) = S3Server::start() else { return };
    let (stage, proxy) = (Stage::start(60), FlakyProxy::start(&server));
    proxy.delay(400);
    let directory = tempfile::tempdir().unwrap();
    let commands = [
        program(&stage, &proxy.endpoint(), stage.publisher.path(), &["publish", "--to", "s3://private/chain"]),
        program(&stage, &proxy.endpoint(), directory.path(), &["import", "--from", "s3://private/chain"]),
    ];
    for mut command in commands {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(1_500));
        let began = Instant::now();
        let stop = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap();
        assert!(stop.success());
        assert_eq!(process.wait().unwrap().code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        proxy.delay(if command.get_args().any(|argument| argument == "publish") { 400 } else { 0 });
        if command.get_args().any(|argument| argument == "publish") {
            publish(&stage, &proxy.endpoint(), "s3://private/chain").assert_success();
        }
    }
    join(&stage, &proxy.endpoint(), directory.path()).assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}
