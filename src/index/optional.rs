//! Optional tables: switching them on and off, and the step by step work that follows.
//!
//! ```text
//!   off ── switch_tables ──► on: new blocks write rows ──► tend_tables: rows of the live blocks that were there before
//!    ▲                        │                             due_table ─► DueTable::build ─► name_table: a file for each
//!    │                        │                                          generation, and then its live rows are swept
//!    └── tend_tables ◄── dropping ◄── switch_tables: files are retired, and live rows deleted
//! ```
//!
//! Live rows stay until the file of their generation is in force, so that a freeze never interrupts lookups.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::ReadableDatabase;
use tracing::warn;

use super::error::IndexError;
use super::frozen::builder::remove_if_exists;
use super::frozen::{DerivedName, DueTable, InForce, WtxidsFile};
use super::keys::TxNum;
use super::open::{Index, cache_of_generation, deriving_directory, file, generations_directory};
use super::sweep::SweepCursor;
use super::tables::meta;
use super::tables::wtxids::{NAME, WtxidsState};
use super::update::{Update, read_derived, write_generations};
use super::wtxids::{drop_rows, fill, read_state, write_state};

/// Which optional tables an index has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalTables {
    /// Lookups of confirmed transactions by their wtxids.
    pub wtxids: bool,
}

/// What became of a table that was built.
#[derive(Debug)]
pub enum NamedTable {
    /// Its file is named, and lookups use it.
    InForce,
    /// Its file was removed, as its generation is in force no more or the table was switched off meanwhile.
    NotNeeded,
    /// Its file cannot be read for this reason, and was removed: the table is due again.
    Unreadable(IndexError),
}

impl Index {
    /// Switches optional tables on and off, in a durable commit if that changes anything. Until this is called the index
    /// maintains those that were on before. Files of tables that are off are removed when their last reader drops them.
    ///
    /// Errors: storage errors.
    pub fn switch_tables(&mut self, tables: OptionalTables) -> Result<(), IndexError> {
        let state = self.wtxids_state()?;
        let is_on = matches!(state, WtxidsState::On { .. } | WtxidsState::Dropping { then_on: true });
        if tables.wtxids == is_on {
            return Ok(());
        }
        let retired = (!tables.wtxids).then(|| Arc::clone(&self.generations));
        let mut update = self.update()?;
        match (tables.wtxids, state) {
            (true, WtxidsState::Off) => update.switch_wtxids_on()?,
            (then_on, _) => {
                let without = Arc::new(update.generations.without_wtxids());
                update.with_tables(|tables, _| {
                    write_state(tables, WtxidsState::Dropping { then_on })?;
                    write_generations(tables, &without)
                })?;
                update.generations = without;
            }
        }
        update.commit()?;
        for in_force in retired.iter().flat_map(|generations| generations.iter()) {
            if let Some(wtxids) = &in_force.wtxids {
                wtxids.retire();
            }
        }
        Ok(())
    }

    /// Adds rows that an optional table or `miner_blocks` lacks, or deletes rows of one that is off or of other pools, in one
    /// commit that is not durable, for which it looks at so many transactions, blocks or rows. Returns whether any may be left.
    ///
    /// Errors: [`IndexError::RawUnavailable`], `NoRawBlocks` if a frozen coinbase cannot be read; storage errors.
    pub fn tend_tables(&mut self, rows: u32) -> Result<bool, IndexError> {
        Ok(self.tend_wtxids(rows)? || self.tend_miners(rows)?)
    }

    fn tend_wtxids(&mut self, rows: u32) -> Result<bool, IndexError> {
        let state = self.wtxids_state()?;
        let (end, salt) = (self.generations.end(), self.salt);
        let mut update = match state {
            WtxidsState::Off => return Ok(false),
            WtxidsState::On { from } if from <= end => return Ok(false),
            _ => self.update()?,
        };
        let mut is_empty = false;
        update.with_tables(|tables, _| {
            if let WtxidsState::On { from } = state {
                return fill(tables, salt, from, TxNum(from.0.saturating_sub(rows).max(end.0)));
            }
            is_empty = drop_rows(tables, rows)?;
            if is_empty { write_state(tables, WtxidsState::Off) } else { Ok(()) }
        })?;
        if is_empty && state == (WtxidsState::Dropping { then_on: true }) {
            update.switch_wtxids_on()?;
        }
        update.commit_non_durable()?;
        Ok(true)
    }

    /// The table that is to be built next: of the oldest generation that lacks one which is on, or has it in an older
    /// version. `None` also while the bytes of frozen blocks cannot be read.
    ///
    /// Errors: storage errors.
    pub fn due_table(&self) -> Result<Option<DueTable>, IndexError> {
        let is_readable = self.generations.last().is_some_and(|last| self.generations.raw().may_have(last.height));
        if !matches!(self.wtxids_state()?, WtxidsState::On { .. }) || !is_readable {
            return Ok(None);
        }
        let due = self.generations.iter().find_map(|in_force| {
            let newest = DerivedName::newest_wtxids(&in_force.name);
            let is_due = in_force.wtxids.as_ref().is_none_or(|wtxids| wtxids.name != newest);
            is_due.then_some((in_force, newest))
        });
        Ok(due.map(|(in_force, name)| {
            let (generations, directory) = (Arc::clone(&self.generations), generations_directory(&self.path));
            let temporary = deriving_directory(&self.path);
            DueTable::new(generations, in_force.clone(), name, (directory, &temporary), (self.network, self.salt))
        }))
    }

