//! A hook: what it watches, where it sends, and how often it tries.

use std::time::Duration;

use super::limits::NAME;
use super::signature::SigningKeys;
use crate::outbound::Target;

/// A webhook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Its name: of its files, in log lines, metrics and messages.
    pub name: String,
    /// Where its messages are sent.
    pub target: Target,
    /// The keys that sign them.
    pub keys: SigningKeys,
    /// What it watches.
    pub watch: HookWatch,
    /// The fields of an event in a message, as a selection set without braces. `None`: those of [`HookWatch::default_fields`].
    pub fields: Option<String>,
    /// Whether it may connect to private addresses.
    pub allow_private: bool,
    /// When it tries again, and how long it waits.
    pub timing: Timing,
}

/// What a hook watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookWatch {
    /// The blocks of the chain: `chainEvents`.
    Blocks,
    /// Addresses, scripts and wallets: `ledgerEvents`.
    Ledger {
        /// Addresses.
        addresses: Vec<String>,
        /// scriptPubKeys in hexadecimal.
        scripts: Vec<String>,
        /// Descriptors.
        descriptors: Vec<WatchedDescriptor>,
        /// The numbers of confirmations that are events.
        depths: Vec<u32>,
        /// The kinds of events; all if empty.
        kinds: Vec<String>,
    },
}

/// A descriptor that a hook watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedDescriptor {
    /// The descriptor.
    pub text: String,
    /// The number of unused scripts in a row at which a branch ends.
    pub gap_limit: u32,
}

/// When a hook tries again, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often an event is sent before it becomes a dead letter.
    pub attempts: u32,
    /// The pause after the first failure.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// How long resolving, connecting and the TLS handshake may take together.
    pub connect_timeout: Duration,
    /// How long an attempt may take, until the status of the response.
    pub timeout: Duration,
}

/// Text that is no name of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must have 1 to {NAME} lower-case letters, digits, dashes and underscores: files, metrics and messages have it"
)]
pub struct NotAHookName;

/// Whether a hook may have this name.
pub fn check_name(name: &str) -> Result<(), NotAHookName> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if (1..=NAME).contains(&name.len()) && name.bytes().all(is_allowed) { Ok(()) } else { Err(NotAHookName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_the_name_of_a_file() {
        for name in ["shop", "a", "0-_z", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "Shop", "a/b", "..", "a.b", "a b", "ü", &"x".repeat(65)] {
            assert_eq!(check_name(name), Err(NotAHookName), "{name}");
        }
    }
}
