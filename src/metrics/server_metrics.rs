//! The metrics of the server.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::collector::MetricsError;
use crate::api;

/// The outcome of an operation without errors, among the labels of the metrics and in the log.
pub(crate) const OK: &str = "OK";

/// The transport of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transport {
    #[default]
    Http,
    Websocket,
    Events,
    Multipart,
}

impl Transport {
    const ALL: [Self; 4] = [Self::Http, Self::Websocket, Self::Events, Self::Multipart];

    /// Its place among all.
    fn place(self) -> usize {
        match self {
            Transport::Http => 0,
            Transport::Websocket => 1,
            Transport::Events => 2,
            Transport::Multipart => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Websocket => "websocket",
            Transport::Events => "sse",
            Transport::Multipart => "multipart",
        }
    }
}

/// Upper bounds, in seconds: a cached answer takes microseconds, and the default timeout is 15 seconds.
const SECONDS: [f64; 12] = [0.000_1, 0.000_5, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 5.0, 15.0];

/// Counts and gauges of one server.
pub(crate) struct ServerMetrics {
    operations: IntCounterVec,
    seconds: Histogram,
    cost: IntCounter,
    responses: IntCounterVec,
    /// By [`Transport::place`].
    sent: [IntCounter; 4],
    events: IntCounter,
    subscriptions: IntGaugeVec,
    sockets: IntGaugeVec,
    pub(crate) document_hits: IntCounter,
    pub(crate) document_misses: IntCounter,
    pub(crate) introspection_hits: IntCounter,
}

impl ServerMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, MetricsError>(counter)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, MetricsError>(counters)
        };
        let gauges = |name: &str, help: &str, label: &str| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(gauges.clone()))?;
            Ok::<_, MetricsError>(gauges)
        };
        let help = "Duration of queries and mutations, including the time in the queue, in seconds.";
        let options = HistogramOpts::new("btcgraph_server_execution_seconds", help).buckets(SECONDS.to_vec());
        let seconds = Histogram::with_opts(options)?;
        registry.register(Box::new(seconds.clone()))?;
        let help = "Bytes of responses before compression, by transport.";
        // each message of each socket is counted: looked up once
        let sent = counters("btcgraph_server_sent_bytes_total", help, &["transport"])?;
        let server = Self {
            operations: counters(
                "btcgraph_server_operations_total",
                "GraphQL operations, by transport and the code of their first error; OK if they had none, ABANDONED if \
                 they ended without an answer.",
                &["transport", "code"],
            )?,
            seconds,
            cost: counter("btcgraph_server_cost_total", "Cost of operations, in units of the API.")?,
            responses: counters("btcgraph_server_responses_total", "HTTP responses, by status.", &["status"])?,
            sent: Transport::ALL.map(|transport| sent.with_label_values(&[transport.name()])),
            events: counter("btcgraph_server_events_total", "Subscription events, counted for each client.")?,
            subscriptions: gauges(
                "btcgraph_server_subscriptions",
                "Open subscriptions of all clients, by field.",
                "field",
            )?,
            sockets: gauges("btcgraph_server_sockets", "Open streams, by transport.", "transport")?,
            document_hits: counter(
                "btcgraph_server_document_cache_hits_total",
                "Documents found in the cache of parsed documents.",
            )?,
            document_misses: counter("btcgraph_server_document_cache_misses_total", "Documents that were parsed.")?,
            introspection_hits: counter(
                "btcgraph_server_introspection_cache_hits_total",
                "Introspection queries answered from the cache.",
            )?,
        };
        // zeros are reported, too
        for transport in Transport::ALL {
            server.operations.with_label_values(&[transport.name(), OK]);
            server.sockets.with_label_values(&[transport.name()]);
        }
        for field in api::subscription_fields() {
            server.subscriptions.with_label_values(&[field]);
        }
        server.responses.with_label_values(&["200"]);
        Ok(server)
    }

    /// Counts an operation that ended, was refused, or yields its first event.
    pub(crate) fn operation(&self, transport: Transport, code: &'static str) {
        self.operations.with_label_values(&[transport.name(), code]).inc();
    }

    /// Records the duration and the cost of a query or a mutation.
    pub(crate) fn executed(&self, took: Duration, cost: u64) {
        self.seconds.observe(took.as_secs_f64());
        self.cost.inc_by(cost);
    }

    /// Counts an event of a subscription and its cost.
    pub(crate) fn event(&self, cost: u64) {
        self.events.inc();
        self.cost.inc_by(cost);
    }

    /// Counts an HTTP response.
    pub(crate) fn response(&self, status: u16) {
        // no handler answers with another status; the label is bounded all the same
        if (100..600).contains(&status) {
            self.responses.with_label_values(&[status.to_string().as_str()]).inc();
        }
    }

    /// Counts bytes that are sent.
    pub(crate) fn sent(&self, transport: Transport, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.sent[transport.place()].inc_by(bytes);
    }

    /// Counts an open subscription to this field until the guard is dropped; `None` of an unknown field.
    pub(crate) fn subscription(&self, field: Option<&str>) -> Option<GaugeGuard> {
        let known = api::subscription_fields().find(|known| Some(*known) == field)?;
        Some(GaugeGuard::new(self.subscriptions.with_label_values(&[known])))
    }

    /// Counts an open stream until the guard is dropped.
    pub(crate) fn socket(&self, transport: Transport) -> GaugeGuard {
        GaugeGuard::new(self.sockets.with_label_values(&[transport.name()]))
    }
}

/// One of those that a gauge counts, until this is dropped.
pub(crate) struct GaugeGuard(IntGauge);

impl GaugeGuard {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;

    fn value(metrics: &Metrics, sample: &str) -> String {
        let text = metrics.text().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} in {text}")).to_owned()
    }

    #[test]
    fn a_label_is_never_text_of_a_client() {
        let metrics = Metrics::new().unwrap();
        let server = metrics.server();
        assert!(server.subscription(Some("evil\"} 1")).is_none() && server.subscription(None).is_none());
        assert!(!metrics.text().unwrap().to_lowercase().contains("evil"));
    }

    #[test]
    fn open_subscriptions_are_counted_until_dropped() {
        let metrics = Metrics::new().unwrap();
        let sample = r#"btcgraph_server_subscriptions{field="newBlock"}"#;
        let one = metrics.server().subscription(Some("newBlock"));
        assert_eq!(value(&metrics, sample), "1");
        drop(one);
        assert_eq!(value(&metrics, sample), "0");
    }
}
