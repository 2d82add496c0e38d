//! The settings in effect: the whole, and the sections without a file of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::Network;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::admin::AdminAddress;
use super::node::NodeSettings;
use super::rates::RatesSettings;
use super::server::ServerSettings;
use super::values::{ByteSize, LogFormat, RawTransactions, Salt};
use super::webhooks::WebhookSettings;
use crate::chain::network;
use crate::limits::Limits;

/// The settings in effect, with all values derived.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The network to follow.
    #[serde(deserialize_with = "network_by_name", serialize_with = "name_of_network")]
    pub network: Network,
    /// Has one folder for each network, see [`Settings::network_dir`].
    pub data_dir: PathBuf,
    /// The webhooks.
    pub webhook: Vec<WebhookSettings>,
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
    /// Features of the API.
    pub api: ApiSettings,
    /// Prices of a bitcoin.
    pub rates: RatesSettings,
    /// Publishing the index.
    pub publish: PublishSettings,
    /// The admin socket.
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
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on or off, each by its own name")]
pub struct IndexSettings {
    /// Where the bytes of frozen transactions are stored.
    pub raw_transactions: RawTransactions,
    /// For the database's cache and the buffers of an import together.
    pub memory: ByteSize,
    /// The directory for temporary files.
    pub temporary_dir: PathBuf,
    /// How many of the newest blocks are not frozen.
    pub freeze_depth: u32,
    /// How many blocks are frozen at a time, unless fewer have `freeze_transactions`.
    pub freeze_every: u32,
    /// How many transactions at least are frozen at a time at the tip.
    pub freeze_transactions: u64,
    /// How many blocks that left the main chain are stored.
    pub stale_blocks: u32,
    /// How many reorganisations are stored.
    pub reorgs: u32,
    /// For how many confirmed transactions the time they were first seen is stored.
    pub first_seen: u32,
    /// For how many blocks it is stored when they were first seen, and how they compare with the projected ones.
    pub observed_blocks: u32,
    /// Mining pools beside the known ones; empty for none.
    pub pools_file: PathBuf,
    /// Whether confirmed transactions can be looked up by their wtxids.
    pub wtxids: bool,
    /// Whether searches find used addresses by their beginnings.
    pub address_prefixes: bool,
    /// Whether OP_RETURN outputs are found by the beginning of their data.
    pub op_returns: bool,
    /// Whether the server computes compact block filters itself.
    pub block_filters: bool,
    /// Of the script keys of a new index.
    pub salt: Salt,
}

impl IndexSettings {
    /// The file of mining pools.
    #[must_use]
    pub fn pools_file(&self) -> Option<&Path> {
        Some(self.pools_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}

/// Following the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SyncSettings {
    /// How long the server waits for a block that it announced before a crash removed it, in seconds; 0 for no wait.
    pub lost_block_seconds: u32,
}

impl SyncSettings {
    /// How long the server waits for a block that it announced before a crash removed it.
    #[must_use]
    pub fn lost_block_patience(&self) -> Duration {
        Duration::from_secs(self.lost_block_seconds.into())
    }
}

/// The stored history of the mempool, and projected blocks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MempoolSettings {
    /// How many transactions that left the mempool without being mined.
    pub departed: u32,
    /// How many bytes of their raw data; for older ones only the figures.
    pub departed_bytes: ByteSize,
    /// How many mempool events, for subscriptions that continue from a cursor.
    pub events: u32,
    /// For how many days the samples are stored, one a minute.
    pub history_days: u32,
    /// The maximum weight of the transactions of a projected block, in weight units.
    pub block_weight: u32,
}

/// Features of the API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// Whether clients can send transactions.
    pub broadcast: bool,
}

/// Publishing the index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PublishSettings {
    /// For how many days objects stay that no manifest names any more.
    pub keep_days: u32,
}

impl PublishSettings {
    /// How long objects stay that no manifest names any more.
    #[must_use]
    pub fn keep(&self) -> Duration {
        Duration::from_hours(24 * u64::from(self.keep_days))
    }
}

/// The socket where `serve` receives commands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdminSettings {
    /// Its address.
    pub listen: AdminAddress,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// The format of lines.
    pub format: LogFormat,
    /// What is logged, as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

impl Settings {
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

    /// The directory of what `publish` keeps between two times.
    #[must_use]
    pub fn publishing_dir(&self) -> PathBuf {
        self.network_dir().join("index.publishing")
    }

    /// The directory of the webhooks' files.
    #[must_use]
    pub fn webhooks_dir(&self) -> PathBuf {
        self.network_dir().join(crate::webhooks::DIRECTORY)
    }

    /// How long the node's last report of its newest block counts as current.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.server.ready_seconds.into())
    }

    /// The interval of asking the node for its newest block: `node.poll_seconds`, or half of the time for which its last
    /// report counts as current, if that is shorter.
    #[must_use]
    pub fn poll(&self) -> Duration {
        Duration::from_secs(self.node.poll_seconds.into()).min(self.longest_silence() / 2)
    }
}

fn network_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Network, D::Error> {
    network::from_name(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn name_of_network<S: Serializer>(network: &Network, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(network::name(*network))
}
