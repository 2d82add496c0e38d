//! The readers of the streams, and how their events become the stream of a subscription.

use async_graphql::futures_util::stream::{self, Stream};
use bitcoin::BlockHash;

use crate::api::error::ApiError;

/// A reader that is sent one thing after another.
pub(crate) trait Follower: Send + 'static {
    type Item: Send;

    /// What comes next; `None` once there will be no more. The stream ends with an error.
    fn next(&mut self) -> impl Future<Output = Option<Result<Self::Item, ApiError>>> + Send;
}

/// What a reader is sent, up to its first error.
pub(crate) fn events_until_error<F: Follower>(following: F) -> impl Stream<Item = Result<F::Item, ApiError>> + Send {
    // boxed, because each event moves it
    stream::unfold(Some(Box::new(following)), |following| async {
        let mut following = following?;
        let found = following.next().await?;
        let goes_on = found.is_ok().then_some(following);
        Some((found, goes_on))
    })
}

/// That a block is not known on which the way of a reader leads.
pub(crate) fn block_not_stored(hash: BlockHash) -> ApiError {
    ApiError::cursor_expired(format!(
        "block {hash}, where this subscription would continue, is no longer stored: subscribe again, and query what \
         changed since"
    ))
}
