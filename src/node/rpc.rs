//! JSON-RPC to the node: bitcoincore-rpc's generic client over `http.rs`, which adds kept-alive connections, limits for
//! each call, and a new login when the cookie changes.

use std::fmt;
use std::sync::Arc;

use bitcoincore_rpc::RpcApi;
use bitcoincore_rpc::jsonrpc::{self, Request, Response};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::credentials::Credentials;
use super::error::NodeError;
use super::http::{Http, HttpResponse, ResponseLimits};

/// Error codes of Core's `src/rpc/protocol.h`.
pub(super) mod code {
    /// `RPC_MISC_ERROR`, also a pruned block.
    pub(crate) const MISC: i32 = -1;
    /// `RPC_INVALID_ADDRESS_OR_KEY`, also an unknown block or transaction.
    pub(crate) const NOT_FOUND: i32 = -5;
    /// `RPC_INVALID_PARAMETER`, also a height beyond the tip.
    pub(crate) const INVALID_PARAMETER: i32 = -8;
    /// `RPC_METHOD_NOT_FOUND`, a method that the node is too old for or was built without.
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    /// `RPC_DESERIALIZATION_ERROR`, bytes that are no transaction.
    pub(crate) const DESERIALIZATION: i32 = -22;
    /// `RPC_VERIFY_ERROR`, also `RPC_TRANSACTION_ERROR`: missing inputs, or a fee above the caller's limit.
    pub(crate) const VERIFY: i32 = -25;
    /// `RPC_VERIFY_REJECTED`, also `RPC_TRANSACTION_REJECTED`: a transaction against consensus or the node's policy.
    pub(crate) const REJECTED: i32 = -26;
    /// `RPC_VERIFY_ALREADY_IN_UTXO_SET`: a transaction that is in the chain.
    pub(crate) const ALREADY_IN_CHAIN: i32 = -27;
    /// `RPC_IN_WARMUP`.
    pub(crate) const WARMING_UP: i32 = -28;
}

pub(super) struct Rpc {
    http: Arc<Http>,
    credentials: Arc<Credentials>,
}

impl Rpc {
    pub(super) fn new(http: Arc<Http>, credentials: Credentials) -> Rpc {
        Rpc { http, credentials: Arc::new(credentials) }
    }

    /// Calls a method once.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
        limits: ResponseLimits,
    ) -> Result<T, NodeError> {
        let client =
            bitcoincore_rpc::Client::from_jsonrpc(jsonrpc::Client::with_transport(self.transport(method, limits)));
        client.call(method, params).map_err(|error| self.failure(method, error))
    }

    /// Calls a method several times in one request; answers in the order of `calls`.
    pub(super) fn batch<T: DeserializeOwned>(
        &self,
        method: &str,
        calls: &[Vec<Value>],
        limits: ResponseLimits,
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        let calls: Vec<_> = calls.iter().map(|params| (method, params.as_slice())).collect();
        let read = |answer: CallAnswer<'_>| parse(method, answer?);
        self.send(method, &calls, limits, |answers| Ok(answers.into_iter().map(read).collect()))
    }

    /// Calls different methods in one request. `read` gets the answers in the order of `calls`, as slices of the
    /// response: a list of the mempool has some 20 MB, which are not copied.
    pub(super) fn batch_calls<T>(
        &self,
        calls: &[(&str, Vec<Value>)],
        limits: ResponseLimits,
        read: impl FnOnce(Vec<CallAnswer<'_>>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let mut methods: Vec<&str> = Vec::new();
        for (method, _) in calls {
            if !methods.contains(method) {
                methods.push(method);
            }
        }
        let calls: Vec<_> = calls.iter().map(|(method, params)| (*method, params.as_slice())).collect();
        self.send(&methods.join(", "), &calls, limits, read)
    }

    /// Sends the calls in one request. `asked` names all of them where the whole request fails.
    fn send<T>(
        &self,
        asked: &str,
        calls: &[(&str, &[Value])],
        limits: ResponseLimits,
        read: impl FnOnce(Vec<CallAnswer<'_>>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        if calls.is_empty() {
            return read(Vec::new());
        }
        let params = calls
            .iter()
            .map(|(method, params)| serde_json::value::to_raw_value(params).map_err(|error| protocol(method, &error)));
        let params = params.collect::<Result<Vec<_>, _>>()?;
        let requests = (0_usize..).zip(calls).zip(&params).map(|((id, (method, _)), params)| Request {
            method,
            params: Some(params),
            id: id.into(),
            jsonrpc: Some("2.0"),
        });
        let requests: Vec<_> = requests.collect();
        let question = serde_json::to_vec(&requests).map_err(|error| protocol(asked, &error))?;
        let answer = self.transport(asked, limits).post(&question)?;
        let mut answers: Vec<Option<BatchAnswer<'_>>> = calls.iter().map(|_| None).collect();
        for found in read_answer::<Vec<BatchAnswer<'_>>>(asked, &answer)? {
            match answers.get_mut(found.id) {
                Some(place @ None) => *place = Some(found),
                _ => return Err(protocol(asked, &format!("an answer has the id {}", found.id))),
            }
        }
        let results = calls.iter().zip(answers).map(|((method, _), answer)| match answer {
            Some(BatchAnswer { error: Some(error), .. }) => {
                Err(self.failure(method, jsonrpc::Error::Rpc(error).into()))
            }
            Some(BatchAnswer { result, .. }) => Ok(result.unwrap_or(RawValue::NULL)),
            None => Err(protocol(method, &"an answer is missing")),
        });
        read(results.collect())
    }

    fn transport(&self, method: &str, limits: ResponseLimits) -> HttpTransport {
        HttpTransport {
            http: Arc::clone(&self.http),
            credentials: Arc::clone(&self.credentials),
            method: method.to_owned(),
            limits,
        }
    }

    fn failure(&self, method: &str, error: bitcoincore_rpc::Error) -> NodeError {
        match error {
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Transport(error)) => match error.downcast::<NodeError>() {
                Ok(error) => *error,
                Err(error) => protocol(method, &error),
            },
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Rpc(error)) if error.code == code::WARMING_UP => {
                NodeError::WarmingUp { url: self.http.url().to_owned(), progress: error.message }
            }
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Rpc(error)) => {
                NodeError::Rpc { method: method.to_owned(), code: error.code, message: error.message }
            }
            other => protocol(method, &other),
        }
    }
}

