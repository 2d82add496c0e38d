//! `btcgraph serve`: follows the node and answers requests.

use std::net::SocketAddr;
use std::path::Path;

use btcgraph::api::{self, Schema};
use btcgraph::live::Live;
use btcgraph::node::{Node, NodeError, StopFlag};
use btcgraph::server::guard::GuardLimits;
use btcgraph::server::{self, Limits};
use btcgraph::settings::{ByteSize, ServerSettings, Settings};
use btcgraph::sync::{self, Follow, Until};
use btcgraph::view::Published;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::failure::{Exit, Failure, OrExit};
use super::pieces;

/// Runs until `stop` is cancelled. Answers from the first moment for the tip that the index has.
pub(super) async fn run(settings: &Settings, stop: CancellationToken) -> Result<(), Failure> {
    let (published, live) = (Published::default(), Live::default());
    let limits = api::Limits {
        depth: settings.server.max_depth,
        complexity: settings.server.max_complexity,
        page_size: settings.server.max_page_size,
        transaction_bytes: bytes(settings.server.max_transaction_bytes),
        scan_rows: settings.server.max_scan_rows,
        ids: settings.server.max_ids,
        headers: settings.server.max_headers,
        filters: settings.server.max_filters,
        points: settings.server.max_points,
    };
    let schema = api::schema(published.clone(), live.clone(), limits);
    let index = pieces::open_index(settings)?;
    sync::publish(&index, &published)?;
    let listener = TcpListener::bind(settings.server.listen).await;
    let listener = listener.or_exit(Exit::Failed, format!("cannot listen on {}", settings.server.listen))?;
    let address = listener.local_addr().or_exit(Exit::Failed, "cannot tell the address")?;
    write_port(settings.server.port_file(), address)?;
    info!(url = %format_args!("http://{address}/graphql"), "serving");

    let serving = tokio::spawn(serve(listener, schema, limits_of(&settings.server), stop.clone()));
    let flag = pieces::stop_flag(&stop);
    let settings = settings.clone();
    let following = pieces::blocking(move || {
        let mut index = index;
        let Some(node) = connect(&settings, &flag)? else { return Ok(()) };
        Ok(sync::run(Follow {
            node: &node,
            index: &mut index,
            published: &published,
            live: &live,
            until: Until::Stopped,
            connections: pieces::connections(&settings),
            buffer_bytes: pieces::buffer_bytes(&settings),
        })?)
    });
    let followed = following.await;
    // whichever ended first, the other ends too
    stop.cancel();
    let served = serving.await.or_exit(Exit::Failed, "the server failed")?;
    followed.and(served)
}

async fn serve(listener: TcpListener, schema: Schema, limits: Limits, stop: CancellationToken) -> Result<(), Failure> {
    let served = server::serve(listener, schema, limits, stop.clone()).await;
    stop.cancel();
    served.or_exit(Exit::Failed, "cannot accept connections")
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

fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.to_bytes()).unwrap_or(usize::MAX)
}

fn limits_of(settings: &ServerSettings) -> Limits {
    Limits {
        body_bytes: bytes(settings.max_body),
        message_bytes: bytes(settings.max_message),
        operations_per_socket: settings.max_operations_per_socket,
        guard: GuardLimits {
            query_bytes: bytes(settings.max_query),
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
