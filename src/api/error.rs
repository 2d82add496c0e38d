//! Errors as clients see them: a message, a code that programs can compare, and details.
//!
//! [`ApiError`] is the only error a resolver returns. It has no `Display`, so that no foreign error turns into one (or
//! into a client's message) by accident: an error of the index becomes INTERNAL_SERVER_ERROR with an id, and its text
//! is logged under that id.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use async_graphql::{ErrorExtensionValues, ServerError, Value};
use bitcoin::BlockHash;

use super::features::Feature;
use crate::api::types::enums::{SyncPhaseEnum, TxState};
use crate::chain::float::to_f64;
use crate::chain::{Height, hidden};
use crate::view::{BudgetExceeded, IndexError, NodeClientError, SyncState, Tip};

/// The name of the limit of what an answer costs.
pub(crate) const COMPLEXITY: &str = "complexity";

/// The values of `extensions.code`.
pub mod code {
    /// The document is not GraphQL.
    pub const GRAPHQL_PARSE_FAILED: &str = "GRAPHQL_PARSE_FAILED";
    /// The document does not fit the schema.
    pub const GRAPHQL_VALIDATION_FAILED: &str = "GRAPHQL_VALIDATION_FAILED";
    /// An argument has an invalid value; `argument` is its name, or its path if the value is part of a list or an input object.
    pub const BAD_USER_INPUT: &str = "BAD_USER_INPUT";
    /// The request is larger than a limit; `which`, `limit` and, where it is known, `actual` say by how much.
    pub const QUERY_LIMIT_EXCEEDED: &str = "QUERY_LIMIT_EXCEEDED";
    /// The chain is not indexed yet, or the server waits for a block that it announced before a crash; `phase`,
    /// `indexedHeight`, `nodeHeight`, `blocksPerSecond` and `etaSeconds` report the progress, as `sync` does. Or the server
    /// still builds what the field needs: `feature` names it as `server.features` does, and `progress` is 0 to 1. Or it still
    /// downloads its index, and could not fetch the part that the answer needs.
    pub const NOT_READY: &str = "NOT_READY";
    /// The row of a cursor has moved. Its block left the main chain; `forkHeight` is the height of the last common block.
    /// Or its transaction, or others of its list, left the mempool; `state` is the transaction's state now, and `block` the
    /// block that contains it or them.
    pub const CURSOR_ORPHANED: &str = "CURSOR_ORPHANED";
    /// The server no longer stores the point at which a cursor or a subscription would continue.
    pub const CURSOR_EXPIRED: &str = "CURSOR_EXPIRED";
    /// The server is busy, or the client has sent too many requests: nothing was executed, and the client may retry later. For
    /// a limit that all clients share, `which` and `limit` name it. Or a subscription that cannot resume (`reorg`) was read too
    /// slowly, and the server no longer stores its next event: subscribe again.
    pub const RESOURCE_EXHAUSTED: &str = "RESOURCE_EXHAUSTED";
    /// The field is disabled; `feature` names it as `server.features` does, and `setting` the setting that enables it.
    pub const FEATURE_DISABLED: &str = "FEATURE_DISABLED";
    /// The requested block did not arrive in time; `argument` names what asks for it, `height` and `hash` are those of the
    /// newest block, null while none is indexed. Nothing was executed.
    pub const TIP_NOT_REACHED: &str = "TIP_NOT_REACHED";
    /// The origin or the token of the request does not permit this.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// The request exceeded the time limit. The response has no data.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The server does not know a query of this hash: send it once with its text.
    pub const PERSISTED_QUERY_NOT_FOUND: &str = "PERSISTED_QUERY_NOT_FOUND";
    /// The server stores no queries by their hashes: send the text.
    pub const PERSISTED_QUERY_NOT_SUPPORTED: &str = "PERSISTED_QUERY_NOT_SUPPORTED";
    /// The Bitcoin node did not respond. The other fields do not need it.
    pub const NODE_UNAVAILABLE: &str = "NODE_UNAVAILABLE";
    /// A fault of the server; `id` is in its log.
    pub const INTERNAL_SERVER_ERROR: &str = "INTERNAL_SERVER_ERROR";

