//! What a node tells by itself: [`Signals`], a stream of [`NodeSignal`] from its ZMQ topic `sequence`.
//!
//! ```text
//!   node ── TCP ──► zmtp.rs ── frames ──► message.rs ── signals ──► queue.rs ──► drain(), whenever the caller likes
//!                      │                     │ is anything missing?    │ bounded
//!                      └── connected anew ───┴──────── Lost ───────────┘ and on_signal() wakes whoever sleeps
//!   endpoint.rs   where it publishes them    wire.rs   the bytes of zmtp.rs
//! ```
//!
//! Signals are hints: the node keeps nothing for whoever is away, and drops what it cannot get rid of. What may be missing
//! is told as [`NodeSignal::Lost`], never passed over; whoever follows the mempool then asks the node for all of it.

mod endpoint;
mod message;
mod queue;
mod wire;
mod zmtp;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use bitcoin::{BlockHash, Txid};
use tracing::{debug, info, warn};

use self::endpoint::Endpoint;
use self::message::{Reader, TOPIC};
use self::queue::Queue;
use self::zmtp::Connection;
use super::error::NodeError;
use super::retry::StopFlag;

/// The pause after a connection broke or was not to be had, which doubles each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Something that happened at the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSignal {
    /// A block joined the active chain. What it did to the mempool came before; there was no signal for transactions that
    /// it holds.
    BlockConnected(BlockHash),
    /// A block left the active chain. What that did to the mempool comes after.
    BlockDisconnected(BlockHash),
    /// A transaction entered the mempool.
    Added {
        /// The transaction.
        txid: Txid,
        /// The number of this change of the mempool, to compare with [`Node::mempool_list`](super::Node::mempool_list).
        mempool_sequence: u64,
    },
    /// A transaction left the mempool, and not for a block that holds it.
    Removed {
        /// The transaction.
        txid: Txid,
        /// The number of this change of the mempool.
        mempool_sequence: u64,
    },
    /// Something may have happened that was not told: listening has begun, or begun anew, or messages are missing, or more
    /// signals came than were taken. Ask the node how things are, and go on from there.
    Lost,
}

/// A signal, and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardSignal {
    /// What was told.
    pub signal: NodeSignal,
    /// When this machine heard it, however late it is taken.
    pub at: SystemTime,
}

/// Listens to a node's signals on a thread of its own, and connects again whenever the connection ends. Dropping it ends
/// the listening.
///
/// The node knows of a new listener before [`Lost`](NodeSignal::Lost) comes, but may pass over what happens in the
/// millisecond after it. Whoever asks for the mempool upon that has to compare numbers. With
/// [`mempool_list`](super::Node::mempool_list) comes that of the next change: signals below it tell nothing new, and when
/// the first that is not below it is above it, and no block came before, something was missed in between.
#[derive(Debug)]
pub struct Signals {
    queue: Arc<Queue>,
    connected: Arc<AtomicBool>,
    stop: StopFlag,
}

impl Signals {
    /// Begins to listen at an endpoint, `tcp://host:port`, which need not be there yet. At most `capacity` signals wait to
    /// be taken; one more makes all of them [`Lost`](NodeSignal::Lost). `on_signal` is called after signals have come, on
    /// the thread that listens, and must not wait for anything.
    ///
    /// The thread ends within 100 ms of the flag's going up, or, while it waits for a host to accept a connection, within
    /// 2 s for each of its addresses, but tells nothing any more.
    pub fn start(
        endpoint: &str,
        capacity: usize,
        stop: &StopFlag,
        on_signal: impl Fn() + Send + 'static,
    ) -> Result<Signals, NodeError> {
        let signals = Signals { queue: Arc::new(Queue::new(capacity)), connected: Arc::default(), stop: stop.child() };
        let listener = Listener {
            address: Endpoint::of_setting(endpoint)?.address(),
            queue: Arc::clone(&signals.queue),
            connected: Arc::clone(&signals.connected),
            stop: signals.stop.clone(),
            on_signal,
        };
        let thread = thread::Builder::new().name("node-signals".to_owned());
        thread.spawn(move || listener.run()).map_err(NodeError::SignalThread)?;
        Ok(signals)
    }

    /// Takes all signals that wait, in their order. Where [`Lost`](NodeSignal::Lost) is among them it is the first, once.
    #[must_use]
    pub fn drain(&self) -> Vec<HeardSignal> {
        self.queue.drain()
    }

    /// Whether the node is listened to at this moment. While it is not, no signal comes and the node has to be asked.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

/// The thread's share.
struct Listener<F> {
    address: String,
    queue: Arc<Queue>,
    connected: Arc<AtomicBool>,
    stop: StopFlag,
    on_signal: F,
}

impl<F: Fn()> Listener<F> {
    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        let mut was_there = true;
        while !self.stop.is_raised() {
            let connection = Connection::open(&self.address, TOPIC, &self.stop);
            let ended = connection.and_then(|connection| {
                info!(address = self.address, "listening to the node's signals");
                (pause, was_there) = (FIRST_PAUSE, true);
                self.listen(connection)
            });
            if self.stop.is_raised() {
                return;
            }
            if let Err(error) = ended {
                // once when it goes, not for every time that it is not there
                if was_there {
                    warn!(address = self.address, %error, "the node's signals are not heard: trying again");
                } else {
                    debug!(address = self.address, %error, again_in = ?pause, "the node's signals are not heard");
                }
                was_there = false;
            }
            if self.stop.sleep(pause).is_err() {
                return;
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Passes on what comes, until the connection breaks or the flag is up.
    fn listen(&self, mut connection: Connection) -> io::Result<()> {
        let _connected = Connected::new(&self.connected);
        let mut reader = Reader::default();
        self.tell(&[NodeSignal::Lost]);
        loop {
            let message = connection.receive()?;
            if self.stop.is_raised() {
                return Ok(());
            }
            let Some(message) = message else { continue };
            let (loss, signal) = reader.read(&message);
            if let Some(loss) = loss {
                warn!(address = self.address, reason = %loss, "signals of the node are missing");
            }
            let gap = loss.map(|_| NodeSignal::Lost);
            self.tell(&gap.into_iter().chain(signal).collect::<Vec<_>>());
        }
    }

    fn tell(&self, signals: &[NodeSignal]) {
        let at = SystemTime::now();
        for signal in signals {
            self.queue.push(HeardSignal { signal: *signal, at });
        }
        (self.on_signal)();
    }
}

/// Says that there is a connection for as long as it is there, in whatever way it ends.
struct Connected<'c>(&'c AtomicBool);

impl Connected<'_> {
    fn new(connected: &AtomicBool) -> Connected<'_> {
        connected.store(true, Ordering::Release);
        Connected(connected)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
