use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bitcoin::Amount;
use tokio::time::Instant;

use crate::api::error::ApiError;
use crate::api::scalars::Hex;
use crate::api::types::transaction::{
    BroadcastOutcome, BroadcastResult, PackageResult, RejectCode, RejectInfo, Submission, reject_code,
};
use crate::api::wait_until::wait_until;
use crate::chain::float::to_f64;
use crate::live::Live;
use crate::view::{
    IndexError, MaxFees, MempoolAcceptance, NodeClientError, PackageOutcome, Published, Refusal, SubmittedTransaction,
    View,
};

/// How long an answer waits until the server knows what the node accepted. With signals of the node it takes milliseconds;
/// without, the server looks once a second by default.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Sends transactions, and finds out what became of them.
#[derive(Clone)]
pub(crate) struct Sender {
    published: Published,
    live: Live,
}

/// What the mempool had of a transaction before it was sent.
struct Before {
    is_there: bool,
    would_replace: BTreeSet<bitcoin::Txid>,
}

impl Sender {
    pub(crate) fn new(published: &Published, live: &Live) -> Self {
        Self { published: published.clone(), live: live.clone() }
    }

    /// Sends one transaction. The answer may read and tell so many bytes of transactions.
    ///
    /// Errors: before it is sent NOT_READY, NODE_UNAVAILABLE and INTERNAL_SERVER_ERROR; none once the node has answered.
    pub(crate) async fn send(&self, hex: Hex, max: MaxFees, bytes: usize) -> Result<BroadcastResult, ApiError> {
        let brought = match Submission::read(hex) {
            Ok(brought) => brought,
            Err(why) => return Ok(BroadcastResult::not_decoded(&why)),
        };
        // no state is kept while the node is asked
        let before = Before::of(&*self.view(bytes)?, &brought);
        let sent = self.published.node_client().send_transaction(brought.to_hex(), max).await;
        match sent {
            Err(error) if error.had_no_effect() => Err(ApiError::node_unavailable(&error)),
            Err(_) => Ok(BroadcastResult::unknown(&brought)),
            Ok(Ok(_)) => {
                let view = self.view_with(bytes, |view| view.contains(&brought.txid)).await;
                Ok(before.taken(&brought, view.as_ref()))
            }
            Ok(Err(refusal)) => {
                let among = Arc::default();
                let view = self.view_with(bytes, |view| shows(view, &refusal, &brought, &among)).await;
                Ok(refused(refusal, &brought, view.as_ref(), &among))
            }
        }
    }

