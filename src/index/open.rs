//! Creates, checks and opens the index file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use redb::{Builder, Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, TableError};

use super::block::Parser;
use super::damage::catch_damage;
use super::error::IndexError;
use super::files::{bytes_below, file, remove_directory_if_exists, remove_if_exists};
use super::frozen::{DerivedFile, DerivedName, Generation, Generations, InForce, InForceRecord, TableVersions};
use super::hot::announced_tip::AnnouncedTip;
use super::hot::flush_state::FlushState;
use super::hot::live_tables::Tables;
use super::hot::observed_limits::ObservedLimits;
use super::hot::sweep_cursor::SweepCursor;
use super::hot::tables::block_starts::BlockStart;
use super::hot::tables::meta;
use super::hot::tip::Tip;
use super::hot::tip_record::{read_derived, read_generations, read_tip};
use super::import::ImportOptions;
use super::keys::Salt;
use super::metrics::IndexMetrics;
use super::optional::{OptionalTable, TableState};
use super::partial::PartialFiles;
use super::raw::{RawBlocks, RawSources};
use super::snapshot::Snapshot;
use crate::chain::pools::Pools;
use crate::chain::{network, wide};

/// Which index to open, and how.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The file. It is created, with its directory, if it does not exist.
    pub path: PathBuf,
    /// The network it must belong to.
    pub network: Network,
    /// The salt of a new index; an existing one must have this salt. `None` draws a new one, or uses the existing one.
    pub salt: Option<Salt>,
    /// Memory for pages of the files, in bytes.
    pub cache_bytes: usize,
    /// Whether blocks are frozen, so that generations get two thirds of that memory from the beginning.
    pub freezes: bool,
    /// How many stale blocks to keep.
    pub stale_blocks_kept: u64,
    /// How many observations to keep.
    pub observed: ObservedLimits,
}

/// The index, open for one writer and any number of snapshots.
pub struct Index {
    pub(super) database: Arc<Database>,
    pub(super) path: Arc<Path>,
    pub(super) network: Network,
    pub(super) salt: Salt,
    /// Memory for pages of its file, in bytes.
    pub(super) cache_bytes: u64,
    /// Memory for pages of all files, in bytes.
    pub(super) all_cache_bytes: usize,
    pub(super) stale_blocks_kept: u64,
    pub(super) observed: ObservedLimits,
    /// All of `block_starts`: each spent output needs a lookup of the block that created it.
    pub(super) starts: Vec<BlockStart>,
    /// Whether `starts` equals the rows of the file. A dropped update leaves it false.
    pub(super) starts_are_committed: bool,
    /// Those that the committed rows name.
    pub(super) generations: Arc<Generations>,
    /// The pools that blocks are ascribed to.
    pub(super) pools: Arc<Pools>,
    /// Where the deletion of shadowed rows resumes.
    pub(super) sweep_cursor: SweepCursor,
    pub(super) flushing: FlushState,
    pub(super) announced: AnnouncedTip,
    pub(super) metrics: IndexMetrics,
}

