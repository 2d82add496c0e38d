//! `btcgraph serve`: follows the node and answers requests.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::BlockHash;
use btcgraph::api::{self, Features};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::node::{Node, NodeError, NodeMetrics, NodeOptions, Signals, StopFlag};
use btcgraph::server::admin::{Admin, NotNotified};
use btcgraph::server::{self, Access, metrics::Metrics};
use btcgraph::settings::{ApiSettings, ListenAddress, ServerSettings, Settings};
use btcgraph::sync::{self, Follow, PersistentMempool, Until, Wake, Withheld};
use btcgraph::view::{NodeLimits, Published};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::failure::{Exit, Failure, OrExit};
use super::metrics::{self, Rooms};
use super::{admin, pieces, verify};

/// How many signals wait while the loop is busy with blocks; of more it takes the whole list instead.
const SIGNALS: usize = 100_000;
/// How long the node may take to say whether it knows a block of which a notice came: less than `notify` waits.
const IS_KNOWN: Duration = Duration::from_secs(2);
/// The wait before a node that went away is asked again where it publishes them.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until `stop` is cancelled. Answers from the first moment for the tip that the index has.
pub(super) async fn run(settings: &Settings, stop: CancellationToken) -> Result<(), Failure> {
    let node_limits = NodeLimits::new(&settings.limits, settings.server.block_template);
    let published = Published::with_node_limits(node_limits).with_longest_silence(settings.longest_silence());
    let live = Live::default();
    let limits = settings.limits;
    let schema = api::schema(published.clone(), live.clone(), limits, features_of(&settings.api));
    let index = pieces::open_index(settings)?;
    let node_figures = Arc::<NodeMetrics>::default();
    let metrics = metrics::of(Rooms {
        node: node_figures.clone(),
        index: index.metrics(),
        cache_bytes: pieces::index_options(settings).cache_bytes,
        published: published.clone(),
        live: live.clone(),
    })?;
    let mut mempool = PersistentMempool::load(&index, pieces::mempool_limits(settings))?;
    let withheld = sync::publish(&index, mempool.snapshot(), &published, settings.sync.lost_block_patience())?;
    let admin_socket = admin::bind(&settings.admin.listen).await?;
    let listener = bind(&settings.server.listen).await?;
    let address = listener.local_addr().or_exit(Exit::Failed, "cannot tell the address")?;
    write_port(settings.server.port_file(), address)?;
    info!(url = %format_args!("http://{address}/graphql"), admin = %settings.admin.listen, "serving");
    if settings.api.broadcast {
        info!("clients can send transactions through the node");
    }
    if settings.server.playground {
        info!(url = %format_args!("http://{address}/playground"), "to try it in a browser");
    }

    let wake = Wake::default();
    let admin =
        server::admin::serve(admin_socket, admin_of(settings, &wake, &published, metrics.clone()), stop.clone());
    let administering = tokio::spawn(until_it_ends(admin, stop.clone()));
    let options = options_of(&settings.limits, &settings.server);
    let public = server::serve_counted(listener, schema, options, metrics, stop.clone());
    let serving = tokio::spawn(until_it_ends(public, stop.clone()));
    let flag = pieces::stop_flag(&stop);
    let settings = settings.clone();
    let following = pieces::blocking(move || {
        let (mut index, mut mempool, mut withheld) = (index, mempool, withheld);
        let mut release = || -> Result<Option<Withheld>, Failure> {
            if let Some(waiting) = withheld {
                withheld = waiting.release_when_due(&index, mempool.snapshot(), &published)?;
            }
            Ok(withheld)
        };
        let Some(node) = connect(&settings, &flag, &node_figures, &mut release)? else { return Ok(()) };
        published.set_node(node.clone());
        let signals = listen(&node, &wake, &flag, &mut release)?;
        let space = index.required_space();
        let followed = sync::run(Follow {
            node: &node,
            index: &mut index,
            published: &published,
            live: &live,
            mempool: Some(&mut mempool),
            withheld,
            signals: signals.as_ref(),
            until: Until::Stopped,
            poll: settings.poll(),
            wake: &wake,
            connections: pieces::connections(&settings),
            buffer_bytes: pieces::buffer_bytes(&settings),
        });
        followed.map_err(|error| pieces::following_failed(error, &space))
    });
    let followed = following.await;
    // whichever ended first, the other ends too
    stop.cancel();
    let served = serving.await.or_exit(Exit::Failed, "the server failed");
    let administered = administering.await.or_exit(Exit::Failed, "the admin socket failed");
    followed.and(served?).and(administered?)
}

