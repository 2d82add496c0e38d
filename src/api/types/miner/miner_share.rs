use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use async_graphql::{Context, Object};

use super::Miner;
use super::miner_totals::MinerTotalsObject;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int;
use crate::api::types::block::{AUDITS, AuditTotals, BlockRangeInput, compared_blocks};
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::view::{ComparedBlocks, MinerTotals, View};

/// How many pools a range of blocks is taken to have before they are counted.
pub(crate) const POOLS: usize = 25;

/// What the miners of a range of blocks have in common.
struct MinerRange {
    view: Arc<View>,
    heights: Range<Height>,
    /// The number of blocks.
    blocks: u32,
    /// The hashrate of all of them, if time passed.
    hashrate: Option<f64>,
    /// The stale blocks of each miner, read once for all.
    stale: OnceLock<HashMap<Option<PoolId>, u32>>,
    /// Its blocks that were compared with the projected ones, read once for all.
    compared: OnceLock<ComparedBlocks>,
}

impl MinerRange {
    /// Counts the pools of the server's table, of each of which two rows are read.
    fn read(ctx: &Context<'_>, view: &Arc<View>, range: Option<BlockRangeInput>) -> Result<Arc<Self>, ApiError> {
        let (first, last) = BlockRangeInput::first_and_last("range", range, view)?;
        costs::spend(ctx, view.pools().iter().count())?;
        let totals = view.range(first, last)?;
        Ok(Arc::new(Self {
            view: view.clone(),
            heights: first..last.next(),
            blocks: totals.blocks(),
            hashrate: totals.span()?.map(|span| span.hashrate()),
            stale: OnceLock::default(),
            compared: OnceLock::default(),
        }))
    }

    fn compared(&self, ctx: &Context<'_>) -> Result<&ComparedBlocks, ApiError> {
        if let Some(compared) = self.compared.get() {
            return Ok(compared);
        }
        let compared = compared_blocks(ctx, &self.view, self.heights.clone())?;
        Ok(self.compared.get_or_init(|| compared))
    }

    fn stale(&self) -> Result<&HashMap<Option<PoolId>, u32>, ApiError> {
        if let Some(stale) = self.stale.get() {
            return Ok(stale);
        }
        let count = |bytes| self.view.count(bytes).map_err(ApiError::from);
        let stale = self.view.stale_blocks_by_miner(&self.heights, count)?;
        Ok(self.stale.get_or_init(|| stale))
    }
}

/// One miner of a range of blocks.
pub(crate) struct MinerShare {
    range: Arc<MinerRange>,
    miner: Option<PoolId>,
    /// The rank of the pool, `None` without blocks and for what is ascribed to none.
    rank: Option<u32>,
    totals: MinerTotals,
}

impl MinerShare {
    /// The miners of a range, most blocks first, with their ranks. The whole chain without a range.
    ///
    /// Errors: BAD_USER_INPUT for an empty range, QUERY_LIMIT_EXCEEDED, NOT_READY.
    pub(crate) fn all(
        ctx: &Context<'_>,
        view: &Arc<View>,
        range: Option<BlockRangeInput>,
    ) -> Result<Vec<Self>, ApiError> {
        let range = MinerRange::read(ctx, view, range)?;
        let miners = view.miners(&range.heights)?;
        Ok(Self::ranked(&range, miners))
    }

    /// The part of one pool in a range, without a rank if that has none of its blocks.
    ///
    /// Errors: as of [`MinerShare::all`].
    pub(super) fn of(
        ctx: &Context<'_>,
        view: &Arc<View>,
        pool: PoolId,
        range: Option<BlockRangeInput>,
    ) -> Result<Self, ApiError> {
        let range = MinerRange::read(ctx, view, range)?;
        let shares = Self::ranked(&range, view.miners(&range.heights)?);
        let own = shares.into_iter().find(|share| share.miner == Some(pool));
        Ok(own.unwrap_or(Self { range, miner: Some(pool), rank: None, totals: MinerTotals::default() }))
    }

    fn ranked(range: &Arc<MinerRange>, miners: Vec<(Option<PoolId>, MinerTotals)>) -> Vec<Self> {
        // the pools so far, and the rank and the number of blocks of the last of them
        let (mut pools, mut last) = (0_u32, None);
        let share = |(miner, totals): (Option<PoolId>, MinerTotals)| {
            let rank = miner.map(|_| {
                pools = pools.saturating_add(1);
                let rank = last.filter(|(_, blocks)| *blocks == totals.blocks).map_or(pools, |(rank, _)| rank);
                last = Some((rank, totals.blocks));
                rank
            });
            Self { range: range.clone(), miner, rank, totals }
        };
        miners.into_iter().map(share).collect()
    }

    fn fraction(&self) -> f64 {
        f64::from(self.totals.blocks) / f64::from(self.range.blocks.max(1))
    }
}

impl FieldCacheability for MinerShare {
    const UNTIL_NEXT_HEAD: &'static str = "miner rank share hashrate stats audits staleBlockCount";
}

/// The part that a mining pool has in a range of main chain blocks.
#[Object]
impl MinerShare {
    /// The pool. Null for all blocks together that are ascribed to no pool that the server knows.
    async fn miner(&self) -> Option<Miner> {
        self.miner.map(|pool| Miner::new(&self.range.view, pool))
    }

    /// The rank of the pool in the range by its number of blocks, from 1: one more than the number of pools with more blocks, so
    /// pools with the same number share a rank. Null for a pool without blocks, and for the blocks that are ascribed to no pool.
    async fn rank(&self) -> Result<Option<i32>, ApiError> {
        self.rank.map(int).transpose()
    }

    /// The fraction of the blocks that are the pool's, from 0 to 1. The shares of a range add up to 1.
    async fn share(&self) -> f64 {
        self.fraction()
    }

    /// The hashrate of the pool, in hashes per second: its share of the hashrate that `Chain.range` estimates from the same
    /// blocks. The fewer blocks it found, the rougher: of n blocks the error is about one in the square root of n. Null if no
    /// time passed.
    async fn hashrate(&self) -> Option<f64> {
        self.range.hashrate.map(|hashrate| hashrate * self.fraction())
    }

    /// The totals of the pool's blocks.
    async fn stats(&self) -> MinerTotalsObject {
        MinerTotalsObject(self.totals)
    }

    /// How the pool's blocks compare with the projected ones: all that this server compared. A row is read for each
    /// block of the range that it saw arrive, once for all pools, and three count as a field against the limit of an answer; so do,
    /// for each pool, 50 of its own blocks, and each part of the range without a gap in what was compared. Null only together with an
    /// error.
    #[graphql(complexity = "costs::more(AUDITS, child_complexity)")]
    async fn audits(&self, ctx: &Context<'_>) -> Option<Result<AuditTotals, ApiError>> {
        let of = |compared| AuditTotals::of_miner(ctx, &self.range.view, compared, self.miner);
        Some(self.range.compared(ctx).and_then(of))
    }

    /// The number of stale blocks at the heights of the range that are ascribed to the pool, of those that the server
    /// stores (`Query.staleBlocks`). Their coinbases are read, and count against the limit on transaction bytes in one answer
    /// (`server.limits.pages.transactionBytes`). Null only together with an error.
    async fn stale_block_count(&self) -> Option<Result<i32, ApiError>> {
        let found = self.range.stale().map(|stale| stale.get(&self.miner).copied().unwrap_or(0));
        Some(found.and_then(int))
    }
}
