//! Metrics that are read when they are requested.

use std::collections::HashMap;

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// Why there are no metrics: two have one name, or one that Prometheus does not take. A mistake in btcgraph.
pub type MetricsError = prometheus::Error;

/// How what is read is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows while the process runs.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// A value, and that of the metric's label if it has one.
pub type Sample = (Option<&'static str>, f64);

/// A metric that is read when it is requested.
struct Read {
    description: Desc,
    kind: MetricKind,
    samples: Samples,
}

/// Reads a metric.
pub(crate) type Samples = Box<dyn Fn() -> Vec<Sample> + Send + Sync>;

/// Registers a metric that is read when it is requested.
pub(crate) fn register(
    registry: &Registry,
    kind: MetricKind,
    name: &str,
    help: &str,
    label: Option<&str>,
    samples: Samples,
) -> Result<(), MetricsError> {
    let labels = label.iter().map(ToString::to_string).collect();
    let description = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
    registry.register(Box::new(Read { description, kind, samples }))
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
            MetricKind::Counter => MetricType::COUNTER,
            MetricKind::Gauge => MetricType::GAUGE,
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
            MetricKind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            MetricKind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        metric
    }
}

/// A count as metrics have it. Inexact beyond 2^53, which takes centuries.
#[must_use]
pub fn number(count: u64) -> f64 {
    // without a cast that could lose silently: the halves of 32 bits are exact
    let (high, low) = (u32::try_from(count >> 32), u32::try_from(count & u64::from(u32::MAX)));
    f64::from(high.unwrap_or(u32::MAX)) * 4_294_967_296.0 + f64::from(low.unwrap_or(u32::MAX))
}
