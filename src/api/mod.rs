//! The GraphQL schema: one file per type, and the rules they share.
//!
//! ```text
//!   request ──► extensions/   waits for a block, limits, one view for all root fields, codes on errors
//!                  │
//!       query/ · mutation/ · subscription/   roots; the only types that pin a view
//!                  │ Arc<View>      │ streams/   what each subscription follows, and where it resumes
//!                  ▼                ▼
//!               types/        one file a type; objects carry the view they were made from
//!                  │
//!       pagination/ · scalars/ · error.rs · costs.rs · limits.rs · engine/ (how fields are resolved)
//! ```
//!
//! A fallible field is `Option<Result<T, ApiError>>`, which nulls the field and not its parent. This module does not know
//! storage and HTTP.

// resolvers are async by the engine's convention; reads of a pinned view do not wait
#![allow(clippy::unused_async)]
// the arguments of a field are those of its resolver
#![allow(clippy::too_many_arguments)]

mod accounts;
mod allowance;
mod blocking;
mod context;
mod costs;
mod engine;
mod error;
mod extensions;
mod features;
mod limits;
mod mutation;
mod pagination;
mod query;
mod scalars;
mod streams;
mod subscription;
mod types;
mod wait_until;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_graphql::futures_util::future::BoxFuture;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::futures_util::{FutureExt, StreamExt};
use async_graphql::{Data, Executor, Request, Response, SDLExportOptions, ServerError, ValidationMode};
use bitcoin::BlockHash;
use context::ServingContext;
use extensions::cacheability::type_cacheability;
use extensions::counted_document::WorstCase;
use extensions::{counted_document, spec_fixes, wait_for_tip, yielding};

use crate::chain::Height;
use crate::limits::Limits;
use crate::live::Live;
use crate::view::{DiskShortage, Published, SyncStatus, Tip};

pub(crate) use error::shown_value;
pub use error::{ApiError, BudgetExhausted, RETRY_AFTER_SECONDS, code, hide_secrets};
pub use extensions::account::{Account, Budget, Include, StreamBudget};
pub use extensions::cacheability::{Cacheability, field_cacheability};
pub use extensions::request::RequestExtensions;
pub use extensions::wait_for_tip::CarriedTip;
pub use extensions::yielding::Events;
pub use features::Features;
pub use streams::open::{OpenSubscription, OpenSubscriptions};
pub use streams::resume_point::{LastEventId, ResumePoint};
pub use subscription::{Sharing, has_cursors, sharing, subscribed_field, subscription_fields};

pub(crate) use extensions::operation::operation;

pub use crate::view::{Freshness, ReadSet};

type GraphqlEngine = async_graphql::Schema<query::Query, mutation::Mutation, subscription::Subscription>;
type EngineBuilder = async_graphql::SchemaBuilder<query::Query, mutation::Mutation, subscription::Subscription>;

/// The schema, ready to execute requests. Cheap to clone; all clones share one engine.
///
/// A client's document must pass the server's guard first: the engine's parser recurses as deep as the document.
#[derive(Clone)]
pub struct Schema {
    engine: GraphqlEngine,
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
    let serving = Arc::new(ServingContext::start(&limits, features));
    let (open, waiting) = (serving.open.clone(), wait_for_tip::WaitForTip::new(&published, &live, &serving));
    Schema { engine: engine(published.clone(), live, &limits, serving), published, waiting, open }
}

/// The schema in the schema definition language, as in `schema.graphql`, with a description of its own. It is generated
/// once.
#[must_use]
pub fn sdl() -> &'static str {
    static SDL: LazyLock<String> = LazyLock::new(write_sdl);
    &SDL
}

/// The definitions of the types and directives in [`sdl`], which the engine's parser reads.
#[must_use]
pub fn type_definitions() -> &'static str {
    spec_fixes::without_schema(sdl())
}

fn write_sdl() -> String {
    let options = SDLExportOptions::new().include_specified_by().use_space_ident();
    spec_fixes::describe_schema(&COUNTING.sdl_with_options(options))
}

