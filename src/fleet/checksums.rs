//! The checksums of an object: the SHA-256 of all of it, which is its name, and one of each block of 64 KiB, so that a part
//! of it can be verified alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::FleetError;
use super::names::ContentHash;
use crate::chain::wide;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64 * 1024;
const SUM: usize = 32;

/// One checksum for each block, in order; the last block may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockChecksums(Vec<u8>);

impl BlockChecksums {
    /// The size of those of an object with so many bytes.
    pub(super) fn encoded_bytes(bytes: u64) -> u64 {
        bytes.div_ceil(wide(BLOCK)) * wide(SUM)
    }

    /// Reads a file to its end, or until `stop` is cancelled. Returns the checksum of all of it, too.
    pub(super) fn of_file(
        path: &Path,
        stop: &CancellationToken,
        mut progress: impl FnMut(u64),
    ) -> Result<(ContentHash, Self), FleetError> {
        let failed = FleetError::of_file("read", path);
        let mut file = File::open(path).map_err(&failed)?;
        let (mut whole, mut sums, mut block) = (Sha256::new(), Vec::new(), vec![0; BLOCK]);
        loop {
            let length = read_block(&mut file, &mut block).map_err(&failed)?;
            if length == 0 {
                return Ok((ContentHash(whole.finalize().into()), Self(sums)));
            }
            if stop.is_cancelled() {
                return Err(FleetError::Stopped);
            }
            whole.update(&block[..length]);
            sums.extend_from_slice(&Sha256::digest(&block[..length]));
            progress(wide(length));
        }
    }

    /// Those that an object of checksums has. `None` if they are not those of so many bytes.
    pub(super) fn decode(content: Vec<u8>, bytes: u64) -> Option<Self> {
        (wide(content.len()) == Self::encoded_bytes(bytes)).then_some(Self(content))
    }

    pub(super) fn encode(&self) -> &[u8] {
        &self.0
    }

    /// The offset within these bytes of the first block that differs. They begin at a block and end with one.
    pub(super) fn first_difference(&self, first_block: usize, bytes: &[u8]) -> Option<usize> {
        let sums = self.0.chunks_exact(SUM).skip(first_block);
        let mut sums = sums.map(Some).chain(std::iter::repeat(None));
        let differs = |block: &[u8]| sums.next().flatten() != Some(&*Sha256::digest(block));
        bytes.chunks(BLOCK).position(differs).map(|block| block * BLOCK)
    }
}

/// Fills `block` unless the file ends before.
fn read_block(file: &mut impl Read, block: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < block.len() {
        match file.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_verified_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..3 * BLOCK + 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
        std::fs::write(file.path(), &content).unwrap();
        let mut read = 0;
        let (whole, sums) =
            BlockChecksums::of_file(file.path(), &CancellationToken::new(), |bytes| read += bytes).unwrap();
        assert_eq!((whole, read), (ContentHash::of(&content), wide(content.len())));
        let decoded = BlockChecksums::decode(sums.encode().to_vec(), wide(content.len())).unwrap();
        assert_eq!(decoded, sums);
        assert_eq!(BlockChecksums::decode(sums.encode().to_vec(), wide(3 * BLOCK)), None);
        assert_eq!(sums.first_difference(0, &content), None);
        assert_eq!(sums.first_difference(2, &content[2 * BLOCK..]), None);
        // out of place, too long, changed
        assert_eq!(sums.first_difference(1, &content), Some(0));
        let longer = [&content[..], &[0]].concat();
        assert_eq!(sums.first_difference(0, &longer), Some(3 * BLOCK));
        assert_eq!(sums.first_difference(3, &[&content[3 * BLOCK..], &vec![0; BLOCK][..]].concat()), Some(0));
        let mut changed = content.clone();
        changed[BLOCK + 7] ^= 1;
        assert_eq!(sums.first_difference(0, &changed), Some(BLOCK));
    }

    #[test]
    fn an_empty_file_has_no_blocks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (whole, sums) = BlockChecksums::of_file(file.path(), &CancellationToken::new(), |_| {}).unwrap();
        assert_eq!((whole, sums.encode().len()), (ContentHash::of(&[]), 0));
        assert_eq!(sums.first_difference(0, &[1]), Some(0));
    }
}
