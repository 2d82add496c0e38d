//! What happens to every request around its execution: one view for all its fields, limits, and a code on every error.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextExecute, NextParseQuery, NextPrepareRequest, NextRequest,
    NextResolve, NextSubscribe, NextValidation, ResolveInfo,
};
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::parser::types::{ExecutableDocument, OperationDefinition, OperationType};
use async_graphql::registry::Registry;
use async_graphql::{
    CacheControl, Positioned, QueryPathSegment, Request, Response, ServerError, ServerResult, ValidationResult, Value,
    Variables,
};

use super::account::{Account, Include};
use super::cacheability::{FindCacheability, TypeCacheability};
use super::conflicting_fields::conflict;
use super::counted_document::{CountWorstCase, CountedDocument, WorstCase};
use super::field_rules::{FieldRules, ResolvedField};
use super::longest_list::LongestList;
use super::operation::operation;
use super::refused_value::SentRequest;
use super::spec_fixes::{fill_defaults, missing_variable, restore_path, schema_description};
use super::wait_for_tip::WaitForTip;
use super::yielding::TimeSlice;
use crate::api::context::RequestView;
use crate::api::error::{ApiError, COMPLEXITY, code, hide_secrets, set_code};
use crate::limits::Limits;

/// What is done around every request, as the one extension of the engine: waiting for a block, limits, a code on every error,
/// and what the engine would answer otherwise than the specification says. Each further extension would cost a boxed future
/// for each field.
pub struct RequestExtensions {
    limits: Limits,
    waiting: Option<WaitForTip>,
    count: Option<CountWorstCase>,
    cacheability: FindCacheability,
}

impl RequestExtensions {
    /// Those of a schema whose requests do not wait for blocks, and whose answers are not cacheable.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, waiting: None, count: None, cacheability: |_| TypeCacheability::default() }
    }

    /// The same, with a way to count documents that the engine counts otherwise than they are executed.
    pub(crate) fn counting_by(self, count: CountWorstCase) -> Self {
        Self { count: Some(count), ..self }
    }

    /// The same, with requests that wait as they ask to.
    pub(crate) fn with_waiting(self, waiting: WaitForTip) -> Self {
        Self { waiting: Some(waiting), ..self }
    }

    /// The same, with answers that are as cacheable as the fields in them.
    pub(crate) fn with_cacheability(self, cacheability: FindCacheability) -> Self {
        Self { cacheability, ..self }
    }
}

impl ExtensionFactory for RequestExtensions {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(RequestExtension {
            limits: self.limits,
            waiting: self.waiting.clone(),
            count: self.count,
            cacheability: self.cacheability,
            counted: OnceLock::new(),
            missing: OnceLock::new(),
            sent: OnceLock::new(),
            invalid_value: OnceLock::new(),
            conflict: OnceLock::new(),
            rules: OnceLock::new(),
            is_mutation: AtomicBool::new(false),
        })
    }
}

/// Whether the engine could not compute what a field costs, because a variable has no value.
fn lacks_variable(error: &ServerError) -> bool {
    error.message.starts_with("Variable ") && error.message.ends_with(" is not defined.")
}

/// The refusal of a worst case, with the list that has the most rows in it.
fn with_list(error: ApiError, longest: Option<LongestList>) -> ServerError {
    let Some(LongestList { path, at, .. }) = longest else { return error.into() };
    let error = error.with("field", path.as_str());
    let mut error = ServerError::from(error);
    error.message = format!("{}; {path} is the longest list: request smaller pages or fewer fields", error.message);
    error.locations.push(at);
    error
}

/// One a request.
struct RequestExtension {
    limits: Limits,
    waiting: Option<WaitForTip>,
    count: Option<CountWorstCase>,
    cacheability: FindCacheability,
    /// The document, where the engine would count another.
    counted: OnceLock<CountedDocument>,
    /// A variable of the request that has no value and needs one.
    missing: OnceLock<ServerError>,
    /// The document and the variables, to show what validation refuses.
    sent: OnceLock<SentRequest>,
    /// A value that is no object where one belongs, or none within one that needs it.
    invalid_value: OnceLock<ServerError>,
    /// Two fields that cannot be one.
    conflict: OnceLock<ServerError>,
    /// What happens around each field.
    rules: OnceLock<FieldRules>,
    /// Whether it is a mutation. What that may cost is checked before it does anything, and what it did is reported.
    is_mutation: AtomicBool,
}

impl RequestExtension {
    fn note_counted(&self, request: &mut Request, registry: &Registry) {
        let (name, variables) = (request.operation_name.take(), std::mem::take(&mut request.variables));
        let document = request.parsed_query().ok();
        let counted =
            document.and_then(|document| CountedDocument::of(document, name.as_deref(), &variables, registry));
        if let Some(counted) = counted {
            self.counted.get_or_init(|| counted);
        }
        (request.operation_name, request.variables) = (name, variables);
    }

    /// The worst case by the document that is counted in its place, or as the engine counted it.
    fn worst_case(&self, counted: &ValidationResult) -> WorstCase {
        let engines = WorstCase { complexity: counted.complexity, depth: counted.depth };
        self.counted_worst_case().unwrap_or(engines)
    }

