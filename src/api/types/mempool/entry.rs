use std::sync::{Arc, OnceLock};

use async_graphql::Object;

use super::fee_bin;
use super::mempool::unconfirmed;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Sats, UInt53, int, int_of};
use crate::api::types::transaction::Transaction;
use crate::view::{Entry, Sums, View};

/// How many parents or children a transaction is taken to have before they are known.
const RELATIVES: usize = 4;

/// What waits, and what is around it.
pub(crate) struct MempoolEntry {
    view: Arc<View>,
    entry: Arc<Entry>,
    ancestors: OnceLock<Sums>,
    descendants: OnceLock<Sums>,
}

impl MempoolEntry {
    pub(crate) fn new(view: &Arc<View>, entry: &Arc<Entry>) -> Self {
        let (view, entry) = (view.clone(), entry.clone());
        Self { view, entry, ancestors: OnceLock::new(), descendants: OnceLock::new() }
    }

    fn ancestors(&self) -> Sums {
        *self.ancestors.get_or_init(|| self.view.mempool().ancestors(&self.entry.txid).sums)
    }

    fn descendants(&self) -> Sums {
        *self.descendants.get_or_init(|| self.view.mempool().descendants(&self.entry.txid).sums)
    }

    fn vsize_with(&self, others: Sums) -> Result<i32, ApiError> {
        int_of(others.vsize.saturating_add(self.entry.policy_vsize()))
    }

    fn fees_with(&self, others: Sums) -> Result<Sats, ApiError> {
        Sats::new(others.fee.saturating_add(self.entry.fee))
    }

    fn each(&self, entries: &[Arc<Entry>]) -> Result<Vec<Transaction>, ApiError> {
        entries.iter().map(|entry| unconfirmed(&self.view, entry)).collect()
    }
}

impl FieldCacheability for MempoolEntry {
    const UNTIL_NEXT_HEAD: &'static str = "addedAt addedAtHeight ancestorCount totalAncestorVsize totalAncestorFees \
        descendantCount totalDescendantVsize totalDescendantFees parents children isSpendingUnconfirmed \
        projectedBlockIndex totalVsizeAhead isReplaceable bumpFeeTo";
}

/// The mempool details of an unconfirmed transaction. As in Bitcoin Core's `getmempoolentry`, the counts and sums of
/// ancestors and descendants include the transaction itself, and sizes are those by which nodes judge them (`adjustedVsize`).
#[Object]
impl MempoolEntry {
    /// When the transaction was first seen: by this server's clock, or by the node's clock if it arrived before the
    /// server started.
    async fn added_at(&self) -> DateTime {
        DateTime::from_seconds(self.entry.first_seen)
    }

    /// The height of the tip when the transaction was added. A transaction that a reorg returned to the mempool was
    /// added after the reorg.
    async fn added_at_height(&self) -> Result<i32, ApiError> {
        int(self.entry.height.to_u32())
    }

    /// The number of ancestors in the mempool, itself included.
    async fn ancestor_count(&self) -> Result<i32, ApiError> {
        int_of(self.ancestors().count.saturating_add(1))
    }

    /// The total virtual size of the ancestors, itself included, in vbytes.
    async fn total_ancestor_vsize(&self) -> Result<i32, ApiError> {
        self.vsize_with(self.ancestors())
    }

    /// The total fees of the ancestors, itself included, in satoshis.
    async fn total_ancestor_fees(&self) -> Result<Sats, ApiError> {
        self.fees_with(self.ancestors())
    }

    /// The number of descendants in the mempool, itself included.
    async fn descendant_count(&self) -> Result<i32, ApiError> {
        int_of(self.descendants().count.saturating_add(1))
    }

    /// The total virtual size of the descendants, itself included, in vbytes.
    async fn total_descendant_vsize(&self) -> Result<i32, ApiError> {
        self.vsize_with(self.descendants())
    }

    /// The total fees of the descendants, itself included, in satoshis.
    async fn total_descendant_fees(&self) -> Result<Sats, ApiError> {
        self.fees_with(self.descendants())
    }

    /// The unconfirmed transactions whose outputs it spends, by arrival. At most one for each of its inputs.
    #[graphql(complexity = "costs::list(RELATIVES, child_complexity)")]
    async fn parents(&self) -> Result<Vec<Transaction>, ApiError> {
        self.each(&self.view.mempool().parents(&self.entry.txid))
    }

    /// The unconfirmed transactions that spend its outputs, by arrival. At most one for each of its outputs.
    #[graphql(complexity = "costs::list(RELATIVES, child_complexity)")]
    async fn children(&self) -> Result<Vec<Transaction>, ApiError> {
        self.each(&self.view.mempool().children(&self.entry.txid))
    }

    /// Whether it spends an output of another unconfirmed transaction.
    async fn is_spending_unconfirmed(&self) -> bool {
        self.entry.has_parents()
    }

    /// The index of the projected block that contains the transaction. 0 for the next block.
    async fn projected_block_index(&self) -> Option<Result<i32, ApiError>> {
        Some(int_of(self.view.mempool().projected_place(&self.entry.txid)?.block))
    }

    /// The total virtual size of the transactions before it in the projected blocks, in vbytes.
    async fn total_vsize_ahead(&self) -> Option<Result<UInt53, ApiError>> {
        Some(UInt53::new(self.view.mempool().projected_place(&self.entry.txid)?.vsize_ahead))
    }

    /// Whether nodes accept a replacement that pays enough. By default they do, whether the transaction signals
    /// replaceability or not, unless it has more than 100 descendants, itself included.
    async fn is_replaceable(&self) -> bool {
        self.view.mempool().is_replaceable(&self.entry.txid)
    }

    /// The minimum fee, in satoshis, that a replacement of the same size must pay to be accepted and to reach a
    /// feerate. At least the fees of the transaction and its descendants, plus the relay fee for the replacement's own
    /// size. Null if the transaction is not replaceable.
    async fn bump_fee_to(
        &self,
        #[graphql(desc = "The feerate to reach, in sat/vB, to a thousandth.")] fee_rate: f64,
        #[graphql(
            desc = "If true, the feerate applies to the replacement's size alone. If false, the fee also pays for \
                    ancestors that would otherwise be mined at a lower feerate.",
            default_with = "Some(true)"
        )]
        minimal: Option<bool>,
    ) -> Option<Result<Sats, ApiError>> {
        let rate = match fee_bin::feerate("feeRate", fee_rate) {
            Ok(rate) => rate,
            Err(error) => return Some(Err(error)),
        };
        let ancestors = minimal == Some(false);
        Some(Sats::new(self.view.mempool().replacement_fee(&self.entry.txid, rate, ancestors)?))
    }
}
