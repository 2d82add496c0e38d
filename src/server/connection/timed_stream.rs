//! The bytes of one connection, and the time that its client may take: to send the head of a request, to begin one, and to
//! read what is sent. For HTTP and websockets a client that is too slow is a connection that broke.
//!
//! ```text
//!             accepted      a byte came         the head is there        the answer is passed on
//!                │              │                       │                         │
//!   reading      └─ Head ───────┴───────────────────────┴─ answered: no limit ────┴─ Idle ─ a byte came ─ Head …
//!                    header timeout                        (body.rs has its own)     keep-alive
//!   writing      min_rate.rs, whenever bytes wait to be sent
//! ```
//!
//! framing.rs follows the bytes that are read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_graphql::futures_util::task::AtomicWaker;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::framing::Framing;
use super::min_rate::{MinRate, TransferMonitor};
use crate::limits::Limits;
use crate::server::limits::slots::Slot;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// From the first byte of a request, or the beginning of the connection, to the end of the head.
    pub(crate) header: Duration,
    /// From one request to the first byte of the next.
    pub(crate) idle: Duration,
    /// To read what is sent.
    pub(crate) min_rate: MinRate,
}

impl Timeouts {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { header: limits.header_timeout, idle: limits.idle_timeout, min_rate: MinRate::of_responses(limits) }
    }
}

/// Whether a request is being answered on a connection, or it is no connection of HTTP any more. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Answering(Arc<AnsweringState>);

#[derive(Default)]
struct AnsweringState {
    is_answering: AtomicBool,
    /// The task that reads, woken when that ends.
    reader: AtomicWaker,
    /// How many requests have begun to be answered.
    begun: AtomicU64,
    /// The number of the request that states its length twice; 0 for none.
    ambiguous: AtomicU64,
    is_upgraded: AtomicBool,
}

impl Answering {
    /// The head of a request is there. Whether it states its length twice.
    pub(crate) fn begin(&self) -> bool {
        self.0.is_answering.store(true, Ordering::Release);
        let number = self.0.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.ambiguous.load(Ordering::Acquire) == number
    }

    /// The connection is not one of HTTP any more.
    pub(crate) fn upgrade(&self) {
        self.0.is_upgraded.store(true, Ordering::Release);
    }

    /// The body of its answer, with which it ends.
    pub(crate) fn until_end_of(self, body: Body) -> Body {
        Body::new(TrackedBody { body, answering: self })
    }

    /// If it is so, the task is woken when it is so no longer.
    fn is_answering(&self, cx: &Context<'_>) -> bool {
        self.0.reader.register(cx.waker());
        self.0.is_answering.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.0.is_answering.store(false, Ordering::Release);
        self.0.reader.wake();
    }
}

/// A body that reports when it is passed on, or dropped.
struct TrackedBody {
    body: Body,
    answering: Answering,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.answering.end();
    }
}

/// A connection with [`Timeouts`].
pub(crate) struct TimedStream<S = TcpStream> {
    stream: S,
    timeouts: Timeouts,
    answering: Answering,
    request: Request,
    /// `None` once the connection is not one of HTTP any more.
    framing: Option<Framing>,
    monitor: TransferMonitor,
    /// Set to no later than what is due first.
    timer: Option<Pin<Box<Sleep>>>,
    /// Also of what the connection becomes when it is no longer one of HTTP.
    _place: Option<Slot>,
}

/// What the client is to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// Nothing: it is being answered.
    None,
    /// That a request begins.
    Begin(Instant),
    /// The rest of the head.
    Head(Instant),
}

impl Request {
    fn due(self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Begin(due) | Self::Head(due) => Some(due),
        }
    }
}

impl<S> TimedStream<S> {
    /// The slot is free when the connection is dropped.
    pub(crate) fn new(stream: S, timeouts: Timeouts, answering: Answering, slot: Option<Slot>) -> Self {
        // a client that connects has a request
        let request = Request::Head(Instant::now() + timeouts.header);
        let framing = Some(Framing::default());
        Self {
            stream,
            timeouts,
            answering,
            request,
            framing,
            monitor: TransferMonitor::new(timeouts.min_rate),
            timer: None,
            _place: slot,
        }
    }

    /// These bytes were read.
    fn follow(&mut self, bytes: &[u8]) {
        if self.answering.0.is_upgraded.load(Ordering::Acquire) {
            self.framing = None;
        }
        if let Some(number) = self.framing.as_mut().and_then(|framing| framing.follow(bytes)) {
            self.answering.0.ambiguous.store(number, Ordering::Release);
        }
    }

    /// Wakes the task when this is due. Errors: it is.
    fn expect_by(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(due) = due else { return Ok(()) };
        if due <= Instant::now() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        // it may be set for something that has happened
        while timer.as_mut().poll(cx).is_ready() {
            timer.as_mut().reset(due);
        }
        Ok(())
    }

