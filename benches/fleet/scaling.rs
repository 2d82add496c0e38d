//! What three replicas answer behind HAProxy beside one, each with a share of a processor.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::garage::{Garage, free_port};
use crate::published_chain::PublishedChain;
use crate::replica::{ProcessorShare, Replica};
use crate::report::FleetReport;

const REPLICAS: usize = 3;
const CLIENTS: u32 = 24;
/// How often one and three are measured, in turn, and for how long.
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(3);
const LASTS: Duration = Duration::from_secs(6);
/// Until HAProxy has asked each replica twice.
const NOTICED: Duration = Duration::from_secs(4);
const QUERY: &str =
    "query($height: Int!) { block(height: $height) { hash txCount transactions(first: 25) { nodes { txid fee
  inputs { nodes { prevout { value address } } } outputs { nodes { value address spendStatus } } } } } }";

/// Measures with the index in `joined`, copies of which the other replicas join from Garage.
pub(crate) fn run(
    chain: &PublishedChain,
    garage: &Garage,
    joined: &Path,
    (heights, percent): (u32, u32),
    report: &mut FleetReport,
) -> Result<()> {
    let began = Instant::now();
    let groups: Option<Vec<_>> =
        (1..=REPLICAS).map(|number| ProcessorShare::make(&format!("r{number}"), percent)).collect();
    let Some(groups) = groups else {
        report.add("three replicas beside one", Duration::ZERO, "left out: this user may not make control groups");
        return Ok(());
    };
    let mut directories = vec![joined.to_owned()];
    for number in 2..=REPLICAS {
        let directory = chain.fresh(&format!("replica{number}"))?;
        chain.run(chain.join(&garage.endpoint(0), "long", &directory))?.ensure_success()?;
        directories.push(directory);
    }
    let mut replicas = Vec::new();
    for (directory, group) in directories.iter().zip(&groups) {
        let mut replica = Replica::start(chain.program(directory, &["serve"]), directory)?;
        replica.wait_until_ready()?;
        group.add(&replica)?;
        replicas.push(replica);
    }
    let addresses = replicas.iter().map(Replica::address).collect::<Result<Vec<_>>>()?;
    let balancer = Balancer::start(&chain.path("haproxy.cfg"), &addresses)?;
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // what drains gets no requests
        for directory in &directories[1..] {
            chain.run(chain.program(directory, &["drain"]))?.ensure_success()?;
        }
        thread::sleep(NOTICED);
        one.push(answered(&balancer.address, heights)?);
        for directory in &directories[1..] {
            chain.run(chain.program(directory, &["drain", "--undo"]))?.ensure_success()?;
        }
        thread::sleep(NOTICED);
        all.push(answered(&balancer.address, heights)?);
    }
    drop(balancer);
    for replica in replicas {
        replica.stop()?;
    }
    let ratios: Vec<_> = one.iter().zip(&all).map(|(one, all)| format!("{:.2}", all / one)).collect();
    let list = |rates: &[f64]| rates.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(", ");
    let what = format!("one {} requests a second, three {}: {} times", list(&one), list(&all), ratios.join(", "));
    report.add(&format!("three replicas beside one, {percent} % of a core each"), began.elapsed(), what);
    Ok(())
}

/// Requests a second that clients, each with one connection, get answered.
fn answered(address: &str, heights: u32) -> Result<f64> {
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let clients = (0..CLIENTS).map(|client| {
        let (stop, count, url) = (Arc::clone(&stop), Arc::clone(&count), format!("http://{address}/graphql"));
        thread::spawn(move || -> Result<()> {
            let agent = ureq::Agent::new_with_defaults();
            let mut height = 101 + client;
            while !stop.load(Ordering::Relaxed) {
                let body = json!({ "query": QUERY, "variables": { "height": height } }).to_string();
                let answer = agent.post(&url).header("content-type", "application/json").send(body)?;
                let text = answer.into_body().read_to_string()?;
                ensure!(text.starts_with("{\"data\":{\"block\":{"), "{text}");
                count.fetch_add(1, Ordering::Relaxed);
                height = 101 + (height + 31) % (heights - 110);
            }
            Ok(())
        })
    });
    let clients: Vec<_> = clients.collect();
    thread::sleep(WARM_UP);
    let (before, began) = (count.load(Ordering::Relaxed), Instant::now());
    thread::sleep(LASTS);
    let (after, lasted) = (count.load(Ordering::Relaxed), began.elapsed());
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
    }
    Ok(f64::from(after - before) / lasted.as_secs_f64())
}

/// HAProxy with the configuration of the repository. Dropping it kills it.
struct Balancer {
    process: Child,
    address: String,
}

impl Balancer {
    fn start(file: &Path, replicas: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/haproxy.cfg"))?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut text = text.replace("127.0.0.1:8000", &address).replace("maxconn 20000", "maxconn 200");
        for (number, replica) in (1..).zip(replicas) {
            text = text.replace(&format!("127.0.0.1:808{number}"), replica);
        }
        std::fs::write(file, text)?;
        let mut command = Command::new("haproxy");
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg("-db").arg("-f").arg(file).env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let balancer = Self { process: process.context("cannot start HAProxy: `scripts/tools.sh haproxy`")?, address };
        thread::sleep(NOTICED);
        Ok(balancer)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
