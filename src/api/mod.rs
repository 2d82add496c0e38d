//! The GraphQL schema: one file per type, and the rules they share.
//!
//! ```text
//!   request ──► wait_for_tip.rs   waits for a block, if the request names one
//!           ──► request.rs        one view for all root fields of a query, limits, codes on errors
//!                  │
//!       query/ · mutation/ · subscription/        roots; the only types that pin a view
//!                  │ Arc<View>
//!       block · transaction · input · output · ledger/ · mempool/   objects carry their view
//!                  │
//!       connection.rs ◄── page.rs ◄── cursor.rs   pages of rows
//! ```
//!
//! A fallible field is `Option<Result<T, ApiError>>`, which nulls the field and not its parent. This module does not know
//! storage and HTTP.

// resolvers are async by the engine's convention; reads of a pinned view do not wait
#![allow(clippy::unused_async)]
// the arguments of a field are those of its resolver
#![allow(clippy::too_many_arguments)]

mod accept_result;
mod account;
mod aside;
mod bitcoin_node;
mod block;
mod block_at;
mod block_fee_stats;
mod block_header;
mod block_stats;
mod brought;
mod chain;
mod chain_event;
mod chain_summary;
mod chain_tip;
mod connection;
mod costs;
mod cumulative_stats;
mod cursor;
mod database_info;
mod decoded_transaction;
mod difficulty_adjustment;
mod difficulty_epoch;
mod enums;
mod error;
mod features;
mod fees;
mod figures;
mod follow;
mod follow_heads;
mod follow_ledger;
mod follow_mempool;
mod follow_reorgs;
mod global_id;
mod held;
mod hit_rate;
mod input;
mod ledger;
mod ledger_event;
mod limits;
mod lock_time;
mod marks;
mod mempool;
mod mempool_event;
mod mends;
mod merkle_proof;
mod mixed;
mod mutation;
mod node;
mod occurrence;
mod op_return;
mod output;
mod output_spent;
mod page;
mod progress;
mod projections;
mod query;
mod range_stats;
mod reject_code;
mod reject_info;
mod reorg;
mod request;
mod resume;
mod running;
mod scalars;
mod script_type_count;
mod secrets;
mod server_info;
mod server_limits;
mod snapshot;
mod subscription;
mod supply;
mod sync_progress;
mod transaction;
mod transaction_filter;
mod transaction_status;
mod turn;
mod until;
mod wait_for_tip;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Data, Executor, Request, Response, SDLExportOptions, ServerError};
use bitcoin::BlockHash;

pub use account::{Account, Include, Pay, Short};
pub use error::{ApiError, RETRY_AFTER_SECONDS, code, hide_secrets};
pub use features::Features;
pub use marks::{MARKS, Mark};
pub use progress::Place;
pub use request::RequestExtensions;
pub use running::{OpenSubscription, OpenSubscriptions};
pub use subscription::{Sharing, sharing, subscribed_field};
pub use turn::Events;

use crate::chain::Height;
use crate::limits::Limits;
use crate::live::Live;
use crate::view::{DiskShortage, Published, SyncStatus, Tip};
pub use crate::view::{Freshness, ReadSet};
use running::Running;

type Engine = async_graphql::Schema<query::Query, mutation::Mutation, subscription::Subscription>;

/// The schema, ready to execute requests. Cheap to clone; all clones share one engine.
///
/// A client's document must pass the server's guard first: the engine's parser recurses as deep as the document.
#[derive(Clone)]
pub struct Schema {
    engine: Engine,
    published: Published,
    waiting: wait_for_tip::WaitForTip,
    open: OpenSubscriptions,
}

/// The progress of the server, for health checks. All of it is from one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The tip that queries are answered from, `None` while the index is not ready.
    pub indexed_tip: Option<Tip>,
    /// The height of the node's newest block, `None` before its first report.
    pub node_height: Option<u32>,
    /// The hash of the newest block that the node reported last, `None` before its first report.
    pub node_hash: Option<BlockHash>,
    /// The time since that report; `None` before the first.
    pub silence: Option<Duration>,
    /// The time for which the mempool has been out of sync, zero while it is in sync; `None` if it never was.
    pub mempool_behind: Option<Duration>,
    /// The shortage of disk space for the index, while it keeps the server from following the node.
    pub disk_shortage: Option<DiskShortage>,
    /// The upper bound of `silence` and `mempool_behind` for a ready server.
    pub longest_silence: Duration,
}

impl Readiness {
    /// The height that queries are answered from, `None` while the index is not ready.
    #[must_use]
    pub fn indexed_height(&self) -> Option<u32> {
        self.indexed_tip.map(|tip| tip.height.to_u32())
    }

