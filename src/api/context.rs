//! What there is one of in a process: since when it runs, its limits, and how many subscriptions are open.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_graphql::Context;
use async_graphql::futures_util::stream::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::accounts::{DerivationCache, WatchedScriptSlots};
use super::error::ApiError;
use super::features::{Feature, Features};
use super::streams::open::{CountedEvents, OpenSubscriptions};
use super::types::server::TableSizes;
use crate::limits::Limits;
use crate::rates::Rates;
use crate::view::{NodeClient, Published, ReadSet, SyncState, View};

/// A schema that is being served.
pub(crate) struct ServingContext {
    pub(crate) started_at: SystemTime,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    pub(crate) open: OpenSubscriptions,
    /// The scripts of descriptors.
    pub(crate) derivation: DerivationCache,
    /// For the scripts of descriptors that subscriptions watch.
    pub(crate) watched_scripts: WatchedScriptSlots,
    /// For those that wait until a block comes.
    pub(crate) waiting_slots: WaitingSlots,
    /// The sizes of tables of the index.
    pub(crate) table_sizes: TableSizes,
}

impl ServingContext {
    /// From now on.
    pub(crate) fn start(limits: &Limits, features: Features) -> Self {
        let waiting_slots = WaitingSlots::new(limits.waiting);
        let open = OpenSubscriptions::default();
        let derivation = DerivationCache::new(limits.derivation_cache_bytes);
        let watched_scripts = WatchedScriptSlots::new(limits.watched_derived_scripts);
        let (started_at, limits) = (SystemTime::now(), *limits);
        Self {
            started_at,
            limits,
            features,
            open,
            derivation,
            watched_scripts,
            waiting_slots,
            table_sizes: TableSizes::default(),
        }
    }

    /// How many subscriptions are open now.
    pub(crate) fn subscriptions(&self) -> u32 {
        self.open.count()
    }

    /// The events of a subscription, which counts as open until they are dropped.
    pub(crate) fn count<T>(serving: &Arc<Self>, events: impl Stream<Item = T> + Send + 'static) -> CountedEvents<T> {
        CountedEvents::new(events, &serving.open)
    }
}

/// The table of rates of this server. Errors: FEATURE_DISABLED.
pub(crate) fn rates<'c>(ctx: &Context<'c>) -> Result<&'c Rates, ApiError> {
    let serving: &Arc<ServingContext> = ctx.data().map_err(|error| ApiError::internal(&error.message))?;
    serving.features.rates.as_ref().ok_or_else(|| ApiError::feature_disabled(Feature::Rates))
}

/// Places for requests that wait until the server has a block. Each holds memory and nothing else, but there is no other
/// end to how many there may be. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct WaitingSlots {
    free: Arc<Semaphore>,
    most: usize,
}

impl WaitingSlots {
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), most }
    }

    /// A place, until it is dropped. Errors: RESOURCE_EXHAUSTED.
    pub(crate) fn take(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.free.clone().try_acquire_owned().map_err(|_| ApiError::too_many_waiting(self.most))
    }
}

/// What all root fields of a request share, pinned by the first of them.
///
/// Only root fields of queries look here. Objects carry the view they were made from, because the context of a
/// subscription is as old as the subscription.
#[derive(Default)]
pub(crate) struct RequestView(pub(crate) OnceLock<Pinned>);

/// What a request is answered from.
#[derive(Clone)]
pub(crate) struct Pinned {
    /// The state of the chain, `None` while the index is not ready.
    pub(crate) view: Option<Arc<View>>,
    /// How far the index had come at that moment.
    pub(crate) state: SyncState,
    /// The way to ask the node, the same as the view's.
    pub(crate) ask: NodeClient,
    /// For how long the node's last report of its newest block is taken to be true.
    pub(crate) longest_silence: Duration,
}

impl Pinned {
    /// What is newest, to read this many bytes of transactions.
    pub(crate) fn new(published: &Published, bytes: usize, reads: ReadSet) -> Self {
        let ask = published.node_client();
        // in this order, or the state could be older than the Head
        let view = published.head().map(|head| Arc::new(published.view_of(head, bytes, ask.clone()).recording(reads)));
        let state = view.as_ref().map_or_else(|| published.state(), |view| *view.sync_state());
        Self { view, state, ask, longest_silence: published.longest_silence() }
    }

    /// The view. Errors: NOT_READY while the index is not ready.
    pub(crate) fn view(&self) -> Result<Arc<View>, ApiError> {
        self.view.clone().ok_or_else(|| ApiError::not_ready(&self.state))
    }
}

/// What this request is answered from.
pub(crate) fn pinned(ctx: &Context<'_>, published: &Published) -> Result<Pinned, ApiError> {
    let bytes = limits(ctx)?.transaction_bytes;
    let pin = || Pinned::new(published, bytes, ctx.data_opt::<ReadSet>().cloned().unwrap_or_default());
    Ok(match ctx.data_opt::<RequestView>() {
        Some(RequestView(pinned)) => pinned.get_or_init(pin).clone(),
        None => pin(),
    })
}

/// The limits of the schema.
pub(crate) fn limits<'c>(ctx: &Context<'c>) -> Result<&'c Limits, ApiError> {
    ctx.data_opt::<Limits>().ok_or_else(|| ApiError::internal("the schema was built without limits"))
}
