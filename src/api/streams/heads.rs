//! How a subscription follows the state itself: it looks at the newest one whenever there is another, and reports what is
//! not as it sent last. What was changed and changed back before it could look is not sent.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::live::Event;
use crate::view::{Head, Published};

/// A reader that looks at one state after the other.
pub(crate) struct HeadFollower {
    first: Option<Arc<Head>>,
    events: Receiver<Arc<Event>>,
    published: Published,
}

impl HeadFollower {
    pub(crate) fn new(first: Arc<Head>, events: Receiver<Arc<Event>>, published: Published) -> Self {
        Self { first: Some(first), events, published }
    }

    /// The first state, and then, each time there is another, the newest; `None` once there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Arc<Head>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if let Err(RecvError::Closed) = self.events.recv().await {
            return None;
        }
        // the newest state holds what all these led to
        while let Ok(_) | Err(TryRecvError::Lagged(_)) = self.events.try_recv() {}
        self.published.head()
    }
}
