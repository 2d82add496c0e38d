use std::sync::{Arc, OnceLock};

use async_graphql::Object;

use super::super::costs;
use super::super::error::ApiError;
use super::super::scalars::{DateTime, Sats, UInt53, int, int_of};
use super::super::transaction::Transaction;
use super::{fee_bin, unconfirmed};
use crate::view::{Entry, Sums, View};

/// How many parents or children a transaction is taken to have before they are known.
const RELATIVES: usize = 4;

/// What waits, and what is around it.
pub(in crate::api) struct MempoolEntry {
    view: Arc<View>,
    entry: Arc<Entry>,
    ancestors: OnceLock<Sums>,
    descendants: OnceLock<Sums>,
}

impl MempoolEntry {
    pub(in crate::api) fn new(view: &Arc<View>, entry: &Arc<Entry>) -> Self {
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
        int_of(others.vsize.saturating_add(self.entry.vsize()))
    }

    fn fees_with(&self, others: Sums) -> Result<Sats, ApiError> {
        Sats::new(others.fee.saturating_add(self.entry.fee))
    }

    fn each(&self, entries: &[Arc<Entry>]) -> Result<Vec<Transaction>, ApiError> {
        entries.iter().map(|entry| unconfirmed(&self.view, entry)).collect()
    }
}

/// A transaction among those that wait for a block. Ancestors are all that it stands on in the mempool, descendants all
/// that stands on it; both counts and sums have the transaction itself in them, as in Bitcoin Core's `getmempoolentry`.
#[Object]
impl MempoolEntry {
    /// When it was first seen, by this server's clock or, for what was there before the server, by the node's.
    async fn added_at(&self) -> DateTime {
        DateTime::from_seconds(self.entry.first_seen)
    }

    /// The height of the newest block when it was added. One that a reorganisation took out of a block was added after
    /// that.
    async fn added_at_height(&self) -> Result<i32, ApiError> {
        int(self.entry.height.to_u32())
    }

    /// How many transactions its ancestors are, itself included.
    async fn ancestor_count(&self) -> Result<i32, ApiError> {
        int_of(self.ancestors().count.saturating_add(1))
    }

    /// The virtual sizes of its ancestors together, itself included, in vbytes.
    async fn ancestor_vsize(&self) -> Result<i32, ApiError> {
        self.vsize_with(self.ancestors())
    }

    /// The fees of its ancestors together, itself included, in satoshis.
    async fn ancestor_fees(&self) -> Result<Sats, ApiError> {
        self.fees_with(self.ancestors())
    }

    /// How many transactions its descendants are, itself included.
    async fn descendant_count(&self) -> Result<i32, ApiError> {
        int_of(self.descendants().count.saturating_add(1))
    }

    /// The virtual sizes of its descendants together, itself included, in vbytes.
    async fn descendant_vsize(&self) -> Result<i32, ApiError> {
        self.vsize_with(self.descendants())
    }

    /// The fees of its descendants together, itself included, in satoshis.
    async fn descendant_fees(&self) -> Result<Sats, ApiError> {
        self.fees_with(self.descendants())
    }

    /// The unconfirmed transactions whose outputs it spends, in the order of their arrival.
    #[graphql(complexity = "costs::list(RELATIVES, child_complexity)")]
    async fn parents(&self) -> Result<Vec<Transaction>, ApiError> {
        self.each(&self.view.mempool().parents(&self.entry.txid))
    }

    /// The unconfirmed transactions that spend its outputs, in the order of their arrival.
    #[graphql(complexity = "costs::list(RELATIVES, child_complexity)")]
    async fn children(&self) -> Result<Vec<Transaction>, ApiError> {
        self.each(&self.view.mempool().children(&self.entry.txid))
    }

    /// Whether it spends an output of another unconfirmed transaction.
    async fn has_unconfirmed_inputs(&self) -> bool {
        self.entry.has_parents()
    }

    /// The index of the projected block that it is in, 0 for the next block.
    async fn projected_block(&self) -> Option<Result<i32, ApiError>> {
        Some(int_of(self.view.mempool().projected_place(&self.entry.txid)?.block))
    }

    /// The vbytes of all transactions that come before it in the projected blocks.
    async fn vsize_ahead(&self) -> Option<Result<UInt53, ApiError>> {
        Some(UInt53::new(self.view.mempool().projected_place(&self.entry.txid)?.vsize_ahead))
    }

    /// Whether nodes take another transaction in its place that pays enough. They do by default, whether it signals that
    /// or not, unless it has more than 100 descendants, itself included.
    async fn is_replaceable(&self) -> bool {
        self.view.mempool().is_replaceable(&self.entry.txid)
    }

    /// The least fee, in satoshis, that a transaction of the same size must pay to take its place and have a feerate. It
    /// is as much at least as it and its descendants pay, and for its own size on top. Null if it cannot be replaced.
    async fn bump_fee_to(
        &self,
        #[graphql(desc = "The feerate to reach, in sat/vB, to a thousandth.")] fee_rate: f64,
        #[graphql(
            desc = "True for that feerate over its own size alone. False to pay also for those of its ancestors that \
                    would else be mined at less.",
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
