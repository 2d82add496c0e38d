//! [`SimNode`]: the server's thread, its port and its cookie.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bitcoin::hex::DisplayHex;
use tokio::sync::oneshot;

use super::super::World;
use super::archive::Archive;
use super::backend::Backend;
use super::http::{Served, router};
use super::options::SimNodeOptions;
use crate::chain::Feerate;

/// The user of every cookie (`COOKIEAUTH_USER` of Core's `rpc/request.cpp`).
const COOKIE_USER: &str = "__cookie__";

/// Threads that answer at once, as many as a node has by default.
const THREADS: usize = 16;

/// How long a node that stops waits for answers that are being worked out.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Why a simulated node does not run.
#[derive(Debug, thiserror::Error)]
pub enum SimNodeError {
    /// The port cannot be used.
    #[error(
        "cannot listen on port {port} of the loopback address: {cause}. Choose another port, or 0 for any free one"
    )]
    Listen {
        /// The port.
        port: u16,
        /// What the operating system said.
        cause: io::Error,
    },
    /// The server's threads cannot be started.
    #[error("cannot start the threads of the simulated node: {0}")]
    Threads(#[source] io::Error),
    /// The cookie cannot be written.
    #[error("cannot write the cookie file {}: {cause}", path.display())]
    Cookie {
        /// Where it was to be.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
    },
    /// The blocks cannot be kept.
    #[error("the blocks of the simulated node cannot be kept: {0}")]
    Blocks(String),
}

/// A node over a [`World`] that answers JSON-RPC and REST on the loopback address, as a Bitcoin Core node does, from
/// threads of its own. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct SimNode {
    backend: Arc<Backend>,
    port: u16,
    /// `None` while it does not answer.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// Ends the thread.
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
    cookie: Option<PathBuf>,
}

impl SimNode {
    /// Starts a node over this world, which others may go on changing while it runs: what the node is asked next is
    /// answered from what the world is then. A world that drops bodies ([`SimChain::keeping`](super::super::SimChain))
    /// is to be changed through [`SimNode::with`], so that the node can keep them, unless all were written to the block
    /// files of the options before.
    pub fn start(world: Arc<Mutex<World>>, mut options: SimNodeOptions) -> Result<SimNode, SimNodeError> {
        let archive = Archive::new(options.files.take());
        let port = options.port;
        let backend = Arc::new(Backend::new(world, archive, options));
        // fails when bodies are gone already
        backend.moment().map(drop).map_err(|failure| SimNodeError::Blocks(failure.message))?;
        let mut node = SimNode { backend, port, running: None };
        node.answer()?;
        Ok(node)
    }

    /// `http://127.0.0.1:<port>`, of RPC and REST.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The port, which stays the same however often the node stops and begins again.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `tcp://127.0.0.1:<port>`, where it publishes what happens, whether it does at this moment or not; `None` if it never
    /// does.
    #[must_use]
    pub fn zmq_url(&self) -> Option<String> {
        self.backend.signals().port().map(|port| format!("tcp://{}:{port}", Ipv4Addr::LOCALHOST))
    }

    /// Looks at the world or changes it; questions wait meanwhile.
    pub fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> Result<T, SimNodeError> {
        self.backend.act(act).map_err(|failure| SimNodeError::Blocks(failure.message))
    }

    /// Closes the ports and all connections, as when a node is killed: whoever connects is refused.
    pub fn stop_answering(&mut self) {
        self.stop_publishing();
        if let Some(Running { stop, thread, cookie }) = self.running.take() {
            // the thread may have ended by itself, and then there is nothing to tell it or to wait for
            let _ = stop.send(());
            let _ = thread.join();
            if let Some(cookie) = cookie {
                // it may have been removed by somebody else
                let _ = fs::remove_file(cookie);
            }
        }
    }

    /// Opens the ports again, with a new cookie; nothing to do when it is open.
    pub fn answer(&mut self) -> Result<(), SimNodeError> {
        if self.running.is_some() {
            return Ok(());
        }
        let listening = |cause| SimNodeError::Listen { port: self.port, cause };
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).map_err(listening)?;
        let port = listener.local_addr().map_err(listening)?.port();
        listener.set_nonblocking(true).map_err(listening)?;

