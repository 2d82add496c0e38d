//! What subscriptions tell: each event is counted and paid for, whichever way it goes to its client.

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::{Response, ServerError};

use super::payload::Payload;
use crate::api::{Account, BudgetExhausted, RETRY_AFTER_SECONDS, code};
use crate::server::auth::callers::Client;
use crate::server::http::response::error;
use crate::server::metrics::server_metrics::{self as metrics, Counted, ServerMetrics, Transport};

/// One client's subscription.
pub(crate) struct Subscription {
    pub(crate) figures: Arc<ServerMetrics>,
    pub(crate) transport: Transport,
    pub(crate) caller: Arc<Client>,
    /// Says what an event costs, once the document was validated.
    pub(crate) account: Arc<Account>,
    /// Among those that are open.
    pub(crate) _open: Option<Counted>,
}

impl Subscription {
    /// The same payloads, until there is one that the client cannot pay for: that is an error instead, and the last. The code
    /// of the first is the outcome of the request. A refusal costs nothing.
    pub(crate) fn tell(self, payloads: BoxStream<'static, Payload>) -> BoxStream<'static, Payload> {
        let next = |state: Option<(BoxStream<'static, Payload>, Subscription, bool)>| async move {
            let (mut payloads, subscription, is_first) = state?;
            let payload = payloads.next().await?;
            if is_first {
                subscription.figures.operation(subscription.transport, code_of(&payload));
            }
            if !payload.is_result() {
                return Some((payload, None));
            }
            let cost = subscription.account.cost().max(1);
            if let Err(short) = subscription.caller.pay(cost) {
                let error = too_expensive(cost, short);
                return Some((if is_first { Payload::Refused(error.into()) } else { Payload::failed(error) }, None));
            }
            subscription.figures.event(cost);
            Some((payload, Some((payloads, subscription, false))))
        };
        stream::unfold(Some((payloads, self, true)), next).boxed()
    }
}

fn code_of(payload: &Payload) -> &'static str {
    match payload {
        // an event with an error of a field is one that was sent
        Payload::Result(_) => metrics::code_of(&Response::default()),
        Payload::Refused(refused) => metrics::code_of_refused(refused),
    }
}

/// The last that is told to who has spent all.
fn too_expensive(cost: u64, short: BudgetExhausted) -> ServerError {
    let message = format!("an event of this subscription costs {cost}, which exceeds the rest of the budget");
    let mut error = error(code::RESOURCE_EXHAUSTED, message);
    let extensions = error.extensions.get_or_insert_default();
    extensions.set(RETRY_AFTER_SECONDS, short.wait.as_secs().saturating_add(1));
    error
}
