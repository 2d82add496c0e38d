//! Bounds the fields that a document selects and their types do not have. Pure, but for the schema.
//!
//! ```text
//!   schema ── parsed once ──► Types: the fields of each, and what these lead to
//!   document ── one pass ───► a field that its type does not have ──► one of few: the engine suggests another
//!                                                                └──► one of many: refused
//! ```
//!
//! For each of them the engine's validation compares its name with all fields of the type, to suggest one: 5 us for a short
//! name, more for a long one, and a document may have thousands. No reader needs more than the first few suggestions.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    BaseType, ExecutableDocument, OperationType, Selection, SelectionSet, Type, TypeKind, TypeSystemDefinition,
};
use async_graphql::{Name, Positioned};

use super::refusal::RequestRefusal;
use crate::api;

/// How many the engine may see (as many errors as graphql-js reports before it aborts).
const UNKNOWN: usize = 100;

/// A name counts once more for each so many bytes: the schema has none of twice as many.
const LONG: usize = 32;

/// The prefix of the names of introspection (GraphQL, section 4), which is bounded by itself.
const RESERVED: &str = "__";

/// The fields of a type, and the types that they lead to.
type TypeFields = HashMap<Name, Name>;

/// The types of a schema that have fields.
pub(crate) struct Types(HashMap<Name, TypeFields>);

impl Types {
    /// Those of the schema that is served.
    pub(crate) fn served() -> &'static Self {
        static SERVED: LazyLock<Types> = LazyLock::new(|| Types::of(api::type_definitions()));
        &SERVED
    }

    /// Those of this schema. A type that it does not have is not looked into: the engine says so once.
    fn of(sdl: &str) -> Self {
        let definitions = parse_schema(sdl).map_or_else(|_| Vec::new(), |document| document.definitions);
        let types = definitions.into_iter().filter_map(|definition| {
            let TypeSystemDefinition::Type(Positioned { node: definition, .. }) = definition else { return None };
            let fields = match definition.kind {
                TypeKind::Object(object) => object.fields,
                TypeKind::Interface(interface) => interface.fields,
                TypeKind::Union(_) => Vec::new(),
                TypeKind::Scalar | TypeKind::Enum(_) | TypeKind::InputObject(_) => return None,
            };
            let fields = fields.into_iter().map(|field| (field.node.name.node, named(field.node.ty.node)));
            Some((definition.name.node, fields.collect()))
        });
        Self(types.collect())
    }

    /// Refuses a document with more than [`UNKNOWN`] fields that their types do not have, or fewer with long names. Each
    /// fragment counts once, as the engine validates it.
    pub(crate) fn check(&self, document: &ExecutableDocument) -> Result<(), RequestRefusal> {
        self.count(document, UNKNOWN).map(drop)
    }

    /// What is wrong with the first field that its type does not have.
    pub(crate) fn first_unknown(&self, document: &ExecutableDocument) -> Option<String> {
        match self.count(document, 0) {
            Err(RequestRefusal::UnknownFields { field, on, .. }) => Some(format!("the type {on} has no field {field}")),
            _ => None,
        }
    }

    /// How many there are, if they are no more than this.
    fn count(&self, document: &ExecutableDocument, most: usize) -> Result<usize, RequestRefusal> {
        let mut search = Search { types: self, most, unknown: 0 };
        for (_, operation) in document.operations.iter() {
            let root = match operation.node.ty {
                OperationType::Query => "Query",
                OperationType::Mutation => "Mutation",
                OperationType::Subscription => "Subscription",
            };
            search.selection_set(&operation.node.selection_set.node, self.find(root))?;
        }
        for fragment in document.fragments.values() {
            let on = self.find(&fragment.node.type_condition.node.on.node);
            search.selection_set(&fragment.node.selection_set.node, on)?;
        }
        Ok(search.unknown)
    }

    fn find(&self, name: &str) -> Option<(&Name, &TypeFields)> {
        self.0.get_key_value(name)
    }
}

