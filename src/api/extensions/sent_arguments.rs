//! The arguments of a document, with the types that the schema gives them.

use async_graphql::parser::types::{Directive, ExecutableDocument, Selection, SelectionSet};
use async_graphql::registry::{MetaInputValue, MetaType, MetaTypeName, Registry};
use async_graphql::{Pos, Positioned};
use async_graphql_value::{Name, Value};

use super::operation::root_type;

/// An argument of a field or a directive.
#[derive(Clone, Copy)]
pub(crate) struct SentArgument<'a> {
    /// Where the field or the directive is, the name of the argument, and its value.
    pub(crate) places: [Pos; 3],
    pub(crate) name: &'a str,
    pub(crate) value: &'a Value,
    /// As the schema writes it, `None` for an argument that it does not have.
    pub(crate) type_name: Option<&'a str>,
}

/// A selection set, and the type of its fields.
type Selected<'a> = (Option<&'a MetaType>, &'a SelectionSet);

/// Passes each argument of a document to `look` until that finds something.
pub(crate) fn find_argument<'a, T>(
    document: &'a ExecutableDocument,
    registry: &'a Registry,
    mut look: impl FnMut(SentArgument<'a>) -> Option<T>,
) -> Option<T> {
    let type_of = |name: &str| registry.types.get(name);
    let mut left: Vec<Selected<'a>> = Vec::new();
    let mut directives: Vec<&'a [Positioned<Directive>]> = Vec::new();
    for (_, operation) in document.operations.iter() {
        left.push((root_type(registry, operation.node.ty), &operation.node.selection_set.node));
        directives.push(&operation.node.directives);
    }
    for fragment in document.fragments.values() {
        left.push((type_of(&fragment.node.type_condition.node.on.node), &fragment.node.selection_set.node));
        directives.push(&fragment.node.directives);
    }
    while let Some((parent, set)) = left.pop() {
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    let known = parent.and_then(|parent| parent.field_by_name(&field.node.name.node));
                    let declared = |name: &str| known.and_then(|known| known.args.get(name));
                    if let Some(found) = look_at(field.pos, &field.node.arguments, declared, &mut look) {
                        return Some(found);
                    }
                    let of = known.and_then(|known| type_of(MetaTypeName::concrete_typename(&known.ty)));
                    left.push((of, &field.node.selection_set.node));
                    directives.push(&field.node.directives);
                }
                Selection::InlineFragment(inline) => {
                    let narrowed = inline.node.type_condition.as_ref().map(|condition| &condition.node.on.node);
                    left.push((narrowed.map_or(parent, |name| type_of(name)), &inline.node.selection_set.node));
                    directives.push(&inline.node.directives);
                }
                Selection::FragmentSpread(spread) => directives.push(&spread.node.directives),
            }
        }
    }
    directives.into_iter().flatten().find_map(|directive| {
        let known = registry.directives.get(directive.node.name.node.as_str());
        let declared = |name: &str| known.and_then(|known| known.args.get(name));
        look_at(directive.pos, &directive.node.arguments, declared, &mut look)
    })
}

fn look_at<'a, T>(
    at: Pos,
    arguments: &'a [(Positioned<Name>, Positioned<Value>)],
    declared: impl Fn(&str) -> Option<&'a MetaInputValue>,
    mut look: impl FnMut(SentArgument<'a>) -> Option<T>,
) -> Option<T> {
    arguments.iter().find_map(|(name, value)| {
        look(SentArgument {
            places: [at, name.pos, value.pos],
            name: name.node.as_str(),
            value: &value.node,
            type_name: declared(name.node.as_str()).map(|declared| declared.ty.as_str()),
        })
    })
}

/// The type at a path of names and positions within an argument of this type.
pub(crate) fn type_at<'a, 's>(
    registry: &'a Registry,
    type_name: &'a str,
    mut steps: impl Iterator<Item = &'s str>,
) -> Option<&'a MetaType> {
    let named = |type_name: &str| registry.types.get(MetaTypeName::concrete_typename(type_name));
    steps.try_fold(named(type_name)?, |found, step| match found {
        // a position in a list of it
        _ if step.bytes().all(|digit| digit.is_ascii_digit()) => Some(found),
        MetaType::InputObject { input_fields, .. } => named(&input_fields.get(step)?.ty),
        _ => None,
    })
}
