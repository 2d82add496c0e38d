//! Blocks in the framing of a node's `blk*.dat` files: the network's magic, the length as 32 bits little-endian, the
//! block. [`BlkWriter`] writes one such file, as `bitcoind -loadblock=FILE` reads it; it is not obfuscated.
//! [`BlockFiles`] is a directory of them as a node keeps it, with an undo file beside each.
//!
//! A file for a node without any blocks has to begin with genesis, as the node's own files do: the node activates its
//! chain when it reads genesis. Without it, a regtest node exits at its own consistency check.

mod files;
mod undo;

use std::io::{self, Write};

use bitcoin::consensus::Encodable;
use bitcoin::{Block, Network};

pub(super) use files::FileRecord;
pub use files::{BlockFiles, BlockFilesLayout, StoredBlock};
pub(super) use undo::undo_bytes;

/// Magic and length before each block.
const FRAME_BYTES: usize = 8;

/// Writes regtest blocks one after another. Each block is one write, so that the file needs no buffer of its own.
#[derive(Debug)]
pub struct BlkWriter<W> {
    inner: W,
    buffer: Vec<u8>,
    written: u64,
}

impl<W: Write> BlkWriter<W> {
    /// A writer without output so far.
    pub fn new(inner: W) -> Self {
        BlkWriter { inner, buffer: Vec::new(), written: 0 }
    }

    /// Appends a block. Errors: writing the file fails.
    pub fn write(&mut self, block: &Block) -> io::Result<()> {
        frame(&mut self.buffer, block)?;
        self.inner.write_all(&self.buffer)?;
        self.written += u64::try_from(self.buffer.len()).map_err(io::Error::other)?;
        Ok(())
    }

    /// Bytes written so far, framing included.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Flushes and returns the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.flush()?;
        Ok(self.inner)
    }
}

/// Replaces the buffer with the framed record and returns the record's length without its frame.
fn frame(buffer: &mut Vec<u8>, record: &impl Encodable) -> io::Result<u32> {
    buffer.clear();
    buffer.extend_from_slice(&Network::Regtest.magic().to_bytes());
    buffer.extend_from_slice(&[0; 4]);
    let length = record.consensus_encode(buffer).map_err(io::Error::from)?;
    let length = u32::try_from(length).map_err(io::Error::other)?;
    buffer[4..FRAME_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(length)
}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::deserialize;

    use super::*;
    use crate::sim::SimChain;

    #[test]
    fn a_file_repeats_magic_length_and_block() {
        let blocks = SimChain::new(1).mine_empty(3).unwrap();
        let mut writer = BlkWriter::new(Vec::new());
        for block in &blocks {
            writer.write(block).unwrap();
        }
        let written = writer.written();
        let file = writer.finish().unwrap();
        assert_eq!(u64::try_from(file.len()).unwrap(), written);

        let mut rest = &file[..];
        for block in &blocks {
            assert_eq!(rest[..4], [0xfa, 0xbf, 0xb5, 0xda]);
            let length = usize::try_from(u32::from_le_bytes(rest[4..8].try_into().unwrap())).unwrap();
            assert_eq!(&deserialize::<Block>(&rest[8..8 + length]).unwrap(), &**block);
            rest = &rest[8 + length..];
        }
        assert!(rest.is_empty());
    }
}
