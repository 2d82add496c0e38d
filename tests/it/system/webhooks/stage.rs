//! Hooks over a schema in this process, and a receiver.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::Block;
use btcgraph::limits::Limits;
use btcgraph::outbound::{Target, TlsConfig};
use btcgraph::sim::SimChain;
use btcgraph::webhooks::{Hook, HookMetrics, HookWatch, SigningKeys, Timing, Webhooks, WebhooksError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::receiver::{Received, SECRET};
use crate::support::api::Api;
use crate::support::bitcoind::wait_for;

/// A chain, the schema over it, and the files of hooks.
pub(super) struct Stage {
    pub(super) chain: SimChain,
    pub(super) api: Api,
    pub(super) directory: TempDir,
}

/// Hooks that deliver until this is dropped.
pub(super) struct Running {
    hooks: Webhooks,
    stop: CancellationToken,
    pub(super) metrics: Vec<Arc<HookMetrics>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.hooks.join();
    }
}

/// A hook that tries again soon.
pub(super) fn hook(name: &str, url: &str, watch: HookWatch) -> Hook {
    Hook {
        name: name.to_owned(),
        target: Target::parse(url).unwrap(),
        keys: SigningKeys::parse(SECRET).unwrap(),
        watch,
        fields: None,
        allow_private: true,
        timing: Timing {
            attempts: 1_000,
            backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(20),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
        },
    }
}

/// What a hook watches: these scripts.
pub(super) fn scripts(scripts: &[String], depths: &[u32], kinds: &[&str]) -> HookWatch {
    HookWatch::Ledger {
        addresses: Vec::new(),
        scripts: scripts.to_vec(),
        descriptors: Vec::new(),
        depths: depths.to_vec(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
    }
}

impl Stage {
    /// With so many blocks.
    pub(super) fn with_blocks(blocks: u32) -> Self {
        let mut chain = SimChain::new(7);
        chain.mine_empty(blocks).unwrap();
        let api = Api::of_chain(&chain);
        Self { chain, api, directory: tempfile::tempdir().unwrap() }
    }

    /// With the first block, and these limits of requests.
    pub(super) fn within(limits: &Limits) -> Self {
        let chain = SimChain::new(7);
        let api = Api::of_chain_within(&chain, *limits);
        Self { chain, api, directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The hooks, which do not deliver yet.
    pub(super) fn prepare(&self, hooks: Vec<Hook>) -> Result<Webhooks, WebhooksError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Webhooks::new(hooks, &self.api.schema, self.directory(), TlsConfig::of_system))
    }

    /// Delivers. Returns once each hook has a position.
    pub(super) fn deliver(&self, hooks: Vec<Hook>) -> Running {
        let names: Vec<_> = hooks.iter().map(|hook| hook.name.clone()).collect();
        let (mut hooks, stop) = (self.prepare(hooks).unwrap(), CancellationToken::new());
        let metrics = hooks.metrics().into_iter().map(|(_, metrics)| metrics).collect();
        hooks.start(stop.clone()).unwrap();
        let running = Running { hooks, stop, metrics };
        for name in names {
            wait_for("a position", Duration::from_mins(1), || self.position(&name));
        }
        running
    }

    /// The stored position of a hook.
    pub(super) fn position(&self, name: &str) -> Option<Value> {
        let text = std::fs::read(self.directory().join(format!("{name}.json"))).ok()?;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// The dead letters of a hook.
    pub(super) fn dead_letters(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory().join(format!("{name}.dead-letters.jsonl")));
        text.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Mines empty blocks and publishes each.
    pub(super) fn mine(&mut self, count: u32) -> Vec<Arc<Block>> {
        let blocks = self.chain.mine_empty(count).unwrap();
        for block in &blocks {
            self.api.connect(block);
        }
        blocks
    }
}

/// Type and height of messages about blocks.
pub(super) fn heights(messages: &[Received]) -> Vec<Value> {
    let short = |message: &Received| {
        let json = message.json();
        json!([json["type"], json["data"]["block"]["height"]])
    };
    messages.iter().map(short).collect()
}

/// The messages of blocks that join at these heights.
pub(super) fn connected(heights: impl IntoIterator<Item = u32>) -> Vec<Value> {
    heights.into_iter().map(|height| json!(["chain.block_connected", height])).collect()
}
