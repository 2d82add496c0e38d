//! What only the node knows of a block: the state of soft forks, and compact filters.

use std::sync::Arc;

use bitcoin::BlockHash;

use super::client::{NodeClient, NodeClientError};
use crate::node::{Answer, CompactFilter, Deployments, NO_FILTER_INDEX, NodeError, Question};

/// Why a node has no compact filter of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFilter {
    /// It runs without an index of filters.
    NoIndex,
    /// Its index does not have the block yet.
    NotIndexed,
}

impl NodeClientError {
    /// Whether the node runs without an index of compact filters, or lacks the filter of a block in it yet.
    #[must_use]
    pub fn missing_filter(&self) -> Option<MissingFilter> {
        match self {
            Self::Node(NodeError::Rpc { code: NO_FILTER_INDEX, method, message }) if method == "getblockfilter" => {
                let has_none = message.contains("not enabled");
                Some(if has_none { MissingFilter::NoIndex } else { MissingFilter::NotIndexed })
            }
            _ => None,
        }
    }
}

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
