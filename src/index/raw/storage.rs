//! Where the bytes of frozen blocks are stored, as the index records it.

use std::fmt;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable, TableError};

use super::super::disk_space::free;
use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::super::hot::tables::block_files::BlockFileRow;
use super::super::hot::tables::{meta, raw_blocks};
use super::super::hot::tip::Tip;
use super::super::hot::update::Update;
use super::super::open::{Index, IndexOptions};
use super::{RawFiles, RawSources};
use crate::chain::Height;

/// Where the bytes of frozen blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawStorage {
    /// In the node alone.
    Node,
    /// In raw files beside the index.
    Index,
}

impl RawStorage {
    const ALL: [Self; 2] = [Self::Node, Self::Index];

    /// As the setting `index.raw_transactions` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Index => "index",
        }
    }
}

impl fmt::Display for RawStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl RawSources {
    /// The sources of an index without a node: its raw files.
    ///
    /// Errors: storage errors; [`IndexError::File`].
    pub(in crate::index) fn of_index(
        options: &IndexOptions,
        transaction: &ReadTransaction,
    ) -> Result<Self, IndexError> {
        let table = match transaction.open_table(raw_blocks::TABLE) {
            Err(TableError::TableDoesNotExist(_)) => None,
            table => Some(table?),
        };
        let rows = table.map(|table| table.range::<&[u8; 4]>(..)).transpose()?;
        let rows = rows.into_iter().flatten().map(|row| {
            let (key, value) = row?;
            Ok((u32::from_be_bytes(*key.value()).into(), BlockFileRow::decode(*value.value())?))
        });
        let own = RawFiles::with_rows(options.path.with_extension("raw"), options.network, rows)?;
        if own.lost() > 0 {
            tracing::warn!(
                blocks = own.lost(),
                directory = %own.directory().display(),
                "raw files of the index are missing or too short; their blocks are read from the node"
            );
        }
        Ok(Self::new(own))
    }
}

