//! `btcgraph serve` as a process of its own, and what the system says of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use btcgraph::sim::SimNode;
use serde_json::{Value, json};

/// The longest that anything may take here: the import of the whole chain.
const PATIENCE: Duration = Duration::from_mins(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// What the times of `/proc/PID/stat` are counted in (`USER_HZ`, the same on all of Linux), a second.
const TICKS: u32 = 100;

/// The running server. Dropping it ends it.
pub(crate) struct Served {
    process: Child,
    port: u16,
}

impl Served {
    /// Starts it on the index in this directory, with this much memory for what it has read and written there.
    pub(crate) fn start(directory: &Path, node: &SimNode, memory: &str) -> Result<Self> {
        let (port_file, log) = (directory.join("port"), directory.join("log"));
        let _ = fs::remove_file(&port_file);
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
        program.args(["serve", "--network", "regtest", "--rpc-user", "user", "--rpc-password", "password"]);
        program.args(["--listen", "127.0.0.1:0", "--rpc-url", &node.url()]);
        program.args(["--memory", memory]).arg("--data-dir").arg(directory).arg("--port-file").arg(&port_file);
        let process = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let mut served = Self { process, port: 0 };
        let started = Instant::now();
        while served.port == 0 {
            served.wait(started, "to listen")?;
            let written = fs::read_to_string(&port_file).unwrap_or_default();
            served.port = written.trim().parse().unwrap_or(0);
        }
        Ok(served)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until it has all of the node's chain and mempool, which holds so many transactions.
    pub(crate) fn wait_for_mempool(&self, transactions: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let answer = self.ask("{ sync { isReady } snapshot { isMempoolInSync } mempool { stats { txCount } } }")?;
            let data = &answer["data"];
            if data["sync"]["isReady"] == json!(true)
                && data["snapshot"]["isMempoolInSync"] == json!(true)
                && data["mempool"]["stats"]["txCount"] == json!(transactions)
            {
                return Ok(());
            }
            self.wait(started, "to follow the node")?;
        }
    }

    /// Time of all processors that it has taken so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // behind the name, which may hold anything, come the fields from the third on; utime is the 14th, stime the 15th
        let (_, fields) = stat.rsplit_once(')').context("not the form of /proc/PID/stat")?;
        let times = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        let ticks = times.sum::<Result<u32, _>>()?;
        Ok(Duration::from_secs(1) * ticks / TICKS)
    }

    /// The most memory that it had so far, in bytes.
    pub(crate) fn memory_at_most(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// The memory that it has now, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    fn status(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).context("the system does not tell")?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }

    /// Lets it end as a service manager would.
    pub(crate) fn stop(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status()?;
        let status = self.process.wait()?;
        if !status.success() {
            bail!("btcgraph ended with {status}");
        }
        Ok(())
    }

    fn ask(&self, query: &str) -> Result<Value> {
        let request =
            ureq::post(format!("http://{}/graphql", self.address())).header("content-type", "application/json");
        let mut response = request.send(json!({ "query": query }).to_string())?;
        Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?)
    }

    fn wait(&self, since: Instant, wanted: &str) -> Result<()> {
        if since.elapsed() > PATIENCE {
            bail!("btcgraph takes too long {wanted}");
        }
        let state = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        if state.contains(") Z ") {
            bail!("btcgraph has ended by itself; its output is in `log` beside its index");
        }
        std::thread::sleep(BETWEEN_LOOKS);
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
