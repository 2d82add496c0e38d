//! Webhooks of the program, which is killed and started again.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use btcgraph::sim::{Mining, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::receiver::{Reaction, Received, Receiver, SECRET};
use super::stage::{connected, heights};
use crate::support::bitcoind::wait_for;
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;

/// A node, the settings of hooks, and the files of the program.
struct Machine {
    node: SimNode,
    directory: TempDir,
    settings: PathBuf,
}

impl Machine {
    fn new(blocks: u32, hooks: &str) -> Self {
        let mut chain = SimChain::new(3);
        chain.mine_empty(blocks).unwrap();
        let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("btcgraph.toml");
        std::fs::write(&settings, hooks).unwrap();
        Self { node, directory, settings }
    }

    fn serve(&self) -> TestProcess {
        let (url, settings) = (self.node.url(), self.settings.display().to_string());
        let flags = ["--rpc-url", &url, "--rpc-user", "user", "--rpc-password", "password", "--config", &settings];
        let variables = [("BTCGRAPH_NODE__POLL_SECONDS", "1"), ("SHOP_SECRET", SECRET)];
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        TestProcess::start_logged(&flags.map(Into::into), self.directory.path(), &variables, log)
    }

    fn mine(&self, blocks: u32) {
        for _ in 0..blocks {
            self.node.with(|world| world.mine(Mining::default()).map(|_| ())).unwrap().unwrap();
        }
    }

    fn height(&self) -> u32 {
        self.node.with(|world| world.chain().height().to_u32()).unwrap()
    }

