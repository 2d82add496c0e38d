//! What all ledgers answer with: the coins of some scripts in one view.

use std::ops::Range;
use std::sync::Arc;

use async_graphql::{Context, Interface};
use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, sha256};

use super::address::Address;
use super::balance::Balance;
use super::balance_point::BalancePoint;
use super::descriptor_account::DescriptorAccount;
use super::entry::{LedgerEntry, LedgerFilter};
use super::script::Script;
use super::set::AddressSet;
use super::totals::LedgerTotalsObject;
use super::utxo::{UtxoConnection, UtxoFilter};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine::List;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::{Connection, asks_for_total_count};
use crate::api::pagination::cursor::{GivenCursor, Scope};
use crate::api::pagination::page::{PageArgs, height_at};
use crate::api::pagination::pending_list::{ListPosition, PendingListPlace, PendingListState};
use crate::api::types::block::{Block, BlockAt, BlockRangeInput};
use crate::api::types::enums::{SeriesGroupEnum, SortOrder};
use crate::chain::Height;
use crate::view::{self, Dependency, Movements, Pending, ScriptKey, TxNum, View};

/// A script, an address, a set of them or the account of a descriptor: what it received and spent, and its balance, now or right after any block of
/// the main chain.
// the same argument of two fields is described twice
#[allow(clippy::duplicated_attributes)]
#[derive(Clone, Interface)]
#[graphql(
    field(
        name = "stats",
        ty = "Option<Result<LedgerTotalsObject, ApiError>>",
        desc = "What the ledger received and spent over its whole history. All zeros if it was never used.",
        arg(
            name = "at",
            ty = "Option<BlockAt>",
            desc = "The state right after this block, without the mempool; the current state if not given."
        )
    ),
    field(
        name = "balance",
        ty = "Option<Result<Balance, ApiError>>",
        desc = "The balance of the ledger. All zeros if it was never used.",
        arg(
            name = "at",
            ty = "Option<BlockAt>",
            desc = "The state right after this block, without the mempool; the current state if not given."
        )
    ),
    field(
        name = "balance_history",
        ty = "Option<Result<List<BalancePoint>, ApiError>>",
        desc = "The balance over time: a point for each period in which a transaction paid or spent the ledger, oldest \
                first, with the balance at its end. At most `server.limits.pages.pointsPerSeries`; beyond it, give a range or a longer \
                period. Example: `{ address(address: \"bc1q…\") { balanceHistory(range: { lastBlocks: 52560 }, group: \
                DAY, includeEmpty: true) { startAt balanceAfter turnover { received spent } } } }`.",
        arg(name = "range", ty = "Option<BlockRangeInput>", desc = "The blocks. The whole chain if not given."),
        arg(
            name = "group",
            ty = "Option<SeriesGroupEnum>",
            desc = "What a point stands for.",
            default_with = "Some(SeriesGroupEnum::Day)"
        ),
        arg(
            name = "include_empty",
            ty = "Option<bool>",
            desc = "Whether to include the periods in which no transaction paid or spent the ledger: a point for each, as \
                    a chart needs; with `range.times` from its start to its end, but for what is before the \
                    genesis block and after the tip.",
            default_with = "Some(false)"
        ),
    ),
    field(
        name = "utxos",
        ty = "Option<Result<UtxoConnection, ApiError>>",
        desc = "The unspent outputs, newest first: unconfirmed outputs by arrival in the mempool, then confirmed ones. \
                With `at`, the server reads the history up to that block, so a page may have fewer items than \
                requested, as with a filter.",
        arg(name = "filter", ty = "Option<UtxoFilter>", desc = "Only outputs that meet all of these conditions."),
        arg(
            name = "at",
            ty = "Option<BlockAt>",
            desc = "The state right after this block, without the mempool; the current state if not given."
        ),
        arg(
            name = "first",
            ty = "Option<i32>",
            desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`."
        ),
        arg(name = "after", ty = "Option<String>", desc = "Only items after the item with this cursor."),
        arg(name = "last", ty = "Option<i32>", desc = "Maximum number of items from the end, or before `before`."),
        arg(name = "before", ty = "Option<String>", desc = "Only items before the item with this cursor."),
    ),
    field(
        name = "transactions",
        ty = "Option<Result<Connection<LedgerEntry>, ApiError>>",
        desc = "The transactions that pay or spend the ledger. Unconfirmed ones count as newer than all confirmed ones \
                and are ordered by arrival in the mempool.",
        arg(
            name = "filter",
            ty = "Option<LedgerFilter>",
            desc = "Only transactions that meet all of these conditions."
        ),
        arg(
            name = "order",
            ty = "Option<SortOrder>",
            desc = "Whether the newest or the oldest come first.",
            default_with = "Some(SortOrder::Desc)"
        ),
        arg(
            name = "first",
            ty = "Option<i32>",
            desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`."
        ),
        arg(name = "after", ty = "Option<String>", desc = "Only items after the item with this cursor."),
        arg(name = "last", ty = "Option<i32>", desc = "Maximum number of items from the end, or before `before`."),
        arg(name = "before", ty = "Option<String>", desc = "Only items before the item with this cursor."),
    ),
    field(
        name = "coinbase_blocks",
        ty = "Option<Result<Connection<Block>, ApiError>>",
        desc = "The blocks whose coinbase pays the ledger, newest first.",
        arg(
            name = "first",
            ty = "Option<i32>",
            desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`."
        ),
        arg(name = "after", ty = "Option<String>", desc = "Only items after the item with this cursor."),
        arg(name = "last", ty = "Option<i32>", desc = "Maximum number of items from the end, or before `before`."),
        arg(name = "before", ty = "Option<String>", desc = "Only items before the item with this cursor."),
    )
)]
pub(crate) enum Ledger {
    /// An address.
    Address(Address),
    /// A script.
    Script(Script),
    /// Several addresses and scripts together.
    AddressSet(AddressSet),
    /// The used scripts of a descriptor.
    DescriptorAccount(DescriptorAccount),
}

impl FieldCacheability for Ledger {
    const BY_ARGUMENT: &'static str = "stats balance balanceHistory utxos";
    const UNTIL_NEXT_HEAD: &'static str = "transactions coinbaseBlocks";
}

/// What a row of one script weighs in what an answer may read.
pub(crate) const ROW_BYTES: usize = 128;

/// What the number of a transaction of the mempool weighs in the same.
pub(crate) const SEQUENCE_BYTES: usize = 8;

/// The coins of some scripts, and the view they are looked at in.
#[derive(Clone)]
pub(crate) struct Holdings {
    pub(crate) view: Arc<View>,
    pub(crate) ledger: Arc<view::Ledger>,
    /// How each script of the ledger is written: its address, or the script itself. Sorted by key.
    pub(crate) names: Arc<[(ScriptKey, String)]>,
    /// What names the ledger in cursors: the id of the object, or its content.
    pub(crate) owner: String,
}

impl Holdings {
    /// The holdings of the scripts with these SHA-256, each with how it is written.
    pub(crate) fn new(
        view: &Arc<View>,
        owner: String,
        scripts: impl IntoIterator<Item = (sha256::Hash, String)>,
    ) -> Self {
        let (hashes, names): (Vec<_>, Vec<_>) = scripts.into_iter().unzip();
        let ledger = view.ledger(hashes.iter().copied());
        let mut names: Vec<_> = hashes.iter().map(|hash| view.script_hash_key(hash)).zip(names).collect();
        names.sort_unstable();
        names.dedup_by_key(|(key, _)| *key);
        Self { view: view.clone(), ledger: Arc::new(ledger), names: names.into(), owner }
    }

    /// How a script of the ledger is written.
    pub(crate) fn name(&self, script: ScriptKey) -> Option<&str> {
        let index = self.names.binary_search_by_key(&script, |(key, _)| *key).ok()?;
        Some(&self.names[index].1)
    }

    /// Counts reading one row of each script, before that is done.
    pub(crate) fn count_scripts(&self) -> Result<(), ApiError> {
        Ok(self.view.count(self.ledger.scripts().len().saturating_mul(ROW_BYTES))?)
    }

    /// How many transactions among these paid or spent the ledger; `None` if that takes reading more than `most` rows.
    /// Those that it takes are charged, and count as read.
    pub(crate) fn count_movements(
        &self,
        ctx: &Context<'_>,
        txnums: &Range<TxNum>,
        most: u32,
    ) -> Result<Option<Movements>, ApiError> {
        self.view.count_movements(&self.ledger, txnums, |rows| {
            if rows > most {
                return Ok(false);
            }
            self.count_merged(ctx, rows, ROW_BYTES)?;
            Ok::<_, ApiError>(true)
        })
    }

    /// How many transactions of the mempool pay or spend the ledger; `None` if that takes reading more than `most` rows.
    /// Those that it takes are charged, and count as read.
    pub(crate) fn count_pending(&self, ctx: &Context<'_>, most: u64) -> Result<Option<u64>, ApiError> {
        self.view.count_pending(&self.ledger, |rows| {
            if rows > most {
                return Ok(false);
            }
            self.count_merged(ctx, u32::try_from(rows).unwrap_or(u32::MAX), SEQUENCE_BYTES)?;
            Ok::<_, ApiError>(true)
        })
    }

    /// Charges so many rows of several scripts, each of so many bytes, before they are merged.
    fn count_merged(&self, ctx: &Context<'_>, rows: u32, bytes: usize) -> Result<(), ApiError> {
        costs::spend(ctx, costs::rows_in_a_row(rows))?;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(self.view.count(rows.saturating_mul(bytes))?)
    }

    /// The block that is asked for, or the newest, to which the mempool belongs.
    pub(crate) fn resolve(&self, at: Option<BlockAt>) -> Result<view::Block, ApiError> {
        if at.is_none() {
            self.view.read_set().depends_on(Dependency::Head);
        }
        BlockAt::resolve(at, &self.view)
    }

    pub(crate) fn stats(&self, ctx: &Context<'_>, at: Option<BlockAt>) -> Result<LedgerTotalsObject, ApiError> {
        let pending = at.is_none();
        let at = self.resolve(at)?;
        LedgerTotalsObject::of(self.clone(), at, pending, limits(ctx)?.scan_rows)
    }

    pub(crate) fn balance(&self, at: Option<BlockAt>) -> Result<Balance, ApiError> {
        self.count_scripts()?;
        let pending = if at.is_none() { self.view.pending(&self.ledger) } else { Pending::default() };
        let at = self.resolve(at)?;
        Balance::of(&self.view, &self.ledger, &at, &pending)
    }

    /// What a cursor of a list points to that goes on in the mempool.
    pub(crate) fn pending_list_place(
        &self,
        scope: &Scope,
        given: GivenCursor<'_>,
    ) -> Result<PendingListPlace, ApiError> {
        scope.pending_list_place(given, &self.view, |PendingListState { newest, event }| {
            self.count_scripts()?;
            let Some(newest) = self.view.block(newest)? else { return Ok(None) };
            let since = self.view.txnums(newest.height.next()..self.view.tip().height.next())?;
            match self.view.movements(&self.ledger, &since, true)?.next().transpose()? {
                Some(movement) => Ok(Some(self.view.block_hash_of(movement.txnum)?)),
                None => self.returned_from(newest.height, event),
            }
        })
    }

    /// A block above this height from which a transaction of the ledger returned to the mempool after this event.
    fn returned_from(&self, height: Height, event: u64) -> Result<Option<BlockHash>, ApiError> {
        // seldom is there any, and without one nothing has to be looked for
        let above = u64::from(height.next().to_u32()) << 32;
        if self.view.stale_blocks(above..u64::MAX)?.next().transpose()?.is_none() {
            return Ok(None);
        }
        for entry in self.view.arrivals(&self.ledger, &(event.saturating_add(1)..u64::MAX), true) {
            self.view.count(SEQUENCE_BYTES)?;
            if let Some(block) = entry.returned_from.as_deref() {
                return Ok(Some(*block));
            }
        }
        Ok(None)
    }

    /// The cursor of a row of such a list; `txnum` finds the transaction at a position of the chain.
    pub(crate) fn pending_list_cursor(
        &self,
        scope: &Scope,
        position: ListPosition,
        txnum: impl FnOnce(u64) -> Result<TxNum, ApiError>,
    ) -> Result<String, ApiError> {
        match position {
            ListPosition::Confirmed(position) => {
                Ok(scope.cursor(position, Some(self.view.block_hash_of(txnum(position)?)?)))
            }
            ListPosition::Pending(waiting) => {
                let entry = self.view.mempool().by_sequence(waiting.arrival);
                let entry = entry.ok_or_else(|| ApiError::internal("a row of the mempool has no transaction"))?;
                Ok(scope.pending_cursor(waiting, entry, &self.view))
            }
        }
    }

    /// Blocks whose coinbase pays the ledger, newest first.
    pub(crate) fn coinbase_blocks(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<Block>, ApiError> {
        let scope = Scope::new("coinbaseBlocks", self.owner.clone());
        let request = args.read(&scope, &self.view, limits(ctx)?)?;
        self.count_scripts()?;
        let tip = self.view.tip().height;
        let walk = request.walk(0..u64::from(tip.next().to_u32()), SortOrder::Desc);
        let heights = height_at(walk.positions.start)?..height_at(walk.positions.end)?;
        let rows = self.view.payouts(&self.ledger, &heights, walk.ascending)?;
        let page = request.page(
            |_| false,
            rows.map(|row| {
                self.view.count(ROW_BYTES)?;
                let height = row?;
                Ok::<_, ApiError>((u64::from(height.to_u32()), Some(height)))
            }),
        )?;
        let total = if asks_for_total_count(ctx) {
            let everything = self.view.txnums(Height::GENESIS..tip.next())?;
            let counted = self.count_movements(ctx, &everything, limits(ctx)?.scan_rows)?;
            counted.map(|counted| counted.coinbases.into())
        } else {
            None
        };
        let hash = |position| Ok(Some(self.view.block_hash(height_at(position)?)?));
        Connection::new(&scope, page, total, hash, |_, height| {
            Ok(Block::new(&self.view, self.view.main_block(height)?))
        })
    }
}

/// SHA-256 of a scriptPubKey.
pub(crate) fn script_hash(script: &bitcoin::Script) -> sha256::Hash {
    sha256::Hash::hash(script.as_bytes())
}
