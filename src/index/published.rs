//! The frozen blocks of an index as files that another machine can use, and the way back: files of another index become the
//! generations of an empty one.
//!
//! ```text
//!   Snapshot::frozen_files ─► paths, ends ─► (fleet: objects in a store) ─► paths, ends ─► Index::join
//! ```
//!
//! Only generations of which all blocks count are an index by themselves. Of one that a reorganisation shortened, the live tables
//! have the outputs that disconnected blocks had spent, and no file has them: the files end before it, and joining refuses it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::adopt::file_name;
use super::error::IndexError;
use super::files::{file, flush_directory};
use super::frozen::{Generation, Generations, InForce};
use super::hot::sweep_cursor::SweepCursor;
use super::hot::tip::Tip;
use super::keys::TxNum;
use super::open::{Index, cache_of_generation, generations_directory};
use super::partial::PartialFile;
use super::raw::RawSources;
use super::snapshot::Snapshot;
use crate::chain::Height;

/// The frozen blocks of an index whose files are an index by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenFiles {
    /// The generations in force below the first that a reorganisation shortened, the oldest first; at least one.
    pub generations: Vec<FrozenFile>,
    /// The outputs that are unspent right above them.
    pub utxo_count: u64,
    /// Their value in sat.
    pub utxo_value: u64,
    /// The highest frozen block, if a reorganisation shortened a generation above them.
    pub left_out: Option<Tip>,
}

/// A generation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenFile {
    /// Its file, which never changes.
    pub path: PathBuf,
    /// Its highest block.
    pub last: Tip,
    /// The number after its last transaction.
    pub end: TxNum,
}

/// A file that becomes a generation of an empty index.
#[derive(Clone, Debug)]
pub struct JoinedFile {
    /// Where it is now, on the disk of the index.
    pub path: PathBuf,
    /// The file, if it may not be complete yet: it stays where it is then, until [`Index::put_in_place`] moves it.
    pub partial: Option<Arc<dyn PartialFile>>,
    /// Distinguishes its name from that of another file with the same blocks.
    pub build: u32,
    /// Its highest block.
    pub last: Tip,
    /// The number after its last transaction.
    pub end: TxNum,
}

impl Snapshot {
    /// Its frozen blocks as files, up to the first generation that a reorganisation shortened; `None` if no blocks are frozen.
    ///
    /// Errors: storage errors; [`IndexError::Downloading`]; [`IndexError::Shortened`] if that is the oldest generation.
    pub fn frozen_files(&self) -> Result<Option<FrozenFiles>, IndexError> {
        let Some(frozen) = self.frozen() else { return Ok(None) };
        if self.generations.are_partial() {
            return Err(IndexError::Downloading);
        }
        let whole = || self.generations.iter().take_while(|in_force| in_force.is_whole());
        let Some(cut) = whole().last().map(|newest| newest.last) else {
            return self.generations.iter().next().map_or(Ok(None), |oldest| Err(shortened(oldest)));
        };
        let missing = || IndexError::corrupt("blocks", format!("the row at height {} is missing", cut.height));
        let totals = self.block(cut.height)?.ok_or_else(missing)?.running;
        let generations = whole().map(|in_force| FrozenFile {
            path: in_force.generation.path().to_path_buf(),
            last: in_force.last,
            end: in_force.end,
        });
        Ok(Some(FrozenFiles {
            generations: generations.collect(),
            utxo_count: totals.utxo_count,
            utxo_value: totals.utxo_value,
            left_out: (cut != frozen).then_some(frozen),
        }))
    }

    /// The bytes of its frozen blocks that are not downloaded yet.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.generations.missing_bytes()
    }
}

