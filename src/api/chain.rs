use std::sync::Arc;

use async_graphql::{ID, Object};

use super::block_at::{BlockAt, height_of};
use super::chain_summary::ChainSummary;
use super::error::ApiError;
use super::node::CHAIN_ID;
use super::range_stats::RangeStats;
use super::scalars::BlockHash;
use super::supply::Supply;
use crate::chain::{Height, network};
use crate::view::View;

/// The main chain.
#[derive(Clone)]
pub(super) struct Chain {
    view: Arc<View>,
}

impl Chain {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    fn sum(&self, from: Option<i32>, to: Option<i32>, last: Option<i32>) -> Result<RangeStats, ApiError> {
        let (from, to) = ends(from, to, last, self.view.tip().height)?;
        Ok(RangeStats(self.view.range(from, to)?))
    }
}

/// The first and the last height of the range that is asked for.
///
/// Errors: BAD_USER_INPUT for arguments that contradict each other, and for blocks that do not exist (yet).
fn ends(from: Option<i32>, to: Option<i32>, last: Option<i32>, tip: Height) -> Result<(Height, Height), ApiError> {
    if let Some(last) = last {
        if from.is_some() || to.is_some() {
            return Err(ApiError::bad_user_input(
                "last and heights do not go together: give last, or fromHeight and toHeight",
            ));
        }
        let blocks = u32::try_from(last).ok().filter(|blocks| *blocks > 0);
        let blocks = blocks
            .ok_or_else(|| ApiError::bad_user_input(format!("last is {last}: a range has at least one block")))?;
        return Ok((tip.to_u32().saturating_sub(blocks - 1).into(), tip));
    }
    let from = from.map_or(Ok(Height::GENESIS), |height| height_of("fromHeight", height))?;
    let to = to.map_or(Ok(tip), |height| height_of("toHeight", height))?;
    for (name, height) in [("fromHeight", from), ("toHeight", to)] {
        if height > tip {
            return Err(ApiError::bad_user_input(format!(
                "{name} is {height}, and there is no such block yet: the tip is at {tip}"
            )));
        }
    }
    if from > to {
        return Err(ApiError::bad_user_input(format!("fromHeight is {from}, which is above the toHeight {to}")));
    }
    Ok((from, to))
}

/// The main chain as a whole.
#[Object]
impl Chain {
    /// `Chain:main`.
    pub(super) async fn id(&self) -> ID {
        CHAIN_ID.into()
    }

    /// The network: mainnet, testnet3, testnet4, signet or regtest.
    async fn network(&self) -> &'static str {
        network::name(self.view.network())
    }

    /// The hash of its first block.
    async fn genesis_hash(&self) -> BlockHash {
        BlockHash(network::genesis_hash(self.view.network()))
    }

    /// Its main figures at the tip.
    async fn summary(&self) -> Result<ChainSummary, ApiError> {
        ChainSummary::of(&self.view)
    }

    /// How many coins there are, and which of them can never be spent.
    async fn supply(
        &self,
        #[graphql(desc = "Right after which block of the main chain; after the tip if none is given.")] at: Option<
            BlockAt,
        >,
    ) -> Option<Result<Supply, ApiError>> {
        let block = BlockAt::resolve(at, &self.view);
        Some(block.and_then(|block| Supply::of(&self.view, block)))
    }

    /// The sums over a range of blocks, however long: from a height to another, the last blocks, or the whole chain if
    /// nothing is given.
    async fn range(
        &self,
        #[graphql(desc = "The height of the first block; 0 if not given. It must exist.")] from_height: Option<i32>,
        #[graphql(desc = "The height of the last block; the tip if not given. It must exist.")] to_height: Option<i32>,
        #[graphql(
            desc = "This many blocks up to the tip, without heights. If the chain has fewer, all of them; at least 1."
        )]
        last: Option<i32>,
    ) -> Option<Result<RangeStats, ApiError>> {
        Some(self.sum(from_height, to_height, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_named_by_heights_by_its_length_or_not_at_all() {
        for (from, to, last, first, end) in [
            (None, None, None, 0, 9),
            (Some(3), None, None, 3, 9),
            (None, Some(3), None, 0, 3),
            (Some(3), Some(3), None, 3, 3),
            (Some(9), Some(9), None, 9, 9),
            (None, None, Some(1), 9, 9),
            (None, None, Some(10), 0, 9),
            (None, None, Some(i32::MAX), 0, 9),
        ] {
            assert_eq!(ends(from, to, last, 9.into()), Ok((first.into(), end.into())), "{from:?} {to:?} {last:?}");
        }
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        for (from, to, last) in [
            (Some(-1), None, None),
            (None, Some(-1), None),
            (Some(10), None, None),
            (None, Some(10), None),
            (Some(4), Some(3), None),
            (None, None, Some(0)),
            (None, None, Some(i32::MIN)),
            (Some(1), None, Some(1)),
            (None, Some(1), Some(1)),
        ] {
            let refusal = ends(from, to, last, 9.into()).unwrap_err();
            assert_eq!(refusal.code(), "BAD_USER_INPUT", "{from:?} {to:?} {last:?}");
        }
    }
}
