//! Finds the block where the chains of the index and the node fork.

use bitcoin::BlockHash;

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{Snapshot, Tip};
use crate::node::{ChainTipStatus, Node, NodeError};

/// The highest block that is in both active chains, `None` if the index is empty.
///
/// Two chains that agree at a height agree everywhere below it. Branches are mostly short, so the search descends from
/// the tip in strides that double, and then bisects the last stride: one request if the node only extended its chain,
/// otherwise two for each binary digit of the depth.
pub(super) fn fork_point(node: &Node, chain: &Snapshot) -> Result<Option<Tip>, SyncError> {
    let Some(tip) = chain.tip() else { return Ok(None) };
    if node.block_hash(tip.height)? == Some(tip.hash) {
        return Ok(Some(tip));
    }
    let (mut agrees, mut differs) = (None, tip.height.to_u32());
    let mut stride = 1;
    while agrees.is_none() && differs > stride {
        let below = differs - stride;
        agrees = agreement(node, chain, below.into())?;
        if agrees.is_none() {
            differs = below;
            stride *= 2;
        }
    }
    let mut agrees = match agrees {
        Some(agrees) => agrees,
        None => agreement_at_genesis(node, chain)?,
    };
    while differs - agrees.height.to_u32() > 1 {
        let middle = Height::from(agrees.height.to_u32() + (differs - agrees.height.to_u32()) / 2);
        match agreement(node, chain, middle)? {
            Some(higher) => agrees = higher,
            None => differs = middle.to_u32(),
        }
    }
    Ok(Some(agrees))
}

/// The block at this height, if both chains contain it.
fn agreement(node: &Node, chain: &Snapshot, height: Height) -> Result<Option<Tip>, SyncError> {
    let hash = our_hash(chain, height)?;
    Ok((node.block_hash(height)? == Some(hash)).then_some(Tip { height, hash }))
}

/// Moves the fork point up over hashes that the index has at the same heights. The node's chain may have changed during
/// the search, and no block should be disconnected only to be connected again.
pub(super) fn skip_common(
    chain: &Snapshot,
    fork: &mut Option<Tip>,
    hashes: &mut Vec<BlockHash>,
) -> Result<(), SyncError> {
    let Some(agreed) = fork else { return Ok(()) };
    let mut common = 0;
    for hash in hashes.iter() {
        let next = agreed.height.next();
        if chain.block(next)?.is_none_or(|row| row.hash != *hash) {
            break;
        }
        *agreed = Tip { height: next, hash: *hash };
        common += 1;
    }
    hashes.drain(..common);
    Ok(())
}

/// Whether the index may disconnect down to `fork` although the node has no other block instead. It may not if the node
/// is only behind on the same chain, as after `-reindex`, with a new data directory, or after a crash that lost its
/// newest blocks: these blocks were not reorganised, and no client may be sent a disconnection. It may if the node
/// considers the disconnected blocks invalid.
///
/// Errors: [`SyncError::NodeBehind`].
pub(super) fn refuse_to_shrink(node: &Node, tip: Option<Tip>, fork: Option<Tip>) -> Result<(), SyncError> {
    let (Some(tip), Some(fork)) = (tip, fork) else { return Ok(()) };
    if is_on_invalid_branch(node, tip.height, |leaves_at| leaves_at == fork.height.to_u32())? {
        Ok(())
    } else {
        Err(SyncError::NodeBehind { node: fork.height, index: tip.height })
    }
}

/// Whether the node has an invalid branch that reaches this height and leaves the active chain at a height for which
/// `leaves` is true.
pub(super) fn is_on_invalid_branch(
    node: &Node,
    height: Height,
    leaves: impl Fn(u32) -> bool,
) -> Result<bool, NodeError> {
    Ok(node.chain_tips()?.into_iter().any(|branch| {
        let leaves_at = branch.height.to_u32().checked_sub(branch.branch_length);
        branch.status == ChainTipStatus::Invalid && branch.height >= height && leaves_at.is_some_and(&leaves)
    }))
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
