//! A real bitcoind for tests: found through `BITCOIND_EXE` or `PATH`, on a data directory and port of its own, without
//! peers, killed when dropped.
//!
//! ```text
//! let Some(node) = RealNode::start(&["-txindex=0"]) else { return };   // no bitcoind here: recorded as skipped
//! node.mine(101);
//! let tip = node.call("getbestblockhash", &[]).unwrap();
//! ```

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};
use bitcoin::{Address, BlockHash, Network, WPubkeyHash};
use bitcoincore_rpc::RpcApi;
use bitcoincore_rpc::jsonrpc;
use btcgraph::node::{Auth, Node, NodeOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::skips;

const START_TIMEOUT: Duration = Duration::from_mins(2);
const CALL_TIMEOUT: Duration = Duration::from_mins(5);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A free port can be taken by another process before the node binds it.
const PORT_ATTEMPTS: usize = 5;

/// What every node starts with. An argument given by the test replaces the default of the same name.
const DEFAULT_ARGS: [&str; 12] = [
    "-server=1",
    "-rest=1",
    "-txindex=1",
    "-listen=0",
    "-connect=0",
    "-dnsseed=0",
    "-fixedseeds=0",
    "-discover=0",
    "-fallbackfee=0.0001",
    "-printtoconsole=0",
    "-dbcache=16",
    "-rpcthreads=8",
];

/// Policy of Bitcoin Knots that would make tests fail by chance: it refuses transactions with lock time 21, which the
/// wallet now and then picks by itself. In the configuration file, as Bitcoin Core ends at unknown arguments but
/// passes over unknown lines.
const CONFIGURATION: &str = "corepolicy=1\nrejectparasites=0\n";

/// An answer of the node that is not a result.
#[derive(Debug)]
pub(crate) struct RpcError {
    /// The node's error code; `None` when no JSON-RPC answer came at all.
    pub(crate) code: Option<i32>,
    pub(crate) message: String,
}

/// A running bitcoind. Dropping it kills the process and removes its data.
pub(crate) struct RealNode {
    executable: PathBuf,
    chain: String,
    args: Vec<String>,
    data: TempDir,
    rpc_port: u16,
    process: Option<Child>,
    addresses_used: std::cell::Cell<u32>,
}

impl RealNode {
    /// Starts a node on regtest; `None`, and a line in the skips, when there is no bitcoind. The arguments must leave
    /// the cookie on: give users by `-rpcauth`, not `-rpcuser`.
    #[track_caller]
    pub(crate) fn start(extra_args: &[&str]) -> Option<RealNode> {
        RealNode::with_chain("regtest", extra_args)
    }

    /// Starts a node on a chain by the node's name for it: `main`, `test`, `testnet4`, `signet`, `regtest`.
    #[track_caller]
    pub(crate) fn with_chain(chain: &str, extra_args: &[&str]) -> Option<RealNode> {
        let Some(executable) = executable() else {
            skips::skip(&skips::current_test(), "no bitcoind: set BITCOIND_EXE or put it into PATH");
            return None;
        };
        let mut node = RealNode {
            executable,
            chain: chain.to_owned(),
            args: extra_args.iter().map(|&arg| arg.to_owned()).collect(),
            data: TempDir::with_prefix("btcgraph-node-").expect("a temporary directory"),
            rpc_port: 0,
            process: None,
            addresses_used: std::cell::Cell::new(0),
        };
        fs::write(node.data.path().join("bitcoin.conf"), CONFIGURATION).expect("the data directory can be written");
        for attempt in 1.. {
            node.rpc_port = free_port();
            match node.spawn_and_wait() {
                Ok(()) => break,
                Err(reason) if attempt == PORT_ATTEMPTS => panic!("bitcoind does not start: {reason}"),
                Err(_) => node.kill(),
            }
        }
        Some(node)
    }

    /// `http://127.0.0.1:<port>`, of RPC and REST.
    pub(crate) fn rpc_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.rpc_port)
    }

    /// The cookie file, where the node writes a new secret at each start.
    pub(crate) fn cookie_path(&self) -> PathBuf {
        self.chain_dir().join(".cookie")
    }

    /// A client of the node, as the program has one.
    pub(crate) fn client(&self) -> Node {
        let network = Network::from_core_arg(&self.chain).expect("the node was started with this name");
        Node::connect(NodeOptions::new(network, self.rpc_url(), Auth::Cookie(self.cookie_path())))
            .expect("the node runs")
    }

    /// The node's directory of blk and rev files.
    pub(crate) fn blocks_dir(&self) -> PathBuf {
        self.chain_dir().join("blocks")
    }

    /// The data directory of the node's chain: the whole one on mainnet, a folder of it elsewhere.
    pub(crate) fn chain_dir(&self) -> PathBuf {
        match self.chain.as_str() {
            "main" => self.data.path().to_owned(),
            "test" => self.data.path().join("testnet3"),
            chain => self.data.path().join(chain),
        }
    }

    /// Calls a method with positional parameters.
    pub(crate) fn call(&self, method: &str, params: &[Value]) -> Result<Value, RpcError> {
        let cookie = fs::read_to_string(self.cookie_path())
            .map_err(|error| RpcError { code: None, message: format!("no cookie: {error}") })?;
        let transport = jsonrpc::minreq_http::MinreqHttpTransport::builder()
            .url(&self.rpc_url())
            .expect("the builder takes any URL")
            .timeout(CALL_TIMEOUT)
            .cookie_auth(cookie)
            .build();
        bitcoincore_rpc::Client::from_jsonrpc(jsonrpc::Client::with_transport(transport)).call(method, params).map_err(
            |error| match error {
                bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Rpc(answer)) => {
                    RpcError { code: Some(answer.code), message: answer.message }
                }
                other => RpcError { code: None, message: other.to_string() },
            },
        )
    }

    /// Calls a method that must succeed.
    #[track_caller]
    pub(crate) fn must(&self, method: &str, params: &[Value]) -> Value {
        match self.call(method, params) {
            Ok(result) => result,
            Err(error) => panic!("{method} {params:?}: {error:?}"),
        }
    }

    /// Mines blocks to an address that no key can spend from and that no earlier call used, so that a block mined
    /// after `invalidateblock` is never the invalidated one again.
    #[track_caller]
    pub(crate) fn mine(&self, count: u32) -> Vec<BlockHash> {
        let used = self.addresses_used.replace(self.addresses_used.get() + 1);
        let mut key_hash = [0x42; 20];
        key_hash[..4].copy_from_slice(&used.to_be_bytes());
        let program = bitcoin::ScriptBuf::new_p2wpkh(&WPubkeyHash::from_byte_array(key_hash));
        let address = Address::from_script(&program, Network::Regtest).expect("a P2WPKH script has an address");
        self.mine_to(&address.to_string(), count)
    }

    /// Mines blocks to an address.
    #[track_caller]
    pub(crate) fn mine_to(&self, address: &str, count: u32) -> Vec<BlockHash> {
        let hashes = self.must("generatetoaddress", &[json!(count), json!(address)]);
        serde_json::from_value(hashes).expect("block hashes")
    }

    /// A new address of the node's wallet, which is made at the first call; its coins are spent with `sendtoaddress`
    /// and the like. `address_type`: `legacy`, `p2sh-segwit`, `bech32`, `bech32m`.
    #[track_caller]
    pub(crate) fn wallet_address(&self, address_type: &str) -> String {
        if self.must("listwallets", &[]) == json!([]) {
            self.must("createwallet", &[json!("test")]);
        }
        let address = self.must("getnewaddress", &[json!(""), json!(address_type)]);
        address.as_str().expect("an address").to_owned()
    }

    /// Asks the node to stop and waits until it has; its data stays for [`RealNode::start_again`].
    pub(crate) fn stop(&mut self) {
        if self.call("stop", &[]).is_ok() {
            let process = self.process.as_mut().expect("a node that answers runs");
            wait_for("the node to stop", START_TIMEOUT, || process.try_wait().expect("our own child").map(|_| ()));
        }
        self.kill();
    }

    /// Kills the node as a power cut would; its data stays for [`RealNode::start_again`], but for the newest blocks,
    /// which a node writes to disk only now and then.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // fails only for a process that has ended by itself
            let _ = process.kill();
            process.wait().expect("our own child");
        }
    }

    /// Starts a stopped or killed node on its data, port and arguments.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        assert!(self.process.is_none(), "the node still runs");
        self.spawn_and_wait().unwrap_or_else(|reason| panic!("bitcoind does not start again: {reason}"));
    }

    /// The same with other arguments in place of those the node was started with.
    #[track_caller]
    pub(crate) fn start_with(&mut self, extra_args: &[&str]) {
        self.args = extra_args.iter().map(|&arg| arg.to_owned()).collect();
        self.start_again();
    }

    /// Stops the node and starts it on the same data and port; it writes a new cookie.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Restarts with other arguments in place of those the node was started with.
    #[track_caller]
    pub(crate) fn restart_with(&mut self, extra_args: &[&str]) {
        self.stop();
        self.start_with(extra_args);
    }

    fn spawn_and_wait(&mut self) -> Result<(), String> {
        let output = self.data.path().join("output.log");
        let output_file = File::create(&output).expect("the data directory can be written");
        let given = |default: &str| {
            let name = argument_name(default);
            self.args.iter().any(|arg| argument_name(arg) == name)
        };
        let process = Command::new(&self.executable)
            .arg(format!("-datadir={}", self.data.path().display()))
            .arg(format!("-chain={}", self.chain))
            .arg(format!("-rpcport={}", self.rpc_port))
            .args(["-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1"])
            .args(DEFAULT_ARGS.iter().filter(|default| !given(default)))
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(output_file.try_clone().expect("a second handle"))
            .stderr(output_file)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be run: {error}", self.executable.display()));
        // kept at once, so that a panic below still ends the process
        self.process = Some(process);

        let ended = wait_for("the node to answer", START_TIMEOUT, || {
            if self.call("getblockchaininfo", &[]).is_ok() {
                return Some(None);
            }
            let process = self.process.as_mut().expect("just started");
            process.try_wait().expect("our own child").map(Some)
        });
        match ended {
            None => Ok(()),
            Some(status) => Err(format!("{status}: {}", fs::read_to_string(&output).unwrap_or_default().trim())),
        }
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The setting of a node that accepts this user and password, as Core's `share/rpcauth` makes it.
pub(crate) fn rpcauth(user: &str, password: &str) -> String {
    let mut code = HmacEngine::<sha256::Hash>::new(b"salt");
    code.input(password.as_bytes());
    format!("-rpcauth={user}:salt${:x}", Hmac::<sha256::Hash>::from_engine(code))
}

/// Asks again until there is an answer; panics when the time is over.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, timeout: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {timeout:?} for {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn executable() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BITCOIND_EXE") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "BITCOIND_EXE names no file: {}", path.display());
        return Some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("bitcoind")).find(|candidate| candidate.is_file())
}

