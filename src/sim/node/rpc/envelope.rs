//! JSON-RPC as in Core: a request or a batch, by the legacy version 1, where errors set the HTTP status, or by 2.0,
//! where they do not (Core's `src/httprpc.cpp` and `src/rpc/request.cpp`).

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::super::error::{RpcFailure, RpcResult, code};

/// The version of a request, and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Legacy,
    V2,
}

/// A request, as far as it could be parsed.
struct JsonRpcRequest {
    version: Version,
    /// `None` if it has none, which makes it a notification in 2.0.
    id: Option<Value>,
    call: Result<Call, RpcFailure>,
}

/// The most requests of a batch, which bounds the response. A node has no such limit.
const MAX_BATCH: usize = 10_000;

/// A method and its parameters: an array, or an object of named ones.
pub(in crate::sim::node) struct Call {
    pub(in crate::sim::node) method: String,
    pub(in crate::sim::node) params: Value,
}

/// An HTTP response: a status, and a body unless there is nothing to answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sim::node) struct Reply {
    pub(in crate::sim::node) status: u16,
    pub(in crate::sim::node) body: Option<String>,
}

/// Answers a body with the results of `call` for each request in it.
pub(in crate::sim::node) fn answer(body: &[u8], call: impl Fn(Call) -> RpcResult) -> Reply {
    let unreadable = |message: &str| {
        let failure = RpcFailure::new(code::PARSE, message);
        let response = Response { version: Version::Legacy, id: Some(Value::Null), answer: Err(failure) };
        Reply { status: response.status(), body: Some(line(&response)) }
    };
    match serde_json::from_slice(body) {
        Ok(request @ Value::Object(_)) => match respond(request, &call) {
            Some(response) => Reply { status: response.status(), body: Some(line(&response)) },
            None => Reply { status: 204, body: None },
        },
        Ok(Value::Array(requests)) if requests.len() > MAX_BATCH => {
            unreadable(&format!("the batch has {} requests, at most {MAX_BATCH} are allowed", requests.len()))
        }
        Ok(Value::Array(requests)) => {
            let is_batch = !requests.is_empty();
            let responses: Vec<_> = requests.into_iter().filter_map(|request| respond(request, &call)).collect();
            if is_batch && responses.is_empty() {
                return Reply { status: 204, body: None };
            }
            Reply { status: 200, body: Some(line(&responses)) }
        }
        Ok(_) => unreadable("Top-level object parse error"),
        Err(_) => unreadable("Parse error"),
    }
}

/// The methods that a body calls.
pub(in crate::sim::node) fn methods(body: &[u8]) -> Vec<String> {
    let requests = match serde_json::from_slice(body) {
        Ok(Value::Array(requests)) => requests,
        Ok(request) => vec![request],
        Err(_) => Vec::new(),
    };
    requests.iter().filter_map(|request| request["method"].as_str().map(str::to_owned)).collect()
}

/// `None` for a notification.
fn respond(request: Value, call: impl Fn(Call) -> RpcResult) -> Option<Response> {
    let JsonRpcRequest { version, id, call: read } = JsonRpcRequest::read(request);
    let answer = read.and_then(call);
    let notification = version == Version::V2 && id.is_none();
    (!notification).then_some(Response { version, id, answer })
}

impl JsonRpcRequest {
    fn read(request: Value) -> JsonRpcRequest {
        let invalid = |message: &str| Err(RpcFailure::new(code::INVALID_REQUEST, message));
        let Value::Object(mut fields) = request else {
            return JsonRpcRequest {
                version: Version::Legacy,
                id: Some(Value::Null),
                call: invalid("Invalid Request object"),
            };
        };
        let id = fields.remove("id");
        let version = match fields.get("jsonrpc") {
            Some(Value::String(version)) if version == "2.0" => Version::V2,
            _ => Version::Legacy,
        };
        let call = match (fields.remove("method"), fields.remove("params")) {
            (None | Some(Value::Null), _) => invalid("Missing method"),
            (Some(Value::String(method)), Some(params @ (Value::Array(_) | Value::Object(_)))) => {
                Ok(Call { method, params })
            }
            (Some(Value::String(method)), None | Some(Value::Null)) => {
                Ok(Call { method, params: Value::Array(Vec::new()) })
            }
            (Some(Value::String(_)), Some(_)) => invalid("Params must be an array or object"),
            (Some(_), _) => invalid("Method must be a string"),
        };
        JsonRpcRequest { version, id, call }
    }
}

struct Response {
    version: Version,
    id: Option<Value>,
    answer: RpcResult,
}

