//! The request extension `waitForTip`: a request that is not executed before the server has a block.
//!
//! ```text
//!   "extensions": { "waitForTip": { "hash": "…", "timeoutMs": 5000 } }      or "height": 800000
//!                                                                          or "tip": "800000:…"
//!                                                                          or "after": "…"
//!   X-Btcgraph-Tip: 800000:…      as "tip", over HTTP
//!
//!   request ──► the block is there? ──► executed, from a state that has it
//!                  │ no: next change        (for a subscription: the state that it begins with)
//!                  └── time is over ──► TIP_NOT_REACHED, nothing executed
//! ```
//!
//! For a client that has seen a block elsewhere, with another server or the node itself, and must not be answered from before
//! it: the client does not accept an older state, so the request is refused instead. With `tip`, for a client of
//! several servers: each answer names its block in this form, and the next request carries it. With `after`, for one that
//! polls for the next block.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Request, Value};
use bitcoin::BlockHash;
use tokio::time::Instant;

use crate::api::context::{ServingContext, WaitingSlots};
use crate::api::error::{ApiError, exactly_one_of, shown, shown_value};
use crate::api::wait_until::wait_until;
use crate::chain::Height;
use crate::live::Live;
use crate::view::{ChainMembership, Head, IndexError, Published, Tip, View};

/// The name of the extension.
const NAME: &str = "waitForTip";
/// Its fields that say what is waited for, one of which is given.
const BLOCK_FIELDS: [&str; 4] = ["hash", "height", "tip", "after"];
/// Its field that says how long, in milliseconds.
const TIMEOUT: &str = "timeoutMs";
/// The header of a request that carries the block of an earlier answer, as an error names it.
const TIP_HEADER: &str = "X-Btcgraph-Tip";
/// The longest that a request waits, and how long it does if it does not say.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Makes requests wait that ask for it.
#[derive(Clone)]
pub(crate) struct WaitForTip {
    published: Published,
    live: Live,
    waiting_slots: WaitingSlots,
}

impl WaitForTip {
    pub(crate) fn new(published: &Published, live: &Live, serving: &ServingContext) -> Self {
        Self { published: published.clone(), live: live.clone(), waiting_slots: serving.waiting_slots.clone() }
    }

    /// Waits as the request and its header say. Errors: BAD_USER_INPUT, and those of [`wait`](Self::wait).
    pub(crate) async fn wait_for_all(&self, request: &mut Request) -> Result<(), ApiError> {
        if let Some(CarriedTip(tip)) = carried(request) {
            self.wait(TIP_HEADER, Wait { block: WaitedFor::Tip(*tip), timeout: LONGEST }).await?;
        }
        self.wait_for(request).await
    }

    /// Whether the newest state is not older than this block.
    pub(crate) fn has_reached(&self, CarriedTip(tip): CarriedTip) -> bool {
        self.published.head().is_some_and(|head| WaitedFor::Tip(tip).is_in(head).unwrap_or(false))
    }

    /// Waits as the request says, and takes that from it. Errors: BAD_USER_INPUT, and those of [`wait`](Self::wait).
    pub(crate) async fn wait_for(&self, request: &mut Request) -> Result<(), ApiError> {
        match request.extensions.remove(NAME) {
            None | Some(Value::Null) => Ok(()),
            Some(asked) => {
                let wait = Wait::read(&asked)?;
                self.wait(&format!("{NAME}.{}", wait.block.field()), wait).await
            }
        }
    }

    /// Returns once the newest state has the block that this argument asks for. Errors: TIP_NOT_REACHED,
    /// INTERNAL_SERVER_ERROR; RESOURCE_EXHAUSTED if it does not have it and too many wait already.
    async fn wait(&self, argument: &str, Wait { block, timeout }: Wait) -> Result<(), ApiError> {
        let deadline = Instant::now() + timeout;
        let reached = || {
            let head = self.published.head()?;
            block.is_in(head).map_err(ApiError::from).map(|is_in| is_in.then_some(())).transpose()
        };
        if let Some(reached) = reached() {
            return reached;
        }
        let _place = self.waiting_slots.take()?;
        let reached = wait_until(&self.live, deadline, reached).await;
        reached.unwrap_or_else(|| {
            let tip = self.published.head().map(|head| head.tip);
            Err(ApiError::tip_not_reached(argument, block, timeout, tip))
        })
    }
}

/// Whether a request asks to wait.
pub(crate) fn is_asked_by(request: &Request) -> bool {
    asked(request).is_some() || carried(request).is_some()
}

/// Whether a request names a block to wait for.
pub(crate) fn names_tip(request: &Request) -> bool {
    request.extensions.contains_key(NAME) || carried(request).is_some()
}

fn carried(request: &Request) -> Option<&CarriedTip> {
    request.data.get(&TypeId::of::<CarriedTip>()).and_then(|tip| tip.downcast_ref())
}

