//! How a subscription sends a value: at once, and then whenever it changes.
//!
//! ```text
//!   pause ──► wait for a change ──► look at what is published now ──► another than what was sent? ──► tell
//!     ▲                                                                        │ no
//!     └────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! These are views of the newest state, and no journals: what changed and changed back between two looks is not sent,
//! and a reader that is slow finds the newest state and not a backlog. Between two looks no Head is kept.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::follower::Follower;
use crate::api::error::ApiError;

/// When to look.
pub(crate) struct SampleTimer {
    /// Tells that something was published; `None` for what changes also without that.
    changes: Option<watch::Receiver<()>>,
    /// The least time between two looks.
    pause: Duration,
    last: Option<Instant>,
}

impl SampleTimer {
    /// At once, and then each time that something was published, but no sooner than after a pause.
    pub(crate) fn at_changes(changes: watch::Receiver<()>, pause: Duration) -> Self {
        Self { changes: Some(changes), pause, last: None }
    }

    /// At once, and then again and again with a pause in between.
    pub(crate) fn every(pause: Duration) -> Self {
        Self { changes: None, pause, last: None }
    }

    /// The next look is to come at once: not all that was found was sent.
    pub(crate) fn soon(&mut self) {
        self.last = None;
    }

    /// Waits for the next look. `false` once nothing is going to be published any more.
    async fn next(&mut self) -> bool {
        if let Some(last) = self.last {
            sleep_until(last + self.pause).await;
            if let Some(changes) = &mut self.changes
                && changes.changed().await.is_err()
            {
                return false;
            }
        }
        self.last = Some(Instant::now());
        true
    }
}

/// A reader of what something comes to.
pub(crate) struct SampledFollower<F> {
    timer: SampleTimer,
    look: F,
}

impl<F> SampledFollower<F> {
    /// `look` finds what there is to tell; nothing if that was sent before.
    pub(crate) fn new(timer: SampleTimer, look: F) -> Self {
        Self { timer, look }
    }
}

impl<T, F> Follower for SampledFollower<F>
where
    T: Send,
    F: FnMut(&mut SampleTimer) -> Result<Option<T>, ApiError> + Send + 'static,
{
    type Item = T;

    async fn next(&mut self) -> Option<Result<T, ApiError>> {
        while self.timer.next().await {
            if let Some(found) = (self.look)(&mut self.timer).transpose() {
                return Some(found);
            }
        }
        None
    }
}

/// Whether this is another than what was sent last. It is what was answered from now on.
pub(crate) fn has_changed<T: PartialEq>(sent: &mut Option<T>, now: T) -> bool {
    let news = sent.as_ref() != Some(&now);
    *sent = Some(now);
    news
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A reader of this number.
    fn reader(timer: SampleTimer, number: &Arc<AtomicU32>) -> impl Follower<Item = u32> + use<> {
        let (number, mut sent) = (number.clone(), None);
        SampledFollower::new(timer, move |_: &mut SampleTimer| {
            let now = number.load(Ordering::Relaxed);
            Ok(has_changed(&mut sent, now).then_some(now))
        })
    }

    /// What it says next, if it says something within this many milliseconds.
    async fn within(millis: u64, reader: &mut impl Follower<Item = u32>) -> Option<u32> {
        let found = tokio::time::timeout(Duration::from_millis(millis), reader.next()).await;
        found.ok().map(|found| found.unwrap().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_sent_at_once_and_then_when_it_changes() {
        let (sender, number) = (watch::Sender::default(), Arc::new(AtomicU32::new(1)));
        let mut reader = reader(SampleTimer::at_changes(sender.subscribe(), Duration::ZERO), &number);
        assert_eq!(within(5_000, &mut reader).await, Some(1));
        assert_eq!(within(20, &mut reader).await, None, "nothing was published");
        sender.send_replace(());
        assert_eq!(within(20, &mut reader).await, None, "it is the same");
        number.store(2, Ordering::Relaxed);
        sender.send_replace(());
        assert_eq!(within(5_000, &mut reader).await, Some(2));
        drop(sender);
        assert!(reader.next().await.is_none(), "nothing is published any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_makes_one_of_all_that_changes_in_it() {
        let (sender, number) = (watch::Sender::default(), Arc::new(AtomicU32::new(1)));
        let pause = Duration::from_millis(300);
        let mut reader = reader(SampleTimer::at_changes(sender.subscribe(), pause), &number);
        assert_eq!(within(5_000, &mut reader).await, Some(1));
        let sent = Instant::now();
        for now in 2..=9 {
            number.store(now, Ordering::Relaxed);
            sender.send_replace(());
        }
        assert_eq!(within(5_000, &mut reader).await, Some(9));
        assert!(sent.elapsed() >= pause, "{:?}", sent.elapsed());
        assert_eq!(within(600, &mut reader).await, None, "what was passed over does not come later");
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_by_itself_is_looked_at_again_and_again() {
        let number = Arc::new(AtomicU32::new(1));
        let mut reader = reader(SampleTimer::every(Duration::from_millis(20)), &number);
        assert_eq!(within(5_000, &mut reader).await, Some(1));
        assert_eq!(within(100, &mut reader).await, None);
        number.store(2, Ordering::Relaxed);
        assert_eq!(within(5_000, &mut reader).await, Some(2));
    }
}
