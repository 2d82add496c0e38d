//! [`Node`]: connects, checks the network, detects the node's features, and reads its chain and network state.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bitcoin::{BlockHash, constants};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::answers::{ChainInfo, NetworkInfo, TxOutSetHash, TxOutSetInfo};
use super::credentials::Credentials;
use super::error::NodeError;
use super::http::{Http, ResponseLimits};
use super::options::NodeOptions;
use super::rest::{Rest, RestResponse};
use super::retry::{RetryPolicy, StopFlag};
use super::rpc::{CallAnswer, Rpc};
use crate::chain::network;

/// An upper bound of what 2,000 headers, or a whole block, take as hexadecimal JSON, in bytes.
const ANSWER_BYTES: u64 = 16 << 20;

/// A connection to a Bitcoin Core node that is on the expected chain.
///
/// Every method sends a request and blocks until the node answers: a transient failure is retried as
/// [`NodeOptions::retry`] says, and raising [`NodeOptions::stop`] ends the waiting. A request in flight is not
/// cancelled; it ends within [`NodeOptions::timeout`]. Cheap to clone; clones share connections and login.
#[derive(Clone)]
pub struct Node {
    inner: Arc<NodeInner>,
    stop: StopFlag,
}

struct NodeInner {
    options: NodeOptions,
    rpc: Rpc,
    rest: Rest,
    /// Whether REST answers; set to false for good when it disappears.
    supports_rest: AtomicBool,
    /// Whether REST has `spenttxouts`.
    supports_spent_outputs: AtomicBool,
    /// Whether REST may have `blockpart`; set to false for good at the first request if it has not.
    supports_block_parts: AtomicBool,
}

impl Node {
    /// Connects to the node, retrying while it is down or starting as long as [`NodeOptions::connect_retry`] says;
    /// checks that it is on the network of the options, by name and by genesis block; and detects its features.
    pub fn connect(options: NodeOptions) -> Result<Node, NodeError> {
        let url = options.checked_url()?;
        let http = Arc::new(Http::new(url.clone(), options.metrics.clone()));
        let node = Node {
            stop: options.stop.clone(),
            inner: Arc::new(NodeInner {
                rpc: Rpc::new(Arc::clone(&http), Credentials::new(options.auth.clone())),
                rest: Rest::new(http),
                supports_rest: AtomicBool::new(false),
                supports_spent_outputs: AtomicBool::new(false),
                supports_block_parts: AtomicBool::new(true),
                options,
            }),
        };
        let policy = node.options().connect_retry;
        let (chain, network) = policy.run(&node.stop, || {
            let chain = node.check_network(&url)?;
            let network: NetworkInfo = node.call_once("getnetworkinfo", &[])?;
            node.detect_features()?;
            Ok((chain, network))
        })?;
        info!(
            %url,
            network = network::name(node.options().network),
            tip = %chain.blocks,
            version = %network.subversion,
            rest = node.supports_rest(),
            spent_outputs = node.supports_spent_outputs(),
            pruned = chain.pruned,
            "connected to the node"
        );
        Ok(node)
    }

    /// A clone of this node whose waiting ends by another flag.
    #[must_use]
    pub fn with_stop(&self, stop: StopFlag) -> Node {
        Node { inner: Arc::clone(&self.inner), stop }
    }

    /// The flag that ends this node's waiting.
    #[must_use]
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// The options that the node was connected with.
    #[must_use]
    pub fn options(&self) -> &NodeOptions {
        &self.inner.options
    }

    /// Whether blocks and headers are read by REST (binary), not by RPC (hexadecimal).
    #[must_use]
    pub fn supports_rest(&self) -> bool {
        self.inner.supports_rest.load(Ordering::Relaxed)
    }

    /// Whether the node returns the outputs that a block spends (Core 30 or later with `rest=1`).
    #[must_use]
    pub fn supports_spent_outputs(&self) -> bool {
        self.inner.supports_spent_outputs.load(Ordering::Relaxed)
    }

    /// The state of the node's chain.
    pub fn chain_info(&self) -> Result<ChainInfo, NodeError> {
        self.call("getblockchaininfo", &[])
    }

    /// The node's software and peers.
    pub fn network_info(&self) -> Result<NetworkInfo, NodeError> {
        self.call("getnetworkinfo", &[])
    }