impl Index {
    /// Opens the index, or creates an empty one.
    ///
    /// A file of another program, format, network or salt is refused before anything in it is changed.
    ///
    /// Errors: [`IndexError::NotADatabase`], `Foreign`, `WrongVersion`, `WrongNetwork`, `WrongGenesis`, `WrongSalt`,
    /// `InUse`, `DiskFull`, `File`, `Damaged`, `Storage`.
    pub fn open(options: &IndexOptions) -> Result<Self, IndexError> {
        let path = &options.path;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(file("make the directory", directory))?;
        }
        let _turn = OpeningTurn::wait(path);
        if !path.try_exists().map_err(file("look for", path))? {
            create(options)?;
        }
        catch_damage(|| Self::open_there(options, &PartialFiles::new()).map_err(IndexError::of_reading))
    }

    /// Opens an existing index.
    ///
    /// Errors: as [`Index::open`]; [`IndexError::Absent`].
    pub fn open_existing(options: &IndexOptions) -> Result<Self, IndexError> {
        Self::open_partial(options, &PartialFiles::new())
    }

    /// Opens an existing index of which these files may not be complete on this machine.
    ///
    /// Errors: as [`Index::open_existing`]; [`IndexError::Unfetched`].
    pub fn open_partial(options: &IndexOptions, partial: &PartialFiles) -> Result<Self, IndexError> {
        let _turn = OpeningTurn::wait(&options.path);
        catch_damage(|| Self::open_there(options, partial).map_err(IndexError::of_reading))
    }

    fn open_there(options: &IndexOptions, partial: &PartialFiles) -> Result<Self, IndexError> {
        let path = &options.path;
        let mut has_generations = options.freezes;
        if path.try_exists().map_err(file("look for", path))? {
            match ReadOnlyDatabase::open(path) {
                Ok(database) => {
                    let transaction = database.begin_read()?;
                    check(options, &transaction)?;
                    has_generations |= !read_generations(&transaction.open_table(meta::TABLE)?)?.is_empty();
                }
                // not closed cleanly: repaired below, and checked after that
                Err(DatabaseError::RepairAborted) => {}
                Err(error) => return Err(IndexError::opening(path, error)),
            }
        } else {
            return Err(IndexError::Absent { path: path.clone() });
        }
        let cache_bytes = if has_generations { options.cache_bytes / 3 } else { options.cache_bytes };
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let database = builder.open(path).map_err(|error| IndexError::opening(path, error))?;
        let salt = check(options, &database.begin_read()?)?;
        let mut index = Self::of_partial(options, database, salt, partial)?;
        index.cache_bytes = u64::try_from(cache_bytes).unwrap_or(u64::MAX);
        index.forget_lost_tables()?;
        Ok(index)
    }

    /// The index in an open database.
    ///
    /// Errors: as [`Generation::open`]; storage errors.
    pub(super) fn of(options: &IndexOptions, database: Database, salt: Salt) -> Result<Self, IndexError> {
        Self::of_partial(options, database, salt, &PartialFiles::new())
    }

    fn of_partial(
        options: &IndexOptions,
        database: Database,
        salt: Salt,
        partial: &PartialFiles,
    ) -> Result<Self, IndexError> {
        let path = options.path.as_path();
        let generations = Arc::new(open_generations(options, &database.begin_read()?, salt, partial)?);
        generations.keep_filters(filter_bytes(options.cache_bytes));
        Ok(Self {
            generations,
            metrics: IndexMetrics::default(),
            database: Arc::new(database),
            path: Arc::from(path),
            network: options.network,
            salt,
            cache_bytes: u64::try_from(options.cache_bytes).unwrap_or(u64::MAX),
            all_cache_bytes: options.cache_bytes,
            stale_blocks_kept: options.stale_blocks_kept,
            observed: options.observed,
            starts: Vec::new(),
            starts_are_committed: false,
            pools: Arc::new(Pools::known(options.network)),
            sweep_cursor: SweepCursor::default(),
            flushing: FlushState::default(),
            announced: AnnouncedTip::beside(path, salt),
        })
    }

    /// Ascribes blocks to these pools from now on; until this is called to those that are known without a file.
    pub fn set_pools(&mut self, pools: Arc<Pools>) {
        self.pools = pools;
    }

    /// The most bytes of pages of its file that are cached in memory.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// A snapshot of the committed state, readable until it is dropped.
    ///
    /// Errors: storage errors.
    pub fn snapshot(&self) -> Result<Snapshot, IndexError> {
        let (path, generations) = (Arc::clone(&self.path), Arc::clone(&self.generations));
        let pools = Arc::clone(&self.pools);
        Snapshot::open(&self.database.begin_read()?, self.network, self.salt, path, generations, pools)
    }

    /// The secret of its short hashes.
    #[must_use]
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Counts of the changes since it was opened.
    #[must_use]
    pub fn metrics(&self) -> IndexMetrics {
        self.metrics.clone()
    }

    /// Sets where the bytes of frozen blocks are read that the raw files of the index do not have. Only the first call has an
    /// effect.
    pub fn set_raw_blocks(&self, raw: Arc<dyn RawBlocks>) {
        self.generations.raw().set_node(raw);
    }

    /// The directory of its file.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The file of a generation under construction, on the disk of the index.
    #[must_use]
    pub fn building_path(&self) -> PathBuf {
        self.path.with_extension("building")
    }

    /// A copy of its live tables, which a backup moves away.
    #[must_use]
    pub fn copying_path(index: &Path) -> PathBuf {
        index.with_extension("copying")
    }

    /// The file of a generation of live blocks under construction.
    #[must_use]
    pub fn freezing_path(&self) -> PathBuf {
        self.path.with_extension("freezing")
    }

    /// The files of generations that no commit names: of a process that ended between building one and naming it.
    ///
    /// Errors: the directory cannot be read.
    pub fn unnamed_generations(&self) -> Result<Vec<PathBuf>, IndexError> {
        let directory = generations_directory(&self.path);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(file("read", &directory))?,
        };
        let mut unnamed = Vec::new();
        for entry in entries {
            let path = entry.map_err(file("read", &directory))?.path();
            let is_named = |in_force: &InForce| path.file_name().is_some_and(|name| name == in_force.name.as_str());
            let is_of_table = |name: &OsStr| name.to_str().and_then(DerivedName::parse).is_some();
            if path.extension().is_some_and(|extension| extension == "redb")
                && !path.file_name().is_some_and(is_of_table)
                && !self.generations.iter().any(is_named)
            {
                unnamed.push(path);
            }
        }
        unnamed.sort();
        Ok(unnamed)
    }

    /// Removes a generation that is not in force, if there is one.
    ///
    /// Errors: [`IndexError::File`].
    pub fn remove_unused(path: &Path) -> Result<(), IndexError> {
        remove_if_exists(path)
    }

    /// The directory of what builds of optional tables have read so far, with which they continue.
    #[must_use]
    pub fn unfinished_tables_path(&self) -> PathBuf {
        deriving_directory(&self.path)
    }

    /// The bytes of a file or a directory of a build, 0 if it is not there.
    ///
    /// Errors: [`IndexError::File`].
    pub fn bytes_of_build(path: &Path) -> Result<u64, IndexError> {
        bytes_below(path)
    }

    /// Removes a file or a directory of a build that no thread continues, if it is there.
    ///
    /// Errors: [`IndexError::File`].
    pub fn remove_build(path: &Path) -> Result<(), IndexError> {
        if path.is_dir() { remove_directory_if_exists(path) } else { remove_if_exists(path) }
    }

    /// The highest block of the generation in a file, which need not be in force.
    ///
    /// Errors: as [`Generation::open`].
    pub fn last_block_of(&self, path: &Path) -> Result<Tip, IndexError> {
        Ok(Generation::open(path, self.network, self.salt, 0)?.range().last)
    }

    /// How to import about so many transactions into this index, which must be empty.
    #[must_use]
    pub fn import_options(
        &self,
        directory: PathBuf,
        memory: usize,
        threads: usize,
        transactions: u64,
    ) -> ImportOptions {
        ImportOptions {
            path: self.building_path(),
            directory,
            network: self.network,
            salt: self.salt,
            memory,
            threads,
            transactions,
            range: ImportOptions::default_range(transactions),
            checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
            raw_files: None,
        }
    }

    /// A parser of blocks for this index.
    #[must_use]
    pub fn parser(&self) -> Parser {
        Parser { salt: self.salt }
    }
}