/// An engine over an empty index, which counts what requests cost and executes none.
static COUNTING: LazyLock<GraphqlEngine> = LazyLock::new(|| {
    let (published, limits, features) = (Published::default(), Limits::default(), Features::default());
    let serving = Arc::new(ServingContext::start(&limits, features));
    let types = types(published, Live::default(), &limits, serving);
    types.validation_mode(ValidationMode::Fast).extension(counted_document::Counting).finish()
});

fn count(request: Request) -> Option<WorstCase> {
    let found = Arc::<counted_document::FoundWorstCase>::default();
    // ends before it would wait for anything
    let _ = COUNTING.execute(request.data(found.clone())).now_or_never();
    found.get()
}

fn engine(published: Published, live: Live, limits: &Limits, serving: Arc<ServingContext>) -> GraphqlEngine {
    let waiting = wait_for_tip::WaitForTip::new(&published, &live, &serving);
    let types = types(published, live, limits, serving);
    let extensions = RequestExtensions::new(*limits).counting_by(count).with_waiting(waiting);
    types.extension(extensions.with_cacheability(type_cacheability)).finish()
}

fn types(published: Published, live: Live, limits: &Limits, serving: Arc<ServingContext>) -> EngineBuilder {
    let query = query::Query::new(&published, &serving);
    let mutation = mutation::Mutation::new(&published, &live, &serving.features);
    GraphqlEngine::build(query, mutation, subscription::Subscription::new(published, live.clone(), serving.clone()))
        .register_output_type::<types::ledger::Ledger>()
        .register_output_type::<pagination::list_descriptions::ListDescriptions>()
        // behind the types above, which have fields of type `Int`
        .register_output_type::<scalars::IntRange>()
        .limit_recursive_depth(limits.nesting)
        .data(*limits)
        .data(live)
        .data(serving)
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
    /// Waits for the block that the request names in `waitForTip`, and removes the name from it; and for its
    /// [`CarriedTip`]. Without this call a request waits during its execution, for the named one only.
    ///
    /// Errors: BAD_USER_INPUT, TIP_NOT_REACHED, RESOURCE_EXHAUSTED if too many requests wait already.
    pub async fn wait_for_tip(&self, request: &mut Request) -> Result<(), ServerError> {
        self.waiting.wait_for_all(request).await.map_err(ServerError::from)
    }

    /// Whether a request names a block to wait for.
    #[must_use]
    pub fn names_tip(&self, request: &Request) -> bool {
        wait_for_tip::names_tip(request)
    }

    /// Whether the newest state is not older than a block that a client carries.
    #[must_use]
    pub fn has_reached(&self, carried: CarriedTip) -> bool {
        self.waiting.has_reached(carried)
    }

    /// The responses of an operation of any kind; of a subscription, its events. Execution starts with the first poll.
    #[must_use]
    pub fn subscribe(&self, request: Request, session: Option<Arc<Data>>) -> Events {
        Events::new(|slice, progress| {
            Executor::execute_stream(&self.engine, request.data(slice).data(progress), session)
        })
    }

    /// The newest block, if an answer with this freshness is still valid.
    #[must_use]
    pub fn tip_if_current(&self, freshness: &Freshness) -> Option<Tip> {
        self.published.head().filter(|head| freshness.is_current(head)).map(|head| head.tip)
    }

    /// The open subscriptions, as reported to clients.
    #[must_use]
    pub fn open_subscriptions(&self) -> &OpenSubscriptions {
        &self.open
    }
}

impl Executor for Schema {
    /// Boxed, so that a program that calls this does not compile all resolvers once more.
    fn execute(&self, request: Request) -> impl Future<Output = Response> + Send {
        let slice = Arc::new(yielding::TimeSlice::new());
        let answer: BoxFuture<'_, Response> =
            Box::pin(async move { slice.take(self.engine.execute(request.data(slice.clone()))).await });
        answer
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        self.subscribe(request, session_data).boxed()
    }
}