/// Listens there. A name that has addresses of both kinds is listened on at one of IPv4, which every client of it tries.
async fn bind(address: &ListenAddress) -> Result<TcpListener, Failure> {
    let mut addresses = match address {
        ListenAddress::Ip(address) => vec![*address],
        ListenAddress::Name { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            let tried =
                format!("cannot find the address of {host}: give server.listen (--listen) an IP address instead");
            found.or_exit(Exit::Failed, tried)?.collect()
        }
    };
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let listener = TcpListener::bind(&addresses[..]).await;
    listener.or_exit(Exit::Failed, format!("cannot listen on {address}: give another server.listen (--listen)"))
}

/// A server, at whose end everything else ends too.
async fn until_it_ends(server: impl Future<Output = io::Result<()>>, stop: CancellationToken) -> Result<(), Failure> {
    let ended = server.await;
    stop.cancel();
    ended.or_exit(Exit::Failed, "cannot accept connections")
}

/// What commands on this machine may ask for.
fn admin_of(settings: &Settings, wake: &Wake, published: &Published, metrics: Metrics) -> Admin {
    let (settings, wake, published, of_notices) =
        (settings.clone(), wake.clone(), published.clone(), published.clone());
    Admin {
        notify: Box::new(move |hash| {
            let (hash, wake, published) = (hash.to_owned(), wake.clone(), of_notices.clone());
            Box::pin(async move { notify(&hash, &wake, &published).await })
        }),
        verify: Box::new(move |question, job| verify::answer(question, job, &settings, &published)),
        metrics: Some(metrics),
    }
}

/// Shows what is withheld if that was for long enough, and returns what is still withheld.
type Release<'a> = &'a mut dyn FnMut() -> Result<Option<Withheld>, Failure>;

