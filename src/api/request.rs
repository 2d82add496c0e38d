//! What happens to every request around its execution: one view for all its fields, limits, and a code on every error.

use std::sync::{Arc, OnceLock};

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextParseQuery, NextPrepareRequest, NextRequest, NextResolve,
    NextSubscribe, NextValidation, ResolveInfo,
};
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{Context, Request, Response, ServerError, ServerResult, ValidationResult, Value, Variables};

use super::error::{ApiError, code, set_code};
use super::limits::Limits;
use super::mends::{fill_defaults, keep_path, missing_variable, restore_path};
use super::turn::Turn;
use crate::view::{Ask, Published, SyncState, View};

/// What all root fields of a request share, pinned by the first of them.
///
/// Only root fields of queries look here. Objects carry the view they were made from, because the context of a
/// subscription is as old as the subscription.
#[derive(Default)]
struct RequestView(OnceLock<Pinned>);

/// What a request is answered from.
#[derive(Clone)]
pub(super) struct Pinned {
    /// The state of the chain, `None` while no block is indexed.
    pub(super) view: Option<Arc<View>>,
    /// How far the index had come at that moment.
    pub(super) state: SyncState,
    /// The way to ask the node, the same as the view's.
    pub(super) ask: Ask,
}

impl Pinned {
    /// What is newest, to read and tell this many bytes of transactions.
    pub(super) fn new(published: &Published, bytes: usize) -> Self {
        let ask = published.ask();
        // in this order, or the state could be older than the Head
        let view = published.head().map(|head| Arc::new(published.view_of(head, bytes, ask.clone())));
        let state = view.as_ref().map_or_else(|| published.state(), |view| *view.sync_state());
        Self { view, state, ask }
    }

    /// The view. Errors: NOT_READY while no block is indexed.
    pub(super) fn view(&self) -> Result<Arc<View>, ApiError> {
        self.view.clone().ok_or_else(|| ApiError::not_ready(&self.state))
    }
}

/// What this request is answered from.
pub(super) fn pinned(ctx: &Context<'_>, published: &Published) -> Result<Pinned, ApiError> {
    let bytes = limits(ctx)?.transaction_bytes;
    let pin = || Pinned::new(published, bytes);
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
        Arc::new(RequestExtension { limits: self.0, missing: OnceLock::new() })
    }
}

/// One a request.
struct RequestExtension {
    limits: Limits,
    /// A variable of the request that has no value and needs one.
    missing: OnceLock<ServerError>,
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
        self.missing.get().map_or(Ok(result), |error| Err(vec![error.clone()]))
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
        let at = info.path_node;
        next.run(ctx, info).await.map_err(|error| keep_path(error, at))
    }
}

/// What the engine refuses after validation are arguments, variables and operation names.
fn with_codes(mut response: Response) -> Response {
    for error in &mut response.errors {
        restore_path(error);
        set_code(error, code::BAD_USER_INPUT);
    }
    response
}
