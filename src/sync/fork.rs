//! Where the index and the node part.

use bitcoin::BlockHash;

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{Snapshot, Tip};
use crate::node::Node;

/// The highest block that is in both active chains, `None` if the index is empty.
///
/// Two chains that agree at a height agree everywhere below it, so it is found in as many questions to the node as the
/// height has binary digits, and in one when the node only went on.
pub(super) fn fork_point(node: &Node, chain: &Snapshot) -> Result<Option<Tip>, SyncError> {
    let Some(tip) = chain.tip() else { return Ok(None) };
    if node.block_hash(tip.height)? == Some(tip.hash) {
        return Ok(Some(tip));
    }
    let (mut agrees, mut differs) = (agreement_at_genesis(node, chain)?, tip.height.to_u32());
    while differs - agrees.height.to_u32() > 1 {
        let middle = Height::from(agrees.height.to_u32() + (differs - agrees.height.to_u32()) / 2);
        let ours = our_hash(chain, middle)?;
        if node.block_hash(middle)? == Some(ours) {
            agrees = Tip { height: middle, hash: ours };
        } else {
            differs = middle.to_u32();
        }
    }
    Ok(Some(agrees))
}

fn agreement_at_genesis(node: &Node, chain: &Snapshot) -> Result<Tip, SyncError> {
    let expected = our_hash(chain, Height::GENESIS)?;
    match node.block_hash(Height::GENESIS)? {
        Some(found) if found != expected => Err(SyncError::ForeignChain { found, expected }),
        _ => Ok(Tip { height: Height::GENESIS, hash: expected }),
    }
}

fn our_hash(chain: &Snapshot, height: Height) -> Result<BlockHash, SyncError> {
    Ok(chain.block_hash(height)?)
}
