//! Whatever a text means.

use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{ScriptBuf, Wtxid};

use super::root::QueryRoot;
use super::search_place as place;
use super::search_terms::{LONGEST_TEXT, SearchTerm, displayed, normalised, search_terms};
use crate::api::accounts::DEFAULT_GAP_LIMIT;
use crate::api::allowance::find_transaction;
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::UInt53;
use crate::api::types::block::Block;
use crate::api::types::enums::SortOrder;
use crate::api::types::ledger::{Address, DescriptorAccount, Script};
use crate::api::types::miner::Miner;
use crate::api::types::search_result::SearchResultUnion;
use crate::api::types::transaction::{Output, Transaction};
use crate::chain::pools::PoolId;
use crate::chain::{ScriptType, address_of};
use crate::view::{IndexError, View};

/// Finds what a text means.
pub(crate) struct SearchQuery {
    pub(crate) root: QueryRoot,
    pub(crate) serving: Arc<ServingContext>,
}

/// What was found, each with its place in the list. A place belongs to a meaning of the text, so that a cursor stays valid
/// when more is found later.
type SearchHits = Vec<(u64, SearchResultUnion)>;

impl SearchQuery {
    async fn find(&self, ctx: &Context<'_>, view: &Arc<View>, text: &str) -> Result<SearchHits, ApiError> {
        costs::spend(ctx, costs::SEARCH)?;
        let mut found = Vec::new();
        for term in search_terms(text, view.network()) {
            match term {
                SearchTerm::Height(height) => {
                    let block = view.block_at(height)?.map(|block| Block::new(view, block));
                    found.extend(block.map(|block| (place::HEIGHT, SearchResultUnion::Block(block))));
                }
                SearchTerm::Hash(bytes) => found.extend(find_hash(view, bytes)?),
                SearchTerm::OutPoint(outpoint) => {
                    let output = Output::find(view, outpoint)?;
                    found.extend(output.map(|output| (place::OUTPOINT, SearchResultUnion::Output(output))));
                }
                SearchTerm::Address(script) => {
                    let address = Address::of(view, script);
                    found.extend(address.map(|address| (place::ADDRESS, SearchResultUnion::Address(address))));
                }
                SearchTerm::AddressPrefix(prefix) => found.extend(find_addresses(view, &prefix)?),
                SearchTerm::Script(script) => {
                    let has_address = address_of(&script, view.network()).is_some();
                    if has_address || view.has_history(&sha256::Hash::hash(script.as_bytes()))? {
                        found.push((place::SCRIPT, SearchResultUnion::Script(Script::of(view, script))));
                    }
                }
                SearchTerm::Pool(slug) => {
                    let pools = view.pools().starting_with(&slug).take(costs::MOST_POOLS);
                    let hit = |pool: PoolId| {
                        (place::POOLS.saturating_add(pool.0.into()), SearchResultUnion::Miner(Miner::new(view, pool)))
                    };
                    found.extend(pools.map(hit));
                }
                SearchTerm::Descriptor(text) => {
                    let account = self.account(ctx, view, text).await?;
                    let hit = |account| (place::DESCRIPTOR, SearchResultUnion::DescriptorAccount(account));
                    found.extend(account.map(hit));
                }
            }
        }
        Ok(found)
    }

    /// The account of a text, `None` if it is not a descriptor of the network.
    async fn account(
        &self,
        ctx: &Context<'_>,
        view: &Arc<View>,
        text: String,
    ) -> Result<Option<DescriptorAccount>, ApiError> {
        costs::spend(ctx, costs::descriptor(&text))?;
        let Ok(descriptor) = self.serving.derivation.parse(text, view.network()).await? else { return Ok(None) };
        let (limits, spend) = (limits(ctx)?, |cost| costs::spend(ctx, cost));
        let account = (descriptor, limits.check_gap_limit("gapLimit", DEFAULT_GAP_LIMIT)?);
        DescriptorAccount::of_descriptor(view, &self.serving, "text", account, limits, spend).await.map(Some)
    }

    async fn page(
        &self,
        ctx: &Context<'_>,
        text: &str,
        args: &PageArgs,
    ) -> Result<Connection<SearchResultUnion>, ApiError> {
        if text.len() > LONGEST_TEXT {
            let message = format!("has {} bytes: give a text of at most {LONGEST_TEXT}", text.len());
            return Err(ApiError::bad_argument("text", message));
        }
        let (view, text) = (self.root.view(ctx)?, normalised(text));
        let scope = Scope::new("search", "Query".to_owned()).filtered(text.clone());
        let request = args.read(&scope, &view, limits(ctx)?)?;
        let mut found = self.find(ctx, &view, &text).await?;
        let total = UInt53::count(found.len())?;
        found.sort_by_key(|(place, _)| *place);
        let walk = request.walk(0..u64::MAX, SortOrder::Asc);
        found.retain(|(place, _)| walk.positions.contains(place));
        if !walk.ascending {
            found.reverse();
        }
        let rows = found.into_iter().map(|(place, found)| Ok::<_, ApiError>((place, Some(found))));
        let page = request.page(|_| false, rows)?;
        Connection::new(&scope, page, Some(total), |_| Ok(None), |_, found| Ok(found))
    }
}

