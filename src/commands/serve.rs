//! `btcgraph serve`: follows the node and answers requests.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::BlockHash;
use btcgraph::api::{self, Features};
use btcgraph::execution::AllowedOperations;
use btcgraph::fleet::LazyJoin;
use btcgraph::index::{Index, IndexError, Patience};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::metrics::Metrics;
use btcgraph::node::{Node, NodeError, NodeMetrics, NodeOptions, Signals, StopFlag};
use btcgraph::server::admin::{Admin, NotNotified};
use btcgraph::server::{self, Draining, TokenPolicy};
use btcgraph::settings::{ListenAddress, RawTransactions, ServerSettings, Settings};
use btcgraph::sync::{self, Follow, PersistentMempool, Until, Wake, Withheld};
use btcgraph::view::{NodeLimits, Published};
use clap::Args;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::failure::{Exit, Failure, OrExit};
use super::fleet::{JoinMode, Joining, backup, publish};
use super::metrics::{self, MetricSources};
use super::{admin, fleet, logging, pieces, rates, verify, webhooks};

/// The capacity of the queue of signals. Beyond it the loop reads the whole mempool list instead.
const SIGNAL_CAPACITY: usize = 100_000;
/// How long the node may take to report whether it knows a notified block: less than `notify` waits.
const BLOCK_CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before an unreachable node is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Default)]
pub(super) struct ServeArguments {
    /// If there is no index yet, begin with the published blocks at this address, s3://BUCKET/PREFIX or file:///DIRECTORY
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// With --from: answer before all blocks are downloaded, and request what is missing when it is read
    #[arg(long, requires = "from")]
    lazy: bool,
}

/// The limits of requests that clients cause to the node.
fn node_limits(settings: &Settings) -> NodeLimits {
    let limits = &settings.limits;
    let block_template = settings.server.block_template;
    NodeLimits { requests: limits.node_requests, timeout: limits.node_timeout, block_template }
}

/// Runs until `stop` is cancelled. Answers from the start, for the tip of the index, once that was joined.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: ServeArguments,
) -> Result<(), Failure> {
    fleet::refuse_wrong_blocks(settings)?;
    let mut lazy = None;
    if let Some(url) = &arguments.from {
        let mode = if arguments.lazy { JoinMode::Lazy } else { JoinMode::Whole };
        match fleet::join_and_wait(settings, &stop, url, mode).await? {
            Joining::Joined | Joining::Present(_) => {}
            Joining::Lazily(begun) => lazy = Some(begun),
            Joining::Stopped => return Ok(()),
        }
    }
    let published = Published::with_node_limits(node_limits(settings)).with_longest_silence(settings.longest_silence());
    let live = Live::default();
    let limits = settings.limits;
    let options = options_of(&limits, &settings.server, reads_wait(settings, lazy.is_some()))?;
    let schema = api::schema(published.clone(), live.clone(), limits, features_of(settings)?);
    let index = open_index(settings, lazy.as_deref()).await?;
    // before there is anything that they could wait for
    let mut webhooks = webhooks::of(settings, &schema).await?;
    let node_metrics = Arc::<NodeMetrics>::default();
    let metrics = metrics::of(MetricSources {
        node: node_metrics.clone(),
        index: index.metrics(),
        cache_bytes: pieces::index_options(settings).cache_bytes,
        published: published.clone(),
        live: live.clone(),
        webhooks: webhooks.metrics(),
    })?;
    let mut mempool = load_mempool(&index, settings)?;
    let withheld = sync::publish(&index, snapshot_of(&mut mempool), &published, settings.sync.lost_block_patience())?;
    let admin_socket = admin::bind(&settings.admin.listen).await?;
    let listener = bind(&settings.server.listen).await?;
    let address = listener.local_addr().or_exit(Exit::Failed, "cannot read the address of the listener")?;
    write_port(settings.server.port_file(), address)?;
    info!(url = %format_args!("http://{address}/graphql"), admin = %settings.admin.listen, "serving");
    if settings.api.broadcast {
        info!("clients can send transactions through the node");
    }
    if settings.server.playground {
        info!(url = %format_args!("http://{address}/"), "explorer in a browser");
        info!(url = %format_args!("http://{address}/playground"), "playground in a browser");
    }

    webhooks.start(stop.clone()).or_exit(Exit::Failed, "cannot deliver webhooks")?;
    let wake = Wake::default();
    let checking = fleet::check_in_background(settings, &index, lazy, &stop);
    let handlers = admin_of(settings, &wake, &published, options.draining.clone(), metrics.clone());
    let administering =
        tokio::spawn(until_it_ends(server::admin::serve(admin_socket, handlers, stop.clone()), stop.clone()));
    let public = server::serve_with_metrics(listener, schema, options, metrics, stop.clone());
    let serving = tokio::spawn(until_it_ends(public, stop.clone()));
    let flag = pieces::stop_flag(&stop);
    let settings = settings.clone();
    let following = pieces::blocking(move || {
        let (mut index, mut mempool, mut withheld) = (index, mempool, withheld);
        let mut release = || -> Result<Option<Withheld>, Failure> {
            if let Some(waiting) = withheld {
                withheld = waiting.release_when_due(&index, snapshot_of(&mut mempool), &published)?;
            }
            Ok(withheld)
        };
        let Some(node) = connect(&settings, &flag, &node_metrics, &mut release)? else { return Ok(()) };
        published.set_node(node.clone());
        let signals = listen(&node, &wake, &flag, &mut release)?;
        let freezing = pieces::freezing(&settings, &index, &node)?;
        if mempool.is_none() {
            mempool = load_mempool(&index, &settings)?;
        }
        if mempool.is_none() {
            warn!(again_in = ?RETRY_PAUSE, "outputs that the mempool of the last run spends cannot be read now");
            if flag.sleep(RETRY_PAUSE).is_err() {
                return Ok(());
            }
            mempool = Some(PersistentMempool::load_readable(&index, pieces::mempool_limits(&settings))?);
        }
        let space = index.required_space();
        let followed = sync::run(Follow {
            node: &node,
            index: &mut index,
            published: &published,
            live: &live,
            mempool: mempool.as_mut(),
            withheld,
            signals: signals.as_ref(),
            until: Until::Stopped,
            poll: settings.poll(),
            wake: &wake,
            connections: pieces::connections(&settings),
            buffer_bytes: pieces::buffer_bytes(&settings),
            freezing: Some(freezing),
        });
        followed.map_err(|error| pieces::following_failed(error, &space))
    });
    let followed = following.await;
    // the end of one ends the other too
    stop.cancel();
    let served = serving.await.or_exit(Exit::Failed, "the server failed").flatten();
    let administered = administering.await.or_exit(Exit::Failed, "the admin socket failed").flatten();
    let delivered = pieces::blocking(move || {
        webhooks.join();
        Ok(())
    });
    delivered.await?;
    let checked = checking.await;
    // what ends the others comes first
    checked.and(followed).and(served).and(administered)
}

