//! The fleet of `packaging/compose`, without containers: each service with its command and environment, on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::fleet::s3::S3Server;
use super::proxies::haproxy_as;
use super::{agent, ask};
use crate::support::bitcoind::{RealNode, free_port, rpcauth, wait_for};
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;

const PATIENCE: Duration = Duration::from_mins(1);
const REPLICAS: [&str; 3] = ["replica1", "replica2", "replica3"];

/// The file, and what stands here in place of what its services are there.
struct Composed {
    file: Value,
    places: Vec<(String, String)>,
}

impl Composed {
    /// The file, with variables that freeze and publish the first blocks of a chain. All others have their defaults.
    fn read() -> Self {
        let set = BTreeMap::from([("FREEZE_DEPTH", "5"), ("FREEZE_EVERY", "10"), ("PUBLISH_EVERY", "1s")]);
        let mut unused: BTreeSet<_> = set.keys().copied().collect();
        let text = std::fs::read_to_string(directory().join("compose.yaml")).unwrap();
        let mut parts = text.split("${");
        let mut resolved = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (variable, behind) = part.split_once('}').unwrap();
            let (name, default) = variable.split_once(":-").expect("each variable has a default");
            unused.remove(name);
            resolved += set.get(name).copied().unwrap_or(default);
            resolved += behind;
        }
        assert!(unused.is_empty(), "{unused:?} can be set");
        let read = "import json, sys, yaml; json.dump(yaml.safe_load(sys.argv[1]), sys.stdout)";
        let python = root().join("tests/s3/.venv/bin/python");
        let output = Command::new(python).args(["-c", read, &resolved]).output().unwrap();
        let file = serde_json::from_slice(&output.stdout).expect("YAML without faults");
        Self { file, places: Vec::new() }
    }

    fn service(&self, service: &str) -> &Value {
        let found = &self.file["services"][service];
        assert!(found.is_object(), "there is a service {service}");
        found
    }

    /// From now on this text of the file stands for that.
    fn place(&mut self, there: &str, here: impl Into<String>) {
        assert!(self.file.to_string().contains(there), "the file has {there}");
        self.places.push((there.to_owned(), here.into()));
    }

    fn here(&self, text: &Value) -> String {
        let mut text = text.as_str().map_or_else(|| text.to_string(), ToOwned::to_owned);
        for (there, here) in &self.places {
            text = text.replace(there, here);
        }
        text
    }

    fn command(&self, service: &str) -> Vec<String> {
        self.service(service)["command"].as_array().unwrap().iter().map(|word| self.here(word)).collect()
    }

    fn environment(&self, service: &str) -> BTreeMap<String, String> {
        let variables = self.service(service)["environment"].as_object().unwrap();
        variables.iter().map(|(name, value)| (name.clone(), self.here(value))).collect()
    }

    /// A command of a service of btcgraph, with its volume in this directory.
    fn program(&self, service: &str, data: &Path) -> Command {
        let command = self.command(service);
        let mut program = btcgraph(data, &command.iter().map(String::as_str).collect::<Vec<_>>());
        program.envs(self.environment(service));
        program
    }

    /// Starts a service that serves.
    fn serve(&self, service: &str, data: &Path) -> TestProcess {
        let command = self.command(service);
        let (serve, flags) = command.split_first().unwrap();
        assert_eq!(serve, "serve");
        let flags: Vec<_> = flags.iter().map(Into::into).collect();
        let variables = self.environment(service);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        TestProcess::start_on(&flags, data, &variables)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn directory() -> PathBuf {
    root().join("packaging/compose")
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The node of the file: its settings but for addresses, and its user by a hash, as the tests ask it by the cookie.
fn start_node(composed: &Composed) -> Option<RealNode> {
    let variables = composed.environment("uploads");
    assert!(!composed.environment("publisher").keys().any(|name| name.starts_with("AWS_")), "it needs no store");
    let of_addresses = ["-chain", "-rpcport", "-rpcbind", "-rpcallowip"];
    let mut arguments = vec![rpcauth(&variables["BTCGRAPH_NODE__RPC_USER"], &variables["BTCGRAPH_NODE__RPC_PASSWORD"])];
    for argument in composed.command("node") {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        match name {
            "-rpcuser" => assert_eq!(value, variables["BTCGRAPH_NODE__RPC_USER"]),
            "-rpcpassword" => assert_eq!(value, variables["BTCGRAPH_NODE__RPC_PASSWORD"]),
            name if of_addresses.contains(&name) => {}
            _ => arguments.push(argument),
        }
    }
    RealNode::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn its_files_exist_and_its_addresses_are_those_of_its_services() {
    let Some(_) = S3Server::start() else { return };
    let composed = Composed::read();
    let volumes = composed.file["volumes"].as_object().unwrap();
    for (name, service) in composed.file["services"].as_object().unwrap() {
        for volume in service["volumes"].as_array().unwrap() {
            let from = volume.as_str().unwrap().split(':').next().unwrap();
            let exists =
                if from.starts_with('.') { directory().join(from).exists() } else { volumes.contains_key(from) };
            assert!(exists, "{name}: {from}");
        }
        for other in service["depends_on"].as_array().into_iter().flatten() {
            composed.service(other.as_str().unwrap());
        }
    }
    let address = |service: &str| composed.service(service)["networks"]["default"]["ipv4_address"].as_str().unwrap();
    let of_balancer = composed.environment("balancer");
    for (replica, number) in REPLICAS.iter().zip(1..) {
        assert_eq!(of_balancer[&format!("BTCGRAPH_REPLICA{number}")], format!("{}:8080", address(replica)));
        assert_eq!(composed.environment(replica)["BTCGRAPH_SERVER__TRUSTED_PROXIES"], address("balancer"));
    }
    let subnet = composed.file["networks"]["default"]["ipam"]["config"][0]["subnet"].as_str().unwrap();
    let node = composed.command("node");
    assert!(node.contains(&format!("-rpcallowip={subnet}")), "{node:?}");
    // what the image of btcgraph listens on
    let dockerfile = std::fs::read_to_string(root().join("Dockerfile")).unwrap();
    assert!(
        dockerfile.contains("BTCGRAPH_SERVER__LISTEN=0.0.0.0:8080") && dockerfile.contains("BTCGRAPH_DATA_DIR=/data")
    );
    let store = std::fs::read_to_string(directory().join("garage.toml")).unwrap();
    let variables = composed.environment("uploads");
    assert!(!composed.environment("publisher").keys().any(|name| name.starts_with("AWS_")), "it needs no store");
    assert!(store.contains(&format!("s3_region = \"{}\"", variables["AWS_REGION"])), "{store}");
    let port = variables["AWS_ENDPOINT_URL"].strip_prefix("http://store:").unwrap();
    assert!(store.contains(&format!("api_bind_addr = \"[::]:{port}\"")), "{store}");
    let of_store = composed.environment("store");
    assert_eq!(of_store["GARAGE_DEFAULT_ACCESS_KEY"], variables["AWS_ACCESS_KEY_ID"]);
    assert_eq!(of_store["GARAGE_DEFAULT_SECRET_KEY"], variables["AWS_SECRET_ACCESS_KEY"]);
    assert!(composed.command("uploads").contains(&format!("s3://{}/chain", of_store["GARAGE_DEFAULT_BUCKET"])));
}

#[test]
fn its_replicas_join_what_its_publisher_uploads_and_answer_behind_its_balancer() {
    let Some(store) = S3Server::start() else { return };
    let mut composed = Composed::read();
    composed.place("tcp://node:28332", format!("tcp://127.0.0.1:{}", free_port()));
    composed.place("tcp://0.0.0.0:28332", composed.places[0].1.clone());
    let Some(node) = start_node(&composed) else { return };
    composed.place("http://node:8332", node.rpc_url());
    composed.place("http://store:3900", store.endpoint());
    // the server of the tests has buckets of other names
    composed.place("s3://btcgraph/", "s3://private/");
    composed.place("172.30.77.10", "127.0.0.1");
    node.mine(30);

    let directories: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let (of_publisher, of_replicas) = directories.split_first().unwrap();
    let of_replicas: Vec<_> = of_replicas.iter().map(TempDir::path).collect();
    let (code, printed) = run(composed.program(REPLICAS[0], of_replicas[0]).args(["--listen", "127.0.0.1:0"]));
    assert!(code == Some(1) && printed.contains("there are no manifests in s3://private/chain"), "{printed}");
    let publisher = composed.serve("publisher", of_publisher.path());
    publisher.wait_for_height(30);
    let mut uploads = composed.program("uploads", of_publisher.path());
    let manifests = of_publisher.path().join("manifests");
    let printed = File::create(&manifests).unwrap();
    let _uploads = Running(uploads.stdout(printed).stderr(Stdio::null()).spawn().unwrap());
    wait_for("a manifest", PATIENCE, || std::fs::read_to_string(&manifests).unwrap().contains(".json").then_some(()));

    let start = |(replica, data): (&&str, &&Path)| composed.serve(replica, data);
    let mut replicas: Vec<_> = REPLICAS.iter().zip(&of_replicas).map(start).collect();
    // the same command with the volume that it filled
    assert!(replicas[0].stop().success());
    replicas[0] = start((&REPLICAS[0], &of_replicas[0]));
    composed.place("0.0.0.0:8000", format!("127.0.0.1:{}", free_port()));
    for (replica, there) in replicas.iter().zip(["172.30.77.11:8080", "172.30.77.12:8080", "172.30.77.13:8080"]) {
        replica.wait_for_height(30);
        composed.place(there, replica.address.as_str());
    }
    let Some(balancer) = haproxy_as(&composed.environment("balancer"), REPLICAS.len(), 200) else { return };
    node.mine(1);
    let tip = wait_for("the block behind the balancer", PATIENCE, || {
        let answered = ask(&agent(), &balancer.address, "{ tip { height } }", None);
        (answered.body["data"]["tip"]["height"] == json!(31)).then_some(answered.tip?)
    });
    // a client that carries the tip has it of each of them
    for _ in 0..6 {
        let answered = ask(&agent(), &balancer.address, "{ tip { height } }", Some(&tip));
        assert_eq!((answered.status, &answered.body["data"]["tip"]["height"]), (200, &json!(31)));
    }
}
