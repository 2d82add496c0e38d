//! What is due before a round of the loop.

use std::time::{Duration, Instant};

use super::background::TIP_SLICE;
use super::error::SyncError;
use super::mempool::MempoolSync;
use super::sync_loop::{SyncLoop, Until};
use crate::node::Signals;

/// The longest time in which writes of the mempool begin. A round takes in new transactions after it.
const WRITE_SLICE: Duration = Duration::from_millis(100);
/// How long after a block is announced no other work of the loop begins, so that its subscribers receive it first.
const ANNOUNCING: Duration = Duration::from_millis(250);
/// The least time between two checks whether work in the background is due, while none is under way.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(100);
/// What it means that no file descriptor is free.
const OUT_OF_FILES: &str = "too many files are open, so no blocks are frozen and no tables are built: raise the limit of this process \
                            (ulimit -Hn, LimitNOFILE= in a unit of systemd) or of the system (fs.file-max)";

/// Some of what is due before a round.
type PostponableWork<Loop> = fn(&mut Loop) -> Result<(), SyncError>;

impl SyncLoop<'_> {
    /// Does what is due before a round. Writes of the mempool, freezing and deriving are postponed while subscribers receive a block,
    /// and for one round at most if the node has signalled one, for which clients wait. While nothing is frozen or derived, rounds that
    /// follow each other closely do not check whether that is due. Returns false when the stop flag is raised.
    pub(super) fn prepare_round(&mut self) -> Result<bool, SyncError> {
        self.follow.index.ensure_flushing()?;
        if !self.wait_for_disk_space()? {
            return Ok(false);
        }
        self.close_overdue_record(Instant::now())?;
        self.release_when_due()?;
        let was_postponed = std::mem::take(&mut self.is_work_postponed);
        // a node that sends signals causes hundreds of rounds a second
        let is_recent = self.background_checked.is_some_and(|at| at.elapsed() < BACKGROUND_PAUSE);
        self.is_check_skipped = is_recent && !was_postponed && !self.is_working_in_background();
        let mut postponable: Vec<PostponableWork<Self>> = vec![Self::write_mempool_when_due];
        if !self.is_check_skipped {
            postponable.push(|following| following.freeze_when_due(TIP_SLICE));
            postponable.push(|following| following.derive_when_due(TIP_SLICE));
        }
        for work in postponable {
            if self.is_announcing() || (!was_postponed && self.may_chain_have_changed()) {
                self.is_work_postponed = true;
                return Ok(true);
            }
            work(self)?;
        }
        if !self.is_check_skipped {
            self.background_checked = Some(Instant::now());
        }
        self.announced = None;
        Ok(true)
    }

    /// Whether subscribers still receive a block.
    pub(super) fn is_announcing(&self) -> bool {
        !self.announcing_left().is_zero()
    }

    /// For how long subscribers still receive a block.
    pub(super) fn announcing_left(&self) -> Duration {
        self.announced.map_or(Duration::ZERO, |announced| ANNOUNCING.saturating_sub(announced.elapsed()))
    }

    /// Does a step of freezing, or of building tables, unless an earlier one found no free file descriptor some minutes ago: blocks are
    /// followed without them, and the next step may find one.
    ///
    /// Errors: those of `step`. Without a free file descriptor there is one only with [`Until::CaughtUp`].
    pub(super) fn step_in_background(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        // both read whole generations
        if self.follow.index.is_partial() || self.out_of_files.is_waiting() {
            return Ok(());
        }
        match step(self) {
            Err(SyncError::Index(error)) if error.is_out_of_files() && self.follow.until == Until::Stopped => {
                self.out_of_files.postpone(&error, OUT_OF_FILES);
                Ok(())
            }
            result => result,
        }
    }

    /// Whether the node has sent a signal, not taken yet, after which its active chain may be another.
    fn may_chain_have_changed(&self) -> bool {
        self.follow.signals.is_some_and(Signals::may_chain_have_changed)
    }

    /// Persists changes of the mempool if that is due, at least one commit of them. More begin until all is persisted, the node signals a
    /// block, the disk lacks space, the stop flag is raised, or the slice of time is over; the next round continues.
    fn write_mempool_when_due(&mut self) -> Result<(), SyncError> {
        let until = Instant::now() + WRITE_SLICE;
        while self.mempool_sync.as_ref().is_some_and(MempoolSync::is_write_due) {
            self.write_mempool(Instant::now())?;
            let stops = self.follow.node.stop().is_raised() || !self.follow.index.required_space().is_free();
            if stops || self.may_chain_have_changed() || Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bitcoin::hashes::Hash;
    use bitcoin::{BlockHash, OutPoint};
    use rustix::io::Errno;

    use super::super::background::Retry;
    use super::super::mempool::tests::{arrival, genesis, spending, txid};
    use super::super::mempool::{MAX_EVENTS, PersistentMempool};
    use super::super::reorg::tests::Stage;
    use super::*;
    use crate::index::{Index, IndexError};
    use crate::mempool::MempoolLimits;
    use crate::node::NodeSignal;

    /// An index of the genesis block, with so many unconfirmed transactions that are not persisted.
    fn with_mempool(transactions: u32) -> (tempfile::TempDir, Index, PersistentMempool) {
        let (directory, index) = genesis();
        let mut persistent = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
        for vout in 0..transactions {
            persistent.mempool.add(arrival(&spending(&[OutPoint { txid: txid(7), vout }]))).unwrap();
        }
        (directory, index, persistent)
    }

    #[test]
    fn writes_of_the_mempool_wait_one_round_for_a_block() {
        let (_directory, mut index, mut persistent) = with_mempool(6_000);
        let (stage, block) = (Stage::new(), BlockHash::from_byte_array([9; 32]));
        let signals = Signals::of([NodeSignal::BlockConnected(block)]);
        let mut following = stage.following(&mut index, &mut persistent, Some(&signals));
        let mut written_after_a_round = || {
            assert!(following.prepare_round().unwrap());
            following.follow.index.snapshot().unwrap().persisted_mempool().unwrap().count()
        };
        assert_eq!(written_after_a_round(), 0, "the block is first");
        assert_eq!(written_after_a_round(), MAX_EVENTS, "as few as possible, since a block is there again");
        assert_eq!(written_after_a_round(), MAX_EVENTS);
        let _ = signals.drain();
        assert_eq!(written_after_a_round(), 2 * MAX_EVENTS, "fewer than are due are left");
    }

    #[test]
    fn writes_of_the_mempool_wait_until_subscribers_have_a_block() {
        let (_directory, mut index, mut persistent) = with_mempool(6_000);
        let stage = Stage::new();
        let mut following = stage.following(&mut index, &mut persistent, None);
        let written_after_a_round = |following: &mut SyncLoop<'_>| {
            assert!(following.prepare_round().unwrap());
            following.follow.index.snapshot().unwrap().persisted_mempool().unwrap().count()
        };
        following.announced = Some(Instant::now() + ANNOUNCING);
        for _ in 0..2 {
            assert_eq!(written_after_a_round(&mut following), 0, "in every round of that time");
            assert!(following.is_work_postponed && following.is_announcing());
        }
        following.announced = Instant::now().checked_sub(ANNOUNCING);
        assert_eq!(following.announcing_left(), Duration::ZERO, "the next round begins at once");
        assert!(written_after_a_round(&mut following) > 0);
        assert_eq!(following.announced, None, "what is announced next has that time again");
    }

    #[test]
    fn a_check_for_background_work_that_a_round_skips_is_made_in_the_pause_after_it() {
        let (_directory, mut index, mut persistent) = with_mempool(0);
        let stage = Stage::new();
        let mut following = stage.following(&mut index, &mut persistent, None);
        let just_now = Some(Instant::now() + Duration::from_hours(1));
        assert!(following.is_working_in_background(), "at a start");
        while following.is_working_in_background() {
            following.background_checked = just_now;
            assert!(following.prepare_round().unwrap());
            assert!(!following.is_check_skipped, "what is under way goes on in each round");
        }
        following.background_checked = just_now;
        for _ in 0..2 {
            assert!(following.prepare_round().unwrap());
            assert!(following.is_check_skipped);
        }
        assert!(following.pause(10 * BACKGROUND_PAUSE).unwrap());
        assert!(!following.is_check_skipped, "the next round may be far away");

        following.is_work_postponed = true;
        assert!(following.prepare_round().unwrap());
        assert!(!following.is_check_skipped, "what was postponed is done");
        assert_ne!(following.background_checked, just_now);

        following.background_checked = Instant::now().checked_sub(BACKGROUND_PAUSE);
        assert!(following.prepare_round().unwrap());
        assert!(!following.is_check_skipped);
    }

    #[test]
    fn work_in_the_background_pauses_while_no_file_descriptor_is_free() {
        let failed = |errno| IndexError::File {
            doing: "open",
            path: "index.raw".into(),
            source: io::Error::from_raw_os_error(errno),
        };
        let (_directory, mut index, mut persistent) = with_mempool(0);
        let stage = Stage::new();
        let mut following = stage.following(&mut index, &mut persistent, None);
        let mut step = |result: Result<(), IndexError>| {
            let mut is_done = false;
            let result = following.step_in_background(|_| {
                is_done = true;
                Ok(result?)
            });
            (is_done, result.is_ok())
        };
        assert_eq!(step(Ok(())), (true, true));
        assert_eq!(step(Err(failed(Errno::NOENT.raw_os_error()))), (true, false), "no retry solves this");
        assert_eq!(step(Err(failed(Errno::MFILE.raw_os_error()))), (true, true));
        assert_eq!(step(Ok(())), (false, true), "some minutes are waited");

        following.out_of_files = Retry::default();
        following.follow.until = Until::CaughtUp;
        let result = following.step_in_background(|_| Err(failed(Errno::NFILE.raw_os_error()).into()));
        assert!(result.is_err(), "a command that ends when the index has caught up tries nothing again");
    }
}
