//! Raw files that are appended to, cut, lost and read.

use std::path::Path;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use tempfile::TempDir;

use super::super::codec::small;
use super::super::hot::tables::block_files::BlockFileRow;
use super::super::hot::tip::Tip;
use super::RawFiles;
use crate::chain::Height;

type Rows = Vec<(Height, BlockFileRow)>;

/// What looks like blocks: 80 bytes of header, and others.
fn blocks() -> Vec<(BlockHash, Vec<u8>)> {
    let block = |number: u8| -> Vec<u8> {
        (0..150 + 7 * usize::from(number)).map(|at| number ^ u8::try_from(at % 251).unwrap()).collect()
    };
    (0..20).map(block).map(|bytes| (BlockHash::hash(&bytes[..80]), bytes)).collect()
}

fn hashes(blocks: &[(BlockHash, Vec<u8>)]) -> Vec<BlockHash> {
    blocks.iter().map(|(hash, _)| *hash).collect()
}

/// The files in a directory, of 1,000 bytes each, with these rows.
fn open(directory: &Path, rows: &Rows) -> RawFiles {
    let rows = rows.iter().map(|row| Ok(*row));
    RawFiles::with_rows(directory.join("raw"), Network::Regtest, rows).unwrap().with_file_bytes(1_000)
}

fn append(files: &RawFiles, blocks: &[(BlockHash, Vec<u8>)]) {
    for (hash, bytes) in blocks {
        files.append(*hash, bytes).unwrap();
    }
    files.sync().unwrap();
}

/// The rows of appended blocks, the first of which is at a height.
fn rows(files: &RawFiles, first: u32, blocks: &[(BlockHash, Vec<u8>)]) -> Rows {
    let heights = (first..).map(Height::from);
    heights.zip(blocks).map(|(height, (hash, _))| (height, files.in_tail(hash).unwrap().unwrap())).collect()
}

/// Checks that every block is read whole and in part.
#[track_caller]
fn assert_reads(files: &RawFiles, blocks: &[(BlockHash, Vec<u8>)]) {
    for ((hash, bytes), height) in blocks.iter().zip((0..).map(Height::from)) {
        let read = |offset, length| files.read(Tip { height, hash: *hash }, offset, length).unwrap();
        assert_eq!(&read(0, small(bytes.len())).unwrap(), bytes);
        assert_eq!(read(90, 20).unwrap(), bytes[90..110]);
        assert!(read(90, small(bytes.len())).unwrap_err().contains("bytes"));
    }
}

