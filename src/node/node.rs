//! [`Node`]: connecting, checking that it is the right node, finding out what it offers, and its state in figures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bitcoin::{BlockHash, constants};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::answers::{ChainInfo, NetworkInfo, TxOutSetHash, TxOutSetInfo};
use super::credentials::Credentials;
use super::error::NodeError;
use super::http::{Http, Limits};
use super::rest::{Rest, RestAnswer};
use super::retry::StopFlag;
use super::rpc::{CallAnswer, Rpc};
use super::settings::NodeSettings;
use crate::chain::network;

/// More than two thousand headers, or a whole block, take as hexadecimal JSON.
const ANSWER_BYTES: u64 = 16 << 20;

/// A Bitcoin Core node that was reached and found to be on the right chain.
///
/// Every method asks the node and blocks until it has answered: a transient failure is tried again as
/// [`NodeSettings::retry`] says, and raising [`NodeSettings::stop`] ends the waiting. A request that is under way is
/// not cut off; it ends within [`NodeSettings::timeout`]. Cheap to clone; clones share connections and login.
#[derive(Clone)]
pub struct Node {
    shared: Arc<Shared>,
    stop: StopFlag,
}

struct Shared {
    settings: NodeSettings,
    rpc: Rpc,
    rest: Rest,
    /// Whether REST answers; goes off for good when it has disappeared.
    offers_rest: AtomicBool,
    /// Whether REST has `spenttxouts`.
    offers_spent_outputs: AtomicBool,
}

impl Node {
    /// Reaches the node, waiting while it is down or starting as long as [`NodeSettings::connect_retry`] says; checks
    /// that it is on the network of the settings, by name and by genesis block; and finds out what it offers.
    pub fn connect(settings: NodeSettings) -> Result<Node, NodeError> {
        let url = settings.checked_url()?;
        let http = Arc::new(Http::new(url.clone(), settings.figures.clone()));
        let node = Node {
            stop: settings.stop.clone(),
            shared: Arc::new(Shared {
                rpc: Rpc::new(Arc::clone(&http), Credentials::new(settings.auth.clone())),
                rest: Rest::new(http),
                offers_rest: AtomicBool::new(false),
                offers_spent_outputs: AtomicBool::new(false),
                settings,
            }),
        };
        let policy = node.settings().connect_retry;
        let (chain, network) = policy.run(&node.stop, || {
            let chain = node.check_network(&url)?;
            let network: NetworkInfo = node.call_once("getnetworkinfo", &[])?;
            node.find_offers()?;
            Ok((chain, network))
        })?;
        info!(
            %url,
            network = network::name(node.settings().network),
            tip = %chain.blocks,
            version = %network.subversion,
            rest = node.offers_rest(),
            spent_outputs = node.offers_spent_outputs(),
            pruned = chain.pruned,
            "connected to the node"
        );
        Ok(node)
    }

    /// The same node, whose waiting ends by another flag.
    #[must_use]
    pub fn with_stop(&self, stop: StopFlag) -> Node {
        Node { shared: Arc::clone(&self.shared), stop }
    }

    /// The flag that ends this node's waiting.
    #[must_use]
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// How the node was connected to.
    #[must_use]
    pub fn settings(&self) -> &NodeSettings {
        &self.shared.settings
    }

    /// Whether blocks and headers come by REST (binary), not by RPC (hexadecimal).
    #[must_use]
    pub fn offers_rest(&self) -> bool {
        self.shared.offers_rest.load(Ordering::Relaxed)
    }

    /// Whether the node tells the outputs that a block spends (Core 30 or later with `rest=1`).
    #[must_use]
    pub fn offers_spent_outputs(&self) -> bool {
        self.shared.offers_spent_outputs.load(Ordering::Relaxed)
    }

    /// The state of the node's chain.
    pub fn chain_info(&self) -> Result<ChainInfo, NodeError> {
        self.call("getblockchaininfo", &[])
    }

