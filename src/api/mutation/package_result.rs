use async_graphql::Object;

use super::super::scalars::Txid;
use super::broadcast_result::BroadcastResult;

/// What became of transactions that were sent together.
pub(super) struct PackageResult {
    pub(super) message: String,
    pub(super) results: Vec<BroadcastResult>,
    pub(super) replaced: Vec<bitcoin::Txid>,
    pub(super) fee_rate: Option<f64>,
}

/// What became of transactions that were sent together.
#[Object]
impl PackageResult {
    /// Whether all of them are in the mempool or in a block now.
    async fn accepted(&self) -> bool {
        self.results.iter().all(|result| result.outcome.is_success())
    }

    /// The node's word for the package: `success`, or why not.
    async fn message(&self) -> &str {
        &self.message
    }

    /// What became of each, in the order in which they were sent.
    async fn results(&self) -> &[BroadcastResult] {
        &self.results
    }

    /// What left the mempool for all of them together, by txid.
    async fn replaced(&self) -> Vec<Txid> {
        self.replaced.iter().copied().map(Txid).collect()
    }

    /// What those of them that are in the mempool pay together, in satoshis per vbyte: all of their fees by all of their
    /// virtual sizes. Null if none is.
    async fn package_fee_rate(&self) -> Option<f64> {
        self.fee_rate
    }
}
