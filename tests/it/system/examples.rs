//! The shell examples of the pages that start a server, stop it, or change its files. Each is run as it stands there, on a machine
//! of its own: a simulated node, a folder in which the folders of the system are, one of which takes the place of a bucket, and a
//! `sudo` and a `systemctl` that do for one user and one service what the examples ask of them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use btcgraph::sim::{SimNode, SimNodeOptions, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::bitcoind::wait_for;
use crate::support::pages::{Fence, found};
use crate::sync::freezing::hostile_chain;

const PATIENCE: Duration = Duration::from_mins(1);
/// Blocks of the chain of a machine.
const BLOCKS: u32 = 30;

const SERVE_ON_OTHER_NODE: (&str, &str) = (
    "docs/operations.md",
    "btcgraph serve --rpc-url http://10.0.0.5:8332 --rpc-cookie /mnt/bitcoin/.cookie --zmq tcp://10.0.0.5:28332",
);
const SERVE_LARGE_PAGES: (&str, &str) = ("docs/operations.md", "BTCGRAPH_SERVER__MAX_PAGE_SIZE=200 btcgraph serve");
const SERVE_WITHOUT_PAGES: (&str, &str) = ("docs/operations.md", "BTCGRAPH_SERVER__PLAYGROUND=false btcgraph serve");
const SERVE_WITH_FILTER: (&str, &str) =
    ("docs/operations.md", "BTCGRAPH_LOG__FILTER=info,btcgraph_core::sync=debug btcgraph serve");
const SERVE_WITHOUT_WAITING: (&str, &str) =
    ("docs/operations.md", "BTCGRAPH_SYNC__LOST_BLOCK_SECONDS=0 btcgraph serve");
const DEMO: (&str, &str) = ("docs/operations.md", "btcgraph demo --listen 127.0.0.1:0 --port-file /tmp/btcgraph.port");
const METRICS: (&str, &str) =
    ("docs/operations.md", "sudo -u btcgraph btcgraph metrics --config /etc/btcgraph/btcgraph.toml");
const MANUAL: (&str, &str) = ("docs/operations.md", "btcgraph man --to /usr/local/share/man/man1");
const VERIFY: (&str, &str) = ("docs/operations.md", "btcgraph verify");
const BACKUP: (&str, &str) = (
    "docs/operations.md",
    "sudo -u btcgraph btcgraph backup --to /srv/btcgraph-backup --config /etc/btcgraph/btcgraph.toml",
);
const RESTORE: (&str, &str) = ("docs/operations.md", "cd /var/lib/btcgraph/mainnet && rm -rf index.redb index.frozen");
const RECOVER: (&str, &str) = ("docs/operations.md", "systemctl stop btcgraph && cd /var/lib/btcgraph/mainnet");
const PUBLISH_EVERY: (&str, &str) = (
    "docs/operations.md",
    "sudo -u btcgraph --preserve-env=AWS_ENDPOINT_URL,AWS_REGION,AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY \\",
);
const JOIN: (&str, &str) =
    ("docs/operations.md", "btcgraph serve --from s3://bucket/mainnet --config /etc/btcgraph/btcgraph.toml");
const PUBLISH_TO_BUCKET: (&str, &str) = (
    "docs/fleet.md",
    "export AWS_ENDPOINT_URL=https://s3.example.org AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…",
);
const PUBLISH_TO_DIRECTORY: (&str, &str) =
    ("docs/fleet.md", "btcgraph publish --to file:///srv/btcgraph-published --config /etc/btcgraph/btcgraph.toml");
const JOIN_FLEET: (&str, &str) =
    ("docs/fleet.md", "btcgraph serve --from s3://bucket/mainnet --config /etc/btcgraph/btcgraph.toml");
const DRAIN: (&str, &str) = ("docs/replicas.md", "btcgraph drain");
const SECRET: (&str, &str) =
    ("docs/webhooks.md", "echo \"whsec_$(openssl rand -base64 32)\" > /etc/btcgraph/shop.secret");
const RESEND: (&str, &str) = ("docs/webhooks.md", "btcgraph webhook resend shop --config /etc/btcgraph/btcgraph.toml");

