//! What happens around each field: it waits for its turn, is counted, and notes what the answer depends on.

use std::any::TypeId;
use std::sync::Arc;

use async_graphql::{QueryPathNode, Request, ServerResult, Value};

use super::account::Account;
use super::cacheability::{FindCacheability, TypeCacheability};
use super::spec_fixes::{keep_path, names_at};
use super::yielding::TimeSlice;
use crate::view::ReadSet;

/// What the fields of one request have in common. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FieldRules {
    slice: Option<Arc<TimeSlice>>,
    account: Option<Arc<Account>>,
    /// Where to note what the answer is made from, if a client wants to know.
    reads: Option<ReadSet>,
    cacheability: FindCacheability,
}

/// A field that is resolved, or an item of a list.
pub(crate) struct ResolvedField<'a> {
    /// How cacheable the fields of the type are that it belongs to, `None` for an item of a list.
    pub(crate) parent: Option<TypeCacheability>,
    pub(crate) name: &'a str,
    /// Where in the answer it is.
    pub(crate) at: Option<&'a QueryPathNode<'a>>,
    /// Whether it describes the schema, which costs nothing.
    pub(crate) is_for_introspection: bool,
}

impl FieldRules {
    /// Those of a request, from its data.
    pub(crate) fn of(request: &Request, cacheability: FindCacheability) -> Self {
        Self { slice: data(request), account: data(request), reads: data(request), cacheability }
    }

    /// How cacheable the fields of a type are.
    pub(crate) fn of_type(&self, type_name: &str) -> TypeCacheability {
        (self.cacheability)(type_name)
    }

    /// The value of a field, as `value` finds it; null where that is missing, and once the answer is refused.
    ///
    /// Errors: its own, and QUERY_LIMIT_EXCEEDED if the answer costs too much.
    pub(crate) async fn resolve(
        &self,
        field: &ResolvedField<'_>,
        value: impl Future<Output = ServerResult<Option<Value>>>,
    ) -> ServerResult<Value> {
        if !self.begin(field).await? {
            return Ok(Value::Null);
        }
        self.end(field, value.await)
    }

    /// What happens before a field is resolved. Returns whether it is to be: once an answer is refused as a whole, what is left
    /// costs nothing more, and is not read.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED if the answer costs too much.
    pub(crate) async fn begin(&self, field: &ResolvedField<'_>) -> ServerResult<bool> {
        if let Some(slice) = &self.slice {
            slice.wait().await;
        }
        let Some(account) = self.account.as_ref().filter(|_| !field.is_for_introspection) else { return Ok(true) };
        if account.is_refused() {
            return Ok(false);
        }
        if field.parent.is_some() {
            account.count_field();
        }
        // an item counts as well: a client may want nothing of it but its type
        account.spend(1, || names_at(field.at)).map_err(|error| keep_path(error.into(), field.at))?;
        Ok(true)
    }

    /// What happens after.
    ///
    /// Errors: that of the value, with its path.
    pub(crate) fn end(&self, field: &ResolvedField<'_>, value: ServerResult<Option<Value>>) -> ServerResult<Value> {
        // once nothing is left to be lost, nothing need be noted
        if let Some(reads) = self.reads.as_ref().filter(|reads| !reads.is_external())
            && let Some(parent) = field.parent
        {
            let value = value.as_ref().ok().and_then(Option::as_ref);
            reads.depends_on(parent.field(field.name).dependency(value));
        }
        value.map(Option::unwrap_or_default).map_err(|error| keep_path(error, field.at))
    }
}

fn data<D: Clone + Send + Sync + 'static>(request: &Request) -> Option<D> {
    request.data.get(&TypeId::of::<D>())?.downcast_ref().cloned()
}
