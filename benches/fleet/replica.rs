//! `btcgraph serve` as a process of its own, on a share of a processor if it is to be.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// The longest that a replica may take until it is ready: it may join first.
const PATIENCE: Duration = Duration::from_mins(10);
/// Microseconds, of which a process gets its share.
const PERIOD: u32 = 20_000;

/// The running server. Dropping it kills it.
pub(crate) struct Replica {
    process: Child,
    port_file: PathBuf,
    log: PathBuf,
    started: Instant,
}

impl Replica {
    /// Starts this command at any free port; port and log are files in `directory`.
    pub(crate) fn start(mut serve: Command, directory: &Path) -> Result<Self> {
        let (port_file, log) = (directory.join("port"), directory.join("log"));
        let _ = fs::remove_file(&port_file);
        serve.args(["--listen", "127.0.0.1:0", "--port-file"]).arg(&port_file);
        let serve = serve.stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { process: serve.spawn()?, port_file, log, started: Instant::now() })
    }

    /// Waits until the log has this text. Returns how long that took since the start.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> Result<Duration> {
        self.wait(text, |replica| fs::read_to_string(&replica.log).is_ok_and(|log| log.contains(text)))
    }

    /// Waits until it is ready. Returns how long that took since the start.
    pub(crate) fn wait_until_ready(&mut self) -> Result<Duration> {
        self.wait("to be ready", |replica| {
            let Ok(address) = replica.address() else { return false };
            ureq::get(format!("http://{address}/health/ready")).call().is_ok()
        })
    }

    fn wait(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> Result<Duration> {
        while !is_done(self) {
            ensure!(self.started.elapsed() < PATIENCE, "a server takes too long {what}");
            ensure!(self.process.try_wait()?.is_none(), "a server has ended; its log is {}", self.log.display());
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(self.started.elapsed())
    }

    /// Host and port, once it listens.
    pub(crate) fn address(&self) -> Result<String> {
        let port: u16 = fs::read_to_string(&self.port_file)?.trim().parse()?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Ends it as a service manager would.
    pub(crate) fn stop(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status()?;
        let status = self.process.wait()?;
        ensure!(status.success(), "a server ended with {status}; its log is {}", self.log.display());
        Ok(())
    }

    fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A control group of Linux with a share of a processor. Dropping it removes it, once its processes have ended.
pub(crate) struct ProcessorShare(PathBuf);

impl ProcessorShare {
    /// `None` where this user may not make one.
    pub(crate) fn make(name: &str, percent: u32) -> Option<Self> {
        let (root, name) = (Path::new("/sys/fs/cgroup"), format!("btcgraph-fleet-{}-{name}", std::process::id()));
        // one hierarchy of all controllers, or one of its own
        let is_unified = root.join("cgroup.controllers").exists();
        let group = Self(if is_unified { root.join(name) } else { root.join("cpu").join(name) });
        fs::create_dir(&group.0).ok()?;
        let quota = PERIOD / 100 * percent;
        let limits = if is_unified {
            vec![("cpu.max", format!("{quota} {PERIOD}"))]
        } else {
            vec![("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        };
        limits.into_iter().try_for_each(|(file, limit)| fs::write(group.0.join(file), limit)).ok()?;
        Some(group)
    }

    pub(crate) fn add(&self, replica: &Replica) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), replica.id().to_string()).context("cannot limit a process")
    }
}

impl Drop for ProcessorShare {
    fn drop(&mut self) {
        // an ended process leaves it a moment later
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}
