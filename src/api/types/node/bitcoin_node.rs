use async_graphql::SimpleObject;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, int};
use crate::api::types::enums::NetworkEnum;
use crate::chain::network::from_core_chain;
use crate::view::{ChainInfo, NetworkInfo, NodeClient};

/// The Bitcoin node that this server follows, queried now. Its chain can be ahead of the rest of this answer.
#[derive(Default, SimpleObject)]
pub(crate) struct BitcoinNode {
    /// Whether the node responds. If false, all other fields are null.
    is_reachable: bool,
    /// The version of the node's software, such as 29.5.0.
    software_version: Option<String>,
    /// The user agent that the node announces to its peers (BIP14).
    subversion: Option<String>,
    /// The network of the node. Null if this server does not know it.
    network: Option<NetworkEnum>,
    /// The height of the node's newest block.
    height: Option<i32>,
    /// The height of the node's newest header. Above `height` while the node downloads blocks.
    header_height: Option<i32>,
    /// The hash of the node's newest block.
    best_block_hash: Option<BlockHash>,
    /// The node's estimate of the share of the chain that it has verified, from 0 to 1.
    verification_progress: Option<f64>,
    /// Whether the node considers itself in initial block download. Also true if its newest block is old.
    is_initial_block_download: Option<bool>,
    /// Whether the node prunes old blocks.
    pruned: Option<bool>,
    /// The number of peers that the node is connected to.
    peer_count: Option<i32>,
    /// The node's warnings. Empty if there are none.
    #[graphql(complexity = "costs::few(child_complexity)")]
    warnings: Option<Vec<String>>,
}

impl FieldCacheability for BitcoinNode {
    const NEVER: &'static str = "isReachable softwareVersion subversion network height headerHeight bestBlockHash \
        verificationProgress isInitialBlockDownload pruned peerCount warnings";
}

impl BitcoinNode {
    /// What the node says of itself. A node that answers a part of it is reachable.
    pub(crate) async fn ask(ask: &NodeClient) -> Result<Self, ApiError> {
        let (chain, network) = tokio::join!(ask.chain_info(), ask.network_info());
        let mut node = Self::default();
        if let Ok(chain) = chain {
            node.add_chain(&chain)?;
        }
        if let Ok(network) = network {
            node.add_network(&network)?;
        }
        Ok(node)
    }

    fn add_chain(&mut self, info: &ChainInfo) -> Result<(), ApiError> {
        self.is_reachable = true;
        self.network = from_core_chain(&info.chain).ok().map(NetworkEnum::from);
        self.height = Some(int(info.blocks.to_u32())?);
        self.header_height = Some(int(info.headers.to_u32())?);
        self.best_block_hash = Some(BlockHash(info.best_block_hash));
        self.verification_progress = Some(info.verification_progress);
        self.is_initial_block_download = Some(info.initial_block_download);
        self.pruned = Some(info.pruned);
        // the network's answer has the same ones
        self.warnings = Some(info.warnings.clone());
        Ok(())
    }

    fn add_network(&mut self, info: &NetworkInfo) -> Result<(), ApiError> {
        self.is_reachable = true;
        self.software_version = Some(version(info.version));
        self.subversion = Some(info.subversion.clone());
        self.peer_count = Some(int(info.connections)?);
        self.warnings = Some(info.warnings.clone());
        Ok(())
    }
}

/// A version number as people write it (Core `CLIENT_VERSION`: two digits for each part but the first).
fn version(number: u32) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!(super::version(290_500), "29.5.0");
        assert_eq!(super::version(300_001), "30.0.1");
        assert_eq!(super::version(210_102), "21.1.2");
    }
}
