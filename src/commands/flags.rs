//! The flags that give settings. Each may precede or follow the command, and overrides file and environment.

use std::path::PathBuf;

use btcgraph::settings::{Flag, Platform, Sources};
use clap::Args;

/// Those settings that have a flag; the rest are set by file or environment. The settings
/// parse and check the values, so that every source is treated alike. Not `Debug`, because it may contain the password.
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on, each by its own name")]
#[derive(Args)]
#[command(next_help_heading = "Settings (`btcgraph config` prints all of them)")]
pub(super) struct Flags {
    /// Settings file that overrides the defaults
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Network to follow: mainnet, testnet3, testnet4, signet or regtest [default: mainnet]
    #[arg(long, global = true, value_name = "NAME")]
    network: Option<String>,
    /// Directory of btcgraph's files [default: in the platform's data directory]
    #[arg(long, global = true, value_name = "PATH")]
    data_dir: Option<String>,
    /// The node's RPC server [default: http://127.0.0.1 and the network's port]
    #[arg(long, global = true, value_name = "URL")]
    rpc_url: Option<String>,
    /// The node's cookie file [default: in the node's default data directory]
    #[arg(long, global = true, value_name = "PATH")]
    rpc_cookie: Option<String>,
    /// User at the node's RPC server, instead of the cookie
    #[arg(long, global = true, value_name = "NAME")]
    rpc_user: Option<String>,
    /// Password of that user; others on this machine can read it here, so prefer BTCGRAPH_NODE__RPC_PASSWORD
    #[arg(long, global = true, value_name = "PASSWORD")]
    rpc_password: Option<String>,
    /// The node's `blocks` directory [default: beside the cookie of a node on this machine]
    #[arg(long, global = true, value_name = "PATH")]
    blocks_dir: Option<String>,
    /// Where the node publishes its signals, tcp://HOST:PORT [default: as the node reports]
    #[arg(long, global = true, value_name = "URL")]
    zmq: Option<String>,
    /// Where the bytes of frozen transactions are stored: auto, index or node [default: auto]
    #[arg(long, global = true, value_name = "WHERE")]
    raw_transactions: Option<String>,
    /// Memory for the database's cache and import buffers [default: 1GiB]
    #[arg(long, global = true, value_name = "SIZE")]
    memory: Option<String>,
    /// Directory for temporary files of a first import and of `verify` [default: the index's directory]
    #[arg(long, global = true, value_name = "PATH")]
    temporary_dir: Option<String>,
    /// Let clients look up confirmed transactions by their wtxids
    #[arg(long, global = true)]
    wtxids: bool,
    /// Let searches find used addresses by their beginnings
    #[arg(long, global = true)]
    address_prefixes: bool,
    /// Let clients find OP_RETURN outputs by the beginning of their data
    #[arg(long, global = true)]
    op_returns: bool,
    /// Compute compact block filters, instead of those of the node
    #[arg(long, global = true)]
    block_filters: bool,
    /// IP address or name, and port to listen on; port 0 is any free one [default: 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,
    /// File to write the port to once the server listens
    #[arg(long, global = true, value_name = "PATH")]
    port_file: Option<String>,
    /// Let clients send transactions through the node
    #[arg(long, global = true)]
    broadcast: bool,
    /// Where `serve` listens for `notify`, `verify` and `metrics`: a path or 127.0.0.1:PORT [default: admin.sock beside the index]
    #[arg(long, global = true, value_name = "SOCKET")]
    admin: Option<String>,
    /// How log lines are written: human or json [default: human]
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Flags {
    /// The sources of this process's settings.
    pub(super) fn sources(self) -> Sources {
        Sources { environment: std::env::vars_os().collect(), ..self.sources_alone() }
    }

    /// As [`Flags::sources`], without the environment.
    pub(super) fn sources_alone(self) -> Sources {
        let given = [
            ("--network", "network", self.network),
            ("--data-dir", "data_dir", self.data_dir),
            ("--rpc-url", "node.rpc_url", self.rpc_url),
            ("--rpc-cookie", "node.rpc_cookie", self.rpc_cookie),
            ("--rpc-user", "node.rpc_user", self.rpc_user),
            ("--rpc-password", "node.rpc_password", self.rpc_password),
            ("--blocks-dir", "node.blocks_dir", self.blocks_dir),
            ("--zmq", "node.zmq", self.zmq),
            ("--raw-transactions", "index.raw_transactions", self.raw_transactions),
            ("--memory", "index.memory", self.memory),
            ("--temporary-dir", "index.temporary_dir", self.temporary_dir),
            ("--wtxids", "index.wtxids", self.wtxids.then(|| true.to_string())),
            ("--address-prefixes", "index.address_prefixes", self.address_prefixes.then(|| true.to_string())),
            ("--op-returns", "index.op_returns", self.op_returns.then(|| true.to_string())),
            ("--block-filters", "index.block_filters", self.block_filters.then(|| true.to_string())),
            ("--listen", "server.listen", self.listen),
            ("--port-file", "server.port_file", self.port_file),
            ("--broadcast", "api.broadcast", self.broadcast.then(|| true.to_string())),
            ("--admin", "admin.listen", self.admin),
            ("--log-format", "log.format", self.log_format),
        ];
        let flags = given.into_iter().filter_map(|(name, setting, value)| Some(Flag { name, setting, value: value? }));
        Sources {
            file: self.config,
            environment: Vec::new(),
            flags: flags.collect(),
            platform: Platform::of_this_user(),
        }
    }
}
