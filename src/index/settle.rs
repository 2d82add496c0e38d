//! Commits that readers see before the disk has them, and how the disk gets them.
//!
//! ```text
//!   commit_unsettled ──► snapshots see it ──► settle ── a moment ──► a thread writes ──► durable
//!                              ▲                           │ another update begins meanwhile
//!                              └──────── the next one ◄────┘
//!   commit ────────────────────────────────────────────────────────────────────────► durable
//! ```
//!
//! A block touches thousands of pages all over the file. Nobody who waits for it has to wait until they are on the disk:
//! the blocks that a crash takes back are fetched from the node again, and nobody is answered for an older one meanwhile
//! (`told.rs`). Of what followed the mempool a crash loses the last second or two.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::Database;

use super::error::IndexError;
use super::open::Index;

/// How long those who were told of a change have the machine to themselves before it is written.
const MOMENT: Duration = Duration::from_millis(500);

/// How far the disk is.
#[derive(Default)]
pub(super) struct Settling {
    /// Since when there are commits that are not durable.
    since: Option<Instant>,
    /// Who makes them so.
    writer: Option<Writer>,
}

/// A thread that waits for a moment and then writes. It does nothing if `call_off` goes before that.
struct Writer {
    call_off: Sender<()>,
    thread: JoinHandle<Result<Ended, IndexError>>,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Written,
    CalledOff,
}

impl Settling {
    /// There is a commit more that is not durable.
    pub(super) fn unsettled(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// All commits are durable.
    pub(super) fn settled(&mut self) {
        self.since = None;
    }

    /// Ends the writing: before it began, or when it is done.
    pub(super) fn finish(&mut self) -> Result<(), IndexError> {
        let Some(Writer { call_off, thread }) = self.writer.take() else { return Ok(()) };
        drop(call_off);
        if thread.join().unwrap_or(Err(IndexError::Unsettled))? == Ended::Written {
            self.settled();
        }
        Ok(())
    }
}

impl Index {
    /// Lets all commits become durable in a moment, on a thread of its own. An update that begins before takes that over;
    /// one that begins after waits for it. No commit waits for longer than a second before it is written.
    ///
    /// Errors: of what was begun before, as [`super::Update::commit`].
    pub fn settle(&mut self) -> Result<(), IndexError> {
        self.settling.finish()?;
        let Some(since) = self.settling.since else { return Ok(()) };
        let moment = if since.elapsed() < MOMENT { MOMENT } else { Duration::ZERO };
        let ((call_off, called_off), database) = (mpsc::channel(), Arc::clone(&self.database));
        let write = move || match called_off.recv_timeout(moment) {
            Err(RecvTimeoutError::Timeout) => write_out(&database).map(|()| Ended::Written),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(Ended::CalledOff),
        };
        match thread::Builder::new().name("settle".into()).spawn(write) {
            Ok(thread) => self.settling.writer = Some(Writer { call_off, thread }),
            Err(_) => self.settle_now()?,
        }
        Ok(())
    }

    /// Makes all commits durable, and waits for it.
    ///
    /// Errors: as [`Index::settle`], and as [`super::Update::commit`].
    pub fn settle_now(&mut self) -> Result<(), IndexError> {
        self.settling.finish()?;
        if self.settling.since.is_some() {
            write_out(&self.database)?;
            self.settling.settled();
        }
        Ok(())
    }

    /// Sees to it that commits become durable, whatever became of what was to do it, and tells if it failed. Waits for
    /// nothing.
    ///
    /// Errors: as [`Index::settle`].
    pub fn keep_settling(&mut self) -> Result<(), IndexError> {
        let is_under_way = self.settling.writer.as_ref().is_some_and(|writer| !writer.thread.is_finished());
        if is_under_way { Ok(()) } else { self.settle() }
    }
}

impl Drop for Index {
    /// What was committed is durable when the index is closed, unless the disk fails.
    fn drop(&mut self) {
        if let Err(error) = self.settle_now() {
            tracing::error!(%error, "the newest changes of the index did not reach the disk, and will be made again");
        }
    }
}

/// A commit that changes nothing makes those before it durable.
fn write_out(database: &Database) -> Result<(), IndexError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    transaction.commit()?;
    Ok(())
}
