use async_graphql::Object;

use super::broadcast_result::BroadcastResult;
use crate::api::costs;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Txid;

/// The result of submitting a package of transactions.
pub(crate) struct PackageResult {
    pub(crate) message: String,
    pub(crate) results: Vec<BroadcastResult>,
    pub(crate) replaced: Vec<bitcoin::Txid>,
    pub(crate) fee_rate: Option<f64>,
}

impl FieldCacheability for PackageResult {
    const NEVER: &'static str = "accepted message results replaced packageFeeRate";
}

/// The result of submitting a package of transactions.
#[Object]
impl PackageResult {
    /// Whether all transactions are now in the mempool or in a block.
    async fn accepted(&self) -> bool {
        self.results.iter().all(|result| result.outcome.is_success())
    }

    /// The node's result for the package: `success`, or the reason for the rejection.
    async fn message(&self) -> &str {
        &self.message
    }

    /// The result of each transaction, in the order of submission.
    async fn results(&self) -> &[BroadcastResult] {
        &self.results
    }

    /// The txids of the transactions that left the mempool because of the package. As many as the node allows: some hundred.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn replaced(&self) -> Vec<Txid> {
        self.replaced.iter().copied().map(Txid).collect()
    }

    /// The feerate of those transactions of the package that are in the mempool, in sat/vB: their total fees divided by
    /// their total virtual size. Null if there are none.
    async fn package_fee_rate(&self) -> Option<f64> {
        self.fee_rate
    }
}
