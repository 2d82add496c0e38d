use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::ScriptBuf;

use super::super::block::Block;
use super::super::block_at::BlockAt;
use super::super::connection::Connection;
use super::super::costs;
use super::super::enums::{ScriptType, SortOrder};
use super::super::error::{ApiError, shown};
use super::super::node::address_id;
use super::super::page::PageArgs;
use super::super::scalars::{Hex, UInt53};
use super::{
    Balance, Holdings, LedgerEntry, LedgerFilter, LedgerStats, Script, UtxoConnection, UtxoFilter, script_hash,
};
use crate::chain;
use crate::chain::{AddressError, address_of, parse_address};
use crate::view::View;

/// An address of the network, whether it was ever used or not.
#[derive(Clone)]
pub(in crate::api) struct Address {
    view: Arc<View>,
    text: String,
    script: ScriptBuf,
    holdings: Holdings,
}

impl Address {
    /// The address that this text stands for.
    ///
    /// Errors: BAD_USER_INPUT, with the position of the fault where there is one.
    pub(in crate::api) fn parse(view: &Arc<View>, text: &str) -> Result<Self, ApiError> {
        let script = parse_address(text, view.network()).map_err(|error| match error {
            // a secret that was sent by mistake is not told back, where logs would keep it
            AddressError::PrivateKey | AddressError::ExtendedKey => ApiError::bad_user_input(error.to_string()),
            error => ApiError::bad_user_input_at(format!("{}: {error}", shown(text)), error.position()),
        })?;
        Self::of(view, script).ok_or_else(|| ApiError::internal("the script of an address has no address"))
    }

    /// The address of a script, `None` if it has none.
    pub(super) fn of(view: &Arc<View>, script: ScriptBuf) -> Option<Self> {
        // as we would write it: bech32 in lower case
        let text = address_of(&script, view.network())?;
        let holdings = Holdings::new(view, address_id(&text), [(script_hash(&script), text.clone())]);
        Some(Self { view: view.clone(), text, script, holdings })
    }

    /// The script that the address stands for.
    pub(super) fn script_pubkey(&self) -> &ScriptBuf {
        &self.script
    }

    /// The address.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// An address and the history of its script. Other scripts of the same key are other ledgers: nothing that was paid to
/// the bare key (P2PK) or to another form of address is counted here.
#[Object]
impl Address {
    /// `Address:` and the address.
    pub(in crate::api) async fn id(&self) -> ID {
        address_id(&self.text).into()
    }

    /// The address as it is usually written: bech32 in lower case.
    async fn address(&self) -> String {
        self.text.clone()
    }

    /// The form of the script that it stands for.
    #[graphql(name = "type")]
    async fn script_type(&self) -> ScriptType {
        chain::ScriptType::of(&self.script).into()
    }

    /// The script that it stands for.
    async fn script(&self) -> Script {
        Script::of(&self.view, self.script.clone())
    }

    /// The public key whose hash it holds (P2PKH, P2WPKH, and P2SH around P2WPKH), as the first spend, or an output to the
    /// bare key, revealed it; null until then, and for addresses that do not stand for one key.
    #[graphql(complexity = "costs::BISECTION")]
    async fn public_key(&self) -> Option<Result<Hex, ApiError>> {
        self.view.public_key::<ApiError>(&self.script).map(|key| key.map(Hex::new)).transpose()
    }

    /// The scripts that pay the same public key without hashing it (P2PK), as far as it is known. They are other ledgers,
    /// and never part of this one's figures; `addresses` sums them up.
    #[graphql(name = "p2pkScripts", complexity = "child_complexity.saturating_add(costs::BISECTION)")]
    async fn p2pk_scripts(&self) -> Result<Vec<Script>, ApiError> {
        let scripts = self.view.p2pk_scripts::<ApiError>(&self.script)?;
        Ok(scripts.into_iter().map(|script| Script::of(&self.view, script)).collect())
    }

    /// What it received and spent over all its history. Zeros if it was never used.
    pub(super) async fn stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "As it was right after this block, without the mempool. As it is now if none is given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<LedgerStats, ApiError>> {
        Some(self.holdings.stats(ctx, at))
    }

    /// What it holds. Zeros if it was never used.
    pub(super) async fn balance(
        &self,
        #[graphql(desc = "As it was right after this block, without the mempool. As it is now if none is given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<Balance, ApiError>> {
        Some(self.holdings.balance(at))
    }

    /// Its unspent outputs, newest first: those that wait in the mempool in the order of their arrival, then those of the
    /// chain. Of a block in the past they are found by reading the history up to it, so a page may hold fewer rows than
    /// asked for, as under a filter.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(super) async fn utxos(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only outputs that meet all of these conditions.")] filter: Option<UtxoFilter>,
        #[graphql(
            desc = "As they were right after this block, without the mempool. As they are now if none is given."
        )]
        at: Option<BlockAt>,
        #[graphql(
            desc = "At most this many from the front, or behind `after`. 25 if neither first nor last is given."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only what comes behind the row with this cursor.")] after: Option<String>,
        #[graphql(desc = "At most this many from the end, or in front of `before`.")] last: Option<i32>,
        #[graphql(desc = "Only what comes in front of the row with this cursor.")] before: Option<String>,
    ) -> Option<Result<UtxoConnection, ApiError>> {
        Some(self.holdings.utxos(ctx, filter, at, &PageArgs { first, after, last, before }))
    }

    /// The transactions that paid or spent it, and those of the mempool that are about to, which are newer than all in
    /// blocks, in the order of their arrival.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(super) async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<LedgerFilter>,
        #[graphql(desc = "Newest or oldest first.", default_with = "Some(SortOrder::Desc)")] order: Option<SortOrder>,
        #[graphql(
            desc = "At most this many from the front, or behind `after`. 25 if neither first nor last is given."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only what comes behind the row with this cursor.")] after: Option<String>,
        #[graphql(desc = "At most this many from the end, or in front of `before`.")] last: Option<i32>,
        #[graphql(desc = "Only what comes in front of the row with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<LedgerEntry, Option<UInt53>>, ApiError>> {
        Some(self.holdings.transactions(ctx, filter, order, &PageArgs { first, after, last, before }))
    }

    /// The blocks whose coinbase pays it, newest first.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn coinbase_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "At most this many from the front, or behind `after`. 25 if neither first nor last is given."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only what comes behind the row with this cursor.")] after: Option<String>,
        #[graphql(desc = "At most this many from the end, or in front of `before`.")] last: Option<i32>,
        #[graphql(desc = "Only what comes in front of the row with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Block, Option<i32>>, ApiError>> {
        Some(self.holdings.coinbase_blocks(ctx, &PageArgs { first, after, last, before }))
    }
}
