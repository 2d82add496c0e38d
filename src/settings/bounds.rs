//! The lowest and highest value of every number but the limits of clients, which [`crate::limits`] declares.

use std::ops::RangeInclusive;

use config::ValueKind;

use super::effective::Settings;
use super::error::SettingsError;
use super::layers::Merged;
use super::values::ByteSize;

/// The most of `index.memory` where the memory of the machine is not known.
const MEMORY: ByteSize = ByteSize::new(1 << 40);

/// The highest value of a number without another bound.
const HIGHEST: i64 = u32::MAX as i64;

/// Every whole number with its bounds.
const NUMBERS: [(&str, RangeInclusive<i64>); 22] = [
    ("node.timeout_seconds", 1..=3_600),
    ("node.patience_seconds", 0..=86_400),
    // a node takes 16 requests at once unless its rpcthreads says otherwise; beyond some hundred its disk is the limit
    ("node.connections", 1..=256),
    ("node.poll_seconds", 1..=86_400),
    ("sync.lost_block_seconds", 0..=31_536_000),
    // blocks that are not frozen are some ten times as large as frozen ones
    ("index.freeze_depth", 0..=100_000),
    ("index.freeze_every", 1..=100_000),
    ("index.freeze_transactions", 1..=HIGHEST),
    // each is kept whole: on mainnet 1.5 MB or more
    ("index.stale_blocks", 0..=1_000_000),
    ("index.reorgs", 0..=1_000_000),
    // mainnet has some 1.3 thousand million transactions
    ("index.first_seen", 0..=4_000_000_000),
    ("index.observed_blocks", 0..=10_000_000),
    // these two are in memory
    ("mempool.departed", 0..=10_000_000),
    ("mempool.events", 0..=10_000_000),
    ("mempool.history_days", 0..=36_500),
    // no block is heavier, and each holds at least one transaction of usual size
    ("mempool.block_weight", 4_000..=4_000_000),
    ("server.anonymous_cost_per_minute", 0..=HIGHEST),
    ("server.ready_blocks", 0..=HIGHEST),
    ("server.ready_seconds", 1..=86_400),
    ("rates.refresh_seconds", 60..=86_400),
    ("rates.max_age_seconds", 1..=HIGHEST),
    // shorter, and an object could be removed while another publisher uploads what its manifest names
    ("publish.keep_days", 1..=3_650),
];

/// Refuses a number that is too small or too large. Must precede [`Merged::read`], whose errors name types of Rust.
pub(super) fn check_numbers(merged: &Merged) -> Result<(), SettingsError> {
    for (setting, bounds) in &NUMBERS {
        let Some((ValueKind::I64(value), origin)) = merged.get(setting) else { continue };
        if !bounds.contains(value) {
            let reason = format!("must be from {} to {}, not {value}", bounds.start(), bounds.end());
            return Err(SettingsError::invalid(setting, origin, reason));
        }
    }
    Ok(())
}

/// Refuses a size that is too small or too large. `memory` is what the machine has, if that is known.
pub(super) fn check_sizes(settings: &Settings, merged: &Merged, memory: Option<ByteSize>) -> Result<(), SettingsError> {
    let highest = memory.unwrap_or(MEMORY);
    for (setting, value, lowest) in [
        ("index.memory", settings.index.memory, ByteSize::new(1 << 20)),
        // in memory
        ("mempool.departed_bytes", settings.mempool.departed_bytes, ByteSize::new(0)),
    ] {
        if !(lowest.to_bytes()..=highest.to_bytes()).contains(&value.to_bytes()) {
            let reason = format!("must be from {lowest} to {highest}, not {value}");
            return Err(SettingsError::invalid(setting, &merged.origin(setting), reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::defaults::defaults;
    use super::super::limits;
    use super::*;

    #[test]
    fn every_number_but_the_limits_has_bounds_around_its_default() {
        let merged = Merged::defaults(defaults()).unwrap();
        let is_number = |setting: &&str| matches!(merged.get(setting), Some((ValueKind::I64(_), _)));
        let numbers: BTreeSet<_> = merged.settings().filter(is_number).collect();
        let limits: BTreeSet<_> = numbers.iter().filter(|setting| limits::declaration(setting).is_some()).collect();
        assert!(!limits.is_empty(), "the defaults contain the limits");
        let others: BTreeSet<_> = numbers.iter().copied().filter(|setting| !limits.contains(setting)).collect();
        assert_eq!(others, NUMBERS.iter().map(|(setting, _)| *setting).collect());
        check_numbers(&merged).unwrap();
    }
}
