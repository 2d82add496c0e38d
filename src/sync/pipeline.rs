//! Fetches blocks from the node for the writer: several requests at once, one thread that parses, and batches for the
//! writer. At most three batches exist at a time: one that is filled, one that waits, one at the writer.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bitcoin::BlockHash;

use super::error::SyncError;
use crate::index::{ParsedBlock, Parser};
use crate::node::{BlockFetcher, Node};

/// The bounds of the pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineLimits {
    /// Concurrent requests to the node.
    pub(super) connections: NonZeroUsize,
    /// Bytes of fetched blocks that are not parsed yet.
    pub(super) fetched_bytes: u64,
    /// Bytes of blocks in a batch.
    pub(super) batch_bytes: usize,
    /// Blocks in a batch.
    pub(super) batch_blocks: usize,
}

/// The blocks with these hashes, in order, in batches. It ends after the first error, which follows the blocks before
/// it, if there are any.
pub(super) struct Pipeline {
    batches: Receiver<Result<Vec<ParsedBlock>, SyncError>>,
}

impl Pipeline {
    pub(super) fn start(
        node: &Node,
        hashes: Vec<BlockHash>,
        parser: Parser,
        limits: PipelineLimits,
    ) -> Result<Self, SyncError> {
        let blocks = BlockFetcher::new(node, hashes, limits.connections, limits.fetched_bytes)?;
        let (sender, batches) = sync_channel(1);
        let parse = move || parse_all(blocks, parser, limits, &sender);
        thread::Builder::new().name("parse".into()).spawn(parse).map_err(SyncError::Threads)?;
        Ok(Self { batches })
    }
}

impl Iterator for Pipeline {
    type Item = Result<Vec<ParsedBlock>, SyncError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

/// Ends after the last block, after an error, or when the receiver is dropped.
fn parse_all(
    blocks: BlockFetcher,
    parser: Parser,
    limits: PipelineLimits,
    sender: &SyncSender<Result<Vec<ParsedBlock>, SyncError>>,
) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for fetched in blocks {
        let parsed = fetched.map_err(SyncError::from).and_then(|block| Ok(parser.parse(block.hash, block.bytes)?));
        match parsed {
            Ok(block) => {
                bytes += block.size();
                batch.push(block);
            }
            Err(error) => {
                // a failed send means that the receiver was dropped, here and below
                let sent = if batch.is_empty() { Ok(()) } else { sender.send(Ok(batch)) };
                let _ = sent.and_then(|()| sender.send(Err(error)));
                return;
            }
        }
        if bytes >= limits.batch_bytes || batch.len() >= limits.batch_blocks {
            bytes = 0;
            if sender.send(Ok(std::mem::take(&mut batch))).is_err() {
                return;
            }
        }
    }
    let _ = sender.send(Ok(batch));
}