    /// Statistics of the node's UTXO set at its tip. The node reads the whole set, which takes minutes on mainnet, so
    /// this waits up to [`NodeOptions::scan_timeout`].
    pub fn txout_set_info(&self, hash: TxOutSetHash) -> Result<TxOutSetInfo, NodeError> {
        let limits = ResponseLimits { timeout: self.options().scan_timeout, ..self.limits() };
        self.call_within("gettxoutsetinfo", &[json!(hash.as_str())], limits)
    }

    fn check_network(&self, url: &str) -> Result<ChainInfo, NodeError> {
        let expected = self.options().network;
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

    fn detect_features(&self) -> Result<(), NodeError> {
        let found = |path: &str| {
            let answer = self.inner.rest.get(path, self.limits())?;
            Ok::<_, NodeError>(!matches!(answer, RestResponse::Unavailable))
        };
        let rest = found("chaininfo.json")?;
        self.inner.supports_rest.store(rest, Ordering::Relaxed);
        let genesis = constants::genesis_block(self.options().network).block_hash();
        let spent_outputs = rest && found(&format!("spenttxouts/{genesis}.bin"))?;
        self.inner.supports_spent_outputs.store(spent_outputs, Ordering::Relaxed);
        Ok(())
    }

    /// The limits of an ordinary request.
    pub(super) fn limits(&self) -> ResponseLimits {
        ResponseLimits { timeout: self.options().timeout, bytes: ANSWER_BYTES }
    }

    /// Calls a method, with retries.
    pub(super) fn call<T: DeserializeOwned>(&self, method: &str, params: &[Value]) -> Result<T, NodeError> {
        self.call_within(method, params, self.limits())
    }

    /// Calls a method, with retries, within limits of its own.
    pub(super) fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
        limits: ResponseLimits,
    ) -> Result<T, NodeError> {
        self.with_retries(|| self.inner.rpc.call(method, params, limits))
    }

    /// Calls a method once, for requests that are a part of a retried operation.
    pub(super) fn call_once<T: DeserializeOwned>(&self, method: &str, params: &[Value]) -> Result<T, NodeError> {
        self.call_once_within(method, params, self.limits())
    }

    /// Calls a method several times in one request, once.
    pub(super) fn batch_once<T: DeserializeOwned>(
        &self,
        method: &str,
        calls: &[Vec<Value>],
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        self.inner.rpc.batch(method, calls, self.limits())
    }

