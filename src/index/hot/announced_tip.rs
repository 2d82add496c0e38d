//! The note of the newest block that was announced to readers: its file, and what is in it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, sha256};

use super::super::keys::Salt;
use super::tables::meta;
use super::tip::Tip;
use crate::durable::sync_name;

/// Bytes of a block in the note, and of the checksum.
const TIP: usize = 36;
const SUM: usize = 8;

/// The content of the note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// The newest block that was announced.
    pub(super) announced: Option<Tip>,
    /// The highest abandoned block whose height the index did not reach since.
    pub(super) abandoned: Option<Tip>,
}

/// The file of the note.
#[derive(Clone, Debug)]
pub(in crate::index) struct AnnouncedTip {
    pub(super) path: PathBuf,
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

    pub(super) fn write(&self, note: Note) -> io::Result<()> {
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
    pub(super) fn read(&self) -> io::Result<Note> {
        match std::fs::read(&self.path) {
            Ok(note) => Ok(decode(&note, self.salt).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Note::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether noting succeeded. Logs an error.
    pub(super) fn is_noted(&self, noted: io::Result<()>) -> bool {
        let log = |error| tracing::warn!(%error, path = %self.path.display(), "cannot note which block is announced");
        noted.map_err(log).is_ok()
    }
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
