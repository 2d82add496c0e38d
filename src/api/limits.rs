//! How large a valid document may be, and what else clients are told of limits.

use std::time::Duration;

use super::error::ApiError;

/// The most that a query may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Levels of fields below each other. The introspection query of common clients has 15.
    pub depth: usize,
    /// Fields of the answer, estimated: each costs 1, and what is asked of a row counts for every row of its page.
    pub complexity: usize,
    /// Rows of a page of a connection; at most [`MAX_PAGE_SIZE`](Limits::MAX_PAGE_SIZE), whatever is set here.
    pub page_size: u32,
    /// Bytes of transactions that one answer, or one event of a subscription, may read and tell. Rows are counted
    /// by `complexity`; this is for what a row can weigh.
    pub transaction_bytes: usize,
    /// Rows that one page reads while it looks for those that a filter lets through.
    pub scan_rows: u32,
    /// Ids, hashes or txids of one list that a client gives.
    pub ids: usize,
    /// Addresses and scripts, transactions, or outputs that one subscription follows.
    pub watch: usize,
    /// Block headers of one list.
    pub headers: u32,
    /// Points of one series over time.
    pub points: u32,
    /// What a request must hold before it comes here.
    pub request: RequestLimits,
}

/// What the server holds every request to before the schema sees it. Here they are only told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of the body of a POST.
    pub body_bytes: usize,
    /// Bytes of a websocket message.
    pub message_bytes: usize,
    /// Queries and subscriptions that one websocket may have open at once.
    pub operations_per_socket: usize,
    /// Websockets and streams of events at once.
    pub sockets: usize,
    /// The same of one client; 0 for as many as there are.
    pub sockets_per_client: usize,
    /// How long a message of a websocket may take from its first byte to its last.
    pub message_timeout: Duration,
    /// Connections at once.
    pub connections: usize,
    /// The same of one client; 0 for as many as there are.
    pub connections_per_client: usize,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long a connection may have nothing to do until the next request on it.
    pub idle_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long a client may take no byte of what is sent to it.
    pub write_timeout: Duration,
    /// Bytes a second that a client has to send of a body, and to take of what is sent to it; 0 for any number.
    pub least_rate: u32,
    /// Bytes that are held for all clients together: bodies of requests on their way in, and answers until they are read.
    pub held_bytes: usize,
    /// Bytes of a document.
    pub query_bytes: usize,
    /// Bytes, about, of parsed documents that are kept to be executed again. This refuses nothing.
    pub document_cache_bytes: usize,
    /// Bytes, about, of the documents and variables of all subscriptions together.
    pub subscription_bytes: usize,
    /// Bytes of queries that are kept to be named by their hashes (automatic persisted queries); 0 for none. This refuses
    /// nothing.
    pub persisted_query_bytes: usize,
    /// Queries and mutations of all clients that are executed at once.
    pub executions: usize,
    /// How many more wait for their turn before others are refused; and how many wait for a block at once.
    pub waiting: usize,
    /// How long one may take, the wait included.
    pub timeout: Duration,
    /// Requests that one client may make a minute; 0 for any number.
    pub requests_per_minute: u32,
    /// Lexical tokens in a document.
    pub tokens: usize,
    /// Brackets within each other in a document and in variables, and selections within each other with fragments
    /// expanded.
    pub nesting: usize,
    /// Fields and fragments selected, with fragments expanded, in all operations and fragments together.
    pub selections: usize,
    /// Aliases among these.
    pub aliases: usize,
    /// Fields on the root of an operation.
    pub root_fields: usize,
    /// Directives, with fragments expanded.
    pub directives: usize,
    /// Selections about the schema itself, with fragments expanded. Full introspection by common clients has 230.
    pub introspection: usize,
    /// Values in the variables and extensions of a request.
    pub values: usize,
    /// Blocks that must be on top of one before what is told of it is told to last for ever. This refuses nothing.
    pub cache_depth: u32,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            message_bytes: 64 * 1024,
            operations_per_socket: 100,
            sockets: 20_000,
            sockets_per_client: 100,
            message_timeout: Duration::from_secs(30),
            connections: 25_000,
            connections_per_client: 250,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
            least_rate: 1_024,
            held_bytes: 128 << 20,
            query_bytes: 32 * 1024,
            document_cache_bytes: 32 << 20,
            subscription_bytes: 64 << 20,
            persisted_query_bytes: 8 << 20,
            executions: 16,
            waiting: 100,
            timeout: Duration::from_secs(15),
            requests_per_minute: 0,
            tokens: 5_000,
            nesting: 64,
            selections: 5_000,
            aliases: 100,
            root_fields: 50,
            directives: 50,
            introspection: 500,
            values: 20_000,
            cache_depth: 144,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 20,
            complexity: 50_000,
            page_size: 100,
            transaction_bytes: 32 << 20,
            scan_rows: 20_000,
            ids: 10_000,
            watch: 1_000,
            headers: 2_000,
            points: 2_000,
            request: RequestLimits::default(),
        }
    }
}

impl Limits {
    /// The most that `page_size` can be.
    pub const MAX_PAGE_SIZE: u32 = 1_000;

    /// The most transactions that are handed to the node together (`MAX_PACKAGE_COUNT` of Core's `policy/packages.h`).
    pub const PACKAGE_SIZE: u32 = 25;

    /// Whether a list that a client gives may be this long. Errors: QUERY_LIMIT_EXCEEDED.
    pub(super) fn check_ids(&self, count: usize) -> Result<(), ApiError> {
        let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        if count > self.ids { Err(ApiError::limit_exceeded("ids", number(self.ids), number(count))) } else { Ok(()) }
    }

    /// Whether a subscription may follow this many things. Errors: QUERY_LIMIT_EXCEEDED.
    pub(super) fn check_watch(&self, count: usize) -> Result<(), ApiError> {
        let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        if count > self.watch {
            return Err(ApiError::limit_exceeded("watch", number(self.watch), number(count)));
        }
        Ok(())
    }

    /// Errors: QUERY_LIMIT_EXCEEDED.
    pub(super) fn check(&self, depth: usize, complexity: usize) -> Result<(), ApiError> {
        for (which, limit, actual) in [("depth", self.depth, depth), ("complexity", self.complexity, complexity)] {
            if actual > limit {
                let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
                return Err(ApiError::limit_exceeded(which, number(limit), number(actual)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_but_not_passed() {
        let limits = Limits { depth: 2, complexity: 10, ..Limits::default() };
        assert_eq!(limits.check(2, 10), Ok(()));
        assert_eq!(limits.check(3, 10), Err(ApiError::limit_exceeded("depth", 2, 3)));
        assert_eq!(limits.check(2, 11), Err(ApiError::limit_exceeded("complexity", 10, 11)));
    }
}
