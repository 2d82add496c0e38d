//! Unspent outputs of a ledger, page by page.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use async_graphql::{Context, InputObject, Object, SimpleObject};
use bitcoin::OutPoint;

use super::super::block_at::BlockAt;
use super::super::connection::{Connection, Edge, PageInfo};
use super::super::cursor::{Place, Scope};
use super::super::enums::SortOrder;
use super::super::error::ApiError;
use super::super::output::Output;
use super::super::page::{Page, PageArgs, PageRequest, count_of};
use super::super::request::limits;
use super::super::scalars::{Sats, UInt53, int};
use super::super::transaction::Transaction;
use super::{Holdings, ROW_BYTES};
use crate::chain::Height;
use crate::view::{self, Coin, OutputPosition, View, mature_at};

/// Bytes of transactions that one page reads while it looks for what was unspent once.
const SCAN_BYTES: usize = 8 << 20;

/// Which unspent outputs to tell: those that meet all of these conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(in crate::api) struct UtxoFilter {
    /// Only outputs that at least this many blocks confirm, up to the one asked for: 1 in that block. 0 asks for all.
    #[graphql(default_with = "Some(0)")]
    min_confirmations: Option<i32>,
    /// Only outputs of at least this many satoshis.
    min_value: Option<Sats>,
    /// Whether to tell coinbase outputs that the next block may not spend yet.
    #[graphql(default_with = "Some(true)")]
    include_immature: Option<bool>,
}

impl UtxoFilter {
    /// Everything.
    const ALL: Self = Self { min_confirmations: Some(0), min_value: None, include_immature: Some(true) };

    /// The filter that is meant: null is the default.
    fn of(given: Option<Self>) -> Self {
        let Self { min_confirmations, min_value, include_immature } = given.unwrap_or(Self::ALL);
        Self {
            min_confirmations: min_confirmations.or(Self::ALL.min_confirmations),
            min_value,
            include_immature: include_immature.or(Self::ALL.include_immature),
        }
    }

    fn leaves_immature_out(&self) -> bool {
        self.include_immature == Some(false)
    }

    /// Whether rows are left out that lie between others.
    fn scans(&self) -> bool {
        self.min_value.is_some() || self.leaves_immature_out()
    }

    fn keeps(&self, coin: Coin, height: impl Fn() -> Result<Height, ApiError>, at: Height) -> Result<bool, ApiError> {
        if self.min_value.is_some_and(|least| coin.value < least.to_sat()) {
            return Ok(false);
        }
        Ok(!self.leaves_immature_out() || !coin.is_coinbase || mature_at(height()?) <= at.next())
    }
}

/// An unspent output.
#[derive(Clone)]
pub(in crate::api) struct Utxo {
    view: Arc<View>,
    coin: Coin,
    height: Height,
    /// The block after which it is told.
    at: Height,
}

impl Utxo {
    fn transaction(&self) -> Result<Arc<view::Transaction>, ApiError> {
        Transaction::read_one(&self.view, |view| view.newest_copy(self.coin.position.txnum)).map(Arc::new)
    }
}

/// An output that was unspent right after the block that was asked for. Amount, height and confirmations are told as of
/// that block; what `output` leads to is told as of now.
#[Object]
impl Utxo {
    /// The output, as it is now.
    async fn output(&self) -> Result<Output, ApiError> {
        Ok(Output::new(&self.view, &self.transaction()?, self.coin.position.vout))
    }

    /// The txid, a colon and the number of the output.
    async fn outpoint(&self) -> Result<String, ApiError> {
        let OutputPosition { txnum, vout } = self.coin.position;
        Ok(OutPoint { txid: self.view.txid_at(txnum)?, vout }.to_string())
    }

    /// Its amount in satoshis.
    async fn value(&self) -> Result<Sats, ApiError> {
        Sats::new(self.coin.value)
    }

    /// The height of the block that created it.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.height.to_u32())
    }

    /// How many blocks confirm it, up to the one that was asked for: 1 in that block.
    async fn confirmations(&self) -> Result<i32, ApiError> {
        int((self.at.to_u32() + 1).saturating_sub(self.height.to_u32()))
    }

    /// Whether a coinbase created it, so that it must mature before it can be spent.
    async fn is_coinbase(&self) -> bool {
        self.coin.is_coinbase
    }

    /// The lowest height of a block that may spend it: 100 above its own. Null unless a coinbase created it.
    async fn mature_at_height(&self) -> Option<Result<i32, ApiError>> {
        self.coin.is_coinbase.then(|| int(mature_at(self.height).to_u32()))
    }
}

/// A page of unspent outputs.
#[derive(SimpleObject)]
pub(in crate::api) struct UtxoConnection {
    /// The rows of this page with their cursors.
    edges: Vec<Edge<Utxo>>,
    /// The rows of this page.
    nodes: Vec<Utxo>,
    /// Whether there is more around this page.
    page_info: PageInfo,
    /// How many rows the whole list has, on all its pages. Null under a filter.
    total_count: Option<UInt53>,
    /// The sum of all rows of the whole list, in satoshis. Null under a filter.
    total_value: Option<Sats>,
}

