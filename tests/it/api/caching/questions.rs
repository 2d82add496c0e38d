//! Questions made from the schema: one for each field that can be reached from an object, so that each is answered, and
//! kept, by itself.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_graphql::Positioned;
use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{BaseType, FieldDefinition, Type, TypeKind, TypeSystemDefinition};
use btcgraph::api::Cacheability;

/// What to ask of one field.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) document: String,
    /// The same question without the field: only whether there is an object that has it.
    pub(super) around: String,
    /// The type and the name of the field.
    pub(super) field: String,
    pub(super) mark: Cacheability,
}

/// An object to ask fields of: the fields that lead to it from the root, its type, and how many fields deep to ask.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    pub(super) path: Vec<String>,
    pub(super) type_name: &'static str,
    pub(super) levels: usize,
}

impl Seed {
    pub(super) fn new(root: impl Into<String>, type_name: &'static str, levels: usize) -> Self {
        Self { path: vec![root.into()], type_name, levels }
    }

    /// That of a field of an object.
    pub(super) fn within(root: &str, field: impl Into<String>, type_name: &'static str) -> Self {
        Self { path: vec![root.to_owned(), field.into()], type_name, levels: 2 }
    }
}

/// The fields of each type that can be asked without arguments: name, type, whether that has fields itself.
type Fields = BTreeMap<String, Vec<(String, String)>>;

fn fields() -> Fields {
    let mut types = Fields::new();
    for definition in parse_schema(btcgraph::api::type_definitions()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let TypeKind::Object(object) = definition.node.kind else { continue };
        let fields = object.fields.into_iter().filter(needs_nothing);
        let fields = fields.map(|field| (field.node.name.node.to_string(), named(&field.node.ty.node)));
        types.insert(definition.node.name.node.to_string(), fields.collect());
    }
    types
}

fn needs_nothing(field: &Positioned<FieldDefinition>) -> bool {
    field.node.arguments.iter().all(|argument| argument.node.ty.node.nullable || argument.node.default_value.is_some())
}

fn named(found: &Type) -> String {
    match &found.base {
        BaseType::Named(name) => name.to_string(),
        BaseType::List(item) => named(item),
    }
}

/// One question a field, none twice.
pub(super) fn questions(seeds: &[Seed]) -> Vec<Question> {
    let types = fields();
    let mut all = Vec::new();
    for Seed { path, type_name, levels } in seeds {
        let (before, behind) = (format!("{{ {} {{ ", path.join(" { ")), " }".repeat(path.len() + 1));
        expand(&types, &before, &behind, type_name, *levels, &mut BTreeSet::new(), &mut all);
    }
    // what no object of ours stands for
    for (field, _) in types["Query"].iter().filter(|(_, type_name)| types.contains_key(type_name)) {
        all.push(Question {
            document: format!("{{ {field} {{ {} }} }}", leaves(&types, &type_of(&types, "Query", field))),
            around: "{ block(height: 1) { __typename } }".to_owned(),
            field: format!("Query.{field}"),
            mark: Cacheability::of("Query", field),
        });
    }
    let mut known = HashSet::new();
    all.retain(|Question { document, around, field, .. }| known.insert([document, around, field].map(String::clone)));
    all
}

/// All that can be asked of a block by its hash.
pub(super) fn of_block(hash: &str) -> Vec<Question> {
    questions(&[Seed::new(format!("block(hash: \"{hash}\")"), "Block", 1)])
}

fn type_of(types: &Fields, owner: &str, field: &str) -> String {
    types[owner].iter().find(|(name, _)| name == field).unwrap().1.clone()
}

/// All fields of a type that have none themselves.
fn leaves(types: &Fields, type_name: &str) -> String {
    let leaves = types[type_name].iter().filter(|(_, of)| is_leaf(types, of)).map(|(name, _)| name.as_str());
    let leaves: Vec<_> = leaves.collect();
    // those that ask the node have no answer here
    if leaves.is_empty() { "__typename".to_owned() } else { leaves.join(" ") }
}

/// Unions and interfaces are not asked into, and count as nothing.
fn is_leaf(types: &Fields, type_name: &str) -> bool {
    !types.contains_key(type_name) && !["Node", "Ledger"].contains(&type_name)
}

fn expand(
    types: &Fields,
    before: &str,
    behind: &str,
    type_name: &str,
    levels: usize,
    seen: &mut BTreeSet<String>,
    all: &mut Vec<Question>,
) {
    let Some(fields) = types.get(type_name).filter(|_| seen.insert(type_name.to_owned())) else { return };
    for (name, of) in fields {
        let asked = match types.contains_key(of) {
            false if is_leaf(types, of) => name.clone(),
            false => continue,
            true => format!("{name} {{ {} }}", leaves(types, of)),
        };
        all.push(Question {
            document: format!("{before}{asked}{behind}"),
            around: format!("{before}__typename{behind}"),
            field: format!("{type_name}.{name}"),
            mark: Cacheability::of(type_name, name),
        });
        if levels > 1 {
            expand(types, &format!("{before}{name} {{ "), &format!(" }}{behind}"), of, levels - 1, seen, all);
        }
    }
}
