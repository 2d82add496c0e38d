//! `btcgraph serve`: follows the node and answers requests.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bitcoin::BlockHash;
use btcgraph::api::{self, RequestLimits};
use btcgraph::live::Live;
use btcgraph::mempool::{Mempool, MempoolSnapshot};
use btcgraph::node::{Node, NodeError, Signals, StopFlag};
use btcgraph::server::{self, admin::Admin};
use btcgraph::settings::{ByteSize, ServerSettings, Settings};
use btcgraph::sync::{self, Follow, Until, Wake};
use btcgraph::view::{NodeLimits, Published};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::failure::{Exit, Failure, OrExit};
use super::{admin, pieces, verify};

/// How many signals wait while the loop is busy with blocks; of more it takes the whole list instead.
const SIGNALS: usize = 100_000;

/// Runs until `stop` is cancelled. Answers from the first moment for the tip that the index has.
pub(super) async fn run(settings: &Settings, stop: CancellationToken) -> Result<(), Failure> {
    let (published, live) = (Published::with_node_limits(node_limits(&settings.server)), Live::default());
    let limits = limits_of(&settings.server);
    let schema = api::schema(published.clone(), live.clone(), limits);
    let index = pieces::open_index(settings)?;
    sync::publish(&index, MempoolSnapshot::default(), &published)?;
    let admin_socket = admin::bind(&settings.admin.listen).await?;
    let listener = TcpListener::bind(settings.server.listen).await;
    let listener = listener.or_exit(Exit::Failed, format!("cannot listen on {}", settings.server.listen))?;
    let address = listener.local_addr().or_exit(Exit::Failed, "cannot tell the address")?;
    write_port(settings.server.port_file(), address)?;
    info!(url = %format_args!("http://{address}/graphql"), admin = %settings.admin.listen, "serving");
    if settings.server.playground {
        info!(url = %format_args!("http://{address}/playground"), "to try it in a browser");
    }

    let wake = Wake::default();
    let admin = server::admin::serve(admin_socket, admin_of(settings, &wake, &published), stop.clone());
    let administering = tokio::spawn(until_it_ends(admin, stop.clone()));
    let options = server::Options { limits: limits.request.into(), playground: settings.server.playground };
    let public = server::serve(listener, schema, options, stop.clone());
    let serving = tokio::spawn(until_it_ends(public, stop.clone()));
    let flag = pieces::stop_flag(&stop);
    let settings = settings.clone();
    let following = pieces::blocking(move || {
        let mut index = index;
        let mut mempool = Mempool::default();
        let Some(node) = connect(&settings, &flag)? else { return Ok(()) };
        published.set_node(node.clone());
        let signals = listen(&node, &wake, &flag)?;
        Ok(sync::run(Follow {
            node: &node,
            index: &mut index,
            published: &published,
            live: &live,
            mempool: Some(&mut mempool),
            signals: signals.as_ref(),
            until: Until::Stopped,
            poll: settings.node.poll(),
            wake: &wake,
            connections: pieces::connections(&settings),
            buffer_bytes: pieces::buffer_bytes(&settings),
        })?)
    });
    let followed = following.await;
    // whichever ended first, the other ends too
    stop.cancel();
    let served = serving.await.or_exit(Exit::Failed, "the server failed");
    let administered = administering.await.or_exit(Exit::Failed, "the admin socket failed");
    followed.and(served?).and(administered?)
}

/// A server, at whose end everything else ends too.
async fn until_it_ends(server: impl Future<Output = io::Result<()>>, stop: CancellationToken) -> Result<(), Failure> {
    let ended = server.await;
    stop.cancel();
    ended.or_exit(Exit::Failed, "cannot accept connections")
}

/// What commands on this machine may ask for.
fn admin_of(settings: &Settings, wake: &Wake, published: &Published) -> Admin {
    let (settings, wake, published) = (settings.clone(), wake.clone(), published.clone());
    Admin {
        notify: Box::new(move |hash| {
            let hash: BlockHash = hash.parse().map_err(|_| format!("{hash:?} is no hash of a block"))?;
            debug!(%hash, "the node has a new block");
            wake.wake();
            Ok(())
        }),
        verify: Box::new(move |question, job| verify::answer(question, job, &settings, &published)),
    }
}

/// The node, however long it takes to come; `None` if the service stops before.
fn connect(settings: &Settings, stop: &StopFlag) -> Result<Option<Node>, Failure> {
    loop {
        match Node::connect(pieces::node_settings(settings, stop)) {
            Ok(node) => return Ok(Some(node)),
            Err(NodeError::Stopped) => return Ok(None),
            Err(error) if error.is_transient() => warn!(%error, "the node is away; answering for the index's own tip"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Listens to what the node tells by itself, if it does.
fn listen(node: &Node, wake: &Wake, stop: &StopFlag) -> Result<Option<Signals>, Failure> {
    let endpoint = match node.signal_endpoint() {
        Err(NodeError::Stopped) => None,
        endpoint => endpoint?,
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

fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.to_bytes()).unwrap_or(usize::MAX)
}

fn node_limits(settings: &ServerSettings) -> NodeLimits {
    let timeout = Duration::from_secs(settings.node_timeout_seconds.into());
    NodeLimits { requests: settings.max_node_requests, timeout }
}

fn limits_of(settings: &ServerSettings) -> api::Limits {
    api::Limits {
        depth: settings.max_depth,
        complexity: settings.max_complexity,
        page_size: settings.max_page_size,
        transaction_bytes: bytes(settings.max_transaction_bytes),
        scan_rows: settings.max_scan_rows,
        ids: settings.max_ids,
        headers: settings.max_headers,
        filters: settings.max_filters,
        points: settings.max_points,
        request: RequestLimits {
            body_bytes: bytes(settings.max_body),
            message_bytes: bytes(settings.max_message),
            operations_per_socket: settings.max_operations_per_socket,
            query_bytes: bytes(settings.max_query),
            document_cache_bytes: bytes(settings.document_cache),
            tokens: settings.max_tokens,
            nesting: settings.max_nesting,
            selections: settings.max_selections,
            aliases: settings.max_aliases,
            root_fields: settings.max_root_fields,
            directives: settings.max_directives,
            introspection: settings.max_introspection,
        },
    }
}

fn write_port(file: Option<&Path>, address: SocketAddr) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let written = std::fs::write(file, address.port().to_string());
    written.or_exit(Exit::Failed, format!("cannot write the port to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use btcgraph::settings::{Platform, Sources};

    use super::*;

    #[test]
    fn the_defaults_of_the_settings_are_those_of_the_rooms() {
        let platform = Platform { home: "/h".into(), data: "/d".into(), node_data: "/n".into() };
        let settings = Settings::load(&Sources { platform: Some(platform), ..Sources::default() }).unwrap();
        assert_eq!(limits_of(&settings.server), api::Limits::default());
        assert_eq!(node_limits(&settings.server), NodeLimits::default());
        let limits = server::Limits::from(limits_of(&settings.server).request);
        let options = server::Options { limits, playground: settings.server.playground };
        assert_eq!(options, server::Options::default());
    }
}
