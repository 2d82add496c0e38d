//! The state behind every method and path: the world, the archive of its blocks, and the switches of the node.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bitcoin::BlockHash;

use super::super::{SimChain, World};
use super::archive::Archive;
use super::error::RpcFailure;
use super::notifier::SequenceNotifier;
use super::options::SimNodeOptions;
use crate::chain::Feerate;

/// A node whose tip is older than this is in initial block download (`DEFAULT_MAX_TIP_AGE` of Core's
/// `kernel/chainstatemanager_opts.h`).
const MAX_TIP_AGE: Duration = Duration::from_hours(24);

pub(super) struct Backend {
    world: Arc<Mutex<World>>,
    archive: Mutex<Archive>,
    pub(super) options: SimNodeOptions,
    switches: Mutex<Switches>,
    /// The number of calls of each method.
    calls: Mutex<BTreeMap<String, u64>>,
    notifier: Mutex<SequenceNotifier>,
    started: Instant,
    left_initial_download: AtomicBool,
}

/// The faults and states that tests set.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    /// The progress that the node reports while it starts, in place of any answer.
    pub(super) warming_up: Option<String>,
    /// The delay before each answer.
    pub(super) delay: Duration,
    /// The response to requests that call a method, in place of an answer: an HTTP status and a body.
    pub(super) overrides: BTreeMap<String, (u16, String)>,
    /// The number of transactions that the node has loaded of its persisted mempool; `None` if it has loaded all.
    pub(super) loaded: Option<usize>,
    /// The minimum feerate that the mempool reports, if it is above that of the policy.
    pub(super) min_fee: Option<Feerate>,
}

/// The locked world, with its whole active chain in the archive.
pub(super) struct LockedWorld<'b> {
    pub(super) world: MutexGuard<'b, World>,
    pub(super) archive: MutexGuard<'b, Archive>,
}

impl Backend {
    pub(super) fn new(world: Arc<Mutex<World>>, archive: Archive, options: SimNodeOptions) -> Backend {
        let notifier = Mutex::new(SequenceNotifier::new(options.zmq, &lock(&world)));
        Backend {
            world,
            archive: Mutex::new(archive),
            options,
            switches: Mutex::default(),
            calls: Mutex::default(),
            notifier,
            started: Instant::now(),
            left_initial_download: AtomicBool::new(false),
        }
    }

    /// Locks the world and the archive. Lock order: world, archive, notifier.
    pub(super) fn lock_world(&self) -> Result<LockedWorld<'_>, RpcFailure> {
        let world = lock(&self.world);
        // other owners of the world may have changed it
        lock(&self.notifier).publish(&world);
        let mut locked = LockedWorld { world, archive: lock(&self.archive) };
        locked.catch_up()?;
        Ok(locked)
    }

    /// Changes the world, and archives new blocks at once, before the chain can drop their bodies.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut World) -> T) -> Result<T, RpcFailure> {
        let mut locked = self.lock_world()?;
        let result = act(&mut locked.world);
        lock(&self.notifier).publish(&locked.world);
        locked.catch_up()?;
        Ok(result)
    }

    pub(super) fn notifier(&self) -> MutexGuard<'_, SequenceNotifier> {
        lock(&self.notifier)
    }

    pub(super) fn switches(&self) -> Switches {
        lock(&self.switches).clone()
    }

    pub(super) fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut lock(&self.switches));
    }

    /// Counts a call.
    pub(super) fn count_call(&self, method: &str) {
        *lock(&self.calls).entry(method.to_owned()).or_default() += 1;
    }

    /// The number of calls of a method.
    pub(super) fn calls(&self, method: &str) -> u64 {
        lock(&self.calls).get(method).copied().unwrap_or(0)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the node is in initial block download: until its tip was once at most 24 hours old.
    pub(super) fn in_initial_download(&self, tip_time: u32) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_recent = now.saturating_sub(Duration::from_secs(tip_time.into())) <= MAX_TIP_AGE;
        !(self.left_initial_download.fetch_or(is_recent, Ordering::Relaxed) || is_recent)
    }
}

impl LockedWorld<'_> {
    pub(super) fn chain(&self) -> &SimChain {
        self.world.chain()
    }

    /// Archives a block of any branch. Errors: [`RpcFailure::block_not_found`] if it is unknown.
    pub(super) fn find(&mut self, hash: &BlockHash) -> Result<(), RpcFailure> {
        if self.chain().height_of(hash).is_none() {
            return Err(RpcFailure::block_not_found());
        }
        self.archive.adopt(self.world.chain(), hash)
    }

    /// Archives the blocks of all branches.
    pub(super) fn find_all(&mut self) -> Result<(), RpcFailure> {
        let known = self.chain().known_blocks();
        if self.archive.archived_blocks != known {
            let ends: Vec<_> = self.chain().branch_ends().collect();
            ends.iter().try_for_each(|end| self.archive.adopt(self.world.chain(), end))?;
            self.archive.archived_blocks = known;
        }
        Ok(())
    }

    fn catch_up(&mut self) -> Result<(), RpcFailure> {
        let tip = self.chain().tip();
        self.archive.adopt(self.world.chain(), &tip)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Locks a mutex, poisoned or not: a test that panics with the lock leaves the state as it is.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