    /// The number of blocks that the node is ahead. `None` while one of the heights is unknown, and while both tips have one
    /// height and different hashes: the number of blocks on the node's branch is then unknown.
    #[must_use]
    pub fn blocks_behind(&self) -> Option<u32> {
        let (indexed, node_height) = (self.indexed_tip?, self.node_height?);
        let is_other_branch =
            indexed.height.to_u32() == node_height && self.node_hash.is_some_and(|hash| hash != indexed.hash);
        (!is_other_branch).then(|| node_height.saturating_sub(indexed.height.to_u32()))
    }

    /// Whether the server is at most this many blocks behind the node, and its knowledge of the node is recent.
    #[must_use]
    pub fn is_within(&self, blocks: u32) -> bool {
        let is_recent = |since: Option<Duration>| since.is_some_and(|since| since <= self.longest_silence);
        self.blocks_behind().is_some_and(|behind| behind <= blocks)
            && is_recent(self.silence)
            && is_recent(self.mempool_behind)
    }
}

/// The schema over the published state and its events.
#[must_use]
pub fn schema(published: Published, live: Live, limits: Limits, features: Features) -> Schema {
    let running = Arc::new(Running::start(&limits, features));
    let (open, waiting) = (running.open.clone(), wait_for_tip::WaitForTip::new(&published, &live, &running));
    Schema { engine: engine(published.clone(), live, &limits, running), published, waiting, open }
}

/// The schema in the schema definition language, as in `schema.graphql`. It is generated once.
#[must_use]
pub fn sdl() -> &'static str {
    static SDL: LazyLock<String> = LazyLock::new(write_sdl);
    &SDL
}

/// The names of the subscription fields.
#[must_use]
pub fn subscription_fields() -> &'static [String] {
    static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| subscription::field_names(sdl()));
    &FIELDS
}

fn write_sdl() -> String {
    let (published, limits, features) = (Published::default(), Limits::default(), Features::default());
    let running = Arc::new(Running::start(&limits, features));
    engine(published, Live::default(), &limits, running)
        .sdl_with_options(SDLExportOptions::new().include_specified_by().use_space_ident())
}

fn engine(published: Published, live: Live, limits: &Limits, running: Arc<Running>) -> Engine {
    let query = query::Query::new(&published, &running);
    let mutation = mutation::Mutation::new(&published, &live, running.features);
    let waiting = wait_for_tip::WaitForTip::new(&published, &live, &running);
    Engine::build(query, mutation, subscription::Subscription::new(published, live, running))
        .register_output_type::<ledger::Ledger>()
        .data(*limits)
        .extension(request::RequestExtensions(*limits))
        .extension(waiting)
        .finish()
}

impl Schema {
    /// The progress of the server now.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        // in this order, or the status could be older than the Head
        let indexed_tip = self.published.head().map(|head| head.tip);
        let SyncStatus { state, reported_tip, silence, mempool_behind } = self.published.status();
        Readiness {
            indexed_tip,
            node_height: state.node_height.map(Height::to_u32),
            node_hash: reported_tip,
            silence,
            mempool_behind,
            disk_shortage: state.disk_shortage,
            longest_silence: self.published.longest_silence(),
        }
    }
}

impl Schema {
    /// Waits for the block that the request names in `waitForTip`, and removes the name from it. Without this call a request
    /// waits during its execution.
    ///
    /// Errors: BAD_USER_INPUT, TIP_NOT_REACHED, RESOURCE_EXHAUSTED if too many requests wait already.
    pub async fn wait_for_tip(&self, request: &mut Request) -> Result<(), ServerError> {
        self.waiting.wait_for(request).await.map_err(ServerError::from)
    }

    /// The responses of an operation of any kind; of a subscription, its events. Execution starts with the first poll.
    #[must_use]
    pub fn subscribe(&self, request: Request, session: Option<Arc<Data>>) -> Events {
        Events::new(|turn, progress| Executor::execute_stream(&self.engine, request.data(turn).data(progress), session))
    }

    /// Whether an answer with this freshness is still valid.
    #[must_use]
    pub fn is_current(&self, freshness: &Freshness) -> bool {
        self.published.head().is_some_and(|head| freshness.is_current(&head))
    }

    /// The open subscriptions, as reported to clients.
    #[must_use]
    pub fn open_subscriptions(&self) -> &OpenSubscriptions {
        &self.open
    }
}

impl Executor for Schema {
    async fn execute(&self, request: Request) -> Response {
        let turn = Arc::new(turn::Turn::new());
        turn.take(self.engine.execute(request.data(turn.clone()))).await
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        self.subscribe(request, session_data).boxed()
    }
}