/// The block of an earlier answer, from any server, which a client carries to its next request. It is among the data of
/// the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedTip(pub Tip);

impl CarriedTip {
    /// Reads `<height>:<hash>`; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (height, hash) = text.split_once(':')?;
        let height: u32 = height.bytes().all(|byte| byte.is_ascii_digit()).then(|| height.parse().ok())??;
        Some(Self(Tip { height: height.into(), hash: block_hash(hash)? }))
    }
}

impl fmt::Display for CarriedTip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.height, self.0.hash)
    }
}

/// A hash in its usual 64 digits.
fn block_hash(text: &str) -> Option<BlockHash> {
    (text.len() == 64).then(|| text.parse().ok()).flatten()
}

fn asked(request: &Request) -> Option<&Value> {
    request.extensions.get(NAME).filter(|asked| **asked != Value::Null)
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitedFor {
    /// This block, on the main chain.
    Hash(BlockHash),
    /// Any block at this height.
    Height(Height),
    /// This block, on the main chain, or one that is higher, where a reorganisation replaced it.
    Tip(Tip),
    /// A tip other than this block.
    After(BlockHash),
}

impl WaitedFor {
    /// The field of the extension that asks for it.
    fn field(self) -> &'static str {
        match self {
            Self::Hash(_) => "hash",
            Self::Height(_) => "height",
            Self::Tip(_) => "tip",
            Self::After(_) => "after",
        }
    }

    fn is_in(self, head: Arc<Head>) -> Result<bool, IndexError> {
        match self {
            Self::Height(height) => Ok(head.tip.height >= height),
            Self::After(hash) => Ok(head.tip.hash != hash),
            Self::Tip(tip) if head.tip.height > tip.height => Ok(true),
            Self::Hash(hash) | Self::Tip(Tip { hash, .. }) => {
                let place = View::new(head).block_place(hash)?;
                Ok(place.is_some_and(|place| place.membership == ChainMembership::Main))
            }
        }
    }
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(hash) => write!(f, "block {hash}"),
            Self::Height(height) => write!(f, "a block at height {height}"),
            Self::Tip(Tip { height, hash }) => write!(f, "block {hash} at height {height}, or a higher one"),
            Self::After(hash) => write!(f, "a tip other than block {hash}"),
        }
    }
}

/// What a request waits for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    block: WaitedFor,
    timeout: Duration,
}

