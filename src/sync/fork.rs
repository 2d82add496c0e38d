//! Where the index and the node part.

use bitcoin::BlockHash;

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{Snapshot, Tip};
use crate::node::{ChainTipStatus, Node, NodeError};

/// The highest block that is in both active chains, `None` if the index is empty.
///
/// Two chains that agree at a height agree everywhere below it. Branches are mostly short, so it is looked for from the
/// tip down in strides that double, and then between the last two: in one question to the node when it only went on, and
/// in two for each binary digit of the depth otherwise.
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

/// The block at this height, if both have the same.
fn agreement(node: &Node, chain: &Snapshot, height: Height) -> Result<Option<Tip>, SyncError> {
    let hash = our_hash(chain, height)?;
    Ok((node.block_hash(height)? == Some(hash)).then_some(Tip { height, hash }))
}

/// Moves the fork point up over the first of the hashes behind it that are in the index's chain too: the node's chain may
/// have changed while the fork point was looked for, and no block is disconnected only to be connected again.
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

/// Whether the index may go down to `fork` although the node offers no other block in return. It may not when the node
/// is merely behind on the same chain, as after `-reindex`, with a new data directory, or when it was killed and connects
/// anew what it had not written down: nothing of these blocks was undone, and nobody may be told so. It may when the node
/// holds the blocks that it left for invalid.
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

/// Whether the node holds a branch for invalid that reaches this height and leaves the active chain where `leaves` says.
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
