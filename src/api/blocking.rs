//! Work that would hold up those that are served beside it: done on threads of its own, some of it at once, and once for
//! all that want the same.
//!
//! ```text
//!   reader ─┐
//!   reader ─┼─ Once ── the first of them ──► Aside ── free place? ──► a thread of its own
//!   reader ─┘   └───── the others wait, without any thread
//! ```

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};

use super::error::ApiError;

/// Threads for work that reads and computes for long, no more at once than the machine has processors.
pub(crate) struct BlockingPool(Arc<Semaphore>);

impl Default for BlockingPool {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, NonZeroUsize::get))))
    }
}

impl BlockingPool {
    /// Does this once there is a place. It is done to its end even if no client waits for it any more, and keeps its place
    /// until then.
    ///
    /// Errors: those of the work, and INTERNAL_SERVER_ERROR if it failed altogether.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place =
            Arc::clone(&self.0).acquire_owned().await.map_err(|error| ApiError::internal(&error.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        done.await.map_err(|error| ApiError::internal(&error.to_string()))?
    }
}

/// Where a thing is, or will be.
type SharedCell<T> = Arc<OnceCell<Arc<T>>>;

/// The things that were asked for last, each of which is made once.
pub(crate) struct SingleFlight<K, T> {
    most: usize,
    flights: Mutex<VecDeque<(K, SharedCell<T>)>>,
}

impl<K: PartialEq, T> SingleFlight<K, T> {
    /// As many as this are kept.
    pub(crate) fn with_capacity(most: usize) -> Self {
        Self { most, flights: Mutex::default() }
    }

    /// The thing of this name. The first that asks makes it, while the others wait; if it fails, the next of them tries.
    pub(crate) async fn get<M>(&self, key: K, make: impl FnOnce() -> M) -> Result<Arc<T>, ApiError>
    where
        M: Future<Output = Result<T, ApiError>>,
    {
        let place = self.place(key);
        let found = place.get_or_try_init(|| async { Ok(Arc::new(make().await?)) }).await;
        found.cloned()
    }

    fn place(&self, key: K) -> SharedCell<T> {
        let mut flights = self.flights.lock();
        if let Some((_, place)) = flights.iter().find(|(known, _)| *known == key) {
            return Arc::clone(place);
        }
        let place = Arc::default();
        flights.push_back((key, Arc::clone(&place)));
        if flights.len() > self.most {
            flights.pop_front();
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Work that ends when something is sent.
    fn until_sent(held: mpsc::Receiver<u32>) -> impl FnOnce() -> Result<u32, ApiError> {
        move || held.recv_timeout(Duration::from_secs(20)).map_err(|error| ApiError::internal(&error.to_string()))
    }

    #[tokio::test]
    async fn waiting_for_long_work_does_not_block_its_thread() {
        let (aside, once) = (BlockingPool::default(), SingleFlight::with_capacity(1));
        let (release, held) = mpsc::channel();
        let made = AtomicU32::new(0);
        let first = once.get(7, || {
            made.fetch_add(1, Ordering::Relaxed);
            aside.run(until_sent(held))
        });
        let second = once.get(7, || {
            made.fetch_add(1, Ordering::Relaxed);
            aside.run(|| Ok(2))
        });
        // comes to its turn only if neither of the two keeps the one thread that there is
        let other = async { release.send(5).unwrap() };
        let (first, second, ()) = tokio::join!(first, second, other);
        assert_eq!((*first.unwrap(), *second.unwrap()), (5, 5));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_failed_value_is_made_by_the_next_request() {
        let once = SingleFlight::with_capacity(2);
        let number = |found: Result<Arc<u32>, ApiError>| found.ok().map(|found| *found);
        assert_eq!(number(once.get('a', || async { Err(ApiError::internal("no")) }).await), None);
        for (name, made, found) in
            [('a', 1, 1), ('a', 2, 1), ('b', 3, 3), ('c', 4, 4), ('b', 5, 3), ('a', 6, 6), ('c', 7, 4)]
        {
            assert_eq!(number(once.get(name, || async { Ok(made) }).await), Some(found), "{name} {made}");
        }
    }
}
