//! Counts of the requests to the node: how many, how long they took, and how they failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::NodeError;

/// The interface of the node that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// JSON-RPC.
    Rpc,
    /// REST.
    Rest,
}

/// The kinds of failures. Every failure is counted under exactly one.
pub const FAILURES: [&str; 6] = ["unreachable", "timeout", "refused", "starting", "busy", "other"];

/// Counts since the process began. Each HTTP request counts once, however many calls it contains, and each retry counts
/// once more.
#[derive(Debug, Default)]
pub struct NodeMetrics {
    rpc: RequestCounts,
    rest: RequestCounts,
    failures: [AtomicU64; FAILURES.len()],
}

#[derive(Debug, Default)]
struct RequestCounts {
    requests: AtomicU64,
    microseconds: AtomicU64,
}

impl NodeMetrics {
    /// The number of requests.
    #[must_use]
    pub fn requests(&self, interface: Interface) -> u64 {
        self.counts(interface).requests.load(Ordering::Relaxed)
    }

    /// The total time spent waiting for their responses.
    #[must_use]
    pub fn waited(&self, interface: Interface) -> Duration {
        Duration::from_micros(self.counts(interface).microseconds.load(Ordering::Relaxed))
    }

    /// The number of failures of each kind, in the order of [`FAILURES`].
    #[must_use]
    pub fn failures(&self) -> [u64; FAILURES.len()] {
        self.failures.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn count<T>(&self, interface: Interface, took: Duration, answer: &Result<T, NodeError>) {
        let counts = self.counts(interface);
        counts.requests.fetch_add(1, Ordering::Relaxed);
        counts.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Err(error) = answer {
            self.failures[failure_index(error)].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self, interface: Interface) -> &RequestCounts {
        match interface {
            Interface::Rpc => &self.rpc,
            Interface::Rest => &self.rest,
        }
    }
}

/// The index of the error's kind in [`FAILURES`].
fn failure_index(error: &NodeError) -> usize {
    match error {
        NodeError::Unreachable { .. } => 0,
        NodeError::TimedOut { .. } => 1,
        NodeError::Forbidden { .. } | NodeError::Unauthorized { .. } => 2,
        NodeError::WarmingUp { .. } => 3,
        NodeError::Busy { .. } => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_interface_and_failures_by_kind() {
        let metrics = NodeMetrics::default();
        let second = Duration::from_secs(1);
        metrics.count(Interface::Rpc, second, &Ok(()));
        let late = NodeError::TimedOut { asked: "getblock".to_owned(), after: second };
        metrics.count::<()>(Interface::Rpc, second, &Err(late));
        metrics.count(Interface::Rest, second / 2, &Ok(()));
        assert_eq!((metrics.requests(Interface::Rpc), metrics.waited(Interface::Rpc)), (2, second * 2));
        assert_eq!((metrics.requests(Interface::Rest), metrics.waited(Interface::Rest)), (1, second / 2));
        assert_eq!(metrics.failures(), [0, 1, 0, 0, 0, 0]);
    }
}
