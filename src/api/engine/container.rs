//! The fields of an object: those without fields of their own one after another and in place, the others together, as the
//! engine does.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{self, Poll};

use async_graphql::futures_util::future::try_join_all;
use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{Field, Selection, SelectionSet};
use async_graphql::resolver_utils::{self, ContainerType};
use async_graphql::{Context, ContextSelectionSet, Positioned, ServerResult, Value};

use crate::api::extensions::field_rules::{FieldRules, ResolvedField};

type BoxedField<'a> = Pin<Box<dyn Future<Output = ServerResult<(usize, Value)>> + Send + 'a>>;

/// The value of an object with the fields that are selected of it.
///
/// Errors: those of a field that cannot be null.
pub(crate) async fn resolve_container<'a, T: ContainerType + ?Sized>(
    ctx: &ContextSelectionSet<'a>,
    object: &'a T,
) -> ServerResult<Value> {
    let type_name = &*T::type_name();
    let (rules, mut fields) = (ctx.data_opt::<FieldRules>(), Vec::with_capacity(ctx.item.node.items.len()));
    // an interface or a union leaves its fields to the object in it
    let is_object = object.introspection_type_name() == type_name;
    let is_plain = is_object && add_fields(ctx, type_name, &ctx.item.node, &mut fields);
    let (Some(rules), true) = (rules, is_plain) else { return resolver_utils::resolve_container(ctx, object).await };
    let mut values = IndexMap::with_capacity(fields.len());
    // these hold a place among the values until they are resolved
    let mut others: Vec<BoxedField<'_>> = Vec::new();
    for (index, field) in fields.into_iter().enumerate() {
        let value = if field.node.name.node == "__typename" {
            Some(Value::from(type_name))
        } else if field.node.selection_set.node.items.is_empty() {
            let at = ctx.with_field(field);
            let resolved = resolved_field(type_name, &at);
            if !rules.begin(&resolved).await? {
                Some(Value::Null)
            } else if let Poll::Ready(value) = poll_fn(|waking| Poll::Ready(poll_field(object, &at, waking))).await {
                Some(rules.end(&resolved, value)?)
            } else {
                // it waits for something: begun anew, beside others
                others.push(Box::pin(async move {
                    let at = ctx.with_field(field);
                    let value = object.resolve_field(&at).await;
                    Ok((index, rules.end(&resolved_field(type_name, &at), value)?))
                }));
                None
            }
        } else {
            others.push(Box::pin(async move {
                let at = ctx.with_field(field);
                let resolved = resolved_field(type_name, &at);
                Ok((index, rules.resolve(&resolved, object.resolve_field(&at)).await?))
            }));
            None
        };
        values.insert(field.node.response_key().node.clone(), value.unwrap_or_default());
    }
    let others = match others.len() {
        1 => vec![others.remove(0).await?],
        _ => try_join_all(others).await?,
    };
    for (index, value) in others {
        if let Some((_, place)) = values.get_index_mut(index) {
            *place = value;
        }
    }
    Ok(Value::Object(values))
}

/// Polls a field once. Its future is on the stack: in the future of its object it would make that infinite, as an object has
/// fields with objects.
fn poll_field<T: ContainerType + ?Sized>(
    object: &T,
    ctx: &Context<'_>,
    waking: &mut task::Context<'_>,
) -> Poll<ServerResult<Option<Value>>> {
    pin!(object.resolve_field(ctx)).poll(waking)
}

fn resolved_field<'a>(type_name: &'a str, ctx: &'a Context<'_>) -> ResolvedField<'a> {
    let name = &ctx.item.node.name.node;
    ResolvedField { parent_type: type_name, name, at: ctx.path_node.as_ref(), is_for_introspection: false }
}

/// Adds the fields of a selection, in their order, and returns whether that is all there is to it. A name that occurs twice, a
/// directive and an unknown fragment are left to the engine.
fn add_fields<'a>(
    ctx: &ContextSelectionSet<'a>,
    type_name: &str,
    selections: &'a SelectionSet,
    fields: &mut Vec<&'a Positioned<Field>>,
) -> bool {
    selections.items.iter().all(|selection| {
        let (condition, selected) = match &selection.node {
            Selection::Field(field) => {
                let name = &field.node.response_key().node;
                let is_new = fields.iter().all(|other| other.node.response_key().node != *name);
                fields.push(field);
                return is_new && field.node.directives.is_empty();
            }
            Selection::FragmentSpread(spread) => match ctx.query_env.fragments.get(&spread.node.fragment_name.node) {
                Some(fragment) => (Some(&fragment.node.type_condition), &fragment.node.selection_set),
                None => return false,
            },
            Selection::InlineFragment(fragment) => {
                (fragment.node.type_condition.as_ref(), &fragment.node.selection_set)
            }
        };
        let applies = condition.is_none_or(|condition| {
            let wanted = condition.node.on.node.as_str();
            let interfaces = ctx.schema_env.registry.implements.get(type_name);
            wanted == type_name || interfaces.is_some_and(|interfaces| interfaces.contains(wanted))
        });
        !applies || add_fields(ctx, type_name, &selected.node, fields)
    })
}

#[cfg(test)]
mod tests;
