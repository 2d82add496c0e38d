//! Receives the signals, on a thread of its own, and queues them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tracing::{debug, info, warn};

use super::endpoint::Endpoint;
use super::message::{SequenceReader, TOPIC};
use super::queue::SignalQueue;
use super::signal::{NodeSignal, ReceivedSignal};
use super::zmtp::ZmqConnection;
use crate::node::error::NodeError;
use crate::node::retry::StopFlag;

/// The pause after a connection fails, which doubles with each failure up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The least time between two warnings of missing signals on one connection.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Receives a node's signals on a thread of its own, and reconnects whenever the connection ends. Dropping it ends the
/// thread.
///
/// The node has registered a new subscriber before [`Lost`](NodeSignal::Lost) is delivered, but may skip signals in the
/// millisecond after it. A consumer that then requests the mempool has to compare mempool sequence numbers.
/// [`mempool_list`](crate::node::Node::mempool_list) returns the number of the next change: the list already includes signals
/// with a lower number, and if the first signal that is not lower is higher, with no block before it, a signal is
/// missing.
#[derive(Debug)]
pub struct Signals {
    queue: Arc<SignalQueue>,
    connected: Arc<AtomicBool>,
    stop: StopFlag,
}

impl Signals {
    /// Connects to an endpoint, `tcp://host:port`, which need not be reachable yet. The queue has at most `capacity`
    /// signals; one more replaces all of them by [`Lost`](NodeSignal::Lost). `on_signal` is called after signals
    /// arrive, on the receiving thread, and must not block.
    ///
    /// The thread ends within 100 ms after the flag is raised, or, while it waits for a host to accept a connection,
    /// within 2 s for each of its addresses, without delivering further signals.
    ///
    /// Errors: [`NodeError::Settings`] for another form of endpoint; [`NodeError::SignalThread`].
    pub fn start(
        endpoint: &str,
        capacity: usize,
        stop: &StopFlag,
        on_signal: impl Fn() + Send + 'static,
    ) -> Result<Signals, NodeError> {
        let signals =
            Signals { queue: Arc::new(SignalQueue::new(capacity)), connected: Arc::default(), stop: stop.child() };
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

    /// These signals, which arrived now, from no node.
    #[cfg(test)]
    pub(crate) fn of(signals: impl IntoIterator<Item = NodeSignal>) -> Signals {
        let queue = SignalQueue::new(usize::MAX);
        for signal in signals {
            queue.push(ReceivedSignal { signal, at: SystemTime::now() });
        }
        Signals { queue: Arc::new(queue), connected: Arc::default(), stop: StopFlag::default() }
    }

    /// Takes all queued signals, in order. If [`Lost`](NodeSignal::Lost) is among them, it is the first, and only once.
    #[must_use]
    pub fn drain(&self) -> Vec<ReceivedSignal> {
        self.queue.drain()
    }

    /// Whether a signal waits after which the active chain of the node may be another.
    #[must_use]
    pub fn may_chain_have_changed(&self) -> bool {
        self.queue.may_chain_have_changed()
    }

    /// Whether the connection is open at this moment. While it is not, no signals arrive and the node has to be polled.
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

/// The receiving thread.
struct Listener<F> {
    address: String,
    queue: Arc<SignalQueue>,
    connected: Arc<AtomicBool>,
    stop: StopFlag,
    on_signal: F,
}

impl<F: Fn()> Listener<F> {
    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        let mut was_connected = true;
        while !self.stop.is_raised() {
            let connection = ZmqConnection::open(&self.address, TOPIC, &self.stop);
            let ended = connection.and_then(|connection| {
                info!(address = self.address, "receiving the node's signals");
                (pause, was_connected) = (FIRST_PAUSE, true);
                self.listen(connection)
            });
            if self.stop.is_raised() {
                return;
            }
            if let Err(error) = ended {
                // warns when the connection fails, not at every further attempt
                if was_connected {
                    warn!(address = self.address, %error, "no connection to the node's signals: retrying");
                } else {
                    debug!(address = self.address, %error, again_in = ?pause, "no connection to the node's signals");
                }
                was_connected = false;
            }
            if self.stop.sleep(pause).is_err() {
                return;
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Queues the received signals until the connection breaks or the flag is raised.
    fn listen(&self, mut connection: ZmqConnection) -> io::Result<()> {
        let _connected = Connected::new(&self.connected);
        let mut reader = SequenceReader::default();
        let mut warned: Option<Instant> = None;
        self.deliver(&[NodeSignal::Lost]);
        loop {
            let message = connection.receive()?;
            if self.stop.is_raised() {
                return Ok(());
            }
            let Some(message) = message else { continue };
            let (loss, signal) = reader.read(&message);
            if let Some(loss) = loss {
                // a burst that the node cannot send has many gaps, and one warning reports all
                if warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
                    warn!(address = self.address, reason = %loss, "signals of the node are missing");
                    warned = Some(Instant::now());
                } else {
                    debug!(address = self.address, reason = %loss, "signals of the node are missing");
                }
            }
            let gap = loss.map(|_| NodeSignal::Lost);
            self.deliver(&gap.into_iter().chain(signal).collect::<Vec<_>>());
        }
    }

    fn deliver(&self, signals: &[NodeSignal]) {
        let at = SystemTime::now();
        for signal in signals {
            self.queue.push(ReceivedSignal { signal: *signal, at });
        }
        (self.on_signal)();
    }
}

/// Marks the connection as open until it is dropped, however the connection ends.
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