    /// Puts a table that was built into force, in a durable commit that names its file. The file of the version before is
    /// removed when its last reader drops it; the live rows of its transactions are to be [swept](Index::sweep).
    ///
    /// Errors: storage errors.
    pub fn name_table(&mut self, due: &DueTable) -> Result<NamedTable, IndexError> {
        let (name, directory) = (due.name(), generations_directory(&self.path));
        let generation = name.generation();
        let of = self.generations.iter().enumerate().find(|(_, in_force)| in_force.name == generation);
        let is_on = matches!(self.wtxids_state()?, WtxidsState::On { .. });
        let Some((at, in_force)) = of.filter(|_| is_on) else {
            remove_if_exists(&directory.join(name.file()))?;
            return Ok(NamedTable::NotNeeded);
        };
        let cache = cache_of_generation(self.all_cache_bytes, at.max(1));
        let opened = WtxidsFile::open(&directory, name, self.network, self.salt, cache)
            .and_then(|wtxids| if wtxids.is_of(in_force)? { Ok(wtxids) } else { Err(not_of(in_force, name)) });
        let wtxids = match opened {
            Ok(wtxids) => Arc::new(wtxids),
            Err(error) => {
                remove_if_exists(&directory.join(name.file()))?;
                return Ok(NamedTable::Unreadable(error));
            }
        };
        let before = in_force.wtxids.clone();
        let mut update = self.update()?;
        let generations = Arc::new(update.generations.with_wtxids(&generation, &wtxids));
        update.with_tables(|tables, _| {
            tables.meta.insert(meta::SHADOWED, [].as_slice())?;
            write_generations(tables, &generations)
        })?;
        update.generations = generations;
        update.commit()?;
        if let Some(before) = before {
            before.retire();
        }
        self.sweep_cursor = SweepCursor::default();
        Ok(NamedTable::InForce)
    }

    /// Removes files of optional tables that no commit names and no build continues with: of generations that are gone, of
    /// tables that are off, and of versions before the newest. Returns what it removed.
    ///
    /// Errors: the directories cannot be read, or a file cannot be removed.
    pub fn remove_unused_tables(&self) -> Result<Vec<PathBuf>, IndexError> {
        let is_on = matches!(self.wtxids_state()?, WtxidsState::On { .. });
        let named: BTreeSet<_> = self.generations.derived_names().cloned().collect();
        let directory = generations_directory(&self.path);
        let is_used = |name: &DerivedName| {
            let generation = name.generation();
            if self.generations.iter().any(|in_force| in_force.name == generation) {
                // the next build finds it complete, or continues it
                is_on && *name == DerivedName::newest_wtxids(&generation)
            } else {
                // it may be of a generation that belongs to another index
                directory.join(generation).exists()
            }
        };
        let mut removed = Vec::new();
        for (path, file_name) in entries(&directory)? {
            if DerivedName::parse(&file_name).is_some_and(|name| !named.contains(&name) && !is_used(&name)) {
                remove_if_exists(&path)?;
                removed.push(path);
            }
        }
        for (path, build) in entries(&deriving_directory(&self.path))? {
            if !DerivedName::parse(&format!("{build}.redb")).is_some_and(|name| is_used(&name)) {
                fs::remove_dir_all(&path).map_err(file("remove", &path))?;
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// Records that lookups wait for the files of tables that the index names and that cannot be opened, in a durable commit
    /// if there are any: the live rows of their transactions may be deleted. They are due again.
    ///
    /// Errors: storage errors.
    pub(super) fn forget_lost_tables(&mut self) -> Result<(), IndexError> {
        let named = read_derived(&self.database.begin_read()?.open_table(meta::TABLE)?)?;
        let is_lost = |of: &&InForce| of.wtxids.is_none() && named.iter().any(|name| name.generation() == of.name);
        let generations = Arc::clone(&self.generations);
        let Some(lost) = generations.iter().rfind(is_lost) else { return Ok(()) };
        warn!(
            generation = lost.name,
            table = NAME,
            "a file of an optional table is missing or damaged: it is built again"
        );
        let mut update = self.update()?;
        update.with_tables(|tables, _| {
            if let WtxidsState::On { from } = read_state(&tables.meta)? {
                write_state(tables, WtxidsState::On { from: from.max(lost.end) })?;
            }
            write_generations(tables, &generations)
        })?;
        update.commit()
    }

    fn wtxids_state(&self) -> Result<WtxidsState, IndexError> {
        read_state(&self.database.begin_read()?.open_table(meta::TABLE)?)
    }
}

impl Update<'_> {
    /// The rows of all blocks from now on are written.
    fn switch_wtxids_on(&mut self) -> Result<(), IndexError> {
        let from = self.next_txnum()?;
        self.with_tables(|tables, _| write_state(tables, WtxidsState::On { from }))
    }
}

/// The entries of a directory with their names; none if it does not exist.
fn entries(directory: &Path) -> Result<Vec<(PathBuf, String)>, IndexError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file("read", directory))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file("read", directory))?;
        found.extend(entry.file_name().into_string().ok().map(|name| (entry.path(), name)));
    }
    found.sort();
    Ok(found)
}

fn not_of(in_force: &InForce, name: &DerivedName) -> IndexError {
    IndexError::corrupt("wtxids", format!("file {name} is not of the blocks of generation {}", in_force.name))
}
