//! The shell examples of README.md and docs/ do what they say: each that asks a server, or prints something, is run as it stands
//! there, on a server in this process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::Network;
use btcgraph::metrics::Metrics;
use btcgraph::server::admin::{self, Admin, AdminSocket};
use btcgraph::server::{Draining, Options, Token, TokenPolicy, Tokens};
use btcgraph::sim::SimChain;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::api::documented::blocks;
use crate::support::api::Api;
use crate::support::pages::{Fence, fences};
use crate::support::skips::{current_test, shared_data, skip};
use crate::support::test_server::TestServer;
use crate::sync::histories::documented::PLAYED;
use crate::system::examples::ON_A_MACHINE;

/// The script that builds and installs the program by the examples that do, on machines that it throws away.
const MACHINE: &str = include_str!("../../../../scripts/machine.sh");

/// What the first line of an example that is run begins with: commands that end, and change nothing.
const RUN: [&str; 5] = ["curl ", "btcgraph config", "btcgraph log ", "btcgraph metrics", "btcgraph token "];
/// What a line of a shell example begins with.
const COMMANDS: [&str; 5] = ["curl", "btcgraph", "cargo", "make", "npm"];
/// Where examples expect the server.
const ADDRESS: &str = "127.0.0.1:8080";
/// Where the example for the admin socket expects it below the home directory.
const ADMIN: &str = ".local/share/btcgraph/mainnet/admin.sock";
const PATIENCE: Duration = Duration::from_secs(20);

fn key(example: &Fence) -> (&str, &str) {
    (&example.page, example.first_line())
}

/// The examples that `scripts/machine.sh` runs, by its own list: lines of a part, a page and the first line of an example.
fn on_throwaway_machines() -> Vec<(&'static str, &'static str)> {
    let (_, list) = MACHINE.split_once("<<'EXAMPLES'\n").unwrap();
    let (list, _) = list.split_once("\nEXAMPLES\n").unwrap();
    let example = |line: &'static str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [part, page, first_line] = fields[..] else { panic!("scripts/machine.sh lists {line:?}") };
        assert!(MACHINE.contains(&format!("\npart_{part}() {{\n")), "scripts/machine.sh has no part {part}");
        (page, first_line)
    };
    list.lines().map(example).collect()
}

/// The examples that are run elsewhere.
fn elsewhere() -> Vec<(&'static str, &'static str)> {
    [&on_throwaway_machines()[..], ON_A_MACHINE, &PLAYED].concat()
}

fn is_listed(example: &Fence) -> bool {
    elsewhere().contains(&key(example))
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
fn each_shell_example_is_run_by_a_test_or_on_a_machine() {
    let fences = fences();
    let shell: Vec<_> = fences.iter().filter(|fence| fence.is_shell()).collect();
    for example in &shell {
        // what is neither must not be run by surprise
        let is_run = RUN.iter().any(|command| example.first_line().starts_with(command));
        let listed = elsewhere().iter().filter(|listed| **listed == key(example)).count();
        assert_eq!(
            listed + usize::from(is_run),
            1,
            "{}: begin it as RUN says, or run it in system/examples.rs or scripts/machine.sh",
            example.place()
        );
    }
    for listed in elsewhere() {
        let found = shell.iter().filter(|example| key(example) == listed).count();
        assert_eq!(found, 1, "{listed:?} is listed");
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
    for example in fences().iter().filter(|fence| fence.is_shell() && !is_listed(fence)) {
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
        if example.page == answer.page && example.is_shell() && !is_listed(example) && answer.language == "json" {
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
