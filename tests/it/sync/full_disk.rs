//! A disk that fills up while the program serves: announced blocks can be read or requests are refused, no older block is
//! answered for, and with free space the server follows again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use btcgraph::sim::{LoadGenerator, LoadProfile, Mining, SimChain, SimNode, SimNodeOptions, World};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::support::bitcoind::wait_for;
use crate::support::program::btcgraph;
use crate::support::test_process::TestProcess;
use crate::sync::faults::may_mount;

const PATIENCE: Duration = Duration::from_mins(1);
const TIP: &str = r#"{"query":"{ tip { height } }"}"#;

fn node() -> SimNode {
    let mut chain = SimChain::new(23);
    chain.mine_empty(20).unwrap();
    SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap()
}

fn mine(node: &SimNode) {
    node.with(|world| world.mine(Mining::default())).unwrap().unwrap();
}

/// Status and body; `None` if no server answers.
fn ask(port: &str, path: &str, body: Option<&str>) -> Option<(u16, Value)> {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("http://127.0.0.1:{port}{path}");
    let answer = match body {
        None => agent.get(url).call(),
        Some(body) => agent.post(url).header("content-type", "application/json").send(body),
    };
    let mut answer = answer.ok()?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().read_to_string().ok()?;
    Some((status, serde_json::from_str(&body).unwrap_or_default()))
}

/// The height that it answers for, if it answers for one.
fn height(port: &str) -> Option<u64> {
    ask(port, "/graphql", Some(TIP))?.1["data"]["tip"]["height"].as_u64()
}

/// A server on a small disk of its own, which files in `control` fill and free. Full is what has not enough room for a block;
/// what is being written just then still fits.
const ON_A_SMALL_DISK: &str = r#"
    mount -t tmpfs -o size=48m none "$DIRECTORY" || exit 99
    if [ -n "$LEFT" ]; then
        mkdir -p "$DIRECTORY/regtest/index.deriving/left"
        for file in index.merging index.freezing; do
            fallocate -l 2M "$DIRECTORY/regtest/$file"
        done
        fallocate -l "$LEFT" "$DIRECTORY/regtest/index.deriving/left/run"
    fi
    "$BTCGRAPH" serve --network regtest --data-dir "$DIRECTORY" --memory "$MEMORY" --listen 127.0.0.1:0 \
        --port-file "$CONTROL/port" --rpc-url "$URL" --rpc-user user --rpc-password password 2>"$CONTROL/log" &
    server=$!
    until [ -e "$CONTROL/stop" ]; do
        if [ -e "$CONTROL/fill" ]; then
            free=$(df -k --output=avail "$DIRECTORY" | tail -n 1)
            fallocate -l $((free - 512))K "$DIRECTORY/filler"
            rm "$CONTROL/fill"
        fi
        if [ -e "$CONTROL/free" ]; then
            rm "$DIRECTORY/filler" "$CONTROL/free"
        fi
        sleep 0.05
    done
    kill -TERM $server
    wait $server"#;

struct SmallDisk {
    shell: Child,
    control: PathBuf,
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // the shell ends its server
        let _ = fs::write(self.control.join("stop"), "");
        let _ = self.shell.wait();
    }
}

impl SmallDisk {
    /// A server with this `index.memory` on a node.
    fn serve(node: &SimNode, directory: &Path, control: &Path, memory: &str) -> Self {
        Self::serve_beside(node, directory, control, memory, "")
    }

    /// The same, where a process that was killed left files: so many bytes of an optional table, and few of others.
    fn serve_beside(node: &SimNode, directory: &Path, control: &Path, memory: &str, left: &str) -> Self {
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh", "-c", ON_A_SMALL_DISK]).env("BTCGRAPH", env!("CARGO_BIN_EXE_btcgraph"));
        shell
            .env("DIRECTORY", directory)
            .env("CONTROL", control)
            .env("URL", node.url())
            .env("MEMORY", memory)
            .env("LEFT", left);
        shell.envs([("BTCGRAPH_SERVER__READY_SECONDS", "1"), ("BTCGRAPH_LOG__FORMAT", "json")]);
        Self { shell: shell.spawn().unwrap(), control: control.to_owned() }
    }

    /// Has it do what a file of this name stands for, and waits until it is done.
    fn act(&self, name: &str) {
        let file = self.control.join(name);
        fs::write(&file, "").unwrap();
        wait_for(name, PATIENCE, || (!file.exists()).then_some(()));
    }

