//! Fields of one name in one place of an answer that cannot be one value (GraphQL, section 5.3.2). The engine compares those
//! of one selection set, and answers with the first where others come by fragments, or within fields that are asked for twice.

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

/// A field that is asked for.
#[derive(Clone, Copy)]
struct AskedField<'a> {
    parent: &'a MetaType,
    /// Its type as the schema writes it.
    kind: &'a str,
    field: &'a Positioned<Field>,
}

impl AskedField<'_> {
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
    fn compare_fields(&mut self, fields: &[AskedField<'a>], never_meet: bool) -> Option<ServerError> {
        let (first, others) = fields.split_first()?;
        let in_shape =
            others.iter().find_map(|other| Some(conflict_of(first, other, &shape_difference(first, other)?)));
        if in_shape.is_some() {
            return in_shape;
        }
        let mut objects: Vec<_> = fields.iter().filter_map(AskedField::object).collect();
        objects.sort_unstable();
        objects.dedup();
        if never_meet {
            return self.compare(&self.within(fields), true);
        }
        if objects.len() < 2 {
            return self.compare_meeting(fields);
        }
        for object in objects {
            let meeting: Vec<_> =
                fields.iter().filter(|asked| asked.object().is_none_or(|of| of == object)).copied().collect();
            let found = self.compare_meeting(&meeting);
            if found.is_some() {
                return found;
            }
        }
        self.compare(&self.within(fields), true)
    }

    /// Compares fields of one name that are in one object.
    fn compare_meeting(&mut self, fields: &[AskedField<'a>]) -> Option<ServerError> {
        let (first, others) = fields.split_first()?;
        let found = others.iter().find_map(|other| Some(conflict_of(first, other, &difference(first, other)?)));
        if found.is_some() {
            return found;
        }
        self.compare(&self.within(fields), false)
    }

    /// What is selected of these fields.
    fn within(&self, fields: &[AskedField<'a>]) -> Vec<TypedSet<'a>> {
        let of = |asked: &AskedField<'a>| self.registry.types.get(MetaTypeName::concrete_typename(asked.kind));
        let sets = fields.iter().map(|asked| (of(asked), &asked.field.node.selection_set.node));
        sets.filter(|(_, set)| !set.items.is_empty()).collect()
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
                    let name = field.node.name.node.as_str();
                    let kind = match parent.and_then(|parent| parent.field_by_name(name)) {
                        Some(known) => Some(known.ty.as_str()),
                        None => (name == "__typename").then_some("String!"),
                    };
                    let Some((parent, kind)) = parent.zip(kind) else { continue };
                    let key = field.node.response_key().node.as_str();
                    by_key.entry(key).or_default().push(AskedField { parent, kind, field });
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

/// Why values of two fields do not look alike, as all of one name must.
fn shape_difference(one: &AskedField<'_>, other: &AskedField<'_>) -> Option<String> {
    let is_leaf = |asked: &AskedField<'_>| asked.field.node.selection_set.node.items.is_empty();
    let wrapping = |kind: &str| kind.replace(MetaTypeName::concrete_typename(kind), "");
    let differ = if is_leaf(one) || is_leaf(other) {
        one.kind != other.kind
    } else {
        wrapping(one.kind) != wrapping(other.kind)
    };
    // the engine and other servers name the fields where that is the cause
    let names = [one, other].map(|asked| &asked.field.node.name.node);
    let same_parent = one.object().is_none() || other.object().is_none() || one.object() == other.object();
    if differ && same_parent && names[0] != names[1] {
        return difference(one, other);
    }
    differ.then(|| format!("as {} and as {}", one.kind, other.kind))
}

/// Why two fields in one object are not one.
fn difference(one: &AskedField<'_>, other: &AskedField<'_>) -> Option<String> {
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

fn conflict_of(one: &AskedField<'_>, other: &AskedField<'_>, fault: &str) -> ServerError {
    let key = &one.field.node.response_key().node;
    let message = format!("the field {key} is asked for twice in one place, {fault}: give one of them an alias");
    let mut error = ServerError::new(message, Some(one.field.pos));
    error.locations.push(other.field.pos);
    error
}
