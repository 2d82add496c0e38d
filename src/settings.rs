//! The settings: what there is to set, where it is taken from, and the defaults that depend on the network and the
//! platform.
//!
//! `settings/defaults.toml` is compiled in. It documents every setting and says which ones exist; the structs here
//! give each its type. [`Settings::load`] lays file, environment and flags over it and works out what was left empty.
//! Only `main` and its commands know the settings; a room is handed what it needs.

mod admin;
mod layers;
mod platform;
mod print;
mod values;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::Network;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chain::network;
use crate::server::{Hosts, Origins, Proxies, Tokens};

pub use admin::{AdminAddress, NotAnAdminAddress};
pub use layers::{Flag, Origin};
pub use platform::Platform;
pub use values::{ByteSize, LogFormat, MASK, NotASalt, NotASize, RawTransactions, Salt, Secret};

/// The defaults file: every setting with its default and its meaning.
pub const DEFAULTS: &str = include_str!("settings/defaults.toml");

/// The settings in effect, with nothing left to work out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The network to follow.
    #[serde(deserialize_with = "network_by_name", serialize_with = "name_of_network")]
    pub network: Network,
    /// Holds one folder a network, see [`Settings::network_dir`].
    pub data_dir: PathBuf,
    /// The node that is followed.
    pub node: NodeSettings,
    /// The index.
    pub index: IndexSettings,
    /// The mempool.
    pub mempool: MempoolSettings,
    /// The GraphQL server.
    pub server: ServerSettings,
    /// What clients may keep of answers.
    pub cache: CacheSettings,
    /// What the API lets clients do.
    pub api: ApiSettings,
    /// What runs the server, on this machine alone.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
}

/// The node that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSettings {
    /// Address of the RPC server, without credentials.
    pub rpc_url: String,
    /// The node's authentication cookie; empty if `rpc_user` is set.
    pub rpc_cookie: PathBuf,
    /// User name; empty if the cookie is used.
    pub rpc_user: String,
    /// Password of `rpc_user`.
    pub rpc_password: Secret,
    /// Where the node publishes what happens; empty: where it says, when it is asked.
    pub zmq: String,
    /// How long to wait for one answer, in seconds.
    pub timeout_seconds: u32,
    /// How long a request that could not reach the node is repeated, in seconds.
    pub patience_seconds: u32,
    /// How many requests are open at once while catching up.
    pub connections: usize,
    /// How often the node is asked for its tip, in seconds.
    pub poll_seconds: u32,
}

/// How btcgraph proves to the node who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAuth {
    /// By the content of the cookie file, which the node writes anew at each start.
    Cookie(PathBuf),
    /// By a user name and its password.
    Password(String, Secret),
}

impl NodeSettings {
    /// How to authenticate to the node.
    #[must_use]
    pub fn auth(&self) -> NodeAuth {
        if self.rpc_user.is_empty() {
            NodeAuth::Cookie(self.rpc_cookie.clone())
        } else {
            NodeAuth::Password(self.rpc_user.clone(), self.rpc_password.clone())
        }
    }

    /// Where the node publishes what happens, if that is set.
    #[must_use]
    pub fn zmq(&self) -> Option<&str> {
        Some(self.zmq.as_str()).filter(|endpoint| !endpoint.is_empty())
    }

    /// How long to wait for one answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }

    /// How often the node is asked for its tip.
    #[must_use]
    pub fn poll(&self) -> Duration {
        Duration::from_secs(self.poll_seconds.into())
    }
}

/// The index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// Where the bytes of transactions are kept.
    pub raw_transactions: RawTransactions,
    /// For the database's cache and the buffers of an import together.
    pub memory: ByteSize,
    /// How many blocks that left the main chain are kept.
    pub stale_blocks: u32,
    /// How many reorganisations are kept.
    pub reorgs: u32,
    /// How many times are kept at which confirmed transactions were first seen.
    pub first_seen: u32,
    /// Of the script keys of a new index.
    pub salt: Salt,
}

/// What is remembered of the mempool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MempoolSettings {
    /// How many transactions that left it without being mined.
    pub departed: u32,
    /// How much of these transactions themselves; of older ones only the figures.
    pub departed_bytes: ByteSize,
    /// How many of its events can be read again.
    pub events: u32,
    /// For how many days a sample a minute is kept.
    pub history_days: u32,
}

