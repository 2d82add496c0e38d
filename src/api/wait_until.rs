//! Waiting until what is published is what a client waits for.

use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use crate::live::Live;

/// What `find` finds, asked now and again after each change of what is published; `None` if it found nothing until the
/// deadline. Holds no state of the chain while it waits: `find` must not, either.
pub(crate) async fn wait_until<T>(live: &Live, deadline: Instant, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    // before the first look, so that no change is skipped between the two
    let mut events = live.subscribe();
    loop {
        if let Some(found) = find() {
            return Some(found);
        }
        match timeout_at(deadline, events.recv()).await {
            // whether it was one event or too many to be sent, the newest state has them all
            Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
            // a state is published before it is informed of
            Ok(Err(RecvError::Closed)) | Err(_) => return find(),
        }
    }
}
