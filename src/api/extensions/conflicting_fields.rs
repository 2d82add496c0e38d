//! Fields of one name in one place of an answer that cannot be one value (GraphQL, section 5.3.2). The engine compares those
//! of one selection set, and answers with the first where others come by fragments, or within fields that are asked for twice.

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{ExecutableDocument, Field, Selection, SelectionSet};
use async_graphql::registry::{MetaField, MetaType, MetaTypeName, Registry};
use async_graphql::{Positioned, ServerError};

use super::operation::root_type;

/// How many fields are compared, with fragments expanded. The guard of a server lets fewer through.
const COMPARED: usize = 100_000;

/// What a document says of the first two fields that conflict.
pub(crate) fn conflict(document: &ExecutableDocument, registry: &Registry) -> Option<ServerError> {
    let mut comparison = FieldComparison { document, registry, left: COMPARED };
    document.operations.iter().find_map(|(_, operation)| {
        comparison.compare(&[(root_type(registry, operation.node.ty), &operation.node.selection_set.node)])
    })
}

/// A selection set, and the type that its fields are of.
type TypedSet<'a> = (Option<&'a MetaType>, &'a SelectionSet);

/// A field that is asked for.
#[derive(Clone, Copy)]
struct AskedField<'a> {
    parent: &'a MetaType,
    known: &'a MetaField,
    field: &'a Positioned<Field>,
}

struct FieldComparison<'a> {
    document: &'a ExecutableDocument,
    registry: &'a Registry,
    left: usize,
}

impl<'a> FieldComparison<'a> {
    /// Compares the fields of selection sets of one place.
    fn compare(&mut self, sets: &[TypedSet<'a>]) -> Option<ServerError> {
        let mut by_key = IndexMap::new();
        for (parent, set) in sets {
            self.collect(*parent, set, &mut Vec::new(), &mut by_key);
        }
        for fields in by_key.into_values() {
            let (first, others) = fields.split_first()?;
            if let Some(found) = others.iter().find_map(|other| difference(first, other)) {
                return Some(found);
            }
            let type_of =
                |asked: &AskedField<'a>| self.registry.types.get(MetaTypeName::concrete_typename(&asked.known.ty));
            let within: Vec<_> =
                fields.iter().map(|asked| (type_of(asked), &asked.field.node.selection_set.node)).collect();
            if within.iter().any(|(_, set)| !set.items.is_empty())
                && let Some(found) = self.compare(&within)
            {
                return Some(found);
            }
        }
        None
    }

    /// The fields of a selection set by their names in the answer, those of its fragments too.
    fn collect(
        &mut self,
        parent: Option<&'a MetaType>,
        set: &'a SelectionSet,
        spread: &mut Vec<&'a str>,
        by_key: &mut IndexMap<&'a str, Vec<AskedField<'a>>>,
    ) {
        for selection in &set.items {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            match &selection.node {
                Selection::Field(field) => {
                    let known = parent.and_then(|parent| parent.field_by_name(&field.node.name.node));
                    let Some((parent, known)) = parent.zip(known) else { continue };
                    let key = field.node.response_key().node.as_str();
                    by_key.entry(key).or_default().push(AskedField { parent, known, field });
                }
                Selection::InlineFragment(inline) => {
                    let narrowed = inline.node.type_condition.as_ref().map(|condition| &*condition.node.on.node);
                    let of = narrowed.map_or(parent, |name| self.registry.types.get(name));
                    self.collect(of, &inline.node.selection_set.node, spread, by_key);
                }
                Selection::FragmentSpread(fragment) => {
                    let name = fragment.node.fragment_name.node.as_str();
                    let Some(fragment) = self.document.fragments.get(name).filter(|_| !spread.contains(&name)) else {
                        continue;
                    };
                    let of = self.registry.types.get(&*fragment.node.type_condition.node.on.node);
                    spread.push(name);
                    self.collect(of, &fragment.node.selection_set.node, spread, by_key);
                    spread.pop();
                }
            }
        }
    }
}

/// What keeps two fields of one name in the answer from being one. Those of different object types never meet in one object,
/// and need only look alike.
fn difference(one: &AskedField<'_>, other: &AskedField<'_>) -> Option<ServerError> {
    let (a, b) = (&one.field.node, &other.field.node);
    let is_object = |asked: &AskedField<'_>| matches!(asked.parent, MetaType::Object { .. });
    let never_meet = one.parent.name() != other.parent.name() && is_object(one) && is_object(other);
    let fault = if never_meet {
        let of_leaves = a.selection_set.node.items.is_empty() || b.selection_set.node.items.is_empty();
        let wrapping = |kind: &str| kind.replace(MetaTypeName::concrete_typename(kind), "");
        let differ = if of_leaves {
            one.known.ty != other.known.ty
        } else {
            wrapping(&one.known.ty) != wrapping(&other.known.ty)
        };
        differ.then(|| format!("as {} and as {}", one.known.ty, other.known.ty))
    } else if a.name.node != b.name.node {
        Some(format!("as {} and as {}", a.name.node, b.name.node))
    } else {
        let same = a.arguments.len() == b.arguments.len()
            && a.arguments
                .iter()
                .all(|(name, value)| b.get_argument(name.node.as_str()).is_some_and(|given| given.node == value.node));
        (!same).then(|| "with different arguments".to_owned())
    }?;
    let key = &one.field.node.response_key().node;
    let message = format!("the field {key} is asked for twice in one place, {fault}: give one of them an alias");
    let mut error = ServerError::new(message, Some(one.field.pos));
    error.locations.push(other.field.pos);
    Some(error)
}
