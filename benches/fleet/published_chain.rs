//! A simulated node, the index of a publisher that follows it, and the commands that publish it and join.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use btcgraph::sim::{Mining, SimNode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::garage::Garage;
use crate::payer::Payer;
use crate::simulated;

/// Empty blocks on top, and how often so many are mined: the node keeps ten that were not requested.
const GROWTH: usize = 9;
const GROWTHS: usize = 2;
/// All but so few blocks are frozen, so often.
const FREEZING: [(&str, &str); 2] = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"), ("BTCGRAPH_INDEX__FREEZE_EVERY", "10")];

/// The chain with its node and its publisher.
pub(crate) struct PublishedChain {
    directory: PathBuf,
    node: SimNode,
    payer: RefCell<Payer>,
}

/// How a command ended.
pub(crate) struct CommandOutcome {
    /// Its exit code; `None` if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) time: Duration,
    stderr: String,
}

impl CommandOutcome {
    pub(crate) fn of(output: &Output, time: Duration) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), time, stderr }
    }

    /// A number in the log line with this message.
    pub(crate) fn logged(&self, message: &str, field: &str) -> Result<u64> {
        let mut lines = self.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == message).context("the log has no such line")?;
        line[field].as_u64().with_context(|| format!("{line} has no number {field}"))
    }

    pub(crate) fn ensure_success(self) -> Result<Self> {
        ensure!(self.code == Some(0), "btcgraph ended with {:?}:\n{}", self.code, self.stderr);
        Ok(self)
    }

    /// The message of a command that failed: what is behind its log.
    pub(crate) fn message(&self) -> String {
        let message = self.stderr.lines().filter(|line| !line.starts_with('{'));
        message.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Checks that it failed and said this.
    pub(crate) fn ensure_failure(self, reason: &str) -> Result<Self> {
        let is_clear = self.code.is_some_and(|code| code != 0) && self.message().contains(reason);
        ensure!(is_clear, "btcgraph ended with {:?} and without {reason:?}:\n{}", self.code, self.stderr);
        Ok(self)
    }
}

impl PublishedChain {
    /// Makes a chain of so many transactions, with coins for so many payments more, serves it, and indexes it with two
    /// generations.
    pub(crate) fn make(directory: &Path, transactions: usize, payments: usize) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let (node, payer) = simulated::start(directory, transactions, payments)?;
        let made = Self { directory: directory.to_owned(), node, payer: RefCell::new(payer) };
        made.run(made.program(&made.publisher(), &["import"]))?.ensure_success()?;
        for _ in 0..GROWTHS {
            for _ in 0..GROWTH {
                made.mine(0)?;
            }
            made.run(made.program(&made.publisher(), &["import"]))?.ensure_success()?;
        }
        Ok(made)
    }

    /// The directory of this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The data directory of the publisher.
    pub(crate) fn publisher(&self) -> PathBuf {
        self.path("publisher")
    }

    /// The directory of this name, empty.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let directory = self.path(name);
        remove_directory(&directory)?;
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Lets the node find a block with so many transactions. Returns its hash, and when the node had it.
    pub(crate) fn mine(&self, transactions: usize) -> Result<(String, Instant)> {
        let paid = self.payer.borrow_mut().take(transactions)?;
        let mined = self.node.with(|world| {
            let block = world.mine_exactly(paid, Mining::default());
            block.map(|block| (block.block_hash().to_string(), Instant::now()))
        })?;
        Ok(mined?)
    }

    /// The program on an index in `directory`, with the node.
    pub(crate) fn program(&self, directory: &Path, command: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
        program.args(command).args(["--network", "regtest", "--log-format", "json", "--data-dir"]).arg(directory);
        program.args(["--rpc-url", &self.node.url(), "--rpc-user", "user", "--rpc-password", "password"]);
        // the node's thread in this process answers slower than its files are read
        program.env("BTCGRAPH_NODE__BLOCKS_DIR", self.directory.join("blocks"));
        program.envs(FREEZING).stdin(Stdio::null());
        program
    }

    /// Publishes to a prefix of the bucket at this endpoint.
    pub(crate) fn publish(&self, endpoint: &str, prefix: &str) -> Command {
        let mut program = self.program(&self.publisher(), &["publish", "--to", &Garage::url(prefix)]);
        program.envs(Garage::variables(endpoint));
        program
    }

    /// Joins in a directory, and follows the node to its tip.
    pub(crate) fn join(&self, endpoint: &str, prefix: &str, directory: &Path) -> Command {
        let mut program = self.program(directory, &["import", "--from", &Garage::url(prefix)]);
        program.envs(Garage::variables(endpoint));
        program
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, program: Command) -> Result<CommandOutcome> {
        self.run_and(program, |_| Ok(()))
    }

    /// Runs a command, and does something else once it runs.
    pub(crate) fn run_and(
        &self,
        mut program: Command,
        meanwhile: impl FnOnce(&mut Child) -> Result<()>,
    ) -> Result<CommandOutcome> {
        let began = Instant::now();
        let log = tempfile::NamedTempFile::new_in(&self.directory)?;
        let mut process = program.stdout(Stdio::null()).stderr(log.reopen()?).spawn()?;
        let done = meanwhile(&mut process);
        let status = process.wait()?;
        done?;
        let output = Output { status, stdout: Vec::new(), stderr: fs::read(log.path())? };
        Ok(CommandOutcome::of(&output, began.elapsed()))
    }

    /// Where the publisher has checksums, and notes of uploads that were interrupted.
    pub(crate) fn notes(&self) -> PathBuf {
        self.publisher().join("regtest/index.publishing")
    }

    /// Forgets what was published, so that checksums are computed again and uploads begin anew.
    pub(crate) fn forget_published(&self) -> Result<()> {
        remove_directory(&self.notes())
    }

    /// The bytes of the frozen blocks of an index, and the hashes of their files in order.
    pub(crate) fn frozen(directory: &Path) -> Result<(u64, Vec<String>)> {
        let entries = fs::read_dir(directory.join("regtest/index.frozen"))?;
        let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "redb"));
        let (mut bytes, mut hashes) = (0, Vec::new());
        for path in paths {
            bytes += fs::metadata(&path)?.len();
            let (mut hash, mut file) = (Sha256::new(), fs::File::open(&path)?);
            let mut buffer = vec![0; 1 << 20];
            loop {
                match std::io::Read::read(&mut file, &mut buffer)? {
                    0 => break,
                    read => hash.update(&buffer[..read]),
                }
            }
            let digits = hash.finalize();
            hashes.push(digits.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat());
        }
        hashes.sort();
        Ok((bytes, hashes))
    }

    /// Checks that a joined index has the files of the publisher byte by byte.
    pub(crate) fn ensure_equal(&self, directory: &Path) -> Result<()> {
        let (found, expected) = (Self::frozen(directory)?, Self::frozen(&self.publisher())?);
        ensure!(found == expected, "{} has other frozen blocks than the publisher", directory.display());
        Ok(())
    }

    /// Has `verify` compute every row of an index again, and compare with the UTXO set of the node.
    pub(crate) fn verify(&self, directory: &Path) -> Result<Duration> {
        let verified = self.run(self.program(directory, &["verify"]))?;
        if verified.code != Some(0) {
            bail!("verify ended with {:?}: {}", verified.code, verified.message());
        }
        Ok(verified.time)
    }
}

/// Removes a directory with all that is in it, if there is one.
pub(crate) fn remove_directory(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    Ok(())
}
