//! The lowest and highest value of every number but the limits of clients, which [`crate::limits`] declares.

use super::Settings;
use super::error::SettingsError;
use super::layers::Merged;
use super::values::ByteSize;

/// The most of `index.memory` where the memory of the machine is not known.
const MEMORY: ByteSize = ByteSize::new(1 << 40);

/// A setting with its value and what it must be between.
struct Bounded {
    setting: &'static str,
    value: u64,
    least: u64,
    most: u64,
    /// Whether these are sizes in bytes.
    is_size: bool,
}

impl Bounded {
    fn number(setting: &'static str, value: impl Into<u64>, least: u64, most: u64) -> Self {
        Self { setting, value: value.into(), least, most, is_size: false }
    }

    fn size(setting: &'static str, value: ByteSize, least: ByteSize, most: ByteSize) -> Self {
        let [value, least, most] = [value, least, most].map(ByteSize::to_bytes);
        Self { setting, value, least, most, is_size: true }
    }

    fn write(&self, number: u64) -> String {
        if self.is_size { ByteSize::new(number).to_string() } else { number.to_string() }
    }
}

/// Every number that is checked here. `memory` is what the machine has, if that is known.
fn all(settings: &Settings, memory: Option<ByteSize>) -> [Bounded; 14] {
    let Settings { node, sync, index, mempool, server, .. } = settings;
    let connections = u64::try_from(node.connections).unwrap_or(u64::MAX);
    [
        Bounded::number("node.timeout_seconds", node.timeout_seconds, 1, 3_600),
        Bounded::number("node.patience_seconds", node.patience_seconds, 0, 86_400),
        // a node takes 16 requests at once unless its rpcthreads says otherwise; beyond some hundred its disk is the limit
        Bounded::number("node.connections", connections, 1, 256),
        Bounded::number("node.poll_seconds", node.poll_seconds, 1, 86_400),
        Bounded::number("sync.lost_block_seconds", sync.lost_block_seconds, 0, 31_536_000),
        Bounded::size("index.memory", index.memory, ByteSize::new(1 << 20), memory.unwrap_or(MEMORY)),
        // each is kept whole: on mainnet 1.5 MB or more
        Bounded::number("index.stale_blocks", index.stale_blocks, 0, 1_000_000),
        Bounded::number("index.reorgs", index.reorgs, 0, 1_000_000),
        // mainnet has some 1.3 thousand million transactions
        Bounded::number("index.first_seen", index.first_seen, 0, 4_000_000_000),
        // these three are in memory
        Bounded::number("mempool.departed", mempool.departed, 0, 10_000_000),
        Bounded::size("mempool.departed_bytes", mempool.departed_bytes, ByteSize::new(0), memory.unwrap_or(MEMORY)),
        Bounded::number("mempool.events", mempool.events, 0, 10_000_000),
        Bounded::number("mempool.history_days", mempool.history_days, 0, 36_500),
        Bounded::number("server.ready_seconds", server.ready_seconds, 1, 86_400),
    ]
}

/// Refuses a number that is too small or too large.
pub(super) fn check(settings: &Settings, merged: &Merged, memory: Option<ByteSize>) -> Result<(), SettingsError> {
    let wrong = all(settings, memory).into_iter().find(|number| !(number.least..=number.most).contains(&number.value));
    let Some(number) = wrong else { return Ok(()) };
    let [value, least, most] = [number.value, number.least, number.most].map(|bound| number.write(bound));
    let reason = format!("must be from {least} to {most}, not {value}");
    Err(SettingsError::invalid(number.setting, &merged.origin(number.setting), reason))
}
