//! The fields of an object: scalars one after another, the others together, as the engine does.
//!
//! A scalar is begun when it is reached, and what it must wait for is awaited beside the others. So of several errors the one
//! that is found first may be another than with the engine, and after a scalar that must not be null and fails nothing else is
//! begun; the specification leaves both open.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use async_graphql::futures_util::future::try_join_all;
use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{Field, Selection, SelectionSet};
use async_graphql::resolver_utils::{self, ContainerType};
use async_graphql::{Context, ContextSelectionSet, Positioned, ServerResult, Value};
use tokio_util::sync::ReusableBoxFuture;

use crate::api::extensions::cacheability::TypeCacheability;
use crate::api::extensions::field_rules::{FieldRules, ResolvedField};

/// A field that waits, with its place among the fields of its object.
type BoxedField<'a> = Pin<Box<dyn Future<Output = ServerResult<(usize, Value)>> + Send + 'a>>;
/// A scalar that is resolved.
type Scalar<'a> = ReusableBoxFuture<'a, ServerResult<Option<Value>>>;

/// The box in which the scalars of an object take turns. Within the future of the object they would make that infinite, because an
/// object has fields with objects.
struct ScalarBox<'a>(Option<Scalar<'a>>);

impl<'a> ScalarBox<'a> {
    /// The scalar in the box. Not async: a future of its own would hold what the box is for.
    fn put(&mut self, resolving: impl Future<Output = ServerResult<Option<Value>>> + Send + 'a) -> Scalar<'a> {
        match self.0.take() {
            Some(mut ended) => {
                ended.set(resolving);
                ended
            }
            None => ReusableBoxFuture::new(resolving),
        }
    }

    /// The value of a scalar, or as an error the scalar itself if it must wait for something.
    async fn begin(&mut self, mut scalar: Scalar<'a>) -> Result<ServerResult<Option<Value>>, Scalar<'a>> {
        match poll_fn(|waking| Poll::Ready(scalar.poll(waking))).await {
            Poll::Ready(value) => {
                self.0 = Some(scalar);
                Ok(value)
            }
            Poll::Pending => Err(scalar),
        }
    }
}

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
    let parent = rules.of_type(type_name);
    let mut values = IndexMap::with_capacity(fields.len());
    // these hold a place among the values until they are resolved
    let mut others: Vec<BoxedField<'_>> = Vec::new();
    let mut scalars = ScalarBox(None);
    for (index, field) in fields.into_iter().enumerate() {
        let value = if field.node.name.node == "__typename" {
            Some(Value::from(type_name))
        } else if field.node.selection_set.node.items.is_empty() {
            let at = ctx.with_field(field);
            let resolved = resolved_field(parent, &at);
            if rules.begin(&resolved).await? {
                let scalar = scalars.put(async move { object.resolve_field(&ctx.with_field(field)).await });
                match scalars.begin(scalar).await {
                    Ok(value) => Some(rules.end(&resolved, value)?),
                    Err(waiting) => {
                        others.push(Box::pin(async move {
                            let (at, value) = (ctx.with_field(field), waiting.await);
                            Ok((index, rules.end(&resolved_field(parent, &at), value)?))
                        }));
                        None
                    }
                }
            } else {
                Some(Value::Null)
            }
        } else {
            others.push(Box::pin(async move {
                let at = ctx.with_field(field);
                let resolved = resolved_field(parent, &at);
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

fn resolved_field<'a>(parent: TypeCacheability, ctx: &'a Context<'_>) -> ResolvedField<'a> {
    let name = &ctx.item.node.name.node;
    ResolvedField { parent: Some(parent), name, at: ctx.path_node.as_ref(), is_for_introspection: false }
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
