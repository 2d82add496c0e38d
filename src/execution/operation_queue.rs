//! The order of the operations of one websocket.
//!
//! A query that follows a subscription waits until that has begun: a client that subscribes and then queries the state
//! misses nothing in between. And one socket has few operations among the executions of the server at once: its others
//! wait here, and leave the queue of the server to other clients.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many queries and mutations of one socket execute or wait for an execution at once. As many responses wait for a
/// client that does not read.
const CONCURRENT: usize = 4;

/// How many operations of one socket wait for a block at once. All clients together may have few that wait, and beyond that the
/// server refuses requests: one socket must not take all of that.
const WAITING: usize = 16;

/// The queue of one socket.
pub(crate) struct OperationQueue {
    permits: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The subscriptions that have not begun, each cancelled when it has.
    starting: Mutex<Vec<CancellationToken>>,
}

impl OperationQueue {
    pub(crate) fn new() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { permits: semaphore(CONCURRENT), waiting: semaphore(WAITING), starting: Mutex::default() }
    }

    /// A permit to execute, until the response is taken.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    /// A permit to wait for a block.
    pub(crate) async fn waiting_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.waiting.clone().acquire_owned().await.ok()
    }

    /// The subscriptions that have not begun now.
    pub(crate) fn starting(&self) -> Vec<CancellationToken> {
        let mut starting = self.starting.lock();
        starting.retain(|begun| !begun.is_cancelled());
        starting.clone()
    }

    /// Adds a subscription, which cancels this when it has begun.
    pub(crate) fn add(&self, begun: CancellationToken) {
        let mut starting = self.starting.lock();
        starting.retain(|begun| !begun.is_cancelled());
        starting.push(begun);
    }
}
