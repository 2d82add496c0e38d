use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};

use super::balance::Balance;
use super::balance_point::BalancePoint;
use super::entry::{LedgerEntry, LedgerFilter};
use super::holdings::Holdings;
use super::script_info::ScriptInfo;
use super::totals::LedgerTotalsObject;
use super::utxo::{UtxoConnection, UtxoFilter};
use crate::api::costs;
use crate::api::engine::List;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::global_id::{script_hash_id, script_id};
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{Hash256, Hex};
use crate::api::types::block::{Block, BlockAt, BlockRangeInput};
use crate::api::types::enums::{ScriptTypeEnum, SeriesGroupEnum, SortOrder};
use crate::chain::{ScriptType, address_of, asm};
use crate::view::{Dependency, View};

/// A scriptPubKey, or the hash of one that never appeared.
#[derive(Clone)]
pub(crate) struct Script {
    view: Arc<View>,
    hash: sha256::Hash,
    /// `None` if only the hash is known.
    bytes: Option<ScriptBuf>,
    holdings: Holdings,
}

impl Script {
    /// This script, whether it was ever used or not.
    pub(crate) fn of(view: &Arc<View>, script: ScriptBuf) -> Self {
        let hash = sha256::Hash::hash(script.as_bytes());
        let name = address_of(&script, view.network()).unwrap_or_else(|| script.to_hex_string());
        let holdings = Holdings::new(view, script_id(&hash), [(hash, name)]);
        Self { view: view.clone(), hash, bytes: Some(script), holdings }
    }

    /// Whether more than its hash is known.
    pub(crate) fn is_known(&self) -> bool {
        self.bytes.is_some()
    }

    /// The script with this SHA-256. Whether it is known depends on the newest block and the mempool.
    pub(crate) fn with_hash(view: &Arc<View>, hash: sha256::Hash) -> Result<Self, ApiError> {
        view.read_set().depends_on(Dependency::Head);
        Ok(match view.script_of_hash::<ApiError>(&hash)? {
            Some(script) => Self::of(view, script),
            None => Self { view: view.clone(), hash, bytes: None, holdings: Holdings::new(view, script_id(&hash), []) },
        })
    }
}

/// A scriptPubKey and its history. Different addresses are always different scripts. Scripts without an address (P2PK,
/// bare multisig, nonstandard) are available here.
#[Object]
impl Script {
    /// `Script:` followed by the SHA-256 of the script in natural byte order, or `ScriptHash:` if no more than this hash is
    /// known. `node` returns null for the id of a script that the index does not know, such as one that can never be spent.
    pub(crate) async fn id(&self) -> ID {
        if self.is_known() { script_id(&self.hash) } else { script_hash_id(&self.hash) }.into()
    }

    /// The scriptPubKey. Null if only its hash was given and no spendable output ever used the script.
    async fn hex(&self) -> Option<Result<Hex, ApiError>> {
        let script = self.bytes.as_ref()?;
        Some(self.view.count(script.len()).map(|()| Hex::new(script.to_bytes())).map_err(ApiError::from))
    }

    /// The script in human-readable form, as Bitcoin Core writes it: pushes of up to 4 bytes as decimal numbers, longer ones
    /// in hexadecimal, other opcodes by name. `[error]` stands for a push that the script ends within. Null if `hex` is.
    async fn asm(&self) -> Option<Result<String, ApiError>> {
        let script = self.bytes.as_ref()?;
        // names are longer than opcodes
        let text = asm(script);
        Some(self.view.count(text.len()).map(|()| text).map_err(ApiError::from))
    }

    /// The type of the script. Null if `hex` is.
    #[graphql(name = "type")]
    async fn script_type(&self) -> Option<ScriptTypeEnum> {
        self.bytes.as_ref().map(|script| ScriptType::of(script).into())
    }

    /// The keys of the script, the signatures that it requires, and the addresses that pay to it by its hash, as
    /// `decodeScript` returns them. Null if `hex` is.
    async fn info(&self) -> Option<Result<ScriptInfo, ApiError>> {
        Some(ScriptInfo::of(&self.view, self.bytes.clone()?))
    }

    /// The SHA-256 of the script in natural byte order, as in esplora.
    async fn script_hash(&self) -> Hex {
        Hex::new(self.hash.to_byte_array())
    }

    /// The SHA-256 of the script, byte-reversed, as in the Electrum protocol.
    async fn electrum_script_hash(&self) -> Hash256 {
        Hash256::new(self.hash.to_byte_array())
    }

    /// The address of the script. Null for types without an address (P2PK, bare multisig, OP_RETURN, ...), and if `hex` is.
    async fn address(&self) -> Option<String> {
        address_of(self.bytes.as_ref()?, self.view.network())
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