    /// All of them.
    pub const ALL: [&str; 16] = [
        GRAPHQL_PARSE_FAILED,
        GRAPHQL_VALIDATION_FAILED,
        BAD_USER_INPUT,
        QUERY_LIMIT_EXCEEDED,
        NOT_READY,
        CURSOR_ORPHANED,
        CURSOR_EXPIRED,
        RESOURCE_EXHAUSTED,
        FEATURE_DISABLED,
        TIP_NOT_REACHED,
        FORBIDDEN,
        TIMEOUT,
        PERSISTED_QUERY_NOT_FOUND,
        PERSISTED_QUERY_NOT_SUPPORTED,
        NODE_UNAVAILABLE,
        INTERNAL_SERVER_ERROR,
    ];
}

/// The extension of an error with the number of seconds after which the client may retry.
pub const RETRY_AFTER_SECONDS: &str = "retryAfterSeconds";

/// Why a field failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    code: &'static str,
    message: String,
    details: Vec<(&'static str, Value)>,
}

impl ApiError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// Arguments that are invalid together. For one argument, see [`bad_argument`](Self::bad_argument).
    pub(crate) fn bad_user_input(message: impl Into<String>) -> Self {
        Self::new(code::BAD_USER_INPUT, message)
    }

    /// An argument with an invalid value: its name, or its path in the arguments of the field (`of.addresses[1]`), and what is
    /// wrong with it, as it follows the name: "is 0, and it must be at least 1".
    pub(crate) fn bad_argument(argument: impl Into<String>, fault: impl Display) -> Self {
        let argument = argument.into();
        Self::bad_user_input(format!("{argument} {fault}")).with("argument", argument)
    }

    /// Arguments of which exactly one is to be given: their names, and whether each has a value. The first of those that were
    /// given stands for all, or the first of all if none was.
    pub(crate) fn not_exactly_one(arguments: &[(&'static str, bool)]) -> Self {
        let named = arguments.iter().find(|(_, is_given)| *is_given).or(arguments.first());
        Self::bad_user_input(format!("give {}", exactly_one_of(arguments)))
            .with("argument", named.map_or(Value::Null, |(name, _)| Value::from(*name)))
    }

    /// With the first wrong character of the text, from 0, if it is known.
    pub(crate) fn at(self, position: Option<usize>) -> Self {
        match position {
            Some(position) => self.with("position", position),
            None => self,
        }
    }

    /// More than a limit allows.
    pub(crate) fn limit_exceeded(which: &'static str, limit: u64, actual: u64) -> Self {
        Self::above(which, which, limit, actual)
    }

    /// More than the limit `which` allows of what a message calls `what`.
    fn above(what: &str, which: &'static str, limit: u64, actual: u64) -> Self {
        Self::new(code::QUERY_LIMIT_EXCEEDED, format!("{what} is {actual}, and the limit is {limit}"))
            .with("which", which)
            .with("limit", limit)
            .with("actual", actual)
    }

    /// More than a limit allows, by what an argument asks for: its name or path, as in [`bad_argument`](Self::bad_argument).
    pub(crate) fn argument_exceeds(argument: &str, which: &'static str, limit: u64, actual: u64) -> Self {
        Self::above(&format!("{argument}: {which}"), which, limit, actual).with("argument", argument)
    }

    /// The value of an argument is above a limit.
    pub(crate) fn argument_above(argument: &str, which: &'static str, limit: u64, actual: u64) -> Self {
        Self::above(argument, which, limit, actual).with("argument", argument)
    }

    /// The answer costs more than it may: so much up to this field.
    pub(crate) fn too_costly(limit: u64, spent: u64, field: &str) -> Self {
        let message = format!(
            "the answer costs more than {limit}: it costs {spent} up to the field {field}; ask for less: fewer fields, smaller pages or ranges, a smaller gapLimit"
        );
        Self::new(code::QUERY_LIMIT_EXCEEDED, message)
            .with("which", COMPLEXITY)
            .with("limit", limit)
            .with("actual", spent)
            .with("field", field)
    }

    /// There is no block to answer for yet: none is indexed, or the server waits for a lost one. Reports the progress.
    pub(crate) fn not_ready(state: &SyncState) -> Self {
        let speed = state.speed;
        let message = match state.awaited_block {
            None => "the index is not ready yet; retry later".to_owned(),
            Some(Tip { height, hash }) => format!(
                "the server announced block {hash} at height {height}, lost it in a crash, and waits until the node sends it \
                 again; retry later"
            ),
        };
        Self::new(code::NOT_READY, message)
            .with("phase", SyncPhaseEnum::from(state.phase))
            .with("indexedHeight", Value::Null)
            .with("nodeHeight", state.node_height.map_or(Value::Null, |height| height.to_u32().into()))
            .with("blocksPerSecond", speed.map_or(Value::Null, |speed| speed.blocks_per_second.into()))
            .with("etaSeconds", speed.map_or(Value::Null, |speed| speed.remaining.as_secs().into()))
    }

    /// The client's token, or the lack of one, does not permit this.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(code::FORBIDDEN, message)
    }

    /// More than the client may spend now.
    pub(crate) fn over_budget(short: BudgetExhausted, cost: u64) -> Self {
        let BudgetExhausted { limit, wait } = short;
        if cost > limit {
            return Self::limit_exceeded("costPerMinute", limit, cost);
        }
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        let message = format!("the budget is {limit} a minute, and this request costs {cost}: retry later");
        Self::new(code::RESOURCE_EXHAUSTED, message).with("cost", cost).with(RETRY_AFTER_SECONDS, seconds)
    }

    /// The setting that enables this is off.
    pub(crate) fn feature_disabled(feature: Feature) -> Self {
        let setting = feature.setting();
        Self::disabled(feature, format!("this feature is disabled; the operator enables it with the setting {setting}"))
    }

    /// Neither the node nor the server has compact filters.
    pub(crate) fn no_filters() -> Self {
        let feature = Feature::BlockFilters;
        let setting = feature.setting();
        let message = format!(
            "compact filters are disabled; the operator enables them with -blockfilterindex=1 on the Bitcoin node, or with the \
             setting {setting}"
        );
        Self::disabled(feature, message)
    }

    fn disabled(feature: Feature, message: String) -> Self {
        Self::new(code::FEATURE_DISABLED, message).with("feature", feature).with("setting", feature.setting())
    }

    /// What this argument, or header, waits for did not arrive within `waited`.
    pub(crate) fn tip_not_reached(argument: &str, awaited: impl Display, waited: Duration, tip: Option<Tip>) -> Self {
        let present =
            tip.map_or_else(|| "no block is indexed yet".to_owned(), |tip| format!("the tip is at {}", tip.height));
        let waited = waited.as_millis();
        let message = format!("{argument} waits for {awaited}, which did not arrive within {waited} ms: {present}");
        Self::new(code::TIP_NOT_REACHED, message)
            .with("argument", argument)
            .with("height", tip.map_or(Value::Null, |tip| tip.height.to_u32().into()))
            .with("hash", tip.map_or(Value::Null, |tip| tip.hash.to_string().into()))
    }

    /// The limit of requests that wait for a block is reached.
    pub(crate) fn too_many_waiting(limit: usize) -> Self {
        Self::new(code::RESOURCE_EXHAUSTED, format!("{limit} requests already wait for a block; retry later"))
            .with("which", "queuedRequests")
            .with("limit", u64::try_from(limit).unwrap_or(u64::MAX))
    }

    /// The limit of derived scripts that all subscriptions together watch is reached.
    pub(crate) fn too_many_watched(limit: usize) -> Self {
        let message =
            format!("the subscriptions of this server watch {limit} scripts of descriptors already; retry later");
        Self::new(code::RESOURCE_EXHAUSTED, message)
            .with("which", "watchedDerivedScripts")
            .with("limit", u64::try_from(limit).unwrap_or(u64::MAX))
    }

    /// The node did not respond, and the field needs it.
    pub(crate) fn node_unavailable(error: &NodeClientError) -> Self {
        match error {
            NodeClientError::NoTemplates => Self::feature_disabled(Feature::BlockTemplate),
            error => Self::new(code::NODE_UNAVAILABLE, error.to_client()),
        }
    }

    /// The server has not read the node's mempool yet.
    pub(crate) fn mempool_unknown() -> Self {
        Self::new(code::NODE_UNAVAILABLE, "the server has not read the mempool of its Bitcoin node yet; retry later")
    }

    /// A cursor on a row whose block left the main chain. `fork` is the height up to which that block's chain is still
    /// the main one, if it is known.
    pub(crate) fn cursor_orphaned(fork: Option<Height>) -> Self {
        let known = match fork {
            Some(height) => format!("the last common block is at height {height}"),
            None => "the last common block is not known".to_owned(),
        };
        Self::new(code::CURSOR_ORPHANED, format!("the block of this cursor is not on the main chain: {known}"))
            .with("forkHeight", fork.map_or(Value::Null, |height| height.to_u32().into()))
    }

    /// A cursor on an unconfirmed transaction that left the mempool, even if it returned: where it is now, if that is
    /// known, and the block that holds it or threw it out.
    pub(crate) fn cursor_departed(state: Option<TxState>, block: Option<BlockHash>) -> Self {
        let message = "the transaction of this cursor did not stay in the mempool: restart from the first page";
        Self::orphaned_at(message, state, block)
    }

    /// A cursor on an unconfirmed transaction that is in another projected block by now, or in none.
    pub(crate) fn cursor_moved() -> Self {
        let message = "the transaction of this cursor is no longer in this projected block: restart from the first \
                       page";
        Self::orphaned_at(message, Some(TxState::Mempool), None)
    }

    /// A cursor on a row of the mempool, behind or in front of which rows have become confirmed since, in this block and
    /// maybe others, or have returned from it.
    pub(crate) fn cursor_overtaken(block: BlockHash) -> Self {
        let message = "a new block contains transactions of this list, or contained some until a reorg, so that this cursor would \
                       skip or repeat some: restart from the first page";
        Self::orphaned_at(message, Some(TxState::Mempool), Some(block))
    }

    fn orphaned_at(message: &str, state: Option<TxState>, block: Option<BlockHash>) -> Self {
        Self::new(code::CURSOR_ORPHANED, message)
            .with("state", state.map_or(Value::Null, Value::from))
            .with("block", block.map_or(Value::Null, |block| block.to_string().into()))
    }

    /// A cursor of a stream on a block that was announced, and that a crash took out of the index.
    pub(crate) fn cursor_lost(block: Tip) -> Self {
        let Tip { height, hash } = block;
        Self::cursor_expired(format!(
            "the server lost block {hash} at height {height}, the last one of this cursor, in a crash, and the node has not \
             sent it again: subscribe again, and query what changed since"
        ))
    }

    /// A subscription fell behind further than the stored history.
    pub(crate) fn cursor_expired(message: impl Into<String>) -> Self {
        Self::new(code::CURSOR_EXPIRED, message)
    }

    /// Names `after` in an error about the cursor behind which a new subscription was to go on; other errors stay as they are.
    pub(crate) fn of_after(self) -> Self {
        if self.code() == code::CURSOR_EXPIRED { self.with("argument", "after") } else { self }
    }

    /// An internal error. The client receives an id, and the log the reason.
    pub(crate) fn internal(what: &str) -> Self {
        let id = getrandom::u64().map_or_else(|_| "unknown".to_owned(), |id| format!("{id:016x}"));
        tracing::error!(%id, error = what, "a request failed");
        Self::new(
            code::INTERNAL_SERVER_ERROR,
            format!("the server failed to answer; the reason is in its log under id {id}"),
        )
        .with("id", id)
    }

    /// The code, as in [`code`].
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    fn extensions(self) -> ErrorExtensionValues {
        let mut values = ErrorExtensionValues::default();
        values.set("code", self.code);
        for (name, value) in self.details {
            values.set(name, value);
        }
        values
    }
}