    fn port(&self) -> String {
        wait_for("the port", PATIENCE, || {
            fs::read_to_string(self.control.join("port")).ok().filter(|port| !port.is_empty())
        })
    }

    /// The lines of the log that say that the node is not followed.
    fn shortages(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.control.join("log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["message"].as_str().is_some_and(|it| it.contains("must be free on the disk")))
            .collect()
    }
}

/// What the API and the health check say of the disk.
fn shortage(port: &str) -> [Value; 2] {
    let query = r#"{"query":"{ sync { diskShortage { neededBytes freeBytes } } }"}"#;
    let of_the_api = ask(port, "/graphql", Some(query)).unwrap().1["data"]["sync"]["diskShortage"].clone();
    [of_the_api, ask(port, "/health/ready", None).unwrap().1["diskShortage"].clone()]
}

#[test]
fn a_server_on_a_full_disk_answers_and_later_follows_again() {
    if !may_mount() {
        return;
    }
    let (node, directory, control) = (node(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = SmallDisk::serve(&node, directory.path(), control.path(), "8MiB");
    let port = disk.port();
    let is_ready = || ask(&port, "/health/ready", None).unwrap().0 == 200;
    wait_for("the chain", PATIENCE, || (height(&port) == Some(20) && is_ready()).then_some(()));
    assert_eq!(shortage(&port), [Value::Null, Value::Null]);

    disk.act("fill");
    mine(&node);
    wait_for("it to say that it cannot follow", PATIENCE, || (!is_ready()).then_some(()));
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let (_, answer) = ask(&port, "/graphql", Some(r#"{"query":"{ tip { height } sync { isReady } }"}"#)).unwrap();
        assert_eq!(answer, json!({ "data": { "tip": { "height": 20 }, "sync": { "isReady": false } } }));
        assert!(!is_ready());
    }
    assert_eq!(disk.shortages().len(), 1);
    for shortage in shortage(&port) {
        let [needed, free] = ["neededBytes", "freeBytes"].map(|figure| shortage[figure].as_u64().unwrap());
        assert!(needed > free && free <= 512 << 10, "{shortage}");
    }

    disk.act("free");
    wait_for("the block", PATIENCE, || (height(&port) == Some(21) && is_ready()).then_some(()));
    assert_eq!(shortage(&port), [Value::Null, Value::Null]);
    mine(&node);
    wait_for("the next block", PATIENCE, || (height(&port) == Some(22)).then_some(()));
}

#[test]
fn what_a_kill_left_of_work_in_the_background_does_not_keep_the_disk_full() {
    if !may_mount() {
        return;
    }
    let (node, directory, control) = (node(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = SmallDisk::serve_beside(&node, directory.path(), control.path(), "8MiB", "36M");
    let port = disk.port();
    wait_for("the chain", PATIENCE, || (height(&port) == Some(20)).then_some(()));
    assert_eq!(disk.shortages(), [Value::Null; 0]);
    let log = fs::read_to_string(control.path().join("log")).unwrap();
    assert_eq!(log.matches("what work in the background has built so far is removed").count(), 3, "{log}");
}

/// 16 MiB are required, and a quarter more before it goes on, whatever the size of the cache is.
#[test]
fn a_short_disk_is_reported_in_figures() {
    if !may_mount() {
        return;
    }
    let (node, directory, control) = (node(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = SmallDisk::serve(&node, directory.path(), control.path(), "1GiB");
    let port = disk.port();
    wait_for("the chain", PATIENCE, || (height(&port) == Some(20)).then_some(()));
    assert_eq!(disk.shortages(), [Value::Null; 0]);
    disk.act("fill");
    let line = wait_for("the line in the log", PATIENCE, || disk.shortages().pop());
    assert_eq!(
        line["message"],
        "the node is not followed: 20 MiB must be free on the disk of the index, and 0 MiB are: free some space"
    );
    let [needed, free] = ["needed_bytes", "free_bytes"].map(|figure| line[figure].as_u64().unwrap());
    assert!(needed == 20 << 20 && free <= 512 << 10, "{line}");
    for shortage in shortage(&port) {
        assert_eq!(shortage["neededBytes"], json!(20 << 20), "{shortage}");
    }
}

/// An import on a disk that is enlarged by 8 MiB whenever it is too small.
const IMPORT_ON_A_GROWING_DISK: &str = r#"
    mount -t tmpfs -o size=16m none "$DIRECTORY" || exit 99
    size=16
    until "$BTCGRAPH" import --network regtest --data-dir "$DIRECTORY" --memory 8MiB \
            --rpc-url "$URL" --rpc-user user --rpc-password password 2>"$CONTROL/log"; do
        status=$?
        tail -n 1 "$CONTROL/log" >>"$CONTROL/ends"
        [ $status = 4 ] || exit $status
        size=$((size + 8))
        [ $size -lt 1024 ] || exit 98
        mount -o "remount,size=${size}m" "$DIRECTORY" || exit 97
    done
    "$BTCGRAPH" verify --network regtest --data-dir "$DIRECTORY" \
        --rpc-url "$URL" --rpc-user user --rpc-password password >"$CONTROL/verified" 2>&1"#;

#[test]
fn an_import_ends_before_the_disk_is_full_and_goes_on_later() {
    if !may_mount() {
        return;
    }
    let mut chain = SimChain::new(24);
    let mut load = LoadGenerator::new(LoadProfile { transactions: 20_000, blocks: 110, seed: 24 });
    while load.next_block(&mut chain).unwrap().is_some() {}
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let (directory, control) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", IMPORT_ON_A_GROWING_DISK]).env("BTCGRAPH", env!("CARGO_BIN_EXE_btcgraph"));
    shell.env("DIRECTORY", directory.path()).env("CONTROL", control.path()).env("URL", node.url());
    let status = shell.status().unwrap();
    let read = |name: &str| fs::read_to_string(control.path().join(name)).unwrap_or_default();
    assert!(status.success(), "{status} {} {} {}", read("log"), read("ends"), read("verified"));
    let ends = read("ends");
    assert!(ends.lines().count() > 1, "{ends}");
    for end in ends.lines() {
        assert!(end.contains("MiB must be free on the disk of the index, and "), "{end}");
        assert!(end.contains("the import goes on where it stopped when it is started again"), "{end}");
    }
}

/// The program on a node, which ignores the signal that comes with a file that is too large, and its log, which a
/// thread reads at once: the program would block on a full pipe.
fn serve(node: &SimNode, directory: &Path) -> (Child, JoinHandle<String>) {
    let program = btcgraph(directory, &["serve", "--listen", "127.0.0.1:0", "--rpc-user", "user"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; exec "$@""#, "sh"]).arg(program.get_program()).args(program.get_args());
    shell.args(["--rpc-password", "password", "--rpc-url", &node.url(), "--port-file"]).arg(directory.join("port"));
    shell.env("BTCGRAPH_INDEX__SALT", "00112233445566778899aabbccddeeff").stderr(Stdio::piped());
    let mut server = shell.spawn().unwrap();
    let mut errors = server.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut log = String::new();
        errors.read_to_string(&mut log).unwrap();
        log
    });
    (server, log)
}

#[test]
fn a_disk_full_after_an_announcement_loses_no_block() {
    let (node, directory) = (node(), tempfile::tempdir().unwrap());
    let (mut server, log) = serve(&node, directory.path());
    let port = wait_for("the port", PATIENCE, || {
        fs::read_to_string(directory.path().join("port")).ok().filter(|port| !port.is_empty())
    });
    wait_for("the chain", PATIENCE, || (height(&port) == Some(20)).then_some(()));
    // the blocks so far are on the disk
    thread::sleep(Duration::from_secs(2));
    mine(&node);
    let deadline = Instant::now() + PATIENCE;
    while height(&port) != Some(21) {
        assert!(Instant::now() < deadline, "the block is not announced");
        thread::sleep(Duration::from_millis(1));
    }
    // the block is announced, and the disk accepts no more writes
    prlimit(Some(Pid::from_child(&server)), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    mine(&node);
    let status = wait_for("the server to end", PATIENCE, || {
        let answered = height(&port);
        assert!(answered.is_none_or(|height| height >= 21), "{answered:?} is older than the announced block");
        server.try_wait().unwrap()
    });
    let log = log.join().unwrap();
    assert_eq!(status.code(), Some(4), "{log}");
    assert!(log.contains("the disk of the index is full"), "{log}");
    assert!(!log.contains("panicked"), "{log}");

    let login = ["--rpc-url", &node.url(), "--rpc-user", "user", "--rpc-password", "password"].map(Into::into);
    let again = TestProcess::start_on(&login, directory.path(), &[]);
    let first = wait_for("an answer", PATIENCE, || again.query("{ tip { height } }")["data"]["tip"]["height"].as_u64());
    assert!(first >= 21, "{first} is older than the announced block");
    again.wait_for_height(22);
}
