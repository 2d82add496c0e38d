//! The block files of a node are read as the node wrote them, whatever their order, their key and their end.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, Network};
use btcgraph::node::{BlockFileError, BlockFileReader, BlockRecord};
use btcgraph::sim::blkfile::{BlkWriter, BlockFiles, BlockFilesLayout};
use btcgraph::sim::{Hostile, SimChain};
use serde_json::json;

use crate::support::bitcoind::RealNode;

const KEY: [u8; 8] = [0x51, 0, 0xff, 0x07, 0x80, 0x33, 0xda, 0x0b];

/// A chain of 150 blocks.
fn hostile_chain() -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(11), Hostile::new(11));
    for _ in 0..150 {
        hostile.mine(&mut chain).unwrap();
    }
    chain
}

fn write_files(directory: &Path, layout: BlockFilesLayout, chain: &SimChain) {
    let mut files = BlockFiles::create(directory, layout).unwrap();
    for block in chain.active_blocks() {
        files.write(block, &chain.spent_coins(&block.block_hash()).unwrap()).unwrap();
    }
    files.flush().unwrap();
}

fn open(directory: &Path) -> BlockFileReader {
    BlockFileReader::open(directory, Network::Regtest).unwrap()
}

fn scan_file(reader: &BlockFileReader, file: u32) -> Vec<BlockRecord> {
    reader.scan(file, 0).unwrap().map(Result::unwrap).collect()
}

fn scan(reader: &BlockFileReader) -> Vec<BlockRecord> {
    reader.files().unwrap().into_iter().flat_map(|file| scan_file(reader, file)).collect()
}

/// Asserts that these are the blocks of the chain, each with its bytes.
fn assert_are(records: &[BlockRecord], reader: &BlockFileReader, chain: &SimChain) {
    let by_hash: HashMap<BlockHash, &BlockRecord> = records.iter().map(|record| (record.hash, record)).collect();
    assert_eq!((records.len(), by_hash.len()), (chain.active_blocks().count(), records.len()));
    for block in chain.active_blocks() {
        let record = by_hash[&block.block_hash()];
        assert_eq!(record.previous, block.header.prev_blockhash);
        assert_eq!(record.transactions, u64::try_from(block.txdata.len()).unwrap());
        assert_eq!(reader.read(record).unwrap(), serialize(&**block));
    }
}

#[test]
fn files_of_every_layout_have_the_blocks_of_the_chain() {
    let chain = hostile_chain();
    for key in [None, Some([0; 8]), Some(KEY)] {
        for (disorder, file_bytes, allocation) in [(0, 128 << 20, 0), (0, 20_000, 1 << 16), (12, 50_000, 1 << 17)] {
            let directory = tempfile::tempdir().unwrap();
            write_files(directory.path(), BlockFilesLayout { key, disorder, file_bytes, allocation }, &chain);
            let reader = open(directory.path());
            let records = scan(&reader);
            assert!(records.is_sorted_by_key(|record| (record.file, record.offset)));
            assert_eq!(reader.files().unwrap().len() > 1, file_bytes < 1 << 20);
            assert_are(&records, &reader, &chain);
        }
    }
}

#[test]
fn a_block_that_is_being_written_is_found_once_it_is_whole() {
    let chain = hostile_chain();
    let directory = tempfile::tempdir().unwrap();
    write_files(
        directory.path(),
        BlockFilesLayout { key: Some(KEY), allocation: 0, ..BlockFilesLayout::default() },
        &chain,
    );
    let path = directory.path().join("blk00000.dat");
    let whole = fs::read(&path).unwrap();
    let reader = open(directory.path());
    let expected = scan(&reader);
    let last = *expected.last().unwrap();
    for cut in [0, 1, 7, 8, 9, 80, 88, 90, 97, 200] {
        // so many bytes of the last block and its frame
        let length = usize::try_from(last.offset).unwrap() - 8 + cut;
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(scan(&reader), expected[..expected.len() - 1], "{cut} bytes");
        // with zeros behind them, which the node has allocated
        let mut allocated = whole[..length].to_vec();
        allocated.resize(length + 5_000, 0);
        fs::write(&path, &allocated).unwrap();
        let found = scan(&reader);
        assert_eq!(found[..expected.len() - 1], expected[..expected.len() - 1], "{cut} bytes");
    }
    fs::write(&path, &whole).unwrap();
    let resumed: Vec<_> = reader.scan(0, last.offset - 8).unwrap().map(Result::unwrap).collect();
    assert_eq!(resumed, [last]);
    assert_eq!(reader.scan(0, last.offset + u64::from(last.length)).unwrap().count(), 0);
}