/// The first used addresses that begin with a text.
fn find_addresses(view: &Arc<View>, prefix: &str) -> Result<SearchHits, ApiError> {
    let count = |bytes| view.count(bytes).map_err(ApiError::from);
    // what this server does not look up is not found
    let found = view.addresses_with_prefix(prefix, costs::MOST_ADDRESSES, count)?.unwrap_or_default();
    let addresses = found.into_iter().filter_map(|found| {
        let address = Address::of(view, found.script)?;
        Some((place::ADDRESSES | found.position, SearchResultUnion::Address(address)))
    });
    Ok(addresses.collect())
}

/// What has these 32 bytes, in the order of the text, as its hash or key.
fn find_hash(view: &Arc<View>, bytes: [u8; 32]) -> Result<SearchHits, ApiError> {
    let mut found = Vec::new();
    let block = view.block(displayed(bytes))?.map(|block| Block::new(view, block));
    found.extend(block.map(|block| (place::BLOCK_HASH, SearchResultUnion::Block(block))));
    let wtxid: Wtxid = displayed(bytes);
    let identified = find_transaction(view, |view| view.transaction(&displayed(bytes)))?;
    let committed = find_transaction(view, |view| match view.transaction_by_wtxid(&wtxid) {
        // what this server does not look up is not found
        Err(IndexError::TableOff { .. } | IndexError::TableNotReady { .. }) => Ok(None),
        found => found,
    })?;
    // without witnesses, both ids are the same
    let committed = committed.filter(|found| identified.as_ref().is_none_or(|other| other.txid != found.txid));
    for (at, transaction) in [(place::TXID, identified), (place::WTXID, committed)] {
        let transaction = transaction.map(|transaction| Transaction::new(view, transaction));
        found.extend(transaction.map(|transaction| (at, SearchResultUnion::Transaction(transaction))));
    }
    let natural = sha256::Hash::from_byte_array(bytes);
    for (at, hash) in [(place::SCRIPT_HASH, natural), (place::ELECTRUM_SCRIPT_HASH, displayed(bytes))] {
        if view.has_history(&hash)? {
            found.push((at, SearchResultUnion::Script(Script::with_hash(view, hash)?)));
        }
    }
    let taproot = ScriptBuf::from_bytes([&[0x51, 32], &bytes[..]].concat());
    debug_assert_eq!(ScriptType::of(&taproot), ScriptType::P2tr);
    if view.has_history(&sha256::Hash::hash(taproot.as_bytes()))? {
        let address = Address::of(view, taproot);
        found.extend(address.map(|address| (place::TAPROOT_KEY, SearchResultUnion::Address(address))));
    }
    Ok(found)
}

impl FieldCacheability for SearchQuery {
    const UNTIL_NEXT_HEAD: &'static str = "search";
}

#[Object]
impl SearchQuery {
    /// Whatever a text means to this server: one field for a search box. White space is ignored, hashes and bech32 addresses may
    /// be in upper case, and a `bitcoin:` URI (BIP21) means its address. In this order, if they exist: the block at a height;
    /// the block with a hash; the transaction with a txid, or with a wtxid; the output at an outpoint (txid, colon, index); an
    /// address of this network, used or not; a script in hexadecimal digits, if it has an address or was used; the used script
    /// with a SHA-256, in either byte order; the used taproot address of an x-only key; the account of a descriptor or an
    /// extended public key; mining pools whose name begins with the text, at most ten. Most texts mean one thing, a number may
    /// mean a height and a script. Empty if nothing is found.
    /// Wtxids of confirmed transactions are found only with the feature WTXIDS of `server.features`. With the feature
    /// ADDRESS_PREFIXES a text of at least six characters that is no address also finds, last, the first ten addresses in
    /// the order of ASCII that begin with it and that a transaction of the main chain paid; bech32 in lower or upper case,
    /// base58 as it is written.
    /// Example: `{ search(text: "170") { nodes { __typename ... on Block { hash } } } }`.
    #[graphql(complexity = "costs::search(&text, DEFAULT_GAP_LIMIT, child_complexity)")]
    async fn search(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Any text of at most 20,000 bytes.")] text: String,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<SearchResultUnion>, ApiError>> {
        Some(self.page(ctx, &text, &PageArgs { first, after, last, before }).await)
    }
}