/// The pages and first lines of the examples that are run here.
pub(crate) const ON_A_MACHINE: &[(&str, &str)] = &[
    SERVE_ON_OTHER_NODE,
    SERVE_LARGE_PAGES,
    SERVE_WITHOUT_PAGES,
    SERVE_WITH_FILTER,
    SERVE_WITHOUT_WAITING,
    DEMO,
    METRICS,
    MANUAL,
    VERIFY,
    BACKUP,
    RESTORE,
    RECOVER,
    PUBLISH_EVERY,
    JOIN,
    PUBLISH_TO_BUCKET,
    PUBLISH_TO_DIRECTORY,
    JOIN_FLEET,
    DRAIN,
    SECRET,
    RESEND,
];

/// `sudo`, which has nothing to allow here.
const SUDO: &str = "#!/bin/sh\nwhile :; do case $1 in -u) shift 2;; -*) shift;; *) exec \"$@\";; esac; done\n";
/// `systemctl start` and `stop`, for the service btcgraph.
const SYSTEMCTL: &str = r#"#!/bin/sh
case "$1 $2" in
"start btcgraph")
  btcgraph serve --config "$ROOT/etc/btcgraph/btcgraph.toml" </dev/null >/dev/null 2>"$ROOT/service.log" &
  echo $! >"$ROOT/service.pid" ;;
"stop btcgraph")
  pid=$(cat "$ROOT/service.pid")
  rm "$ROOT/service.pid"
  kill -TERM "$pid"
  # it has no parent that collects its status: once it has ended, it may stay as a zombie
  while grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null; do sleep 0.05; done ;;
*) exit 64 ;;
esac
"#;
/// Settings in the place of those that the pages leave to the reader.
const SETTINGS: [(&str, &str); 6] = [
    ("BTCGRAPH_NETWORK", "regtest"),
    ("BTCGRAPH_SERVER__LISTEN", "127.0.0.1:0"),
    ("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"),
    ("BTCGRAPH_INDEX__FREEZE_EVERY", "10"),
    ("BTCGRAPH_NODE__POLL_SECONDS", "1"),
    // those of the object store are not read for one in a directory
    ("AWS_REGION", "nowhere"),
];
/// Folders of the system, each of which the machine has within its own. That of the machine may be in the first, so it comes first.
const FOLDERS: [&str; 6] = ["/tmp", "/etc/btcgraph", "/var/lib/btcgraph", "/srv", "/usr/local/share", "/mnt/bitcoin"];

struct Machine {
    node: SimNode,
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
        let node = SimNode::start(Arc::new(Mutex::new(World::new(hostile_chain(71, BLOCKS).0))), options).unwrap();
        let machine = Self { node, root: tempfile::tempdir().unwrap() };
        for folder in FOLDERS.iter().chain(&["/bin", "/srv/published", "/usr/local/share/bash-completion/completions"])
        {
            std::fs::create_dir_all(machine.path(folder)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_btcgraph"), machine.path("/bin/btcgraph")).unwrap();
        for (name, script) in [("sudo", SUDO), ("systemctl", SYSTEMCTL)] {
            let path = machine.path(&format!("/bin/{name}"));
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(machine.path("/mnt/bitcoin/.cookie"), "user:password").unwrap();
        let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/btcgraph.toml");
        std::fs::copy(packaged, machine.path("/etc/btcgraph/btcgraph.toml")).unwrap();
        machine
    }

    /// A folder or file of the system on this machine.
    fn path(&self, of_system: &str) -> PathBuf {
        self.root.path().join(of_system.trim_start_matches('/'))
    }

    fn height(&self) -> u32 {
        self.node.with(|world| world.chain().height().to_u32()).unwrap()
    }

    /// The text of an example, with what is on this machine in the place of what is not.
    fn script(&self, example: &Fence) -> String {
        let within = |script: String, folder: &&str| {
            script.replace(&format!(" {folder}/"), &format!(" {}/", self.path(folder).display()))
        };
        let script = FOLDERS.iter().fold(example.text.clone(), within);
        // no example reaches the folders of the system: what begins with one is within that of the machine
        let words = script.split(|letter: char| letter.is_whitespace() || "\"'=<>();&|:".contains(letter));
        for word in words.filter(|word| word.starts_with('/') && !word.starts_with("//")) {
            assert!(
                Path::new(word).starts_with(self.root.path()),
                "{}: {word} is not on this machine",
                example.place()
            );
        }
        script
            .replace("/mainnet", "/regtest")
            .replace("http://10.0.0.5:8332", &self.node.url())
            .replace("tcp://10.0.0.5:28332", &self.node.zmq_url().unwrap())
            .replace("s3://bucket/regtest", &format!("file://{}", self.path("/srv/published").display()))
            .replace("file:///srv/", &format!("file://{}/", self.path("/srv").display()))
    }

    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", script]).current_dir(self.root.path()).stdin(Stdio::null());
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([self.path("/bin")].into_iter().chain(std::env::split_paths(&path))).unwrap();
        shell.env_clear().envs(SETTINGS).env("PATH", path).env("HOME", self.root.path()).env("ROOT", self.root.path());
        shell.env("BTCGRAPH_NODE__RPC_URL", self.node.url());
        shell.env("BTCGRAPH_NODE__RPC_COOKIE", self.path("/mnt/bitcoin/.cookie"));
        shell.env("BTCGRAPH_DATA_DIR", self.path("/var/lib/btcgraph"));
        shell.env("BTCGRAPH_SERVER__PORT_FILE", self.path("/port"));
        shell
    }

    /// Runs a script that ends by itself.
    fn run(&self, script: &str) -> Output {
        let output = self.shell(&format!("exec timeout 60 sh -e <<'SCRIPT'\n{script}\nSCRIPT\n")).output().unwrap();
        let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
        assert!(output.status.success(), "{script}: {}: {printed}", output.status);
        output
    }

    /// Runs an example that ends by itself, and gives what it prints.
    fn example(&self, key: (&str, &str)) -> String {
        String::from_utf8(self.run(&self.script(&found(key))).stdout).unwrap()
    }

    /// Starts an example that goes on until it is stopped.
    fn start(&self, key: (&str, &str)) -> Running<'_> {
        self.start_without(key, &[])
    }

