//! Random documents of a schema: deep and wide selections, aliases, fragments of both kinds that are spread again and
//! again, interfaces, `@skip` and `@include`, and, where they are asked for, fields that are mentioned more than once
//! and so merge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{BaseType, Type, TypeKind, TypeSystemDefinition};
use btcgraph::sim::Rng;
use serde_json::{Value, json};

/// Levels of fields below the root, at most.
const DEPTH: u32 = 6;
/// Fields of a document, about; no new selection set is begun behind them.
const FIELDS: u32 = 60;

/// The variables that directives name.
pub(super) fn variables() -> Value {
    json!({ "yes": true, "no": false })
}

/// The parts of a schema that a document can select from.
pub(super) struct Types {
    /// By the name of an object type or an interface: its fields with the types they name.
    fields: BTreeMap<String, Vec<(String, String)>>,
    /// By the name of an object type: itself and its interfaces. By that of an interface: itself and its objects.
    conditions: BTreeMap<String, BTreeSet<String>>,
}

impl Types {
    /// The types of a schema without these fields.
    pub(super) fn of(sdl: &str, without: &[&str]) -> Self {
        let (mut fields, mut conditions) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
        for definition in parse_schema(sdl).unwrap().definitions {
            let TypeSystemDefinition::Type(definition) = definition else { continue };
            let name = definition.node.name.node.to_string();
            let (own, interfaces) = match definition.node.kind {
                TypeKind::Object(object) => (object.fields, object.implements),
                TypeKind::Interface(interface) => (interface.fields, interface.implements),
                _ => continue,
            };
            let own = own.iter().map(|field| (field.node.name.node.to_string(), named(&field.node.ty.node)));
            fields.insert(name.clone(), own.filter(|(field, _)| !without.contains(&field.as_str())).collect());
            conditions.entry(name.clone()).or_default().insert(name.clone());
            for interface in interfaces {
                conditions.entry(name.clone()).or_default().insert(interface.node.to_string());
                conditions.entry(interface.node.to_string()).or_default().insert(name.clone());
            }
        }
        Self { fields, conditions }
    }
}

fn named(ty: &Type) -> String {
    match &ty.base {
        BaseType::Named(name) => name.to_string(),
        BaseType::List(item) => named(item),
    }
}

/// A document; `merging` if its selection sets may mention a field more than once.
pub(super) fn document(types: &Types, rng: &mut Rng, merging: bool) -> String {
    let mut writer =
        Writer { types, rng, merging, fields: 0, aliases: 0, fragments: Vec::new(), variables: BTreeSet::new() };
    let mut keys = BTreeSet::new();
    let selection = writer.selection("Query", 0, &mut keys);
    let declared: Vec<_> = writer.variables.iter().map(|name| format!("${name}: Boolean!")).collect();
    let head = if declared.is_empty() { String::new() } else { format!("query Q({}) ", declared.join(", ")) };
    let mut text = format!("{head}{{ {selection}}}");
    for (number, fragment) in writer.fragments.iter().enumerate() {
        write!(text, "\nfragment F{number} on {} {{ {} }}", fragment.on, fragment.selection).unwrap();
    }
    text
}

struct Fragment {
    on: String,
    selection: String,
    /// What it adds to the selection set it is spread into.
    keys: BTreeSet<String>,
    /// Levels of fields below it.
    depth: u32,
}

struct Writer<'t> {
    types: &'t Types,
    rng: &'t mut Rng,
    merging: bool,
    fields: u32,
    aliases: u32,
    fragments: Vec<Fragment>,
    /// Those that directives name.
    variables: BTreeSet<&'static str>,
}

