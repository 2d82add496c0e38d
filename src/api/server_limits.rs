use async_graphql::SimpleObject;

use super::limits::Limits;
use super::scalars::UInt53;
use crate::view::NodeLimits;

/// How large requests and answers may be, and how much they may cost. What goes beyond is refused with
/// QUERY_LIMIT_EXCEEDED, which names the limit, unless a field here says otherwise. All of it is set by whoever runs
/// the server.
#[derive(SimpleObject)]
#[graphql(name = "Limits")]
pub(super) struct ServerLimits {
    /// The most bytes of the body of a POST. A larger one is refused with HTTP status 413.
    body_bytes: UInt53,
    /// The most bytes of a websocket message. A larger one ends the connection.
    message_bytes: UInt53,
    /// The most operations that one websocket may have open at once.
    operations_per_socket: UInt53,
    /// The most websockets and streams of events of all clients together. One websocket more is closed with 1013, one
    /// stream more is refused with HTTP status 503.
    sockets: UInt53,
    /// The most of them that one client may have open at once; 0 for as many as there are. One websocket more is closed with
    /// 1013, one stream more is refused with HTTP status 429. Clients on the server's own machine may be exempt.
    sockets_per_client: UInt53,
    /// The most seconds that a message of a websocket may take from its first byte to its last; then the websocket is
    /// closed with 1008.
    message_seconds: f64,
    /// The most connections of all clients together. One more is answered with HTTP status 503.
    connections: UInt53,
    /// The most connections of one client; 0 for as many as there are. One more is answered with HTTP status 429. Clients on
    /// the server's own machine may be exempt.
    connections_per_client: UInt53,
    /// The most seconds that the head of a request may take; then the connection is closed.
    header_seconds: f64,
    /// The most seconds until another request begins on the same connection; then it is closed.
    idle_seconds: f64,
    /// The most seconds that the body of a request may take; then HTTP status is 408.
    body_seconds: f64,
    /// The most seconds that a client may take no byte of what is sent to it; then its connection is closed.
    write_seconds: f64,
    /// The least bytes a second that a client has to send of the body of a request, and to take of what is sent to it while
    /// there is anything; 0 for any number. It is an average: over ten seconds of a body, over a minute of an answer.
    least_bytes_per_second: UInt53,
    /// About the most bytes that are held for all clients together: bodies of requests on their way in, and answers until
    /// they are read. What is large and beyond is RESOURCE_EXHAUSTED, with HTTP status 503.
    held_bytes: UInt53,
    /// The most bytes of a document.
    query_bytes: UInt53,
    /// About how many bytes of parsed documents are kept, to be executed again without being parsed. This refuses nothing.
    document_cache_bytes: UInt53,
    /// About how many bytes the documents and variables of all subscriptions of all clients may take together. What is
    /// beyond is RESOURCE_EXHAUSTED.
    subscription_bytes: UInt53,
    /// About how many bytes of queries are kept that clients may name by their hashes (automatic persisted queries); 0 for
    /// none. This refuses nothing.
    persisted_query_bytes: UInt53,
    /// The most queries and mutations, and subscriptions that begin, of all clients together that are executed at once. What is beyond is
    /// RESOURCE_EXHAUSTED, with HTTP status 503, once `waiting` more wait for their turn.
    executions: UInt53,
    /// The most that wait for their turn; and the most requests that wait for a block at once, beyond which one more is
    /// RESOURCE_EXHAUSTED, too.
    waiting: UInt53,
    /// The most seconds that a query or mutation, or one event of a subscription, may take, the wait included; then it is
    /// TIMEOUT, and nothing of its answer is told. A subscription ends with that.
    seconds: f64,
    /// The most requests that one client may make a minute, all of them at once if it likes; 0 for any number. Beyond, HTTP
    /// status is 429.
    requests_per_minute: UInt53,
    /// The most lexical tokens in a document.
    tokens: UInt53,
    /// The most brackets within each other in a document and in variables, and selections within each other with fragments
    /// expanded.
    nesting: UInt53,
    /// The most fields and fragments that a document may select, with fragments expanded.
    selections: UInt53,
    /// The most aliases in a document, with fragments expanded.
    aliases: UInt53,
    /// The most fields on the root of an operation.
    root_fields: UInt53,
    /// The most directives in a document, with fragments expanded.
    directives: UInt53,
    /// The most selections about the schema itself in a document.
    introspection: UInt53,
    /// The most values in the variables and extensions of a request: items of lists, fields of objects, and lists and
    /// objects themselves.
    values: UInt53,
    /// The most levels of fields below each other.
    depth: UInt53,
    /// The most that a query may cost: fields of its answer, every page taken as full. What the Bitcoin node is asked
    /// costs more.
    complexity: UInt53,
    /// The most rows of one page of a connection: what `first` and `last` may be.
    page_size: UInt53,
    /// The most bytes of transactions that one answer, or one event of a subscription, may read and tell.
    transaction_bytes: UInt53,
    /// The most rows that one page reads while it looks for those that a filter lets through. A page that ends there
    /// is no error: it may have fewer rows than asked for, or none, and still a next page.
    scan_rows: UInt53,
    /// The most ids, hashes or txids in one list of a request.
    ids: UInt53,
    /// The most addresses and scripts, transactions, or outputs that one subscription follows.
    watch: UInt53,
    /// The most block headers in one list.
    headers: UInt53,
    /// The most points of one series over time.
    points: UInt53,
    /// The most transactions that one field may send or have judged together. Bitcoin Core takes no more.
    package_size: UInt53,
    /// The most requests to the Bitcoin node at once, of all clients together. Others wait, within `nodeSeconds`.
    node_requests: UInt53,
    /// The most seconds that an answer of the Bitcoin node is waited for; then the field is NODE_UNAVAILABLE.
    node_seconds: f64,
    /// How many blocks must be on top of another before an answer that tells only what never changes of it, or of the chain
    /// up to it, is told to last for ever (`Cache-Control: immutable`). This refuses nothing.
    cache_depth: UInt53,
}

