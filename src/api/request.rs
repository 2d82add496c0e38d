//! What happens to every request around its execution: one view for all its fields, limits, and a code on every error.

use std::any::TypeId;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextExecute, NextParseQuery, NextPrepareRequest, NextRequest,
    NextResolve, NextSubscribe, NextValidation, ResolveInfo,
};
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{
    Context, QueryPathSegment, Request, Response, ServerError, ServerResult, ValidationResult, Value, Variables,
};

use super::account::Account;
use super::error::{ApiError, code, hide_secrets, set_code};
use super::marks::Mark;
use super::mends::{fill_defaults, keep_path, missing_variable, restore_path};
use super::turn::Turn;
use crate::limits::Limits;
use crate::view::{NodeClient, Published, ReadSet, SyncState, View};

/// What all root fields of a request share, pinned by the first of them.
///
/// Only root fields of queries look here. Objects carry the view they were made from, because the context of a
/// subscription is as old as the subscription.
#[derive(Default)]
struct RequestView(OnceLock<Pinned>);

/// What a request is answered from.
#[derive(Clone)]
pub(super) struct Pinned {
    /// The state of the chain, `None` while the index is not ready.
    pub(super) view: Option<Arc<View>>,
    /// How far the index had come at that moment.
    pub(super) state: SyncState,
    /// The way to ask the node, the same as the view's.
    pub(super) ask: NodeClient,
    /// For how long the node's last report of its newest block is taken to be true.
    pub(super) longest_silence: Duration,
}

impl Pinned {
    /// What is newest, to read and tell this many bytes of transactions.
    pub(super) fn new(published: &Published, bytes: usize, reads: ReadSet) -> Self {
        let ask = published.node_client();
        // in this order, or the state could be older than the Head
        let view = published.head().map(|head| Arc::new(published.view_of(head, bytes, ask.clone()).recording(reads)));
        let state = view.as_ref().map_or_else(|| published.state(), |view| *view.sync_state());
        Self { view, state, ask, longest_silence: published.longest_silence() }
    }

    /// The view. Errors: NOT_READY while the index is not ready.
    pub(super) fn view(&self) -> Result<Arc<View>, ApiError> {
        self.view.clone().ok_or_else(|| ApiError::not_ready(&self.state))
    }
}

/// What this request is answered from.
pub(super) fn pinned(ctx: &Context<'_>, published: &Published) -> Result<Pinned, ApiError> {
    let bytes = limits(ctx)?.transaction_bytes;
    let pin = || Pinned::new(published, bytes, ctx.data_opt::<ReadSet>().cloned().unwrap_or_default());
    Ok(match ctx.data_opt::<RequestView>() {
        Some(RequestView(pinned)) => pinned.get_or_init(pin).clone(),
        None => pin(),
    })
}

/// The limits of the schema.
pub(super) fn limits<'c>(ctx: &Context<'c>) -> Result<&'c Limits, ApiError> {
    ctx.data_opt::<Limits>().ok_or_else(|| ApiError::internal("the schema was built without limits"))
}

/// What is done around every request, as an extension of the engine: limits, a code on every error, and what the engine
/// would answer otherwise than the specification says.
pub struct RequestExtensions(pub Limits);

impl ExtensionFactory for RequestExtensions {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(RequestExtension { limits: self.0, missing: OnceLock::new(), reads: OnceLock::new() })
    }
}

/// One a request.
struct RequestExtension {
    limits: Limits,
    /// A variable of the request that has no value and needs one.
    missing: OnceLock<ServerError>,
    /// Where to note what the answer is made from, if somebody wants to know.
    reads: OnceLock<ReadSet>,
}

#[async_graphql::async_trait::async_trait]
impl Extension for RequestExtension {
    async fn request(&self, ctx: &ExtensionContext<'_>, next: NextRequest<'_>) -> Response {
        with_codes(next.run(ctx).await)
    }

    fn subscribe<'s>(
        &self,
        ctx: &ExtensionContext<'_>,
        stream: BoxStream<'s, Response>,
        next: NextSubscribe<'_>,
    ) -> BoxStream<'s, Response> {
        next.run(ctx, stream).map(with_codes).boxed()
    }

    async fn prepare_request(
        &self,
        ctx: &ExtensionContext<'_>,
        request: Request,
        next: NextPrepareRequest<'_>,
    ) -> ServerResult<Request> {
        let mut request = request.data(RequestView::default());
        if let Some(reads) =
            request.data.get(&TypeId::of::<ReadSet>()).and_then(|reads| reads.downcast_ref::<ReadSet>())
        {
            self.reads.get_or_init(|| reads.clone());
        }
        fill_defaults(&mut request);
        if let Some(error) = missing_variable(&mut request) {
            // told once the document is known to be valid
            self.missing.get_or_init(|| error);
        }
        next.run(ctx, request).await
    }

    async fn parse_query(
        &self,
        ctx: &ExtensionContext<'_>,
        query: &str,
        variables: &Variables,
        next: NextParseQuery<'_>,
    ) -> ServerResult<ExecutableDocument> {
        next.run(ctx, query, variables).await.map_err(|mut error| {
            set_code(&mut error, code::GRAPHQL_PARSE_FAILED);
            error
        })
    }

    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let result = next.run(ctx).await.map_err(|mut errors| {
            for error in &mut errors {
                set_code(error, code::GRAPHQL_VALIDATION_FAILED);
            }
            errors
        })?;
        self.limits.check(result.depth, result.complexity).map_err(|error| vec![error.into()])?;
        if let Some(account) = ctx.data_opt::<Arc<Account>>() {
            let cost = u64::try_from(result.complexity).unwrap_or(u64::MAX);
            account.charge(cost).map_err(|short| vec![ApiError::over_budget(short, cost).into()])?;
        }
        self.missing.get().map_or(Ok(result), |error| Err(vec![error.clone()]))
    }

    /// Once for a query or mutation, and for each event of a subscription.
    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let _executing = ctx.data_opt::<Arc<Turn>>().map(|turn| turn.execute());
        let mut response = next.run(ctx, operation_name).await;
        if let Some(account) = ctx.data_opt::<Arc<Account>>() {
            let pinned = ctx.data_opt::<RequestView>().and_then(|view| view.0.get());
            account.tell(&mut response, &self.limits, pinned);
        }
        response
    }

    async fn resolve(
        &self,
        ctx: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        if let Some(turn) = ctx.data_opt::<Arc<Turn>>() {
            turn.wait().await;
        }
        if let Some(account) = ctx.data_opt::<Arc<Account>>() {
            account.count_field();
        }
        let at = info.path_node;
        // once nothing is left to be lost, nothing need be noted
        let reads = self.reads.get().filter(|reads| !reads.is_external());
        // the engine comes here for each item of a list, too, which the field has spoken for
        let reads = reads.filter(|_| matches!(at.segment, QueryPathSegment::Name(_)));
        let noted = reads.map(|reads| (reads, Mark::of(info.parent_type, info.name)));
        let resolved = next.run(ctx, info).await.map_err(|error| keep_path(error, at));
        if let Some((reads, mark)) = noted {
            reads.depends_on(mark.basis(resolved.as_ref().ok().and_then(Option::as_ref)));
        }
        resolved
    }
}

/// What the engine refuses after validation are arguments, variables and operation names.
fn with_codes(mut response: Response) -> Response {
    for error in &mut response.errors {
        restore_path(error);
        hide_secrets(error);
        set_code(error, code::BAD_USER_INPUT);
    }
    response
}
