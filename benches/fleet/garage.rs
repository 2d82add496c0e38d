//! Garage on loopback: a cluster of one node or of three, each a process that can be killed and started again.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) const BUCKET: &str = "fleet";
const REGION: &str = "garage";
const KEY: &str = "GK0123456789abcdef01234567";
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const RPC_SECRET: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
/// How long a node may take to start, and the cluster to agree.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A cluster with one bucket, every object of which is on each node. Dropping it kills the nodes.
pub(crate) struct Garage {
    program: PathBuf,
    nodes: Vec<GarageNode>,
}

struct GarageNode {
    configuration: PathBuf,
    log: PathBuf,
    rpc: u16,
    s3: u16,
    process: Option<Child>,
}

impl Garage {
    /// Starts so many nodes in `directory`, and makes the bucket and its key.
    pub(crate) fn start(program: &Path, directory: &Path, count: usize) -> Result<Self> {
        let nodes = (0..count).map(|number| GarageNode::new(&directory.join(format!("node{number}")), count));
        let mut garage = Self { program: program.to_owned(), nodes: nodes.collect::<Result<_>>()? };
        for node in 0..count {
            garage.restart_process(node)?;
        }
        if count == 1 {
            // it has made its layout, the bucket and the key by itself
            garage.wait_for_nodes()?;
            return Ok(garage);
        }
        let identifiers = (0..count).map(|node| garage.run(node, &["node", "id", "-q"])).collect::<Result<Vec<_>>>()?;
        for identifier in identifiers.iter().skip(1) {
            garage.run(0, &["node", "connect", identifier])?;
        }
        for (identifier, number) in identifiers.iter().zip(0..) {
            let (short, zone) = (identifier.split('@').next().unwrap_or_default(), format!("zone{number}"));
            garage.run(0, &["layout", "assign", "-z", &zone, "-c", "10G", short])?;
        }
        garage.run(0, &["layout", "apply", "--version", "1"])?;
        garage.wait_for_nodes()?;
        garage.run(0, &["bucket", "create", BUCKET])?;
        garage.run(0, &["key", "import", "--yes", "-n", "fleet", KEY, SECRET])?;
        garage.run(0, &["bucket", "allow", "--read", "--write", BUCKET, "--key", KEY])?;
        Ok(garage)
    }

    /// The S3 endpoint of a node.
    pub(crate) fn endpoint(&self, node: usize) -> String {
        format!("http://127.0.0.1:{}", self.port(node))
    }

    pub(crate) fn port(&self, node: usize) -> u16 {
        self.nodes[node].s3
    }

    /// The variables by which a client finds the bucket at this endpoint.
    pub(crate) fn variables(endpoint: &str) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", endpoint.to_owned()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    /// The address of a store in the bucket.
    pub(crate) fn url(prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// Kills a node, as a power cut would.
    pub(crate) fn kill(&mut self, node: usize) -> Result<()> {
        if let Some(mut process) = self.nodes[node].process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Starts a node that was killed, and waits until the others see it.
    pub(crate) fn restart(&mut self, node: usize) -> Result<()> {
        self.restart_process(node)?;
        if self.nodes.iter().all(|node| node.process.is_some()) {
            self.wait_for_nodes()?;
        }
        Ok(())
    }

    fn restart_process(&mut self, node: usize) -> Result<()> {
        let (program, is_alone) = (self.program.clone(), self.nodes.len() == 1);
        let node = &mut self.nodes[node];
        let log = File::options().create(true).append(true).open(&node.log)?;
        // in place of another machine, it takes what the others leave of this one
        let mut server = Command::new("chrt");
        server
            .args(["--idle", "0"])
            .arg(program)
            .arg("-c")
            .arg(&node.configuration)
            .arg("server")
            .envs([("RUST_LOG", "garage=info"), ("GARAGE_RPC_SECRET", RPC_SECRET)]);
        if is_alone {
            // as compose.yaml has it
            server.args(["--single-node", "--default-bucket"]).env("GARAGE_DEFAULT_BUCKET", BUCKET);
            server.env("GARAGE_DEFAULT_ACCESS_KEY", KEY).env("GARAGE_DEFAULT_SECRET_KEY", SECRET);
        }
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        node.process = Some(server.spawn().context("cannot start Garage")?);
        let began = Instant::now();
        while [node.rpc, node.s3].into_iter().any(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()) {
            ensure!(began.elapsed() < PATIENCE, "a node of Garage does not listen; its log is {}", node.log.display());
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Waits until every node sees all of them.
    fn wait_for_nodes(&self) -> Result<()> {
        let (began, all) = (Instant::now(), self.nodes.len());
        for node in 0..all {
            loop {
                let status = self.run(node, &["status"])?;
                // the list of healthy nodes ends with an empty line
                let healthy = status.split("\n\n").next().unwrap_or_default();
                if healthy.lines().filter(|line| line.contains("127.0.0.1:")).count() == all {
                    break;
                }
                ensure!(began.elapsed() < PATIENCE, "the nodes of Garage do not find each other:\n{status}");
                std::thread::sleep(BETWEEN_LOOKS);
            }
        }
        Ok(())
    }

    /// Runs a command of Garage on a node. Returns what it printed.
    fn run(&self, node: usize, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.nodes[node].configuration).args(arguments).env("GARAGE_RPC_SECRET", RPC_SECRET);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("garage {} fails: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Drop for Garage {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            // one that was killed already is no error
            let _ = self.kill(node);
        }
    }
}

impl GarageNode {
    fn new(directory: &Path, count: usize) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let (rpc, s3) = (free_port()?, free_port()?);
        let configuration = directory.join("garage.toml");
        let path = directory.display();
        let mut text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/compose/garage.toml"))?;
        let (data, factor) = (path.to_string(), format!("replication_factor = {count}"));
        let (rpc_address, s3_address) = (format!("127.0.0.1:{rpc}"), format!("127.0.0.1:{s3}"));
        let changes = [
            ("/var/lib/garage", &data),
            ("replication_factor = 1", &factor),
            ("[::]:3901", &rpc_address),
            ("127.0.0.1:3901", &rpc_address),
            ("[::]:3900", &s3_address),
        ];
        for (from, to) in changes {
            ensure!(text.contains(from), "garage.toml has no {from}");
            text = text.replace(from, to);
        }
        fs::write(&configuration, text)?;
        Ok(Self { configuration, log: directory.join("log"), rpc, s3, process: None })
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
