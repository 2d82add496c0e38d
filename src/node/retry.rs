//! Retries with growing pauses up to a bound, and the flag that stops them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use super::error::NodeError;

/// How often a sleeping thread checks its flag.
const SLEEP_STEP: Duration = Duration::from_millis(50);

/// Makes waiting and retrying threads end. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    parent: Option<Arc<StopFlag>>,
}

impl StopFlag {
    /// A flag that is not raised.
    #[must_use]
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// A flag that is raised when this one is, and can be raised without raising this one.
    #[must_use]
    pub fn child(&self) -> StopFlag {
        StopFlag { raised: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Raises the flag, for good.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Whether this flag or a parent of it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire) || self.parent.as_ref().is_some_and(|parent| parent.is_raised())
    }

    /// Sleeps, or returns `Stopped` within 100 ms after the flag is raised.
    pub fn sleep(&self, duration: Duration) -> Result<(), NodeError> {
        let started = Instant::now();
        loop {
            if self.is_raised() {
                return Err(NodeError::Stopped);
            }
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(SLEEP_STEP));
        }
    }
}

/// How long and how often a request is retried while its failures are transient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The pause after the first failure; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The time for all retries: no pause begins that would end later than this after the first attempt.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    /// 0.1 s to 5 s, for 1 min.
    fn default() -> Self {
        RetryPolicy {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            patience: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// Repeats `attempt` until it succeeds, fails permanently, the time for retries ends (this returns the last
    /// failure), or the flag is raised.
    pub(super) fn run<T>(
        &self,
        stop: &StopFlag,
        mut attempt: impl FnMut() -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let started = Instant::now();
        let mut pause = self.first_pause;
        loop {
            if stop.is_raised() {
                return Err(NodeError::Stopped);
            }
            let error = match attempt() {
                Err(error) if error.is_transient() => error,
                result => return result,
            };
            if started.elapsed().saturating_add(pause) > self.patience {
                return Err(error);
            }
            warn!(%error, again_in = ?pause, "the node does not answer: retrying");
            stop.sleep(pause)?;
            pause = pause.saturating_mul(2).min(self.longest_pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> NodeError {
        NodeError::Busy { url: String::new(), answer: String::new() }
    }

    fn patient(patience: Duration) -> RetryPolicy {
        RetryPolicy { first_pause: Duration::from_millis(1), longest_pause: Duration::from_millis(4), patience }
    }

    #[test]
    fn a_transient_failure_is_retried_until_it_succeeds() {
        let mut tries = 0;
        let answer = patient(Duration::from_mins(1)).run(&StopFlag::new(), || {
            tries += 1;
            if tries < 5 { Err(busy()) } else { Ok(tries) }
        });
        assert_eq!(answer.unwrap(), 5);
    }

    #[test]
    fn a_permanent_failure_is_not_retried() {
        let mut tries = 0;
        let answer: Result<(), _> = patient(Duration::from_mins(1)).run(&StopFlag::new(), || {
            tries += 1;
            Err(NodeError::Unauthorized { url: String::new(), login: String::new() })
        });
        assert!(matches!(answer, Err(NodeError::Unauthorized { .. })));
        assert_eq!(tries, 1);
    }

    #[test]
    fn when_retries_end_the_last_failure_is_returned() {
        let started = Instant::now();
        let answer: Result<(), _> = patient(Duration::from_millis(40)).run(&StopFlag::new(), || Err(busy()));
        assert!(matches!(answer, Err(NodeError::Busy { .. })));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn raising_a_flag_or_its_parent_ends_a_long_pause() {
        for by_parent in [false, true] {
            let parent = StopFlag::new();
            let flag = parent.child();
            let policy = RetryPolicy {
                first_pause: Duration::from_mins(10),
                longest_pause: Duration::from_mins(10),
                patience: Duration::from_hours(1),
            };
            let (failed, seen) = std::sync::mpsc::channel();
            let waiting = {
                let flag = flag.clone();
                thread::spawn(move || {
                    policy.run::<()>(&flag, || {
                        failed.send(()).unwrap();
                        Err(busy())
                    })
                })
            };
            seen.recv().unwrap();
            if by_parent {
                parent.raise();
            } else {
                flag.raise();
            }
            let raised = Instant::now();
            assert!(matches!(waiting.join().unwrap(), Err(NodeError::Stopped)));
            assert!(raised.elapsed() < Duration::from_secs(5));
            assert_eq!(parent.is_raised(), by_parent);
        }
    }
}