    /// Calls a method once, within limits of its own.
    pub(super) fn call_once_within<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
        limits: ResponseLimits,
    ) -> Result<T, NodeError> {
        self.inner.rpc.call(method, params, limits)
    }

    /// Calls different methods in one request, once, and decodes the answers with `read`.
    pub(super) fn batch_calls_once<T>(
        &self,
        calls: &[(&str, Vec<Value>)],
        limits: ResponseLimits,
        read: impl FnOnce(Vec<CallAnswer<'_>>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        self.inner.rpc.batch_calls(calls, limits, read)
    }

    /// Gets a path below `/rest/`, with retries. Detects that REST has disappeared, as after a restart with `rest=0`.
    pub(super) fn rest(&self, path: &str, limits: ResponseLimits) -> Result<RestResponse, NodeError> {
        let answer = self.with_retries(|| self.inner.rest.get(path, limits))?;
        if matches!(answer, RestResponse::Unavailable) && self.inner.supports_rest.swap(false, Ordering::Relaxed) {
            self.inner.supports_spent_outputs.store(false, Ordering::Relaxed);
            warn!(path, "the node no longer serves REST: continuing with RPC, which is slower");
        }
        Ok(answer)
    }

    /// Gets a path below `/rest/blockpart/`, with retries. `None` if the node does not have the block, or lacks this path.
    pub(super) fn rest_block_part(&self, path: &str, limits: ResponseLimits) -> Result<Option<Vec<u8>>, NodeError> {
        if !self.supports_rest() || !self.inner.supports_block_parts.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.with_retries(|| self.inner.rest.get(&format!("blockpart/{path}"), limits))? {
            RestResponse::Found(bytes) => Ok(Some(bytes)),
            RestResponse::NotFound => Ok(None),
            RestResponse::Unavailable => {
                self.inner.supports_block_parts.store(false, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// Repeats `attempt` until it succeeds, as the retry policy says.
    pub(super) fn with_retries<T>(&self, attempt: impl FnMut() -> Result<T, NodeError>) -> Result<T, NodeError> {
        self.options().retry.run(&self.stop, attempt)
    }

    /// The same, for so long at most.
    pub(super) fn with_retries_for<T>(
        &self,
        patience: Duration,
        attempt: impl FnMut() -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let policy = self.options().retry;
        RetryPolicy { patience: policy.patience.min(patience), ..policy }.run(&self.stop, attempt)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("options", self.options())
            .field("rest", &self.supports_rest())
            .field("spent_outputs", &self.supports_spent_outputs())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Instant;

    use bitcoin::hashes::Hash;

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    /// Connects to a node that answers `getblockchaininfo` with `chain_info`.
    fn connect(chain_info: impl Fn(u32) -> Option<FakeResponse> + Send + Sync + 'static) -> Result<Node, NodeError> {
        let earlier_calls = AtomicU32::new(0);
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc("getblockchaininfo", _) => {
                chain_info(earlier_calls.fetch_add(1, Ordering::Relaxed)).unwrap_or_else(|| regtest(asked))
            }
            _ => regtest(asked),
        });
        Node::connect(fake.options())
    }

    #[test]
    fn connecting_retries_while_the_node_starts_or_is_busy() {
        let node = connect(|before| match before {
            0 => Some(FakeResponse::Error(-28, "Loading block index…")),
            1 => Some(FakeResponse::Status(503, "Work queue depth exceeded")),
            2 => Some(FakeResponse::Status(503, "Service temporarily unavailable: Verifying blocks…")),
            _ => None,
        })
        .unwrap();
        assert!(node.supports_rest() && !node.supports_spent_outputs());
    }

    #[test]
    fn a_node_that_keeps_starting_is_an_error_with_its_progress() {
        let fake = FakeNode::start(|_| FakeResponse::Error(-28, "Loading block index…"));
        let error = Node::connect(fake.impatient_options()).unwrap_err();
        assert!(matches!(&error, NodeError::WarmingUp { progress, .. } if progress == "Loading block index…"));
        assert!(error.is_transient());
    }

    #[test]
    fn a_malformed_answer_is_a_protocol_error_without_retry() {
        for says in [(200, "<html>hello</html>"), (404, ""), (301, "moved"), (200, "{\"result\":")] {
            let error = connect(move |before| {
                assert_eq!(before, 0);
                Some(FakeResponse::Status(says.0, says.1))
            })
            .unwrap_err();
            assert!(matches!(&error, NodeError::Protocol { asked, .. } if asked == "getblockchaininfo"), "{error}");
        }
        let incomplete = connect(|_| Some(FakeResponse::Result(json!({"chain": "regtest"})))).unwrap_err();
        assert!(matches!(incomplete, NodeError::Protocol { .. }));
    }

    #[test]
    fn a_node_on_another_network_is_refused_with_both_names() {
        for (chain, found) in [
            ("main", "is on mainnet, but this service is set up for regtest. Set `network`"),
            ("test", "is on testnet3, but"),
            ("liquidv1", "is on a chain that it calls \"liquidv1\", but"),
        ] {
            let fake = FakeNode::start(move |asked| match (asked, regtest(asked)) {
                (FakeRequest::Rpc("getblockchaininfo", _), FakeResponse::Result(mut info)) => {
                    info["chain"] = json!(chain);
                    FakeResponse::Result(info)
                }
                (_, response) => response,
            });
            let error = Node::connect(fake.options()).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
        let fake = FakeNode::start(regtest);
        let error = Node::connect(NodeOptions { network: bitcoin::Network::Bitcoin, ..fake.options() }).unwrap_err();
        assert!(error.to_string().contains("is on regtest, but this service is set up for mainnet"), "{error}");
    }

    #[test]
    fn refusals_name_the_login_the_method_and_the_code() {
        let unauthorized = connect(|_| Some(FakeResponse::Status(401, ""))).unwrap_err();
        assert!(matches!(&unauthorized, NodeError::Unauthorized { login, .. } if login == "user \"user\""));
        let forbidden = connect(|_| Some(FakeResponse::Status(403, ""))).unwrap_err();
        assert!(matches!(&forbidden, NodeError::Forbidden { asked, .. } if asked == "getblockchaininfo"));
        let other = connect(|_| Some(FakeResponse::Error(-32601, "Method not found"))).unwrap_err();
        assert!(matches!(other, NodeError::Rpc { code: -32601, .. }));
    }

    #[test]
    fn another_genesis_block_is_another_network() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getblockhash", _) => FakeResponse::Result(json!(BlockHash::all_zeros())),
            _ => regtest(asked),
        });
        let error = Node::connect(fake.options()).unwrap_err();
        assert!(matches!(error, NodeError::WrongNetwork { .. }));
        assert!(error.to_string().contains("0000000000"), "{error}");
    }

    #[test]
    fn an_answer_that_is_late_is_a_timeout() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = std::sync::Mutex::new(blocked);
        let fake = FakeNode::start(move |asked| {
            // ends when the sender is dropped
            let _ = blocked.lock().unwrap().recv();
            regtest(asked)
        });
        let timeout = Duration::from_millis(300);
        let error = Node::connect(NodeOptions { timeout, ..fake.impatient_options() }).unwrap_err();
        drop(release);
        assert!(matches!(&error, NodeError::TimedOut { after, .. } if *after == timeout), "{error}");
    }

    #[test]
    fn all_requests_of_a_thread_share_one_connection() {
        let fake = FakeNode::start(regtest);
        let node = Node::connect(fake.options()).unwrap();
        for _ in 0..20 {
            node.chain_info().unwrap();
            node.inner.rest.get("chaininfo.json", node.limits()).map(|_| ()).unwrap();
        }
        assert_eq!(fake.connections(), 1);
    }

    #[test]
    fn an_answer_beyond_the_size_limit_is_refused() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rest("block/0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206.bin") => {
                FakeResponse::Bytes(vec![0; 4_000_001])
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let genesis = constants::genesis_block(bitcoin::Network::Regtest).block_hash();
        let error = node.block(&genesis).unwrap_err();
        assert!(error.to_string().contains("longer than 4000000 bytes"), "{error}");
    }

    #[test]
    fn a_block_is_requested_again_when_the_server_failed() {
        let genesis = constants::genesis_block(bitcoin::Network::Regtest);
        let bytes = bitcoin::consensus::serialize(&genesis);
        for status in [500, 502, 504] {
            let (earlier_requests, bytes) = (AtomicU32::new(0), bytes.clone());
            let fake = FakeNode::start(move |asked| match asked {
                FakeRequest::Rest(path) if path.starts_with("block/") => {
                    match earlier_requests.fetch_add(1, Ordering::Relaxed) {
                        0 => FakeResponse::Status(status, "I/O error"),
                        _ => FakeResponse::Bytes(bytes.clone()),
                    }
                }
                _ => regtest(asked),
            });
            let node = Node::connect(fake.options()).unwrap();
            assert_eq!(BlockHash::hash(&node.block(&genesis.block_hash()).unwrap()[..80]), genesis.block_hash());
        }
    }

    #[test]
    fn a_method_is_called_again_when_a_proxy_failed() {
        for status in [500, 502, 504] {
            let earlier_requests = AtomicU32::new(0);
            let fake = FakeNode::start(move |asked| match asked {
                FakeRequest::Rpc("getblockhash", _) if earlier_requests.fetch_add(1, Ordering::Relaxed) == 0 => {
                    FakeResponse::Status(status, "<html>Bad Gateway</html>")
                }
                _ => regtest(asked),
            });
            let node = Node::connect(fake.options()).unwrap();
            let genesis = constants::genesis_block(bitcoin::Network::Regtest).block_hash();
            assert_eq!(node.block_hash(0.into()).unwrap(), Some(genesis), "after HTTP {status}");
        }
    }

    #[test]
    fn a_block_with_another_hash_is_refused() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rest(path) if path.starts_with("block/") => FakeResponse::Bytes(vec![0; 100]),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let error = node.block(&BlockHash::all_zeros()).unwrap_err();
        assert!(error.to_string().contains("it is another block"), "{error}");
    }

    #[test]
    fn raising_the_stop_flag_ends_waiting_for_a_stopped_node() {
        let fake = FakeNode::start(regtest);
        let long = RetryPolicy {
            first_pause: Duration::from_mins(10),
            patience: Duration::from_hours(1),
            ..RetryPolicy::default()
        };
        let options = NodeOptions { connect_retry: long, ..fake.options() };
        drop(fake);
        let stop = options.stop.clone();
        let connecting = std::thread::spawn(move || Node::connect(options));
        stop.raise();
        let raised = Instant::now();
        assert!(matches!(connecting.join().unwrap(), Err(NodeError::Stopped)));
        assert!(raised.elapsed() < Duration::from_secs(5));
    }
}