impl Writer<'_> {
    /// What stands between braces. `keys` are the response keys that the selection set has so far.
    fn selection(&mut self, on: &str, depth: u32, keys: &mut BTreeSet<String>) -> String {
        let mut selection = String::new();
        for _ in 0..self.rng.between(1, 6) {
            let part = match self.rng.below(10) {
                0 => self.inline_fragment(on, depth, keys),
                1 => self.spread(on, depth, keys),
                _ => self.field(on, depth, keys),
            };
            write!(selection, "{part} ").unwrap();
        }
        selection
    }

    fn field(&mut self, on: &str, depth: u32, keys: &mut BTreeSet<String>) -> String {
        self.fields += 1;
        let deepest = depth >= DEPTH || self.fields > FIELDS;
        let types = self.types;
        let choices: Vec<_> =
            types.fields[on].iter().filter(|(_, ty)| !deepest || !types.fields.contains_key(ty)).collect();
        let typename = ("__typename".to_owned(), "String".to_owned());
        let chosen = if self.rng.chance(5) { None } else { self.rng.choose(&choices).copied() };
        let (name, ty) = chosen.unwrap_or(&typename);
        // an alias is made of the field's name, so that equal keys are always equal fields
        let mut key = if self.rng.chance(30) { format!("{name}_{}", self.rng.below(3)) } else { name.clone() };
        if !self.merging && keys.contains(&key) {
            self.aliases += 1;
            key = format!("{name}_unlike_{}", self.aliases);
        }
        keys.insert(key.clone());
        let alias = if key == *name { String::new() } else { format!("{key}: ") };
        let directive = if name == "__typename" { "" } else { self.directive() };
        if !types.fields.contains_key(ty) {
            return format!("{alias}{name}{directive}");
        }
        let below = self.selection(ty, depth + 1, &mut BTreeSet::new());
        format!("{alias}{name}{directive} {{ {below}}}")
    }

    fn inline_fragment(&mut self, on: &str, depth: u32, keys: &mut BTreeSet<String>) -> String {
        let directive = self.directive();
        if self.rng.chance(25) {
            return format!("...{directive} {{ {}}}", self.selection(on, depth, keys));
        }
        let condition = self.condition(on);
        format!("... on {condition}{directive} {{ {}}}", self.selection(&condition, depth, keys))
    }

    fn spread(&mut self, on: &str, depth: u32, keys: &mut BTreeSet<String>) -> String {
        let fits = |fragment: &Fragment| {
            self.types.conditions[on].contains(&fragment.on)
                && depth + fragment.depth <= DEPTH
                && (self.merging || fragment.keys.is_disjoint(keys))
        };
        let usable: Vec<_> = (0..self.fragments.len()).filter(|number| fits(&self.fragments[*number])).collect();
        let number = self.rng.choose(&usable).copied().unwrap_or_else(|| self.fragment(on, depth, keys));
        keys.extend(self.fragments[number].keys.iter().cloned());
        format!("...F{number}{}", self.directive())
    }

    /// Writes a fragment; its number. It spreads only those that were there before it, so none spreads itself.
    fn fragment(&mut self, on: &str, depth: u32, keys: &BTreeSet<String>) -> usize {
        let on = self.condition(on);
        // beginning with the keys around it, so that it repeats none of them
        let mut all = if self.merging { BTreeSet::new() } else { keys.clone() };
        let selection = self.selection(&on, depth, &mut all);
        self.fragments.push(Fragment { on, selection, keys: &all - keys, depth: DEPTH.saturating_sub(depth) });
        self.fragments.len() - 1
    }

    fn condition(&mut self, on: &str) -> String {
        let choices: Vec<_> = self.types.conditions[on].iter().cloned().collect();
        self.rng.choose(&choices).unwrap().clone()
    }

    fn directive(&mut self) -> &'static str {
        if !self.rng.chance(10) {
            return "";
        }
        let choices = [
            (" @include(if: true)", None),
            (" @skip(if: false)", None),
            (" @skip(if: true)", None),
            (" @include(if: $yes)", Some("yes")),
            (" @skip(if: $no)", Some("no")),
        ];
        let (choice, variable) = choices[self.rng.index(choices.len())];
        self.variables.extend(variable);
        choice
    }
}
