//! Where the check of a closed index reads the bytes of frozen blocks, which the index does not have.

use std::error::Error;
use std::sync::Arc;

use btcgraph::index::{Index, RawBlocks, Tip};
use btcgraph::node::Node;

/// Lets the check read frozen blocks from the node. A server sets its own reader when it opens the index, which the
/// snapshot that it checks keeps.
pub(super) fn read_frozen_blocks_from(node: &Node, index: &Index) {
    index.set_raw_blocks(Arc::new(BlocksOfNode(node.clone())));
}

/// Requests whole blocks, for the check reads nothing less.
struct BlocksOfNode(Node);

impl RawBlocks for BlocksOfNode {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let mut bytes = self.0.block(&block.hash)?;
        let (offset, length) = (usize::try_from(offset)?, usize::try_from(length)?);
        let end = offset.checked_add(length).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(|| format!("the node's block has {} bytes", bytes.len()))?;
        bytes.truncate(end);
        bytes.drain(..offset);
        Ok(bytes)
    }
}
