//! Counts each event of a subscription and charges its client, whichever transport it takes.

use std::sync::Arc;

use async_graphql::ServerError;
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};

use super::payload::{Payload, SubscriptionPayload};
use crate::api::{BudgetExhausted, RETRY_AFTER_SECONDS, code};
use crate::execution::document::admission::RequestSender;
use crate::execution::error::error;
use crate::metrics::server_metrics::{GaugeGuard, ServerMetrics};

/// One client's subscription.
pub(crate) struct Meter {
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) sender: RequestSender,
    /// Among the open subscriptions.
    pub(crate) _open: Option<GaugeGuard>,
}

impl Meter {
    /// The payloads up to the first that the client cannot pay for, which becomes an error and the last. The outcome of the
    /// first is that of the request. A refusal is free.
    pub(crate) fn meter(self, payloads: BoxStream<'static, SubscriptionPayload>) -> BoxStream<'static, Payload> {
        let next = |state: Option<(BoxStream<'static, SubscriptionPayload>, Meter, bool)>| async move {
            let (mut payloads, meter, is_first) = state?;
            let SubscriptionPayload { payload, cost, .. } = payloads.next().await?;
            if is_first {
                meter.metrics.operation(meter.sender.transport, payload.outcome());
            }
            if !payload.is_result() {
                return Some((payload, None));
            }
            let cost = cost.max(1);
            if let Err(short) = meter.sender.client.pay(cost) {
                let error = too_expensive(cost, short);
                return Some((if is_first { Payload::Refused(error.into()) } else { Payload::failed(error) }, None));
            }
            meter.metrics.event(cost);
            Some((payload, Some((payloads, meter, false))))
        };
        stream::unfold(Some((payloads, self, true)), next).boxed()
    }
}

/// The last message to a client that has spent its budget.
fn too_expensive(cost: u64, short: BudgetExhausted) -> ServerError {
    let message = format!("an event of this subscription costs {cost}, which exceeds the rest of the budget");
    let mut error = error(code::RESOURCE_EXHAUSTED, message);
    let extensions = error.extensions.get_or_insert_default();
    extensions.set(RETRY_AFTER_SECONDS, short.wait.as_secs().saturating_add(1));
    error
}