impl Holdings {
    /// A page of the unspent outputs, newest first.
    pub(super) fn utxos(
        &self,
        ctx: &Context<'_>,
        filter: Option<UtxoFilter>,
        at: Option<BlockAt>,
        args: &PageArgs,
    ) -> Result<UtxoConnection, ApiError> {
        let filter = UtxoFilter::of(filter);
        let scope = Scope::new("utxos", self.owner.clone()).filtered(format!("{filter:?} {at:?}"));
        let request = args.read(&scope, &self.view, limits(ctx)?)?;
        self.count_scripts()?;
        // a page goes on from where the one before it was taken, whatever a moment means by now
        let (past, at) = match (at, request.from()) {
            (Some(_), Some(Place { block: Some(block), .. })) => (true, Some(BlockAt::Hash(block.into()))),
            (at, _) => (at.is_some(), at),
        };
        let at = BlockAt::resolve(at, &self.view)?;
        let (total_count, total_value) = if filter == UtxoFilter::ALL {
            let totals = self.view.totals(&self.ledger, &at)?;
            (Some(UInt53::new(totals.utxo_count()?)?), Some(Sats::new(totals.balance()?)?))
        } else {
            (None, None)
        };
        let page = if past {
            self.past_page(&request, &filter, &at, limits(ctx)?.scan_rows)?
        } else {
            self.present_page(&request, &filter, &at, limits(ctx)?.scan_rows)?
        };
        let held_by = |position| {
            let txnum = OutputPosition::from_u64(position).txnum;
            Ok(Some(if past { at.row.hash } else { self.view.block_hash_of(txnum)? }))
        };
        let Connection { edges, nodes, page_info, .. } = Connection::new(&scope, page, 0, held_by, |_, coin| {
            let height = self.view.height_of(coin.position.txnum)?;
            Ok(Utxo { view: self.view.clone(), coin, height, at: at.height })
        })?;
        Ok(UtxoConnection { edges, nodes, page_info, total_count, total_value })
    }

    /// The positions of outputs with enough confirmations right after a block.
    fn confirmed_positions(&self, filter: &UtxoFilter, at: &view::Block) -> Result<Range<u64>, ApiError> {
        let fewest = count_of("minConfirmations", filter.min_confirmations.unwrap_or_default())?;
        let heights = at.height.next().to_u32().saturating_sub(fewest.saturating_sub(1));
        let txnums = self.view.txnums(Height::GENESIS..Height::from(heights))?;
        Ok(0..OutputPosition::first_of(txnums.end).to_u64())
    }

    fn present_page(
        &self,
        request: &PageRequest,
        filter: &UtxoFilter,
        at: &view::Block,
        scan_rows: u32,
    ) -> Result<Page<Coin>, ApiError> {
        let walk = request.walk(self.confirmed_positions(filter, at)?, SortOrder::Desc);
        let coins = self.view.coins(&self.ledger, &output_positions(&walk.positions), walk.ascending)?;
        let rows = coins.map(|coin| {
            let coin = coin?;
            self.view.count(ROW_BYTES)?;
            let kept = filter.keeps(coin, || Ok(self.view.height_of(coin.position.txnum)?), at.height)?;
            Ok::<_, ApiError>((coin.position.to_u64(), kept.then_some(coin)))
        });
        request.page(|read| filter.scans() && read >= scan_rows, rows)
    }

    fn past_page(
        &self,
        request: &PageRequest,
        filter: &UtxoFilter,
        at: &view::Block,
        scan_rows: u32,
    ) -> Result<Page<Coin>, ApiError> {
        let walk = request.walk(self.confirmed_positions(filter, at)?, SortOrder::Desc);
        let candidates = self.view.coins_at(&self.ledger, at, &output_positions(&walk.positions), walk.ascending)?;
        let bytes = Cell::new(0_usize);
        let rows = candidates.map(|candidate| {
            let candidate = candidate?;
            bytes.set(bytes.get().saturating_add(candidate.bytes));
            self.view.count(ROW_BYTES.saturating_add(candidate.bytes))?;
            let kept = match candidate.coin {
                Some(coin) => filter.keeps(coin, || Ok(self.view.height_of(coin.position.txnum)?), at.height)?,
                None => false,
            };
            Ok::<_, ApiError>((candidate.position.to_u64(), candidate.coin.filter(|_| kept)))
        });
        request.page(|read| read >= scan_rows || bytes.get() > SCAN_BYTES, rows)
    }
}

fn output_positions(positions: &Range<u64>) -> Range<OutputPosition> {
    OutputPosition::from_u64(positions.start)..OutputPosition::from_u64(positions.end)
}