impl Wait {
    /// Errors: BAD_USER_INPUT.
    fn read(asked: &Value) -> Result<Self, ApiError> {
        let bad = |fault: &str| ApiError::bad_argument(NAME, fault);
        let wrong = |name: &str, value: &Value, rule: &str| {
            let fault = format!("is {}, and it must be {rule}", shown_value(value));
            ApiError::bad_argument(format!("{NAME}.{name}"), fault)
        };
        let Value::Object(asked) = asked else {
            let given = shown_value(asked);
            return Err(bad(&format!(
                "is {given}, and it must be an object such as {{ \"height\": 800000, \"timeoutMs\": 5000 }}"
            )));
        };
        let is_known = |name: &str| BLOCK_FIELDS.contains(&name) || name == TIMEOUT;
        if let Some(unknown) = asked.keys().find(|name| !is_known(name)) {
            let fields = BLOCK_FIELDS.join(", ");
            return Err(bad(&format!("has the unknown field {}: give one of {fields}, and {TIMEOUT}", shown(unknown))));
        }
        let given = |name: &str| asked.get(name).filter(|value| **value != Value::Null);
        let hash = |name: &str, value: &Value| {
            let hash = if let Value::String(hash) = value { block_hash(hash) } else { None };
            hash.ok_or_else(|| wrong(name, value, "a string of 64 hexadecimal digits"))
        };
        let block = match (given("hash"), given("height"), given("tip"), given("after")) {
            (Some(value), None, None, None) => WaitedFor::Hash(hash("hash", value)?),
            (None, None, None, Some(value)) => WaitedFor::After(hash("after", value)?),
            (None, None, Some(value), None) => {
                let tip = if let Value::String(tip) = value { CarriedTip::parse(tip) } else { None };
                let rule =
                    "a height and a hash, as in X-Btcgraph-Tip of an answer: \"800000:\" and 64 hexadecimal digits";
                WaitedFor::Tip(tip.ok_or_else(|| wrong("tip", value, rule))?.0)
            }
            (None, Some(value), None, None) => {
                let number = if let Value::Number(number) = value { number.as_u64() } else { None };
                let height = number.and_then(|height| u32::try_from(height).ok());
                WaitedFor::Height(
                    height.ok_or_else(|| wrong("height", value, "a whole number from 0 to 4294967295"))?.into(),
                )
            }
            _ => {
                let fields = BLOCK_FIELDS.map(|name| (name, given(name).is_some()));
                return Err(bad(&format!("takes {}", exactly_one_of(&fields))));
            }
        };
        let timeout = match given(TIMEOUT) {
            None => LONGEST,
            Some(value) => {
                let number = if let Value::Number(number) = value { number.as_u64() } else { None };
                let timeout = number.map(Duration::from_millis).filter(|timeout| *timeout <= LONGEST);
                timeout.ok_or_else(|| wrong(TIMEOUT, value, "a whole number from 0 to 10000"))?
            }
        };
        Ok(Self { block, timeout })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(asked: serde_json::Value) -> Result<Wait, ApiError> {
        Wait::read(&Value::from_json(asked).unwrap())
    }

    #[test]
    fn a_block_is_named_by_its_hash_or_by_its_height() {
        let hash = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        let expected = Wait { block: WaitedFor::Hash(hash.parse().unwrap()), timeout: Duration::from_millis(250) };
        assert_eq!(read(json!({ "hash": hash, "height": null, "timeoutMs": 250 })), Ok(expected));
        let expected = Wait { block: WaitedFor::After(hash.parse().unwrap()), timeout: LONGEST };
        assert_eq!(read(json!({ "after": hash })), Ok(expected));
        let expected = Wait { block: WaitedFor::Height(7.into()), timeout: LONGEST };
        assert_eq!(read(json!({ "height": 7 })), Ok(expected));
        assert_eq!(read(json!({ "height": 7, "timeoutMs": 10_000 })), Ok(expected));
        let tip = Tip { height: 7.into(), hash: hash.parse().unwrap() };
        let expected = Wait { block: WaitedFor::Tip(tip), timeout: LONGEST };
        assert_eq!(read(json!({ "tip": format!("7:{hash}") })), Ok(expected));
        assert_eq!(CarriedTip::parse(&CarriedTip(tip).to_string()), Some(CarriedTip(tip)));
    }

    #[test]
    fn a_carried_tip_is_a_height_and_a_hash() {
        let hash = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        for text in [
            String::new(),
            hash.to_owned(),
            "7".to_owned(),
            format!("7:{}", &hash[1..]),
            format!("+7:{hash}"),
            format!(":{hash}"),
            format!("4294967296:{hash}"),
            format!("7:{hash}:"),
            format!(" 7:{hash}"),
        ] {
            assert_eq!(CarriedTip::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_waited_for_is_bad_input() {
        let hash = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        for bad in [
            json!({}),
            json!([]),
            json!(7),
            json!({ "hash": hash, "height": 7 }),
            json!({ "hash": &hash[1..] }),
            json!({ "after": &hash[1..] }),
            json!({ "after": 7 }),
            json!({ "after": hash, "height": 7 }),
            json!({ "tip": hash }),
            json!({ "tip": 7 }),
            json!({ "tip": format!("7:{hash}"), "height": 7 }),
            json!({ "hash": 7 }),
            json!({ "height": -1 }),
            json!({ "height": 1.5 }),
            json!({ "height": "7" }),
            json!({ "height": u64::MAX }),
            json!({ "height": 7, "timeoutMs": 10_001 }),
            json!({ "height": 7, "timeoutMs": -1 }),
            json!({ "height": 7, "timeoutMs": "1s" }),
            json!({ "height": 7, "timeout": 1 }),
        ] {
            assert_eq!(read(bad.clone()).map_err(|error| error.code()), Err("BAD_USER_INPUT"), "{bad}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_rule() {
        for (bad, argument, fault) in [
            (
                json!({ "hash": "0x12" }),
                "waitForTip.hash",
                "is \"0x12\", and it must be a string of 64 hexadecimal digits",
            ),
            (json!({ "after": 7 }), "waitForTip.after", "is 7, and it must be a string of 64 hexadecimal digits"),
            (json!({ "height": -1 }), "waitForTip.height", "is -1, and it must be a whole number from 0 to 4294967295"),
            (
                json!({ "height": 7, "timeoutMs": "1s" }),
                "waitForTip.timeoutMs",
                "is \"1s\", and it must be a whole number from 0 to 10000",
            ),
            (json!({}), "waitForTip", "takes exactly one of hash, height, tip, after, got none of them"),
            (
                json!({ "height": 7, "after": "aa", "hash": null }),
                "waitForTip",
                "takes exactly one of hash, height, tip, after, got height and after",
            ),
            (
                json!(5),
                "waitForTip",
                "is 5, and it must be an object such as { \"height\": 800000, \"timeoutMs\": 5000 }",
            ),
            (
                json!({ "height": 7, "timeout": 1 }),
                "waitForTip",
                "has the unknown field \"timeout\": give one of hash, height, tip, after, and timeoutMs",
            ),
        ] {
            assert_eq!(read(bad), Err(ApiError::bad_argument(argument, fault)));
        }
    }
}
