//! Puts a complete generation into force.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::ReadableTable;

use super::block::Parser;
use super::error::IndexError;
use super::files::{file, flush_directory, flush_name};
use super::frozen::{Generation, GenerationRange, Generations, InForce};
use super::hot::apply::forget_stale;
use super::hot::live_tables::Tables;
use super::hot::sweep_cursor::SweepCursor;
use super::hot::tables::block_hashes::{BlockPlace, ChainMembership};
use super::hot::tables::stale_blocks::{self, StaleBlock};
use super::hot::tables::{meta, unspent};
use super::hot::tip::Tip;
use super::hot::tip_record::{write_generations, write_tip};
use super::hot::update::{Update, check_previous};
use super::open::{Index, cache_of_generation, generations_directory};
use super::optional::skip_optional;
use super::raw::{RawStorage, read_raw_storage};
use crate::chain::Height;

impl Index {
    /// Moves the file of a generation to those of the index, and names it in a durable commit. Its blocks follow the frozen
    /// ones: they are on top of the tip, and no block is live, or they are the lowest live blocks, whose rows are shadowed
    /// then ([`Index::sweep`]). A crash before the commit leaves the index as it was. With [`RawStorage::Index`] the commit also
    /// names its blocks in the raw files: of live blocks all, as their rows will be deleted, and else those that are there.
    ///
    /// Errors: as [`Generation::open`]; [`IndexError::NotNext`] if the generation does not follow the frozen blocks, or is of
    /// another branch than the live ones; `RawBlocksMissing`; the file cannot be moved; storage errors. The file is where it
    /// was then, unless the commit failed.
    pub fn adopt(&mut self, path: &Path) -> Result<Tip, IndexError> {
        let at = self.generations.iter().count();
        let cache = self.all_cache_bytes;
        let (network, salt) = (self.network, self.salt);
        let open = |path: &Path| Generation::open(path, network, salt, cache_of_generation(cache, at));
        let generation = open(path)?;
        let range = generation.range();
        let (snapshot, frozen) = (self.snapshot()?, self.generations.last());
        let first = generation.block(range.first)?;
        let first = first.ok_or_else(|| IndexError::corrupt("blocks", "a generation has no first block"))?;
        let is_next = range.txnums.0 == self.generations.end()
            && range.first == frozen.map_or_else(Default::default, |frozen| frozen.height.next())
            && check_previous(first.hash, first.header.prev_blockhash, frozen, network).is_ok();
        let is_live = snapshot.tip() != frozen;
        let place = snapshot.block_place(range.last.hash)?;
        let is_of_branch =
            !is_live || place == Some(BlockPlace { height: range.last.height, membership: ChainMembership::Main });
        drop(generation);
        if !is_next || !is_of_branch {
            let tip = snapshot
                .tip()
                .map_or_else(|| "empty".to_owned(), |tip| format!("{} at height {}", tip.hash, tip.height));
            return Err(IndexError::NotNext { path: path.to_path_buf(), first: range.first, tip });
        }
        let directory = self.make_generations_directory()?;
        let name = new_name(range)?;
        let placed = directory.join(&name);
        fs::rename(path, &placed).map_err(file("move the generation to", &placed))?;
        let prepared = flush_directory(&directory).and_then(|()| -> Result<Update<'_>, IndexError> {
            let generation = Arc::new(open(&placed)?);
            let newest = InForce { generation, name, last: range.last, end: range.txnums.1, derived: BTreeMap::new() };
            let mut update = self.update()?;
            if is_live {
                update.shadow_live(newest)?;
            } else {
                update.name_generation(newest)?;
            }
            if read_raw_storage(&update.tables()?.meta)? == Some(RawStorage::Index) {
                let generations = Arc::clone(&update.generations);
                if !update.name_appended(&generations, range.first)? && is_live {
                    return Err(IndexError::RawBlocksMissing { path: path.to_path_buf() });
                }
            }
            Ok(update)
        });
        let update = prepared.inspect_err(|_| {
            // the caller still has its file then; if not, an unnamed file in the directory is harmless
            let _ = fs::rename(&placed, path);
        })?;
        // a commit that fails may be on the disk nevertheless, and names the file: it keeps its name
        update.commit()?;
        self.sweep_cursor = SweepCursor::default();
        Ok(range.last)
    }
}

impl Index {
    /// Makes the directory of its generations, durably.
    pub(super) fn make_generations_directory(&self) -> Result<PathBuf, IndexError> {
        let directory = generations_directory(&self.path);
        fs::create_dir_all(&directory).map_err(file("make the directory", &directory))?;
        flush_name(&directory)?;
        Ok(directory)
    }
}

/// A name for the file of a generation that no other has.
///
/// Errors: the system has no random bytes.
pub(super) fn new_name(range: GenerationRange) -> Result<String, IndexError> {
    // two generations of the same blocks have different names
    let mut build = [0; 4];
    getrandom::fill(&mut build)?;
    Ok(file_name(range, u32::from_be_bytes(build)))
}

/// The name of the file of a generation; `build` distinguishes two of the same blocks.
pub(super) fn file_name(range: GenerationRange, build: u32) -> String {
    format!("{}-{}-{}-{build:08x}.redb", range.first, range.last.height, range.last.hash)
}

