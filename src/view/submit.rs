//! Handing transactions to the node while a client waits, to be sent or to be judged.
//!
//! Each goes out in a request of its own, within the bounds of all questions to the node, and is never repeated: after an
//! error it is not known what became of it, and whoever waits decides whether to send it again, which does no harm.

use std::sync::Arc;

use bitcoin::Txid;

use super::ask::{Ask, AskError, told_to_log};
use crate::chain::Feerate;
use crate::node::{MaxFees, PackageOutcome, Refusal, TestedTransaction};

/// What the node did with what it was handed, unless it did not answer.
type Handed<T> = Result<Result<T, Refusal>, Arc<AskError>>;

impl Ask {
    /// Sends a transaction, in hexadecimal, which the node tells to its peers if it takes it. One that is in the node's
    /// mempool already is taken, too.
    pub async fn send_transaction(&self, transaction: String, max: MaxFees) -> Handed<Txid> {
        let sent = self.access.once(move |node, patience| node.send_raw_transaction(&transaction, max, patience)).await;
        sent.map_err(told_to_log)
    }

    /// Sends transactions, in hexadecimal, of which the last pays for the others.
    pub async fn send_package(&self, transactions: Vec<String>, max: MaxFees) -> Handed<PackageOutcome> {
        let sent = self.access.once(move |node, patience| node.submit_package(&transactions, max, patience)).await;
        sent.map_err(told_to_log)
    }

    /// Asks what would become of transactions, in hexadecimal, if they were sent together, in their order.
    pub async fn test_transactions(
        &self,
        transactions: Vec<String>,
        max_feerate: Option<Feerate>,
    ) -> Handed<Vec<TestedTransaction>> {
        let judged =
            self.access.once(move |node, patience| node.test_accept(&transactions, max_feerate, patience)).await;
        judged.map_err(told_to_log)
    }
}
