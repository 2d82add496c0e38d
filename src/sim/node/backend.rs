//! What every method and path works on: the world, the archive of its blocks, and the switches of the node.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bitcoin::BlockHash;

use super::super::{SimChain, World};
use super::archive::Archive;
use super::failure::Failure;
use super::options::SimNodeOptions;
use super::signals::Signals;
use crate::chain::Feerate;

/// A node whose tip is older than this is in initial block download (`DEFAULT_MAX_TIP_AGE` of Core's
/// `kernel/chainstatemanager_opts.h`).
const MAX_TIP_AGE: Duration = Duration::from_hours(24);

pub(super) struct Backend {
    world: Arc<Mutex<World>>,
    archive: Mutex<Archive>,
    pub(super) options: SimNodeOptions,
    switches: Mutex<Switches>,
    /// How often each method was called.
    asked: Mutex<BTreeMap<String, u64>>,
    signals: Mutex<Signals>,
    started: Instant,
    left_initial_download: AtomicBool,
}

/// What tests switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    /// What the node says it is doing before it answers anything.
    pub(super) warming_up: Option<String>,
    /// How long each answer waits before it is worked out.
    pub(super) delay: Duration,
    /// What is said in place of an answer to a request that calls the method: an HTTP status and a body.
    pub(super) instead: BTreeMap<String, (u16, String)>,
    /// How many transactions of its mempool the node has read since its start; `None` when it has read all.
    pub(super) read: Option<usize>,
    /// The feerate from which on the mempool takes transactions, where that is more than the policy says.
    pub(super) min_fee: Option<Feerate>,
}

/// The world at one moment, with all of its active chain in the archive.
pub(super) struct Moment<'b> {
    pub(super) world: MutexGuard<'b, World>,
    pub(super) archive: MutexGuard<'b, Archive>,
}

impl Backend {
    pub(super) fn new(world: Arc<Mutex<World>>, archive: Archive, options: SimNodeOptions) -> Backend {
        let signals = Mutex::new(Signals::new(options.zmq, &lock(&world)));
        Backend {
            world,
            archive: Mutex::new(archive),
            options,
            switches: Mutex::default(),
            asked: Mutex::default(),
            signals,
            started: Instant::now(),
            left_initial_download: AtomicBool::new(false),
        }
    }

    /// Holds the world still. Always this lock first, then the archive's, then that of the signals.
    pub(super) fn moment(&self) -> Result<Moment<'_>, Failure> {
        let world = lock(&self.world);
        // what others have done to the world meanwhile
        lock(&self.signals).tell(&world);
        let mut moment = Moment { world, archive: lock(&self.archive) };
        moment.catch_up()?;
        Ok(moment)
    }

    /// The world, to act on it; what it becomes is taken in at once, before the chain can drop any of it.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut World) -> T) -> Result<T, Failure> {
        let mut moment = self.moment()?;
        let result = act(&mut moment.world);
        lock(&self.signals).tell(&moment.world);
        moment.catch_up()?;
        Ok(result)
    }

    pub(super) fn signals(&self) -> MutexGuard<'_, Signals> {
        lock(&self.signals)
    }

    pub(super) fn switches(&self) -> Switches {
        lock(&self.switches).clone()
    }

    pub(super) fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut lock(&self.switches));
    }

    /// Counts a call.
    pub(super) fn note_call(&self, method: &str) {
        *lock(&self.asked).entry(method.to_owned()).or_default() += 1;
    }

    /// How often a method was called.
    pub(super) fn calls(&self, method: &str) -> u64 {
        lock(&self.asked).get(method).copied().unwrap_or(0)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the node takes itself to be downloading the chain: until its tip was once of the last 24 hours.
    pub(super) fn in_initial_download(&self, tip_time: u32) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_recent = now.saturating_sub(Duration::from_secs(tip_time.into())) <= MAX_TIP_AGE;
        !(self.left_initial_download.fetch_or(is_recent, Ordering::Relaxed) || is_recent)
    }
}

impl Moment<'_> {
    pub(super) fn chain(&self) -> &SimChain {
        self.world.chain()
    }

    /// Takes a block of any branch in. Fails with [`Failure::block_not_found`] when there is none.
    pub(super) fn find(&mut self, hash: &BlockHash) -> Result<(), Failure> {
        if self.chain().height_of(hash).is_none() {
            return Err(Failure::block_not_found());
        }
        self.archive.adopt(self.world.chain(), hash)
    }

    /// Takes the blocks of all branches in.
    pub(super) fn find_all(&mut self) -> Result<(), Failure> {
        let known = self.chain().known_blocks();
        if self.archive.found_of != known {
            let ends: Vec<_> = self.chain().branch_ends().collect();
            ends.iter().try_for_each(|end| self.archive.adopt(self.world.chain(), end))?;
            self.archive.found_of = known;
        }
        Ok(())
    }

    fn catch_up(&mut self) -> Result<(), Failure> {
        let tip = self.chain().tip();
        self.archive.adopt(self.world.chain(), &tip)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A panic of a test that held the lock leaves the state as whole as the test left it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