impl Update<'_> {
    /// Names a generation whose blocks are live.
    fn shadow_live(&mut self, newest: InForce) -> Result<(), IndexError> {
        let generations = Arc::new(self.generations.with(newest));
        self.with_tables(|tables, _| {
            tables.meta.insert(meta::SHADOWED, [].as_slice())?;
            write_generations(tables, &generations)
        })?;
        self.generations = generations;
        Ok(())
    }

    /// Names a generation whose blocks are on top of the tip.
    pub(super) fn name_generation(&mut self, newest: InForce) -> Result<(), IndexError> {
        let generations = Arc::new(self.generations.with(newest));
        let (tip, parser) = (generations.last(), self.parser());
        self.with_tables(|tables, _| {
            let stale = tables.stale_blocks.range::<&stale_blocks::StaleBlockKey>(..)?;
            let stale =
                stale.map(|row| Ok(stale_blocks::split_key(row?.0.value()))).collect::<Result<Vec<_>, IndexError>>()?;
            for (height, hash) in stale {
                // a block that left the chain before is in it again
                if generations.block_place(hash)?.is_some() {
                    forget_stale_block(tables, parser, height, hash)?;
                    tables.block_hashes.remove(hash.as_byte_array())?;
                }
            }
            forget_spent(tables, &generations)?;
            skip_optional(tables, &generations)?;
            write_generations(tables, &generations)?;
            write_tip(tables, tip)
        })?;
        self.move_tip(generations)
    }
}

/// Deletes live rows of frozen outputs that a generation has itself or knows to be spent. They were inserted when the
/// blocks that spent them were disconnected.
fn forget_spent(tables: &mut Tables<'_>, generations: &Generations) -> Result<(), IndexError> {
    let mut forgotten = Vec::new();
    for row in tables.unspent.iter()? {
        let key = *row?.0.value();
        let output = unspent::split_key(&key);
        if output.txnum < generations.end() && (generations.has_unspent_row(output)? || generations.is_gone(output)?) {
            forgotten.push(key);
        }
    }
    for key in forgotten {
        tables.unspent.remove(&key)?;
    }
    Ok(())
}

/// Deletes the rows of a kept stale block.
fn forget_stale_block(
    tables: &mut Tables<'_>,
    parser: Parser,
    height: Height,
    hash: BlockHash,
) -> Result<(), IndexError> {
    let stale = StaleBlock::read(&tables.stale_blocks, &tables.stale_raw_blocks, &stale_blocks::key(height, hash))?;
    let Some(stale) = stale else { return Ok(()) };
    forget_stale(tables, height, &parser.parse(hash, stale.raw)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bitcoin::Network;
    use bitcoin::consensus::serialize;
    use bitcoin::constants::genesis_block;
    use redb::{Builder, StorageBackend, backends::FileBackend};

    use super::*;
    use crate::index::{IndexOptions, ObservedLimits, Salt};

    /// A disk that writes, and fails the flush of this number and all later ones.
    #[derive(Debug)]
    struct FailingDisk {
        file: FileBackend,
        /// Flushes that succeed; `u32::MAX` for all.
        left: Arc<AtomicU32>,
    }

    impl StorageBackend for FailingDisk {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            match self.left.load(Ordering::Relaxed) {
                u32::MAX => {}
                0 => return Err(io::Error::other("the disk fails")),
                left => self.left.store(left - 1, Ordering::Relaxed),
            }
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.file.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }

    #[test]
    fn an_index_whose_disk_fails_while_a_generation_is_named_can_be_opened_again() {
        let genesis = genesis_block(Network::Regtest);
        let (mut failed, mut named) = (0, 0);
        for flushes in 0..4 {
            let directory = tempfile::tempdir().unwrap();
            let salt = Salt([7; 16]);
            let options = IndexOptions {
                path: directory.path().join("index.redb"),
                network: Network::Regtest,
                salt: Some(salt),
                cache_bytes: 8 << 20,
                freezes: true,
                stale_blocks_kept: 10,
                observed: ObservedLimits::default(),
            };
            drop(Index::open(&options).unwrap());
            let left = Arc::new(AtomicU32::new(u32::MAX));
            let file = File::options().read(true).write(true).open(&options.path).unwrap();
            let disk = FailingDisk { file: FileBackend::new(file).unwrap(), left: Arc::clone(&left) };
            let database = Builder::new().create_with_backend(disk).unwrap();
            let mut index = Index::of(&options, database, salt).unwrap();
            let block = index.parser().parse(genesis.block_hash(), serialize(&genesis)).unwrap();
            let mut update = index.update().unwrap();
            update.connect(&[block]).unwrap();
            update.commit().unwrap();
            let path = directory.path().join("generation");
            index.snapshot().unwrap().pack(Height::GENESIS..=Height::GENESIS, &path).unwrap();

            left.store(flushes, Ordering::Relaxed);
            failed += u32::from(index.adopt(&path).is_err());
            drop(index);
            let index = Index::open(&options).unwrap();
            named += u32::from(index.snapshot().unwrap().frozen().is_some());
            assert_eq!(index.snapshot().unwrap().tip().unwrap().hash, genesis.block_hash());
        }
        assert!(failed > 1 && failed + named > 4, "{failed} commits failed, and {named} named the generation");
    }
}
