//! What a parsed document takes in memory, by the nodes it is made of. Counted is what lies on the heap with the length it
//! has; what the allocator adds is not, and names that occur twice are two.
//!
//! The length of the text cannot stand for it: a document of one-letter fields takes fifty times its text, one of long names
//! or comments less than twice.

use async_graphql::Variables;
use async_graphql::parser::Positioned;
use async_graphql::parser::types::{
    Directive, ExecutableDocument, Field, FragmentDefinition, OperationDefinition, Selection, SelectionSet,
    VariableDefinition,
};
use async_graphql_value::{ConstValue, Name, Value};

/// The counters before the text of a name.
const COUNTERS: usize = 16;

/// The bytes of a document.
pub(crate) fn of(document: &ExecutableDocument) -> usize {
    let mut bytes = size_of::<ExecutableDocument>();
    for (operation_name, operation) in document.operations.iter() {
        let operation = &operation.node;
        bytes += size_of::<OperationDefinition>() + operation_name.map_or(0, name);
        bytes += operation.variable_definitions.iter().map(|defined| variable(&defined.node)).sum::<usize>();
        bytes += directives(&operation.directives) + selections(&operation.selection_set.node);
    }
    for (fragment_name, fragment) in &document.fragments {
        let fragment = &fragment.node;
        bytes += size_of::<(Name, Positioned<FragmentDefinition>)>() + name(fragment_name);
        bytes += name(&fragment.type_condition.node.on.node);
        bytes += directives(&fragment.directives) + selections(&fragment.selection_set.node);
    }
    bytes
}

/// The bytes of the values of variables.
pub(crate) fn of_variables(variables: &Variables) -> usize {
    variables.iter().map(|(given, value)| size_of::<(Name, ConstValue)>() + name(given) + constant(value)).sum()
}

fn name(name: &Name) -> usize {
    COUNTERS + name.len()
}

fn variable(defined: &VariableDefinition) -> usize {
    let default = defined.default_value.as_ref().map_or(0, |value| constant(&value.node));
    let of_type = defined.var_type.node.to_string().len() + COUNTERS;
    size_of::<Positioned<VariableDefinition>>()
        + name(&defined.name.node)
        + of_type
        + default
        + directives(&defined.directives)
}

fn directives(directives: &[Positioned<Directive>]) -> usize {
    directives
        .iter()
        .map(|directive| {
            let directive = &directive.node;
            size_of::<Positioned<Directive>>() + name(&directive.name.node) + arguments(&directive.arguments)
        })
        .sum()
}

fn arguments(arguments: &[(Positioned<Name>, Positioned<Value>)]) -> usize {
    let argument = |(given, value): &(Positioned<Name>, Positioned<Value>)| {
        size_of::<(Positioned<Name>, Positioned<Value>)>() + name(&given.node) + literal(&value.node)
    };
    arguments.iter().map(argument).sum()
}

/// It is as deep as the guard lets brackets be.
fn selections(set: &SelectionSet) -> usize {
    set.items.iter().map(|selection| size_of::<Positioned<Selection>>() + selection_below(&selection.node)).sum()
}

fn selection_below(selection: &Selection) -> usize {
    match selection {
        Selection::Field(field) => field_below(&field.node),
        Selection::FragmentSpread(spread) => {
            name(&spread.node.fragment_name.node) + directives(&spread.node.directives)
        }
        Selection::InlineFragment(fragment) => {
            let fragment = &fragment.node;
            let condition = fragment.type_condition.as_ref().map_or(0, |condition| name(&condition.node.on.node));
            condition + directives(&fragment.directives) + selections(&fragment.selection_set.node)
        }
    }
}

fn field_below(field: &Field) -> usize {
    let alias = field.alias.as_ref().map_or(0, |alias| name(&alias.node));
    alias
        + name(&field.name.node)
        + arguments(&field.arguments)
        + directives(&field.directives)
        + selections(&field.selection_set.node)
}

/// Beside the value itself.
fn literal(value: &Value) -> usize {
    match value {
        Value::Variable(variable) | Value::Enum(variable) => name(variable),
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(|item| size_of::<Value>() + literal(item)).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(field, value)| size_of::<(usize, Name, Value)>() + name(field) + literal(value)).sum()
        }
        Value::Null | Value::Number(_) | Value::Boolean(_) => 0,
    }
}

/// Beside the value itself.
fn constant(value: &ConstValue) -> usize {
    match value {
        ConstValue::Enum(variant) => name(variant),
        ConstValue::String(text) => text.len(),
        ConstValue::Binary(bytes) => bytes.len(),
        ConstValue::List(items) => items.iter().map(|item| size_of::<ConstValue>() + constant(item)).sum(),
        ConstValue::Object(fields) => {
            let field = |(field, value): (&Name, &ConstValue)| {
                size_of::<(usize, Name, ConstValue)>() + name(field) + constant(value)
            };
            fields.iter().map(field).sum()
        }
        ConstValue::Null | ConstValue::Number(_) | ConstValue::Boolean(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use serde_json::json;

    use super::*;

    fn of_text(text: &str) -> usize {
        of(&parse_query(text).unwrap())
    }

    #[test]
    fn a_document_weighs_by_its_nodes_and_not_by_its_text() {
        let node = size_of::<Positioned<Selection>>();
        let (one, two) = (of_text("{ a }"), of_text("{ a b }"));
        assert!(one >= node && two - one >= node, "{one} {two}");
        assert_eq!(of_text(&format!("{{ a {}\n }}", "#".repeat(10_000))), one);
        // as dense as it can be, and as sparse
        let (dense, sparse) = ("{".to_owned() + &"a ".repeat(1_000) + "}", format!("{{ {} }}", "a".repeat(2_000)));
        assert!(of_text(&dense) > 50 * dense.len(), "{}", of_text(&dense));
        assert!(of_text(&sparse) < 2 * sparse.len());
    }

    #[test]
    fn whatever_is_added_to_a_document_weighs() {
        let least = of_text("{ a }");
        for more in [
            "{ b: a }",
            "{ a(b: 1) }",
            "{ a @b }",
            "{ a { b } }",
            "{ ... { a } }",
            "{ ... on T { a } }",
            "query Q { a }",
            "query($v: Int) { a }",
            "query @b { a }",
            "{ a } fragment F on T { b }",
        ] {
            assert!(of_text(more) > least, "{more}");
        }
        let argument = of_text("{ a(b: 1) }");
        for more in ["{ a(b: [1]) }", "{ a(b: {c: 1}) }", "{ a(b: \"text\") }", "{ a(b: $v) }"] {
            assert!(of_text(more) > argument, "{more}");
        }
    }

    #[test]
    fn variables_weigh_by_their_values() {
        let of = |json| of_variables(&Variables::from_json(json));
        assert_eq!(of(json!({})), 0);
        assert!(of(json!({ "a": [1, 2, 3] })) > of(json!({ "a": [1] })) + size_of::<ConstValue>());
        assert!(of(json!({ "a": "text" })) > of(json!({ "a": "" })));
        assert!(of(json!({ "a": { "b": 1 } })) > of(json!({ "a": {} })));
    }
}
