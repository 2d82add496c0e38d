//! The one reader of raw bytes: asks one source after the other until what is returned passes its check.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

use super::super::block::{ParsedBlock, Parser};
use super::super::error::IndexError;
use super::super::hot::tables::block_files::BlockFileRow;
use super::super::hot::tip::Tip;
use super::super::witnesses::witnesses_are_committed;
use super::{RawBlocks, RawFiles};
use crate::chain::Height;
use crate::chain::raw::MAX_BLOCK_SIZE;

/// The interval between two warnings about own files.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Where the bytes of frozen blocks are read.
#[derive(Default)]
pub(in crate::index) struct RawSources {
    own: Arc<RawFiles>,
    /// Set once, when the node is known.
    node: OnceLock<Arc<dyn RawBlocks>>,
    warned: Mutex<Option<Instant>>,
}

impl RawSources {
    pub(in crate::index) fn new(own: RawFiles) -> Self {
        Self { own: Arc::new(own), ..Self::default() }
    }

    /// The raw files of the index.
    pub(in crate::index) fn own(&self) -> &Arc<RawFiles> {
        &self.own
    }

    /// Sets the node. Only the first call has an effect.
    pub(in crate::index) fn set_node(&self, node: Arc<dyn RawBlocks>) {
        // the first stays
        let _ = self.node.set(node);
    }

    pub(in crate::index) fn has_node(&self) -> bool {
        self.node.get().is_some()
    }

    /// Whether blocks up to a height can be read, as far as that is known without reading them: there is a node, or the raw
    /// files have them.
    pub(in crate::index) fn may_have(&self, last: Height) -> bool {
        self.has_node() || self.own.first_missing(Height::GENESIS) > last
    }

    /// What `check` makes of `length` bytes of a block from `offset` on, from the first source whose bytes pass it. The error of
    /// `check` says what is wrong with them.
    ///
    /// Errors: [`IndexError::RawUnavailable`]; [`IndexError::Corrupt`] if no block is so long.
    pub(in crate::index) fn read<T>(
        &self,
        block: Tip,
        offset: u32,
        length: u32,
        check: impl Fn(Vec<u8>) -> Result<T, String>,
    ) -> Result<T, IndexError> {
        if offset.saturating_add(length) > MAX_BLOCK_SIZE {
            let what = format!("{length} bytes at offset {offset} of block {} are more than a block has", block.hash);
            return Err(IndexError::corrupt("positions", what));
        }
        let own = self.own.read(block, offset, length).map(|read| read.and_then(&check));
        let why_not_own = match own {
            None => None,
            Some(Ok(checked)) => return Ok(checked),
            Some(Err(why)) => Some(why),
        };
        let node = self.read_node(block, offset, length, check);
        let why = match (node, why_not_own) {
            (Ok(checked), Some(why)) => {
                self.warn(block, &why);
                return Ok(checked);
            }
            (Ok(checked), None) => return Ok(checked),
            (Err(why), None) => why,
            (Err(why), Some(own)) => format!("the own raw file: {own}; the node: {why}"),
        };
        Err(unavailable(block, why))
    }

    /// What `check` makes of a whole block of `size` bytes, which is parsed and has the transactions and witnesses that its
    /// hash commits to.
    ///
    /// Errors: as [`RawSources::read`].
    pub(in crate::index) fn block(&self, block: Tip, size: u32, parser: Parser) -> Result<ParsedBlock, IndexError> {
        self.read(block, 0, size, |bytes| parse_whole(parser, block, bytes))
    }

    /// What a row of `raw_blocks` names, if it is this block, whole and undamaged. The error says what is wrong.
    pub(in crate::index) fn own_block(
        &self,
        block: Tip,
        row: BlockFileRow,
        parser: Parser,
    ) -> Result<ParsedBlock, String> {
        self.own.read_row(row, block.hash, 0, row.length).and_then(|bytes| parse_whole(parser, block, bytes))
    }

    /// Returns what [`RawSources::block`] does, but only the node is asked.
    ///
    /// Errors: [`IndexError::RawUnavailable`].
    pub(in crate::index) fn block_of_node(
        &self,
        block: Tip,
        size: u32,
        parser: Parser,
    ) -> Result<ParsedBlock, IndexError> {
        let read = self.read_node(block, 0, size, |bytes| parse_whole(parser, block, bytes));
        read.map_err(|why| unavailable(block, why))
    }

    /// Reads bytes as [`RawSources::read`] does, but only the node is asked. The error says what is wrong.
    pub(super) fn read_node<T>(
        &self,
        block: Tip,
        offset: u32,
        length: u32,
        check: impl Fn(Vec<u8>) -> Result<T, String>,
    ) -> Result<T, String> {
        let node = self.node.get().ok_or("no node is connected yet")?;
        let checked = |bytes: Vec<u8>| match u32::try_from(bytes.len()) {
            Ok(returned) if returned == length => check(bytes),
            _ => Err(format!("{} bytes were returned, not {length}", bytes.len())),
        };
        let first = node.read(block, offset, length).map_err(|error| error.to_string()).and_then(checked);
        // of both errors the first says where the bytes should be
        first.or_else(|why| node.read_elsewhere(block, offset, length).ok().and_then(|it| checked(it).ok()).ok_or(why))
    }

    /// Warns that own files are damaged, now and then.
    fn warn(&self, block: Tip, why: &str) {
        let mut warned = self.warned.lock();
        if warned.is_some_and(|warned| warned.elapsed() < WARNING_INTERVAL) {
            return;
        }
        *warned = Some(Instant::now());
        warn!(height = %block.height, %why, "a raw file of the index is damaged; the node returned the bytes instead");
    }
}

/// The block that these bytes are.
fn parse_whole(parser: Parser, Tip { hash, .. }: Tip, bytes: Vec<u8>) -> Result<ParsedBlock, String> {
    let parsed = parser.parse(hash, bytes).map_err(|error| format!("they are not the block: {error}"))?;
    if witnesses_are_committed(&parsed) {
        Ok(parsed)
    } else {
        Err("the witnesses that were returned are not those that its coinbase commits to".to_owned())
    }
}

pub(super) fn unavailable(Tip { height, hash }: Tip, why: String) -> IndexError {
    IndexError::RawUnavailable { height, hash, why }
}
