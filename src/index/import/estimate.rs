//! The disk and memory that an import needs, estimated before it begins.

use std::path::Path;

use super::super::disk_space::{free, is_same_disk, nearest_existing};
use super::super::error::IndexError;
use super::super::frozen::builder;
use super::options::ImportOptions;
use super::partitions::{PARTITION_BYTES, partition_bits};
use super::read::P2PK_MEMORY;
use super::run_buffers::chunk_size;
use super::runs::CHUNK_ENTRY;
use crate::chain::wide;

/// Bytes of the file a transaction: 91.2 of rows, 107.8 with what redb enlarges the file ahead of them, and a tenth more, because
/// chains differ in their inputs, outputs and scripts.
const FILE: u64 = 119;
/// Bytes of temporary runs at most, a transaction: 94 to 97 measured, and a tenth more, because consumed runs stay while a busy
/// disk delays a checkpoint: 107 where blocks came by RPC.
const TEMPORARY: u64 = 105;
/// Bytes of rows and runs at a time, a transaction: 126 measured with a tenth fewer inputs and outputs, so 137, with the same
/// enlargement and margin. It is less than the sum, because the runs shrink before the larger half of the rows is stored.
const TOGETHER: u64 = 170;
/// So many of the first transactions take these bytes more on each disk: redb enlarges a small file in relatively large steps, and
/// all blocks of a small chain fit one bundle of runs, which is removed as a whole. Measured: a file of 168 and runs of 125 with
/// 400,000 transactions, 135 and 132 with 1,000,000.
const FIRST: u64 = 1 << 22;
const FIRST_EXTRA: u64 = 50;
/// Bytes in memory for each block that is appended to raw files: its entry of 45 bytes in a hash table of which 7/8 are used, and
/// twice that in the table that replaces it.
const RAW_BLOCK: u64 = 3 * 52;
/// Bytes in memory for a transaction of a range: its compact form, its outputs with their spenders and what statistics need of
/// them, and its packed row of `spends`.
const RANGE: u64 = 164;
/// Ranges and partitions that a thread has at a time: two that are done, and one in work.
const AHEAD: u64 = 3;
/// Bytes in memory for each page that changes between two checkpoints: redb keeps their numbers in a hash set until the
/// durable commit.
const PAGE_ENTRY: u64 = 32;
const PAGE: u64 = 4_096;
/// Bytes of the file that are written between two checkpoints at most: by a disk of 200 MB/s within ten seconds.
const BETWEEN_CHECKPOINTS: u64 = 2 << 30;

/// What an import is estimated to need. The constants are measured on transactions of the shape of mainnet's: 2.47 inputs
/// and 2.75 outputs each (`benches/README.md`). The sizes of the blocks do not matter, since scripts and witnesses are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportEstimate {
    /// Bytes of the generation on the disk.
    pub index_bytes: u64,
    /// Bytes of the blocks, if they are copied into raw files on the same disk.
    pub raw_bytes: u64,
    /// Bytes of temporary runs on the disk at their peak.
    pub temporary_bytes: u64,
    /// Bytes of both on the disk at their common peak: less than the sum.
    pub together_bytes: u64,
    /// Bytes of memory at most. The measured peak is lower while a chain is too small to fill the buffers: 372 MiB with
    /// 5,000,000 transactions and 635 MiB with 20,000,000, both with buffers of 1 GiB.
    pub memory_bytes: u64,
}

impl ImportEstimate {
    /// The estimate for about so many transactions, `memory` bytes for buffers and partitions, and so many threads; the
    /// last two as in [`ImportOptions`], with [`ImportOptions::default_range`].
    #[must_use]
    pub fn of(transactions: u64, memory: usize, threads: usize) -> Self {
        let bytes = |each: u64| transactions.saturating_mul(each);
        let extra = transactions.min(FIRST) * FIRST_EXTRA;
        let threads = threads.max(1);
        let bits = partition_bits(transactions, memory, threads);
        // buffers and partitions contain no more than there is
        let budget = wide(memory).min(bytes(PARTITION_BYTES).saturating_add(bytes(TEMPORARY)));
        // the number of partitions is limited, so those of a large chain exceed a small budget
        let beyond = (bytes(PARTITION_BYTES) >> bits).saturating_sub(wide(memory / 2 / threads));
        let range = u64::from(ImportOptions::default_range(transactions)).min(transactions) * RANGE;
        let of_threads = wide(threads).saturating_mul(AHEAD).saturating_mul(beyond.saturating_add(range));
        let chunk = wide(chunk_size(memory / 8 / threads, 1 << bits));
        let chunks = (bytes(TEMPORARY) / chunk).saturating_mul(CHUNK_ENTRY);
        let pages = bytes(FILE).min(BETWEEN_CHECKPOINTS) / PAGE * PAGE_ENTRY;
        let fixed = wide(builder::cache_of(memory).saturating_add(P2PK_MEMORY));
        Self {
            index_bytes: bytes(FILE).saturating_add(extra),
            raw_bytes: 0,
            temporary_bytes: bytes(TEMPORARY).saturating_add(extra),
            together_bytes: bytes(TOGETHER).saturating_add(extra),
            memory_bytes: [budget, of_threads, chunks, pages].into_iter().fold(fixed, u64::saturating_add),
        }
    }

