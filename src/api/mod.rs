//! The GraphQL schema: one file a type, and the few rules they share.
//!
//! ```text
//!   request ──► wait_for_tip.rs   not before a block, if the request says so
//!           ──► request.rs        one view for all root fields of a query, limits, codes on errors
//!                  │
//!       query/ · mutation/ · subscription/        roots; the only ones that take a view
//!                  │ Arc<View>
//!       block · transaction · input · output · ledger/ · mempool/   objects carry the view they were made from
//!                  │
//!       connection.rs ◄── page.rs ◄── cursor.rs   pages of rows
//! ```
//!
//! What can fail is `Option<Result<T, ApiError>>`, which nulls the field and not its parent. Knows nothing of storage
//! and nothing of HTTP.

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
use crate::view::{DiskShortage, Published};
pub use crate::view::{Lasting, Reads};
use running::Running;

type Engine = async_graphql::Schema<query::Query, mutation::Mutation, subscription::Subscription>;

/// The schema, ready to execute requests. Cheap to clone; all clones are one.
///
/// A document from outside must pass the server's guard first: the engine's parser recurses as deep as the document.
#[derive(Clone)]
pub struct Schema {
    engine: Engine,
    published: Published,
    waiting: wait_for_tip::WaitForTip,
    open: OpenSubscriptions,
}

/// How far the server is, for those who watch over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The height it answers for, `None` while the index is not ready.
    pub indexed_height: Option<u32>,
    /// The height of the node's newest block, `None` until the node was asked.
    pub node_height: Option<u32>,
    /// How long ago the node reported that; `None` if it never did.
    pub silence: Option<Duration>,
    /// For how long the mempool has not been known to be the node's, zero while it is; `None` if it never was.
    pub mempool_behind: Option<Duration>,
    /// The shortage of disk space for the index, while it keeps the server from following the node.
    pub disk_shortage: Option<DiskShortage>,
    /// The most that either of both may be.
    pub longest_silence: Duration,
}

impl Readiness {
    /// How many blocks the node is ahead; `None` while one of both heights is not known.
    #[must_use]
    pub fn blocks_behind(&self) -> Option<u32> {
        Some(self.node_height?.saturating_sub(self.indexed_height?))
    }

    /// Whether it answers for a state that is at most so many blocks behind the node's, as far as the node was heard.
    #[must_use]
    pub fn is_within(&self, blocks: u32) -> bool {
        let is_recent = |since: Option<Duration>| since.is_some_and(|since| since <= self.longest_silence);
        self.blocks_behind().is_some_and(|behind| behind <= blocks)
            && is_recent(self.silence)
            && is_recent(self.mempool_behind)
    }
}

/// The schema over what is published, and told by events.
#[must_use]
pub fn schema(published: Published, live: Live, limits: Limits, features: Features) -> Schema {
    let running = Arc::new(Running::start(&limits, features));
    let (open, waiting) = (running.open.clone(), wait_for_tip::WaitForTip::new(&published, &live, &running));
    Schema { engine: engine(published.clone(), live, &limits, running), published, waiting, open }
}

/// The schema in the schema definition language, as `schema.graphql` holds it. It is written once.
#[must_use]
pub fn sdl() -> &'static str {
    static WRITTEN: LazyLock<String> = LazyLock::new(write_sdl);
    &WRITTEN
}

/// The fields of subscriptions, by name.
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
    /// How far the server is.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness {
            indexed_height: self.published.head().map(|head| head.tip.height.to_u32()),
            node_height: self.published.state().node_height.map(Height::to_u32),
            silence: self.published.silence(),
            mempool_behind: self.published.mempool_behind(),
            disk_shortage: self.published.state().disk_shortage,
            longest_silence: self.published.longest_silence(),
        }
    }
}

impl Schema {
    /// Waits for the block that the request is not to be executed before, if it names one, and takes that from it. Nothing
    /// is executed meanwhile; a request that was not waited for here waits when it is.
    ///
    /// Errors: BAD_USER_INPUT, TIP_NOT_REACHED, RESOURCE_EXHAUSTED if too many wait already.
    pub async fn wait_for_tip(&self, request: &mut Request) -> Result<(), ServerError> {
        self.waiting.wait_for(request).await.map_err(ServerError::from)
    }

    /// What an operation of any kind yields; of a subscription, its events. Nothing happens before they are polled.
    #[must_use]
    pub fn subscribe(&self, request: Request, session: Option<Arc<Data>>) -> Events {
        Events::new(|turn, progress| Executor::execute_stream(&self.engine, request.data(turn).data(progress), session))
    }

    /// Whether an answer that was so lasting is still what would be answered now.
    #[must_use]
    pub fn is_current(&self, lasting: &Lasting) -> bool {
        self.published.head().is_some_and(|head| lasting.holds(&head))
    }

    /// How many subscriptions are open, as clients are told it.
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
