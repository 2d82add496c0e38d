//! The list of all limits, each declared once.
//!
//! A limit is a line of the form
//!
//! ```text
//!   /// What it bounds, and what happens beyond it.
//!   name: Type, Unit = default, lowest..=highest, "section.setting", "nameInTheSchema";
//! ```
//!
//! The description is shown to clients as the field of `Server.limits` and to operators in the documented settings.
//! A bound that is no setting, and that clients see all the same, is declared in the braces of `fixed`, at the end of a group.
//! To add a limit, declare it here, read it where it applies, and write the schema again (`btcgraph schema >
//! schema.graphql`); the settings, their documentation, their bounds and the code of the schema follow. The setting is in
//! the section `server` or `cache`; the unit is one of [`Unit`](super::Unit). Order matters only for reading: limits
//! appear in this order in the schema and in the settings.

/// Passes all limits to the macro `$then`. `clients` lists those in `Server.limits` of the schema, in groups with the type of
/// each, `protocol` those that only operators see.
macro_rules! declarations {
    ($then:ident) => {
        $then! {
            clients {
                /// How many connections clients may open, and how slow they may be.
                connections: ConnectionLimits {
                    /// The most connections of all clients together, websockets and event streams included. One more is
                    /// answered with HTTP status 503. Each takes an open file of the process: if `ulimit -n` allows fewer, the
                    /// server accepts fewer and logs it at the start.
                    connections: usize, Count = 25_000, 1..=10_000_000, "server.max_connections", "connections";

                    /// The most connections of one client (an IPv4 address or an IPv6 /64 network, as the connection shows it);
                    /// 0 sets no limit. One more is answered with HTTP status 429. Trusted proxies are exempt, and so are
                    /// clients on the server's own machine unless `server.limit_loopback` is set.
                    connections_per_client: usize, Count = 250, 0..=10_000_000,
                        "server.max_connections_per_client", "connectionsPerClient";

                    /// The most websockets and event streams of all clients together. One more websocket is closed with 1013,
                    /// one more stream is refused with HTTP status 503. An idle one uses up to 20 kB of memory.
                    sockets: usize, Count = 20_000, 1..=10_000_000, "server.max_sockets", "sockets";

                    /// The most websockets and event streams of one client (an IPv4 address or an IPv6 /64 network); 0 sets no
                    /// limit. One more websocket is closed with 1013, one more stream is refused with HTTP status 429. Clients
                    /// on the server's own machine are exempt unless `server.limit_loopback` is set.
                    sockets_per_client: usize, Count = 100, 0..=10_000_000, "server.max_sockets_per_client", "socketsPerClient";

                    /// The most seconds in which the head of a request must arrive; then the connection is closed.
                    header_timeout: Duration, Seconds = 10, 1..=86_400, "server.header_timeout_seconds", "headerSeconds";

                    /// The most seconds between two requests on one connection; then the connection is closed.
                    idle_timeout: Duration, Seconds = 60, 1..=86_400, "server.idle_timeout_seconds", "idleSeconds";

                    /// The most seconds in which the body of a request must arrive; then it is answered with HTTP status 408.
                    body_timeout: Duration, Seconds = 30, 1..=86_400, "server.body_timeout_seconds", "bodySeconds";

                    /// The most seconds from the first byte of a websocket message to its last; then the websocket is closed
                    /// with 1008.
                    message_timeout: Duration, Seconds = 30, 1..=86_400,
                        "server.socket_message_timeout_seconds", "messageSeconds";

                    /// The most seconds in which a client may read nothing of what the server sends; then the connection is
                    /// closed.
                    write_timeout: Duration, Seconds = 10, 1..=86_400, "server.write_timeout_seconds", "writeSeconds";

                    /// The minimum transfer rate in bytes per second at which a client must send a request body, as an average
                    /// over ten seconds, and read responses, as an average over a minute; 0 sets no minimum. A slower
                    /// connection is closed.
                    min_rate: u32, Count = 1_024, 0..=1 << 30, "server.min_bytes_per_second", "minBytesPerSecond";

                    /// About the most bytes of memory for request bodies that arrive and responses that clients have not read
                    /// yet, of all clients together. Only bodies and responses above 64 KiB count. Beyond the limit they are
                    /// refused with RESOURCE_EXHAUSTED and HTTP status 503.
                    buffered_bytes: usize, Bytes = 128 << 20, 0..=1 << 40, "server.max_held", "bufferedBytes";
                }
                /// How large a request may be, what it may cost, how long it may take, and how many there may be.
                requests: RequestLimits {
                    /// The most bytes in the body of a POST request. A larger body is refused with HTTP status 413. The largest
                    /// standard transaction, 400,000 bytes, fits as a hexadecimal variable into the default.
                    body_bytes: usize, Bytes = 1 << 20, 1..=1 << 30, "server.max_body", "bodyBytes";

                    /// The most bytes in one websocket message. A larger message closes the websocket.
                    message_bytes: usize, Bytes = 64 << 10, 1..=1 << 30, "server.max_message", "messageBytes";

                    /// The most bytes in a document.
                    query_bytes: usize, Bytes = 32 << 10, 1..=1 << 30, "server.max_query", "queryBytes";

                    /// The most nested brackets in a document and in variables, and the most nested selections with fragments
                    /// expanded.
                    nesting: usize, Count = 64, 1..=64, "server.max_nesting", "nestingLevels";

                    /// The most fields and fragments that a document selects, with fragments expanded.
                    selections: usize, Count = 5_000, 1..=1_000_000, "server.max_selections", "selections";

                    /// The most aliases in a document, with fragments expanded.
                    aliases: usize, Count = 100, 0..=1_000_000, "server.max_aliases", "aliases";

                    /// The most root fields of an operation.
                    root_fields: usize, Count = 50, 1..=1_000_000, "server.max_root_fields", "rootFields";

                    /// The most directives in a document, with fragments expanded.
                    directives: usize, Count = 50, 0..=1_000_000, "server.max_directives", "directives";

                    /// The most introspection selections in a document. Full introspection by common clients has 230.
                    introspection: usize, Count = 500, 0..=1_000_000, "server.max_introspection", "introspectionSelections";

                    /// The most values in the variables and extensions of a request: list items, object fields, and the lists
                    /// and objects themselves.
                    values: usize, Count = 20_000, 0..=10_000_000, "server.max_values", "variableValues";

                    /// The most levels of nested fields.
                    depth: usize, Count = 20, 1..=64, "server.max_depth", "fieldLevels";

                    /// The highest cost of one answer, or of one event of a subscription: each field that is resolved and each
                    /// item of a list costs 1, and fields that ask the Bitcoin node or read many rows cost more. An answer
                    /// beyond it is refused as a whole, and a mutation before it is executed.
                    complexity: usize, Count = 50_000, 1..=1_000_000_000, "server.max_complexity", "complexity";

                    /// The highest cost of a document if every page were full. A document beyond it is refused before it is
                    /// executed.
                    worst_case_complexity: usize, Count = 5_000_000, 1..=1_000_000_000_000,
                        "server.max_worst_case_complexity", "worstCaseComplexity";

                    /// The most lexical tokens in a document.
                    tokens: usize, Count = 5_000, 1..=1_000_000, "server.max_tokens", "documentTokens";

                    /// About the most bytes of memory for parsed documents that are cached. The cache refuses nothing.
                    document_cache_bytes: usize, Bytes = 32 << 20, 0..=1 << 40, "server.document_cache", "documentCacheBytes";

                    /// About the most bytes of memory for queries that clients name by their hashes (automatic persisted
                    /// queries); 0 stores none. The cache refuses nothing.
                    persisted_query_bytes: usize, Bytes = 8 << 20, 0..=1 << 40,
                        "server.persisted_queries", "persistedQueryBytes";

                    /// The most seconds for one query, mutation or event of a subscription, time in the queue included; then it
                    /// fails with TIMEOUT and returns no data. A subscription ends with it.
                    timeout: Duration, Seconds = 15, 1..=86_400, "server.timeout_seconds", "timeoutSeconds";

                    /// The most operations of all clients that execute at once, the start of a subscription included. As many
                    /// more as `queuedRequests` are queued; beyond that a request is refused with RESOURCE_EXHAUSTED and HTTP status
                    /// 503.
                    executions: usize, Count = 16, 1..=100_000, "server.max_executions", "concurrentExecutions";

                    /// The most requests that are queued until they execute, and the most requests that wait for a block at
                    /// once. Beyond the limit a request is refused with RESOURCE_EXHAUSTED.
                    waiting: usize, Count = 100, 0..=1_000_000, "server.max_waiting", "queuedRequests";

                    /// The most requests of one client in a minute, all at once if it likes; 0 sets no limit. Beyond the limit
                    /// the HTTP status is 429. The headers RateLimit and RateLimit-Policy report what is left.
                    requests_per_minute: u32, Count = 0, 0..=1_000_000_000,
                        "server.max_requests_per_minute", "requestsPerMinute";

                    /// The most requests to the Bitcoin node at once, of all clients together. More are queued within
                    /// `nodeTimeoutSeconds`. The node's own `rpcthreads` and `rpcworkqueue` bound what it can take.
                    node_requests: usize, Count = 4, 1..=1_000, "server.max_node_requests", "nodeRequests";

                    /// The most seconds for an answer of the Bitcoin node, time in the queue included; then the field fails
                    /// with NODE_UNAVAILABLE. The request is not retried.
                    node_timeout: Duration, Seconds = 5, 1..=3_600, "server.node_timeout_seconds", "nodeTimeoutSeconds";

                    /// How many blocks must follow a block before an answer that reads only immutable facts of it, or of the
                    /// chain up to it, is sent as `Cache-Control: immutable`. A deeper reorg makes such an answer wrong
                    /// wherever it is cached, and the server cannot recall it. This limit refuses nothing.
                    cache_depth: u32, Count = 144, 1..=1_000_000, "cache.depth", "cacheDepthBlocks";

                    fixed {
                        /// The most transactions that one field submits or tests together. Not a setting: Bitcoin Core
                        /// accepts no more.
                        package_transactions: u32 = PACKAGE_SIZE, "packageTransactions";
                    }
                }
                /// How much one field may return or read.
                pages: PageLimits {
                    /// The most items on one page of a connection, the bound of `first` and `last`.
                    page_size: u32, Count = 100, 1..=widen(HIGHEST_PAGE_SIZE), "server.max_page_size", "pageSize";

                    /// The most bytes of transactions that one answer, or one event of a subscription, may read and return.
                    transaction_bytes: usize, Bytes = 32 << 20, 1..=1 << 40,
                        "server.max_transaction_bytes", "transactionBytes";

                    /// The most rows that one page reads while it searches for those that match a filter. A page that ends at
                    /// this limit is no error: it may have fewer items than requested, or none, and still a next page.
                    scan_rows: u32, Count = 20_000, 1..=100_000_000, "server.max_scan_rows", "scanRows";

                    /// The most ids, hashes or txids in one list of a request.
                    ids: usize, Count = 10_000, 1..=1_000_000, "server.max_ids", "idsPerList";

                    /// The most block headers in one list.
                    headers: u32, Count = 2_000, 1..=1_000_000, "server.max_headers", "headersPerList";

                    /// The most compact filters in one list. A node sends at most 1,000 at a time (BIP157).
                    compact_filters: u32, Count = 1_000, 1..=1_000_000, "server.max_compact_filters", "compactFiltersPerList";

                    /// The most points in one time series.
                    points: u32, Count = 2_000, 1..=1_000_000, "server.max_points", "pointsPerSeries";

                    /// The most scripts that one account (`descriptor`) derives and looks up, of all its branches together, or
                    /// one subscription, of all its descriptors together. Beyond it the field fails with QUERY_LIMIT_EXCEEDED,
                    /// and the subscription ends with it. A script of several keys costs as much as several of one key, so
                    /// accounts of such scripts may reach `requests.complexity` before.
                    derived_scripts: usize, Count = 4_000, 1..=1_000_000, "server.max_derived_scripts", "derivedScripts";

                    /// The highest gap limit of an account (`descriptor`) and of a descriptor that a subscription watches.
                    gap_limit: u32, Count = 1_000, widen(DEFAULT_GAP_LIMIT)..=widen(HIGHEST_GAP_LIMIT), "server.max_gap_limit", "gapLimit";

                    /// About the most bytes of memory for derived scripts of accounts that are cached. The cache refuses
                    /// nothing.
                    derivation_cache_bytes: usize, Bytes = 16 << 20, 0..=1 << 40,
                        "server.derivation_cache", "derivationCacheBytes";
                }
                /// How many subscriptions a client may open, and what one may watch.
                subscriptions: SubscriptionLimits {
                    /// The most operations that one websocket may have open at once.
                    operations_per_socket: usize, Count = 100, 1..=100_000,
                        "server.max_operations_per_socket", "operationsPerSocket";

                    /// The most addresses and scripts, transactions, or outputs that one subscription watches.
                    watched_items: usize, Count = 1_000, 1..=1_000_000, "server.max_watched_items", "watchedItems";

                    /// The most descriptors that one subscription watches.
                    watched_descriptors: usize, Count = 32, 1..=10_000,
                        "server.max_watched_descriptors", "watchedDescriptors";

                    /// The most branches that all descriptors of one subscription have together. A cursor has up to ten bytes
                    /// for each.
                    watched_branches: usize, Count = 32, 1..=10_000, "server.max_watched_branches", "watchedBranches";

                    /// The most scripts of descriptors that all subscriptions together watch. Each takes about 400 bytes of
                    /// memory. Beyond the limit a subscription fails, or ends, with RESOURCE_EXHAUSTED.
                    watched_derived_scripts: usize, Count = 200_000, 1..=100_000_000,
                        "server.max_watched_derived_scripts", "watchedDerivedScripts";

                    /// About the most bytes of memory for the documents and variables of all open subscriptions together.
                    /// Beyond the limit a subscription is refused with RESOURCE_EXHAUSTED.
                    subscription_bytes: usize, Bytes = 64 << 20, 0..=1 << 40,
                        "server.subscription_documents", "subscriptionBytes";
                }
            }
            protocol {
                /// The most seconds in which the client of a websocket must send `connection_init`; then the websocket is
                /// closed with 4408.
                socket_init_timeout: Duration, Seconds = 3, 1..=3_600, "server.socket_init_timeout_seconds";

                /// Seconds between pings on a websocket. A client that sends nothing from one ping to the next is disconnected.
                /// On an event stream, the seconds without an event after which the server sends a comment to keep it open.
                socket_ping_interval: Duration, Seconds = 12, 1..=3_600, "server.socket_ping_seconds";
            }
        }
    };
}

pub(crate) use declarations;
