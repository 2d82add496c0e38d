//! Commits that readers see before they are durable, and the thread that flushes them to the disk.
//!
//! ```text
//!   commit_non_durable ──► visible in snapshots ──► flush_soon ── delay ──► thread flushes ──► durable
//!                              ▲                          ▲         │ cancelled by another update
//!                              │                          └─────────┤ which is dropped
//!                              └──────── the next commit ◄──────────┘ or committed
//!   commit ────────────────────────────────────────────────────────────────────────────────► durable
//! ```
//!
//! A block changes thousands of pages all over the file. Readers need not wait until they are on the disk: the blocks
//! that a crash loses are fetched from the node again, and until then no request is answered from an older tip
//! (`announced.rs`). Of the observations of the mempool a crash loses the last second or two.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use redb::Database;

use super::super::error::IndexError;
use super::super::open::Index;
use super::flush_state::{FlushEnd, FlushThread};
use super::update::Update;

/// The pause between a commit and its flush, in which subscribers of the change have the machine to themselves.
const DELAY: Duration = Duration::from_millis(500);
/// The age of the oldest commit that is not durable up to which its flush waits for an update that follows soon.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

impl Index {
    /// Makes all commits durable after a short delay, on a thread of its own. An update that begins before the flush
    /// cancels it, and its durable commit or the next flush replaces it; if it is dropped, the flush is started again. An
    /// update that begins later waits for it. Apart from [delays](Index::delay_flush) and the time that updates are under way, no
    /// commit waits longer than a second for its flush.
    ///
    /// Errors: those of the previous flush, as [`super::super::Update::commit`].
    pub fn flush_soon(&mut self) -> Result<(), IndexError> {
        let is_recent = self.flushing.non_durable_since.is_some_and(|since| since.elapsed() < DELAY);
        self.flush_after(if is_recent { DELAY } else { Duration::ZERO })
    }

    /// Delays a flush that has not begun, because an update that follows soon would wait for it: one of the next blocks, or one
    /// that deletes further rows of frozen blocks. If none follows, it begins when the oldest commit that is not durable is two
    /// seconds old, however often it is delayed.
    ///
    /// Errors: as [`Index::flush_soon`].
    pub fn delay_flush(&mut self) -> Result<(), IndexError> {
        let age = self.flushing.non_durable_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.flush_after(LONGEST_DELAY.saturating_sub(age))
    }

    fn flush_after(&mut self, delay: Duration) -> Result<(), IndexError> {
        self.flushing.finish()?;
        if self.flushing.non_durable_since.is_none() {
            return Ok(());
        }
        let ((cancel, cancelled), database) = (mpsc::channel(), Arc::clone(&self.database));
        let write = move || match cancelled.recv_timeout(delay) {
            Err(RecvTimeoutError::Timeout) => commit_empty(&database).map(|()| FlushEnd::Flushed),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(FlushEnd::Cancelled),
        };
        match thread::Builder::new().name("flush".into()).spawn(write) {
            Ok(thread) => self.flushing.thread = Some(FlushThread { cancel, thread }),
            Err(_) => self.flush()?,
        }
        Ok(())
    }

    /// Makes all commits durable, and waits for it.
    ///
    /// Errors: as [`Index::flush_soon`], and as [`super::super::Update::commit`].
    pub fn flush(&mut self) -> Result<(), IndexError> {
        self.flushing.finish()?;
        if self.flushing.non_durable_since.is_some() {
            commit_empty(&self.database)?;
            self.flushing.mark_durable();
        }
        Ok(())
    }

    /// Starts a flush if commits are not durable and no flush is running, and returns the error of the previous one.
    /// Does not block.
    ///
    /// Errors: as [`Index::flush_soon`].
    pub fn ensure_flushing(&mut self) -> Result<(), IndexError> {
        let is_running = self.flushing.thread.as_ref().is_some_and(|flush| !flush.thread.is_finished());
        if is_running { Ok(()) } else { self.flush_soon() }
    }
}

impl Drop for Update<'_> {
    /// Starts the flush again that the update has cancelled, unless it was committed.
    fn drop(&mut self) {
        if self.abort()
            && let Err(error) = self.index.flush_soon()
        {
            // the next flush tries it again, and returns the error
            tracing::debug!(%error, "cannot flush the changes before an update that is dropped");
        }
    }
}

impl Drop for Index {
    /// Flushes all commits, so that they are durable when the index is closed, unless the disk fails.
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::error!(%error, "cannot flush the newest changes of the index; the next start fetches them again");
        }
    }
}

/// Commits an empty transaction, which makes the commits before it durable.
fn commit_empty(database: &Database) -> Result<(), IndexError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    transaction.commit()?;
    Ok(())
}
