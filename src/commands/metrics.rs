//! Names and helps of the metrics of the modules below the server, each of which counts its own. And `btcgraph metrics`,
//! which prints the metrics of a running server.

use std::sync::Arc;

use btcgraph::index::IndexMetrics;
use btcgraph::live::Live;
use btcgraph::metrics::{MetricKind, Metrics, MetricsError, Sample, number};
use btcgraph::node::{FAILURES, Interface, NodeMetrics};
use btcgraph::settings::Settings;
use btcgraph::view::{Head, Published, SyncState};
use btcgraph::webhooks::HookMetrics;

use super::failure::{Exit, Failure, OrExit};
use super::{admin, config};

/// The modules that count.
pub(super) struct MetricSources {
    pub(super) node: Arc<NodeMetrics>,
    pub(super) index: IndexMetrics,
    pub(super) cache_bytes: usize,
    pub(super) published: Published,
    pub(super) live: Live,
    pub(super) webhooks: Vec<(String, Arc<HookMetrics>)>,
}

/// A metric: its name, its help, and how it is read.
type SampledMetric<T> = (&'static str, &'static str, fn(&T) -> f64);

/// All metrics of a process.
pub(super) fn of(sources: MetricSources) -> Result<Metrics, Failure> {
    let made = || {
        let metrics = Metrics::new()?;
        let MetricSources { node, index, cache_bytes, published, live, webhooks } = sources;
        add_node(&metrics, node)?;
        add_index(&metrics, &index, cache_bytes, &published)?;
        add_sync(&metrics, &published)?;
        add_mempool(&metrics, &published)?;
        add_live(&metrics, live)?;
        add_webhooks(&metrics, webhooks)?;
        Ok::<_, MetricsError>(metrics)
    };
    made().or_exit(Exit::Failed, "cannot prepare the metrics")
}

fn add_node(metrics: &Metrics, node: Arc<NodeMetrics>) -> Result<(), MetricsError> {
    let both = [(Interface::Rpc, "rpc"), (Interface::Rest, "rest")];
    let figures = node.clone();
    let help = "Requests to the Bitcoin node, each with one or more calls, by interface.";
    metrics.add(MetricKind::Counter, "btcgraph_node_requests_total", help, Some("interface"), move || {
        both.map(|(interface, name)| (Some(name), number(figures.requests(interface)))).to_vec()
    })?;
    let figures = node.clone();
    let help = "Duration of requests to the Bitcoin node, in seconds. Divided by their number it is the mean latency.";
    metrics.add(MetricKind::Counter, "btcgraph_node_request_seconds_total", help, Some("interface"), move || {
        both.map(|(interface, name)| (Some(name), figures.waited(interface).as_secs_f64())).to_vec()
    })?;
    let help = "Requests to the Bitcoin node that failed, by reason.";
    metrics.add(MetricKind::Counter, "btcgraph_node_failures_total", help, Some("kind"), move || {
        FAILURES.into_iter().zip(node.failures()).map(|(kind, count)| (Some(kind), number(count))).collect()
    })
}

fn add_index(
    metrics: &Metrics,
    index: &IndexMetrics,
    cache_bytes: usize,
    published: &Published,
) -> Result<(), MetricsError> {
    let counters: [SampledMetric<IndexMetrics>; 5] = [
        ("btcgraph_index_commits_total", "Commits to the index.", |index| number(index.commits())),
        (
            "btcgraph_index_commit_seconds_total",
            "Duration of commits, in seconds. At the tip they do not wait for the disk.",
            |index| index.committing().as_secs_f64(),
        ),
        ("btcgraph_index_blocks_connected_total", "Blocks connected to the chain of the index.", |index| {
            number(index.connected())
        }),
        ("btcgraph_index_blocks_disconnected_total", "Blocks disconnected from the chain of the index.", |index| {
            number(index.disconnected())
        }),
        ("btcgraph_index_reorgs_total", "Reorganisations recorded in the index.", |index| number(index.reorgs())),
    ];
    for (name, help, read) in counters {
        let index = index.clone();
        metrics.add_one(MetricKind::Counter, name, help, move || read(&index))?;
    }
    let limit = u64::try_from(cache_bytes).unwrap_or(u64::MAX);
    let help = "Limit of the page cache of the index, in bytes.";
    metrics.add_one(MetricKind::Gauge, "btcgraph_index_cache_limit_bytes", help, move || number(limit))?;
    let head = published.clone();
    let help = "Bytes of the frozen blocks that are not downloaded yet.";
    of_head(metrics, "btcgraph_index_missing_bytes", help, head, |head| Some(number(head.chain.missing_bytes())))?;
    let head = published.clone();
    of_head(metrics, "btcgraph_index_file_bytes", "Bytes of the files of the index.", head, |head| {
        head.chain.file_bytes().map(number)
    })
}

