//! What readers were told of before the disk had it, noted where a crash does not take it back.
//!
//! ```text
//!   commit_told ── note ──► index.told, on the disk ──► commit_non_durable ──► readers are told
//!                                │                             ╳ crash
//!   open ──► taken_back ◄────────┘  the block of the note is not in the index: nobody is answered for an older one
//! ```
//!
//! A file of its own beside the index, since to write it into that would be to wait for all of it. It holds one block, the
//! newest that was told of like this, and is never taken away: once the index has that block, it says nothing any more.
//! The index does not depend on it. Without it, or if it is damaged or of another index, nothing was told.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bitcoin::hashes::{Hash, sha256};

use super::error::IndexError;
use super::keys::Salt;
use super::open::Index;
use super::tables::meta;
use super::update::{Tip, Update};

/// Bytes of a block in the note, and of the sum over it.
const TIP: usize = 36;
const SUM: usize = 8;

/// Where the note is.
#[derive(Clone, Debug)]
pub(super) struct Told {
    path: PathBuf,
    salt: Salt,
}

impl Told {
    /// The note of the index in this file, with this salt.
    pub(super) fn beside(index: &Path, salt: Salt) -> Self {
        Self { path: index.with_extension("told"), salt }
    }

    /// Notes that readers are about to be told of this block. It is on the disk then.
    pub(super) fn note(&self, tip: Tip) -> io::Result<()> {
        let is_new = !self.path.try_exists()?;
        // in place and of one length, so that a full disk has room for it
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        file.write_all(&encode(tip, self.salt))?;
        file.sync_data()?;
        match self.path.parent() {
            Some(directory) if is_new => File::open(directory)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Notes it as [`Told::note`] does; whether it is noted. Logs why it is not.
    fn try_note(&self, tip: Tip) -> bool {
        let noted = self.note(tip);
        if let Err(error) = &noted {
            tracing::warn!(%error, path = %self.path.display(), "cannot note which block is told of");
        }
        noted.is_ok()
    }

    /// The block that was noted last.
    ///
    /// Errors: the file is there and cannot be read.
    fn newest(&self) -> io::Result<Option<Tip>> {
        match std::fs::read(&self.path) {
            Ok(note) => Ok(decode(&note, self.salt)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Update<'_> {
    /// Makes the changes visible as [`Update::commit_non_durable`] does, once it is noted which block readers are told of. If
    /// that cannot be noted, it waits for the disk as [`Update::commit`] does.
    ///
    /// Errors: as [`Update::commit`].
    pub fn commit_told(self) -> Result<(), IndexError> {
        match self.tip() {
            Some(tip) if self.index.told.try_note(tip) => self.commit_non_durable(),
            _ => self.commit(),
        }
    }
}

impl Index {
    /// Notes the tip as the newest block that readers were told of, which may be lower than the one that was.
    ///
    /// Errors: as a snapshot's. If it cannot be noted, that is logged: what was noted before is then waited for again.
    pub fn note_told(&self) -> Result<(), IndexError> {
        let Some(tip) = self.snapshot()?.tip() else { return Ok(()) };
        self.told.try_note(tip);
        Ok(())
    }

    /// The newest block that readers were told of, if a crash has taken it back: the index is not as high any more, and does
    /// not know that block.
    ///
    /// Errors: [`IndexError::File`] if the note cannot be read; as a snapshot's.
    pub fn taken_back(&self) -> Result<Option<Tip>, IndexError> {
        let told = self.told.newest().map_err(|source| IndexError::File {
            doing: "read",
            path: self.told.path.clone(),
            source,
        })?;
        let Some(told) = told else { return Ok(None) };
        let chain = self.snapshot()?;
        let is_lower = chain.tip().is_none_or(|tip| tip.height < told.height);
        Ok((is_lower && chain.block_place(told.hash)?.is_none()).then_some(told))
    }
}

/// The block, and a sum over it that only this index makes.
fn encode(tip: Tip, salt: Salt) -> Vec<u8> {
    let mut note = meta::encode_tip(tip.height, tip.hash);
    let sum = sum(&note, salt);
    note.extend(sum);
    note
}

fn decode(note: &[u8], salt: Salt) -> Option<Tip> {
    let (tip, found) = note.split_at_checked(TIP)?;
    if found != sum(tip, salt) {
        return None;
    }
    let (height, hash) = meta::decode_tip(tip).ok()?;
    Some(Tip { height, hash })
}

fn sum(tip: &[u8], salt: Salt) -> [u8; SUM] {
    let hash = sha256::Hash::hash(&[&salt.0, tip].concat()).to_byte_array();
    let mut sum = [0; SUM];
    sum.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    sum
}

#[cfg(test)]
mod tests {
    use bitcoin::BlockHash;
    use proptest::prelude::*;

    use super::*;
    use crate::chain::Height;

    const SALT: Salt = Salt([7; 16]);

    fn tip(height: u32, hash: [u8; 32]) -> Tip {
        Tip { height: Height::from(height), hash: BlockHash::from_byte_array(hash) }
    }

    #[test]
    fn the_newest_note_is_what_is_read_and_there_is_none_before_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let told = Told::beside(&directory.path().join("index.redb"), SALT);
        assert_eq!(told.newest().unwrap(), None);
        for height in [900_000, 7] {
            told.note(tip(height, [3; 32])).unwrap();
            assert_eq!(told.newest().unwrap(), Some(tip(height, [3; 32])));
        }
    }

    #[test]
    fn a_note_of_another_index_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.redb");
        Told::beside(&path, SALT).note(tip(1, [1; 32])).unwrap();
        assert_eq!(Told::beside(&path, Salt([8; 16])).newest().unwrap(), None);
    }

    proptest! {
        #[test]
        fn a_note_with_any_byte_changed_or_cut_off_says_nothing(
            height: u32, hash: [u8; 32], at in 0..TIP + SUM, flip in 1_u8..,
        ) {
            let note = encode(tip(height, hash), SALT);
            prop_assert_eq!(decode(&note, SALT), Some(tip(height, hash)));
            prop_assert_eq!(decode(&note[..at], SALT), None);
            let mut changed = note;
            changed[at] ^= flip;
            prop_assert_eq!(decode(&changed, SALT), None);
        }
    }
}
