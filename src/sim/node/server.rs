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
use super::http::{HttpState, router};
use super::options::SimNodeOptions;
use crate::chain::Feerate;

/// The user of every cookie (`COOKIEAUTH_USER` of Core's `rpc/request.cpp`).
const COOKIE_USER: &str = "__cookie__";

/// The number of threads that answer requests, as by default in a node.
const THREADS: usize = 16;

/// How long a node waits for pending answers when it stops.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Why a simulated node cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SimNodeError {
    /// The port cannot be used.
    #[error(
        "cannot listen on port {port} of the loopback address: {cause}. Choose another port, or 0 for any free one"
    )]
    Listen {
        /// The port.
        port: u16,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The server's threads cannot be started.
    #[error("cannot start the threads of the simulated node: {0}")]
    Threads(#[source] io::Error),
    /// Writing the cookie fails.
    #[error("cannot write the cookie file {}: {cause}", path.display())]
    Cookie {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The blocks cannot be stored.
    #[error("the blocks of the simulated node cannot be stored: {0}")]
    Blocks(String),
}

/// A node over a [`World`] that answers JSON-RPC and REST on the loopback address, like a Bitcoin Core node, on threads
/// of its own. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct SimNode {
    backend: Arc<Backend>,
    port: u16,
    /// `None` while the port is closed.
    running: Option<ServerThread>,
}

#[derive(Debug)]
struct ServerThread {
    /// Ends the thread.
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
    cookie: Option<PathBuf>,
}

impl SimNode {
    /// Starts a node over this world, which others may change while it runs: each answer is that of the current world.
    /// A world that drops bodies ([`SimChain::keeping`](super::super::SimChain)) must be changed through
    /// [`SimNode::with`], so that the node can archive them, unless all blocks are already in the block files of the
    /// options.
    pub fn start(world: Arc<Mutex<World>>, mut options: SimNodeOptions) -> Result<SimNode, SimNodeError> {
        let archive = Archive::new(options.files.take());
        let port = options.port;
        let backend = Arc::new(Backend::new(world, archive, options));
        // fails if bodies are already dropped
        backend.lock_world().map(drop).map_err(|failure| SimNodeError::Blocks(failure.message))?;
        let mut node = SimNode { backend, port, running: None };
        node.answer()?;
        Ok(node)
    }

    /// `http://127.0.0.1:<port>`, of RPC and REST.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The port, which stays the same when the node stops and restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `tcp://127.0.0.1:<port>`, where it publishes events, whether the port is open now or not; `None` without ZMQ.
    #[must_use]
    pub fn zmq_url(&self) -> Option<String> {
        self.backend.notifier().port().map(|port| format!("tcp://{}:{port}", Ipv4Addr::LOCALHOST))
    }

    /// Reads or changes the world; requests wait meanwhile.
    pub fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> Result<T, SimNodeError> {
        self.backend.act(act).map_err(|failure| SimNodeError::Blocks(failure.message))
    }

    /// Closes the ports and all connections, as when a node is killed: new connections are refused.
    pub fn stop_serving(&mut self) {
        self.stop_publishing();
        if let Some(ServerThread { stop, thread, cookie }) = self.running.take() {
            // the thread may have ended by itself, so errors are ignored
            let _ = stop.send(());
            let _ = thread.join();
            if let Some(cookie) = cookie {
                // the file may already be removed
                let _ = fs::remove_file(cookie);
            }
        }
    }

    /// Opens the ports, with a new cookie; does nothing if they are open.
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
        let app = router(Arc::new(HttpState { backend: Arc::clone(&self.backend), logins }));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    tokio::select! {
                        // ends when the node stops, or is dropped
                        _ = stopped => {}
                        // never ends by itself
                        _ = axum::serve(listener, app) => {}
                    }
                }
            });
            // closes the connections; a pending answer may wait for a lock of the thread that stops the node
            runtime.shutdown_timeout(LAST_ANSWERS);
        };
        let thread = thread::Builder::new().name("sim-node".to_owned()).spawn(serve).map_err(SimNodeError::Threads)?;
        self.port = port;
        self.running = Some(ServerThread { stop, thread, cookie });
        self.publish()
    }

    /// Stops the node and starts it again without its mempool. The loss of its transactions is not published, and the
    /// counts of mempool changes and of messages restart.
    pub fn restart(&mut self) -> Result<(), SimNodeError> {
        self.stop_serving();
        self.with(World::forget_mempool)?;
        self.with(|world| self.backend.notifier().restart(world))?;
        self.answer()
    }

    /// Closes the ZMQ port and its connections, and no other port.
    pub fn stop_publishing(&self) {
        self.backend.notifier().close();
    }

    /// Opens the ZMQ port again; does nothing if it is open, or if there is none. Messages of the time between were
    /// counted, but not sent.
    pub fn publish(&self) -> Result<(), SimNodeError> {
        let mut notifier = self.backend.notifier();
        let port = notifier.port().unwrap_or_default();
        notifier.open().map_err(|cause| SimNodeError::Listen { port, cause })
    }

    /// Drops this many ZMQ messages, from the next on.
    pub fn drop_messages(&self, messages: u32) {
        self.backend.notifier().lose(messages);
    }

    /// Publishes this many ZMQ messages, and buffers the later ones until [`SimNode::release_messages`] is called.
    pub fn buffer_messages_after(&self, messages: u32) {
        self.backend.notifier().buffer_after(messages);
    }

    /// Publishes the buffered messages, and all later ones at once.
    pub fn release_messages(&self) {
        self.backend.notifier().release();
    }

    /// Lets the node report that it is starting, with this progress, in place of any answer: code -28, or status 503 by
    /// REST. `None` lets it answer again.
    pub fn warm_up(&self, progress: Option<&str>) {
        self.backend.switch(|switches| switches.warming_up = progress.map(str::to_owned));
    }

    /// Lets the node report that it still loads its persisted mempool and has loaded this many transactions so far: no
    /// list of txids has more. `None` if it has loaded all of them.
    pub fn report_loading(&self, transactions: Option<usize>) {
        self.backend.switch(|switches| switches.loaded = transactions);
    }

    /// Lets the node report this minimum feerate of its mempool, like a full one; `None` for that of its policy. The
    /// transactions that it accepts stay the same.
    pub fn report_min_fee(&self, min_fee: Option<Feerate>) {
        self.backend.switch(|switches| switches.min_fee = min_fee);
    }

    /// Lets the node respond with this HTTP status and body to each request that calls the method, or asks for this path
    /// below `/rest/` or for one whose first part this is, in place of an answer. `None` lets it answer again.
    pub fn override_response(&self, method: &str, response: Option<(u16, &str)>) {
        self.backend.switch(|switches| match response {
            Some((status, body)) => drop(switches.overrides.insert(method.to_owned(), (status, body.to_owned()))),
            None => drop(switches.overrides.remove(method)),
        });
    }

    /// The number of calls of a method since the node was created, answered or not.
    #[must_use]
    pub fn calls(&self, method: &str) -> u64 {
        self.backend.calls(method)
    }

    /// Delays each answer by this time.
    pub fn delay(&self, delay: Duration) {
        self.backend.switch(|switches| switches.delay = delay);
    }
}

impl Drop for SimNode {
    fn drop(&mut self) {
        self.stop_serving();
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
