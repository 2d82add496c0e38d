//! The shell examples of README.md and docs/ do what they say: each is run as it stands there, on a server in this process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::Network;
use btcgraph::server::admin::{self, Admin, AdminSocket};
use btcgraph::server::metrics::Metrics;
use btcgraph::server::{Draining, Options, Token, TokenPolicy, Tokens};
use btcgraph::sim::SimChain;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::api::documented::blocks;
use crate::support::api::Api;
use crate::support::skips::{current_test, shared_data, skip};
use crate::support::test_server::TestServer;

/// The examples that are not run, by their first lines: they install something, start or stop a server, need an index of their own, or
/// run tests.
const NOT_RUN: &[(&str, &str)] = &[
    ("README.md", "make demo"),
    ("README.md", "make test"),
    ("README.md", "cargo build --release"),
    (
        "docs/operations.md",
        "btcgraph serve --rpc-url http://10.0.0.5:8332 --rpc-cookie /mnt/bitcoin/.cookie --zmq tcp://10.0.0.5:28332",
    ),
    ("docs/operations.md", "systemctl daemon-reload"),
    ("docs/operations.md", "sudo -u btcgraph btcgraph metrics --config /etc/btcgraph/btcgraph.toml"),
    ("docs/operations.md", "cargo install --locked --path ."),
    ("docs/operations.md", "make package"),
    ("docs/operations.md", "btcgraph man --to /usr/local/share/man/man1"),
    ("docs/operations.md", "sudo install -D -m 644 packaging/btcgraph.service /etc/systemd/system/btcgraph.service"),
    ("docs/operations.md", "sudo usermod --append --groups bitcoin btcgraph"),
    ("docs/operations.md", "docker build --build-arg BTCGRAPH_GIT_COMMIT=$(git rev-parse HEAD) --tag btcgraph ."),
    ("docs/operations.md", "docker exec CONTAINER btcgraph metrics"),
    ("docs/replicas.md", "btcgraph drain"),
    ("docs/operations.md", "btcgraph demo --listen 127.0.0.1:0 --port-file /tmp/btcgraph.port"),
    ("docs/operations.md", "BTCGRAPH_SERVER__MAX_PAGE_SIZE=200 btcgraph serve"),
    ("docs/operations.md", "BTCGRAPH_SERVER__PLAYGROUND=false btcgraph serve"),
    ("docs/operations.md", "BTCGRAPH_LOG__FILTER=info,btcgraph::sync=debug btcgraph serve"),
    ("docs/operations.md", "btcgraph verify"),
    ("docs/operations.md", "BTCGRAPH_SYNC__LOST_BLOCK_SECONDS=0 btcgraph serve"),
    (
        "docs/operations.md",
        "sudo -u btcgraph btcgraph backup --to /srv/btcgraph-backup --config /etc/btcgraph/btcgraph.toml",
    ),
    ("docs/operations.md", "cd /var/lib/btcgraph/mainnet && rm -rf index.redb index.frozen"),
    (
        "docs/operations.md",
        "sudo -u btcgraph --preserve-env=AWS_ENDPOINT_URL,AWS_REGION,AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY \\",
    ),
    ("docs/operations.md", "btcgraph serve --from s3://bucket/mainnet --config /etc/btcgraph/btcgraph.toml"),
    (
        "docs/fleet.md",
        "export AWS_ENDPOINT_URL=https://s3.example.org AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…",
    ),
    ("docs/fleet.md", "btcgraph publish --to file:///srv/btcgraph-published --config /etc/btcgraph/btcgraph.toml"),
    ("docs/fleet.md", "btcgraph serve --from s3://bucket/mainnet --config /etc/btcgraph/btcgraph.toml"),
    ("docs/operations.md", "systemctl stop btcgraph && cd /var/lib/btcgraph/mainnet"),
    ("docs/testing.md", "cargo test --test it through_any_history -- --nocapture"),
    ("docs/testing.md", "BTCGRAPH_HISTORY=17 cargo test --test it through_any_history_the_index -- --nocapture"),
    ("docs/testing.md", "cargo install cargo-fuzz"),
    ("docs/webhooks.md", "echo \"whsec_$(openssl rand -base64 32)\" > /etc/btcgraph/shop.secret"),
    ("docs/webhooks.md", "btcgraph webhook resend shop --config /etc/btcgraph/btcgraph.toml"),
];