fn add_sync(metrics: &Metrics, published: &Published) -> Result<(), MetricsError> {
    let head = published.clone();
    of_head(metrics, "btcgraph_sync_tip_height", "Height of the newest block that the API serves.", head, |head| {
        Some(f64::from(head.tip.height.to_u32()))
    })?;
    let state = published.clone();
    let help = "Height of the node's newest block, as it last reported.";
    metrics.add(MetricKind::Gauge, "btcgraph_sync_node_height", help, None, move || {
        one(state.state().node_height.map(|height| f64::from(height.to_u32())))
    })?;
    let both = published.clone();
    let help = "Number of blocks that the node is ahead.";
    metrics.add(MetricKind::Gauge, "btcgraph_sync_blocks_behind", help, None, move || one(behind(&both)))?;
    let node = published.clone();
    let help = "Time since the node reported its newest block, in seconds.";
    metrics.add(MetricKind::Gauge, "btcgraph_sync_seconds_since_node", help, None, move || {
        one(node.silence().map(|ago| ago.as_secs_f64()))
    })?;
    let lost = published.clone();
    let help = "1 while the index lacks a block that was announced before a crash.";
    metrics.add_one(MetricKind::Gauge, "btcgraph_sync_lost_block", help, move || {
        f64::from(u8::from(lost.state().lost_block().is_some()))
    })?;
    let state = published.clone();
    let help = "1 if the chain, or the mempool, is the node's, as it reported within server.ready_seconds.";
    metrics.add(MetricKind::Gauge, "btcgraph_sync_in_sync", help, Some("what"), move || {
        let SyncState { mempool_in_sync, .. } = state.state();
        let truth = |is: bool| f64::from(u8::from(is));
        vec![(Some("chain"), truth(state.is_in_sync())), (Some("mempool"), truth(mempool_in_sync))]
    })
}

fn behind(published: &Published) -> Option<f64> {
    let (head, node) = (published.head()?, published.state().node_height?);
    Some(f64::from(node.to_u32().saturating_sub(head.tip.height.to_u32())))
}

fn add_mempool(metrics: &Metrics, published: &Published) -> Result<(), MetricsError> {
    let gauges: [SampledMetric<Head>; 3] = [
        ("btcgraph_mempool_transactions", "Transactions in the mempool.", |head| number(head.mempool.totals().count)),
        ("btcgraph_mempool_vbytes", "Total virtual size of the mempool, in vbytes.", |head| {
            number(head.mempool.totals().vsize)
        }),
        ("btcgraph_mempool_fees_sat", "Total fees of the mempool, in satoshi.", |head| {
            number(head.mempool.totals().fee)
        }),
    ];
    for (name, help, read) in gauges {
        of_head(metrics, name, help, published.clone(), move |head| Some(read(head)))?;
    }
    let head = published.clone();
    let help =
        "Transactions that entered or left the mempool, and corrections of the reason, since the start of the server.";
    metrics.add(MetricKind::Counter, "btcgraph_mempool_events_total", help, None, move || {
        one(head.head().map(|head| number(head.mempool.sequence())))
    })
}

fn add_live(metrics: &Metrics, live: Live) -> Result<(), MetricsError> {
    let events = live.clone();
    let help = "Published states of chain and mempool, each with the changes that led to it.";
    metrics.add_one(MetricKind::Counter, "btcgraph_live_events_total", help, move || number(events.published()))?;
    let help = "Readers of published states in the process. Many clients can share one.";
    metrics.add_one(MetricKind::Gauge, "btcgraph_live_subscribers", help, move || {
        number(u64::try_from(live.listeners()).unwrap_or(u64::MAX))
    })
}

fn add_webhooks(metrics: &Metrics, hooks: Vec<(String, Arc<HookMetrics>)>) -> Result<(), MetricsError> {
    // the names are those of the settings, and stay as long as the process
    let hooks: Vec<(&'static str, _)> = hooks.into_iter().map(|(name, hook)| (&*name.leak(), hook)).collect();
    let counted: [(MetricKind, SampledMetric<HookMetrics>); 5] = [
        (
            MetricKind::Counter,
            ("btcgraph_webhook_delivered_total", "Messages that the receiver of a webhook acknowledged.", |hook| {
                number(hook.delivered())
            }),
        ),
        (
            MetricKind::Counter,
            ("btcgraph_webhook_failures_total", "Attempts to deliver a message that failed.", |hook| {
                number(hook.failures())
            }),
        ),
        (
            MetricKind::Counter,
            ("btcgraph_webhook_retries_total", "Attempts to deliver a message after the first.", |hook| {
                number(hook.retries())
            }),
        ),
        (
            MetricKind::Counter,
            ("btcgraph_webhook_dead_letters_total", "Messages that became dead letters.", |hook| {
                number(hook.dead_letters())
            }),
        ),
        (
            MetricKind::Gauge,
            (
                "btcgraph_webhook_lag_seconds",
                "Time for which there has been an event to deliver, in seconds.",
                |hook| number(hook.lag_seconds()),
            ),
        ),
    ];
    for (kind, (name, help, read)) in counted {
        let hooks = hooks.clone();
        metrics.add(kind, name, help, Some("hook"), move || {
            hooks.iter().map(|(name, hook)| (Some(*name), read(hook))).collect()
        })?;
    }
    Ok(())
}

/// A gauge of the published state. Without one it has no value.
fn of_head(
    metrics: &Metrics,
    name: &str,
    help: &str,
    published: Published,
    read: impl Fn(&Head) -> Option<f64> + Send + Sync + 'static,
) -> Result<(), MetricsError> {
    metrics.add(MetricKind::Gauge, name, help, None, move || one(published.head().and_then(|head| read(&head))))
}

fn one(value: Option<f64>) -> Vec<Sample> {
    value.map(|value| (None, value)).into_iter().collect()
}

/// Prints the metrics of a running server.
pub(super) fn run(settings: &Settings) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.or_exit(Exit::Failed, "cannot start the runtime")?.block_on(print(settings))
}

async fn print(settings: &Settings) -> Result<(), Failure> {
    let answer = admin::ask(&settings.admin.listen, "/metrics", &[]).await;
    let answer = answer.or_exit(Exit::Failed, admin::unreachable(settings))?;
    if answer.status != 200 {
        return Err(Failure::new(Exit::Failed, answer.reason().await));
    }
    let mut lines = answer.lines();
    while let Some(line) = lines.next_line().await.or_exit(Exit::Failed, "the response ended early")? {
        config::to_stdout(&(line + "\n"))?;
    }
    Ok(())
}
