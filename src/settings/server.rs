//! The settings of the server: where it listens, what it lets clients do, and how much of everything they may have.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::values::ByteSize;
use crate::server::{Hosts, Origins, Proxies, Tokens};

/// The GraphQL server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on or off, each by its own name")]
pub struct ServerSettings {
    /// Where to listen; port 0 is any free port.
    pub listen: std::net::SocketAddr,
    /// Where to write the port once the server listens; empty for nowhere.
    pub port_file: PathBuf,
    /// Whether there is a page to try the API in a browser.
    pub playground: bool,
    /// The largest request body.
    pub max_body: ByteSize,
    /// The largest websocket message.
    pub max_message: ByteSize,
    /// The longest query.
    pub max_query: ByteSize,
    /// About how much memory parsed queries may take that are kept to be executed again.
    pub document_cache: ByteSize,
    /// About how much memory the parsed queries and the variables of all subscriptions may take together.
    pub subscription_documents: ByteSize,
    /// About how much memory queries may take that clients name by their hashes; none for none.
    pub persisted_queries: ByteSize,
    /// The most queries and mutations executed at once.
    pub max_executions: usize,
    /// The most that wait for their turn.
    pub max_waiting: usize,
    /// How long one may take, the wait included, in seconds.
    pub timeout_seconds: u32,
    /// The web pages that may ask.
    pub origins: Origins,
    /// The names under which the server answers, beside those of this machine and its address.
    pub hosts: Hosts,
    /// The most requests of one client in a minute; 0 for any number.
    pub max_requests_per_minute: u32,
    /// The proxies that tell which client asks.
    pub trusted_proxies: Proxies,
    /// The tokens of clients, by their hashes.
    pub tokens: Tokens,
    /// Whether nobody is answered without one.
    pub require_token: bool,
    /// What a client without a token may spend a minute; 0 for any.
    pub anonymous_cost_per_minute: u32,
    /// Whether a client without a token may send transactions, if `api.broadcast` is set.
    pub anonymous_broadcast: bool,
    /// Whether the metrics are at the public address, too.
    pub metrics: bool,
    /// How many blocks the node may be ahead of a server that is ready.
    pub ready_blocks: u32,
    /// How long the node may be silent while a server counts as ready, in seconds.
    pub ready_seconds: u32,
    /// The most tokens in a query.
    pub max_tokens: usize,
    /// How deep the brackets of a query may nest.
    pub max_nesting: usize,
    /// The most fields and fragments a query may select, fragments expanded.
    pub max_selections: usize,
    /// The most aliases in a query.
    pub max_aliases: usize,
    /// The most fields on the root of a query.
    pub max_root_fields: usize,
    /// The most directives in a query.
    pub max_directives: usize,
    /// The most fields about the schema itself in a query.
    pub max_introspection: usize,
    /// The most values in the variables and extensions of a request.
    pub max_values: usize,
    /// How deep the fields of a query may nest.
    pub max_depth: usize,
    /// The most fields an answer may have, every page taken as full.
    pub max_complexity: usize,
    /// The most items on one page of a list; above 1,000 it counts as 1,000.
    pub max_page_size: u32,
    /// The most bytes of transactions that one answer may read and tell.
    pub max_transaction_bytes: ByteSize,
    /// The most rows that one page reads while it looks for those that a filter lets through.
    pub max_scan_rows: u32,
    /// The most ids, hashes or txids in one list of a request.
    pub max_ids: usize,
    /// The most block headers in one list.
    pub max_headers: u32,
    /// The most points of one series over time.
    pub max_points: u32,
    /// The most addresses and scripts, transactions, or outputs that one subscription follows.
    pub max_watch: usize,
    /// The most requests to the node at once, of all clients together.
    pub max_node_requests: usize,
    /// How long a client's question to the node may take, in seconds.
    pub node_timeout_seconds: u32,
    /// Whether clients may ask the node for the block that it would make next.
    pub block_template: bool,
    /// The most operations open at once on one websocket.
    pub max_operations_per_socket: usize,
    /// The most websockets and streams of events at once.
    pub max_sockets: usize,
    /// How long the client of a websocket may take to introduce itself, in seconds.
    pub socket_init_timeout_seconds: u32,
    /// How often the client of a websocket or a stream of events is told that the server is there, in seconds.
    pub socket_ping_seconds: u32,
    /// The most of them that one client may have; 0 for as many as there are.
    pub max_sockets_per_client: usize,
    /// How long a message of a websocket may take from its first byte to its last, in seconds.
    pub socket_message_timeout_seconds: u32,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most connections of one client; 0 for as many as there are.
    pub max_connections_per_client: usize,
    /// Whether clients on this machine are held to what one client may have of connections and sockets.
    pub limit_loopback: bool,
    /// How long the head of a request may take, in seconds.
    pub header_timeout_seconds: u32,
    /// How long a connection may have nothing to do, in seconds.
    pub idle_timeout_seconds: u32,
    /// How long the body of a request may take, in seconds.
    pub body_timeout_seconds: u32,
    /// How long a client may take no byte of what is sent to it, in seconds.
    pub write_timeout_seconds: u32,
    /// The least bytes a second that a client has to send of a body, and to take of what is sent to it; 0 for any number.
    pub min_bytes_per_second: u32,
    /// About how much memory may be held for clients: bodies on their way in, and answers until they are read.
    pub max_held: ByteSize,
}

impl ServerSettings {
    /// Where to write the port once the server listens.
    #[must_use]
    pub fn port_file(&self) -> Option<&Path> {
        Some(self.port_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}
