//! What the process tells of itself in figures, for Prometheus (text format 0.0.4).
//!
//! ```text
//!   node, index, …    count for themselves, and know nothing of this ──► commands/metrics.rs ─ add ─┐
//!   server/           counts here: figures.rs ──────────────────────────────────────────────────────┼─► text
//!   the process       as the operating system tells: process.rs ────────────────────────────────────┘
//! ```
//!
//! What is counted elsewhere is read when somebody asks, so nobody is kept busy for it. A label has values that are known
//! when the program is written: none is anything that a client could make up. docs/metrics.md lists all of them, which a
//! test holds to what is told.

mod process;
pub(crate) mod server_metrics;

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

use axum::http::StatusCode;

use server_metrics::ServerMetrics;

/// Why there are no metrics: two have one name, or one that Prometheus does not take. A mistake in btcgraph.
pub type MetricsError = prometheus::Error;

/// How what is read is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while the process runs.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A value, and that of the metric's label if it has one.
pub type Sample = (Option<&'static str>, f64);

/// All metrics of a process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    figures: Arc<ServerMetrics>,
}

impl Metrics {
    /// Those of a server and of the process.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let figures = Arc::new(ServerMetrics::new(&registry)?);
        let metrics = Self { registry, figures };
        process::add(&metrics)?;
        Ok(metrics)
    }

    /// Adds one that is read when somebody asks. `label` is the name of its label, if its samples have one.
    pub fn add(
        &self,
        kind: Kind,
        name: &str,
        help: &str,
        label: Option<&str>,
        read: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) -> Result<(), MetricsError> {
        let labels = label.iter().map(ToString::to_string).collect();
        let description = Desc::new(name.to_owned(), help.to_owned(), labels, std::collections::HashMap::new())?;
        self.registry.register(Box::new(Read { description, kind, samples: Box::new(read) }))
    }

    /// Adds one without a label.
    pub fn add_one(
        &self,
        kind: Kind,
        name: &str,
        help: &str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<(), MetricsError> {
        self.add(kind, name, help, None, move || vec![(None, read())])
    }

    pub(crate) fn figures(&self) -> &Arc<ServerMetrics> {
        &self.figures
    }

    /// All of them as they are now.
    pub fn text(&self) -> Result<String, MetricsError> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// The same as an answer.
    pub(crate) fn answer(&self) -> Response {
        match self.text() {
            Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
            Err(error) => {
                tracing::error!(%error, "cannot encode the metrics");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// One that is read when somebody asks.
struct Read {
    description: Desc,
    kind: Kind,
    samples: Box<dyn Fn() -> Vec<Sample> + Send + Sync>,
}

impl Collector for Read {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let metrics: Vec<_> = (self.samples)().into_iter().map(|sample| self.metric(sample)).collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let mut family = MetricFamily::default();
        family.set_name(self.description.fq_name.clone());
        family.set_help(self.description.help.clone());
        family.set_field_type(match self.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        family.set_metric(metrics);
        vec![family]
    }
}

impl Read {
    fn metric(&self, (label, value): Sample) -> Metric {
        let labels = self.description.variable_labels.iter().zip(label).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value(value.to_owned());
            pair
        });
        let mut metric = Metric::from_label(labels.collect());
        match self.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        metric
    }
}

/// A count as metrics have it. Beyond 2^53, which takes some centuries, it is not exact any more.
#[must_use]
pub fn number(count: u64) -> f64 {
    // without a cast that could lose silently: the halves of 32 bits are exact
    let (high, low) = (u32::try_from(count >> 32), u32::try_from(count & u64::from(u32::MAX)));
    f64::from(high.unwrap_or(u32::MAX)) * 4_294_967_296.0 + f64::from(low.unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_told_with_its_kind_its_meaning_and_its_samples() {
        let metrics = Metrics::new().unwrap();
        let colours = || vec![(Some("red"), 1.0), (Some("blue"), 2.5)];
        metrics.add(Kind::Counter, "btcgraph_a_total", "What a is.", Some("colour"), colours).unwrap();
        metrics.add_one(Kind::Gauge, "btcgraph_b", "What b is.", || 7.0).unwrap();
        metrics.add(Kind::Gauge, "btcgraph_c", "AuthError now.", None, Vec::new).unwrap();
        let text = metrics.text().unwrap();
        let expected = "# HELP btcgraph_a_total What a is.\n# TYPE btcgraph_a_total counter\n\
            btcgraph_a_total{colour=\"blue\"} 2.5\nbtcgraph_a_total{colour=\"red\"} 1\n\
            # HELP btcgraph_b What b is.\n# TYPE btcgraph_b gauge\nbtcgraph_b 7\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("btcgraph_c"));
        assert!(metrics.add_one(Kind::Gauge, "btcgraph_b", "What b is.", || 8.0).is_err(), "there is one already");
    }

    #[test]
    fn counts_are_exact_up_to_two_to_the_53() {
        for (count, expected) in [(0, 0.0), (1, 1.0), (u64::from(u32::MAX) + 1, 4_294_967_296.0)] {
            assert!((number(count) - expected).abs() < f64::EPSILON);
        }
        assert_eq!(format!("{}", number((1 << 53) - 1)), "9007199254740991");
    }
}
