//! The newest block that was announced to readers before the disk had it, noted where a crash does not take it back.
//!
//! ```text
//!   commit_announced ── note ──► index.told, on the disk ──► commit_non_durable ──► readers see it
//!                                   │                             ╳ crash
//!   open ──► lost_announcement ◄────┤  the index does not reach that block: readers get no answer for an older one,
//!                  │                │  until it is there again
//!                  └── abandon ─────┘  or nobody waits for it any more: it was announced in vain
//! ```
//!
//! A file of its own beside the index, since to write it into that would be to wait for all of it. It holds one block that
//! was announced like this, the newest, and one that nobody waits for any more, if there is one and the index does not
//! reach it yet. It is never removed: once the index has these blocks, it says nothing any more. The index does not depend
//! on it. Without it, or if it is damaged or of another index, nothing was announced.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, sha256};

use super::error::IndexError;
use super::keys::Salt;
use super::open::Index;
use super::snapshot::Snapshot;
use super::tables::meta;
use super::update::{Tip, Update};

/// Bytes of a block in the note, and of the sum over both.
const TIP: usize = 36;
const SUM: usize = 8;

/// What is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    /// The newest block that was announced.
    announced: Option<Tip>,
    /// The highest block that was announced in vain and that the index did not reach since.
    abandoned: Option<Tip>,
}

/// Where the note is.
#[derive(Clone, Debug)]
pub(super) struct AnnouncedTip {
    path: PathBuf,
    salt: Salt,
}

impl AnnouncedTip {
    /// The note of the index in this file, with this salt.
    pub(super) fn beside(index: &Path, salt: Salt) -> Self {
        Self { path: index.with_extension("told"), salt }
    }

    /// Notes that this block is about to be announced. It is on the disk then.
    pub(super) fn announce(&self, tip: Tip) -> io::Result<()> {
        let abandoned = self.read()?.abandoned.filter(|abandoned| tip.height < abandoned.height);
        self.write(Note { announced: Some(tip), abandoned })
    }

    fn write(&self, note: Note) -> io::Result<()> {
        let is_new = !self.path.try_exists()?;
        // in place and of one length, so that a full disk has room for it
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        file.write_all(&encode(note, self.salt))?;
        file.sync_data()?;
        match self.path.parent() {
            Some(directory) if is_new => File::open(directory)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// What was noted last; nothing if nothing was.
    ///
    /// Errors: the file is there and cannot be read.
    fn read(&self) -> io::Result<Note> {
        match std::fs::read(&self.path) {
            Ok(note) => Ok(decode(&note, self.salt).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Note::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether this was noted. Logs why it was not.
    fn is_noted(&self, noted: io::Result<()>) -> bool {
        let log = |error| tracing::warn!(%error, path = %self.path.display(), "cannot note which block is announced");
        noted.map_err(log).is_ok()
    }
}

impl Update<'_> {
    /// Makes the changes visible as [`Update::commit_non_durable`] does, once it is noted which block is announced by that. If
    /// it cannot be noted, this waits for the disk as [`Update::commit`] does.
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
    /// The newest block that was announced, if a crash took it back and it is still awaited: the index does not reach its
    /// height any more, and does not know it.
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

    /// Notes that this block, which was announced and lost, is awaited no longer. The newest that is announced is the tip
    /// from now on.
    ///
    /// Errors: as [`Index::lost_announcement`]. If it cannot be noted, that is logged: the block is then awaited again by
    /// the next process.
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

/// The block, if this chain does not reach its height and does not know it.
fn lost(block: Option<Tip>, chain: &Snapshot) -> Result<Option<Tip>, IndexError> {
    let Some(block) = block else { return Ok(None) };
    let is_lower = chain.tip().is_none_or(|tip| tip.height < block.height);
    Ok((is_lower && chain.block_place(block.hash)?.is_none()).then_some(block))
}

/// The blocks, and a sum over them that only this index makes.
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
        // as it was noted before anything was abandoned
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
    fn the_newest_note_is_what_is_read_and_there_is_none_before_the_first() {
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
    fn what_was_abandoned_is_noted_until_its_height_is_announced() {
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
    fn a_note_of_another_index_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        note_in(&directory).announce(tip(1, [1; 32])).unwrap();
        let path = directory.path().join("index.redb");
        assert_eq!(AnnouncedTip::beside(&path, Salt([8; 16])).read().unwrap(), Note::default());
    }

    #[test]
    fn a_note_of_one_block_is_of_what_was_announced() {
        let announced = tip(7, [3; 32]);
        let mut note = meta::encode_tip(announced.height, announced.hash);
        note.extend(sum(&note, SALT));
        assert_eq!(decode(&note, SALT), Some(Note { announced: Some(announced), abandoned: None }));
    }

    proptest! {
        #[test]
        fn a_note_with_any_byte_changed_or_cut_off_says_nothing(
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