/// The index, of which files may be missing if it was joined lazily.
async fn open_index(settings: &Settings, lazy: Option<&LazyJoin>) -> Result<Index, Failure> {
    let Some(lazy) = lazy else { return pieces::open_index(settings) };
    let (settings, partial) = (settings.clone(), lazy.partial_files());
    pieces::blocking(move || Patience::ENDLESS.scope(|| pieces::open_partial_index(&settings, &partial))).await
}

/// The mempool of the last run; `None` if its transactions spend outputs of frozen blocks that cannot be read now, as before
/// the node is connected, or while the store of a lazy join does not answer.
fn load_mempool(index: &Index, settings: &Settings) -> Result<Option<PersistentMempool>, IndexError> {
    match PersistentMempool::load(index, pieces::mempool_limits(settings)) {
        Err(IndexError::RawUnavailable { .. } | IndexError::Unfetched(_)) => Ok(None),
        loaded => loaded.map(Some),
    }
}

/// A snapshot of the mempool, which is empty until it is loaded.
fn snapshot_of(mempool: &mut Option<PersistentMempool>) -> MempoolSnapshot {
    mempool.as_mut().map(PersistentMempool::snapshot).unwrap_or_default()
}

/// Listens at this address. For a name with addresses of both kinds it is one of IPv4, which every client tries.
async fn bind(address: &ListenAddress) -> Result<TcpListener, Failure> {
    let mut addresses = match address {
        ListenAddress::Ip(address) => vec![*address],
        ListenAddress::Name { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            let tried = format!("cannot resolve {host}: set server.listen (--listen) to an IP address");
            found.or_exit(Exit::Failed, tried)?.collect()
        }
    };
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let listener = TcpListener::bind(&addresses[..]).await;
    listener.or_exit(Exit::Failed, format!("cannot listen on {address}: set another server.listen (--listen)"))
}

/// Runs a server, and cancels `stop` when it ends.
async fn until_it_ends(server: impl Future<Output = io::Result<()>>, stop: CancellationToken) -> Result<(), Failure> {
    let ended = server.await;
    stop.cancel();
    ended.or_exit(Exit::Failed, "cannot accept connections")
}