/// The GraphQL server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on or off, each by its own name")]
pub struct ServerSettings {
    /// Where to listen; port 0 is any free port.
    pub listen: std::net::SocketAddr,
    /// Where to write the port once the server listens; empty for nowhere.
    pub port_file: PathBuf,
    /// Whether there is a page to try the API in a browser.
    pub playground: bool,
    /// The largest request body.
    pub max_body: ByteSize,
    /// The largest websocket message.
    pub max_message: ByteSize,
    /// The longest query.
    pub max_query: ByteSize,
    /// About how much memory parsed queries may take that are kept to be executed again.
    pub document_cache: ByteSize,
    /// About how much memory the parsed queries and the variables of all subscriptions may take together.
    pub subscription_documents: ByteSize,
    /// About how much memory queries may take that clients name by their hashes; none for none.
    pub persisted_queries: ByteSize,
    /// The most queries and mutations executed at once.
    pub max_executions: usize,
    /// The most that wait for their turn.
    pub max_waiting: usize,
    /// How long one may take, the wait included, in seconds.
    pub timeout_seconds: u32,
    /// The web pages that may ask.
    pub origins: Origins,
    /// The names under which the server answers, beside those of this machine and its address.
    pub hosts: Hosts,
    /// The most requests of one client in a minute; 0 for any number.
    pub max_requests_per_minute: u32,
    /// The proxies that tell which client asks.
    pub trusted_proxies: Proxies,
    /// The tokens of clients, by their hashes.
    pub tokens: Tokens,
    /// Whether nobody is answered without one.
    pub require_token: bool,
    /// What a client without a token may spend a minute; 0 for any.
    pub anonymous_cost_per_minute: u32,
    /// Whether a client without a token may send transactions, if `api.broadcast` is set.
    pub anonymous_broadcast: bool,
    /// Whether the metrics are at the public address, too.
    pub metrics: bool,
    /// How many blocks the node may be ahead of a server that is ready.
    pub ready_blocks: u32,
    /// How long the node may be silent while a server counts as ready, in seconds.
    pub ready_seconds: u32,
    /// The most tokens in a query.
    pub max_tokens: usize,
    /// How deep the brackets of a query may nest.
    pub max_nesting: usize,
    /// The most fields and fragments a query may select, fragments expanded.
    pub max_selections: usize,
    /// The most aliases in a query.
    pub max_aliases: usize,
    /// The most fields on the root of a query.
    pub max_root_fields: usize,
    /// The most directives in a query.
    pub max_directives: usize,
    /// The most fields about the schema itself in a query.
    pub max_introspection: usize,
    /// The most values in the variables and extensions of a request.
    pub max_values: usize,
    /// How deep the fields of a query may nest.
    pub max_depth: usize,
    /// The most fields an answer may have, every page taken as full.
    pub max_complexity: usize,
    /// The most items on one page of a list; above 1,000 it counts as 1,000.
    pub max_page_size: u32,
    /// The most bytes of transactions that one answer may read and tell.
    pub max_transaction_bytes: ByteSize,
    /// The most rows that one page reads while it looks for those that a filter lets through.
    pub max_scan_rows: u32,
    /// The most ids, hashes or txids in one list of a request.
    pub max_ids: usize,
    /// The most block headers in one list.
    pub max_headers: u32,
    /// The most points of one series over time.
    pub max_points: u32,
    /// The most addresses and scripts, transactions, or outputs that one subscription follows.
    pub max_watch: usize,
    /// The most requests to the node at once, of all clients together.
    pub max_node_requests: usize,
    /// How long a client's question to the node may take, in seconds.
    pub node_timeout_seconds: u32,
    /// Whether clients may ask the node for the block that it would make next.
    pub block_template: bool,
    /// The most operations open at once on one websocket.
    pub max_operations_per_socket: usize,
    /// The most websockets and streams of events at once.
    pub max_sockets: usize,
    /// How long the client of a websocket may take to introduce itself, in seconds.
    pub socket_init_timeout_seconds: u32,
    /// How often the client of a websocket or a stream of events is told that the server is there, in seconds.
    pub socket_ping_seconds: u32,
    /// The most of them that one client may have; 0 for as many as there are.
    pub max_sockets_per_client: usize,
    /// How long a message of a websocket may take from its first byte to its last, in seconds.
    pub socket_message_timeout_seconds: u32,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most connections of one client; 0 for as many as there are.
    pub max_connections_per_client: usize,
    /// Whether clients on this machine are held to what one client may have of connections and sockets.
    pub limit_loopback: bool,
    /// How long the head of a request may take, in seconds.
    pub header_timeout_seconds: u32,
    /// How long a connection may have nothing to do, in seconds.
    pub idle_timeout_seconds: u32,
    /// How long the body of a request may take, in seconds.
    pub body_timeout_seconds: u32,
    /// How long a client may take no byte of what is sent to it, in seconds.
    pub write_timeout_seconds: u32,
    /// The least bytes a second that a client has to send of a body, and to take of what is sent to it; 0 for any number.
    pub min_bytes_per_second: u32,
    /// About how much memory may be held for clients: bodies on their way in, and answers until they are read.
    pub max_held: ByteSize,
}

