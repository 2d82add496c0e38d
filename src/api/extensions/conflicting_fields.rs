//! Fields of one name in one place of an answer that cannot be one value (GraphQL, section 5.3.2). The engine compares those
//! of one selection set, and answers with the first where others come by fragments, or within fields that are selected twice.

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{ExecutableDocument, Field, Selection, SelectionSet};
use async_graphql::registry::{MetaType, MetaTypeName, Registry};
use async_graphql::{Positioned, ServerError};

use super::operation::root_type;

/// How many fields are compared, with fragments expanded. The guard of a server lets fewer through.
const COMPARED: usize = 100_000;

/// What a document says of the first two fields that conflict.
pub(crate) fn conflict(document: &ExecutableDocument, registry: &Registry) -> Option<ServerError> {
    document.operations.iter().find_map(|(_, operation)| {
        let mut comparison = FieldComparison { document, registry, left: COMPARED };
        comparison.compare(&[(root_type(registry, operation.node.ty), &operation.node.selection_set.node)], false)
    })
}

/// A selection set, and the type that its fields are of.
type TypedSet<'a> = (Option<&'a MetaType>, &'a SelectionSet);

/// A field of a selection set.
#[derive(Clone, Copy)]
struct SelectedField<'a> {
    parent: &'a MetaType,
    /// Its type as the schema writes it.
    kind: &'a str,
    field: &'a Positioned<Field>,
}

impl SelectedField<'_> {
    /// The name of the object type that it belongs to; `None` for a field of an interface or a union, which may be of any.
    fn object(&self) -> Option<&str> {
        matches!(self.parent, MetaType::Object { .. }).then(|| self.parent.name())
    }
}

struct FieldComparison<'a> {
    document: &'a ExecutableDocument,
    registry: &'a Registry,
    left: usize,
}

impl<'a> FieldComparison<'a> {
    /// Compares the fields of selection sets of one place, or of places of one shape that never meet in one object.
    fn compare(&mut self, sets: &[TypedSet<'a>], never_meet: bool) -> Option<ServerError> {
        let mut by_key = IndexMap::new();
        for (parent, set) in sets {
            self.collect(*parent, set, &mut Vec::new(), &mut by_key);
        }
        by_key.into_values().find_map(|fields| self.compare_fields(&fields, never_meet))
    }

    /// Compares the fields of one name in the answer.
    fn compare_fields(&mut self, fields: &[SelectedField<'a>], never_meet: bool) -> Option<ServerError> {
        let meeting = if never_meet { Vec::new() } else { meeting(fields) };
        let found = meeting.iter().find_map(|fields| first_conflict(fields, difference));
        let found = found.or_else(|| first_conflict(fields, shape_difference));
        if found.is_some() {
            return found;
        }
        for fields in &meeting {
            let found = self.compare(&self.within(fields), false);
            if found.is_some() {
                return found;
            }
        }
        // where all meet, their shapes were compared with the rest
        if meeting.len() == 1 { None } else { self.compare(&self.within(fields), true) }
    }

    /// What is selected of these fields.
    fn within(&self, fields: &[SelectedField<'a>]) -> Vec<TypedSet<'a>> {
        let of = |selected: &SelectedField<'a>| self.registry.types.get(MetaTypeName::concrete_typename(selected.kind));
        let sets = fields.iter().map(|selected| (of(selected), &selected.field.node.selection_set.node));
        sets.filter(|(_, set)| !set.items.is_empty()).collect()
    }

    /// The fields of a selection set by their names in the answer, those of its fragments too.
    fn collect(
        &mut self,
        parent: Option<&'a MetaType>,
        set: &'a SelectionSet,
        spread: &mut Vec<&'a str>,
        by_key: &mut IndexMap<&'a str, Vec<SelectedField<'a>>>,
    ) {
        for selection in &set.items {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            match &selection.node {
                Selection::Field(field) => {
                    let name = field.node.name.node.as_str();
                    let kind = match parent.and_then(|parent| parent.field_by_name(name)) {
                        Some(known) => Some(known.ty.as_str()),
                        None => (name == "__typename").then_some("String!"),
                    };
                    let Some((parent, kind)) = parent.zip(kind) else { continue };
                    let key = field.node.response_key().node.as_str();
                    by_key.entry(key).or_default().push(SelectedField { parent, kind, field });
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

/// The fields of one name that meet in one object: those of each object type, with those of interfaces and unions, which may
/// be of any.
fn meeting<'a>(fields: &[SelectedField<'a>]) -> Vec<Vec<SelectedField<'a>>> {
    let mut objects: Vec<_> = fields.iter().filter_map(SelectedField::object).collect();
    objects.sort_unstable();
    objects.dedup();
    if objects.len() < 2 {
        return vec![fields.to_vec()];
    }
    let of =
        |object| fields.iter().filter(move |field| field.object().is_none_or(|of| of == object)).copied().collect();
    objects.into_iter().map(of).collect()
}

/// The first field that differs from the first of all.
fn first_conflict(
    fields: &[SelectedField<'_>],
    difference: impl Fn(&SelectedField<'_>, &SelectedField<'_>) -> Option<String>,
) -> Option<ServerError> {
    let (first, others) = fields.split_first()?;
    others.iter().find_map(|other| Some(conflict_of(first, other, &difference(first, other)?)))
}

/// Why the values of two fields differ in shape, which those of one name have in common even where they never meet.
fn shape_difference(one: &SelectedField<'_>, other: &SelectedField<'_>) -> Option<String> {
    let is_leaf = |field: &SelectedField<'_>| field.field.node.selection_set.node.items.is_empty();
    let wrapping = |kind: &str| kind.replace(MetaTypeName::concrete_typename(kind), "");
    let differ = if is_leaf(one) || is_leaf(other) {
        one.kind != other.kind
    } else {
        wrapping(one.kind) != wrapping(other.kind)
    };
    differ.then(|| format!("as {} and as {}", one.kind, other.kind))
}

/// Why two fields in one object are not one.
fn difference(one: &SelectedField<'_>, other: &SelectedField<'_>) -> Option<String> {
    let (a, b) = (&one.field.node, &other.field.node);
    if a.name.node != b.name.node {
        return Some(format!("as {} and as {}", a.name.node, b.name.node));
    }
    let same = a.arguments.len() == b.arguments.len()
        && a.arguments
            .iter()
            .all(|(name, value)| b.get_argument(name.node.as_str()).is_some_and(|given| given.node == value.node));
    (!same).then(|| "with different arguments".to_owned())
}

fn conflict_of(one: &SelectedField<'_>, other: &SelectedField<'_>, fault: &str) -> ServerError {
    let key = &one.field.node.response_key().node;
    let message = format!("the field {key} is asked for twice in one place, {fault}: give one of them an alias");
    let mut error = ServerError::new(message, Some(one.field.pos));
    error.locations.push(other.field.pos);
    error
}
