//! The older subprotocol `graphql-ws`, of subscriptions-transport-ws, for clients that were never moved off it. The
//! conversation is async-graphql's; what it may take, and how long, is this server's as for the newer one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{Stream, StreamExt, future};
use async_graphql::http::{WebSocket as Stock, WebSocketProtocols, WsMessage};
use async_graphql::{Data, Executor, Request, Response};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::super::callers::Caller;
use super::super::executor::Guarded;
use super::super::held::Held;
use super::super::metrics::Transport as Way;
use super::super::payload::too_many_operations;
use super::super::rate::Meter;
use super::door::{Door, Guest};
use super::outgoing::{Cause, Outgoing};
use super::protocol::{Closing, close};
use super::socket::{Dialogue, Heard};
use crate::api::Include;

/// How many messages of the client may wait until the conversation takes them.
const UNHEARD: usize = 16;

/// The client is to go (RFC 6455).
const NORMAL: u16 = 1000;

pub(super) struct Legacy {
    messages: mpsc::Sender<Vec<u8>>,
    answers: Pin<Box<dyn Stream<Item = WsMessage> + Send>>,
    initialised: Arc<AtomicBool>,
    held: Held,
}

impl Legacy {
    pub(super) fn new(executor: Guarded, limit: usize, meter: Meter, held: Held, door: Door) -> Self {
        let (messages, heard) = mpsc::channel(UNHEARD);
        let initialised = Arc::new(AtomicBool::new(false));
        let free = Arc::new(Semaphore::new(limit));
        let executor = PerSocket { executor, guest: door.guest(), limit, meter: Arc::new(meter), free };
        let protocol = WebSocketProtocols::SubscriptionsTransportWS;
        let stock = Stock::new(executor, ReceiverStream::new(heard), protocol).on_connection_init({
            let initialised = initialised.clone();
            move |payload: serde_json::Value| {
                initialised.store(true, Ordering::Relaxed);
                let named = |name: &str| payload[name].as_str();
                let caller = door.admit(named("authorization").or_else(|| named("Authorization")));
                future::ready(match caller {
                    Ok(_) => Ok(Data::default()),
                    Err(closing) => Err(async_graphql::Error::new(closing.reason)),
                })
            }
        });
        Self { messages, answers: Box::pin(stock), initialised, held }
    }
}

impl Dialogue for Legacy {
    fn hear(&mut self, heard: Heard<'_>, outgoing: &mut Outgoing) {
        let message = match heard {
            Heard::Text(text) => text.as_bytes().to_vec(),
            Heard::Binary(bytes) => bytes.to_vec(),
        };
        // it was asked for room before
        if self.messages.try_send(message).is_err() {
            outgoing.close(Closing::new(close::TRY_AGAIN_LATER, "too many messages at once".to_owned()));
        }
    }

    fn can_hear(&self) -> bool {
        self.messages.capacity() > 0
    }

    fn init_due(&mut self, outgoing: &mut Outgoing) {
        if !self.initialised.load(Ordering::Relaxed) {
            let reason = "Connection initialisation timeout".to_owned();
            outgoing.close(Closing::new(close::INIT_TIMED_OUT, reason));
        }
    }

    fn speak(&mut self, cx: &mut Context<'_>, outgoing: &mut Outgoing) {
        while outgoing.has_room_for_results() {
            match self.answers.as_mut().poll_next(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(WsMessage::Text(text))) => match self.held.claim(text.len()) {
                    Ok(claim) => outgoing.push(None, Cause::Result, text, claim),
                    Err(reason) => outgoing.close(Closing::new(close::TRY_AGAIN_LATER, reason.to_string())),
                },
                Poll::Ready(Some(WsMessage::Close(code, reason))) => outgoing.end(Closing::new(code, reason)),
                Poll::Ready(None) => outgoing.end(Closing::new(NORMAL, String::new())),
            }
        }
    }
}

/// The guarded engine for one socket, which runs a bounded number of operations at once.
#[derive(Clone)]
struct PerSocket {
    executor: Guarded,
    /// Who it is for, once that is known.
    guest: Guest,
    limit: usize,
    meter: Arc<Meter>,
    free: Arc<Semaphore>,
}

impl PerSocket {
    fn executor(&self) -> Guarded {
        let on_behalf =
            |caller: &Arc<Caller>| self.executor.on_behalf(caller.clone(), Way::Websocket, Include::default());
        self.guest.caller().map_or_else(|| self.executor.clone(), on_behalf)
    }
}

impl Executor for PerSocket {
    async fn execute(&self, request: Request) -> Response {
        self.executor().execute(request).await
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        let Ok(place) = self.free.clone().try_acquire_owned() else {
            return stream::iter([Response::from_errors(vec![too_many_operations(self.limit).into()])]).boxed();
        };
        if let Err(error) = self.meter.ask() {
            return stream::iter([Response::from_errors(vec![error])]).boxed();
        }
        let answers = self.executor().execute_stream(request, session_data);
        // the place is free again once the stream is dropped: at its end, and when the client stops it
        stream::unfold((answers, place), |(mut answers, place)| async {
            Some((answers.next().await?, (answers, place)))
        })
        .boxed()
    }
}
