//! What happens to every request around its execution: one view for all its fields, limits, and a code on every error.

use std::any::TypeId;
use std::sync::{Arc, OnceLock};

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextExecute, NextParseQuery, NextPrepareRequest, NextRequest,
    NextResolve, NextSubscribe, NextValidation, ResolveInfo,
};
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{
    QueryPathSegment, Request, Response, ServerError, ServerResult, ValidationResult, Value, Variables,
};

use super::account::Account;
use super::cacheability::Cacheability;
use super::spec_fixes::{fill_defaults, keep_path, missing_variable, restore_path};
use super::yielding::TimeSlice;
use crate::api::context::RequestView;
use crate::api::error::{ApiError, code, hide_secrets, set_code};
use crate::limits::Limits;
use crate::view::ReadSet;

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
    /// Where to note what the answer is made from, if a client wants to know.
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
            // sent once the document is known to be valid
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
        let _executing = ctx.data_opt::<Arc<TimeSlice>>().map(|slice| slice.execute());
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
        if let Some(slice) = ctx.data_opt::<Arc<TimeSlice>>() {
            slice.wait().await;
        }
        if let Some(account) = ctx.data_opt::<Arc<Account>>() {
            account.count_field();
        }
        let at = info.path_node;
        // once nothing is left to be lost, nothing need be noted
        let reads = self.reads.get().filter(|reads| !reads.is_external());
        // the engine comes here for each item of a list, too, which the field has spoken for
        let reads = reads.filter(|_| matches!(at.segment, QueryPathSegment::Name(_)));
        let noted = reads.map(|reads| (reads, Cacheability::of(info.parent_type, info.name)));
        let resolved = next.run(ctx, info).await.map_err(|error| keep_path(error, at));
        if let Some((reads, cacheability)) = noted {
            reads.depends_on(cacheability.dependency(resolved.as_ref().ok().and_then(Option::as_ref)));
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
