//! The order in which miners would take the mempool, for those that follow where in it single transactions stand.
//!
//! It is another with each transaction that arrives, and takes putting all of them in order. So it is made at most once a
//! second, for all that ask within that, from the state that the first of them has; and forgotten after it, so that the
//! state is kept no longer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::api::blocking::BlockingPool;
use crate::api::error::ApiError;
use crate::view::MempoolSnapshot;

/// How long one is good for.
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(1);

/// The newest, if it is still good.
#[derive(Default)]
pub(crate) struct Projections {
    newest: Mutex<Option<Newest>>,
    pool: BlockingPool,
}

struct Newest {
    asked_for: Instant,
    place: Arc<OnceCell<MempoolSnapshot>>,
}

impl Projections {
    /// A state whose transactions are put in order: this one, or one that a client had up to a second ago.
    pub(crate) async fn about(self: &Arc<Self>, mempool: &MempoolSnapshot) -> Result<MempoolSnapshot, ApiError> {
        let place = self.place();
        let made = place.get_or_try_init(|| {
            let mempool = mempool.clone();
            self.pool.run(move || {
                mempool.project();
                Ok(mempool)
            })
        });
        made.await.cloned()
    }

    /// Where the newest is, or will be.
    fn place(self: &Arc<Self>) -> Arc<OnceCell<MempoolSnapshot>> {
        let mut newest = self.newest.lock();
        if let Some(newest) = newest.as_ref().filter(|newest| newest.asked_for.elapsed() < GOOD_FOR) {
            return Arc::clone(&newest.place);
        }
        let (asked_for, place) = (Instant::now(), Arc::default());
        *newest = Some(Newest { asked_for, place: Arc::clone(&place) });
        let all = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(GOOD_FOR).await;
            let mut newest = all.newest.lock();
            // if not, another has taken its place
            if newest.as_ref().is_some_and(|newest| newest.asked_for == asked_for) {
                *newest = None;
            }
        });
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_are_shared_for_a_second() {
        let projections = Arc::new(Projections::default());
        let [first, second, third] = [(); 3].map(|()| MempoolSnapshot::default());
        assert!(projections.about(&first).await.unwrap().is_same(&first));
        assert!(projections.about(&second).await.unwrap().is_same(&first));
        tokio::time::sleep(GOOD_FOR + Duration::from_millis(200)).await;
        assert!(projections.newest.lock().is_none(), "no state is kept for longer");
        assert!(projections.about(&third).await.unwrap().is_same(&third));
    }
}
