//! Submission of transactions to the node while a client waits, for broadcast or for a test.
//!
//! Each submission is one request, within the limits of all node requests, and is never retried: after an error its effect
//! is unknown, and the client decides whether to send it again, which is harmless.

use std::sync::Arc;

use bitcoin::Txid;

use super::client::{NodeClient, NodeClientError, logged};
use crate::chain::Feerate;
use crate::node::{MaxFees, PackageOutcome, Refusal, TestedTransaction};

/// The node's verdict on a submission, or why there is none.
type NodeVerdict<T> = Result<Result<T, Refusal>, Arc<NodeClientError>>;

impl NodeClient {
    /// Sends a transaction, in hexadecimal, which the node relays to its peers if it accepts it. One that is in the node's
    /// mempool already is accepted, too.
    pub async fn send_transaction(&self, transaction: String, max: MaxFees) -> NodeVerdict<Txid> {
        let sent =
            self.node.request(move |node, patience| node.send_raw_transaction(&transaction, max, patience)).await;
        sent.map_err(logged)
    }

    /// Sends a package of transactions, in hexadecimal, of which the last pays for the others.
    pub async fn send_package(&self, transactions: Vec<String>, max: MaxFees) -> NodeVerdict<PackageOutcome> {
        let sent = self.node.request(move |node, patience| node.submit_package(&transactions, max, patience)).await;
        sent.map_err(logged)
    }

    /// Tests whether the node would accept these transactions, in hexadecimal, sent together in this order.
    pub async fn test_transactions(
        &self,
        transactions: Vec<String>,
        max_feerate: Option<Feerate>,
    ) -> NodeVerdict<Vec<TestedTransaction>> {
        let judged =
            self.node.request(move |node, patience| node.test_accept(&transactions, max_feerate, patience)).await;
        judged.map_err(logged)
    }
}
