//! The raw bytes that the index does not store are read from the node.

use std::error::Error;

use crate::index::{RawBlocks, Tip};
use crate::node::NodeBlocks;

impl RawBlocks for NodeBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(NodeBlocks::read(self, block.height, &block.hash, offset, length)?)
    }
}