/// The handlers of the admin socket.
fn admin_of(settings: &Settings, wake: &Wake, published: &Published, draining: Draining, metrics: Metrics) -> Admin {
    let log_filter = settings.log.filter.clone();
    let (settings, wake, published, of_notices) =
        (settings.clone(), wake.clone(), published.clone(), published.clone());
    Admin {
        notify: Box::new(move |hash| {
            let (hash, wake, published) = (hash.to_owned(), wake.clone(), of_notices.clone());
            Box::pin(async move { notify(&hash, &wake, &published).await })
        }),
        cut: publish::describe(&settings, &published),
        backup: {
            let (settings, published) = (settings.clone(), published.clone());
            Box::new(move |asked, job| backup::answer(asked, job, &settings, &published))
        },
        verify: Box::new(move |question, job| verify::answer(question, job, &settings, &published)),
        set_log: Box::new(move |filter| {
            let filter = if filter.is_empty() { &log_filter } else { filter };
            logging::set_filter(filter).map(|()| filter.to_owned())
        }),
        draining,
        metrics: Some(metrics),
    }
}

/// Publishes a withheld index once the wait for its lost block is over. Returns it while the wait lasts.
type Release<'a> = &'a mut dyn FnMut() -> Result<Option<Withheld>, Failure>;