/// How fences of shell examples are marked.
const SHELL: [&str; 5] = ["sh", "bash", "shell", "console", "zsh"];
/// What the first line of an example that is run begins with: commands that end, and change nothing.
const RUN: [&str; 5] = ["curl ", "btcgraph config", "btcgraph log ", "btcgraph metrics", "btcgraph token "];
/// What a line of a shell example begins with.
const COMMANDS: [&str; 5] = ["curl", "btcgraph", "cargo", "make", "npm"];
/// Where examples expect the server.
const ADDRESS: &str = "127.0.0.1:8080";
/// Where the example for the admin socket expects it below the home directory.
const ADMIN: &str = ".local/share/btcgraph/mainnet/admin.sock";
const PATIENCE: Duration = Duration::from_secs(20);

/// A fenced block of a page.
#[derive(Clone, Debug)]
struct Fence {
    page: String,
    line: usize,
    language: String,
    text: String,
}

impl Fence {
    fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    fn is_shell(&self) -> bool {
        SHELL.contains(&self.language.as_str())
    }

    fn is_listed(&self) -> bool {
        NOT_RUN.contains(&(&self.page, self.first_line()))
    }

    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

fn fences_of(page: &str, text: &str) -> Vec<Fence> {
    let (mut fences, mut open): (Vec<Fence>, Option<(usize, Fence)>) = (Vec::new(), None);
    for (line, number) in text.lines().zip(1..) {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let (page, language) = (page.to_owned(), language.trim().to_owned());
                open = Some((indent, Fence { page, line: number, language, text: String::new() }));
            }
            (Some(_), Some("")) => fences.extend(open.take().map(|(_, fence)| fence)),
            (Some((indent, fence)), _) => {
                fence.text += line.get(*indent..).unwrap_or_default();
                fence.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a fence does not end");
    fences
}

fn pages(folder: &Path, found: &mut Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root.join(&path).is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// The fences of all pages, in the order of each.
fn fences() -> Vec<Fence> {
    let mut all = vec!["README.md".to_owned()];
    pages(Path::new("docs"), &mut all);
    all.sort();
    let read = |page: &String| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    all.iter().flat_map(|page| fences_of(page, &read(page))).collect()
}

/// A server where examples can be run, and a home directory.
struct Stage {
    served: TestServer,
    api: Api,
    runtime: Runtime,
    home: TempDir,
    shutdown: CancellationToken,
}

impl Stage {
    fn new(api: Api) -> Self {
        let tokens: Tokens = Token::new("reader", "TOKEN", 0, false).unwrap().to_string().parse().unwrap();
        let options = Options { token_policy: TokenPolicy { tokens, ..TokenPolicy::default() }, ..Options::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let stage = Self {
            served: runtime.block_on(TestServer::with_options(&api.schema, options)),
            api,
            runtime,
            home: tempfile::tempdir().unwrap(),
            shutdown: CancellationToken::new(),
        };
        let socket = stage.home.path().join(ADMIN);
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let admin = Admin {
            notify: Box::new(|_| Box::pin(async { Ok(()) })),
            verify: Box::new(|_, _| Err("no example asks for this".into())),
            set_log: Box::new(|filter| Ok(filter.to_owned())),
            backup: Box::new(|_, _| Err("no backup is made here".into())),
            cut: Box::new(|_| Err("no blocks are frozen".to_owned())),
            draining: Draining::default(),
            metrics: Some(Metrics::new().unwrap()),
        };
        let runtime = &stage.runtime;
        let socket = runtime.block_on(AdminSocket::unix(&socket)).unwrap();
        runtime.spawn(admin::serve(socket, admin, stage.shutdown.clone()));
        stage
    }

    /// A shell that runs this example, with the address of this server in the place of the usual one.
    fn shell(&self, example: &Fence) -> Command {
        let script = example.text.replace(ADDRESS, &self.served.address.to_string());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script]).env_clear().env("HOME", self.home.path());
        let program = Path::new(env!("CARGO_BIN_EXE_btcgraph")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([program].into_iter().chain(std::env::split_paths(&path))).unwrap();
        shell.env("PATH", path).current_dir(self.home.path()).stdin(Stdio::null());
        shell
    }

    /// What an example prints that comes to an end.
    fn printed(&self, example: &Fence) -> String {
        let output = self.shell(example).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {}{printed}", example.place(), String::from_utf8_lossy(&output.stderr));
        printed
    }

    /// The GraphQL answer that an example prints, which has data for each of its fields and no error.
    fn answer(&self, example: &Fence) -> Value {
        let printed = self.printed(example);
        // curl may be asked for the head of the response, too
        let body = printed.strip_prefix("HTTP/1.1 200 OK\r\n").map_or(printed.as_str(), |rest| {
            let (_, body) = rest.split_once("\r\n\r\n").unwrap();
            body
        });
        let answer: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{}: {error}: {printed:?}", example.place()));
        assert_eq!(answer.get("errors"), None, "{}: {answer:#}", example.place());
        let data = answer["data"].as_object().unwrap();
        assert!(!data.is_empty() && data.values().all(|value| !value.is_null()), "{}: {answer:#}", example.place());
        answer
    }

    fn subscriptions(&self) -> Value {
        self.served.post(&json!({ "query": "{ server { subscriptionCount } }" }), &[]).json()["data"]["server"]["subscriptionCount"].clone()
    }

    /// The first event that an example prints that goes on until it is stopped, once the chain has grown.
    fn first_event(&mut self, example: &Fence, chain: &mut SimChain) -> Value {
        let mut shell = self.shell(example).stdout(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while self.subscriptions() != json!(1) {
            assert!(
                begun.elapsed() < PATIENCE && shell.try_wait().unwrap().is_none(),
                "{}: no subscription",
                example.place()
            );
            thread::sleep(Duration::from_millis(10));
        }
        self.api.connect(&chain.mine(Vec::new()).unwrap());
        let (sender, event) = channel();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map_while(Result::ok);
        let reading = thread::spawn(move || {
            let event = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
            event.map(|event| sender.send(event))
        });
        let event = event.recv_timeout(PATIENCE);
        shell.kill().unwrap();
        shell.wait().unwrap();
        reading.join().unwrap();
        serde_json::from_str(&event.expect("an event is printed")).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn has_curl() -> bool {
    Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok()
}

#[test]
fn each_shell_example_is_run_or_listed_as_not_run() {
    let fences = fences();
    let shell: Vec<_> = fences.iter().filter(|fence| fence.is_shell()).collect();
    for example in &shell {
        // what is neither must not be run by surprise
        let is_run = RUN.iter().any(|command| example.first_line().starts_with(command));
        assert!(is_run != example.is_listed(), "{}: begin it as RUN says, or list it in NOT_RUN", example.place());
    }
    for listed in NOT_RUN {
        let found = shell.iter().filter(|example| (example.page.as_str(), example.first_line()) == *listed).count();
        assert_eq!(found, 1, "{listed:?} is in NOT_RUN");
    }
    for fence in fences.iter().filter(|fence| !fence.is_shell()) {
        let is_command = |line: &str| COMMANDS.contains(&line.split(' ').next().unwrap_or_default());
        let has_command = fence.text.lines().any(|line| is_command(line.trim_start().trim_start_matches("$ ")));
        assert!(!has_command, "{} has a command, and is not marked as sh", fence.place());
    }
    assert!(shell.len() >= 10, "the pages were read");
}

#[test]
fn every_shell_example_prints_what_it_asks_for() {
    if !has_curl() {
        return skip(&current_test(), "no curl on the PATH");
    }
    let mut chain = SimChain::new(48);
    chain.mine_empty(200).unwrap();
    let mut stage = Stage::new(Api::of_chain(&chain));
    for example in fences().iter().filter(|fence| fence.is_shell() && !fence.is_listed()) {
        if example.text.contains("admin.sock") || example.first_line() == "btcgraph metrics" {
            assert!(stage.printed(example).contains("\nbtcgraph_"), "{}", example.place());
        } else if example.first_line().starts_with("btcgraph ") {
            assert!(!stage.printed(example).is_empty(), "{}", example.place());
        } else if example.text.contains("/health/ready") {
            assert!(stage.printed(example).contains("\"indexedHeight\":"), "{}", example.place());
        } else if example.text.contains("text/event-stream") {
            let event = stage.first_event(example, &mut chain);
            assert_eq!(event["data"]["newBlock"]["height"], json!(201), "{}: {event}", example.place());
        } else {
            stage.answer(example);
        }
    }
}

#[test]
fn answers_behind_shell_examples_are_those_of_the_main_chain() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    if !has_curl() {
        return skip(&current_test(), "no curl on the PATH");
    }
    let stage = Stage::new(Api::of(Network::Bitcoin, &blocks(&data)[..200]));
    let fences = fences();
    let mut compared = 0;
    for (example, answer) in fences.iter().zip(fences.iter().skip(1)) {
        if example.page == answer.page && example.is_shell() && !example.is_listed() && answer.language == "json" {
            let behind = answer.line - example.line - example.text.lines().count();
            // an answer stands right behind its example, with an empty line between them
            if behind == 3 {
                let expected: Value = serde_json::from_str(&answer.text).unwrap();
                let given = stage.answer(example);
                assert_eq!(given, expected, "{}", answer.place());
                compared += 1;
            }
        }
    }
    assert!(compared >= 1, "an answer was found");
}
