//! Blocks on their way from the node to the writer: fetched several at once, parsed on a thread of their own, handed
//! over in batches. At most three batches exist at a time: one being filled, one waiting, one being written.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bitcoin::BlockHash;

use super::error::SyncError;
use crate::index::{ParsedBlock, Parser};
use crate::node::{BlockFetcher, Node};

/// How much is under way at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineLimits {
    /// Requests to the node.
    pub(super) connections: NonZeroUsize,
    /// Bytes of blocks fetched and not yet parsed.
    pub(super) fetched_bytes: u64,
    /// Bytes of blocks in a batch.
    pub(super) batch_bytes: usize,
    /// Blocks in a batch.
    pub(super) batch_blocks: usize,
}

/// The blocks with these hashes, in order, in batches. An error ends it, after the blocks before it.
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

/// Ends when the blocks end, after an error, or when nobody takes the batches any more.
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
                // an error to send means that nobody listens any more, here and below
                let _ = sender.send(Ok(batch)).and_then(|()| sender.send(Err(error)));
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