/// A lock on the directory of an index while the index is created or opened. Of processes that start at the same moment one
/// opens it, and the others find it in use: without the lock one could replace the file that another has just created, and
/// each could make the others fail.
struct OpeningTurn {
    /// `None` if the system does not lock directories.
    _directory: Option<File>,
}

impl OpeningTurn {
    fn wait(index: &Path) -> Self {
        let directory = index.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let locked = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
        Self { _directory: locked.ok() }
    }
}

/// Creates an empty index. It starts as a temporary file, renamed when complete, so that a crash leaves no partial one.
fn create(options: &IndexOptions) -> Result<(), IndexError> {
    let path = &options.path;
    let unfinished = path.with_extension("new");
    remove_if_exists(&unfinished)?;
    let database = Database::create(&unfinished).map_err(|error| IndexError::opening(&unfinished, error))?;
    let salt = match options.salt {
        Some(salt) => salt,
        None => Salt::random()?,
    };
    let transaction = database.begin_write()?;
    {
        let mut tables = Tables::open(&transaction, Arc::default())?;
        tables.meta.insert(meta::FORMAT, meta::FORMAT_VERSION.to_be_bytes().as_slice())?;
        tables.meta.insert(meta::NETWORK, network::name(options.network).as_bytes())?;
        tables.meta.insert(meta::GENESIS, network::genesis_hash(options.network).as_byte_array().as_slice())?;
        tables.meta.insert(meta::SALT, salt.0.as_slice())?;
    }
    transaction.commit()?;
    drop(database);
    fs::rename(&unfinished, path).map_err(file("make", path))
}

/// The directory of the generations of the index in this file.
pub(super) fn generations_directory(index: &Path) -> PathBuf {
    index.with_extension("frozen")
}

/// The directory of tables under construction of the index in this file.
pub(super) fn deriving_directory(index: &Path) -> PathBuf {
    index.with_extension("deriving")
}