    fn counted_worst_case(&self) -> Option<WorstCase> {
        self.counted.get().zip(self.count).and_then(|(document, count)| document.worst_case(count))
    }
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
        if !request.data.contains_key(&TypeId::of::<Arc<Account>>()) {
            // no server limits the client
            request = request.data(Arc::new(Account::new(true, Include::default(), None)));
        }
        let rules = self.rules.get_or_init(|| FieldRules::of(&request, self.cacheability)).clone();
        request = request.data(rules);
        let name = request.operation_name.clone();
        // a document that is none is refused when it is parsed again
        let document = request.parsed_query().ok();
        let is_mutation = document.and_then(|document| operation(document, name.as_deref())).is_some_and(is_mutation);
        self.is_mutation.store(is_mutation, Ordering::Relaxed);
        fill_defaults(&mut request);
        self.note_counted(&mut request, &ctx.schema_env.registry);
        if let Some(error) = missing_variable(&mut request) {
            // sent once the document is known to be valid
            self.missing.get_or_init(|| error);
        }
        if let Some(waiting) = &self.waiting {
            waiting.wait_for(&mut request).await?;
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
        let document = next.run(ctx, query, variables).await.map_err(|mut error| {
            set_code(&mut error, code::GRAPHQL_PARSE_FAILED);
            error
        })?;
        let sent = self.sent.get_or_init(|| SentRequest::new(query, variables));
        let registry = &ctx.schema_env.registry;
        if let Some(error) = sent.misplaced(&document, registry).or_else(|| sent.unset_variable(&document, registry)) {
            self.invalid_value.get_or_init(|| error);
        }
        if let Some(error) = conflict(&document, &ctx.schema_env.registry) {
            self.conflict.get_or_init(|| error);
        }
        Ok(document)
    }

    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let invalid_value = self.invalid_value.get();
        let validated = match (next.run(ctx).await, self.conflict.get()) {
            // what fields cost is computed for all operations, with the variables of one
            (Err(errors), _) if errors.iter().all(lacks_variable) => match self.missing.get() {
                Some(error) => return Err(vec![error.clone()]),
                None if self.counted_worst_case().is_some() => {
                    Ok(ValidationResult { cache_control: CacheControl::default(), complexity: 0, depth: 0 })
                }
                None => Err(errors),
            },
            (Ok(_), _) if invalid_value.is_some() => Err(Vec::new()),
            (Ok(_), Some(conflict)) => Err(vec![conflict.clone()]),
            (validated, _) => validated,
        };
        let result = validated.map_err(|mut errors| {
            if let Some(sent) = self.sent.get() {
                errors = sent.explained(errors, invalid_value, &ctx.schema_env.registry);
            }
            for error in &mut errors {
                set_code(error, code::GRAPHQL_VALIDATION_FAILED);
            }
            errors
        })?;
        let is_mutation = self.is_mutation.load(Ordering::Relaxed);
        let WorstCase { complexity, depth } = self.worst_case(&result);
        self.limits.check_depth(depth).map_err(|error| vec![error.into()])?;
        let refused = |error| {
            let counted = self.counted.get().map(CountedDocument::document);
            let longest = self.sent.get().and_then(|sent| sent.longest_list(counted, &ctx.schema_env.registry));
            vec![with_list(error, longest)]
        };
        self.limits.check_worst_case(complexity, is_mutation).map_err(refused)?;
        if let Some(account) = ctx.data_opt::<Arc<Account>>() {
            let worst_case = u64::try_from(complexity).unwrap_or(u64::MAX);
            account.reserve(worst_case, self.limits.answer_cost()).map_err(|error| match error.code() {
                // the budget never has as much
                code::QUERY_LIMIT_EXCEEDED => refused(error),
                _ => vec![error.into()],
            })?;
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
        let account = ctx.data_opt::<Arc<Account>>();
        let worst_case = account.map_or(u64::MAX, |account| account.worst_case());
        let _executing = ctx.data_opt::<Arc<TimeSlice>>().map(|slice| slice.execute(worst_case));
        let Some(account) = account else { return next.run(ctx, operation_name).await };
        // the worst case of a mutation was checked
        let is_mutation = self.is_mutation.load(Ordering::Relaxed);
        account.begin(if is_mutation { u64::MAX } else { self.limits.answer_cost() });
        let mut response = next.run(ctx, operation_name).await;
        if let Some(reason) = account.reason() {
            response = refused_as_a_whole(response, reason);
        }
        account.settle();
        let pinned = ctx.data_opt::<RequestView>().and_then(|view| view.0.get());
        account.add_included(&mut response, &self.limits, pinned);
        response
    }

    async fn resolve(
        &self,
        ctx: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        if let Some(description) = schema_description(info.parent_type, info.name) {
            return Ok(Some(description));
        }
        let Some(rules) = self.rules.get() else { return next.run(ctx, info).await };
        // the engine comes here for each item of a list, too
        let is_field = matches!(info.path_node.segment, QueryPathSegment::Name(_));
        let field = ResolvedField {
            parent: is_field.then(|| rules.of_type(info.parent_type)),
            name: info.name,
            at: Some(info.path_node),
            is_for_introspection: info.is_for_introspection,
        };
        rules.resolve(&field, next.run(ctx, info)).await.map(Some)
    }
}

fn is_mutation(operation: &Positioned<OperationDefinition>) -> bool {
    operation.node.ty == OperationType::Mutation
}

/// The response to a request whose answer costs too much: where the limit was passed, and no data, because the fields after
/// that are missing.
fn refused_as_a_whole(mut response: Response, reason: ApiError) -> Response {
    let has_passed = |error: &ServerError| {
        let which = error.extensions.as_ref().and_then(|extensions| extensions.get("which"));
        which == Some(&Value::from(COMPLEXITY))
    };
    let error = response.errors.iter().position(has_passed).map(|at| response.errors.swap_remove(at));
    response.data = Value::Null;
    // without its path if an error of a field beside it came first
    response.errors = vec![error.unwrap_or_else(|| reason.into())];
    response
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
