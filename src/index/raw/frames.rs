//! How a block stands in a raw file: magic of the network (4) ‖ length u32, little-endian ‖ the block, as in the block files of
//! Bitcoin Core without obfuscation. A file ends with its last block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::super::hot::tables::block_files::BlockFileRow;
use crate::chain::raw::{HEADER_SIZE, MAX_BLOCK_SIZE};

/// Magic and length before a block.
pub(super) const FRAME: u32 = 8;
const FRAME_LENGTH: usize = 8;

/// What stands before a block.
pub(super) fn frame(magic: [u8; 4], length: u32) -> [u8; FRAME_LENGTH] {
    let mut frame = [0; FRAME_LENGTH];
    frame[..4].copy_from_slice(&magic);
    frame[4..].copy_from_slice(&length.to_le_bytes());
    frame
}

/// The block whose frame begins at an offset of a file; `None` if there is none that is whole.
pub(super) fn frame_at(
    open: &File,
    magic: [u8; 4],
    file: u32,
    offset: u32,
) -> io::Result<Option<(BlockHash, BlockFileRow)>> {
    let mut head = [0; FRAME_LENGTH + HEADER_SIZE];
    match open.read_exact_at(&mut head, offset.into()) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (frame, header) = head.split_at(FRAME_LENGTH);
    let length = frame.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let (begin, end) = (u64::from(offset) + u64::from(FRAME), u64::from(offset) + u64::from(FRAME) + u64::from(length));
    let is_whole = frame.starts_with(&magic) && length <= MAX_BLOCK_SIZE && open.metadata()?.len() >= end;
    let row = u32::try_from(begin).ok().map(|offset| BlockFileRow { file, offset, length });
    Ok(row.filter(|_| is_whole).map(|row| (BlockHash::hash(header), row)))
}