impl Response {
    fn status(&self) -> u16 {
        match (&self.answer, self.version) {
            (Ok(_), _) => 200,
            // an invalid request sets the status in 2.0 as well
            (Err(failure), Version::V2) if failure.code != code::INVALID_REQUEST => 200,
            (Err(failure), _) => match failure.code {
                code::INVALID_REQUEST => 400,
                code::METHOD_NOT_FOUND => 404,
                _ => 500,
            },
        }
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        match (self.version, &self.answer) {
            (Version::V2, Ok(result)) => {
                fields.serialize_entry("jsonrpc", "2.0")?;
                fields.serialize_entry("result", result)?;
            }
            (Version::V2, Err(failure)) => {
                fields.serialize_entry("jsonrpc", "2.0")?;
                fields.serialize_entry("error", failure)?;
            }
            (Version::Legacy, answer) => {
                fields.serialize_entry("result", &answer.as_ref().ok())?;
                fields.serialize_entry("error", &answer.as_ref().err())?;
            }
        }
        if let Some(id) = &self.id {
            fields.serialize_entry("id", id)?;
        }
        fields.end()
    }
}

/// One line of JSON. Serialisation does not fail: all keys are strings.
fn line(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::super::error::json;
    use super::*;

    fn ask(body: &str) -> (u16, Option<String>) {
        let reply = answer(body.as_bytes(), |call| match call.method.as_str() {
            "count" => json(call.params.as_array().map(Vec::len)),
            "fail" => Err(RpcFailure::new(code::INVALID_PARAMETER, "no")),
            _ => Err(RpcFailure::new(code::METHOD_NOT_FOUND, "Method not found")),
        });
        (reply.status, reply.body)
    }

    fn says(status: u16, body: &str) -> (u16, Option<String>) {
        (status, Some(format!("{body}\n")))
    }

    #[test]
    fn legacy_responses_have_result_and_error_and_an_error_status() {
        assert_eq!(
            ask(r#"{"method":"count","params":[1,2],"id":7}"#),
            says(200, r#"{"result":2,"error":null,"id":7}"#)
        );
        assert_eq!(
            ask(r#"{"jsonrpc":"1.0","method":"fail","id":"x"}"#),
            says(500, r#"{"result":null,"error":{"code":-8,"message":"no"},"id":"x"}"#)
        );
        assert_eq!(ask(r#"{"method":"other","id":1}"#).0, 404);
        assert_eq!(ask(r#"{"method":"count"}"#), says(200, r#"{"result":0,"error":null}"#));
    }

    #[test]
    fn version_2_errors_have_status_200_and_notifications_no_body() {
        assert_eq!(
            ask(r#"{"jsonrpc":"2.0","method":"other","id":1}"#),
            says(200, r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#)
        );
        assert_eq!(
            ask(r#"{"jsonrpc":"2.0","method":"count","id":null}"#),
            says(200, r#"{"jsonrpc":"2.0","result":0,"id":null}"#)
        );
        assert_eq!(ask(r#"{"jsonrpc":"2.0","id":1}"#).0, 400);
        assert_eq!(ask(r#"{"jsonrpc":"2.0","method":"count"}"#), (204, None));
        assert_eq!(ask(r#"[{"jsonrpc":"2.0","method":"count"}]"#), (204, None));
    }

    #[test]
    fn each_request_of_a_batch_is_answered_by_its_own_version() {
        assert_eq!(
            ask(r#"[{"method":"count","id":1},{"jsonrpc":"2.0","method":"fail","id":2},3]"#),
            says(
                200,
                concat!(
                    r#"[{"result":0,"error":null,"id":1},"#,
                    r#"{"jsonrpc":"2.0","error":{"code":-8,"message":"no"},"id":2},"#,
                    r#"{"result":null,"error":{"code":-32600,"message":"Invalid Request object"},"id":null}]"#
                )
            )
        );
        assert_eq!(ask("[]"), says(200, "[]"));
    }

    #[test]
    fn each_malformed_request_has_its_own_error() {
        let message = |body: &str| {
            let (status, answer) = ask(body);
            let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
            (status, answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
        };
        for (body, status, code, words) in [
            ("", 500, -32700, "Parse error"),
            ("{", 500, -32700, "Parse error"),
            ("3", 500, -32700, "Top-level object parse error"),
            ("{}", 400, -32600, "Missing method"),
            (r#"{"method":3}"#, 400, -32600, "Method must be a string"),
            (r#"{"method":"count","params":3}"#, 400, -32600, "Params must be an array or object"),
        ] {
            assert_eq!(message(body), (status, code, words.to_owned()), "{body}");
        }
    }
}
