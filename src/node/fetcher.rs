//! [`BlockFetcher`]: fetches many blocks from the node, several at once, and returns them in order, in bounded memory.
//!
//! ```text
//!   hashes ──► claim the next one ──► worker ──► Node::block ──► arrived, by position ──► next(), in order
//!                 ▲ only while the largest possible block fits the memory bound            │
//!                 └──────────────────── memory is released ◄───────────────────────────────┘
//! ```
//!
//! A block's size is known only when it has arrived, so a claim reserves the size of the largest block and releases the
//! difference on arrival. Positions are claimed in order, so when nothing is reserved the next block to return is the
//! next to be claimed: that claim is always allowed, and a bound below one block slows the fetcher but never stops it.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bitcoin::BlockHash;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::error::NodeError;
use super::node::Node;
use super::retry::StopFlag;
use crate::chain::raw::MAX_BLOCK_SIZE;

/// How often a consumer that waits for a block checks the stop flag.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// A block as it is serialised on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedBlock {
    /// The block's hash.
    pub hash: BlockHash,
    /// The whole block.
    pub bytes: Vec<u8>,
}

/// An iterator over blocks, in the order of the given hashes. An error is returned after the blocks before it and ends
/// the iteration. Dropping the fetcher ends the worker threads without waiting for requests in flight, each of which
/// ends within the node's timeout.
pub struct BlockFetcher {
    queue: Arc<FetchQueue>,
    stop: StopFlag,
}

struct FetchQueue {
    state: Mutex<FetchState>,
    /// Signals workers that memory was released or that the queue closed.
    claimable: Condvar,
    /// Signals the consumer that a block arrived or that a worker ended.
    arrived: Condvar,
    memory: u64,
}

struct FetchState {
    hashes: Box<dyn Iterator<Item = BlockHash> + Send>,
    /// The position of the next hash to be claimed.
    next_claim: u64,
    /// The position of the next block to return; never beyond `next_claim`.
    next_out: u64,
    /// Results that wait for those before them, by position.
    arrived: BTreeMap<u64, Result<FetchedBlock, NodeError>>,
    /// Bytes of `arrived`, plus the largest block size for each request in flight.
    reserved: u64,
    /// No more claims: the hashes are used up, a block failed, or the consumer was dropped.
    closed: bool,
    workers: usize,
}

impl BlockFetcher {
    /// Starts fetching. Up to `connections` requests are in flight at once, as far as `memory` allows: it bounds the
    /// bytes of blocks that are fetched or in flight and not yet returned, with 4 MB for each in flight. The hashes may
    /// be a long list; the workers call their iterator, which must not block.
    ///
    /// The node's stop flag also ends the wait: the iteration then ends with [`NodeError::Stopped`].
    ///
    /// Errors: [`NodeError::Threads`].
    pub fn new<H>(node: &Node, hashes: H, connections: NonZeroUsize, memory: u64) -> Result<BlockFetcher, NodeError>
    where
        H: IntoIterator<Item = BlockHash>,
        H::IntoIter: Send + 'static,
    {
        let fetcher = BlockFetcher {
            queue: Arc::new(FetchQueue {
                state: Mutex::new(FetchState {
                    hashes: Box::new(hashes.into_iter()),
                    next_claim: 0,
                    next_out: 0,
                    arrived: BTreeMap::new(),
                    reserved: 0,
                    closed: false,
                    workers: 0,
                }),
                claimable: Condvar::new(),
                arrived: Condvar::new(),
                memory,
            }),
            stop: node.stop().child(),
        };
        for number in 0..connections.get() {
            let worker = Worker::new(Arc::clone(&fetcher.queue), node.with_stop(fetcher.stop.clone()));
            let thread = thread::Builder::new().name(format!("fetch-{number}"));
            // on an error the fetcher is dropped, which ends the threads already started
            thread.spawn(move || worker.run()).map_err(NodeError::Threads)?;
        }
        Ok(fetcher)
    }
}

impl Iterator for BlockFetcher {
    type Item = Result<FetchedBlock, NodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut state = self.queue.lock();
        let result = loop {
            let position = state.next_out;
            if let Some(result) = state.arrived.remove(&position) {
                break result;
            }
            if state.closed && state.next_out == state.next_claim {
                return None;
            }
            if self.stop.is_raised() {
                break Err(NodeError::Stopped);
            }
            if state.workers == 0 {
                break Err(NodeError::Threads(io::Error::other("it ended before it delivered its block")));
            }
            // raising the stop flag does not wake a waiting thread, so the flag is polled
            self.queue.arrived.wait_for(&mut state, STOP_CHECK);
        };
        if let Ok(block) = &result {
            state.next_out += 1;
            state.reserved = state.reserved.saturating_sub(length(&block.bytes));
        } else {
            // nothing after an error is returned
            state.close();
            state.arrived.clear();
            state.next_out = state.next_claim;
            self.stop.raise();
        }
        drop(state);
        self.queue.claimable.notify_all();
        Some(result)
    }
}

