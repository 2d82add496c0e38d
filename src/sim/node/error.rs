//! Errors of methods, by the codes of Core's `src/rpc/protocol.h`.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

/// The error codes of this node.
pub(super) mod code {
    pub(crate) const MISC: i32 = -1;
    pub(crate) const TYPE: i32 = -3;
    pub(crate) const INVALID_ADDRESS_OR_KEY: i32 = -5;
    pub(crate) const INVALID_PARAMETER: i32 = -8;
    pub(crate) const DATABASE: i32 = -20;
    pub(crate) const DESERIALIZATION: i32 = -22;
    pub(crate) const VERIFY: i32 = -25;
    pub(crate) const VERIFY_ALREADY_IN_UTXO_SET: i32 = -27;
    pub(crate) const IN_WARMUP: i32 = -28;
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const PARSE: i32 = -32700;
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RpcFailure {
    pub(super) code: i32,
    pub(super) message: String,
}

/// The result of a call, as JSON.
pub(super) type RpcResult = Result<Box<RawValue>, RpcFailure>;

impl RpcFailure {
    pub(super) fn new(code: i32, message: impl Into<String>) -> RpcFailure {
        RpcFailure { code, message: message.into() }
    }

    /// An error of the node itself, such as a file that cannot be read.
    pub(super) fn internal(cause: impl fmt::Display) -> RpcFailure {
        RpcFailure::new(code::DATABASE, cause.to_string())
    }

    pub(super) fn block_not_found() -> RpcFailure {
        RpcFailure::new(code::INVALID_ADDRESS_OR_KEY, "Block not found")
    }
}

/// A result as JSON.
pub(super) fn json(result: impl Serialize) -> RpcResult {
    serde_json::value::to_raw_value(&result).map_err(RpcFailure::internal)
}