fn names(directory: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path().join("raw")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn named_blocks_are_read_from_files_of_bounded_size() {
    let (directory, blocks) = (tempfile::tempdir().unwrap(), blocks());
    let files = open(directory.path(), &Vec::new());
    append(&files, &blocks);
    let named = rows(&files, 0, &blocks);
    assert!(!files.has(Height::GENESIS));
    files.name(&named);
    assert_reads(&files, &blocks);
    assert!(names(&directory).len() > 4);
    assert_eq!(files.bytes(), blocks.iter().map(|(_, bytes)| u64::from(small(bytes.len()))).sum::<u64>());
    let files = open(directory.path(), &named);
    assert_eq!(files.lost(), 0);
    assert_reads(&files, &blocks);
    assert_eq!(files.first_missing(Height::GENESIS), Height::from(20));
    let other = Tip { height: Height::from(3), hash: blocks[4].0 };
    assert!(files.read(other, 0, 1).unwrap().unwrap_err().contains("does not have the block"));
    files.forget(&[Height::from(19), Height::from(99)]);
    assert_eq!(files.first_missing(Height::from(5)), Height::from(19));
    files.remove_all().unwrap();
    assert!(!directory.path().join("raw").exists());
    assert!(files.read(Tip { height: Height::from(3), hash: blocks[3].0 }, 0, 1).is_none());
}

#[test]
fn a_tail_is_found_again_up_to_where_it_is_torn() {
    let blocks = blocks();
    // the last file has one block of 283 bytes and its frame
    for torn in [0, 1, 50, 120, 205, 290] {
        let directory = tempfile::tempdir().unwrap();
        append(&open(directory.path(), &Vec::new()), &blocks);
        let last = directory.path().join("raw").join(names(&directory).last().unwrap());
        let file = std::fs::File::options().write(true).open(&last).unwrap();
        file.set_len(file.metadata().unwrap().len() - torn).unwrap();
        let files = open(directory.path(), &Vec::new());
        let found = blocks.iter().take_while(|(hash, _)| files.in_tail(hash).unwrap().is_some()).count();
        assert_eq!(found, if torn == 0 { 20 } else { 19 }, "{torn}");
        files.keep_tail(&hashes(&blocks)).unwrap();
        append(&files, &blocks[found..]);
        files.name(&rows(&files, 0, &blocks));
        assert_reads(&files, &blocks);
    }
}

#[test]
fn blocks_that_do_not_belong_to_the_tail_are_cut() {
    let blocks = blocks();
    for kept in [0, 1, 7, 20] {
        let directory = tempfile::tempdir().unwrap();
        append(&open(directory.path(), &Vec::new()), &blocks);
        let files = open(directory.path(), &Vec::new());
        let mut wanted = hashes(&blocks[..kept]);
        wanted.push(BlockHash::all_zeros());
        files.keep_tail(&wanted).unwrap();
        let bytes = |name: &String| std::fs::metadata(directory.path().join("raw").join(name)).unwrap().len();
        let expected: u64 = blocks[..kept].iter().map(|(_, bytes)| 8 + u64::from(small(bytes.len()))).sum();
        assert_eq!(names(&directory).iter().map(bytes).sum::<u64>(), expected);
        assert_eq!(blocks.iter().filter(|(hash, _)| files.in_tail(hash).unwrap().is_some()).count(), kept);
        append(&files, &blocks[kept..]);
        files.name(&rows(&files, 0, &blocks));
        assert_reads(&files, &blocks);
    }
}

#[test]
fn named_blocks_stay_when_the_tail_behind_them_is_cut() {
    let (directory, blocks) = (tempfile::tempdir().unwrap(), blocks());
    let files = open(directory.path(), &Vec::new());
    append(&files, &blocks[..10]);
    let named = rows(&files, 0, &blocks[..10]);
    files.name(&named);
    append(&files, &blocks[15..]);
    // in this process, and in the next one
    let mut attempts = Vec::new();
    for files in [files, open(directory.path(), &named)] {
        files.keep_tail(&[]).unwrap();
        append(&files, &blocks[10..]);
        attempts.push(rows(&files, 10, &blocks[10..]));
        files.name(&attempts[0]);
        assert_reads(&files, &blocks);
    }
    assert_eq!(attempts[0], attempts[1], "the bytes of the first attempt were replaced");
}

#[test]
fn blocks_of_lost_files_are_missing_and_are_appended_again() {
    let (directory, blocks) = (tempfile::tempdir().unwrap(), blocks());
    let files = open(directory.path(), &Vec::new());
    append(&files, &blocks);
    let mut named = rows(&files, 0, &blocks);
    drop(files);
    for lost in [names(&directory)[1].clone(), names(&directory).pop().unwrap()] {
        std::fs::remove_file(directory.path().join("raw").join(lost)).unwrap();
        let files = open(directory.path(), &named);
        let missing: Vec<_> = (0..20).map(Height::from).filter(|height| !files.has(*height)).collect();
        assert!((1..10).contains(&missing.len()));
        assert_eq!(files.lost(), u64::from(small(missing.len())));
        assert_eq!(files.first_missing(Height::GENESIS), missing[0]);
        for height in missing {
            let at = usize::try_from(height.to_u32()).unwrap();
            append(&files, &blocks[at..=at]);
            let row = rows(&files, height.to_u32(), &blocks[at..=at]);
            files.name(&row);
            named[at] = row[0];
        }
        assert_reads(&files, &blocks);
        assert_reads(&open(directory.path(), &named), &blocks);
    }
}
