//! Counts operations, and charges each client for the events of its subscriptions, whichever transport they take.

use std::sync::Arc;
use std::time::Instant;

use async_graphql::ServerError;
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};

use super::memory::MemoryBudget;
use super::payload::{ClientPayload, Payload, SubscriptionPayload};
use crate::api::{Account, BudgetExhausted, RETRY_AFTER_SECONDS, code};
use crate::execution::document::admission::RequestSender;
use crate::execution::error::error;
use crate::metrics::server_metrics::{GaugeGuard, ServerMetrics, Transport};

/// The outcome of a query or a mutation without an answer: its connection was closed before that, or the client ended it.
pub(crate) const ABANDONED: &str = "ABANDONED";

/// A query or a mutation, counted when this is dropped, so also without an answer.
pub(crate) struct ExecutionRecord {
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) transport: Transport,
    pub(crate) account: Arc<Account>,
    pub(crate) started: Instant,
    /// [`ABANDONED`] until there is an answer.
    pub(crate) outcome: &'static str,
}

impl Drop for ExecutionRecord {
    fn drop(&mut self) {
        self.metrics.operation(self.transport, self.outcome);
        self.metrics.executed(self.started.elapsed(), self.account.cost());
    }
}

/// One client's subscription.
pub(crate) struct Meter {
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) memory: MemoryBudget,
    pub(crate) sender: RequestSender,
    /// Among the open subscriptions.
    pub(crate) _open: Option<GaugeGuard>,
}

impl Meter {
    /// The payloads up to the first that the client cannot pay for, or that there is no space for: it becomes an error and the
    /// last. The outcome of the first is that of the request. A refusal is free.
    pub(crate) fn meter(self, payloads: BoxStream<'static, SubscriptionPayload>) -> BoxStream<'static, ClientPayload> {
        let next = |state: Option<(BoxStream<'static, SubscriptionPayload>, Meter, bool)>| async move {
            let (mut payloads, meter, is_first) = state?;
            let SubscriptionPayload { payload, cost, .. } = payloads.next().await?;
            let (payload, goes_on) = match meter.charge(payload, cost) {
                Ok(charged) => {
                    let goes_on = charged.is_result();
                    (charged, goes_on)
                }
                Err(error) if is_first => (ClientPayload::refused(error), false),
                Err(error) => {
                    tracing::debug!(reason = error.message, "a subscription ends");
                    (Payload::failed(error).into(), false)
                }
            };
            if is_first {
                meter.metrics.operation(meter.sender.transport, payload.payload.outcome());
            }
            Some((payload, goes_on.then_some((payloads, meter, false))))
        };
        stream::unfold(Some((payloads, self, true)), next).boxed()
    }

    /// Errors: RESOURCE_EXHAUSTED.
    fn charge(&self, payload: Payload, cost: u64) -> Result<ClientPayload, ServerError> {
        let payload = ClientPayload::reserve(payload, &self.memory)?;
        if payload.is_result() {
            let cost = cost.max(1);
            self.sender.client.pay(cost).map_err(|short| too_expensive(cost, short))?;
            self.metrics.event(cost);
        }
        Ok(payload)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Include;
    use crate::execution::client::Client;
    use crate::execution::memory::SMALL;
    use crate::metrics::Metrics;
    use crate::metrics::server_metrics::OK;

    /// What is sent of three events, the second of them large, to a client with these units a minute, while clients may have so
    /// many bytes that they have not read.
    async fn sent(unread_bytes: usize, units: u32) -> (Vec<ClientPayload>, MemoryBudget) {
        let memory = MemoryBudget::of_unread_responses(unread_bytes);
        let sender = RequestSender {
            client: Arc::new(Client::new(None, units, false, true)),
            transport: Transport::Websocket,
            include: Include::default(),
        };
        let metrics = Metrics::new().unwrap().server().clone();
        let events = [10, SMALL + 1, 10].map(|bytes| Payload::Result("x".repeat(bytes).into()).into());
        let meter = Meter { metrics, memory: memory.clone(), sender, _open: None };
        (meter.meter(stream::iter(events).boxed()).collect().await, memory)
    }

    #[tokio::test]
    async fn an_event_without_space_or_budget_for_it_is_an_error_and_the_last() {
        for (unread_bytes, units, count) in [(1 << 20, 0, 3), (SMALL, 0, 2), (1 << 20, 2, 3), (1 << 20, 1, 2)] {
            let (sent, _) = sent(unread_bytes, units).await;
            assert_eq!(sent.len(), count, "{unread_bytes} bytes, {units} units");
            let last = &sent.last().unwrap().payload;
            // an error after the first event is a result, which is no refusal
            let is_error = matches!(last, Payload::Result(json) if json.contains(code::RESOURCE_EXHAUSTED));
            assert_eq!((is_error, last.outcome()), (unread_bytes == SMALL || units > 0, OK), "{last:?}");
        }
    }

    #[tokio::test]
    async fn a_large_event_takes_space_until_it_is_sent() {
        let (mut sent, memory) = sent(SMALL + 1, 0).await;
        assert!(memory.reserve(1).is_err());
        drop(sent.remove(1));
        assert!(memory.reserve(SMALL + 1).is_ok());
    }
}
