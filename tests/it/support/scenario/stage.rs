//! A node, the server that follows it, and what a step does to both.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bitcoin::Txid;
use serde_json::json;

use super::chain::Chain;
use super::names::Names;
use super::node::Node;
use super::parse::{Action, Step};
use super::subscription::Subscription;
use crate::support::bitcoind::wait_for;
use crate::support::gate::Gate;
use crate::support::test_process::TestProcess;

/// The server polls the node when it is notified, and knows within a second that the node is unreachable.
const VARIABLES: &[(&str, &str)] = &[
    ("BTCGRAPH_NODE__POLL_SECONDS", "3600"),
    ("BTCGRAPH_SERVER__READY_SECONDS", "7200"),
    ("BTCGRAPH_NODE__PATIENCE_SECONDS", "1"),
    // a subscription is read when the scenario expects something of it, and answers no ping before
    ("BTCGRAPH_SERVER__SOCKET_PING_SECONDS", "3600"),
];
const PATIENCE: Duration = Duration::from_secs(30);
/// The server is notified again after this time without a result. The node must not change while it is polled.
const AGAIN: Duration = Duration::from_millis(250);

/// The stage of one scenario.
pub(super) struct Stage {
    // before the node, so that it is not left without one when both end
    served: Option<TestProcess>,
    subscriptions: BTreeMap<String, Subscription>,
    chain: Chain,
    node_runs: bool,
    /// The way by which the node's signals come, if it sends any.
    gate: Option<Gate>,
    names: Names,
    directory: tempfile::TempDir,
    /// How many of the newest blocks are not frozen; `None` if all blocks stay live.
    live_blocks: Option<u32>,
}

impl Stage {
    pub(super) fn new(mut names: Names, node: Box<dyn Node>, live_blocks: Option<u32>) -> Self {
        let chain = Chain::new(node, &mut names);
        let directory = tempfile::tempdir().unwrap();
        let gate = chain.node.signals().map(|endpoint| Gate::to(&endpoint));
        let (served, subscriptions) = (None, BTreeMap::new());
        let mut stage = Self { served, subscriptions, chain, node_runs: true, gate, names, directory, live_blocks };
        stage.follow();
        stage
    }

    /// Does one step and waits until the server knows of it. The answer, if it is a question. Errors: what the scenario
    /// has wrong.
    pub(super) fn act(&mut self, step: &Step) -> Result<Option<String>, String> {
        if !self.node_runs && asks_the_node(&step.action) {
            return Err("the node is stopped; 'start node' starts it".to_owned());
        }
        // one more look may be due, which is not to see a part of the action
        let frozen = self.served.as_ref().filter(|_| is_seen_whole(&step.action)).map(TestProcess::freeze);
        let (chain, names) = (&mut self.chain, &mut self.names);
        match &step.action {
            Action::Account { name, kind, key_of } => chain.open(names, name, *kind, key_of.as_deref())?,
            Action::Mine { count, to, withheld, with } => {
                chain.mine(names, *count, to.as_deref().unwrap_or("nobody"), *withheld, with.as_ref())?;
            }
            Action::DuplicateCoinbase { block } => chain.duplicate_coinbase(names, block)?,
            Action::Send(payment) => {
                chain.draft(names, payment)?;
                chain.submit(&payment.name, None)?;
            }
            Action::Draft(payment) => chain.draft(names, payment)?,
            Action::Submit { name, refused } => chain.submit(name, refused.as_deref())?,
            Action::PayAllTypes { from, name } => chain.draft_to_all_types(names, from, name)?,
            Action::SpendAllTypes { to, name } => chain.draft_from_all_types(names, to, name)?,
            Action::Evict(name) => chain.evict(name)?,
            Action::Reorg { count, to, with } => chain.reorg(names, *count, *to, with)?,
            Action::Shorten(count) => chain.shorten(*count)?,
            Action::BackToGenesis => chain.shorten(chain.node.height())?,
            Action::ReturnTo(block) => chain.return_to(names, block)?,
            Action::Restart => {
                self.stop_server()?;
                self.follow();
            }
            Action::Kill => {
                self.served.take().ok_or(STOPPED)?.kill();
                self.subscriptions.clear();
                self.follow();
            }
            Action::Stop => self.stop_server()?,
            Action::Follow if self.served.is_some() => return Err("btcgraph follows already".to_owned()),
            Action::Follow => self.follow(),
            Action::RestartNode { forgets } => {
                self.stop_node()?;
                self.start_node(*forgets)?;
            }
            Action::StopSignals => self.gate()?.close(),
            Action::StartSignals => self.gate()?.open(),
            Action::StopNode => self.stop_node()?,
            Action::StartNode => self.start_node(false)?,
            Action::Query { document } => return self.ask(document).map(Some),
            Action::Subscribe { name, document } => {
                let served = self.served.as_ref().ok_or(STOPPED)?;
                let subscription = Subscription::open(served, &names.expand(document)?)?;
                self.subscriptions.insert(name.clone(), subscription);
            }
            Action::Expect { name, count } => return self.expect(name, *count).map(Some),
        }
        drop(frozen);
        self.catch_up();
        Ok(None)
    }

