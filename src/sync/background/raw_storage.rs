//! Chooses where the bytes of frozen blocks are stored, and brings those of blocks that are frozen already there: a thread
//! copies them from the node, or reads them back from it before the copies are removed. Each step is recorded, so that a
//! restart continues.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::super::error::SyncError;
use super::super::sync_loop::{SyncLoop, Until};
use super::job::{BackgroundJob, Priority};
use super::raw_mover::RawStep;
use crate::chain::Height;
use crate::index::{IndexError, RawProgress, RawStorage, Snapshot};
use crate::node::ChainInfo;

/// What a failure to move bytes means.
const CANNOT_MOVE: &str = "cannot move the bytes of frozen blocks to where index.raw_transactions says";
/// The longest time between two records of the progress.
const STEP_TIME: Duration = Duration::from_secs(10);
/// The most blocks between two records of the progress.
const STEP_BLOCKS: u32 = 10_000;
/// How long the thread works before it pauses as long, while requests are answered.
const WORK_SLICE: Duration = Duration::from_millis(50);
/// The longest pause, which a stop waits for.
const LONGEST_REST: Duration = Duration::from_secs(1);

impl SyncLoop<'_> {
    /// Chooses where the bytes of frozen blocks are stored, once, and records it.
    ///
    /// Errors: [`SyncError::NodePrunes`]; reading or writing the index fails.
    pub(in crate::sync) fn choose_raw_storage(&mut self, info: &ChainInfo) -> Result<(), SyncError> {
        self.raw_mover.kept_from = info.prune_height.unwrap_or_default();
        self.raw_mover.is_node_pruning = info.pruned;
        let Some(freezing) = self.follow.freezing.as_ref().filter(|_| self.raw_mover.storage.is_none()) else {
            return Ok(());
        };
        let (wanted, recorded) = (freezing.raw_transactions, self.follow.index.raw_storage()?);
        let has_frozen = self.follow.index.snapshot()?.frozen().is_some();
        let chosen = match wanted.or(recorded) {
            Some(storage) => storage,
            // of an index without a choice, the bytes of frozen blocks are at the node
            None if info.pruned && !has_frozen => RawStorage::Index,
            None => RawStorage::Node,
        };
        // an earlier choice of the node stays, unless there are copies that it would remove
        let takes_effect = recorded != Some(chosen) || self.follow.index.raw_files().bytes() > 0;
        if wanted == Some(RawStorage::Node) && info.pruned && takes_effect {
            return Err(SyncError::NodePrunes);
        }
        if recorded != Some(chosen) {
            self.follow.index.set_raw_storage(chosen)?;
        }
        info!(
            raw_transactions = %chosen,
            before = recorded.map_or("none", RawStorage::name),
            pruned = info.pruned,
            "the bytes of frozen blocks are stored"
        );
        if chosen == RawStorage::Node && info.pruned {
            warn!(
                "the node prunes: transactions whose blocks it deletes cannot be read any more; index.raw_transactions = \
                 `index` stores copies of those that it still has"
            );
        }
        self.raw_mover.storage = Some(chosen);
        Ok(())
    }

    /// Moves the bytes of frozen blocks to where they are to be stored, a step at a time.
    ///
    /// Errors: reading or writing the index fails. A failure of the thread is logged, and it is started again later.
    pub(super) fn move_raw_blocks(&mut self) -> Result<(), SyncError> {
        if let Some(job) = self.raw_mover.job.take_if(|job| job.is_finished()) {
            match job.join() {
                Ok(step) => self.finish_raw_step(step)?,
                Err(error) => self.raw_mover.retry.postpone(&error, CANNOT_MOVE),
            }
        }
        let is_waiting = self.raw_mover.retry.is_waiting();
        let Some(chain) = self.chain.clone().filter(|_| !self.raw_mover.is_running() && !is_waiting) else {
            return Ok(());
        };
        match self.raw_mover.storage {
            Some(RawStorage::Index) => self.start_copying(&chain),
            Some(RawStorage::Node) if !self.raw_mover.is_tidy => self.start_reading_back(&chain),
            _ => Ok(()),
        }
    }

    fn start_copying(&mut self, chain: &Arc<Snapshot>) -> Result<(), SyncError> {
        let mover = &mut self.raw_mover;
        let frozen = chain.frozen().map_or(Height::GENESIS, |frozen| frozen.height.next());
        let from = mover.next.min(frozen).max(mover.kept_from);
        let progress = chain.raw_progress(from)?;
        let Some(first) = progress.first_missing else {
            mover.next = frozen;
            self.finish_copying(chain)?;
            return Ok(());
        };
        mover.next = first;
        let RawProgress { missing_bytes, stored_bytes, frozen_bytes, .. } = progress;
        // before each step, as others may write to the disk as well; what a pruning node has deleted takes no space
        if let Err(error) = self.follow.index.check_raw_space(missing_bytes) {
            mover.retry.postpone(&error, CANNOT_MOVE);
            return Ok(());
        }
        mover.report("copying the bytes of frozen blocks from the node", stored_bytes, frozen_bytes);
        let (chain, rests) = (Arc::clone(chain), self.follow.until == Until::Stopped);
        let copy = move |stop: &Arc<AtomicBool>| {
            Ok(RawStep::Copied(chain.copy_raw_blocks(first, &mut paced(Arc::clone(stop), rests))?))
        };
        self.start_raw_job(copy);
        Ok(())
    }

    /// Logs the end of copying, and which blocks the node does not have.
    fn finish_copying(&mut self, chain: &Snapshot) -> Result<(), SyncError> {
        let mover = &mut self.raw_mover;
        if mover.logged_at.take().is_some() {
            info!("the bytes of all frozen blocks that the node has are in the raw files of the index");
        }
        if !mover.is_lack_logged && mover.kept_from > Height::GENESIS {
            mover.is_lack_logged = true;
            if let Some(first) = chain.raw_progress(Height::GENESIS)?.first_missing {
                warn!(
                    %first,
                    kept_from = %mover.kept_from,
                    "the node has pruned blocks of which the index has no copy: their transactions cannot be read"
                );
            }
        }
        Ok(())
    }

    fn start_reading_back(&mut self, chain: &Arc<Snapshot>) -> Result<(), SyncError> {
        let index = &mut *self.follow.index;
        if !index.has_raw_files()? {
            self.raw_mover.is_tidy = true;
            return Ok(());
        }
        let read_back = index.read_back_block()?;
        let progress = chain.raw_progress(Height::GENESIS)?;
        if self.raw_mover.is_node_pruning && progress.stored_bytes > 0 {
            // it may have deleted since what was read back, which is read again once a node does not prune
            if read_back.is_some() {
                index.set_raw_storage(RawStorage::Node)?;
            }
            if !std::mem::replace(&mut self.raw_mover.is_keeping_logged, true) {
                warn!(
                    "the node prunes, so the raw files of the index stay: set index.raw_transactions to `index`, or follow a \
                     node that does not prune"
                );
            }
            self.raw_mover.retry.pause();
            return Ok(());
        }
        let from = read_back.map_or(Height::GENESIS, Height::next);
        let frozen = chain.frozen().filter(|frozen| from <= frozen.height);
        let Some(frozen) = frozen.filter(|_| progress.stored_bytes > 0) else {
            index.remove_raw_files()?;
            self.raw_mover.is_tidy = true;
            self.raw_mover.logged_at = None;
            info!("the raw files of the index are removed: the bytes of frozen blocks are read from the node");
            return Ok(());
        };
        let done = from.previous().map_or(Ok(0), |below| chain.bytes_of_blocks(Height::GENESIS..=below))?;
        let all = chain.bytes_of_blocks(Height::GENESIS..=frozen.height)?;
        self.raw_mover.report("reading frozen blocks back from the node before copies of them are removed", done, all);
        let (chain, rests) = (Arc::clone(chain), self.follow.until == Until::Stopped);
        let read = move |stop: &Arc<AtomicBool>| {
            Ok(RawStep::ReadBack(chain.read_back_raw_blocks(from, &mut paced(Arc::clone(stop), rests))?))
        };
        self.start_raw_job(read);
        Ok(())
    }

    fn start_raw_job(&mut self, work: impl FnOnce(&Arc<AtomicBool>) -> Result<RawStep, IndexError> + Send + 'static) {
        match BackgroundJob::start("raw-blocks", Priority::Low, work) {
            Ok(job) => self.raw_mover.job = Some(job),
            Err(error) => self.raw_mover.retry.postpone(&error, CANNOT_MOVE),
        }
    }

    fn finish_raw_step(&mut self, step: RawStep) -> Result<(), SyncError> {
        let index = &mut *self.follow.index;
        match step {
            RawStep::Copied(heights) => index.name_raw_blocks(&heights)?,
            RawStep::ReadBack(Some(block)) => index.record_read_back(block)?,
            RawStep::ReadBack(None) => {}
        }
        Ok(index.flush_soon()?)
    }
}