impl From<IndexError> for ApiError {
    fn from(error: IndexError) -> Self {
        match error {
            // the reason may contain the address of the node
            IndexError::RawUnavailable { height, hash, .. } => {
                tracing::debug!(%error, "a request failed");
                let message = format!(
                    "the server reads the transactions of block {hash} at height {height} from its Bitcoin node, which \
                     did not provide them; retry later"
                );
                Self::new(code::NODE_UNAVAILABLE, message)
            }
            // the reason may contain the address of the store
            IndexError::Unfetched(_) => {
                tracing::warn!(%error, "a request failed");
                let message = "the server is still downloading its index, and could not fetch the part that this answer \
                               needs; retry later";
                Self::new(code::NOT_READY, message)
            }
            IndexError::TableOff { table } => Self::feature_disabled(Feature::of_table(table)),
            IndexError::TableNotReady { table, built, transactions } => {
                let progress = to_f64(built) / to_f64(transactions.max(1));
                let message = format!(
                    "the server has read {built} of {transactions} transactions for lookups of this kind; retry later"
                );
                Self::new(code::NOT_READY, message).with("feature", Feature::of_table(table)).with("progress", progress)
            }
            IndexError::MinersNotReady { built, blocks } => {
                let progress = f64::from(built) / f64::from(blocks.max(1));
                let message =
                    format!("the server has assigned {built} of {blocks} blocks to mining pools; retry later");
                Self::new(code::NOT_READY, message).with("progress", progress)
            }
            IndexError::FiltersOff => Self::no_filters(),
            IndexError::FiltersNotReady { built, blocks } => {
                let progress = f64::from(built) / f64::from(blocks.max(1));
                let message =
                    format!("the server has computed the compact filters of {built} of {blocks} blocks; retry later");
                Self::new(code::NOT_READY, message).with("feature", Feature::BlockFilters).with("progress", progress)
            }
            error => Self::internal(&error.to_string()),
        }
    }
}

