//! JSON-RPC to the node: bitcoincore-rpc's generic client over our own HTTP, which brings kept-alive connections,
//! limits for each call, and a new login when the cookie has changed.

use std::fmt;
use std::sync::Arc;

use bitcoincore_rpc::RpcApi;
use bitcoincore_rpc::jsonrpc::{self, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::credentials::Credentials;
use super::error::NodeError;
use super::http::{Http, Limits};

/// Error codes of Core's `src/rpc/protocol.h`.
pub(super) mod code {
    /// `RPC_MISC_ERROR`, also a block that was pruned.
    pub(crate) const MISC: i32 = -1;
    /// `RPC_INVALID_ADDRESS_OR_KEY`, also an unknown block or transaction.
    pub(crate) const NOT_FOUND: i32 = -5;
    /// `RPC_INVALID_PARAMETER`, also a height beyond the tip.
    pub(crate) const INVALID_PARAMETER: i32 = -8;
    /// `RPC_METHOD_NOT_FOUND`, a method that the node is too old for or was built without.
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    /// `RPC_DESERIALIZATION_ERROR`, bytes that are no transaction.
    pub(crate) const DESERIALIZATION: i32 = -22;
    /// `RPC_VERIFY_ERROR`, also `RPC_TRANSACTION_ERROR`: a transaction that spends what there is not, or pays too much.
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
        limits: Limits,
    ) -> Result<T, NodeError> {
        let client = bitcoincore_rpc::Client::from_jsonrpc(self.client(method, limits));
        client.call(method, params).map_err(|error| self.failure(method, error))
    }

    /// Calls a method several times in one request; answers in the order of `calls`.
    pub(super) fn batch<T: DeserializeOwned>(
        &self,
        method: &str,
        calls: &[Vec<Value>],
        limits: Limits,
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        self.send(method, calls.iter().map(|params| (method, params.as_slice())), limits)
    }

    /// Calls different methods in one request; answers, as they came, in the order of `calls`.
    pub(super) fn batch_of(
        &self,
        calls: &[(&str, Vec<Value>)],
        limits: Limits,
    ) -> Result<Vec<Result<Box<RawValue>, NodeError>>, NodeError> {
        let mut methods: Vec<&str> = Vec::new();
        for (method, _) in calls {
            if !methods.contains(method) {
                methods.push(method);
            }
        }
        self.send(&methods.join(", "), calls.iter().map(|(method, params)| (*method, params.as_slice())), limits)
    }

    /// Sends the calls in one request. `asked` names all of them where the whole request fails.
    fn send<'c, T: DeserializeOwned>(
        &self,
        asked: &str,
        calls: impl Iterator<Item = (&'c str, &'c [Value])>,
        limits: Limits,
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        let client = self.client(asked, limits);
        let failure = |method: &str, error| self.failure(method, bitcoincore_rpc::Error::JsonRpc(error));
        let calls = calls
            .map(|(method, params)| match serde_json::value::to_raw_value(params) {
                Ok(params) => Ok((method, params)),
                Err(error) => Err(failure(method, error.into())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let requests: Vec<_> =
            calls.iter().map(|(method, params)| client.build_request(method, Some(params))).collect();
        let responses = client.send_batch(&requests).map_err(|error| failure(asked, error))?;
        let answer = |(method, response): (&str, Option<Response>)| match response {
            Some(response) => response.result().map_err(|error| failure(method, error)),
            None => Err(NodeError::Protocol { asked: method.to_owned(), problem: "an answer is missing".to_owned() }),
        };
        Ok(calls.iter().map(|(method, _)| *method).zip(responses).map(answer).collect())
    }

    fn client(&self, method: &str, limits: Limits) -> jsonrpc::Client {
        jsonrpc::Client::with_transport(HttpTransport {
            http: Arc::clone(&self.http),
            credentials: Arc::clone(&self.credentials),
            method: method.to_owned(),
            limits,
        })
    }

    fn failure(&self, method: &str, error: bitcoincore_rpc::Error) -> NodeError {
        let protocol = |problem: String| NodeError::Protocol { asked: method.to_owned(), problem };
        match error {
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Transport(error)) => match error.downcast::<NodeError>() {
                Ok(error) => *error,
                Err(error) => protocol(error.to_string()),
            },
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Rpc(error)) if error.code == code::WARMING_UP => {
                NodeError::WarmingUp { url: self.http.url().to_owned(), progress: error.message }
            }
            bitcoincore_rpc::Error::JsonRpc(jsonrpc::Error::Rpc(error)) => {
                NodeError::Rpc { method: method.to_owned(), code: error.code, message: error.message }
            }
            other => protocol(other.to_string()),
        }
    }
}

/// The way of one call; made for each, as the limits are its own.
struct HttpTransport {
    http: Arc<Http>,
    credentials: Arc<Credentials>,
    method: String,
    limits: Limits,
}

impl HttpTransport {
    fn exchange<T: DeserializeOwned>(&self, question: impl Serialize) -> Result<T, jsonrpc::Error> {
        let question = serde_json::to_vec(&question)?;
        self.post(&question).map_err(|error| jsonrpc::Error::Transport(Box::new(error)))
    }

    fn post<T: DeserializeOwned>(&self, question: &[u8]) -> Result<T, NodeError> {
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
        // errors of a method come as JSON too, whatever the HTTP status
        serde_json::from_slice(&answer.body).map_err(|error| NodeError::Protocol {
            asked: self.method.clone(),
            problem: format!("{error} in {}", answer.excerpt()),
        })
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
