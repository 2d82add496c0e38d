//! The roots of the subscriptions, by what they listen to.

mod blocks;
mod field_sharing;
mod followed;
mod ledgers;
mod sampled;
mod sharing;
mod source;
mod unconfirmed;

use std::sync::Arc;

use async_graphql::MergedSubscription;
use source::StreamSource;

use super::context::ServingContext;
use crate::live::Live;
use crate::view::Published;

pub use field_sharing::Sharing;
pub use sharing::{has_cursors, sharing, subscribed_field, subscription_fields};

/// The events to subscribe to. One field per subscription.
#[derive(MergedSubscription)]
pub(crate) struct Subscription(
    blocks::BlockSubscription,
    ledgers::LedgerSubscription,
    followed::FollowedSubscription,
    unconfirmed::UnconfirmedSubscription,
    sampled::SampledSubscription,
);

impl Subscription {
    pub(crate) fn new(published: Published, live: Live, serving: Arc<ServingContext>) -> Self {
        let source = StreamSource { published, live, serving };
        Self(
            blocks::BlockSubscription(source.clone()),
            ledgers::LedgerSubscription::new(source.clone()),
            followed::FollowedSubscription::new(source.clone()),
            unconfirmed::UnconfirmedSubscription(source.clone()),
            sampled::SampledSubscription(source),
        )
    }
}