    /// Starts an example that says by itself what is in these variables.
    fn start_without(&self, key: (&str, &str), variables: &[&str]) -> Running<'_> {
        let port = self.path("/port");
        let _ = std::fs::remove_file(&port);
        let script = self.script(&found(key));
        // variables in front of a command may also stand in front of `exec` by way of `env`
        let log = std::fs::File::create(self.path("/log")).unwrap();
        let mut shell = self.shell(&format!("exec env {}", script.trim()));
        for variable in variables {
            shell.env_remove(variable);
        }
        let process = shell.stderr(log).stdout(Stdio::null()).spawn().unwrap();
        Running { machine: self, process, port }
    }

    /// Waits for the service to serve the tip of the node.
    fn wait_for_service(&self) {
        wait_for("the service", PATIENCE, || {
            let answer = ask(&self.path("/port"), "{ tip { height } }")?;
            (answer["data"]["tip"]["height"] == json!(self.height())).then_some(())
        });
    }
}

/// Ends the service.
impl Drop for Machine {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.path("/service.pid")).ok();
        let pid = pid.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?));
        if let Some(pid) = pid {
            // it has ended, but where a test fails
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// An example that was started.
struct Running<'a> {
    machine: &'a Machine,
    process: Child,
    port: PathBuf,
}

impl Running<'_> {
    /// What the server answers once it answers anything.
    fn answer(&mut self, query: &str) -> Value {
        wait_for("an answer", PATIENCE, || {
            assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.log());
            ask(&self.port, query).filter(|answer| answer.get("errors").is_none())
        })
    }

    /// Waits until it is at the tip of its node.
    fn at_tip(&mut self) {
        let tip = || ask(&self.port, "{ tip { height } }").map(|answer| answer["data"]["tip"]["height"].clone());
        wait_for("the tip", PATIENCE, || (tip()? == json!(self.machine.height())).then_some(()));
        assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.machine.path("/log")).unwrap()
    }

    /// Stops it, as ctrl-c or a service manager does.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let status = wait_for("the end", PATIENCE, || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.log());
        self.log()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a server answers whose port is in this file; `None` while there is none.
fn ask(port: &Path, query: &str) -> Option<Value> {
    let port = std::fs::read_to_string(port).ok().filter(|port| !port.is_empty())?;
    let request = ureq::post(format!("http://127.0.0.1:{port}/graphql")).header("content-type", "application/json");
    let mut response = request.send(json!({ "query": query }).to_string()).ok()?;
    serde_json::from_str(&response.body_mut().read_to_string().ok()?).ok()
}

