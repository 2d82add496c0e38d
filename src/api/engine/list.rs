//! A list whose items are resolved without a look at the registry, and scalars in place.

use std::borrow::Cow;

use async_graphql::futures_util::future::try_join_all;
use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};

use crate::api::extensions::field_rules::{FieldRules, ResolvedField};

/// The items of a list, to the schema the same as a [`Vec`]. The engine writes the names of the types of each item anew.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

impl<T: OutputType> OutputType for List<T> {
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Field>) -> ServerResult<Value> {
        let Some(rules) = ctx.data_opt::<FieldRules>() else { return self.0.resolve(ctx, field).await };
        let items = self.0.iter().enumerate();
        if field.node.selection_set.node.items.is_empty() {
            let mut values = Vec::with_capacity(self.0.len());
            for (index, item) in items {
                values.push(resolve_item(ctx, field, rules, index, item).await?);
            }
            return Ok(Value::List(values));
        }
        // objects wait together for what they read
        let items = items.map(|(index, item)| resolve_item(ctx, field, rules, index, item));
        Ok(Value::List(try_join_all(items).await?))
    }
}

async fn resolve_item<T: OutputType>(
    ctx: &ContextSelectionSet<'_>,
    field: &Positioned<Field>,
    rules: &FieldRules,
    index: usize,
    item: &T,
) -> ServerResult<Value> {
    let ctx = ctx.with_index(index);
    let name = field.node.name.node.as_str();
    let resolved = ResolvedField { parent: None, name, at: ctx.path_node.as_ref(), is_for_introspection: false };
    let value = async { item.resolve(&ctx, field).await.map(Some).map_err(|error| ctx.set_error_path(error)) };
    rules.resolve(&resolved, value).await
}