    /// The node's software and peers.
    pub fn network_info(&self) -> Result<NetworkInfo, NodeError> {
        self.call("getnetworkinfo", &[])
    }

    /// The node's UTXO set in figures, at its tip. The node reads the whole set: minutes on mainnet, so this waits up
    /// to [`NodeSettings::scan_timeout`].
    pub fn txout_set_info(&self, hash: TxOutSetHash) -> Result<TxOutSetInfo, NodeError> {
        let limits = Limits { timeout: self.settings().scan_timeout, ..self.limits() };
        self.call_within("gettxoutsetinfo", &[json!(hash.as_str())], limits)
    }

    fn check_network(&self, url: &str) -> Result<ChainInfo, NodeError> {
        let expected = self.settings().network;
        let wrong = |found: String| NodeError::WrongNetwork { url: url.to_owned(), expected, found };
        let info: ChainInfo = self.call_once("getblockchaininfo", &[])?;
        if info.chain != expected.to_core_arg() {
            let found = network::from_core_chain(&info.chain).map(|found| network::name(found).to_owned());
            return Err(wrong(found.unwrap_or_else(|_| format!("a chain that it calls {:?}", info.chain))));
        }
        let genesis: BlockHash = self.call_once("getblockhash", &[json!(0)])?;
        if genesis != constants::genesis_block(expected).block_hash() {
            return Err(wrong(format!("another {} with the genesis block {genesis}", network::name(expected))));
        }
        Ok(info)
    }

    fn find_offers(&self) -> Result<(), NodeError> {
        let found = |path: &str| {
            let answer = self.shared.rest.get(path, self.limits())?;
            Ok::<_, NodeError>(!matches!(answer, RestAnswer::NotOffered))
        };
        let rest = found("chaininfo.json")?;
        self.shared.offers_rest.store(rest, Ordering::Relaxed);
        let genesis = constants::genesis_block(self.settings().network).block_hash();
        let spent_outputs = rest && found(&format!("spenttxouts/{genesis}.bin"))?;
        self.shared.offers_spent_outputs.store(spent_outputs, Ordering::Relaxed);
        Ok(())
    }

    /// The limits of an ordinary question.
    pub(super) fn limits(&self) -> Limits {
        Limits { timeout: self.settings().timeout, bytes: ANSWER_BYTES }
    }

    /// Calls a method, patiently.
    pub(super) fn call<T: DeserializeOwned>(&self, method: &str, params: &[Value]) -> Result<T, NodeError> {
        self.call_within(method, params, self.limits())
    }

