//! Switches tables on and off, and does the work that follows in steps: live rows, and the files of generations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::ReadableDatabase;
use tracing::warn;

use super::super::error::IndexError;
use super::super::files::{file, remove_if_exists};
use super::super::frozen::{DerivedFile, DerivedName, DueTable, InForce};
use super::super::hot::block_filters;
use super::super::hot::sweep_cursor::SweepCursor;
use super::super::hot::tables::meta;
use super::super::hot::tip_record::{read_derived, write_generations};
use super::super::hot::update::Update;
use super::super::keys::TxNum;
use super::super::open::{Index, cache_of_generation, deriving_directory, generations_directory};
use super::live::{drop_rows, fill};
use super::state::write_state;
use super::{OptionalTable, OptionalTables, RowContext, TableState, read_state};

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
        let mut changes = Vec::new();
        for table in OptionalTable::ALL {
            let state = self.table_state(table)?;
            if tables.has(table) != state.is_wanted() {
                changes.push((table, state));
            }
        }
        let filters = self.filters_state()?;
        let filters = (filters.is_wanted() != tables.block_filters).then(|| filters.switched(tables.block_filters));
        if changes.is_empty() && filters.is_none() {
            return Ok(());
        }
        let before = Arc::clone(&self.generations);
        let mut update = self.update()?;
        for (table, state) in &changes {
            match (tables.has(*table), state) {
                (true, TableState::Off) => update.switch_on(*table)?,
                (then_on, _) => {
                    let without = Arc::new(update.generations.without_derived(*table));
                    update.with_tables(|tables, _| {
                        write_state(tables, *table, TableState::Dropping { then_on })?;
                        write_generations(tables, &without)
                    })?;
                    update.generations = without;
                }
            }
        }
        if let Some(filters) = filters {
            update.with_tables(|tables, _| block_filters::write_state(tables, filters))?;
        }
        update.commit()?;
        for (table, _) in changes.iter().filter(|(table, _)| !tables.has(*table)) {
            before.iter().filter_map(|in_force| in_force.derived(*table)).for_each(|file| file.retire());
        }
        Ok(())
    }

    /// Adds rows that an optional table, `miner_blocks` or `block_filters` lacks, or deletes rows of one that is off or of other
    /// pools, in one commit that is not durable, for which it looks at so many transactions, blocks or rows. Returns whether any
    /// may be left.
    ///
    /// Errors: [`IndexError::RawUnavailable`], `NoRawBlocks` if frozen transactions cannot be read; storage errors.
    pub fn tend_tables(&mut self, rows: u32) -> Result<bool, IndexError> {
        for table in OptionalTable::ALL {
            if self.tend_table(table, rows)? {
                return Ok(true);
            }
        }
        Ok(self.tend_miners(rows)? || self.tend_filters(rows)?)
    }

    fn tend_table(&mut self, table: OptionalTable, rows: u32) -> Result<bool, IndexError> {
        let state = self.table_state(table)?;
        let (end, context) = (self.generations.end(), RowContext { salt: self.salt, network: self.network });
        let mut update = match state {
            TableState::Off => return Ok(false),
            TableState::On { from } if from <= end => return Ok(false),
            _ => self.update()?,
        };
        let mut is_empty = false;
        update.with_tables(|tables, _| {
            if let TableState::On { from } = state {
                let lower = TxNum(from.0.saturating_sub(rows).max(end.0));
                return fill(tables, table, context, (lower, from));
            }
            is_empty = drop_rows(tables, table, rows)?;
            if is_empty { write_state(tables, table, TableState::Off) } else { Ok(()) }
        })?;
        if is_empty && state == (TableState::Dropping { then_on: true }) {
            update.switch_on(table)?;
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
        if !is_readable {
            return Ok(None);
        }
        for table in self.tables_on()? {
            let due = self.generations.iter().find_map(|in_force| in_force.lacks(table).map(|name| (in_force, name)));
            if let Some((in_force, name)) = due {
                let (generations, directory) = (Arc::clone(&self.generations), generations_directory(&self.path));
                let temporary = deriving_directory(&self.path);
                let context = RowContext { salt: self.salt, network: self.network };
                let directories = (directory, temporary.as_path());
                return Ok(Some(DueTable::new(generations, in_force.clone(), (table, name), directories, context)));
            }
        }
        Ok(None)
    }

    /// Puts a table that was built into force, in a durable commit that names its file. The file of the version before is
    /// removed when its last reader drops it; the live rows of its transactions are to be [swept](Index::sweep).
    ///
    /// Errors: storage errors.
    pub fn name_table(&mut self, due: &DueTable) -> Result<NamedTable, IndexError> {
        let (name, directory) = (due.name(), generations_directory(&self.path));
        let generation = name.generation();
        let of = self.generations.iter().enumerate().find(|(_, in_force)| in_force.name == generation);
        let is_on = self.is_on(due.optional())?;
        let Some((at, in_force)) = of.filter(|_| is_on) else {
            remove_if_exists(&directory.join(name.file()))?;
            return Ok(NamedTable::NotNeeded);
        };
        let cache = cache_of_generation(self.all_cache_bytes, at.max(1));
        let opened = DerivedFile::open(&directory, name, self.network, self.salt, cache)
            .and_then(|opened| if opened.is_of(in_force)? { Ok(opened) } else { Err(not_of(in_force, due)) });
        let opened = match opened {
            Ok(opened) => Arc::new(opened),
            Err(error) => {
                remove_if_exists(&directory.join(name.file()))?;
                return Ok(NamedTable::Unreadable(error));
            }
        };
        let before = in_force.derived(due.optional()).cloned();
        let mut update = self.update()?;
        let generations = Arc::new(update.generations.with_derived(&generation, &opened));
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
        let on = self.tables_on()?;
        let named: BTreeSet<_> = self.generations.derived_names().cloned().collect();
        let directory = generations_directory(&self.path);
        let is_used = |name: &DerivedName| {
            let generation = name.generation();
            if self.generations.iter().any(|in_force| in_force.name == generation) {
                // the next build finds it complete, or continues it
                on.iter().any(|table| *name == DerivedName::newest(*table, &generation))
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
    pub(in crate::index) fn forget_lost_tables(&mut self) -> Result<(), IndexError> {
        let named = read_derived(&self.database.begin_read()?.open_table(meta::TABLE)?)?;
        let generations = Arc::clone(&self.generations);
        let lost = |table: OptionalTable| {
            let is_named = |of: &InForce| named.iter().any(|name| name.is_of(table) && name.generation() == of.name);
            let lost = generations.iter().rfind(|of| of.derived(table).is_none() && is_named(of));
            lost.map(|of| (table, of))
        };
        let lost: Vec<_> = OptionalTable::ALL.into_iter().filter_map(lost).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let mut update = self.update()?;
        for (table, of) in lost {
            warn!(
                generation = of.name,
                table = table.name(),
                "a file of an optional table is missing or damaged: it is built again"
            );
            update.with_tables(|tables, _| match read_state(&tables.meta, table)? {
                TableState::On { from } => write_state(tables, table, TableState::On { from: from.max(of.end) }),
                _ => Ok(()),
            })?;
        }
        update.with_tables(|tables, _| write_generations(tables, &generations))?;
        update.commit()
    }

    fn table_state(&self, table: OptionalTable) -> Result<TableState, IndexError> {
        read_state(&self.database.begin_read()?.open_table(meta::TABLE)?, table)
    }

    /// The optional tables that are on.
    pub(in crate::index) fn tables_on(&self) -> Result<Vec<OptionalTable>, IndexError> {
        let mut on = Vec::new();
        for table in OptionalTable::ALL {
            if self.is_on(table)? {
                on.push(table);
            }
        }
        Ok(on)
    }

    fn is_on(&self, table: OptionalTable) -> Result<bool, IndexError> {
        Ok(matches!(self.table_state(table)?, TableState::On { .. }))
    }
}

impl Update<'_> {
    /// From now on, every block adds its rows.
    fn switch_on(&mut self, table: OptionalTable) -> Result<(), IndexError> {
        let from = self.next_txnum()?;
        self.with_tables(|tables, _| write_state(tables, table, TableState::On { from }))
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

fn not_of(in_force: &InForce, due: &DueTable) -> IndexError {
    let (table, file) = (due.optional().name(), due.name());
    IndexError::corrupt(table, format!("file {file} is not of the blocks of generation {}", in_force.name))
}