    /// Stops the server. Errors: an event was reported that the scenario does not expect.
    pub(super) fn end(mut self) -> Result<(), String> {
        if self.served.is_some() { self.stop_server() } else { Ok(()) }
    }

    fn ask(&mut self, document: &str) -> Result<String, String> {
        let served = self.served.as_ref().ok_or(STOPPED)?;
        let mut answer: async_graphql::Value = served.query_as(&self.names.expand(document)?);
        self.names.redact(&mut answer)?;
        Ok(serde_json::to_string_pretty(&answer).unwrap())
    }

    fn expect(&mut self, name: &str, count: usize) -> Result<String, String> {
        let subscription = self.subscriptions.get_mut(name).ok_or("that subscription ended with its server")?;
        let mut events = Vec::new();
        for _ in 0..count {
            let mut event = subscription.event()?;
            self.names.redact(&mut event)?;
            events.push(serde_json::to_string_pretty(&event).unwrap());
        }
        Ok(events.join("\n"))
    }

    fn stop_server(&mut self) -> Result<(), String> {
        let status = self.served.take().ok_or(STOPPED)?.stop();
        if !status.success() {
            return Err(format!("btcgraph ended with {status}"));
        }
        std::mem::take(&mut self.subscriptions).into_values().try_for_each(Subscription::end)
    }

    fn follow(&mut self) {
        let mut node = self.chain.node.login();
        if let Some(gate) = &self.gate {
            node.extend(["--zmq".into(), format!("tcp://{}", gate.address()).into()]);
        }
        let live_blocks = self.live_blocks.map(|count| count.to_string());
        let freezing = live_blocks
            .as_ref()
            .map(|count| [("BTCGRAPH_INDEX__FREEZE_DEPTH", count.as_str()), ("BTCGRAPH_INDEX__FREEZE_EVERY", "1")]);
        let variables: Vec<_> = VARIABLES.iter().copied().chain(freezing.into_iter().flatten()).collect();
        let served = TestProcess::start_on(&node, self.directory.path(), &variables);
        wait_for("the server to answer for what it has", PATIENCE, || {
            (!served.query("{ tip { hash } }")["data"]["tip"].is_null()).then_some(())
        });
        self.served = Some(served);
        self.catch_up();
    }

    fn gate(&self) -> Result<&Gate, String> {
        self.gate.as_ref().ok_or_else(|| "the node sends no signals".to_owned())
    }