    /// Calls a method, patiently, within limits of its own.
    pub(super) fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
        limits: Limits,
    ) -> Result<T, NodeError> {
        self.patiently(|| self.shared.rpc.call(method, params, limits))
    }

    /// Calls a method once, for questions that are a part of one that is asked patiently.
    pub(super) fn call_once<T: DeserializeOwned>(&self, method: &str, params: &[Value]) -> Result<T, NodeError> {
        self.call_once_within(method, params, self.limits())
    }

    /// Calls a method several times in one request, once.
    pub(super) fn batch_once<T: DeserializeOwned>(
        &self,
        method: &str,
        calls: &[Vec<Value>],
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        self.shared.rpc.batch(method, calls, self.limits())
    }

    /// Calls a method once, within limits of its own.
    pub(super) fn call_once_within<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
        limits: Limits,
    ) -> Result<T, NodeError> {
        self.shared.rpc.call(method, params, limits)
    }

    /// Calls different methods in one request, once, and reads the answers.
    pub(super) fn batch_of_once<T>(
        &self,
        calls: &[(&str, Vec<Value>)],
        limits: Limits,
        read: impl FnOnce(Vec<CallAnswer<'_>>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        self.shared.rpc.batch_of(calls, limits, read)
    }

    /// Gets a path below `/rest/`, patiently. Notices when REST has disappeared, as after a restart with `rest=0`.
    pub(super) fn rest(&self, path: &str, limits: Limits) -> Result<RestAnswer, NodeError> {
        let answer = self.patiently(|| self.shared.rest.get(path, limits))?;
        if matches!(answer, RestAnswer::NotOffered) && self.shared.offers_rest.swap(false, Ordering::Relaxed) {
            self.shared.offers_spent_outputs.store(false, Ordering::Relaxed);
            warn!(path, "the node offers REST no more: going on with RPC, which is slower");
        }
        Ok(answer)
    }

    /// Asks until there is an answer, as the settings say.
    pub(super) fn patiently<T>(&self, attempt: impl FnMut() -> Result<T, NodeError>) -> Result<T, NodeError> {
        self.settings().retry.run(&self.stop, attempt)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("settings", self.settings())
            .field("rest", &self.offers_rest())
            .field("spent_outputs", &self.offers_spent_outputs())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    use bitcoin::hashes::Hash;

    use super::super::fake::{Asked, FakeNode, Says, regtest};
    use super::super::retry::RetryPolicy;
    use super::*;

    /// Connects to a node that says `chain_info` when asked for the state of its chain.
    fn connect(chain_info: impl Fn(u32) -> Option<Says> + Send + Sync + 'static) -> Result<Node, NodeError> {
        let asked_before = AtomicU32::new(0);
        let fake = FakeNode::start(move |asked| match asked {
            Asked::Rpc("getblockchaininfo", _) => {
                chain_info(asked_before.fetch_add(1, Ordering::Relaxed)).unwrap_or_else(|| regtest(asked))
            }
            _ => regtest(asked),
        });
        Node::connect(fake.settings())
    }

    #[test]
    fn connecting_waits_for_a_node_that_starts_or_is_busy() {
        let node = connect(|before| match before {
            0 => Some(Says::Error(-28, "Loading block index…")),
            1 => Some(Says::Status(503, "Work queue depth exceeded")),
            2 => Some(Says::Status(503, "Service temporarily unavailable: Verifying blocks…")),
            _ => None,
        })
        .unwrap();
        assert!(node.offers_rest() && !node.offers_spent_outputs());
    }

    #[test]
    fn a_node_that_goes_on_starting_is_an_error_with_its_words_when_patience_ends() {
        let fake = FakeNode::start(|_| Says::Error(-28, "Loading block index…"));
        let error = Node::connect(fake.impatient_settings()).unwrap_err();
        assert!(matches!(&error, NodeError::WarmingUp { progress, .. } if progress == "Loading block index…"));
        assert!(error.is_transient());
    }

    #[test]
    fn an_answer_that_is_not_a_nodes_is_named_and_not_asked_for_again() {
        for says in [(200, "<html>hello</html>"), (404, ""), (301, "moved"), (200, "{\"result\":")] {
            let error = connect(move |before| {
                assert_eq!(before, 0);
                Some(Says::Status(says.0, says.1))
            })
            .unwrap_err();
            assert!(matches!(&error, NodeError::Protocol { asked, .. } if asked == "getblockchaininfo"), "{error}");
        }
        let incomplete = connect(|_| Some(Says::Result(json!({"chain": "regtest"})))).unwrap_err();
        assert!(matches!(incomplete, NodeError::Protocol { .. }));
    }

    #[test]
    fn a_node_on_another_network_is_refused_with_the_names_of_the_settings() {
        for (chain, found) in [
            ("main", "is on mainnet, but this service is set up for regtest. Set `network`"),
            ("test", "is on testnet3, but"),
            ("liquidv1", "is on a chain that it calls \"liquidv1\", but"),
        ] {
            let fake = FakeNode::start(move |asked| match (asked, regtest(asked)) {
                (Asked::Rpc("getblockchaininfo", _), Says::Result(mut info)) => {
                    info["chain"] = json!(chain);
                    Says::Result(info)
                }
                (_, says) => says,
            });
            let error = Node::connect(fake.settings()).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
        let fake = FakeNode::start(regtest);
        let error = Node::connect(NodeSettings { network: bitcoin::Network::Bitcoin, ..fake.settings() }).unwrap_err();
        assert!(error.to_string().contains("is on regtest, but this service is set up for mainnet"), "{error}");
    }

    #[test]
    fn refusals_tell_who_and_what_was_refused() {
        let unauthorized = connect(|_| Some(Says::Status(401, ""))).unwrap_err();
        assert!(matches!(&unauthorized, NodeError::Unauthorized { login, .. } if login == "user \"user\""));
        let forbidden = connect(|_| Some(Says::Status(403, ""))).unwrap_err();
        assert!(matches!(&forbidden, NodeError::Forbidden { asked, .. } if asked == "getblockchaininfo"));
        let other = connect(|_| Some(Says::Error(-32601, "Method not found"))).unwrap_err();
        assert!(matches!(other, NodeError::Rpc { code: -32601, .. }));
    }

    #[test]
    fn a_chain_of_the_right_name_with_another_genesis_block_is_another_network() {
        let fake = FakeNode::start(|asked| match asked {
            Asked::Rpc("getblockhash", _) => Says::Result(json!(BlockHash::all_zeros())),
            _ => regtest(asked),
        });
        let error = Node::connect(fake.settings()).unwrap_err();
        assert!(matches!(error, NodeError::WrongNetwork { .. }));
        assert!(error.to_string().contains("0000000000"), "{error}");
    }

    #[test]
    fn an_answer_that_does_not_come_in_time_is_a_timeout() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let fake = FakeNode::start(move |asked| {
            // ends when the sender is dropped
            let _ = held.lock().unwrap().recv();
            regtest(asked)
        });
        let timeout = Duration::from_millis(300);
        let error = Node::connect(NodeSettings { timeout, ..fake.impatient_settings() }).unwrap_err();
        drop(release);
        assert!(matches!(&error, NodeError::TimedOut { after, .. } if *after == timeout), "{error}");
    }

    #[test]
    fn all_questions_of_a_thread_go_over_one_connection() {
        let fake = FakeNode::start(regtest);
        let node = Node::connect(fake.settings()).unwrap();
        for _ in 0..20 {
            node.chain_info().unwrap();
            node.shared.rest.get("chaininfo.json", node.limits()).map(|_| ()).unwrap();
        }
        assert_eq!(fake.connections(), 1);
    }

    #[test]
    fn an_answer_beyond_the_size_limit_is_refused() {
        let fake = FakeNode::start(|asked| match asked {
            Asked::Rest("block/0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206.bin") => {
                Says::Bytes(vec![0; 4_000_001])
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        let genesis = constants::genesis_block(bitcoin::Network::Regtest).block_hash();
        let error = node.block(&genesis).unwrap_err();
        assert!(error.to_string().contains("longer than 4000000 bytes"), "{error}");
    }

    #[test]
    fn another_block_than_the_one_asked_for_is_refused() {
        let fake = FakeNode::start(|asked| match asked {
            Asked::Rest(path) if path.starts_with("block/") => Says::Bytes(vec![0; 100]),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        let error = node.block(&BlockHash::all_zeros()).unwrap_err();
        assert!(error.to_string().contains("it is another block"), "{error}");
    }

    #[test]
    fn raising_the_stop_flag_ends_waiting_for_a_node_that_is_gone() {
        let fake = FakeNode::start(regtest);
        let long = RetryPolicy {
            first_pause: Duration::from_mins(10),
            patience: Duration::from_hours(1),
            ..RetryPolicy::default()
        };
        let settings = NodeSettings { connect_retry: long, ..fake.settings() };
        drop(fake);
        let stop = settings.stop.clone();
        let connecting = std::thread::spawn(move || Node::connect(settings));
        stop.raise();
        let raised = Instant::now();
        assert!(matches!(connecting.join().unwrap(), Err(NodeError::Stopped)));
        assert!(raised.elapsed() < Duration::from_secs(5));
    }
}
