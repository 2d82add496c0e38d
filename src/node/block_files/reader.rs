//! Reads blocks, and parts of them, from the files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};

use super::error::BlockFileError;
use super::frame::{FRAME, unmask};
use super::open_files::OpenFiles;
use super::positions::BlockPosition;
use super::record::BlockRecord;
use super::scan::FileScan;
use crate::chain::raw::{HEADER_SIZE, MAX_BLOCK_SIZE};
use crate::chain::wide;

/// Bytes of a block for which a read of its own takes less time than copying it from a buffer.
const LARGE_BLOCK: u64 = 64 << 10;

/// The block files of a node. Clones share the files that they have open.
#[derive(Clone, Debug)]
pub struct BlockFileReader {
    directory: PathBuf,
    network: Network,
    key: Option<[u8; 8]>,
    open: Arc<OpenFiles>,
}

impl BlockFileReader {
    /// The files in the `blocks` directory of a node of this network.
    ///
    /// Errors: there are none; the directory or its key cannot be read.
    pub fn open(directory: &Path, network: Network) -> Result<Self, BlockFileError> {
        let path = directory.join("xor.dat");
        let key = match fs::read(&path) {
            Ok(bytes) => {
                let bad_key = |bytes: Vec<u8>| BlockFileError::BadKey { path: path.clone(), bytes: bytes.len() };
                Some(<[u8; 8]>::try_from(bytes).map_err(bad_key)?).filter(|key| *key != [0; 8])
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(BlockFileError::Io { path, cause }),
        };
        let reader = Self { directory: directory.to_path_buf(), network, key, open: Arc::default() };
        if reader.files()?.is_empty() {
            return Err(BlockFileError::NoFiles { path: reader.directory });
        }
        Ok(reader)
    }

    /// The numbers of the files that are there now, in order. A node that prunes has no low ones.
    ///
    /// Errors: the directory cannot be read.
    pub fn files(&self) -> Result<Vec<u32>, BlockFileError> {
        let failed = |cause| BlockFileError::Io { path: self.directory.clone(), cause };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix("blk")?.strip_suffix(".dat"));
            numbers.extend(digits.filter(|digits| digits.len() >= 5).and_then(|digits| digits.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The blocks of one file, in their order there, from a position on (0, or where an earlier scan ended), of which
    /// 97 bytes each are read. It ends before an incomplete block.
    ///
    /// Errors: the file cannot be read.
    pub fn scan(
        &self,
        file: u32,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<BlockRecord, BlockFileError>> + use<>, BlockFileError> {
        let path = self.path(file);
        let open = File::open(&path).map_err(|cause| BlockFileError::Io { path: path.clone(), cause })?;
        let magic = self.magic()?;
        Ok(FileScan::new(open, path, file, from, self.key, magic))
    }

    /// The bytes of a block.
    ///
    /// Errors: the file cannot be read; it has other bytes there than when it was scanned.
    pub fn read(&self, block: &BlockRecord) -> Result<Vec<u8>, BlockFileError> {
        let bytes =
            self.read_at(block.file, block.offset, usize::try_from(block.length.min(MAX_BLOCK_SIZE)).unwrap_or(0))?;
        self.check(&bytes, block.file, block.offset, &block.hash)?;
        Ok(bytes)
    }

    /// Some bytes of a block, after a check that the block is there. The bytes must be within the block.
    ///
    /// Errors: the file cannot be read; another block is there.
    pub(in crate::node) fn read_part(
        &self,
        hash: &BlockHash,
        position: BlockPosition,
        offset: u32,
        length: u32,
    ) -> Result<Vec<u8>, BlockFileError> {
        let begin = u64::from(position.offset);
        let header = self.read_at(position.file, begin, HEADER_SIZE)?;
        self.check(&header, position.file, begin, hash)?;
        self.read_at(position.file, begin + u64::from(offset), usize::try_from(length).unwrap_or(0))
    }

    /// The blocks at these positions, which lie in one file and in their order there: each by a read of its own into bytes of its
    /// length from `memory` if they are large on average, and else all by one into `buffer`.
    ///
    /// Errors: the file cannot be read; other blocks are there.
    pub(in crate::node) fn read_span(
        &self,
        blocks: &[(BlockHash, BlockPosition)],
        buffer: &mut Vec<u8>,
        memory: impl Fn(usize) -> Vec<u8>,
        mut visit: impl FnMut(usize, Vec<u8>),
    ) -> Result<(), BlockFileError> {
        let Some((_, first)) = blocks.first() else { return Ok(()) };
        let begin = u64::from(first.offset);
        let end = blocks.iter().map(|(_, position)| position.end()).max().unwrap_or(begin);
        let are_large = end - begin >= LARGE_BLOCK * wide(blocks.len());
        if !are_large {
            buffer.resize(usize::try_from(end - begin).unwrap_or(0), 0);
            self.read_into(first.file, begin, buffer)?;
        }
        for (at, (hash, position)) in blocks.iter().enumerate() {
            let length = usize::try_from(position.length).unwrap_or(usize::MAX);
            let mut bytes = if are_large {
                let mut bytes = memory(length);
                self.read_into(position.file, position.offset.into(), &mut bytes)?;
                bytes
            } else {
                let from = usize::try_from(position.offset - first.offset).unwrap_or(usize::MAX);
                buffer[from..from + length].to_vec()
            };
            unmask(&mut bytes, position.offset.into(), self.key);
            self.check(&bytes, position.file, position.offset.into(), hash)?;
            visit(at, bytes);
        }
        Ok(())
    }

    fn read_at(&self, file: u32, offset: u64, length: usize) -> Result<Vec<u8>, BlockFileError> {
        let mut bytes = vec![0; length];
        self.read_into(file, offset, &mut bytes)?;
        unmask(&mut bytes, offset, self.key);
        Ok(bytes)
    }

    /// Reads bytes as they are in the file.
    fn read_into(&self, file: u32, offset: u64, bytes: &mut [u8]) -> Result<(), BlockFileError> {
        let read =
            self.open.get(file, || File::open(self.path(file))).and_then(|file| file.read_exact_at(bytes, offset));
        read.map_err(|cause| BlockFileError::Io { path: self.path(file), cause })
    }

    /// Checks that a block begins as it should: a block's hash is the hash of its header.
    fn check(&self, bytes: &[u8], file: u32, offset: u64, hash: &BlockHash) -> Result<(), BlockFileError> {
        if bytes.get(..HEADER_SIZE).is_some_and(|header| BlockHash::hash(header) == *hash) {
            return Ok(());
        }
        Err(BlockFileError::Changed { path: self.path(file), hash: *hash, offset })
    }

    fn path(&self, file: u32) -> PathBuf {
        self.directory.join(format!("blk{file:05}.dat"))
    }

    /// What stands before each block. That of a custom signet follows from its challenge, so it is read where the genesis
    /// block is, and is the network's own elsewhere.
    fn magic(&self) -> Result<[u8; 4], BlockFileError> {
        let usual = self.network.magic().to_bytes();
        let path = self.path(0);
        let mut first = [0; FRAME + HEADER_SIZE];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut first));
        match read {
            Ok(()) => {}
            // pruned, or nothing is stored yet
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                return Ok(usual);
            }
            Err(cause) => return Err(BlockFileError::Io { path, cause }),
        }
        unmask(&mut first, 0, self.key);
        let header = deserialize::<Header>(&first[FRAME..]).ok();
        let is_genesis = |header: Header| header.block_hash() == crate::chain::network::genesis_hash(self.network);
        Ok(header.filter(|header| is_genesis(*header)).and_then(|_| first.first_chunk().copied()).unwrap_or(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_are_read_together_and_large_ones_by_themselves() {
        const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
        for length in [200, usize::try_from(LARGE_BLOCK).unwrap() + 13] {
            let directory = tempfile::tempdir().unwrap();
            let (mut file, mut expected) = (Vec::new(), Vec::new());
            for number in 0..3 {
                file.extend([0xff; FRAME]);
                let offset = u32::try_from(file.len()).unwrap();
                let block = vec![number; length];
                file.extend(&block);
                let position = BlockPosition { file: 7, offset, length: u32::try_from(length).unwrap() };
                expected.push(((BlockHash::hash(&block[..HEADER_SIZE]), position), block));
            }
            unmask(&mut file, 0, Some(KEY));
            fs::write(directory.path().join("blk00007.dat"), file).unwrap();
            fs::write(directory.path().join("xor.dat"), KEY).unwrap();
            let reader = BlockFileReader::open(directory.path(), Network::Regtest).unwrap();
            let blocks: Vec<_> = expected.iter().map(|(block, _)| *block).collect();
            let (mut read, mut buffer) = (Vec::new(), Vec::new());
            let memory = |length| vec![9; length];
            reader.read_span(&blocks, &mut buffer, memory, |at, bytes| read.push((blocks[at], bytes))).unwrap();
            assert!(read == expected);
            assert_eq!(buffer.is_empty(), length > 200, "the buffer is only for small blocks");

            let absent = [blocks[0], (BlockHash::hash(&[9; HEADER_SIZE]), blocks[1].1)];
            let changed = reader.read_span(&absent, &mut buffer, memory, |at, _| assert_eq!(at, 0)).unwrap_err();
            assert!(matches!(changed, BlockFileError::Changed { .. }), "{changed}");
        }
    }
}
