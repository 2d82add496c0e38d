//! What was asked of the node, counted: how often, how long it took, and how it failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::NodeError;

/// The way a question took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// JSON-RPC.
    Rpc,
    /// REST.
    Rest,
}

/// Kinds of failures, by name. Every failure is of one of them.
pub const FAILURES: [&str; 6] = ["unreachable", "timeout", "refused", "starting", "busy", "other"];

/// Counts since the process began. Each request over HTTP is one, however many calls it holds, and each that is tried
/// again is one more.
#[derive(Debug, Default)]
pub struct NodeFigures {
    rpc: Asked,
    rest: Asked,
    failures: [AtomicU64; FAILURES.len()],
}

#[derive(Debug, Default)]
struct Asked {
    requests: AtomicU64,
    microseconds: AtomicU64,
}

impl NodeFigures {
    /// How many requests were made.
    #[must_use]
    pub fn requests(&self, interface: Interface) -> u64 {
        self.asked(interface).requests.load(Ordering::Relaxed)
    }

    /// How long they were waited for in all.
    #[must_use]
    pub fn waited(&self, interface: Interface) -> Duration {
        Duration::from_micros(self.asked(interface).microseconds.load(Ordering::Relaxed))
    }

    /// How many failed of each kind of [`FAILURES`].
    #[must_use]
    pub fn failures(&self) -> [u64; FAILURES.len()] {
        self.failures.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn count<T>(&self, interface: Interface, took: Duration, answer: &Result<T, NodeError>) {
        let asked = self.asked(interface);
        asked.requests.fetch_add(1, Ordering::Relaxed);
        asked.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Err(error) = answer {
            self.failures[place_of(error)].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn asked(&self, interface: Interface) -> &Asked {
        match interface {
            Interface::Rpc => &self.rpc,
            Interface::Rest => &self.rest,
        }
    }
}

/// Its place in [`FAILURES`].
fn place_of(error: &NodeError) -> usize {
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
    fn requests_and_their_failures_are_counted_by_what_they_are() {
        let figures = NodeFigures::default();
        let second = Duration::from_secs(1);
        figures.count(Interface::Rpc, second, &Ok(()));
        let late = NodeError::TimedOut { asked: "getblock".to_owned(), after: second };
        figures.count::<()>(Interface::Rpc, second, &Err(late));
        figures.count(Interface::Rest, second / 2, &Ok(()));
        assert_eq!((figures.requests(Interface::Rpc), figures.waited(Interface::Rpc)), (2, second * 2));
        assert_eq!((figures.requests(Interface::Rest), figures.waited(Interface::Rest)), (1, second / 2));
        assert_eq!(figures.failures(), [0, 1, 0, 0, 0, 0]);
    }
}
