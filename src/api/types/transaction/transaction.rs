use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::input::Input;
use super::lock_time::LockTime;
use super::net_effect::NetEffectObject;
use super::occurrence::TxOccurrence;
use super::output::Output;
use super::transaction_filter::TransactionFilter;
use crate::api::allowance::{ITEM_BYTES, find_transaction};
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::global_id::{Variant, transaction_id};
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{DateTime, Hex, Sats, Txid, UInt53, Wtxid, int};
use crate::api::types::block::{Block, MerkleProofObject, TransactionAudit, WtxidProofObject};
use crate::api::types::enums::TxState;
use crate::api::types::ledger::LedgerInput;
use crate::api::types::mempool::{MempoolEntry, REPLACED, RbfNode};
use crate::api::types::spend::{HopDirection, TransactionFeature, TransactionHop, figures, hops};
use crate::chain::float::to_f64;
use crate::chain::vsize;
use crate::view::{self, Dependency, View};

/// How many blocks a transaction is taken to be in before they are known: one, and others only after reorganisations.
const OCCURRENCES: usize = 2;

/// A transaction, and the view it was found in.
#[derive(Clone)]
pub(crate) struct Transaction {
    pub(super) view: Arc<View>,
    pub(super) transaction: Arc<view::Transaction>,
}

impl Transaction {
    pub(crate) fn new(view: &Arc<View>, transaction: impl Into<Arc<view::Transaction>>) -> Self {
        let transaction = transaction.into();
        view.note_transaction(&transaction);
        Self { view: view.clone(), transaction }
    }

    fn replaced(&self) -> Result<Vec<Self>, ApiError> {
        let mut found = Vec::new();
        for departed in self.view.replaced(&self.transaction.txid)? {
            let replaced = find_transaction(&self.view, |view| view.transaction(&departed.txid))?;
            found.extend(replaced.map(|replaced| Self::new(&self.view, replaced)));
        }
        Ok(found)
    }

    fn replacement(&self) -> Result<Option<Self>, ApiError> {
        let Some(by) = self.view.replaced_by(&self.transaction.txid)? else { return Ok(None) };
        let found = find_transaction(&self.view, |view| view.transaction(&by))?;
        Ok(found.map(|replacement| Self::new(&self.view, replacement)))
    }

    fn conflicting(&self) -> Result<Vec<Txid>, ApiError> {
        // a row of the index for each input
        self.view.count(self.transaction.parts.input.len().saturating_mul(ITEM_BYTES))?;
        let found = self.view.conflicts(&self.transaction)?;
        self.view.count(found.len().saturating_mul(ITEM_BYTES))?;
        Ok(found.into_iter().map(Txid).collect())
    }

    fn weight_units(&self) -> u64 {
        self.transaction.weight().to_wu()
    }

    fn confirmed_after(&self) -> Result<Option<i32>, ApiError> {
        let (Some(place), Some(seen)) = (&self.transaction.place, self.view.first_seen_at(&self.transaction)?) else {
            return Ok(None);
        };
        let confirmed = i64::from(self.view.main_block(place.height)?.row.header.time);
        let after = i64::try_from(seen).ok().and_then(|seen| i32::try_from(confirmed.checked_sub(seen)?).ok());
        after.map(Some).ok_or_else(|| ApiError::internal("the time between first seen and the block exceeds 32 bits"))
    }

    /// Whether a filter lets it through.
    pub(crate) fn meets(&self, ctx: &Context<'_>, filter: &TransactionFilter) -> Result<bool, ApiError> {
        let fee = if filter.asks_for_rate() { self.fee_in_sat()? } else { None };
        let rate = fee.map(|fee| self.rate_of(fee));
        if !filter.keeps_transaction(&self.transaction, rate) {
            return Ok(false);
        }
        // last, because outputs may have to be looked up
        filter
            .features
            .as_deref()
            .map_or(Ok(true), |features| figures::has_features(ctx, &self.view, &self.transaction, features))
    }

    /// The feerate, in sat/vB, that a fee in sat would be.
    fn rate_of(&self, fee: u64) -> f64 {
        to_f64(fee) * 4.0 / to_f64(self.weight_units())
    }