impl Drop for BlockFetcher {
    fn drop(&mut self) {
        self.stop.raise();
        let mut state = self.queue.lock();
        state.close();
        state.arrived.clear();
        drop(state);
        self.queue.claimable.notify_all();
    }
}

impl FetchQueue {
    fn lock(&self) -> MutexGuard<'_, FetchState> {
        self.state.lock()
    }

    /// Waits for memory and takes the next hash; `None` at the end.
    fn claim(&self) -> Option<(u64, BlockHash)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if state.reserved == 0 || state.reserved.saturating_add(MAX_BLOCK_SIZE.into()) <= self.memory {
                let Some(hash) = state.hashes.next() else {
                    state.close();
                    drop(state);
                    self.claimable.notify_all();
                    return None;
                };
                let position = state.next_claim;
                state.next_claim += 1;
                state.reserved += u64::from(MAX_BLOCK_SIZE);
                return Some((position, hash));
            }
            self.claimable.wait(&mut state);
        }
    }

    fn deliver(&self, position: u64, block: Result<FetchedBlock, NodeError>) {
        let mut state = self.lock();
        let taken = block.as_ref().map_or(0, |block| length(&block.bytes));
        state.reserved = state.reserved.saturating_sub(MAX_BLOCK_SIZE.into()).saturating_add(taken);
        if block.is_err() {
            state.close();
        }
        state.arrived.insert(position, block);
        drop(state);
        self.arrived.notify_all();
        self.claimable.notify_all();
    }
}

impl FetchState {
    /// Allows no more claims and drops the hashes, which may be many.
    fn close(&mut self) {
        self.closed = true;
        self.hashes = Box::new(std::iter::empty());
    }
}

/// A worker thread. Its drop, however the thread ends, notifies the consumer not to wait for it.
struct Worker {
    queue: Arc<FetchQueue>,
    node: Node,
}

impl Worker {
    fn new(queue: Arc<FetchQueue>, node: Node) -> Worker {
        queue.lock().workers += 1;
        Worker { queue, node }
    }