/// The type itself, of which this may be a list.
fn named(mut of: Type) -> Name {
    loop {
        match of.base {
            BaseType::Named(name) => return name,
            BaseType::List(item) => of = *item,
        }
    }
}

struct Search<'s> {
    types: &'s Types,
    most: usize,
    unknown: usize,
}

impl<'s> Search<'s> {
    /// Brackets within each other are bounded before, and so is this recursion.
    fn selection_set(
        &mut self,
        set: &SelectionSet,
        on: Option<(&'s Name, &'s TypeFields)>,
    ) -> Result<(), RequestRefusal> {
        let Some((name, fields)) = on else { return Ok(()) };
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    let selected = &field.node.name.node;
                    if let Some(leads_to) = fields.get(selected) {
                        let inner = &field.node.selection_set.node;
                        if !inner.items.is_empty() {
                            self.selection_set(inner, self.types.find(leads_to))?;
                        }
                    } else if !selected.starts_with(RESERVED) {
                        self.unknown += 1 + selected.len() / LONG;
                        if self.unknown > self.most {
                            let (field, on) = (selected.to_string(), name.to_string());
                            return Err(RequestRefusal::UnknownFields { field, on, at: selection.pos });
                        }
                    }
                }
                Selection::InlineFragment(fragment) => {
                    let condition = fragment.node.type_condition.as_ref();
                    let on = condition.map_or(on, |condition| self.types.find(&condition.node.on.node));
                    self.selection_set(&fragment.node.selection_set.node, on)?;
                }
                // looked into by itself
                Selection::FragmentSpread(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    const SDL: &str = "type Query { a: A! both: [Both!]! either: [[Either]] } type A implements Both { a: A b: Int } \
                       interface Both { b: Int } union Either = A scalar Int2 \
                       type Subscription { a: A } extend type Mutation { b: Int }";

    #[test]
    fn fields_are_looked_for_on_the_types_that_they_are_selected_of() {
        let types = Types::of(SDL);
        for (document, expected) in [
            ("{ a { b } }", 0),
            ("{ a { a { a { b c } c } } }", 2),
            ("{ c }", 1),
            ("{ c { a b c } }", 1),
            ("{ x: c y: c }", 2),
            ("{ a_name_that_is_as_long_as_no_name_of_any_schema_should_ever_be }", 2),
            ("{ both { b a ... on A { a { c } } } }", 2),
            ("{ either { b ... on A { b c } ... { b } } }", 3),
            ("{ a { ...F ...F } } fragment F on A { c ...F }", 1),
            ("{ a { b } } fragment F on A { c }", 1),
            ("{ a { b { c } } }", 0),
            ("{ ... on Unknown { c } } fragment F on Unknown { c }", 0),
            ("query A { c } query B { c } subscription C { a { c } }", 3),
            ("{ __schema { types { c } } __typename a { __typename __c } }", 0),
        ] {
            assert_eq!(types.count(&parse_query(document).unwrap(), 9), Ok(expected), "{document}");
        }
    }

    #[test]
    fn the_first_item_above_a_limit_is_named_with_its_place() {
        let document = parse_query(format!("{{\n{} a {{ c }} }}", "d ".repeat(UNKNOWN))).unwrap();
        let Err(RequestRefusal::UnknownFields { field, on, at }) = Types::of(SDL).check(&document) else {
            panic!("there are too many")
        };
        assert_eq!((field.as_str(), on.as_str(), at.line), ("c", "A", 2));
    }

    #[test]
    fn the_schema_that_is_served_has_types() {
        let block = Types::served().find("Block").unwrap();
        assert_eq!(block.1.get("previousBlock").map(Name::as_str), Some("Block"));
        for root in ["Query", "Mutation", "Subscription"] {
            assert!(Types::served().find(root).is_some());
        }
    }
}