    async fn effect(&self, ctx: &Context<'_>, of: LedgerInput) -> Result<NetEffectObject, ApiError> {
        let ledger = of.resolve(ctx, &self.view).await?;
        let parts = &self.transaction.parts;
        costs::spend(ctx, parts.input.len().saturating_add(parts.output.len() / costs::HASHED_SCRIPTS))?;
        let prevouts = self.view.prevouts::<ApiError>(&self.transaction, 0..parts.input.len())?;
        let effect = self.view.net_effect(&ledger, &self.transaction, &prevouts);
        if effect.spent.is_none() {
            // what is missing may arrive
            self.view.read_set().depends_on(Dependency::Head);
        }
        NetEffectObject::new(&effect)
    }

    fn fee_in_sat(&self) -> Result<Option<u64>, ApiError> {
        self.view.fee(&self.transaction)
    }
}

impl FieldCacheability for Transaction {
    const IMMUTABLE: &'static str = "id txid wtxid version lockTime size strippedSize weight vsize isCoinbase hex \
        state block indexInBlock globalIndex merkleProof inputs outputs inputCount outputCount totalInputValue \
        totalOutputValue fee feeRate isSignalingRbf features ancestors sigopCost adjustedVsize coinDaysDestroyed \
        merkleBlockHex wtxidProof";
    const BY_ARGUMENT: &'static str = "netEffect";
    const UNTIL_NEXT_TIP: &'static str = "confirmations";
    const UNTIL_NEXT_HEAD: &'static str = "descendants occurrences effectiveFeeRate txAudit firstSeenAt \
        confirmedAfterSeconds mempoolEntry replaces replacedBy rbfTree conflicts";
}

/// A transaction, confirmed or not. The fields of a txid are the same in every block that contains it; fields about its
/// position and its spent outputs refer to its occurrence on the main chain.
#[Object]
impl Transaction {
    /// `Transaction:` followed by the txid. For a transaction that a later one with the same txid overwrote (BIP30),
    /// `@` and the block hash follow. For one that exists only as bytes given to `decodeTransaction`, `+` and its wtxid
    /// follow, and `node` returns null.
    pub(crate) async fn id(&self) -> ID {
        transaction_id(self.transaction.txid, Variant::of(&self.transaction)).into()
    }

    /// The hash of the serialisation without witness. Outpoints reference transactions by it.
    async fn txid(&self) -> Txid {
        Txid(self.transaction.txid)
    }

    /// The hash of the full serialisation. Equals the txid if there is no witness.
    async fn wtxid(&self) -> Result<Wtxid, ApiError> {
        self.view.count(self.transaction.raw().len())?;
        Ok(Wtxid(self.transaction.wtxid()))
    }

    /// The version field, as an unsigned integer.
    async fn version(&self) -> UInt53 {
        self.transaction.parts.version.0.cast_unsigned().into()
    }

    /// The earliest block that may contain the transaction.
    async fn lock_time(&self) -> LockTime {
        LockTime::new(&self.view, &self.transaction)
    }

    /// The serialised size in bytes, witnesses included.
    async fn size(&self) -> Result<i32, ApiError> {
        int(small(self.transaction.raw().len())?)
    }

    /// The serialised size in bytes, without witnesses.
    async fn stripped_size(&self) -> Result<i32, ApiError> {
        int(small(self.transaction.parts.base_size())?)
    }

    /// The weight in weight units: three times the stripped size plus the size (BIP141).
    async fn weight(&self) -> Result<i32, ApiError> {
        small(self.weight_units()).and_then(int)
    }

    /// The virtual size in vbytes: a quarter of the weight, rounded up (BIP141).
    async fn vsize(&self) -> Result<i32, ApiError> {
        small(vsize(self.transaction.weight())).and_then(int)
    }

    /// Facts about the structure of the transaction, in the order of the enumeration. Null if a spent output is not known.
    #[graphql(complexity = "costs::few(0).saturating_add(costs::LOOKED_UP_INPUTS)")]
    async fn features(&self, ctx: &Context<'_>) -> Option<Result<Vec<TransactionFeature>, ApiError>> {
        figures::features(ctx, &self.view, &self.transaction).transpose()
    }

    /// The sigop cost (BIP141): what the signature operations count against the 80,000 of a block. Null if a spent output is not
    /// known.
    #[graphql(complexity = "costs::more(costs::LOOKED_UP_INPUTS, 0)")]
    async fn sigop_cost(&self, ctx: &Context<'_>) -> Option<Result<i32, ApiError>> {
        let cost = figures::sigop_cost(ctx, &self.view, &self.transaction).transpose()?;
        Some(cost.and_then(small).and_then(int))
    }