/// Breaks when a step took long enough or `stop` is raised, and rests half of the time if it is to.
fn paced(stop: Arc<AtomicBool>, rests: bool) -> impl FnMut() -> ControlFlow<()> {
    let began = Instant::now();
    let (mut since, mut blocks) = (began, 0_u32);
    move || {
        blocks += 1;
        if stop.load(Ordering::Relaxed) || blocks >= STEP_BLOCKS || began.elapsed() >= STEP_TIME {
            return ControlFlow::Break(());
        }
        if rests && since.elapsed() >= WORK_SLICE {
            thread::sleep(since.elapsed().min(LONGEST_REST));
            since = Instant::now();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_when_it_is_stopped_or_long_enough() {
        let stop = Arc::<AtomicBool>::default();
        let mut next = paced(Arc::clone(&stop), false);
        assert!((1..STEP_BLOCKS).all(|_| next().is_continue()));
        assert!(next().is_break());
        let mut next = paced(Arc::clone(&stop), true);
        assert!(next().is_continue());
        stop.store(true, Ordering::Relaxed);
        assert!(next().is_break());
    }

    #[test]
    fn a_thread_that_rests_works_half_of_the_time() {
        let mut next = paced(Arc::default(), true);
        let began = Instant::now();
        thread::sleep(WORK_SLICE);
        assert!(next().is_continue());
        assert!(began.elapsed() >= 2 * WORK_SLICE);
    }
}