/// Has the loop ask the node for its newest block, and says so if the node does not know the one that it is said to have. A
/// node that cannot be asked in time is believed to.
async fn notify(hash: &str, wake: &Wake, published: &Published) -> Result<(), NotNotified> {
    let hash: BlockHash = hash.parse().map_err(|_| NotNotified::NotAHash(hash.to_owned()))?;
    debug!(%hash, "the node has a new block");
    wake.wake();
    match timeout(IS_KNOWN, published.ask().has_block(hash)).await {
        Ok(Ok(false)) => Err(NotNotified::UnknownBlock(hash.to_string())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The node, however long it takes to come; `None` if the service stops before.
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
                warn!(%error, "the node is away; answering for the index's own tip");
                if stop.sleep(AGAIN).is_err() {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Listens to what the node tells by itself, if it does, and says where. A node that is away is waited for; `None` too if
/// the service stops before.
fn listen(node: &Node, wake: &Wake, stop: &StopFlag, release: Release<'_>) -> Result<Option<Signals>, Failure> {
    let endpoint = loop {
        release()?;
        match node.signal_endpoint() {
            Ok(endpoint) => break endpoint,
            Err(NodeError::Stopped) => return Ok(None),
            // nothing but the user can help
            Err(error @ NodeError::Settings { .. }) => return Err(error.into()),
            Err(error) if error.is_transient() => {
                warn!(%error, "the node is away; answering for the index's own tip");
                if stop.sleep(AGAIN).is_err() {
                    return Ok(None);
                }
            }
            Err(error) => {
                warn!(%error, "the node does not tell where it publishes signals, and is asked for its mempool from time to time instead; set node.zmq to hear of transactions at once");
                return Ok(None);
            }
        }
    };
    let Some(endpoint) = endpoint else {
        info!(
            "the node publishes no signals; start it with -zmqpubsequence=tcp://127.0.0.1:28332 to hear of transactions at once"
        );
        return Ok(None);
    };
    info!(%endpoint, "listening to the node's signals");
    let wake = wake.clone();
    Ok(Some(Signals::start(&endpoint, SIGNALS, stop, move || wake.wake())?))
}

fn options_of(limits: &Limits, settings: &ServerSettings) -> server::Options {
    server::Options {
        limits: *limits,
        limit_loopback: settings.limit_loopback,
        playground: settings.playground,
        origins: settings.origins.clone(),
        hosts: settings.hosts.clone(),
        proxies: settings.trusted_proxies.clone(),
        access: Access {
            tokens: settings.tokens.clone(),
            require_token: settings.require_token,
            anonymous_cost_per_minute: settings.anonymous_cost_per_minute,
            anonymous_broadcast: settings.anonymous_broadcast,
        },
        ready_blocks: settings.ready_blocks,
        public_metrics: settings.metrics,
    }
}

fn features_of(settings: &ApiSettings) -> Features {
    Features { broadcast: settings.broadcast }
}

fn write_port(file: Option<&Path>, address: SocketAddr) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let written = std::fs::write(file, address.port().to_string());
    written.or_exit(Exit::Failed, format!("cannot write the port to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use btcgraph::index::ObservedLimits;
    use btcgraph::mempool::MempoolLimits;
    use std::sync::Mutex;
    use std::thread;
    use std::time::Instant;

    use btcgraph::node::Auth;
    use btcgraph::settings::{Platform, Sources};
    use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};

    use super::*;

    /// A node that publishes, and a client of it that does not wait.
    fn publishing() -> (SimNode, Node) {
        let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
        let sim = SimNode::start(Arc::new(Mutex::new(World::new(SimChain::new(1)))), options).unwrap();
        let auth = Auth::UserPassword { user: "user".to_owned(), password: "password".to_owned() };
        let mut settings = NodeOptions::new(bitcoin::Network::Regtest, sim.url(), auth);
        settings.retry.patience = Duration::ZERO;
        (sim, Node::connect(settings).unwrap())
    }

    #[test]
    fn a_node_that_goes_away_before_it_says_where_it_publishes_is_waited_for() {
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
    fn a_node_that_does_not_say_where_it_publishes_is_followed_without_its_signals() {
        for (status, body) in [(403, ""), (200, "<html>hello</html>")] {
            let (sim, node) = publishing();
            sim.override_response("getzmqnotifications", Some((status, body)));
            let signals = listen(&node, &Wake::default(), &StopFlag::new(), &mut || Ok(None));
            assert!(signals.is_ok_and(|signals| signals.is_none()));
        }
    }

    #[test]
    fn the_defaults_of_the_settings_are_those_of_the_rooms() {
        let platform = Platform { home: "/h".into(), data: "/d".into(), node_data: "/n".into(), memory: None };
        let settings = Settings::load(&Sources { platform: Some(platform), ..Sources::default() }).unwrap();
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(NodeLimits::new(&settings.limits, settings.server.block_template), NodeLimits::default());
        assert_eq!(settings.longest_silence(), Published::default().longest_silence());
        assert_eq!(pieces::mempool_limits(&settings), MempoolLimits::default());
        assert_eq!(pieces::index_options(&settings).observed, ObservedLimits::default());
        assert_eq!(features_of(&settings.api), Features::default());
        assert_eq!(options_of(&settings.limits, &settings.server), server::Options::default());
    }
}