    /// The virtual size in vbytes by which nodes judge the feerate: `vsize`, or five times the sigop cost if that is more. Null
    /// if a spent output is not known.
    #[graphql(complexity = "costs::more(costs::LOOKED_UP_INPUTS, 0)")]
    async fn adjusted_vsize(&self, ctx: &Context<'_>) -> Option<Result<i32, ApiError>> {
        let size = figures::vsize_with_sigops(ctx, &self.view, &self.transaction).transpose()?;
        Some(size.and_then(small).and_then(int))
    }

    /// Whether this is the first transaction of a block, which creates new coins.
    async fn is_coinbase(&self) -> bool {
        self.transaction.parts.is_coinbase()
    }

    /// The serialised transaction, witnesses included.
    async fn hex(&self) -> Result<Hex, ApiError> {
        self.view.count(self.transaction.raw().len())?;
        Ok(Hex::new(self.transaction.raw().to_vec()))
    }

    /// The current state of the transaction.
    async fn state(&self) -> TxState {
        self.transaction.state().into()
    }

    /// The number of main chain blocks that confirm the transaction: 1 in the tip, 0 while no main chain block contains
    /// it.
    async fn confirmations(&self) -> Result<i32, ApiError> {
        int(self.transaction.place.map_or(0, |place| self.view.confirmations(place.height)))
    }