impl Index {
    /// Moves files of another index to those of this one, which has no blocks, and names them in one durable commit. A crash
    /// before the commit leaves the index without blocks, and [`Index::take_back`] finds the files.
    ///
    /// Errors: [`IndexError::NotNext`] if the index has blocks; [`IndexError::Corrupt`] if the files do not follow each other
    /// from the genesis block on; [`IndexError::Shortened`] if not all blocks of one are to count; as [`Generation::open`]; a
    /// file cannot be moved; storage errors.
    pub fn join(&mut self, files: &[JoinedFile]) -> Result<Tip, IndexError> {
        let (snapshot, network, salt) = (self.snapshot()?, self.network, self.salt);
        if let Some(tip) = snapshot.tip() {
            let path = files.first().map(|file| file.path.clone()).unwrap_or_default();
            let tip = format!("{} at height {}", tip.hash, tip.height);
            return Err(IndexError::NotNext { path, first: Height::GENESIS, tip });
        }
        drop(snapshot);
        let in_force = |at: usize, path: &Path, joined: &JoinedFile| -> Result<InForce, IndexError> {
            let cache = cache_of_generation(self.all_cache_bytes, at);
            let generation = Arc::new(match &joined.partial {
                Some(partial) => Generation::open_partial(path, partial, network, salt, cache)?,
                None => Generation::open(path, network, salt, cache)?,
            });
            let name = file_name(generation.range(), joined.build);
            Ok(InForce { generation, name, last: joined.last, end: joined.end, derived: BTreeMap::new() })
        };
        // checked where they are, so that a refused file stays there
        let checked = files.iter().enumerate().map(|(at, joined)| in_force(at, &joined.path, joined));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        if let Some(not_whole) = checked.iter().find(|in_force| !in_force.is_whole()) {
            return Err(shortened(not_whole));
        }
        let last = checked.last().map(|last| last.last);
        let last = last.ok_or_else(|| IndexError::corrupt("meta", "there are no generations to join"))?;
        let names: Vec<_> = checked.iter().map(|in_force| in_force.name.clone()).collect();
        Generations::new(checked, RawSources::default()).check(Some(last))?;
        let directory = self.make_generations_directory()?;
        let mut placed = Vec::new();
        for (at, (joined, name)) in files.iter().zip(&names).enumerate() {
            let path = directory.join(name);
            if joined.partial.is_none() {
                fs::rename(&joined.path, &path).map_err(file("move the generation to", &path))?;
            }
            placed.push(in_force(at, &path, joined)?);
        }
        flush_directory(&directory)?;
        let mut update = self.update()?;
        for in_force in placed {
            update.name_generation(in_force)?;
        }
        update.commit()?;
        self.sweep_cursor = SweepCursor::default();
        Ok(last)
    }

    /// Moves a file that [`Index::join`] moved before a crash back to `path`, if there is one: that of these blocks and
    /// this build in the directory of generations of the index in this file.
    ///
    /// Errors: the file cannot be moved.
    pub fn take_back(index: &Path, stem: &str, build: u32, path: &Path) -> Result<(), IndexError> {
        let placed = generations_directory(index).join(Self::generation_name(stem, build));
        match fs::rename(&placed, path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(file("move the generation from", &placed)(error))
            }
            _ => Ok(()),
        }
    }

    /// The name of the file of a generation with these blocks and this build.
    #[must_use]
    pub fn generation_name(stem: &str, build: u32) -> String {
        format!("{stem}-{build:08x}.redb")
    }

    /// Whether the generations of the index in this file have a file of this name.
    #[must_use]
    pub fn has_file(index: &Path, name: &str) -> bool {
        generations_directory(index).join(name).exists()
    }

    /// Moves a complete file to the generations of the index in this file, durably. Its content must be durable.
    ///
    /// Errors: the file cannot be moved.
    pub fn put_in_place(index: &Path, name: &str, path: &Path) -> Result<(), IndexError> {
        let directory = generations_directory(index);
        let placed = directory.join(name);
        fs::rename(path, &placed).map_err(file("move the generation to", &placed))?;
        flush_directory(&directory)
    }

    /// Whether bytes of its generations may be missing on this machine: then nothing is to read all of them.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.generations.are_partial()
    }
}

/// The error that a generation was shortened.
fn shortened(in_force: &InForce) -> IndexError {
    IndexError::Shortened { path: in_force.generation.path().to_path_buf(), last: in_force.last.height }
}