    /// Adds so many blocks of so many bytes in all, which are copied into raw files.
    #[must_use]
    pub fn with_raw_blocks(self, blocks: u64, raw_bytes: u64) -> Self {
        let memory_bytes = self.memory_bytes.saturating_add(blocks.saturating_mul(RAW_BLOCK));
        Self { raw_bytes, memory_bytes, ..self }
    }

    /// Checks that the system has that much memory for this process, if it says how much it has.
    ///
    /// Errors: [`IndexError::ImportMemory`] with the sizes.
    pub fn check_memory(&self) -> Result<(), IndexError> {
        self.check_available(available_memory())
    }

    fn check_available(&self, available_bytes: Option<u64>) -> Result<(), IndexError> {
        let needed_bytes = self.memory_bytes;
        match available_bytes {
            Some(available_bytes) if available_bytes < needed_bytes => {
                Err(IndexError::ImportMemory { needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the disks of the directory of the generation and of the one for temporary runs, which need not exist yet,
    /// have that much free space. A disk whose free space is unknown is accepted.
    ///
    /// Errors: [`IndexError::ImportSpace`] with the sizes.
    pub fn check(&self, directory: &Path, temporary: &Path) -> Result<(), IndexError> {
        let is_same_disk = is_same_disk(nearest_existing(directory), nearest_existing(temporary));
        self.check_free(directory, temporary, is_same_disk, |path| free(nearest_existing(path)))
    }

    fn check_free(
        &self,
        directory: &Path,
        temporary: &Path,
        is_same_disk: bool,
        free: impl Fn(&Path) -> Option<u64>,
    ) -> Result<(), IndexError> {
        let check = |path: &Path, needed_bytes: u64| match free(path) {
            Some(free_bytes) if free_bytes < needed_bytes => Err(IndexError::ImportSpace {
                path: path.to_path_buf(),
                needed_bytes,
                free_bytes,
                index_bytes: self.index_bytes,
                raw_bytes: self.raw_bytes,
                temporary_bytes: self.temporary_bytes,
            }),
            _ => Ok(()),
        };
        if is_same_disk {
            return check(directory, self.together_bytes.saturating_add(self.raw_bytes));
        }
        check(directory, self.index_bytes.saturating_add(self.raw_bytes))?;
        check(temporary, self.temporary_bytes)
    }
}

/// The bytes that the kernel estimates to be available without swapping (`proc_meminfo(5)`).
fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    kibibytes?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn estimates_cover_what_was_measured() {
        for (transactions, buffers, memory, file, runs) in [
            (400_000, 1_024, 207, 169, 126),
            (1_000_000, 1_024, 318, 135, 132),
            (5_000_000, 1_024, 490, 108, 107),
            (5_000_000, 256, 301, 108, 95),
            (20_000_000, 1_024, 635, 108, 97),
        ] {
            let estimate = ImportEstimate::of(transactions, buffers << 20, 2);
            assert!((memory * MIB..2_048 * MIB).contains(&estimate.memory_bytes), "{estimate:?}");
            // and no more than a third beyond, of a chain that is not small
            let bounds = |measured: u64| transactions * measured..transactions * (measured.max(108) + 62);
            assert!(bounds(file).contains(&estimate.index_bytes), "{estimate:?}");
            assert!(bounds(runs).contains(&estimate.temporary_bytes), "{estimate:?}");
            let sum = estimate.index_bytes + estimate.temporary_bytes;
            assert!((transactions * 154..sum).contains(&estimate.together_bytes));
        }
        let mainnet = ImportEstimate::of(1_460_000_000, 1 << 30, 2);
        // as docs/operations.md adds up, and one of its table
        assert_eq!(mainnet.memory_bytes / MIB, 1_946);
        assert_eq!(ImportEstimate::of(1_460_000_000, 1 << 30, 8).memory_bytes / MIB, 5_309);
        let each = |bytes: u64| bytes / 1_460_000_000;
        assert_eq!([mainnet.index_bytes, mainnet.temporary_bytes, mainnet.together_bytes].map(each), [119, 105, 170]);
        // 156 bytes a block while the table of hashes grows
        let copied = mainnet.with_raw_blocks(950_000, 785_000_000_000);
        assert_eq!((copied.memory_bytes - mainnet.memory_bytes) / MIB, 141);
    }

    #[test]
    fn memory_grows_with_the_chain_and_the_threads_beyond_a_small_budget() {
        let memory =
            |transactions, memory: usize, threads| ImportEstimate::of(transactions, memory, threads).memory_bytes;
        assert!(memory(1_000, 1 << 30, 2) < 200 * MIB);
        let mainnet = memory(1_500_000_000, 1 << 30, 2);
        assert!((1_024 * MIB..3_072 * MIB).contains(&mainnet), "{mainnet}");
        // 4,096 partitions of 112 MiB each
        assert!(memory(1_500_000_000, 64 << 20, 8) > memory(1_500_000_000, 64 << 20, 2) + 18 * 64 * MIB);
        assert_eq!(ImportEstimate::of(u64::MAX, usize::MAX, usize::MAX).memory_bytes, u64::MAX);
    }

    #[test]
    fn a_system_with_too_little_memory_is_refused_with_the_sizes() {
        let estimate = ImportEstimate::of(1_000, 1 << 20, 1);
        let needed = estimate.memory_bytes.div_ceil(MIB);
        estimate.check_available(Some(estimate.memory_bytes)).unwrap();
        estimate.check_available(None).unwrap();
        let error = estimate.check_available(Some(10 * MIB)).unwrap_err().to_string();
        assert!(error.contains(&format!("needs {needed} MiB of memory, and 10 MiB are available")), "{error}");
        assert!(error.contains("--memory"), "{error}");
        #[cfg(target_os = "linux")]
        assert!(available_memory().unwrap() > MIB);
    }

    #[test]
    fn a_disk_with_too_little_space_is_refused_with_the_sizes() {
        let estimate = ImportEstimate::of(1 << 20, 1 << 20, 1);
        let (index, temporary) = (Path::new("/index"), Path::new("/temporary"));
        let check = |is_same, of_index: u64, of_temporary: u64| {
            let free = |path: &Path| Some(MIB * if path == index { of_index } else { of_temporary });
            estimate.check_free(index, temporary, is_same, free).map_err(|error| error.to_string())
        };
        // on one disk both at a time, on two disks each its own
        assert_eq!(check(true, 220, 220), Ok(()));
        assert_eq!(check(false, 169, 155), Ok(()));
        assert_eq!(
            check(true, 219, 219).unwrap_err(),
            "the import needs 220 MiB on the disk of /index, and 219 MiB are free: the index takes 169 MiB, and temporary \
             runs take up to 155 MiB until it is built. Free some space, or name a directory on another disk with \
             --data-dir for the index or --temporary-dir for the runs"
        );
        assert!(check(false, 168, 155).unwrap_err().contains("needs 169 MiB on the disk of /index, and 168 MiB"));
        assert!(check(false, 169, 154).unwrap_err().contains("needs 155 MiB on the disk of /temporary, and 154 MiB"));
        estimate.check_free(index, temporary, true, |_| None).unwrap();
    }

    #[test]
    fn copies_of_blocks_need_space_beside_the_index() {
        let estimate = ImportEstimate::of(1 << 20, 1 << 20, 1).with_raw_blocks(1_000, 300 * MIB);
        let (index, temporary) = (Path::new("/index"), Path::new("/temporary"));
        let check = |is_same, of_index: u64| {
            let free = |path: &Path| Some(MIB * if path == index { of_index } else { 155 });
            estimate.check_free(index, temporary, is_same, free).map_err(|error| error.to_string())
        };
        assert_eq!(check(true, 520), Ok(()));
        assert_eq!(check(false, 469), Ok(()));
        let error = check(true, 519).unwrap_err();
        assert!(
            error.contains("needs 520 MiB") && error.contains("169 MiB, its copies of blocks 300 MiB, and"),
            "{error}"
        );
        assert!(check(false, 468).unwrap_err().contains("needs 469 MiB on the disk of /index, and 468 MiB"));
    }

    #[test]
    fn no_disk_has_space_for_an_absurd_chain() {
        let directory = tempfile::tempdir().unwrap();
        // a refusal makes no directory
        for temporary in [directory.path(), &directory.path().join("absent/import")] {
            let check = |transactions| ImportEstimate::of(transactions, 1 << 20, 1).check(directory.path(), temporary);
            check(1).unwrap();
            let error = check(u64::MAX).unwrap_err();
            assert!(matches!(error, IndexError::ImportSpace { needed_bytes: u64::MAX, .. }), "{error}");
        }
        assert!(!directory.path().join("absent").exists());
        let error =
            ImportEstimate::of(u64::MAX, 1, 1).check(Path::new("absent"), Path::new("absent/import")).unwrap_err();
        assert!(matches!(error, IndexError::ImportSpace { .. }), "{error}");
    }
}
