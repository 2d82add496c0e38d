use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, HashEngine, sha256};

use super::address::Address;
use super::address_error::AddressErrorObject;
use super::balance::Balance;
use super::entry::{LedgerEntry, LedgerFilter};
use super::holdings::{Holdings, Ledger, script_hash};
use super::script::Script;
use super::totals::LedgerTotalsObject;
use super::utxo::{UtxoConnection, UtxoFilter};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::global_id::address_set_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::Hex;
use crate::api::types::block::{Block, BlockAt};
use crate::api::types::enums::SortOrder;
use crate::limits::Limits;
use crate::view::View;

/// How many members a set is taken to have where their number is not known.
const MEMBERS: usize = 100;

/// The addresses and scripts of a set: at least one of the lists, and at most `server.limits.ids` entries in both
/// together, or `server.limits.watch` in a subscription.
#[derive(Clone, Debug, InputObject)]
pub(crate) struct WatchInput {
    /// Addresses of this server's network. An invalid address is excluded from the set, and its entry in `members` says
    /// why; a subscription fails on it.
    pub(crate) addresses: Option<Vec<String>>,
    /// Full scriptPubKeys, including those without an address.
    pub(crate) scripts: Option<Vec<Hex>>,
}

impl WatchInput {
    /// How many are given.
    pub(crate) fn len(&self) -> usize {
        self.addresses.as_ref().map_or(0, Vec::len).saturating_add(self.scripts.as_ref().map_or(0, Vec::len))
    }
}

/// The result of looking up one address or script of a set.
#[derive(Clone, SimpleObject)]
pub(crate) struct AddressLookup {
    /// The address, or the scriptPubKey in hexadecimal, as given in the request.
    input: String,
    /// The address, or the script if it has no address. Null if `error` is set.
    ledger: Option<Ledger>,
    /// Why the entry is not an address of this network. Null if the entry is part of the set.
    error: Option<AddressErrorObject>,
}

/// Several addresses and scripts as one ledger.
#[derive(Clone)]
pub(crate) struct AddressSet {
    members: Vec<AddressLookup>,
    holdings: Holdings,
}

impl AddressSet {
    /// Each address and script as given.
    pub(crate) fn into_members(self) -> Vec<AddressLookup> {
        self.members
    }

    /// What a set of so many members costs: each once, and what is asked of the set once for each hundred of them,
    /// because almost every field of it reads something of each.
    pub(crate) fn cost(members: usize, per_set: usize) -> usize {
        members.div_ceil(MEMBERS).max(1).saturating_mul(per_set).saturating_add(members)
    }

    /// The set of what is given.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for too many; BAD_USER_INPUT if neither list is given.
    pub(crate) fn of(view: &Arc<View>, input: WatchInput, limits: &Limits) -> Result<Self, ApiError> {
        limits.check_ids(input.len())?;
        if input.addresses.is_none() && input.scripts.is_none() {
            return Err(ApiError::bad_user_input(
                "the set has neither addresses nor scripts: give one of the lists, or both",
            ));
        }
        let (mut members, mut scripts) = (Vec::with_capacity(input.len()), Vec::with_capacity(input.len()));
        for text in input.addresses.into_iter().flatten() {
            members.push(match Address::read(view, &text) {
                Ok(address) => {
                    let address = address?;
                    scripts.push((address.script_pubkey().clone(), address.text().to_owned()));
                    AddressLookup { input: text, ledger: Some(Ledger::Address(address)), error: None }
                }
                Err(error) => {
                    let error = Some(AddressErrorObject::new(&error, &text)?);
                    AddressLookup { input: text, ledger: None, error }
                }
            });
        }
        for script in input.scripts.into_iter().flatten() {
            let script = ScriptBuf::from_bytes(script.into_bytes());
            let address = Address::of(view, script.clone());
            let hex = script.to_hex_string();
            let name = address.as_ref().map_or_else(|| hex.clone(), |address| address.text().to_owned());
            let ledger = address.map_or_else(|| Ledger::Script(Script::of(view, script.clone())), Ledger::Address);
            scripts.push((script, name));
            members.push(AddressLookup { input: hex, ledger: Some(ledger), error: None });
        }
        let scripts: Vec<_> = scripts.into_iter().map(|(script, name)| (script_hash(&script), name)).collect();
        let owner = content_id(scripts.iter().map(|(hash, _)| *hash));
        Ok(Self { members, holdings: Holdings::new(view, owner, scripts) })
    }
}

/// What names a set in cursors: the same for the same scripts, in whatever order and form they are given.
pub(crate) fn content_id(hashes: impl Iterator<Item = sha256::Hash>) -> String {
    let mut hashes: Vec<_> = hashes.collect();
    hashes.sort_unstable();
    hashes.dedup();
    let mut engine = sha256::Hash::engine();
    for hash in &hashes {
        engine.input(hash.as_byte_array());
    }
    format!("AddressSet:{}", sha256::Hash::from_engine(engine))
}

/// Several addresses and scripts as one ledger: summed figures, and one list of transactions without duplicates.
#[Object]
impl AddressSet {
    /// `AddressSet:` followed by a hash of the entries as given, in their order. The server does not store sets: `node` returns
    /// null for this id.
    pub(crate) async fn id(&self) -> ID {
        let mut engine = sha256::Hash::engine();
        for AddressLookup { input, .. } in &self.members {
            engine.input(&u64::try_from(input.len()).unwrap_or(u64::MAX).to_be_bytes());
            engine.input(input.as_bytes());
        }
        address_set_id(&sha256::Hash::from_engine(engine)).into()
    }

    /// Each address and script of the request, in the given order, addresses first.
    #[graphql(complexity = "costs::list(MEMBERS, child_complexity)")]
    async fn members(&self) -> Vec<AddressLookup> {
        self.members.clone()
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