impl ServerSettings {
    /// Where to write the port once the server listens.
    #[must_use]
    pub fn port_file(&self) -> Option<&Path> {
        Some(self.port_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}

/// What clients, and what is between them and the server, may keep of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// How many blocks must be on top of one before what is told of it is told to last for ever.
    pub depth: u32,
}

/// What the API lets clients do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// Whether transactions can be sent.
    pub broadcast: bool,
}

/// The socket of `serve` that commands talk to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdminSettings {
    /// Where it is.
    pub listen: AdminAddress,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// How lines are written.
    pub format: LogFormat,
    /// Which events are told, as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

/// What settings are loaded from, beside the defaults. Holds secrets as they were given, so it cannot be printed.
#[derive(Clone, Default)]
pub struct Sources {
    /// A settings file.
    pub file: Option<PathBuf>,
    /// The environment; variables that do not begin with `BTCGRAPH_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// What was given on the command line.
    pub flags: Vec<Flag>,
    /// The directories of this user, `None` if unknown.
    pub platform: Option<Platform>,
}

impl Settings {
    /// The settings that `sources` give. Names the setting and the place that gave it in every error.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut merged = layers::Merged::defaults(DEFAULTS)?;
        if let Some(path) = &sources.file {
            let path = sources.platform.as_ref().map_or_else(|| path.clone(), |p| platform::expand_home(path, &p.home));
            merged.add_file(&path)?;
        }
        merged.add_environment(&sources.environment)?;
        merged.add_flags(&sources.flags)?;
        let settings: Settings = merged.read()?;
        settings.check(&merged)?;
        settings.work_out(sources.platform.as_ref())
    }

    /// The folder of the network that is followed.
    #[must_use]
    pub fn network_dir(&self) -> PathBuf {
        self.data_dir.join(network::name(self.network))
    }

    /// The index's database file.
    #[must_use]
    pub fn index_file(&self) -> PathBuf {
        self.network_dir().join("index.redb")
    }

    /// The settings as a documented TOML file, secrets masked.
    pub fn to_documented_toml(&self) -> Result<String, SettingsError> {
        print::print(self).map_err(|error| SettingsError::Defaults(error.to_string()))
    }

    /// Refuses what no type refuses.
    fn check(&self, merged: &layers::Merged) -> Result<(), SettingsError> {
        let invalid =
            |setting: &str, reason: &str| Err(SettingsError::invalid(setting, &merged.origin(setting), reason));
        let (node, server) = (&self.node, &self.server);
        for (setting, is_zero) in [
            ("cache.depth", self.cache.depth == 0),
            ("node.timeout_seconds", node.timeout_seconds == 0),
            ("node.connections", node.connections == 0),
            ("node.poll_seconds", node.poll_seconds == 0),
            ("server.max_body", server.max_body.to_bytes() == 0),
            ("server.max_message", server.max_message.to_bytes() == 0),
            ("server.max_query", server.max_query.to_bytes() == 0),
            ("server.max_tokens", server.max_tokens == 0),
            ("server.max_nesting", server.max_nesting == 0),
            ("server.max_depth", server.max_depth == 0),
            ("server.max_selections", server.max_selections == 0),
            ("server.max_root_fields", server.max_root_fields == 0),
            ("server.max_complexity", server.max_complexity == 0),
            ("server.max_page_size", server.max_page_size == 0),
            ("server.max_scan_rows", server.max_scan_rows == 0),
            ("server.max_ids", server.max_ids == 0),
            ("server.max_headers", server.max_headers == 0),
            ("server.max_points", server.max_points == 0),
            ("server.max_watch", server.max_watch == 0),
            ("server.ready_seconds", server.ready_seconds == 0),
            ("server.max_node_requests", server.max_node_requests == 0),
            ("server.max_executions", server.max_executions == 0),
            ("server.timeout_seconds", server.timeout_seconds == 0),
            ("server.node_timeout_seconds", server.node_timeout_seconds == 0),
            ("server.max_transaction_bytes", server.max_transaction_bytes.to_bytes() == 0),
            ("server.max_operations_per_socket", server.max_operations_per_socket == 0),
            ("server.max_sockets", server.max_sockets == 0),
            ("server.socket_init_timeout_seconds", server.socket_init_timeout_seconds == 0),
            ("server.socket_ping_seconds", server.socket_ping_seconds == 0),
            ("server.socket_message_timeout_seconds", server.socket_message_timeout_seconds == 0),
            ("server.max_connections", server.max_connections == 0),
            ("server.header_timeout_seconds", server.header_timeout_seconds == 0),
            ("server.idle_timeout_seconds", server.idle_timeout_seconds == 0),
            ("server.body_timeout_seconds", server.body_timeout_seconds == 0),
            ("server.write_timeout_seconds", server.write_timeout_seconds == 0),
        ] {
            if is_zero {
                return invalid(setting, "must be at least 1");
            }
        }
        if self.index.memory < ByteSize::new(1 << 20) {
            return invalid("index.memory", "must be at least 1MiB");
        }
        if node.rpc_url.contains('@') {
            return invalid(
                "node.rpc_url",
                "must not hold a user and password: set node.rpc_user and node.rpc_password",
            );
        }
        if !node.rpc_url.is_empty() && !node.rpc_url.starts_with("http://") {
            return invalid("node.rpc_url", "must begin with http:// (Bitcoin Core's RPC server speaks nothing else)");
        }
        if node.zmq().is_some_and(|endpoint| !endpoint.starts_with("tcp://")) {
            return invalid("node.zmq", "must be of the form tcp://host:port");
        }
        let (cookie, user) = (!node.rpc_cookie.as_os_str().is_empty(), !node.rpc_user.is_empty());
        if cookie && user {
            let reason =
                format!("node.rpc_user is set too, by {}: set only one of them", merged.origin("node.rpc_user"));
            return invalid("node.rpc_cookie", &reason);
        }
        if user == node.rpc_password.is_empty() {
            let (there, missing) =
                if user { ("node.rpc_user", "node.rpc_password") } else { ("node.rpc_password", "node.rpc_user") };
            return invalid(there, &format!("{missing} has to be set with it"));
        }
        Ok(())
    }

    /// Fills in what was left empty to be worked out.
    fn work_out(mut self, platform: Option<&Platform>) -> Result<Self, SettingsError> {
        if let Some(Platform { home, .. }) = platform {
            let paths = [&mut self.data_dir, &mut self.node.rpc_cookie, &mut self.server.port_file];
            for path in paths.into_iter().chain(self.admin.listen.path_mut()) {
                *path = platform::expand_home(path, home);
            }
        }
        let known = |setting| platform.ok_or(SettingsError::NoHome { setting });
        if self.data_dir.as_os_str().is_empty() {
            self.data_dir.clone_from(&known("data_dir")?.data);
        }
        if self.admin.listen.is_empty() {
            self.admin.listen = AdminAddress::default_in(&self.network_dir());
        }
        if self.node.rpc_url.is_empty() {
            self.node.rpc_url = platform::rpc_url(self.network);
        }
        if self.node.rpc_cookie.as_os_str().is_empty() && self.node.rpc_user.is_empty() {
            self.node.rpc_cookie = known("node.rpc_cookie")?.node_cookie(self.network);
        }
        Ok(self)
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("cannot read the settings file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The settings file is not TOML.
    #[error("{origin} is not TOML: {reason}")]
    Syntax {
        /// The file.
        origin: Origin,
        /// What is wrong, and where.
        reason: String,
    },
    /// There is no such setting.
    #[error("there is no setting {setting:?} (given by {origin}){}",
        nearest.as_ref().map_or(String::new(), |name| format!("; did you mean {name:?}?")))]
    Unknown {
        /// The name that was given.
        setting: String,
        /// Who gave it.
        origin: Origin,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// A setting has a value that it cannot have.
    #[error("the setting {setting}, given by {origin}: {reason}")]
    Invalid {
        /// The setting.
        setting: String,
        /// Who gave it.
        origin: Origin,
        /// What is wrong with it.
        reason: String,
    },
    /// A default lies in the user's home directory, which is not known.
    #[error("this user has no home directory to find a default for the setting {setting} in: set it")]
    NoHome {
        /// The setting.
        setting: &'static str,
    },
    /// The defaults file and the types of the settings do not fit each other: a mistake in btcgraph.
    #[error("btcgraph's own defaults are broken: {0}")]
    Defaults(String),
}

impl SettingsError {
    fn invalid(setting: &str, origin: &Origin, reason: impl Into<String>) -> Self {
        SettingsError::Invalid { setting: setting.to_owned(), origin: origin.clone(), reason: reason.into() }
    }
}

fn network_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Network, D::Error> {
    network::from_name(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn name_of_network<S: Serializer>(network: &Network, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(network::name(*network))
}

#[cfg(test)]
mod tests;
