//! The time as the mempool stores it.

use std::time::SystemTime;

/// Seconds since 1970.
pub(super) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The current time in seconds since 1970.
pub(in crate::sync) fn now() -> u64 {
    seconds(SystemTime::now())
}