impl ServerLimits {
    pub(super) fn new(limits: &Limits, node: NodeLimits) -> Self {
        let request = &limits.request;
        Self {
            body_bytes: UInt53::bound(request.body_bytes),
            message_bytes: UInt53::bound(request.message_bytes),
            operations_per_socket: UInt53::bound(request.operations_per_socket),
            sockets: UInt53::bound(request.sockets),
            sockets_per_client: UInt53::bound(request.sockets_per_client),
            message_seconds: request.message_timeout.as_secs_f64(),
            connections: UInt53::bound(request.connections),
            connections_per_client: UInt53::bound(request.connections_per_client),
            header_seconds: request.header_timeout.as_secs_f64(),
            idle_seconds: request.idle_timeout.as_secs_f64(),
            body_seconds: request.body_timeout.as_secs_f64(),
            write_seconds: request.write_timeout.as_secs_f64(),
            least_bytes_per_second: request.least_rate.into(),
            held_bytes: UInt53::bound(request.held_bytes),
            query_bytes: UInt53::bound(request.query_bytes),
            document_cache_bytes: UInt53::bound(request.document_cache_bytes),
            subscription_bytes: UInt53::bound(request.subscription_bytes),
            persisted_query_bytes: UInt53::bound(request.persisted_query_bytes),
            executions: UInt53::bound(request.executions),
            waiting: UInt53::bound(request.waiting),
            seconds: request.timeout.as_secs_f64(),
            requests_per_minute: request.requests_per_minute.into(),
            tokens: UInt53::bound(request.tokens),
            nesting: UInt53::bound(request.nesting),
            selections: UInt53::bound(request.selections),
            aliases: UInt53::bound(request.aliases),
            root_fields: UInt53::bound(request.root_fields),
            directives: UInt53::bound(request.directives),
            introspection: UInt53::bound(request.introspection),
            values: UInt53::bound(request.values),
            depth: UInt53::bound(limits.depth),
            complexity: UInt53::bound(limits.complexity),
            page_size: limits.page_size.min(Limits::MAX_PAGE_SIZE).into(),
            transaction_bytes: UInt53::bound(limits.transaction_bytes),
            scan_rows: limits.scan_rows.into(),
            ids: UInt53::bound(limits.ids),
            watch: UInt53::bound(limits.watch),
            headers: limits.headers.into(),
            points: limits.points.into(),
            package_size: Limits::PACKAGE_SIZE.into(),
            node_requests: UInt53::bound(node.requests),
            node_seconds: node.timeout.as_secs_f64(),
            cache_depth: request.cache_depth.into(),
        }
    }
}
