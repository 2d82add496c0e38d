use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::Object;

use super::outpoint::OutPointObject;
use super::reject_code::{RejectCode, fee_asked_for, reject_code};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, Txid};
use crate::view::{Obstacles, Refusal, View};

/// A refusal, and what it is about.
#[derive(Clone)]
pub(crate) struct RejectInfo {
    refusal: Refusal,
    code: RejectCode,
    about: Option<About>,
}

/// The transaction that was refused.
#[derive(Clone)]
struct About {
    view: Arc<View>,
    parts: Arc<bitcoin::Transaction>,
    /// The txids of those that came with it.
    among: Arc<HashSet<bitcoin::Txid>>,
}

impl RejectInfo {
    /// Of a transaction that came with those `among`, explained from a state of the server after the refusal.
    pub(crate) fn new(
        refusal: Refusal,
        view: &Arc<View>,
        parts: &Arc<bitcoin::Transaction>,
        among: &Arc<HashSet<bitcoin::Txid>>,
    ) -> Self {
        let about = About { view: view.clone(), parts: parts.clone(), among: among.clone() };
        Self { code: reject_code(&refusal), refusal, about: Some(about) }
    }

    /// Without what it is about, because that cannot be read.
    pub(crate) fn unread(refusal: Refusal) -> Self {
        Self { code: reject_code(&refusal), refusal, about: None }
    }

    /// The same under another code.
    pub(crate) fn with_code(self, code: RejectCode) -> Self {
        Self { code, ..self }
    }

    /// Of bytes that are no transaction. No node is asked about them.
    pub(crate) fn not_decoded(why: &str) -> Self {
        let reason = "TX decode failed".to_owned();
        let message = format!("{reason}, {why}");
        Self { refusal: Refusal { code: -22, reason, message }, code: RejectCode::DecodeFailed, about: None }
    }

    /// Of a transaction that the node did not come to, for this reason.
    pub(crate) fn not_tried(reason: &str) -> Self {
        Self { code: RejectCode::NotTried, ..Self::of_package(reason) }
    }

    /// Of all transactions of a package, in the node's word for it.
    pub(crate) fn of_package(reason: &str) -> Self {
        let refusal = Refusal { code: -26, reason: reason.to_owned(), message: reason.to_owned() };
        Self { code: reject_code(&refusal), refusal, about: None }
    }

    fn obstacles(&self) -> Result<Obstacles, ApiError> {
        let Some(About { view, parts, among }) = &self.about else { return Ok(Obstacles::default()) };
        Ok(view.obstacles(parts, among)?)
    }
}

impl FieldCacheability for RejectInfo {
    const NEVER: &'static str = "code rejectReason details missingInputs conflictsWith requiredFee";
}

/// Why the node rejects a transaction. The verdict is the node's. The server reads the outputs and transactions that
/// it concerns from its own state right after the verdict.
#[Object]
impl RejectInfo {
    /// The machine-readable reason, the same for all versions of the node. Future versions may add values.
    async fn code(&self) -> RejectCode {
        self.code
    }

    /// The reject reason of the node, such as `min relay fee not met`.
    async fn reject_reason(&self) -> &str {
        &self.refusal.reason
    }

    /// The reject reason of the node with details, such as `min relay fee not met, 7 < 110`. Null if the node gives no
    /// details.
    async fn details(&self) -> Option<&str> {
        Some(self.refusal.message.as_str()).filter(|message| *message != self.refusal.reason)
    }

    /// The outputs that the transaction spends and that are not available, in input order: they do not exist, or another main
    /// chain transaction spends them. An output that only another mempool transaction spends is not listed. At most as many as
    /// the transaction has inputs.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn missing_inputs(&self) -> Result<Vec<OutPointObject>, ApiError> {
        OutPointObject::all(&self.obstacles()?.missing)
    }

    /// The txids of other transactions, in the mempool and on the main chain, that spend an output that this transaction
    /// spends. At most as many as the transaction has inputs.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn conflicts_with(&self) -> Result<Vec<Txid>, ApiError> {
        Ok(self.obstacles()?.conflicting.into_iter().map(Txid).collect())
    }

    /// The minimum fee, in satoshis, that FEE_TOO_LOW or REPLACEMENT_FEE_TOO_LOW requires for a transaction of the same
    /// size: as reported by the node, and for a replacement as BIP125 requires. Null for other codes, and if it is not
    /// known.
    async fn required_fee(&self) -> Option<Result<Sats, ApiError>> {
        if ![RejectCode::FeeTooLow, RejectCode::ReplacementFeeTooLow].contains(&self.code) {
            return None;
        }
        let least = self.about.as_ref().and_then(|about| about.view.min_fee(&about.parts));
        fee_asked_for(&self.refusal).max(least).map(Sats::new)
    }
}