    /// Sends transactions together.
    ///
    /// Errors: as those of `send`.
    pub(crate) async fn send_package(
        &self,
        hexes: Vec<Hex>,
        max: MaxFees,
        bytes: usize,
    ) -> Result<PackageResult, ApiError> {
        let read: Vec<_> = hexes.into_iter().map(Submission::read).collect();
        if read.iter().any(Result::is_err) {
            return Ok(PackageResult::not_decoded(&read));
        }
        let brought: Vec<_> = read.into_iter().flatten().collect();
        let before: Vec<_> = {
            let view = self.view(bytes)?;
            brought.iter().map(|brought| Before::of(&view, brought)).collect()
        };
        let hexes = brought.iter().map(Submission::to_hex).collect();
        let outcome = match self.published.node_client().send_package(hexes, max).await {
            Err(error) if error.had_no_effect() => return Err(ApiError::node_unavailable(&error)),
            Err(error) => return Ok(PackageResult::unknown(&brought, &error)),
            Ok(Err(refusal)) => return Ok(self.all_refused(&refusal, &brought, bytes).await),
            Ok(Ok(outcome)) => outcome,
        };
        let PackageOutcome { message, transactions, replaced } = outcome;
        let node_results: HashMap<_, _> = transactions.into_iter().map(|result| (result.wtxid, result)).collect();
        let among: Arc<HashSet<_>> = Arc::new(brought.iter().map(|brought| brought.txid).collect());
        let all_show = |view: &View| {
            for brought in &brought {
                let shows = match node_results.get(&brought.wtxid) {
                    Some(SubmittedTransaction { verdict: Some(Err(refusal)), .. }) => {
                        shows(view, refusal, brought, &among)?
                    }
                    Some(_) => view.contains(&brought.txid)?,
                    None => true,
                };
                if !shows {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let view = self.view_with(bytes, all_show).await;
        let view = view.as_ref();
        let mut results = Vec::with_capacity(brought.len());
        for (brought, before) in brought.iter().zip(before) {
            results.push(match node_results.get(&brought.wtxid) {
                Some(SubmittedTransaction { other_wtxid: Some(_), .. }) => {
                    BroadcastResult::success(BroadcastOutcome::AlreadyInMempool, brought, view, Vec::new())
                }
                Some(SubmittedTransaction { verdict: Some(Ok(_)), .. }) => {
                    before.and_were_replaced(&replaced).taken(brought, view)
                }
                Some(SubmittedTransaction { verdict: Some(Err(refusal)), .. }) => {
                    refused(refusal.clone(), brought, view, &among)
                }
                _ => BroadcastResult::not_tried(brought, &message),
            });
        }
        let fee_rate = fee_rate(node_results.values().filter_map(|result| result.verdict.as_ref()?.as_ref().ok()));
        let replaced: BTreeSet<_> = replaced.into_iter().collect();
        Ok(PackageResult { message, results, replaced: replaced.into_iter().collect(), fee_rate })
    }

    /// Of transactions that the node does not take for a package. Those that are there already are a success all the same.
    async fn all_refused(&self, refusal: &Refusal, brought: &[Submission], bytes: usize) -> PackageResult {
        let among: Arc<HashSet<_>> = Arc::new(brought.iter().map(|brought| brought.txid).collect());
        let all_show = |view: &View| {
            for brought in brought {
                if !shows(view, refusal, brought, &among)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let view = self.view_with(bytes, all_show).await;
        let results = brought.iter().map(|brought| refused(refusal.clone(), brought, view.as_ref(), &among));
        let results = results.collect();
        PackageResult { message: refusal.message.clone(), results, replaced: Vec::new(), fee_rate: None }
    }

    /// The newest state. Errors: NOT_READY.
    fn view(&self, bytes: usize) -> Result<Arc<View>, ApiError> {
        let head = self.published.head().ok_or_else(|| ApiError::not_ready(&self.published.state()))?;
        Ok(Arc::new(self.published.view_of(head, bytes, self.published.node_client())))
    }

    /// The first state of which this is true, or else the one after a while. None if it cannot be read, which the log
    /// says: what the node did is known without it.
    async fn view_with(&self, bytes: usize, is_so: impl Fn(&View) -> Result<bool, IndexError>) -> Option<Arc<View>> {
        let look = || {
            let found = self.view(bytes).and_then(|view| Ok(is_so(&view)?.then_some(view)));
            found.transpose()
        };
        match wait_until(&self.live, Instant::now() + PATIENCE, look).await {
            // the error has sent the log
            Some(found) => found.ok(),
            None => self.view(bytes).ok(),
        }
    }
}

impl Before {
    fn of(view: &View, brought: &Submission) -> Self {
        let is_there = view.mempool().get(&brought.txid).is_some();
        Self { is_there, would_replace: view.would_replace(&brought.parts) }
    }

    /// The same where the node says what was replaced.
    fn and_were_replaced(mut self, replaced: &[bitcoin::Txid]) -> Self {
        self.would_replace.retain(|txid| replaced.contains(txid));
        self
    }

    /// What became of a transaction that the node has now.
    fn taken(self, brought: &Submission, view: Option<&Arc<View>>) -> BroadcastResult {
        if self.is_there {
            return BroadcastResult::success(BroadcastOutcome::AlreadyInMempool, brought, view, Vec::new());
        }
        let replaced = self.would_replace.into_iter().collect();
        BroadcastResult::success(BroadcastOutcome::Accepted, brought, view, replaced)
    }
}

/// Whether a state shows what a refusal is about, as far as that is to be found in it.
fn shows(
    view: &View,
    refusal: &Refusal,
    brought: &Submission,
    among: &HashSet<bitcoin::Txid>,
) -> Result<bool, IndexError> {
    Ok(match reject_code(refusal) {
        RejectCode::AlreadyConfirmed | RejectCode::AlreadyInMempool => view.contains(&brought.txid)?,
        RejectCode::MissingInputs => {
            view.contains(&brought.txid)? || !view.obstacles(&brought.parts, among)?.missing.is_empty()
        }
        _ => true,
    })
}

/// What became of a transaction that the node did not take: it may have it, or the chain may.
fn refused(
    refusal: Refusal,
    brought: &Submission,
    view: Option<&Arc<View>>,
    among: &Arc<HashSet<bitcoin::Txid>>,
) -> BroadcastResult {
    let there = match view {
        Some(view) => overruled(&refusal, brought, view).unwrap_or_else(|error| {
            tracing::error!(%error, "a rejection is returned without details from the index");
            None
        }),
        None => None,
    };
    let of_code = match reject_code(&refusal) {
        RejectCode::AlreadyConfirmed => Some(BroadcastOutcome::AlreadyConfirmed),
        RejectCode::AlreadyInMempool => Some(BroadcastOutcome::AlreadyInMempool),
        _ => None,
    };
    // the chain knows better than the node, which knows of a block by its unspent outputs only
    let outcome = if there == Some(BroadcastOutcome::AlreadyConfirmed) { there } else { of_code.or(there) };
    match (outcome, view) {
        (Some(outcome), view) => BroadcastResult::success(outcome, brought, view, Vec::new()),
        (None, Some(view)) => {
            let reject = RejectInfo::new(refusal, view, &brought.parts, among);
            BroadcastResult::rejected(brought, view, reject)
        }
        (None, None) => BroadcastResult::rejected_unread(brought, refusal),
    }
}

/// Where a transaction is that the node refused for whatever reason, and has all the same.
fn overruled(refusal: &Refusal, brought: &Submission, view: &View) -> Result<Option<BroadcastOutcome>, IndexError> {
    // a node that judges the fee does not have it, and a state that is not the node's proves nothing
    if reject_code(refusal) == RejectCode::FeeTooLow || !view.is_in_sync() {
        return Ok(None);
    }
    if view.is_confirmed(&brought.txid)? {
        return Ok(Some(BroadcastOutcome::AlreadyConfirmed));
    }
    let is_waiting = view.sync_state().mempool_in_sync && view.mempool().get(&brought.txid).is_some();
    Ok(is_waiting.then_some(BroadcastOutcome::AlreadyInMempool))
}

/// What transactions pay together, in sat/vB.
fn fee_rate<'j>(judged: impl Iterator<Item = &'j MempoolAcceptance>) -> Option<f64> {
    let sum = |(fee, vsize): (Amount, u64), judged: &MempoolAcceptance| {
        (fee.checked_add(judged.fee).unwrap_or(Amount::MAX), vsize.saturating_add(judged.vsize))
    };
    let (fee, vsize) = judged.fold((Amount::ZERO, 0), sum);
    (vsize > 0).then(|| to_f64(fee.to_sat()) / to_f64(vsize))
}

impl PackageResult {
    /// Some bytes are no transaction, so that nothing was sent.
    fn not_decoded(read: &[Result<Submission, String>]) -> Self {
        let each = |read: &Result<Submission, String>| match read {
            Ok(brought) => {
                BroadcastResult::not_tried(brought, "another entry of the package does not decode as a transaction")
            }
            Err(why) => BroadcastResult::not_decoded(why),
        };
        let message = "TX decode failed".to_owned();
        Self { message, results: read.iter().map(each).collect(), replaced: Vec::new(), fee_rate: None }
    }

    /// The node did not answer.
    fn unknown(brought: &[Submission], error: &NodeClientError) -> Self {
        let results = brought.iter().map(BroadcastResult::unknown).collect();
        Self { message: error.to_client().to_owned(), results, replaced: Vec::new(), fee_rate: None }
    }
}
