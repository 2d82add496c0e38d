//! The time of the clock, as messages have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
