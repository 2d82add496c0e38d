use std::sync::Arc;

use async_graphql::{Context, Enum, ID, Object};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};

use super::super::block::Block;
use super::super::block_at::BlockAt;
use super::super::connection::Connection;
use super::super::costs;
use super::super::enums::SortOrder;
use super::super::error::ApiError;
use super::super::node::script_id;
use super::super::page::PageArgs;
use super::super::scalars::{Hex, UInt53};
use super::{Balance, Holdings, LedgerEntry, LedgerFilter, LedgerStats, UtxoConnection, UtxoFilter};
use crate::chain::address_of;
use crate::view::View;

/// How the 32 bytes of a script hash are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(in crate::api) enum ByteOrder {
    /// Reversed, as the Electrum protocol writes script hashes.
    ElectrumReversed,
    /// As SHA-256 gives them, and as esplora writes script hashes.
    #[graphql(name = "SHA256_NATURAL")]
    Sha256Natural,
}

/// A scriptPubKey, or the hash of one that never appeared.
#[derive(Clone)]
pub(in crate::api) struct Script {
    view: Arc<View>,
    hash: sha256::Hash,
    /// `None` if only the hash is known.
    bytes: Option<ScriptBuf>,
    holdings: Holdings,
}

impl Script {
    /// This script, whether it was ever used or not.
    pub(in crate::api) fn of(view: &Arc<View>, script: ScriptBuf) -> Self {
        let hash = sha256::Hash::hash(script.as_bytes());
        let name = address_of(&script, view.network()).unwrap_or_else(|| script.to_hex_string());
        let holdings = Holdings::new(view, script_id(&hash), [(hash, name)]);
        Self { view: view.clone(), hash, bytes: Some(script), holdings }
    }

    /// The script with this SHA-256.
    pub(in crate::api) fn with_hash(view: &Arc<View>, hash: sha256::Hash) -> Result<Self, ApiError> {
        Ok(match view.script_of_hash::<ApiError>(&hash)? {
            Some(script) => Self::of(view, script),
            None => Self { view: view.clone(), hash, bytes: None, holdings: Holdings::new(view, script_id(&hash), []) },
        })
    }

    /// The script with this hash, as a client wrote it. Errors: BAD_USER_INPUT unless it has 32 bytes.
    pub(in crate::api) fn with_hash_in(view: &Arc<View>, hash: &Hex, order: ByteOrder) -> Result<Self, ApiError> {
        let mut bytes: [u8; 32] = hash.as_bytes().try_into().map_err(|_| {
            ApiError::bad_user_input(format!(
                "scriptHash has {} bytes: give the 32 of a SHA-256, 64 hexadecimal digits",
                hash.as_bytes().len()
            ))
        })?;
        if order == ByteOrder::ElectrumReversed {
            bytes.reverse();
        }
        Self::with_hash(view, sha256::Hash::from_byte_array(bytes))
    }
}

/// A scriptPubKey and its history. Two addresses are never one script, but P2PK, bare multisig and nonstandard scripts
/// have no address and are found here.
#[Object]
impl Script {
    /// `Script:` and the SHA-256 of the script in natural byte order.
    pub(in crate::api) async fn id(&self) -> ID {
        script_id(&self.hash).into()
    }

    /// The script; null if only its hash was given and no output that could be spent ever had it.
    async fn hex(&self) -> Option<Result<Hex, ApiError>> {
        let script = self.bytes.as_ref()?;
        Some(self.view.count(script.len()).map(|()| Hex::new(script.to_bytes())).map_err(ApiError::from))
    }

    /// SHA-256 of the script, in the byte order that SHA-256 gives, as esplora writes it.
    async fn script_hash(&self) -> Hex {
        Hex::new(self.hash.to_byte_array())
    }

    /// SHA-256 of the script, byte-reversed, as the Electrum protocol writes it.
    async fn script_hash_electrum(&self) -> Hex {
        let mut bytes = self.hash.to_byte_array();
        bytes.reverse();
        Hex::new(bytes)
    }

    /// The address that stands for the script; null for forms that have none (P2PK, bare multisig, OP_RETURN, ...).
    async fn address(&self) -> Option<String> {
        address_of(self.bytes.as_ref()?, self.view.network())
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