#[test]
fn a_scan_that_is_begun_sees_what_is_appended() {
    let chain = hostile_chain();
    let directory = tempfile::tempdir().unwrap();
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let path = directory.path().join("blk00000.dat");
    let mut file = BlkWriter::new(fs::File::create(&path).unwrap());
    blocks[..10].iter().for_each(|block| file.write(block).unwrap());
    let reader = open(directory.path());
    let mut found = reader.scan(0, 0).unwrap();
    let first: Vec<_> = found.by_ref().take(10).map(|record| record.unwrap().hash).collect();
    blocks[10..].iter().for_each(|block| file.write(block).unwrap());
    file.finish().unwrap();
    let rest = found.map(|record| record.unwrap().hash);
    let all: Vec<_> = first.into_iter().chain(rest).collect();
    assert_eq!(all, blocks.iter().map(|block| block.block_hash()).collect::<Vec<_>>());
}

#[test]
fn blocks_behind_damage_are_found() {
    let chain = hostile_chain();
    let directory = tempfile::tempdir().unwrap();
    write_files(
        directory.path(),
        BlockFilesLayout { key: Some(KEY), allocation: 0, ..BlockFilesLayout::default() },
        &chain,
    );
    let (reader, path) = (open(directory.path()), directory.path().join("blk00000.dat"));
    let (whole, records) = (fs::read(&path).unwrap(), scan(&open(directory.path())));
    // its magic, its length, and a length that is too large
    for (at, bytes) in [(0, 4), (4, 4), (6, 1)] {
        let damaged = records[40];
        let mut bytes_now = whole.clone();
        let from = usize::try_from(damaged.offset).unwrap() - 8 + at;
        bytes_now[from..from + bytes].iter_mut().for_each(|byte| *byte ^= 0xe5);
        fs::write(&path, &bytes_now).unwrap();
        let found: HashSet<_> = scan(&reader).into_iter().map(|record| record.hash).collect();
        let missing: Vec<_> =
            records.iter().filter(|record| !found.contains(&record.hash)).map(|record| record.hash).collect();
        assert_eq!(missing, [damaged.hash], "{at}");
        // as a block its bytes are still what they were
        assert_eq!(reader.read(&damaged).unwrap(), serialize(chain.block(&damaged.hash).unwrap().as_ref()));
    }
}

#[test]
fn files_that_are_gone_or_changed_are_named() {
    let chain = hostile_chain();
    let directory = tempfile::tempdir().unwrap();
    let empty = BlockFileReader::open(directory.path(), Network::Regtest).unwrap_err();
    assert!(matches!(empty, BlockFileError::NoFiles { .. }), "{empty}");
    let absent = BlockFileReader::open(&directory.path().join("absent"), Network::Regtest).unwrap_err();
    assert!(matches!(absent, BlockFileError::Io { .. }) && absent.to_string().contains("absent"), "{absent}");

    write_files(
        directory.path(),
        BlockFilesLayout { file_bytes: 20_000, allocation: 0, ..BlockFilesLayout::default() },
        &chain,
    );
    let reader = open(directory.path());
    let records = scan(&reader);
    let (gone, kept): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.file == 0);
    fs::remove_file(directory.path().join("blk00000.dat")).unwrap();
    let error = reader.read(gone[0]).unwrap_err().to_string();
    assert!(error.contains("blk00000.dat") && error.contains("prunes"), "{error}");
    assert_eq!(scan(&open(directory.path())).iter().collect::<Vec<_>>(), kept, "a pruned node's files");

    let changed = BlockRecord { offset: kept[0].offset + 1, ..*kept[0] };
    let error = reader.read(&changed).unwrap_err();
    assert!(matches!(error, BlockFileError::Changed { .. }), "{error}");
    let mut key = OpenOptions::new().create(true).append(true).open(directory.path().join("xor.dat")).unwrap();
    key.write_all(b"short").unwrap();
    let error = BlockFileReader::open(directory.path(), Network::Regtest).unwrap_err();
    assert!(matches!(error, BlockFileError::BadKey { bytes: 5, .. }), "{error}");
}

#[test]
fn the_files_of_a_running_node_are_read() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let chain = hostile_chain();
    chain.active_blocks().skip(1).for_each(|block| {
        real.must("submitblock", &[json!(bitcoin::consensus::encode::serialize_hex(&**block))]);
    });
    assert_eq!(real.must("getbestblockhash", &[]), json!(chain.tip()));
    let reader = open(&real.blocks_dir());
    assert_are(&scan(&reader), &reader, &chain);
}
