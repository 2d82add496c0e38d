//! A durable note of the newest block that was announced to readers before it was durable itself.
//!
//! ```text
//!   commit_announced ── note ──► index.announced, on the disk ──► commit_non_durable ──► readers see it
//!                                   │                             ╳ crash
//!   open ──► lost_announcement ◄────┤  the index lacks that block: no reader gets an answer for an older one
//!                  │                │  until the index has it again
//!                  └── abandon ─────┘  or the server stops waiting: the announcement was wrong
//! ```
//!
//! The note is a file beside the index, because a write to the index would wait for all its pending changes. It has the newest
//! announced block, and the abandoned block that the server waits for no longer, while the index does not reach its height. The
//! file is never removed: once the index has these blocks, it has no effect. The index does not depend on it. Without it, or if it
//! is damaged or of another index, no block counts as announced.

use super::super::error::IndexError;
use super::super::open::Index;
use super::super::snapshot::Snapshot;
use super::announced_tip::Note;
use super::tip::Tip;
use super::update::Update;

impl Update<'_> {
    /// Notes the block that this commit announces, then makes the changes visible as [`Update::commit_non_durable`] does. If the
    /// note fails, waits for the disk as [`Update::commit`] does.
    ///
    /// Errors: as [`Update::commit`].
    pub fn commit_announced(self) -> Result<(), IndexError> {
        let note = &self.index.announced;
        match self.tip() {
            Some(tip) if note.is_noted(note.announce(tip)) => self.commit_non_durable(),
            _ => self.commit(),
        }
    }
}

impl Index {
    /// The newest announced block, if a crash removed it and it is still awaited: the index is below its height and does not
    /// know it.
    ///
    /// Errors: [`IndexError::File`] if the note cannot be read; as a snapshot's.
    pub fn lost_announcement(&self) -> Result<Option<Tip>, IndexError> {
        lost(self.note()?.announced, &self.snapshot()?)
    }

    /// The highest block that was announced, lost in a crash and then [abandoned](Index::abandon_announcement), until the
    /// index reaches its height.
    ///
    /// Errors: as [`Index::lost_announcement`].
    pub fn abandoned_announcement(&self) -> Result<Option<Tip>, IndexError> {
        lost(self.note()?.abandoned, &self.snapshot()?)
    }

    /// Notes that this lost block is awaited no longer. From now on the tip is the newest announced block.
    ///
    /// Errors: as [`Index::lost_announcement`]. A note that fails is logged; then the next process waits for
    /// the block again.
    pub fn abandon_announcement(&self, block: Tip) -> Result<(), IndexError> {
        let abandoned = self.abandoned_announcement()?.or(Some(block));
        let note = Note { announced: self.snapshot()?.tip(), abandoned };
        self.announced.is_noted(self.announced.write(note));
        Ok(())
    }

    fn note(&self) -> Result<Note, IndexError> {
        let path = &self.announced.path;
        self.announced.read().map_err(|source| IndexError::File { doing: "read", path: path.clone(), source })
    }
}

/// The block, if this chain is below its height and does not know it.
fn lost(block: Option<Tip>, chain: &Snapshot) -> Result<Option<Tip>, IndexError> {
    let Some(block) = block else { return Ok(None) };
    let is_lower = chain.tip().is_none_or(|tip| tip.height < block.height);
    Ok((is_lower && chain.block_place(block.hash)?.is_none()).then_some(block))
}
