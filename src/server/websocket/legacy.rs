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

use super::super::executor::Guarded;
use super::super::payload::too_many_operations;
use super::outgoing::{Cause, Outgoing};
use super::protocol::{Closing, close};
use super::socket::{Dialogue, Heard};

/// How many messages of the client may wait until the conversation takes them.
const UNHEARD: usize = 16;

/// The client is to go (RFC 6455).
const NORMAL: u16 = 1000;

pub(super) struct Legacy {
    messages: mpsc::Sender<Vec<u8>>,
    answers: Pin<Box<dyn Stream<Item = WsMessage> + Send>>,
    initialised: Arc<AtomicBool>,
}

impl Legacy {
    pub(super) fn new(executor: Guarded, limit: usize) -> Self {
        let (messages, heard) = mpsc::channel(UNHEARD);
        let initialised = Arc::new(AtomicBool::new(false));
        let executor = PerSocket { executor, limit, free: Arc::new(Semaphore::new(limit)) };
        let protocol = WebSocketProtocols::SubscriptionsTransportWS;
        let stock = Stock::new(executor, ReceiverStream::new(heard), protocol).on_connection_init({
            let initialised = initialised.clone();
            move |_| {
                initialised.store(true, Ordering::Relaxed);
                future::ok(Data::default())
            }
        });
        Self { messages, answers: Box::pin(stock), initialised }
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
                Poll::Ready(Some(WsMessage::Text(text))) => outgoing.push(None, Cause::Result, text),
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
    limit: usize,
    free: Arc<Semaphore>,
}

impl Executor for PerSocket {
    async fn execute(&self, request: Request) -> Response {
        self.executor.execute(request).await
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        let Ok(place) = self.free.clone().try_acquire_owned() else {
            return stream::iter([Response::from_errors(vec![too_many_operations(self.limit).into()])]).boxed();
        };
        let answers = self.executor.execute_stream(request, session_data);
        // the place is free again once the stream is dropped: at its end, and when the client stops it
        stream::unfold((answers, place), |(mut answers, place)| async {
            Some((answers.next().await?, (answers, place)))
        })
        .boxed()
    }
}