impl From<BudgetExceeded> for ApiError {
    fn from(error: BudgetExceeded) -> Self {
        let number = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let BudgetExceeded { limit, actual } = error;
        Self::new(code::QUERY_LIMIT_EXCEEDED, error.to_string())
            .with("which", "transactionBytes")
            .with("limit", number(limit))
            .with("actual", number(actual))
    }
}

impl From<ApiError> for async_graphql::Error {
    fn from(error: ApiError) -> Self {
        let mut converted = async_graphql::Error::new(error.message.clone());
        converted.extensions = Some(error.extensions());
        converted
    }
}

impl From<ApiError> for ServerError {
    fn from(error: ApiError) -> Self {
        let mut converted = ServerError::new(error.message.clone(), None);
        converted.extensions = Some(error.extensions());
        converted
    }
}

/// So many bytes, in words.
pub(crate) fn in_bytes(count: usize) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// The characters of a text of a client that a message repeats: a request can pass one text to many fields.
const SHOWN: usize = 100;

/// A text of a client for a message: quoted, without private keys, and its first characters only, with an ellipsis if there are
/// more.
pub(crate) fn shown(text: &str) -> String {
    let text = hidden(text);
    let mut letters = text.chars();
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// What is expected where exactly one of several is to be given, and what was: their names, and whether each has a value.
pub(crate) fn exactly_one_of(choices: &[(&str, bool)]) -> String {
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let given: Vec<_> = choices.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    let given = if given.is_empty() { "none of them".to_owned() } else { given.join(" and ") };
    format!("exactly one of {}, got {given}", names.join(", "))
}

/// A value of a client for a message.
pub(crate) fn shown_value(value: &Value) -> String {
    if let Value::String(text) = value { shown(text) } else { value.to_string().chars().take(SHOWN).collect() }
}

/// Removes private keys from the message of an error of any origin.
pub fn hide_secrets(error: &mut ServerError) {
    if let Cow::Owned(message) = hidden(&error.message) {
        error.message = message;
    }
}

/// Gives an error of the engine a code, unless it has one.
pub(crate) fn set_code(error: &mut ServerError, code: &str) {
    let extensions = error.extensions.get_or_insert_default();
    if extensions.get("code").is_none() {
        extensions.set("code", code);
    }
}

/// There is not enough left to pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExhausted {
    /// What the client may spend in a minute.
    pub limit: u64,
    /// How long until there is enough.
    pub wait: Duration,
}

#[cfg(test)]
mod tests;
