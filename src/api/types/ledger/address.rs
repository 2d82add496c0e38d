use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::ScriptBuf;

use super::address_error::refuse;
use super::balance::Balance;
use super::balance_point::BalancePoint;
use super::entry::{LedgerEntry, LedgerFilter};
use super::holdings::{Holdings, script_hash};
use super::script::Script;
use super::totals::LedgerTotalsObject;
use super::utxo::{UtxoConnection, UtxoFilter};
use crate::api::costs;
use crate::api::engine::List;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::global_id::address_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::Hex;
use crate::api::types::block::{Block, BlockAt, BlockRangeInput};
use crate::api::types::enums::{ScriptTypeEnum, SeriesGroupEnum, SortOrder};
use crate::chain::{self, AddressError, address_of, parse_address};
use crate::view::View;

/// An address of the network, whether it was ever used or not.
#[derive(Clone)]
pub(crate) struct Address {
    view: Arc<View>,
    text: String,
    script: ScriptBuf,
    holdings: Holdings,
}

impl Address {
    /// The address that the text of an argument stands for.
    ///
    /// Errors: BAD_USER_INPUT, with the position of the fault where there is one.
    pub(crate) fn parse(view: &Arc<View>, argument: &str, text: &str) -> Result<Self, ApiError> {
        Self::read(view, text).unwrap_or_else(|error| Err(refuse(argument, &error, text)))
    }

    /// The address that this text stands for. The inner error is a fault of the server.
    pub(crate) fn read(view: &Arc<View>, text: &str) -> Result<Result<Self, ApiError>, AddressError> {
        let script = parse_address(text, view.network())?;
        Ok(Self::of(view, script).ok_or_else(|| ApiError::internal("the script of an address has no address")))
    }

    /// The address of a script, `None` if it has none.
    pub(crate) fn of(view: &Arc<View>, script: ScriptBuf) -> Option<Self> {
        // as we would write it: bech32 in lower case
        let text = address_of(&script, view.network())?;
        let holdings = Holdings::new(view, address_id(&text), [(script_hash(&script), text.clone())]);
        Some(Self { view: view.clone(), text, script, holdings })
    }

    /// The script that the address stands for.
    pub(crate) fn script_pubkey(&self) -> &ScriptBuf {
        &self.script
    }

    /// The address.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// An address and the history of its script. Other scripts of the same key are separate ledgers: payments to the bare
/// key (P2PK) or to another address type of the key are not counted here.
#[Object]
impl Address {
    /// `Address:` followed by the address.
    pub(crate) async fn id(&self) -> ID {
        address_id(&self.text).into()
    }

    /// The address in its canonical form: bech32 in lower case.
    async fn address(&self) -> String {
        self.text.clone()
    }

    /// The type of the address's script.
    #[graphql(name = "type")]
    async fn script_type(&self) -> ScriptTypeEnum {
        chain::ScriptType::of(&self.script).into()
    }

    /// The scriptPubKey that the address encodes.
    async fn script(&self) -> Script {
        Script::of(&self.view, self.script.clone())
    }

    /// The public key whose hash the address encodes (P2PKH, P2WPKH, and P2SH-wrapped P2WPKH), as revealed by the first
    /// spend or by an output to the bare key. Null until it is revealed, and for addresses that do not encode a single
    /// key.
    #[graphql(complexity = "costs::more(costs::BISECTION, 0)")]
    async fn public_key(&self, ctx: &Context<'_>) -> Option<Result<Hex, ApiError>> {
        let find = || {
            costs::spend(ctx, costs::BISECTION)?;
            self.view.public_key::<ApiError>(&self.script).map(|key| key.map(Hex::new))
        };
        find().transpose()
    }

    /// The bare-key scripts (P2PK) that pay the same public key, as far as the key is known. They are separate ledgers
    /// and never part of the figures of this address; query `ledgerSet` for the sum. At most two, of the two forms of a key.
    #[graphql(name = "p2pkScripts", complexity = "costs::list(2, child_complexity).saturating_add(costs::BISECTION)")]
    async fn p2pk_scripts(&self, ctx: &Context<'_>) -> Result<Vec<Script>, ApiError> {
        costs::spend(ctx, costs::BISECTION)?;
        let scripts = self.view.p2pk_scripts::<ApiError>(&self.script)?;
        Ok(scripts.into_iter().map(|script| Script::of(&self.view, script)).collect())
    }

    /// What the ledger received and spent over its whole history. All zeros if it was never used.
    pub(crate) async fn stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The state right after this block, without the mempool; the current state if not given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<LedgerTotalsObject, ApiError>> {
        Some(self.holdings.stats(ctx, at))
    }

    /// The balance of the ledger. All zeros if it was never used.
    pub(crate) async fn balance(
        &self,
        #[graphql(desc = "The state right after this block, without the mempool; the current state if not given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<Balance, ApiError>> {
        Some(self.holdings.balance(at))
    }

    /// The balance over time: a point for each period in which a transaction paid or spent the ledger, oldest first, with the
    /// balance at its end. At most `server.limits.pages.pointsPerSeries`; beyond it, give a range or a longer period. Example: `{ address(address:
    /// "bc1q…") { balanceHistory(range: { lastBlocks: 52560 }, group: DAY, includeEmpty: true) { startAt balanceAfter turnover {
    /// received spent } } } }`.
    #[graphql(
        complexity = "BlockRangeInput::series_cost(range, group, include_empty, child_complexity.saturating_add(1))"
    )]
    pub(crate) async fn balance_history(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. The whole chain if not given.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "What a point stands for.", default_with = "Some(SeriesGroupEnum::Day)")] group: Option<
            SeriesGroupEnum,
        >,
        #[graphql(
            desc = "Whether to include the periods in which no transaction paid or spent the ledger: a point for each, as \
                    a chart needs; with `range.times` from its start to its end, but for what is before the \
                    genesis block and after the tip.",
            default_with = "Some(false)"
        )]
        include_empty: Option<bool>,
    ) -> Option<Result<List<BalancePoint>, ApiError>> {
        Some(self.holdings.balance_history(ctx, range, group, include_empty).map(List))
    }

    /// The unspent outputs, newest first: unconfirmed outputs by arrival in the mempool, then confirmed ones. With
    /// `at`, the server reads the history up to that block, so a page may have fewer items than requested, as with a
    /// filter.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn utxos(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only outputs that meet all of these conditions.")] filter: Option<UtxoFilter>,
        #[graphql(
            desc = "The state right after this block, without the mempool; the current state if not given."
        )]
        at: Option<BlockAt>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<UtxoConnection, ApiError>> {
        Some(self.holdings.utxos(ctx, filter, at, &PageArgs { first, after, last, before }))
    }

    /// The transactions that pay or spend the ledger. Unconfirmed ones count as newer than all confirmed ones and are
    /// ordered by arrival in the mempool.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<LedgerFilter>,
        #[graphql(desc = "Whether the newest or the oldest come first.", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<LedgerEntry>, ApiError>> {
        Some(self.holdings.transactions(ctx, filter, order, &PageArgs { first, after, last, before }))
    }

    /// The blocks whose coinbase pays the ledger, newest first.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn coinbase_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Block>, ApiError>> {
        Some(self.holdings.coinbase_blocks(ctx, &PageArgs { first, after, last, before }))
    }
}