/// Wakes the loop, which asks the node for its newest block. Errors: the node does not know the block. A node that does not
/// respond in time counts as knowing it.
async fn notify(hash: &str, wake: &Wake, published: &Published) -> Result<(), NotNotified> {
    let hash: BlockHash = hash.parse().map_err(|_| NotNotified::NotAHash(hash.to_owned()))?;
    debug!(%hash, "the node has a new block");
    wake.wake();
    match timeout(BLOCK_CHECK_TIMEOUT, published.node_client().has_block(hash)).await {
        Ok(Ok(false)) => Err(NotNotified::UnknownBlock(hash.to_string())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Connects to the node, with retries; `None` if the service stops first.
fn connect(
    settings: &Settings,
    stop: &StopFlag,
    metrics: &Arc<NodeMetrics>,
    release: Release<'_>,
) -> Result<Option<Node>, Failure> {
    loop {
        let mut node = NodeOptions { metrics: metrics.clone(), ..pieces::node_settings(settings, stop) };
        if let Some(withheld) = release()? {
            node.connect_retry.patience = node.connect_retry.patience.min(withheld.remaining());
        }
        match Node::connect(node) {
            Ok(node) => return Ok(Some(node)),
            Err(NodeError::Stopped) => return Ok(None),
            Err(error) if error.is_transient() => {
                warn!(%error, "the node is unreachable; answering for the tip of the index");
                if stop.sleep(RETRY_PAUSE).is_err() {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Subscribes to the signals of the node. `None` if it does not publish any, does not report where, or the service stops
/// first. Waits while the node is unreachable.
fn listen(node: &Node, wake: &Wake, stop: &StopFlag, release: Release<'_>) -> Result<Option<Signals>, Failure> {
    let endpoint = loop {
        release()?;
        match node.signal_endpoint() {
            Ok(endpoint) => break endpoint,
            Err(NodeError::Stopped) => return Ok(None),
            // only the user can fix the settings
            Err(error @ NodeError::Settings { .. }) => return Err(error.into()),
            Err(error) if error.is_transient() => {
                warn!(%error, "the node is unreachable; answering for the tip of the index");
                if stop.sleep(RETRY_PAUSE).is_err() {
                    return Ok(None);
                }
            }
            Err(error) => {
                warn!(%error, "the node does not report where it publishes signals, so the server polls its mempool; set node.zmq to receive transactions at once");
                return Ok(None);
            }
        }
    };
    let Some(endpoint) = endpoint else {
        info!(
            "the node publishes no signals; start it with -zmqpubsequence=tcp://127.0.0.1:28332 to receive transactions at once"
        );
        return Ok(None);
    };
    info!(%endpoint, "receiving signals of the node");
    let wake = wake.clone();
    Ok(Some(Signals::start(&endpoint, SIGNAL_CAPACITY, stop, move || wake.wake())?))
}

/// Whether reads of the index may wait for another machine: for a store of published blocks, or for the node, if it has the bytes of
/// frozen blocks and no directory of its block files is known. That the directory may be unreadable is left out, and the time in which
/// the bytes are copied from the node.
fn reads_wait(settings: &Settings, is_lazy: bool) -> bool {
    let may_be_with_node = settings.index.raw_transactions != RawTransactions::Index;
    is_lazy || (may_be_with_node && settings.node.blocks_dir().is_none())
}

fn options_of(limits: &Limits, settings: &ServerSettings, reads_wait: bool) -> Result<server::Options, Failure> {
    let allowed_operations = settings.allowed_operations().map(AllowedOperations::read).transpose();
    let allowed_operations =
        allowed_operations.or_exit(Exit::Usage, "the setting server.allowed_operations is wrong")?;
    if let Some(allowed) = &allowed_operations {
        info!(operations = allowed.len(), "only listed operations are executed");
    }
    Ok(server::Options {
        limits: *limits,
        limit_loopback: settings.limit_loopback,
        playground: settings.playground,
        origins: settings.origins.clone(),
        hosts: settings.hosts.clone(),
        proxies: settings.trusted_proxies.clone(),
        token_policy: TokenPolicy {
            tokens: settings.tokens.clone(),
            require_token: settings.require_token,
            anonymous_cost_per_minute: settings.anonymous_cost_per_minute,
            anonymous_broadcast: settings.anonymous_broadcast,
        },
        ready_blocks: settings.ready_blocks,
        allowed_operations,
        public_metrics: settings.metrics,
        draining: Draining::default(),
        reads_wait,
    })
}

fn features_of(settings: &Settings) -> Result<Features, Failure> {
    Ok(Features {
        broadcast: settings.api.broadcast,
        tables: pieces::optional_tables(settings),
        block_template: settings.server.block_template,
        rates: rates::start(&settings.rates)?,
    })
}

fn write_port(file: Option<&Path>, address: SocketAddr) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let written = std::fs::write(file, address.port().to_string());
    written.or_exit(Exit::Failed, format!("cannot write the port to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use btcgraph::index::{ObservedLimits, OptionalTables};
    use btcgraph::mempool::MempoolLimits;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::thread;
    use std::time::Instant;

    use btcgraph::node::Auth;
    use btcgraph::settings::{Platform, Sources};
    use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};

    use super::*;

    /// A node that publishes signals, and a client without retries.
    fn publishing() -> (SimNode, Node) {
        let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
        let sim = SimNode::start(Arc::new(Mutex::new(World::new(SimChain::new(1)))), options).unwrap();
        let auth = Auth::UserPassword { user: "user".to_owned(), password: "password".to_owned() };
        let mut settings = NodeOptions::new(bitcoin::Network::Regtest, sim.url(), auth);
        settings.retry.patience = Duration::ZERO;
        (sim, Node::connect(settings).unwrap())
    }

    #[test]
    fn reads_wait_for_a_store_and_for_a_node_without_block_files() {
        let mut settings = defaults();
        assert!(!reads_wait(&settings, false), "its files are beside the cookie of a node on this machine");
        assert!(reads_wait(&settings, true));
        settings.node.blocks_dir = PathBuf::new();
        assert!(reads_wait(&settings, false));
        settings.index.raw_transactions = RawTransactions::Index;
        assert!(!reads_wait(&settings, false));
    }

    #[test]
    fn an_unreachable_node_is_asked_again_for_its_endpoint() {
        let (sim, node) = publishing();
        sim.warm_up(Some("Loading…"));
        let listening = thread::spawn(move || listen(&node, &Wake::default(), &StopFlag::new(), &mut || Ok(None)));
        let deadline = Instant::now() + Duration::from_mins(1);
        while sim.calls("getzmqnotifications") < 2 {
            assert!(Instant::now() < deadline && !listening.is_finished(), "it is not asked again");
            thread::yield_now();
        }
        sim.warm_up(None);
        assert!(listening.join().unwrap().is_ok_and(|signals| signals.is_some()));
    }

    #[test]
    fn a_node_without_an_endpoint_is_followed_by_polling() {
        for (status, body) in [(403, ""), (200, "<html>hello</html>")] {
            let (sim, node) = publishing();
            sim.override_response("getzmqnotifications", Some((status, body)));
            let signals = listen(&node, &Wake::default(), &StopFlag::new(), &mut || Ok(None));
            assert!(signals.is_ok_and(|signals| signals.is_none()));
        }
    }

    fn defaults() -> Settings {
        let platform = Platform { home: "/h".into(), data: "/d".into(), node_data: "/n".into(), memory: None };
        Settings::load(&Sources { platform: Some(platform), ..Sources::default() }).unwrap()
    }

    #[test]
    fn the_defaults_of_the_settings_are_those_of_the_modules() {
        let settings = defaults();
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(node_limits(&settings), NodeLimits::default());
        assert_eq!(settings.longest_silence(), Published::default().longest_silence());
        assert_eq!(pieces::mempool_limits(&settings), MempoolLimits::default());
        assert_eq!(pieces::index_options(&settings).observed, ObservedLimits::default());
        let Features { broadcast, tables, block_template, rates } = features_of(&settings).unwrap();
        assert_eq!((broadcast, block_template, rates.is_none()), (false, false, true));
        assert_eq!(tables, OptionalTables::default());
        assert_eq!(options_of(&settings.limits, &settings.server, false).unwrap(), server::Options::default());
    }
}
