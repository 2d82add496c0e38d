//! The list of a document that has the most rows if every page is full: what a refusal of the worst case names.

use async_graphql::parser::types::{ExecutableDocument, Field, Selection, SelectionSet};
use async_graphql::registry::{MetaField, MetaType, MetaTypeName, Registry};
use async_graphql::{Pos, Variables};
use async_graphql_value::{ConstValue, Value};

use super::operation::root_type;
use crate::api::pagination::page::{DEFAULT_PARTS, DEFAULT_SIZE};

/// A list of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongestList {
    /// Its path in the answer: `blocks.nodes.transactions`.
    pub(crate) path: String,
    pub(crate) at: Pos,
    /// How many rows it has at most, in all its places together.
    rows: usize,
    /// The levels of its path.
    levels: usize,
}

/// The list with the most rows of a valid document, of several the first of the innermost; `None` if no field is a list.
pub(crate) fn longest_list(
    document: &ExecutableDocument,
    variables: &Variables,
    registry: &Registry,
) -> Option<LongestList> {
    let mut search = ListSearch { document, variables, registry, path: Vec::new(), longest: None };
    for (_, operation) in document.operations.iter() {
        search.look_at(root_type(registry, operation.node.ty), &operation.node.selection_set.node, 1);
    }
    search.longest
}

struct ListSearch<'a> {
    document: &'a ExecutableDocument,
    variables: &'a Variables,
    registry: &'a Registry,
    path: Vec<&'a str>,
    longest: Option<LongestList>,
}

impl<'a> ListSearch<'a> {
    /// Looks at fields of a type in so many places.
    fn look_at(&mut self, parent: Option<&'a MetaType>, set: &'a SelectionSet, places: usize) {
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    let known = parent.and_then(|parent| parent.field_by_name(&field.node.name.node));
                    let Some(known) = known else { continue };
                    self.path.push(&field.node.response_key().node);
                    let own = self.rows(&field.node, known);
                    let rows = places.saturating_mul(own.unwrap_or(1));
                    let is_longest = match &self.longest {
                        None => known.ty.starts_with('[') || own.is_some(),
                        Some(longest) => own.is_some() && (longest.rows, longest.levels) < (rows, self.path.len()),
                    };
                    if is_longest {
                        let (path, levels) = (self.path.join("."), self.path.len());
                        self.longest = Some(LongestList { path, at: field.pos, rows, levels });
                    }
                    let of = self.registry.types.get(MetaTypeName::concrete_typename(&known.ty));
                    self.look_at(of, &field.node.selection_set.node, rows);
                    self.path.pop();
                }
                Selection::InlineFragment(inline) => {
                    let narrowed = inline.node.type_condition.as_ref().map(|condition| &*condition.node.on.node);
                    let of = narrowed.map_or(parent, |name| self.registry.types.get(name));
                    self.look_at(of, &inline.node.selection_set.node, places);
                }
                Selection::FragmentSpread(spread) => {
                    let Some(fragment) = self.document.fragments.get(&spread.node.fragment_name.node) else { continue };
                    let of = self.registry.types.get(&*fragment.node.type_condition.node.on.node);
                    self.look_at(of, &fragment.node.selection_set.node, places);
                }
            }
        }
    }

    /// How many rows the list of a field has at most; `None` if it is no list, or one whose length nothing in the document says.
    fn rows(&self, field: &Field, known: &MetaField) -> Option<usize> {
        if let Some(first) = known.args.get("first") {
            let given = ["first", "last"].iter().find_map(|name| match self.given(field, name)? {
                ConstValue::Number(number) => number.as_i64(),
                _ => None,
            });
            let documented = || first.default_value.as_ref().and_then(|text| text.parse().ok());
            let kind = MetaTypeName::concrete_typename(&known.ty);
            let is_parts = ["InputConnection", "OutputConnection"].iter().any(|end| kind.ends_with(end));
            let usual = if is_parts { DEFAULT_PARTS } else { DEFAULT_SIZE };
            let rows = given.or_else(documented).unwrap_or_else(|| usual.into());
            return Some(usize::try_from(rows).unwrap_or(0));
        }
        // a list by keys
        let lists = known.args.values().filter(|argument| argument.ty.starts_with('['));
        let longest = lists.filter_map(|argument| match self.given(field, &argument.name)? {
            ConstValue::List(keys) => Some(keys.len()),
            _ => None,
        });
        if known.ty.starts_with('[') { longest.max() } else { None }
    }

    fn given(&self, field: &Field, name: &str) -> Option<ConstValue> {
        let value: &Value = &field.get_argument(name)?.node;
        let value = value.clone().into_const_with(|name| self.variables.get(&name).cloned().ok_or(())).ok()?;
        Some(value).filter(|value| *value != ConstValue::Null)
    }
}
