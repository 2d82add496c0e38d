//! A ZMQ publisher on the loopback address: a PUB socket by ZMTP 3.0 (<https://rfc.zeromq.org/spec/23/>) without
//! authentication, for any number of subscribers.
//!
//! Messages are sent to current subscribers only. Like a node's publisher, it drops the oldest unread messages of a
//! slow subscriber.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::oneshot;

/// The most queued messages of a subscriber (`DEFAULT_ZMQ_SNDHWM` of Core's `zmq/zmqabstractnotifier.h`).
pub(super) const HIGH_WATER_MARK: usize = 1_000;

/// How long a publisher waits for its connections when it stops.
const LAST_WORDS: Duration = Duration::from_millis(100);

const MORE: u8 = 1;
const COMMAND: u8 = 4;
const GREETING_BYTES: usize = 64;

/// An encoded message.
type Wire = Arc<[u8]>;

/// The running publisher. Dropping it closes the port and all connections.
#[derive(Debug)]
pub(super) struct Publisher {
    port: u16,
    messages: broadcast::Sender<Wire>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Publisher {
    /// Listens on a port of the loopback address; 0 for any free one. The publisher has this topic alone.
    pub(super) fn start(port: u16, topic: &'static [u8]) -> io::Result<Publisher> {
        let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (messages, _) = broadcast::channel(HIGH_WATER_MARK);
        let (stop, stopped) = oneshot::channel();
        let source = messages.clone();
        let publish = move || {
            runtime.block_on(async {
                if let Ok(listener) = TcpListener::from_std(listener) {
                    tokio::select! {
                        // ends when the owner sends the stop, or is dropped
                        _ = stopped => {}
                        () = accept(&listener, &source, topic) => {}
                    }
                }
            });
            runtime.shutdown_timeout(LAST_WORDS);
        };
        let thread = thread::Builder::new().name("sim-node-zmq".to_owned()).spawn(publish)?;
        Ok(Publisher { port, messages, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Sends a message of these frames to all subscribers. Never waits.
    pub(super) fn send(&self, frames: &[&[u8]]) {
        let last = frames.len().saturating_sub(1);
        let encoded = (0..).zip(frames).flat_map(|(index, frame)| encode(if index == last { 0 } else { MORE }, frame));
        // an error means that there are no subscribers
        let _ = self.messages.send(encoded.collect());
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // the thread may have ended by itself, so errors are ignored
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections for ever.
async fn accept(listener: &TcpListener, messages: &broadcast::Sender<Wire>, topic: &'static [u8]) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let messages = messages.clone();
                tokio::spawn(async move {
                    // ends when the subscriber disconnects, or violates the protocol
                    let _ = serve(stream, &messages, topic).await;
                });
            }
            // such as too many open files
            Err(_) => tokio::time::sleep(LAST_WORDS).await,
        }
    }
}

async fn serve(mut stream: TcpStream, messages: &broadcast::Sender<Wire>, topic: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting()).await?;
    stream.read_exact(&mut [0; GREETING_BYTES]).await?;
    stream.write_all(&encode(COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03PUB")).await?;

    let (mut reading, mut writing) = stream.split();
    let mut received = Vec::new();
    let mut subscription: Option<broadcast::Receiver<Wire>> = None;
    loop {
        tokio::select! {
            read = reading.read_buf(&mut received) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some((is_command, body)) = take_frame(&mut received)? {
                    match (is_command, body.split_first()) {
                        (false, Some((1, prefix))) if topic.starts_with(prefix) => {
                            subscription.get_or_insert_with(|| messages.subscribe());
                        }
                        (false, Some((0, prefix))) if topic.starts_with(prefix) => subscription = None,
                        (true, _) => {
                            if let Some(context) = body.strip_prefix(b"\x04PING").and_then(|rest| rest.get(2..)) {
                                writing.write_all(&encode(COMMAND, &[b"\x04PONG", context].concat())).await?;
                            }
                        }
                        _ => {}
                    }
                }
            }
            message = next(&mut subscription) => writing.write_all(&message).await?,
        }
    }
}

/// The next message of a subscription; pending for ever without one.
async fn next(subscription: &mut Option<broadcast::Receiver<Wire>>) -> Wire {
    while let Some(messages) = subscription {
        match messages.recv().await {
            Ok(message) => return message,
            // the lagged messages are dropped
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *subscription = None,
        }
    }
    std::future::pending().await
}

/// Signature, version 3.0, mechanism, filler.
fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Encodes a frame of at most 255 bytes, as all frames here are.
fn encode(flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [&[flags, length], body].concat()
}

/// Takes the next frame once it is complete: whether it is a command, and its body.
fn take_frame(received: &mut Vec<u8>) -> io::Result<Option<(bool, Vec<u8>)>> {
    let &[flags, length, ..] = received.as_slice() else { return Ok(None) };
    if flags & !COMMAND != 0 {
        return Err(io::Error::other("a subscriber sends short frames, one by one"));
    }
    let end = 2 + usize::from(length);
    if received.len() < end {
        return Ok(None);
    }
    let frame: Vec<u8> = received.drain(..end).skip(2).collect();
    Ok(Some((flags == COMMAND, frame)))
}
