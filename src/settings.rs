//! The settings: what there is to set, where it is taken from, and the defaults that depend on the network and the
//! platform.
//!
//! `settings/defaults.toml` is compiled in. With the limits of [`crate::limits`], which are written into it, it documents
//! every setting and says which ones exist; the structs here give each its type. [`Settings::load`] lays file, environment and flags over it and works out what was left empty.
//! Only `main` and its commands know the settings; a room is handed what it needs.

mod admin;
mod bounds;
mod check;
mod error;
mod layers;
mod limits;
mod listen;
mod node;
mod platform;
mod print;
mod server;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use bitcoin::Network;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chain::network;
use crate::limits::Limits;

pub use admin::{AdminAddress, NotAnAdminAddress};
pub use error::SettingsError;
pub use layers::{Flag, Origin};
pub use listen::{ListenAddress, NotAListenAddress};
pub use node::{NodeAuth, NodeSettings};
pub use platform::Platform;
pub use server::ServerSettings;
pub use values::{ByteSize, LogFormat, MASK, NotASalt, NotASize, RawTransactions, Salt, Secret};

static DEFAULTS: LazyLock<String> = LazyLock::new(|| limits::document(include_str!("settings/defaults.toml")));

/// The defaults file: every setting with its default and its meaning.
#[must_use]
pub fn defaults() -> &'static str {
    &DEFAULTS
}

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
    /// Following the node.
    pub sync: SyncSettings,
    /// The mempool.
    pub mempool: MempoolSettings,
    /// The GraphQL server.
    pub server: ServerSettings,
    /// What the API lets clients do.
    pub api: ApiSettings,
    /// What runs the server, on this machine alone.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
    /// The limits that the server enforces on clients.
    #[serde(skip)]
    pub limits: Limits,
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

/// Following the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SyncSettings {
    /// For how many seconds a block is awaited that was announced before a crash took it back; 0 for not at all.
    pub lost_block_seconds: u32,
}

impl SyncSettings {
    /// For how long a block is awaited that was announced before a crash took it back.
    #[must_use]
    pub fn lost_block_patience(&self) -> Duration {
        Duration::from_secs(self.lost_block_seconds.into())
    }
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
        let mut merged = layers::Merged::defaults(defaults())?;
        if let Some(path) = &sources.file {
            let path = sources.platform.as_ref().map_or_else(|| path.clone(), |p| platform::expand_home(path, &p.home));
            merged.add_file(&path)?;
        }
        merged.add_environment(&sources.environment)?;
        merged.add_flags(&sources.flags)?;
        let mut settings: Settings = merged.read()?;
        settings.limits = limits::read(&merged)?;
        bounds::check(&settings, &merged, sources.platform.as_ref().and_then(|platform| platform.memory))?;
        check::check(&settings, &merged)?;
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

    /// For how long the node's last report of its newest block is taken to be true.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.server.ready_seconds.into())
    }

    /// How often the node is asked for its newest block: as `node.poll_seconds` says, and at least twice in the time for
    /// which its last report is taken to be true.
    #[must_use]
    pub fn poll(&self) -> Duration {
        Duration::from_secs(self.node.poll_seconds.into()).min(self.longest_silence() / 2)
    }

    /// The settings as a documented TOML file, secrets masked.
    pub fn to_documented_toml(&self) -> Result<String, SettingsError> {
        print::print(self).map_err(|error| SettingsError::Defaults(error.to_string()))
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

fn network_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Network, D::Error> {
    network::from_name(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn name_of_network<S: Serializer>(network: &Network, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(network::name(*network))
}

#[cfg(test)]
mod tests;
