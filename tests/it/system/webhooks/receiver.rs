//! A receiver of webhooks, which does as a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::support::bitcoind::wait_for;

/// The secret of all hooks of the tests: the bytes 0 to 31.
pub(crate) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// How long a slow machine may take for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a receiver does with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Takes it.
    Accept,
    /// Responds with this status.
    Refuse(u16),
    /// Takes no message whose body has this text.
    RefuseWith(String),
    /// Never responds.
    Stall,
    /// Takes it, and responds after so long.
    AcceptAfter(Duration),
    /// Takes it, and never responds.
    AcceptAndStall,
    /// Redirects to this address.
    Redirect(SocketAddr),
    /// Takes it with a body of 100 MB.
    AcceptAtLength,
    /// Refuses every second message that it is sent.
    RefuseEverySecond,
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Received {
    pub(crate) id: String,
    pub(crate) body: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Whether it was taken.
    pub(crate) is_accepted: bool,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Checks the signature as Standard Webhooks says.
    #[track_caller]
    pub(crate) fn verify(&self) {
        let mut engine = HmacEngine::<sha256::Hash>::new(&(0..32).collect::<Vec<u8>>());
        let content = format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body);
        engine.input(content.as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(Hmac::<sha256::Hash>::from_engine(engine).to_byte_array()));
        assert_eq!(self.header("webhook-signature"), expected);
    }
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    count: usize,
}

/// A receiver. It ends when it is dropped.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    reaction: Arc<Mutex<Reaction>>,
    runtime: Option<Runtime>,
}

impl Receiver {
    /// On any free port.
    pub(crate) fn start(reaction: Reaction) -> Self {
        let mut receiver = Self {
            address: ([127, 0, 0, 1], 0).into(),
            state: Arc::default(),
            reaction: Arc::new(Mutex::new(reaction)),
            runtime: None,
        };
        receiver.resume();
        receiver
    }

    /// Ends it. What it has received stays.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }

    /// Starts it again, on the port that it had.
    pub(crate) fn resume(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = self.address;
        let listener = wait_for("the port to be free", PATIENCE, || runtime.block_on(TcpListener::bind(address)).ok());
        self.address = listener.local_addr().unwrap();
        let (state, reaction) = (self.state.clone(), self.reaction.clone());
        let router = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
            let (state, reaction) = (state.clone(), reaction.lock().unwrap().clone());
            async move { react(&state, &reaction, &headers, &body).await }
        });
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        self.runtime = Some(runtime);
    }

    pub(crate) fn react(&self, reaction: Reaction) {
        *self.reaction.lock().unwrap() = reaction;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// All messages, also those that were refused.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }

    pub(crate) fn accepted(&self) -> Vec<Received> {
        self.received().into_iter().filter(|message| message.is_accepted).collect()
    }

    /// The messages that it took, each once, when there are so many.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Received> {
        wait_for(&format!("{count} messages"), PATIENCE, || {
            let accepted = distinct(self.accepted());
            (accepted.len() >= count).then_some(accepted)
        })
    }

    /// Waits until so many were sent, whether it took them or not.
    pub(crate) fn wait_for_attempts(&self, count: usize) {
        wait_for(&format!("{count} attempts"), PATIENCE, || (self.received().len() >= count).then_some(()));
    }
}

/// Messages without repetitions of the one before.
pub(crate) fn distinct(mut messages: Vec<Received>) -> Vec<Received> {
    messages.dedup_by(|one, other| one.id == other.id);
    messages
}

async fn react(state: &Mutex<State>, reaction: &Reaction, headers: &HeaderMap, body: &[u8]) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let is_accepted = {
        let mut state = state.lock().unwrap();
        state.count += 1;
        match reaction {
            Reaction::Accept | Reaction::AcceptAfter(_) | Reaction::AcceptAndStall | Reaction::AcceptAtLength => true,
            Reaction::Refuse(_) | Reaction::Stall | Reaction::Redirect(_) => false,
            Reaction::RefuseWith(text) => !body.contains(text),
            Reaction::RefuseEverySecond => state.count.is_multiple_of(2),
        }
    };
    let id = headers.iter().find(|(name, _)| name == "webhook-id").map(|(_, id)| id.clone()).unwrap_or_default();
    state.lock().unwrap().received.push(Received { id, body, headers, is_accepted });
    if let Reaction::AcceptAfter(pause) = reaction {
        tokio::time::sleep(*pause).await;
    }
    match reaction {
        Reaction::Stall | Reaction::AcceptAndStall => std::future::pending().await,
        Reaction::Redirect(to) => {
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, format!("http://{to}/"))]).into_response()
        }
        Reaction::AcceptAtLength => vec![b'x'; 100_000_000].into_response(),
        Reaction::Refuse(status) => StatusCode::from_u16(*status).unwrap().into_response(),
        _ if is_accepted => StatusCode::NO_CONTENT.into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