    /// Waits until the hook `shop` has a position.
    fn wait_for_position(&self) {
        let position = self.directory.path().join("regtest/webhooks/shop.json");
        wait_for("a position", Duration::from_mins(1), || position.exists().then_some(()));
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

fn hook(name: &str, url: &str, rest: &str) -> String {
    format!(
        "[[webhook]]\nname = '{name}'\nurl = '{url}'\nsecret_env = 'SHOP_SECRET'\nallow_private = true\nmax_backoff_seconds = 1\n\
         {rest}\n"
    )
}

#[test]
fn no_event_is_lost_however_often_the_server_is_killed() {
    let receiver = Receiver::start(Reaction::RefuseEverySecond);
    let machine = Machine::new(3, &hook("shop", &receiver.url(), "blocks = true"));
    let mut served = machine.serve();
    served.wait_for_height(3);
    machine.wait_for_position();
    for round in 0..5 {
        machine.mine(3);
        receiver.wait_for_attempts(receiver.received().len() + 2);
        // at another moment of a delivery each time
        thread::sleep(Duration::from_millis(37 * round));
        served.kill();
        machine.mine(1);
        served = machine.serve();
    }
    let messages = receiver.wait_for(20);
    assert_eq!(
        heights(&messages),
        connected(4..=23),
        "each block once and in order, but for repetitions of one message"
    );
    assert_eq!(machine.height(), 23);
    messages.iter().for_each(Received::verify);
    for sent in receiver.received() {
        let first = messages.iter().find(|message| message.id == sent.id).unwrap();
        assert_eq!(first.body, sent.body, "a repetition has another body");
    }
    assert!(served.stop().success());
}

#[test]
fn a_message_that_was_taken_when_the_server_was_killed_is_repeated_as_it_was() {
    let receiver = Receiver::start(Reaction::AcceptAndStall);
    let machine = Machine::new(3, &hook("shop", &receiver.url(), "blocks = true"));
    let mut served = machine.serve();
    machine.wait_for_position();
    machine.mine(2);
    receiver.wait_for_attempts(1);
    served.kill();
    receiver.react(Reaction::Accept);
    let _served = machine.serve();
    assert_eq!(heights(&receiver.wait_for(2)), connected(4..=5));
    let accepted = receiver.accepted();
    assert_eq!((&accepted[0].id, &accepted[0].body), (&accepted[1].id, &accepted[1].body));
    assert_ne!(accepted[1].id, accepted[2].id);
}

#[test]
fn a_hook_of_a_ledger_misses_no_block_and_learns_that_the_mempool_is_another() {
    let receiver = Receiver::start(Reaction::Accept);
    let script = SimChain::miner().script_pubkey().to_hex_string();
    let machine = Machine::new(3, &hook("shop", &receiver.url(), &format!("scripts = ['{script}']\ndepths = [2]")));
    let mut served = machine.serve();
    machine.wait_for_position();
    machine.mine(1);
    receiver.wait_for(2);
    assert!(served.stop().success());
    // two blocks leave and three join while it is down
    let reorged = machine.node.with(|world| world.reorg(2, 3, Vec::new(), &Mining::default()).map(|_| ())).unwrap();
    reorged.unwrap();
    let _served = machine.serve();
    let kinds = |messages: &[Received]| -> Vec<String> {
        messages.iter().map(|message| message.json()["type"].as_str().unwrap().to_owned()).collect()
    };
    let confirmed_and_deep = ["ledger.confirmed", "ledger.depth_reached"];
    assert_eq!(kinds(&receiver.wait_for(2)[..2]), confirmed_and_deep);
    wait_for("the blocks of the other branch", Duration::from_mins(1), || {
        let kinds = kinds(&receiver.received());
        (kinds.iter().filter(|kind| *kind == "ledger.confirmed").count() == 4).then_some(())
    });
    let all = receiver.wait_for(1);
    let kinds = kinds(&all);
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!(count("ledger.unconfirmed_by_reorg"), 2, "{kinds:?}");
    // it answers for the tip of its index before it reaches the node, so the gap may come before the reorg
    let gap = kinds.iter().position(|kind| kind == "ledger.gap").expect("a gap");
    assert_eq!(kinds[gap + 1], "ledger.gap_end", "{kinds:?}");
    let seqs: Vec<_> = all.iter().map(|message| message.json()["data"]["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=u64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>(), "no number is missing");
}

#[test]
fn a_stopped_server_ends_in_time_while_a_receiver_stalls() {
    let receiver = Receiver::start(Reaction::Stall);
    let machine = Machine::new(3, &hook("shop", &receiver.url(), "blocks = true"));
    let mut served = machine.serve();
    served.wait_for_height(3);
    machine.wait_for_position();
    machine.mine(1);
    receiver.wait_for_attempts(1);
    assert!(served.stop().success());
}

#[test]
fn secrets_are_neither_logged_nor_printed_and_dead_letters_are_sent_again() {
    let receiver = Receiver::start(Reaction::Refuse(400));
    let url = format!("{}?token=hunter2", receiver.url());
    let machine = Machine::new(3, &hook("shop", &url, "blocks = true\nattempts = 2"));
    let mut served = machine.serve();
    served.wait_for_height(3);
    let letters = machine.directory.path().join("regtest/webhooks/shop.dead-letters.jsonl");
    machine.wait_for_position();
    machine.mine(2);
    wait_for("two dead letters", Duration::from_mins(1), || {
        let text = std::fs::read_to_string(&letters).ok()?;
        (text.lines().count() == 2).then_some(())
    });
    let log = machine.log();
    assert!(
        log.contains("an event is a dead letter") && !log.contains("hunter2") && !log.contains("AAECAwQF"),
        "{log}"
    );

    let settings = machine.settings.display().to_string();
    let command = |arguments: &[&str]| {
        let mut program = btcgraph(machine.directory.path(), &[arguments, &["--config", &settings]].concat());
        run(program.env("SHOP_SECRET", SECRET))
    };
    let (code, printed) = command(&["config"]);
    assert_eq!(code, Some(0));
    assert!(printed.contains("/********\"") && !printed.contains("hunter2") && !printed.contains("AAECAwQF"));
    let (code, printed) = command(&["webhook", "resend", "shop"]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("delivered 0, left 2: the host responded 400"), "{printed}");
    receiver.react(Reaction::Accept);
    assert_eq!(command(&["webhook", "resend", "shop"]), (Some(0), "delivered 2\n".to_owned()));
    assert_eq!(heights(&receiver.accepted()), connected(4..=5));
    let (code, printed) = command(&["webhook", "resend", "ship"]);
    assert_eq!(code, Some(2));
    assert!(printed.contains("the settings have no webhook \"ship\"; they have: shop"), "{printed}");
    assert!(served.stop().success());
}

#[test]
fn a_hook_that_cannot_work_ends_the_start_with_the_reason() {
    let refusal = |hooks: &str, variables: &[(&str, &str)]| -> (Option<i32>, String) {
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("btcgraph.toml");
        std::fs::write(&settings, hooks).unwrap();
        let mut program = btcgraph(directory.path(), &["serve", "--listen", "127.0.0.1:0", "--rpc-user", "u"]);
        program.args(["--rpc-password", "p", "--config"]).arg(&settings).envs(variables.iter().copied());
        run(&mut program)
    };
    let blocks = hook("shop", "http://127.0.0.1/", "blocks = true");
    let (code, printed) = refusal(&blocks, &[]);
    assert_eq!(code, Some(2));
    assert!(
        printed.contains("the environment has no text in SHOP_SECRET, the secret_env of the webhook shop"),
        "{printed}"
    );
    let fields = hook("shop", "http://127.0.0.1/", "blocks = true\nfields = 'nonsense'");
    let (code, printed) = refusal(&fields, &[("SHOP_SECRET", SECRET)]);
    assert_eq!(code, Some(2));
    assert!(printed.contains("the webhook shop: its fields are wrong: ") && printed.contains("nonsense"), "{printed}");
    let (code, printed) = refusal(&blocks, &[("SHOP_SECRET", "hunter2")]);
    assert_eq!(code, Some(2));
    assert!(printed.contains("a secret is `whsec_`") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn each_hook_has_metrics() {
    let receiver = Receiver::start(Reaction::Accept);
    let machine = Machine::new(3, &hook("shop", &receiver.url(), "blocks = true"));
    let served = machine.serve();
    served.wait_for_height(3);
    machine.wait_for_position();
    machine.mine(2);
    receiver.wait_for(2);
    let settings = machine.settings.display().to_string();
    wait_for("the metrics of two deliveries", Duration::from_mins(1), || {
        let (_, printed) = run(&mut btcgraph(machine.directory.path(), &["metrics", "--config", &settings]));
        let value = |name: &str| {
            let sample = format!("btcgraph_webhook_{name}{{hook=\"shop\"}} ");
            printed.lines().find_map(|line| line.strip_prefix(&sample)).map(str::to_owned)
        };
        let names = ["delivered_total", "failures_total", "retries_total", "dead_letters_total", "lag_seconds"];
        let values: Value = names.map(value).to_vec().into();
        (values == json!(["2", "0", "0", "0", "0"])).then_some(())
    });
}