/// `-rest=1`, `-norest` and `-rest` are one argument.
fn argument_name(arg: &str) -> &str {
    let name = arg.trim_start_matches('-').split('=').next().unwrap_or_default();
    name.strip_prefix("no").unwrap_or(name)
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("a bound socket").port()
}

#[test]
fn a_real_node_mines_restarts_and_reports_errors_with_codes() {
    let Some(mut node) = RealNode::start(&["-txindex=0"]) else { return };
    let address = node.wallet_address("bech32");
    node.mine_to(&address, 1);
    let tip = *node.mine(2).last().unwrap();
    node.restart_with(&[]);
    assert_eq!(node.must("getbestblockhash", &[]), json!(tip.to_string()));
    node.kill();
    assert_eq!(node.call("getblockcount", &[]).unwrap_err().code, None);
    node.start_again();
    let beyond_tip = node.call("getblockhash", &[json!(1000)]).unwrap_err();
    assert_eq!((beyond_tip.code, beyond_tip.message.as_str()), (Some(-8), "Block height out of range"));
    assert!(node.blocks_dir().is_dir());
}

#[test]
fn a_real_node_runs_on_mainnet_and_signet_too() {
    for chain in ["main", "signet"] {
        let Some(node) = RealNode::with_chain(chain, &[]) else { return };
        assert_eq!(node.must("getblockchaininfo", &[])["chain"], json!(chain));
    }
}

#[test]
fn a_real_node_takes_every_lock_time_that_its_wallet_may_pick() {
    let Some(node) = RealNode::start(&[]) else { return };
    let address = node.wallet_address("bech32");
    node.mine_to(&address, 101);
    let coin = &node.must("listunspent", &[])[0];
    let inputs = json!([{"txid": coin["txid"], "vout": coin["vout"], "sequence": 0xffff_fffd_u32}]);
    for lock_time in 0..=101 {
        let raw = node.must("createrawtransaction", &[inputs.clone(), json!([{ &address: 49.999 }]), json!(lock_time)]);
        let signed = node.must("signrawtransactionwithwallet", &[raw]);
        let answer = node.must("testmempoolaccept", &[json!([signed["hex"]])]);
        assert_eq!(answer[0]["allowed"], json!(true), "lock time {lock_time}: {answer}");
    }
}
