//! Reads at many places at once.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rayon::prelude::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::time::{ClockId, clock_gettime};

use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::partial::Patience;

/// Threads of a pool: a disk answers some reads at once, and more threads than processors wait for it together.
const READERS: usize = 8;
/// Threads of a pool that waits for a store, which answers later than a disk and more at once.
const STORE_READERS: usize = 32;
/// Items in memory that are not worth another thread.
const SHARE: usize = 4;
/// Items that are worth all threads, even if nothing waits for a disk.
const MANY: usize = 256;
/// An item waits for a disk if it takes longer than this, and the thread was idle for longer since the last such item.
const SLOW: Duration = Duration::from_micros(60);
/// So many items wait before others are handed to threads. A single one may have been interrupted by another process.
const WAITING_ITEMS: u32 = 2;

/// The threads that read at many places. They are started when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    pool: OnceLock<ThreadPool>,
    threads: usize,
}

impl Default for Readers {
    fn default() -> Self {
        Self { pool: OnceLock::new(), threads: READERS }
    }
}

impl Readers {
    /// Those that read files of which bytes are missing on this machine.
    pub(super) fn of_partial_files() -> Self {
        Self { threads: STORE_READERS, ..Self::default() }
    }

    /// The results of reads for many items, in their order. Each thread reads for items next to each other. Few items are read by
    /// the caller while they are in memory: handing them to threads would take longer.
    ///
    /// Errors: one of `read`; [`IndexError::Damaged`] if it panics on another thread; [`IndexError::Threads`].
    pub(super) fn read<T: Sync, R: Send>(
        &self,
        items: &[T],
        read: impl Fn(&T) -> Result<R, IndexError> + Sync + Send,
    ) -> Result<Vec<R>, IndexError> {
        let (mut results, mut rest, mut share) = (Vec::with_capacity(items.len()), items, SHARE);
        let (mut clock, mut waiting_items) = (WaitingClock::start(), 0);
        while rest.len() < MANY
            && let Some((item, behind)) = rest.split_first()
        {
            let begun = Instant::now();
            results.push(read(item)?);
            rest = behind;
            waiting_items += u32::from(begun.elapsed() > SLOW && clock.lap() > SLOW);
            if waiting_items >= WAITING_ITEMS && rest.len() > 1 {
                // each may wait for the disk
                share = 1;
                break;
            }
        }
        if !rest.is_empty() {
            let patience = Patience::current();
            let read = |item: &T| patience.scope(|| catch_damage(|| read(item)));
            let read = self
                .pool()?
                .install(|| rest.par_iter().with_min_len(share).map(read).collect::<Result<Vec<_>, IndexError>>())?;
            results.extend(read);
        }
        Ok(results)
    }

    fn pool(&self) -> Result<&ThreadPool, IndexError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let builder = ThreadPoolBuilder::new().num_threads(self.threads).thread_name(|_| "read".into());
        let pool = builder.build().map_err(|error| IndexError::Threads(std::io::Error::other(error)))?;
        Ok(self.pool.get_or_init(|| pool))
    }
}

/// Measures for how long the thread that has it waits, for a disk or for its turn.
struct WaitingClock {
    begun: Instant,
    /// The processor time of the thread then.
    busy: Duration,
}

impl WaitingClock {
    fn start() -> Self {
        Self { begun: Instant::now(), busy: busy_time() }
    }

    /// How long the thread has waited since the start, or since this was called before.
    fn lap(&mut self) -> Duration {
        let now = Self::start();
        let (passed, busy) = (now.begun - self.begun, now.busy.saturating_sub(self.busy));
        *self = now;
        passed.saturating_sub(busy)
    }
}

/// The processor time of this thread.
fn busy_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::thread::sleep;

    use super::*;

    #[test]
    fn a_thread_waits_while_it_sleeps_and_not_while_it_computes() {
        const WHILE: Duration = Duration::from_millis(20);
        let mut clock = WaitingClock::start();
        sleep(WHILE);
        // the clocks of processor and wall are not read at the same moment
        assert!(clock.lap() > WHILE / 2);
        let (begun, busy) = (Instant::now(), busy_time());
        while busy_time().saturating_sub(busy) < WHILE {
            spin_loop();
        }
        let waited = clock.lap();
        assert!(waited + WHILE / 2 < begun.elapsed(), "{waited:?}");
    }
}
