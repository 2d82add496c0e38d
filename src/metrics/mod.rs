//! The metrics of the process, for Prometheus (text format 0.0.4).
//!
//! ```text
//!   node, index, …    count for themselves, and do not know this ──► commands/metrics.rs ─ add ─┐
//!   execution, server server_metrics.rs ────────────────────────────────────────────────────────┼─► text
//!   the process       process.rs ───────────────────────────────────────────────────────────────┘
//! ```
//!
//! What is counted elsewhere is read when it is requested (`collector.rs`). The values of labels are known when the program
//! is compiled: none is text that a client makes up. docs/metrics.md lists all metrics, which a test compares.

pub(crate) mod collector;
mod process;
pub(crate) mod server_metrics;

use std::sync::Arc;

use prometheus::{Registry, TextEncoder};

use collector::register;
pub use collector::{MetricKind, MetricsError, Sample, number};
use server_metrics::ServerMetrics;

/// All metrics of a process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    server: Arc<ServerMetrics>,
}

impl Metrics {
    /// The metrics of a server and of the process.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let server = Arc::new(ServerMetrics::new(&registry)?);
        let metrics = Self { registry, server };
        process::add(&metrics.registry)?;
        Ok(metrics)
    }

    /// Adds a metric that is read when it is requested. `label` is the name of its label, if its samples have one.
    pub fn add(
        &self,
        kind: MetricKind,
        name: &str,
        help: &str,
        label: Option<&str>,
        read: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) -> Result<(), MetricsError> {
        register(&self.registry, kind, name, help, label, Box::new(read))
    }

    /// Adds a metric without a label.
    pub fn add_one(
        &self,
        kind: MetricKind,
        name: &str,
        help: &str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<(), MetricsError> {
        self.add(kind, name, help, None, move || vec![(None, read())])
    }

    pub(crate) fn server(&self) -> &Arc<ServerMetrics> {
        &self.server
    }

    /// All metrics in the text format of Prometheus.
    pub fn text(&self) -> Result<String, MetricsError> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_kind_its_meaning_and_its_samples() {
        let metrics = Metrics::new().unwrap();
        let colours = || vec![(Some("red"), 1.0), (Some("blue"), 2.5)];
        metrics.add(MetricKind::Counter, "btcgraph_a_total", "What a is.", Some("colour"), colours).unwrap();
        metrics.add_one(MetricKind::Gauge, "btcgraph_b", "What b is.", || 7.0).unwrap();
        metrics.add(MetricKind::Gauge, "btcgraph_c", "Unknown now.", None, Vec::new).unwrap();
        let text = metrics.text().unwrap();
        let expected = "# HELP btcgraph_a_total What a is.\n# TYPE btcgraph_a_total counter\n\
            btcgraph_a_total{colour=\"blue\"} 2.5\nbtcgraph_a_total{colour=\"red\"} 1\n\
            # HELP btcgraph_b What b is.\n# TYPE btcgraph_b gauge\nbtcgraph_b 7\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("btcgraph_c"));
        assert!(
            metrics.add_one(MetricKind::Gauge, "btcgraph_b", "What b is.", || 8.0).is_err(),
            "there is one already"
        );
    }

    #[test]
    fn counts_are_exact_up_to_two_to_the_53() {
        for (count, expected) in [(0, 0.0), (1, 1.0), (u64::from(u32::MAX) + 1, 4_294_967_296.0)] {
            assert!((number(count) - expected).abs() < f64::EPSILON);
        }
        assert_eq!(format!("{}", number((1 << 53) - 1)), "9007199254740991");
    }
}