/// The recorded storage, `None` before the first choice.
pub(in crate::index) fn read_raw_storage(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<RawStorage>, IndexError> {
    let Some(row) = meta.get(meta::RAW_STORAGE)? else { return Ok(None) };
    let known = RawStorage::ALL.into_iter().find(|storage| storage.name().as_bytes() == row.value());
    known.map(Some).ok_or_else(|| IndexError::corrupt("meta", "raw_transactions is neither `node` nor `index`"))
}

impl Index {
    /// Where the bytes of frozen blocks are stored, `None` before the first choice.
    ///
    /// Errors: storage errors.
    pub fn raw_storage(&self) -> Result<Option<RawStorage>, IndexError> {
        read_raw_storage(&self.database.begin_read()?.open_table(meta::TABLE)?)
    }

    /// Stores blocks that are frozen from now on there. Those that are frozen already stay where they are, until
    /// [`Index::name_raw_blocks`] and [`Index::remove_raw_files`].
    ///
    /// Errors: storage errors.
    pub fn set_raw_storage(&mut self, storage: RawStorage) -> Result<(), IndexError> {
        let mut update = self.update()?;
        update.with_tables(|tables, _| {
            tables.meta.insert(meta::RAW_STORAGE, storage.name().as_bytes())?;
            tables.meta.remove(meta::RAW_READ_BACK)?;
            Ok(())
        })?;
        update.commit()
    }

    /// The raw files of the index.
    #[must_use]
    pub fn raw_files(&self) -> std::sync::Arc<RawFiles> {
        self.generations.raw().own().clone()
    }

    /// Whether there are raw files, named or not.
    ///
    /// Errors: [`IndexError::File`].
    pub fn has_raw_files(&self) -> Result<bool, IndexError> {
        self.generations.raw().own().has_files()
    }

    /// Checks that the disk of the raw files has so many free bytes, if it says how many it has.
    ///
    /// Errors: [`IndexError::RawSpace`].
    pub fn check_raw_space(&self, needed_bytes: u64) -> Result<(), IndexError> {
        match free(self.directory()) {
            Some(free_bytes) if free_bytes < needed_bytes => {
                Err(IndexError::RawSpace { path: self.directory().to_path_buf(), needed_bytes, free_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Reads the frozen blocks at these heights from the raw files from now on, of which copies were appended. Those that
    /// left the chain meanwhile are passed over.
    ///
    /// Errors: storage errors; [`IndexError::File`]. The index is as before then.
    pub fn name_raw_blocks(&mut self, heights: &[Height]) -> Result<(), IndexError> {
        let rows = self.generations.appended_rows(heights.iter().copied())?;
        let mut update = self.update()?;
        update.name_raw_blocks(rows)?;
        update.commit_non_durable()
    }

    /// The highest block up to which all frozen blocks were read back from the node; `None` if there is none, or it left the
    /// chain.
    ///
    /// Errors: storage errors.
    pub fn read_back_block(&self) -> Result<Option<Height>, IndexError> {
        let table = self.database.begin_read()?.open_table(meta::TABLE)?;
        let Some(row) = table.get(meta::RAW_READ_BACK)? else { return Ok(None) };
        let (height, hash) = meta::decode_tip(row.value())?;
        Ok((self.generations.block_hash(height)? == Some(hash)).then_some(height))
    }

    /// Records that all frozen blocks up to this one were read back from the node.
    ///
    /// Errors: storage errors.
    pub fn record_read_back(&mut self, block: Tip) -> Result<(), IndexError> {
        let mut update = self.update()?;
        update.with_tables(|tables, _| {
            tables.meta.insert(meta::RAW_READ_BACK, meta::encode_tip(block.height, block.hash).as_slice())?;
            Ok(())
        })?;
        update.commit_non_durable()
    }

    /// Removes all raw files, after a durable commit without their rows. From then on all bytes of frozen blocks are read from
    /// the node.
    ///
    /// Errors: storage errors; [`IndexError::File`].
    pub fn remove_raw_files(&mut self) -> Result<(), IndexError> {
        let mut update = self.update()?;
        update.with_tables(|tables, _| {
            tables.raw_blocks.retain(|_, _| false)?;
            tables.meta.remove(meta::RAW_READ_BACK)?;
            Ok(())
        })?;
        update.commit()?;
        self.generations.raw().own().remove_all()
    }
}

impl Generations {
    /// Where the blocks at these heights of these generations were appended to the raw files, as far as they were.
    ///
    /// Errors: storage errors; [`IndexError::File`].
    fn appended_rows(
        &self,
        heights: impl IntoIterator<Item = Height>,
    ) -> Result<Vec<(Height, BlockFileRow)>, IndexError> {
        let mut rows = Vec::new();
        for height in heights {
            let Some(hash) = self.block_hash(height)? else { continue };
            rows.extend(self.raw().own().in_tail(&hash)?.map(|row| (height, row)));
        }
        Ok(rows)
    }
}

impl Update<'_> {
    /// Names those of the blocks of these generations, from a height on, that were appended to the raw files. Returns
    /// whether these are all of them.
    ///
    /// Errors: storage errors; [`IndexError::File`].
    pub(in crate::index) fn name_appended(
        &mut self,
        generations: &Generations,
        first: Height,
    ) -> Result<bool, IndexError> {
        let last = generations.last().map_or(0, |last| last.height.to_u32().saturating_add(1));
        let heights = first.to_u32()..last;
        let rows = generations.appended_rows(heights.clone().map(Height::from))?;
        let are_all = rows.len() == heights.len();
        self.name_raw_blocks(rows)?;
        Ok(are_all)
    }

    fn name_raw_blocks(&mut self, rows: Vec<(Height, BlockFileRow)>) -> Result<(), IndexError> {
        self.with_tables(|tables, _| {
            for (height, row) in &rows {
                tables.raw_blocks.insert(&height.to_u32().to_be_bytes(), &row.value())?;
            }
            Ok(())
        })?;
        self.raw_changes.named.extend(rows);
        Ok(())
    }
}
