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

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, sha256};

use super::super::error::IndexError;
use super::super::keys::Salt;
use super::super::open::Index;
use super::super::snapshot::Snapshot;
use super::tables::meta;
use super::tip::Tip;
use super::update::Update;
use crate::durable::sync_name;

/// Bytes of a block in the note, and of the checksum.
const TIP: usize = 36;
const SUM: usize = 8;

/// The content of the note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    /// The newest block that was announced.
    announced: Option<Tip>,
    /// The highest abandoned block whose height the index did not reach since.
    abandoned: Option<Tip>,
}

/// The file of the note.
#[derive(Clone, Debug)]
pub(in crate::index) struct AnnouncedTip {
    path: PathBuf,
    salt: Salt,
}

impl AnnouncedTip {
    /// The note of the index in this file, with this salt.
    pub(in crate::index) fn beside(index: &Path, salt: Salt) -> Self {
        Self { path: index.with_extension("announced"), salt }
    }

    /// Notes that this block is about to be announced, and returns once the note is durable.
    pub(in crate::index) fn announce(&self, tip: Tip) -> io::Result<()> {
        let abandoned = self.read()?.abandoned.filter(|abandoned| tip.height < abandoned.height);
        self.write(Note { announced: Some(tip), abandoned })
    }

    fn write(&self, note: Note) -> io::Result<()> {
        let is_new = !self.path.try_exists()?;
        // in place and of constant length, so that it needs no free space
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        file.write_all(&encode(note, self.salt))?;
        file.sync_data()?;
        if is_new { sync_name(&self.path) } else { Ok(()) }
    }

    /// The last note; an empty one if there is none.
    ///
    /// Errors: the file exists and cannot be read.
    fn read(&self) -> io::Result<Note> {
        match std::fs::read(&self.path) {
            Ok(note) => Ok(decode(&note, self.salt).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Note::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether the note was written. Logs an error.
    fn is_noted(&self, noted: io::Result<()>) -> bool {
        let log = |error| tracing::warn!(%error, path = %self.path.display(), "cannot note which block is announced");
        noted.map_err(log).is_ok()
    }
}

impl Update<'_> {
    /// Notes the block that this commit announces, then makes the changes visible as [`Update::commit_non_durable`] does. If the
    /// note cannot be written, waits for the disk as [`Update::commit`] does.
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
    /// Errors: as [`Index::lost_announcement`]. A note that cannot be written is logged; then the next process waits for
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

/// The blocks, and a checksum that depends on the salt of this index.
fn encode(note: Note, salt: Salt) -> Vec<u8> {
    // no block has a hash of zeros
    let encode_tip = |tip: Option<Tip>| tip.map_or_else(|| vec![0; TIP], |tip| meta::encode_tip(tip.height, tip.hash));
    let mut encoded = [encode_tip(note.announced), encode_tip(note.abandoned)].concat();
    let sum = sum(&encoded, salt);
    encoded.extend(sum);
    encoded
}

fn decode(encoded: &[u8], salt: Salt) -> Option<Note> {
    let (tips, found) = encoded.split_at_checked(encoded.len().checked_sub(SUM)?)?;
    if found != sum(tips, salt) {
        return None;
    }
    let (announced, abandoned) = match tips.len() {
        // a note without an abandoned block, as older versions wrote it
        TIP => (tips, [0; TIP].as_slice()),
        _ => tips.split_at_checked(TIP).filter(|(_, abandoned)| abandoned.len() == TIP)?,
    };
    let decode_tip = |encoded: &[u8]| {
        let (height, hash) = meta::decode_tip(encoded).ok()?;
        (hash != BlockHash::all_zeros()).then_some(Tip { height, hash })
    };
    Some(Note { announced: decode_tip(announced), abandoned: decode_tip(abandoned) })
}

fn sum(tips: &[u8], salt: Salt) -> [u8; SUM] {
    let hash = sha256::Hash::hash(&[&salt.0, tips].concat()).to_byte_array();
    let mut sum = [0; SUM];
    sum.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::Height;

    const SALT: Salt = Salt([7; 16]);

    fn tip(height: u32, hash: [u8; 32]) -> Tip {
        Tip { height: Height::from(height), hash: BlockHash::from_byte_array(hash) }
    }

    fn note_in(directory: &tempfile::TempDir) -> AnnouncedTip {
        AnnouncedTip::beside(&directory.path().join("index.redb"), SALT)
    }

    #[test]
    fn the_newest_note_is_read_and_none_before_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let announced = note_in(&directory);
        assert_eq!(announced.read().unwrap(), Note::default());
        for height in [900_000, 7] {
            let newest = tip(height, [3; 32]);
            announced.announce(newest).unwrap();
            assert_eq!(announced.read().unwrap(), Note { announced: Some(newest), abandoned: None });
        }
    }

    #[test]
    fn an_abandoned_block_is_noted_until_its_height_is_announced() {
        let directory = tempfile::tempdir().unwrap();
        let (announced, abandoned) = (note_in(&directory), Some(tip(9, [9; 32])));
        announced.write(Note { announced: Some(tip(5, [5; 32])), abandoned }).unwrap();
        for (height, abandoned) in [(6, abandoned), (8, abandoned), (9, None), (8, None)] {
            let newest = tip(height, [6; 32]);
            announced.announce(newest).unwrap();
            assert_eq!(announced.read().unwrap(), Note { announced: Some(newest), abandoned }, "{height}");
        }
    }

    #[test]
    fn a_note_of_another_index_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        note_in(&directory).announce(tip(1, [1; 32])).unwrap();
        let path = directory.path().join("index.redb");
        assert_eq!(AnnouncedTip::beside(&path, Salt([8; 16])).read().unwrap(), Note::default());
    }

    #[test]
    fn a_note_of_one_block_is_the_announced_one() {
        let announced = tip(7, [3; 32]);
        let mut note = meta::encode_tip(announced.height, announced.hash);
        note.extend(sum(&note, SALT));
        assert_eq!(decode(&note, SALT), Some(Note { announced: Some(announced), abandoned: None }));
    }

    proptest! {
        #[test]
        fn a_changed_or_truncated_note_is_ignored(
            height: u32, hash in prop::array::uniform32(1_u8..), is_abandoned: bool, at in 0..2 * TIP + SUM, flip in 1_u8..,
        ) {
            let announced = tip(height, hash);
            let note = Note { announced: Some(announced), abandoned: is_abandoned.then_some(announced) };
            let encoded = encode(note, SALT);
            prop_assert_eq!(decode(&encoded, SALT), Some(note));
            prop_assert_eq!(decode(&encoded[..at], SALT), None);
            let mut changed = encoded;
            changed[at] ^= flip;
            prop_assert_eq!(decode(&changed, SALT), None);
        }
    }
}