    fn stop_node(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.node_runs) {
            return Err("the node is stopped already".to_owned());
        }
        self.chain.node.stop();
        if let Some(served) = &self.served {
            self.notify();
            wait_for("the server to know that the node is away", PATIENCE, || {
                let phase = served.query("{ sync { phase } }")["data"]["sync"]["phase"].take();
                (phase == json!("WAITING_FOR_NODE")).then_some(())
            });
        }
        Ok(())
    }

    /// With the mempool that it had, or with an empty one.
    fn start_node(&mut self, forgets: bool) -> Result<(), String> {
        if std::mem::replace(&mut self.node_runs, true) {
            return Err("the node runs already".to_owned());
        }
        self.chain.node.start(forgets);
        Ok(())
    }

    /// Waits until the server answers for the node's tip and for what waits there, and knows that it does.
    fn catch_up(&self) {
        let Some(served) = self.served.as_ref().filter(|_| self.node_runs) else { return };
        let (tip, waiting) = (self.chain.node.tip(), self.chain.node.waiting());
        let expected = json!({
            "snapshot": { "hash": tip, "isInSync": true, "isMempoolInSync": true },
            "sync": { "isReady": true },
        });
        self.notify();
        let mut notified = Instant::now();
        wait_for("the server to catch up", PATIENCE, || {
            let mut answer = served.query(
                "{ snapshot { hash isInSync isMempoolInSync } sync { isReady }
                   mempool { txids(first: 100) { totalCount nodes } } }",
            );
            let mut txids = answer["data"]["mempool"]["txids"].take();
            answer["data"].as_object_mut()?.remove("mempool");
            let found: BTreeSet<Txid> = serde_json::from_value(txids["nodes"].take()).ok()?;
            // a page of them, and how many there are
            let is_known = txids["totalCount"] == json!(waiting.len()) && found.is_subset(&waiting);
            let done = is_known && answer["data"] == expected;
            if !done && notified.elapsed() > AGAIN {
                self.notify();
                notified = Instant::now();
            }
            done.then_some(())
        });
        self.wait_for_frozen_blocks();
    }

    /// Waits until a generation has all blocks but the newest, so that each answer is of an index with a cut.
    fn wait_for_frozen_blocks(&self) {
        let end = self.live_blocks.and_then(|live| self.chain.node.height().checked_sub(live));
        let Some(end) = end.filter(|_| self.node_runs) else { return };
        // FIRST-LAST-HASH-BUILD.redb; a reorganisation lowers the end of a generation, not its name
        let last = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u32> {
            entry.ok()?.file_name().to_str()?.split('-').nth(1)?.parse().ok()
        };
        wait_for("blocks to be frozen", PATIENCE, || {
            let mut generations = std::fs::read_dir(self.directory.path().join("regtest/index.frozen")).ok()?;
            generations.any(|entry| last(entry) >= Some(end)).then_some(())
        });
    }

    /// Has the server look at the node, as the node's `-blocknotify` does.
    fn notify(&self) {
        // it is not there yet while the server starts, which looks at the node by itself
        let Ok(mut socket) = UnixStream::connect(self.directory.path().join("regtest/admin.sock")) else { return };
        let path = format!("/notify/{}", "0".repeat(64));
        write!(socket, "POST {path} HTTP/1.1\r\nhost: btcgraph\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        // no block has this hash, and the server looks at the node all the same; a node that is away cannot say so
        assert!(answer.starts_with("HTTP/1.1 404 ") || answer.starts_with("HTTP/1.1 202 "), "{answer}");
    }
}

/// Whether an action does something to the node or its chain; the others can be done without it.
fn asks_the_node(action: &Action) -> bool {
    !matches!(
        action,
        Action::Query { .. }
            | Action::Subscribe { .. }
            | Action::Expect { .. }
            | Action::Restart
            | Action::Kill
            | Action::Stop
            | Action::Follow
            | Action::StopNode
            | Action::StartNode
            | Action::StopSignals
            | Action::StartSignals
    )
}

/// Whether the server is to see nothing of an action before all of it is done. Of nodes that stop and start it sees what
/// comes.
fn is_seen_whole(action: &Action) -> bool {
    asks_the_node(action) && !matches!(action, Action::RestartNode { .. })
}

const STOPPED: &str = "btcgraph is stopped; 'follow' starts it";