/// Opens the generations that an index names.
pub(super) fn open_generations(
    options: &IndexOptions,
    transaction: &ReadTransaction,
    salt: Salt,
    partial: &PartialFiles,
) -> Result<Generations, IndexError> {
    let directory = generations_directory(&options.path);
    let derived = read_derived(&transaction.open_table(meta::TABLE)?)?;
    derived.iter().try_for_each(|derived| derived.check(&directory))?;
    let in_force = |(at, record): (usize, InForceRecord)| {
        let InForceRecord { name, last, end } = record;
        let cache = cache_of_generation(options.cache_bytes, at);
        let path = directory.join(&name);
        let generation = if path.try_exists().map_err(file("look for", &path))? {
            Generation::open(&path, options.network, salt, cache)?
        } else if let Some(partial) = partial.get(&name) {
            Generation::open_partial(&path, partial, options.network, salt, cache)?
        } else {
            return Err(IndexError::GenerationMissing { path });
        };
        let generation = Arc::new(generation);
        let mut in_force = InForce { generation, name, last, end, derived: BTreeMap::new() };
        for derived in derived.iter().filter(|derived| derived.generation() == in_force.name) {
            // a table that cannot be read is built again
            let cache = cache_of_generation(options.cache_bytes, at.max(1));
            let opened = DerivedFile::open(&directory, derived, options.network, salt, cache);
            if let Ok(file) = opened
                && file.is_of(&in_force).is_ok_and(|is_of| is_of)
            {
                in_force.derived.insert(file.optional(), Arc::new(file));
            }
        }
        Ok(in_force)
    };
    let records = read_generations(&transaction.open_table(meta::TABLE)?)?;
    let in_force = records.into_iter().enumerate().map(in_force).collect::<Result<Vec<_>, IndexError>>()?;
    let generations = Generations::new(in_force, RawSources::of_index(options, transaction)?);
    generations.check(read_tip(&transaction.open_table(meta::TABLE)?)?)?;
    Ok(generations)
}

/// The part of the memory for pages of all files that is for a generation, in bytes, by its place among them: the first has
/// nearly all rows.
pub(super) fn cache_of_generation(all_cache_bytes: usize, at: usize) -> usize {
    if at == 0 { all_cache_bytes / 3 * 2 } else { all_cache_bytes / 48 }
}

/// The part of the memory for pages of all files that filters of generations take, in bytes.
pub(super) fn filter_bytes(all_cache_bytes: usize) -> u64 {
    wide(all_cache_bytes / 6)
}

/// Whether an open file is an index that `options` may use, and its salt.
pub(super) fn check(options: &IndexOptions, transaction: &ReadTransaction) -> Result<Salt, IndexError> {
    let path = options.path.clone();
    let foreign = || IndexError::Foreign { path: path.clone() };
    let table = match transaction.open_table(meta::TABLE) {
        Ok(table) => table,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Err(foreign()),
    };
    let read =
        |name: &str| -> Result<Vec<u8>, IndexError> { Ok(table.get(name)?.ok_or_else(foreign)?.value().to_vec()) };
    let found = u32::from_be_bytes(read(meta::FORMAT)?.try_into().map_err(|_| foreign())?);
    if found != meta::FORMAT_VERSION {
        return Err(IndexError::WrongVersion { path, found, expected: meta::FORMAT_VERSION });
    }
    for optional in OptionalTable::ALL {
        if let Some(row) = table.get(optional.name())? {
            let (found, _) = TableState::decode(optional.live_version(), row.value())?;
            // rows of an older version are made again
            TableVersions::new(optional.name(), 0..=optional.live_version()).check(&path, found)?;
        }
    }
    let (found, expected) = (read(meta::NETWORK)?, network::name(options.network));
    if found != expected.as_bytes() {
        let found = String::from_utf8_lossy(&found).into_owned();
        return Err(IndexError::WrongNetwork { path, found, expected: expected.into() });
    }
    let found = BlockHash::from_byte_array(read(meta::GENESIS)?.try_into().map_err(|_| foreign())?);
    let expected = network::genesis_hash(options.network);
    if found != expected {
        return Err(IndexError::WrongGenesis { path, found, expected });
    }
    let salt = Salt(read(meta::SALT)?.try_into().map_err(|_| foreign())?);
    if options.salt.is_some_and(|wanted| wanted != salt) {
        return Err(IndexError::WrongSalt { path });
    }
    Ok(salt)
}