    /// The main chain block that contains the transaction. Null if there is none. For a txid that occurs twice on the
    /// main chain (BIP30), the later block.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block_at(self.transaction.place?.height))
    }

    /// The index of the transaction in that block, from 0 for the coinbase. Null if there is none.
    async fn index_in_block(&self) -> Option<Result<i32, ApiError>> {
        Some(int(self.transaction.place?.index))
    }

    /// The position among all transactions of the main chain, from 0 for the coinbase of the genesis block. Null while
    /// no main chain block contains it.
    async fn global_index(&self) -> Option<UInt53> {
        Some(self.transaction.place?.txnum.0.into())
    }

    /// All blocks that contain the transaction: those of the main chain, oldest first, then the stale blocks
    /// that the server stores (`Query.staleBlocks`). On mainnet at most two of the main chain (BIP30).
    #[graphql(complexity = "costs::list(OCCURRENCES, child_complexity)")]
    async fn occurrences(&self) -> Result<Vec<TxOccurrence>, ApiError> {
        self.view.count(0)?;
        let found = self.view.occurrences(&self.transaction.txid)?;
        let bytes = found.iter().filter(|(block, _)| !block.is_main()).map(|(block, _)| block.row.size);
        let bytes = bytes.fold(0_u32, u32::saturating_add);
        self.view.count(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(found.into_iter().map(|found| TxOccurrence::new(&self.view, found)).collect())
    }

    /// The merkle proof of the transaction in its block. The txids of a block are read once for all proofs of an answer. Null while no
    /// main chain block contains the transaction.
    #[graphql(complexity = "costs::more(costs::PROOF, child_complexity)")]
    async fn merkle_proof(&self, ctx: &Context<'_>) -> Option<Result<MerkleProofObject, ApiError>> {
        figures::merkle_proof(ctx, &self.view, &self.transaction).transpose()
    }

    /// The merkle proof in the serialisation of the `merkleblock` message (BIP37), which `gettxoutproof` of Bitcoin Core returns
    /// and `verifytxoutproof` verifies. Null while no main chain block contains the transaction.
    #[graphql(complexity = "costs::more(costs::PROOF, 0)")]
    async fn merkle_block_hex(&self, ctx: &Context<'_>) -> Option<Result<Hex, ApiError>> {
        figures::merkle_block(ctx, &self.view, &self.transaction).transpose()
    }

    /// The proof that its block contains the transaction with its witness. A block is read once for all these proofs of an answer. Null
    /// while no main chain block contains the transaction, and if the coinbase of its block commits to no witnesses.
    #[graphql(complexity = "costs::more(costs::WHOLE_BLOCK, child_complexity)")]
    async fn wtxid_proof(&self, ctx: &Context<'_>) -> Option<Result<WtxidProofObject, ApiError>> {
        figures::wtxid_proof(ctx, &self.view, &self.transaction).transpose()
    }

    /// The inputs, in order.
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn inputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Input>, ApiError>> {
        Some(self.input_page(ctx, PageArgs { first, after, last, before }))
    }

    /// The outputs, in order.
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn outputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Output>, ApiError>> {
        Some(self.output_page(ctx, PageArgs { first, after, last, before }))
    }

    /// The number of inputs.
    async fn input_count(&self) -> Result<i32, ApiError> {
        int(small(self.transaction.parts.input.len())?)
    }

    /// The number of outputs.
    async fn output_count(&self) -> Result<i32, ApiError> {
        int(small(self.transaction.parts.output.len())?)
    }

    /// The sum of the outputs that the transaction spends, in satoshis. Null for a coinbase, and if a spent output is
    /// not known.
    async fn total_input_value(&self) -> Option<Result<Sats, ApiError>> {
        let fee = self.fee_in_sat().transpose()?;
        Some(fee.and_then(|fee| Sats::new(self.transaction.output_value().saturating_add(fee))))
    }

    /// The sum of the transaction's outputs, in satoshis.
    async fn total_output_value(&self) -> Result<Sats, ApiError> {
        Sats::new(self.transaction.output_value())
    }

    /// The fee, in satoshis: input value minus output value. Null for a coinbase, and if a spent output is not known.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        Some(self.fee_in_sat().transpose()?.and_then(Sats::new))
    }

    /// Coin days destroyed: the sum over the spent outputs of their value in bitcoin times their age in days, as in
    /// `block.stats`. 0 for a coinbase. Null while no main chain block contains the transaction.
    #[graphql(complexity = "costs::more(2 * costs::LOOKED_UP_INPUTS, 0)")]
    async fn coin_days_destroyed(&self, ctx: &Context<'_>) -> Option<Result<f64, ApiError>> {
        figures::coin_days(ctx, &self.view, &self.transaction).transpose()
    }

    /// The transactions that create what the transaction spends, and those that create what these spend, the nearest first:
    /// where its coins come from. Each is listed once. Those not known are left out. Where there are `first`, there may be more.
    #[graphql(
        complexity = "costs::beginning(first.unwrap_or(25), child_complexity.saturating_add(costs::LOOKED_UP_INPUTS))"
    )]
    async fn ancestors(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The most hops to go.", default_with = "Some(1)")] depth: Option<i32>,
        #[graphql(desc = "The most transactions to return, at most a page.", default_with = "Some(25)")] first: Option<
            i32,
        >,
    ) -> Option<Result<Vec<TransactionHop>, ApiError>> {
        Some(hops(
            ctx,
            &self.view,
            &self.transaction,
            HopDirection::Ancestors,
            (depth.unwrap_or(1), first.unwrap_or(25)),
        ))
    }

    /// The transactions that spend the outputs of the transaction, and those that spend their outputs, on the main chain or in
    /// the mempool, the nearest first: where its coins go. Each is listed once. Where there are `first`, there may be more.
    #[graphql(
        complexity = "costs::beginning(first.unwrap_or(25), child_complexity.saturating_add(costs::LOOKED_UP_INPUTS))"
    )]
    async fn descendants(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The most hops to go.", default_with = "Some(1)")] depth: Option<i32>,
        #[graphql(desc = "The most transactions to return, at most a page.", default_with = "Some(25)")] first: Option<
            i32,
        >,
    ) -> Option<Result<Vec<TransactionHop>, ApiError>> {
        Some(hops(
            ctx,
            &self.view,
            &self.transaction,
            HopDirection::Descendants,
            (depth.unwrap_or(1), first.unwrap_or(25)),
        ))
    }

    /// The effect of the transaction on the balance of an owner: what it pays to the owner's scripts and spends from them, and
    /// the part of the fee that the owner pays. Example: `{ decodeTransaction(hex: "02…") { transaction { netEffect(of: {
    /// descriptors: [{ text: "wpkh(xpub…/<0;1>/*)" }] }) { net feePaid isSelfTransfer } } } }`.
    #[graphql(
        complexity = "child_complexity.saturating_add(of.accounts_cost(0)).saturating_add(of.script_count()).saturating_add(costs::LOOKED_UP_INPUTS)"
    )]
    async fn net_effect(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The scripts of the owner.")] of: LedgerInput,
    ) -> Option<Result<NetEffectObject, ApiError>> {
        Some(self.effect(ctx, of).await)
    }

    /// The feerate, in sat/vB, not rounded: the fee divided by a quarter of the weight. Null if the fee is null.
    async fn fee_rate(&self) -> Option<Result<f64, ApiError>> {
        let fee = self.fee_in_sat().transpose()?;
        Some(fee.map(|fee| self.rate_of(fee)))
    }

    /// The effective feerate, in sat/vB: that of the package with which miners include it, where one transaction pays for
    /// others. Its sizes are those by which miners order transactions (`adjustedVsize`). In the mempool, of unconfirmed transactions;
    /// on the main chain, of transactions of its block, as in `BlockSummary.effectiveFeeRates`. Null for a coinbase, and where the transaction is neither.
    #[graphql(complexity = "costs::contents(costs::MINED_CLUSTER)")]
    async fn effective_fee_rate(&self, ctx: &Context<'_>) -> Option<Result<f64, ApiError>> {
        self.effective_feerate(ctx).transpose()
    }

    /// How the miner of its block treated the transaction. Null for a coinbase, where no main chain block contains the
    /// transaction, and where `Block.audit` is null.
    async fn tx_audit(&self) -> Option<Result<TransactionAudit, ApiError>> {
        TransactionAudit::of(&self.view, &self.transaction).transpose()
    }

    /// When this server, or the node before it, first saw the transaction. Available while it is unconfirmed and for a
    /// long time after. Null if it was not seen before its block.
    async fn first_seen_at(&self) -> Option<Result<DateTime, ApiError>> {
        let seen = self.view.first_seen_at(&self.transaction);
        seen.map(|seen| seen.map(DateTime::from_seconds)).map_err(ApiError::from).transpose()
    }

    /// The time from `firstSeenAt` to the timestamp of its block, in seconds. Miners choose that timestamp, so this can
    /// be negative. Null unless the transaction is confirmed and was seen before its block.
    async fn confirmed_after_seconds(&self) -> Option<Result<i32, ApiError>> {
        self.confirmed_after().transpose()
    }

    /// The mempool details of the transaction. Null unless it is in the mempool.
    async fn mempool_entry(&self) -> Option<MempoolEntry> {
        self.transaction.unconfirmed.as_ref().map(|entry| MempoolEntry::new(&self.view, entry))
    }

    /// Whether one of the transaction's own inputs signals replaceability (BIP125). Nodes no longer require the signal:
    /// without it, the transaction can be replaced as well; see `mempoolEntry.isReplaceable`.
    async fn is_signaling_rbf(&self) -> bool {
        self.transaction.signals_replaceability()
    }

    /// The transactions that left the mempool because this one spends the same outputs, oldest departure first.
    /// `rbfTree` also includes those whose bytes the server no longer stores. About as many as this one has inputs at most.
    #[graphql(complexity = "costs::list(REPLACED, child_complexity)")]
    async fn replaces(&self) -> Result<Vec<Transaction>, ApiError> {
        self.replaced()
    }

    /// The transaction that replaced this one in the mempool, wherever it is now. Null if there is none, or if it is no
    /// longer known. A descendant of a replaced transaction is not replaced itself, although its state is REPLACED.
    async fn replaced_by(&self) -> Option<Result<Transaction, ApiError>> {
        self.replacement().transpose()
    }

    /// The tree of replacements that contains the transaction, from the newest replacement down. Null if no replacement
    /// of or by the transaction is remembered.
    async fn rbf_tree(&self) -> Option<Result<RbfNode, ApiError>> {
        let newest = self.view.newest_replacement(&self.transaction.txid).transpose()?;
        Some(newest.map_err(ApiError::from).and_then(|newest| RbfNode::find(&self.view, newest)))
    }

    /// The transactions that spend the same outputs: those that this one replaced, the one that replaced it, and, if it
    /// is neither in the mempool nor on the main chain, the transactions there that conflict with it. A confirmed
    /// transaction does not list the conflicting ones that its block removed. At most one for each of its inputs, beside those
    /// that it replaced.
    #[graphql(complexity = "costs::list(REPLACED, 0)")]
    async fn conflicts(&self) -> Result<Vec<Txid>, ApiError> {
        self.conflicting()
    }
}

/// A size or count within one transaction, which a block bounds far below 32 bits.
pub(super) fn small(size: impl TryInto<u32>) -> Result<u32, ApiError> {
    size.try_into().map_err(|_| ApiError::internal("a transaction is larger than any block"))
}