    fn wrote(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.monitor.take(*bytes, Instant::now()),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.monitor.wait(Instant::now());
                let due = self.monitor.due();
                if let Err(late) = self.expect_by(due, cx) {
                    tracing::debug!("a client reads its response too slowly, and is disconnected");
                    return Poll::Ready(Err(late));
                }
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.follow(&buffer.filled()[before..]);
        // a client that is slow to read an answer is judged by that
        if self.answering.is_answering(cx) || self.monitor.is_waiting() {
            self.request = Request::None;
            return read;
        }
        match &read {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                if !matches!(self.request, Request::Head(_)) {
                    self.request = Request::Head(Instant::now() + self.timeouts.header);
                }
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                if self.request == Request::None {
                    self.request = Request::Begin(Instant::now() + self.timeouts.idle);
                }
                let due = self.request.due();
                if let Err(late) = self.expect_by(due, cx) {
                    tracing::debug!("a client sends a request head too slowly, and is disconnected");
                    return Poll::Ready(Err(late));
                }
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A flush follows the last write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.monitor.rest(Instant::now());
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{sleep, timeout};

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_millis(300),
        idle: Duration::from_millis(1_200),
        min_rate: MinRate { timeout: Duration::from_millis(500), rate: 0, patience: Duration::ZERO },
    };

    /// A connection whose other end holds so many bytes that were not read.
    fn pair(holds: usize) -> (TimedStream<DuplexStream>, Answering, DuplexStream) {
        let (stream, client) = duplex(holds);
        let answering = Answering::default();
        (TimedStream::new(stream, TIMEOUTS, answering.clone(), None), answering, client)
    }

    /// Whether this is given up after that time, and not later.
    async fn is_given_up_after(time: Duration, work: impl Future<Output = io::Result<()>>) -> bool {
        let begin = Instant::now();
        let ended = timeout(Duration::from_secs(20), work).await;
        ended.is_ok_and(|ended| ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut))
            && (time..time + Duration::from_millis(10)).contains(&begin.elapsed())
    }

    async fn read(timed: &mut TimedStream<DuplexStream>) -> io::Result<()> {
        loop {
            timed.read_u8().await?;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_to_be_there_in_time_however_often_a_byte_of_it_comes() {
        let (mut timed, _, mut client) = pair(100);
        let dripping = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                sleep(TIMEOUTS.header / 10).await;
            }
        });
        assert!(is_given_up_after(TIMEOUTS.header, read(&mut timed)).await);
        drop(timed);
        dripping.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_a_client_has_longer_until_it_begins_another() {
        let (mut timed, answering, mut client) = pair(100);
        client.write_all(b"x").await.unwrap();
        timed.read_u8().await.unwrap();
        answering.begin();
        let answer = answering.until_end_of(Body::empty());
        // nothing is asked of it while it is answered
        assert!(timeout(TIMEOUTS.idle * 2, read(&mut timed)).await.is_err());
        drop(answer);
        assert!(is_given_up_after(TIMEOUTS.idle, read(&mut timed)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_begins_late_has_the_time_of_any_other() {
        let (mut timed, answering, mut client) = pair(100);
        answering.begin();
        client.write_all(b"x").await.unwrap();
        timed.read_u8().await.unwrap();
        drop(answering.until_end_of(Body::empty()));
        let sending = tokio::spawn(async move {
            sleep(TIMEOUTS.idle * 7 / 8).await;
            client.write_all(b"x").await.unwrap();
            client
        });
        assert!(is_given_up_after(TIMEOUTS.idle * 7 / 8 + TIMEOUTS.header, read(&mut timed)).await);
        drop(sending.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_byte_is_cut_off_and_one_that_takes_some_is_served_whole() {
        let (mut timed, _, client) = pair(100);
        assert!(is_given_up_after(TIMEOUTS.min_rate.timeout, timed.write_all(&[0; 1_000])).await);
        drop(client);
        let (mut timed, _, mut client) = pair(10);
        let reading = tokio::spawn(async move {
            for _ in 0..30 {
                sleep(TIMEOUTS.min_rate.timeout / 10).await;
                client.read_u8().await.unwrap();
            }
            client
        });
        timed.write_all(&[0; 40]).await.unwrap();
        drop(reading.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_reads_an_answer_is_not_idle() {
        let (mut timed, _, client) = pair(100);
        timed.monitor = TransferMonitor::new(MinRate { timeout: TIMEOUTS.header * 3, ..TIMEOUTS.min_rate });
        let (mut reading, mut writing) = tokio::io::split(timed);
        let both = async {
            tokio::select! {
                written = writing.write_all(&[0; 1_000]) => written,
                read = reading.read_u8() => read.map(|_| ()),
            }
        };
        assert!(is_given_up_after(TIMEOUTS.header * 3, both).await);
        drop(client);
    }
}