        let options = &self.backend.options;
        let mut logins = vec![format!("{}:{}", options.login.0, options.login.1)];
        let cookie = options.cookie.clone();
        if let Some(path) = &cookie {
            let written = new_cookie(path).map_err(|cause| SimNodeError::Cookie { path: path.clone(), cause })?;
            logins.push(written);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(THREADS)
            .thread_name("sim-node-answer")
            .enable_all()
            .build()
            .map_err(SimNodeError::Threads)?;
        let app = router(Arc::new(Served { backend: Arc::clone(&self.backend), logins }));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    tokio::select! {
                        // ends when the node is told to stop, or is gone
                        _ = stopped => {}
                        // never ends by itself
                        _ = axum::serve(listener, app) => {}
                    }
                }
            });
            // closes the connections; an answer under way may wait for whoever stops the node
            runtime.shutdown_timeout(LAST_ANSWERS);
        };
        let thread = thread::Builder::new().name("sim-node".to_owned()).spawn(serve).map_err(SimNodeError::Threads)?;
        self.port = port;
        self.running = Some(Running { stop, thread, cookie });
        self.publish()
    }

    /// Stops the node and starts it again as one that has lost its mempool: what was in it is gone without a word, and its
    /// changes and the messages that tell of them are counted from the beginning.
    pub fn restart(&mut self) -> Result<(), SimNodeError> {
        self.stop_answering();
        self.with(World::forget_mempool)?;
        self.with(|world| self.backend.signals().start_again(world))?;
        self.answer()
    }

    /// Closes the port where it publishes and all connections to it, and no other.
    pub fn stop_publishing(&self) {
        self.backend.signals().be_silent();
    }

    /// Opens the port where it publishes again; nothing to do when it is open, or when it has none. What happened
    /// meanwhile was told to nobody, but counted.
    pub fn publish(&self) -> Result<(), SimNodeError> {
        let mut signals = self.backend.signals();
        let port = signals.port().unwrap_or_default();
        signals.publish().map_err(|cause| SimNodeError::Listen { port, cause })
    }

    /// Lets as many of the messages that it publishes as this get lost, from the next on.
    pub fn lose_messages(&self, messages: u32) {
        self.backend.signals().lose(messages);
    }

    /// Publishes as many messages as this, and keeps those after them until [`SimNode::release_messages`] is called.
    pub fn hold_messages_after(&self, messages: u32) {
        self.backend.signals().hold_after(messages);
    }

    /// Publishes the messages that were kept, and from now on all as they come.
    pub fn release_messages(&self) {
        self.backend.signals().release();
    }

    /// Lets the node say that it is starting and does this, in place of any answer: code -28, or status 503 by REST.
    /// `None` lets it answer again.
    pub fn warm_up(&self, progress: Option<&str>) {
        self.backend.switch(|switches| switches.warming_up = progress.map(str::to_owned));
    }

    /// Lets the node say that it still reads the mempool of its last run, and that it has read as many of its transactions
    /// as this by now: more are in no list of ids. `None` when it has read all of them.
    pub fn read_mempool(&self, transactions: Option<usize>) {
        self.backend.switch(|switches| switches.read = transactions);
    }

    /// Lets the node say that its mempool takes transactions from this feerate on, as a full one does; `None` for what its
    /// policy says. What it takes stays the same.
    pub fn ask_for(&self, min_fee: Option<Feerate>) {
        self.backend.switch(|switches| switches.min_fee = min_fee);
    }

    /// Lets the node say this, a status of HTTP and a body, to each request that calls the method, in place of an answer.
    /// `None` lets it answer again.
    pub fn say_instead(&self, method: &str, says: Option<(u16, &str)>) {
        self.backend.switch(|switches| match says {
            Some((status, body)) => drop(switches.instead.insert(method.to_owned(), (status, body.to_owned()))),
            None => drop(switches.instead.remove(method)),
        });
    }

    /// How often a method was called since the node was made, answered or not.
    #[must_use]
    pub fn calls(&self, method: &str) -> u64 {
        self.backend.calls(method)
    }

    /// Lets each answer wait this long before it is worked out.
    pub fn delay(&self, delay: Duration) {
        self.backend.switch(|switches| switches.delay = delay);
    }
}

impl Drop for SimNode {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

/// Writes a new secret where only this user can read it, and returns user and password.
fn new_cookie(path: &Path) -> io::Result<String> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let login = format!("{COOKIE_USER}:{}", secret.to_lower_hex_string());
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(path)?, login.as_bytes())?;
    Ok(login)
}