    fn run(&self) {
        while let Some((position, hash)) = self.queue.claim() {
            let block = self.node.block(&hash).map(|bytes| FetchedBlock { hash, bytes });
            self.queue.deliver(position, block);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.workers -= 1;
        if thread::panicking() {
            // its block will not arrive, so nothing after it can be returned
            state.close();
        }
        drop(state);
        self.queue.claimable.notify_all();
        self.queue.arrived.notify_all();
    }
}

fn length(bytes: &[u8]) -> u64 {
    // a length in memory fits 64 bits on every platform
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Instant;

    use bitcoin::hashes::Hash;

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    /// Blocks of different sizes.
    fn blocks(count: u32, size: impl Fn(u32) -> usize) -> Vec<FetchedBlock> {
        let block = |number: u32| {
            let mut bytes = vec![0; size(number)];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            FetchedBlock { hash: BlockHash::hash(&bytes[..80]), bytes }
        };
        (0..count).map(block).collect()
    }

    fn hashes(blocks: &[FetchedBlock]) -> Vec<BlockHash> {
        blocks.iter().map(|block| block.hash).collect()
    }

    /// A node with these blocks, which runs `before(number of the block)` before it answers.
    fn node_with(
        blocks: &[FetchedBlock],
        before: impl Fn(usize) -> Option<FakeResponse> + Send + Sync + 'static,
    ) -> (FakeNode, Node) {
        let by_path: HashMap<String, (usize, Vec<u8>)> = blocks
            .iter()
            .enumerate()
            .map(|(number, block)| (format!("block/{}.bin", block.hash), (number, block.bytes.clone())))
            .collect();
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rest(path) => match by_path.get(*path) {
                Some((number, bytes)) => before(*number).unwrap_or_else(|| FakeResponse::Bytes(bytes.clone())),
                None => regtest(asked),
            },
            FakeRequest::Rpc("getblock", _) => FakeResponse::Error(-5, "Block not found"),
            FakeRequest::Rpc(..) => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        (fake, node)
    }

    fn connections(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(20), "waited for {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn blocks_are_returned_in_order_whatever_the_node_answers_first() {
        let blocks = blocks(200, |number| 80 + usize::try_from(number % 7).unwrap() * 1000);
        let (_fake, node) = node_with(&blocks, |number| {
            // an irregular delay, so that later blocks overtake earlier ones
            thread::sleep(Duration::from_micros(u64::try_from(number * 7919 % 13).unwrap() * 300));
            None
        });
        let fetched: Result<Vec<_>, _> =
            BlockFetcher::new(&node, hashes(&blocks), connections(5), 64_000_000).unwrap().collect();
        assert!(fetched.unwrap() == blocks);
    }

    #[test]
    fn a_late_block_delays_later_ones_within_the_memory_bound() {
        const SIZE: usize = 1_000_000;
        let blocks = blocks(30, |_| SIZE);
        let asked = Arc::new(AtomicUsize::new(0));
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let (_fake, node) = node_with(&blocks, {
            let asked = Arc::clone(&asked);
            move |number| {
                asked.fetch_add(1, Ordering::SeqCst);
                if number == 0 {
                    let _ = blocked.lock().recv();
                }
                None
            }
        });
        // the first block's request reserves 4 MB; 1 MB blocks are fetched while 4 MB more are free
        let fetcher = BlockFetcher::new(&node, hashes(&blocks), connections(3), 12_000_000).unwrap();
        let state = |of: fn(&FetchState) -> u64| of(&fetcher.queue.lock());
        wait_until("memory to be full", || state(|state| u64::try_from(state.arrived.len()).unwrap()) == 5);
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        assert_eq!(state(|state| state.reserved), 9_000_000);
        release.send(()).unwrap();
        let mut out = 0;
        for block in fetcher {
            block.unwrap();
            out += 1;
            // fetched or in flight, and not yet returned: at least 1 MB each
            assert!(asked.load(Ordering::SeqCst) - out <= 12);
        }
        assert_eq!(out, 30);
    }

    #[test]
    fn a_bound_below_one_block_fetches_one_at_a_time() {
        let blocks = blocks(10, |_| 5000);
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (_fake, node) = node_with(&blocks, {
            let most = Arc::clone(&most);
            move |_| {
                most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // time for a second request, if there were one
                thread::sleep(Duration::from_millis(2));
                under_way.fetch_sub(1, Ordering::SeqCst);
                None
            }
        });
        let fetcher = BlockFetcher::new(&node, hashes(&blocks), connections(4), 0).unwrap();
        assert!(fetcher.map(Result::unwrap).collect::<Vec<_>>() == blocks);
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_error_follows_earlier_blocks_and_ends_the_iteration() {
        let blocks = blocks(20, |_| 100);
        let (_fake, node) =
            node_with(&blocks, |number| (number == 7).then_some(FakeResponse::Status(404, "not found")));
        let mut fetcher = BlockFetcher::new(&node, hashes(&blocks), connections(4), 64_000_000).unwrap();
        for block in &blocks[..7] {
            assert!(fetcher.next().unwrap().unwrap() == *block);
        }
        let error = fetcher.next().unwrap().unwrap_err();
        assert!(matches!(error, NodeError::BlockNotFound { hash } if hash == blocks[7].hash));
        assert!(fetcher.next().is_none());
        assert!(fetcher.next().is_none());
    }

    #[test]
    fn dropping_the_fetcher_ends_its_threads_and_requests() {
        let blocks = blocks(1000, |_| 1000);
        let asked = Arc::new(AtomicUsize::new(0));
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let (_fake, node) = node_with(&blocks, {
            let asked = Arc::clone(&asked);
            move |number| {
                asked.fetch_add(1, Ordering::SeqCst);
                if number > 0 {
                    // ends when the sender is dropped
                    let _ = blocked.lock().recv();
                }
                None
            }
        });
        // memory for two requests: when the first block is returned, two more are in flight and the other workers wait
        let mut fetcher = BlockFetcher::new(&node, hashes(&blocks), connections(8), 8_000_000).unwrap();
        fetcher.next().unwrap().unwrap();
        let queue = Arc::clone(&fetcher.queue);
        wait_until("two more requests", || queue.lock().next_claim == 3);
        drop(fetcher);
        wait_until("the waiting threads to end", || queue.lock().workers <= 2);
        drop(release);
        wait_until("all threads to end", || queue.lock().workers == 0);
        assert_eq!(queue.lock().next_claim, 3);
        assert!(asked.load(Ordering::SeqCst) <= 3);
        assert!(!node.stop().is_raised());
    }

    #[test]
    fn the_nodes_stop_flag_ends_a_wait_for_a_silent_node() {
        let blocks = blocks(10, |_| 100);
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let (_fake, node) = node_with(&blocks, move |_| {
            let _ = blocked.lock().recv();
            None
        });
        let mut fetcher = BlockFetcher::new(&node, hashes(&blocks), connections(2), 64_000_000).unwrap();
        node.stop().raise();
        assert!(matches!(fetcher.next(), Some(Err(NodeError::Stopped))));
        assert!(fetcher.next().is_none());
        drop(release);
    }

    #[test]
    fn a_fetcher_without_hashes_returns_no_blocks() {
        let (_fake, node) = node_with(&[], |_| None);
        assert!(BlockFetcher::new(&node, Vec::new(), connections(3), 0).unwrap().next().is_none());
    }
}
