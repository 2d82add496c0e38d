//! The limits of webhooks. What an operator may want to change is a setting of the hook, between these bounds.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The most hooks of a server.
pub const HOOKS: usize = 100;
/// The most characters of a hook's name.
pub const NAME: usize = 64;
/// The most keys of a hook: the newest, and those that it replaces.
pub const KEYS: usize = 4;
/// The bytes that a key may have, as Standard Webhooks bounds them.
pub const KEY_BYTES: RangeInclusive<usize> = 24..=64;
/// The most bytes of the fields of an event, and the most brackets within each other.
pub const FIELDS: usize = 16 << 10;
/// The most brackets within each other in the fields of an event: the engine's parser recurses.
pub const FIELD_NESTING: usize = 64;
/// How often an event may be sent.
pub const ATTEMPTS: RangeInclusive<u32> = 1..=1_000;
/// The seconds of the first pause between attempts.
pub const BACKOFF_SECONDS: RangeInclusive<u32> = 1..=3_600;
/// The seconds of the longest pause between attempts.
pub const MAX_BACKOFF_SECONDS: RangeInclusive<u32> = 1..=86_400;
/// The seconds of connecting, and of one attempt.
pub const TIMEOUT_SECONDS: RangeInclusive<u32> = 1..=120;
/// The bytes of a response that are read. With more the connection is closed.
pub const RESPONSE_BYTES: usize = 4 << 10;
/// How long the body of a response is read: its status is known before.
pub(crate) const RESPONSE_BODY: Duration = Duration::from_secs(1);
/// After so long without a request a connection is not used again: what lies between may have forgotten it.
pub(crate) const IDLE: Duration = Duration::from_secs(20);
/// The bytes of dead letters of a hook. Beyond them its events are retried until they are delivered.
pub const DEAD_LETTER_BYTES: u64 = 64 << 20;