/// The answer to one call of a batch, as a slice of the response.
pub(super) type CallAnswer<'a> = Result<&'a RawValue, NodeError>;

/// One answer of a batch, as JSON.
#[derive(Deserialize)]
struct BatchAnswer<'a> {
    /// The index of the call in the batch.
    id: usize,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<jsonrpc::error::RpcError>,
}

/// Reads the answer to a call of this method.
pub(super) fn parse<'a, T: Deserialize<'a>>(method: &str, answer: &'a RawValue) -> Result<T, NodeError> {
    serde_json::from_str(answer.get()).map_err(|error| protocol(method, &error))
}

pub(super) fn protocol(asked: &str, problem: &impl ToString) -> NodeError {
    NodeError::Protocol { asked: asked.to_owned(), problem: problem.to_string() }
}

fn read_answer<'a, T: Deserialize<'a>>(asked: &str, answer: &'a HttpResponse) -> Result<T, NodeError> {
    let problem = |error| match answer.status {
        // what the node says of a method that failed is JSON, whatever the status
        500..=599 if serde_json::from_slice::<IgnoredAny>(&answer.body).is_err() => {
            NodeError::ServerError { asked: asked.to_owned(), answer: answer.excerpt() }
        }
        _ => protocol(asked, &format!("{error} in {}", answer.excerpt())),
    };
    serde_json::from_slice(&answer.body).map_err(problem)
}

/// The transport of one call; made anew for each, since the limits are per call.
struct HttpTransport {
    http: Arc<Http>,
    credentials: Arc<Credentials>,
    method: String,
    limits: ResponseLimits,
}

impl HttpTransport {
    fn exchange<T: DeserializeOwned>(&self, question: impl Serialize) -> Result<T, jsonrpc::Error> {
        let question = serde_json::to_vec(&question)?;
        let answer = self.post(&question).and_then(|answer| read_answer(&self.method, &answer));
        answer.map_err(|error| jsonrpc::Error::Transport(Box::new(error)))
    }

    /// Sends the request, once more with a new login after HTTP 401. Errors of a method are JSON too, whatever the HTTP
    /// status.
    fn post(&self, question: &[u8]) -> Result<HttpResponse, NodeError> {
        let mut header = self.credentials.header()?;
        let mut answer = self.http.post(&self.method, &header, question, self.limits)?;
        if answer.status == 401
            && let Some(renewed) = self.credentials.header_after(&header)?
        {
            header = renewed;
            answer = self.http.post(&self.method, &header, question, self.limits)?;
        }
        if answer.status == 401 {
            return Err(NodeError::Unauthorized { url: self.http.url().to_owned(), login: self.credentials.login() });
        }
        Ok(answer)
    }
}

impl jsonrpc::Transport for HttpTransport {
    fn send_request(&self, request: Request<'_>) -> Result<Response, jsonrpc::Error> {
        self.exchange(request)
    }

    fn send_batch(&self, requests: &[Request<'_>]) -> Result<Vec<Response>, jsonrpc::Error> {
        self.exchange(requests)
    }

    fn fmt_target(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.http.url())
    }
}
