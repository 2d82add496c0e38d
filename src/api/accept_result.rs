use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::Object;

use super::brought::Brought;
use super::error::ApiError;
use super::reject_code;
use super::reject_info::RejectInfo;
use super::scalars::{Sats, Txid, Wtxid, int_of};
use crate::view::{Judged, TestedTransaction, View};

/// What the node said of a transaction that was not sent.
pub(super) struct AcceptResult {
    txid: bitcoin::Txid,
    wtxid: bitcoin::Wtxid,
    verdict: Result<Judged, RejectInfo>,
}

impl AcceptResult {
    pub(super) fn new(
        tested: TestedTransaction,
        brought: &Brought,
        view: &Arc<View>,
        among: &Arc<HashSet<bitcoin::Txid>>,
    ) -> Result<Self, ApiError> {
        let TestedTransaction { txid, wtxid, verdict, package_error } = tested;
        let verdict = match verdict {
            Some(Ok(judged)) => Ok(judged),
            Some(Err(refusal)) => {
                let reject = RejectInfo::new(refusal, view, &brought.parts, among);
                // of one whose outputs are all spent the node says that its inputs are
                Err(if view.is_confirmed(&txid)? { reject.with_code(reject_code::ALREADY_CONFIRMED) } else { reject })
            }
            None => Err(match package_error {
                Some(reason) => RejectInfo::of_package(&reason),
                None => RejectInfo::not_tried("another transaction of the list was refused before it"),
            }),
        };
        Ok(Self { txid, wtxid, verdict })
    }
}

/// What would become of a transaction if it were sent now.
#[Object]
impl AcceptResult {
    /// Its txid.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// Its wtxid.
    async fn wtxid(&self) -> Wtxid {
        Wtxid(self.wtxid)
    }

    /// Whether the node would take it into its mempool.
    async fn allowed(&self) -> bool {
        self.verdict.is_ok()
    }

    /// Its virtual size as the node counts it for fees, in vbytes: more than by its weight if it has very many signature
    /// operations. Null if it is not allowed.
    async fn vsize(&self) -> Option<Result<i32, ApiError>> {
        self.verdict.as_ref().ok().map(|judged| int_of(judged.vsize))
    }

    /// Its fee in satoshis. Null if it is not allowed.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        self.verdict.as_ref().ok().map(|judged| Sats::of(judged.fee))
    }

    /// The feerate by which the node judges it, in satoshis per vbyte: of the transactions in `effectiveIncludes` together.
    /// Null if it is not allowed, or the node does not say.
    async fn effective_fee_rate(&self) -> Option<f64> {
        Some(self.verdict.as_ref().ok()?.effective_feerate?.to_sat_per_vb())
    }

    /// The wtxids of the transactions whose fees and sizes make `effectiveFeeRate`, itself among them. Empty if it is null.
    async fn effective_includes(&self) -> Vec<Wtxid> {
        let includes = self.verdict.as_ref().map(|judged| judged.effective_includes.as_slice()).unwrap_or_default();
        includes.iter().copied().map(Wtxid).collect()
    }

    /// Why it is not allowed. Null if it is.
    async fn reject(&self) -> Option<RejectInfo> {
        self.verdict.as_ref().err().cloned()
    }
}
