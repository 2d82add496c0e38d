//! What only the node knows of a block: the state of soft forks, and compact filters.

use std::sync::Arc;

use bitcoin::BlockHash;

use super::node_client::{NodeClient, NodeClientError};
use crate::node::{Answer, CompactFilter, Deployments, Question};

impl NodeClient {
    /// The soft forks that the node knows, as of a block.
    pub async fn deployments(&self, block: BlockHash) -> Result<Arc<Deployments>, Arc<NodeClientError>> {
        match self.load(Question::Deployments(block)).await? {
            Answer::Deployments(deployments) => Ok(deployments),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// The compact filter of a block. Errors: the node has no index of filters, or the index lacks the block yet, too.
    pub async fn compact_filter(&self, block: BlockHash) -> Result<Arc<CompactFilter>, Arc<NodeClientError>> {
        match self.load(Question::CompactFilter(block)).await? {
            Answer::CompactFilter(filter) => Ok(filter),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }
}