#[test]
fn each_example_that_starts_a_server_serves() {
    let machine = Machine::new();
    let mut served =
        machine.start_without(SERVE_ON_OTHER_NODE, &["BTCGRAPH_NODE__RPC_URL", "BTCGRAPH_NODE__RPC_COOKIE"]);
    served.at_tip();
    let log = served.stop();
    assert!(log.contains(&format!("endpoint={}", machine.node.zmq_url().unwrap())), "{log}");

    let mut served = machine.start(SERVE_LARGE_PAGES);
    let limits = served.answer("{ server { limits { pages { pageSize } } } }");
    assert_eq!(limits["data"]["server"]["limits"]["pages"]["pageSize"], json!(200));
    served.stop();

    let mut served = machine.start(SERVE_WITHOUT_PAGES);
    served.at_tip();
    let port = std::fs::read_to_string(&served.port).unwrap();
    let page = ureq::get(format!("http://127.0.0.1:{port}/playground")).call();
    assert!(matches!(page, Err(ureq::Error::StatusCode(404))), "{page:?}");
    served.stop();

    let mut served = machine.start(SERVE_WITH_FILTER);
    served.at_tip();
    let log = served.stop();
    assert!(log.contains("DEBUG") && log.contains("btcgraph_core::sync"), "{log}");

    let mut served = machine.start(SERVE_WITHOUT_WAITING);
    served.at_tip();
    served.stop();

    let mut demo = machine.start(DEMO);
    demo.port = machine.path("/tmp/btcgraph.port");
    assert_eq!(demo.answer("{ chain { network } }")["data"]["chain"]["network"], json!("REGTEST"));
    demo.stop();
}

#[test]
fn the_examples_for_operators_follow_one_another() {
    let machine = Machine::new();
    // the secret of a hook, and its settings
    machine.example(SECRET);
    let settings = machine.path("/etc/btcgraph/btcgraph.toml");
    let hook = format!(
        "\n[[webhook]]\nname = 'shop'\nurl = 'http://127.0.0.1:9/'\nallow_private = true\nblocks = true\nsecret_file = '{}'\n",
        machine.path("/etc/btcgraph/shop.secret").display()
    );
    let packaged = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, packaged + &hook).unwrap();
    machine.run("systemctl start btcgraph");
    machine.wait_for_service();
    assert!(machine.example(METRICS).contains("\nbtcgraph_"));

    // a backup of the running server takes the place of its index
    machine.example(BACKUP);
    machine.run("systemctl stop btcgraph");
    for verified in [RESTORE, VERIFY] {
        let report = machine.example(verified);
        assert!(report.contains("everything agrees"), "{report}");
    }
    // it has no dead letters
    machine.example(RESEND);

    // and a damaged index is made anew
    machine.run("systemctl start btcgraph");
    machine.wait_for_service();
    let left = machine.path("/var/lib/btcgraph/regtest/index.raw/left");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "of the damaged index").unwrap();
    machine.example(RECOVER);
    machine.wait_for_service();
    assert!(!left.exists(), "all of it was removed");
    assert!(machine.path("/var/lib/btcgraph/regtest/index.redb").exists());
    machine.example(DRAIN);
    assert!(ask(&machine.path("/port"), "{ tip { height } }").is_none(), "it was stopped");
}

#[test]
fn the_examples_of_a_fleet_publish_and_join() {
    let machine = Machine::new();
    machine.run("btcgraph import");
    let to_bucket = machine.example(PUBLISH_TO_BUCKET);
    assert!(machine.path("/srv/published/manifests").join(to_bucket.trim()).exists(), "{to_bucket}");
    let to_directory = machine.example(PUBLISH_TO_DIRECTORY);
    assert!(machine.path("/srv/btcgraph-published/manifests").join(to_directory.trim()).exists(), "{to_directory}");

    let mut publishing = machine.start(PUBLISH_EVERY);
    wait_for("the next publication", PATIENCE, || {
        assert_eq!(publishing.process.try_wait().unwrap(), None, "{}", publishing.log());
        publishing.log().contains("published").then_some(())
    });
    publishing.stop();

    for join in [JOIN, JOIN_FLEET] {
        std::fs::remove_dir_all(machine.path("/var/lib/btcgraph/regtest")).unwrap();
        let mut joined = machine.start(join);
        joined.at_tip();
        let log = joined.stop();
        assert!(log.contains("joined: the index has the published blocks"), "{log}");
    }
}

#[test]
fn without_a_package_man_pages_and_completions_are_left() {
    let machine = Machine::new();
    machine.example(MANUAL);
    let page = std::fs::read_to_string(machine.path("/usr/local/share/man/man1/btcgraph.1")).unwrap();
    assert!(page.contains(".TH btcgraph 1"), "{page}");
    let completions = machine.path("/usr/local/share/bash-completion/completions/btcgraph");
    assert!(std::fs::read_to_string(completions).unwrap().contains("complete -F _btcgraph"));
}
