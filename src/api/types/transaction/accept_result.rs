use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::Object;

use super::reject_code::RejectCode;
use super::reject_info::RejectInfo;
use super::submitted::Submission;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, Txid, Wtxid, int_of};
use crate::view::{MempoolAcceptance, TestedTransaction, View};

/// The verdict of the node on a transaction that was not sent.
pub(crate) struct AcceptResult {
    txid: bitcoin::Txid,
    wtxid: bitcoin::Wtxid,
    verdict: Result<MempoolAcceptance, RejectInfo>,
}

impl AcceptResult {
    pub(crate) fn new(
        tested: TestedTransaction,
        brought: &Submission,
        view: &Arc<View>,
        among: &Arc<HashSet<bitcoin::Txid>>,
    ) -> Result<Self, ApiError> {
        let TestedTransaction { txid, wtxid, verdict, package_error } = tested;
        let verdict = match verdict {
            Some(Ok(judged)) => Ok(judged),
            Some(Err(refusal)) => {
                let reject = RejectInfo::new(refusal, view, &brought.parts, among);
                // of one whose outputs are all spent the node says that its inputs are
                Err(if view.is_confirmed(&txid)? { reject.with_code(RejectCode::AlreadyConfirmed) } else { reject })
            }
            None => Err(match package_error {
                Some(reason) => RejectInfo::of_package(&reason),
                None => RejectInfo::not_tried("not tested, because another transaction of the list was rejected"),
            }),
        };
        Ok(Self { txid, wtxid, verdict })
    }
}

impl FieldCacheability for AcceptResult {
    const NEVER: &'static str = "txid wtxid allowed vsize fee effectiveFeeRate effectiveIncludes reject";
}

/// The result of testing a transaction against the node's mempool rules, without submitting it.
#[Object]
impl AcceptResult {
    /// The txid of the transaction.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// The wtxid of the transaction.
    async fn wtxid(&self) -> Wtxid {
        Wtxid(self.wtxid)
    }

    /// Whether the node would accept the transaction into its mempool.
    async fn allowed(&self) -> bool {
        self.verdict.is_ok()
    }

    /// The virtual size that the node uses for fees, in vbytes. Larger than the weight implies if the transaction has
    /// very many signature operations. Null if the transaction is not allowed.
    async fn vsize(&self) -> Option<Result<i32, ApiError>> {
        self.verdict.as_ref().ok().map(|judged| int_of(judged.vsize))
    }

    /// The fee, in satoshis. Null if the transaction is not allowed.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        self.verdict.as_ref().ok().map(|judged| Sats::of(judged.fee))
    }

    /// The feerate that the node checks, in sat/vB: that of the transactions in `effectiveIncludes` together. Null if
    /// the transaction is not allowed, or if the node does not report a feerate.
    async fn effective_fee_rate(&self) -> Option<f64> {
        Some(self.verdict.as_ref().ok()?.effective_feerate?.to_sat_per_vb())
    }

    /// The wtxids of the transactions whose fees and sizes add up to `effectiveFeeRate`, this transaction included.
    /// Empty if `effectiveFeeRate` is null.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn effective_includes(&self) -> Vec<Wtxid> {
        let includes = self.verdict.as_ref().map(|judged| judged.effective_includes.as_slice()).unwrap_or_default();
        includes.iter().copied().map(Wtxid).collect()
    }

    /// Why the transaction is not allowed. Null if it is allowed.
    async fn reject(&self) -> Option<RejectInfo> {
        self.verdict.as_ref().err().cloned()
    }
}
