//! How the schema names its fields: a client who knows a field of one type knows it in all types.

use std::collections::{BTreeMap, BTreeSet};

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};

use btcgraph::api::type_definitions;

/// A field that is returned to clients.
struct Field {
    /// The type that has it.
    owner: String,
    name: String,
    /// Its type as written: `[Sats!]!`.
    written: String,
    description: String,
}

impl Field {
    /// The name of its type, without `[`, `]` and `!`.
    fn base(&self) -> &str {
        self.written.trim_matches(['[', ']', '!'])
    }

    fn place(&self) -> String {
        format!("{}.{}", self.owner, self.name)
    }

    /// Whether it belongs to a type of sums over blocks, or over the lifetime of a ledger.
    fn is_total(&self) -> bool {
        self.owner.ends_with("Totals")
    }
}

/// All fields of all object types.
fn fields() -> Vec<Field> {
    let mut fields = Vec::new();
    for definition in parse_schema(type_definitions()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let TypeKind::Object(object) = definition.node.kind else { continue };
        for field in object.fields {
            let field = field.node;
            fields.push(Field {
                owner: definition.node.name.node.to_string(),
                name: field.name.node.to_string(),
                written: field.ty.to_string(),
                description: field.description.unwrap().node,
            });
        }
    }
    assert!(fields.len() > 500, "the schema was read");
    fields
}

/// Compares the names of the fields that break a rule with those that may, each with a reason.
#[track_caller]
fn assert_only(exceptions: &[(&str, &str)], broken: impl Iterator<Item = String>) {
    let broken: BTreeSet<_> = broken.collect();
    let listed: BTreeSet<_> = exceptions.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(broken, listed, "a field breaks the rule and has no reason here, or the other way round");
}

#[test]
fn booleans_are_is_or_a_participle() {
    let rule = |name: &str| {
        name.strip_prefix("is").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
            || name.ends_with("ed")
    };
    let broken = fields().into_iter().filter(|field| field.base() == "Boolean" && !rule(&field.name));
    assert_only(
        &[
            ("hasNextPage", "Relay names it"),
            ("hasPreviousPage", "Relay names it"),
            ("sentToSelf", "a participle, and its object"),
        ],
        broken.map(|field| field.name),
    );
}

#[test]
fn times_end_in_at() {
    let broken = fields().into_iter().filter(|field| field.base() == "DateTime" && !field.name.ends_with("At"));
    assert_only(
        &[
            ("medianTime", "the median time past, as the node and BIP113 name it"),
            ("time", "the field of a block header, and of a lock time, has this name"),
        ],
        broken.map(|field| field.name),
    );
}

#[test]
fn numbers_of_things_end_in_count() {
    let numbers = ["Int", "UInt53", "Int53", "Float"];
    let is_number = |field: &Field| numbers.contains(&field.base()) && !field.owner.ends_with("Limits");
    let broken = fields().into_iter().filter(|field| {
        let counts =
            field.description.starts_with("The number of") || field.description.starts_with("The total number");
        is_number(field) && counts && !field.name.ends_with("Count")
    });
    assert_only(
        &[
            ("branch", "a position, not a count"),
            ("branchLength", "a length, in blocks"),
            ("confirmations", "the term of the field"),
            ("depth", "the term of the field"),
            ("gapLimit", "the term of the field (BIP44)"),
            ("height", "the term of the field"),
            ("index", "a position, not a count"),
            ("seq", "a position, not a count"),
            ("silenceSeconds", "a duration"),
            ("targetBlocks", "as the node's `conf_target`, with its unit"),
        ],
        broken.map(|field| field.name),
    );
    let others = fields().into_iter().filter(|field| field.name.ends_with("Count") && !is_number(field));
    assert_only(&[], others.map(|field| field.place()));
}

#[test]
fn sums_within_one_object_begin_with_total() {
    let broken = fields().into_iter().filter(|field| {
        let is_sum = field.description.starts_with("The total") && ["Int", "UInt53", "Sats"].contains(&field.base());
        is_sum && !field.is_total() && !field.name.starts_with("total") && !field.name.ends_with("Count")
    });
    assert_only(
        &[
            ("BlockStats.opReturnBytes", "the size of the scripts, named by its unit"),
            ("BlockTemplate.weight", "the weight of a block, as Block.weight"),
            ("FeeBin.cumulativeVsize", "a running sum, unlike totalVsize beside it"),
            ("ProjectedBlock.vsize", "the size of a block, as that of a transaction"),
            ("ProjectedBlock.weight", "the weight of a block, as Block.weight"),
        ],
        broken.map(|field| field.place()),
    );
}

#[test]
fn blocks_end_in_block() {
    let broken = fields()
        .into_iter()
        .filter(|field| field.base() == "Block" && field.name != "block" && !field.name.ends_with("Block"));
    assert_only(
        &[
            ("blockAtTime", "and by what it is found"),
            ("blocksByHash", "several, and by what they are found"),
            ("node", "Relay names it"),
            ("nodes", "Relay names it"),
            ("siblings", "several"),
            ("tip", "the term of the field"),
        ],
        broken.map(|field| field.name),
    );
}

#[test]
fn every_list_has_a_description_of_its_own() {
    let mut described: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for definition in parse_schema(type_definitions()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let name = definition.node.name.node.to_string();
        if name.ends_with("Connection") || name.ends_with("Edge") {
            described.entry(definition.node.description.unwrap().node).or_default().push(name);
        }
    }
    assert!(described.len() > 30, "{described:?}");
    described.retain(|_, names| names.len() > 1);
    assert!(described.is_empty(), "src/api/pagination/list_descriptions.rs lacks {described:?}");
}

#[test]
fn sums_over_blocks_are_big_and_other_amounts_are_not() {
    for field in fields() {
        // a mean of amounts is an amount
        let is_amount = field.base() == "Sats" && !field.name.starts_with("average");
        assert!(!(field.is_total() && is_amount), "{} is a sum over blocks: BigInt", field.place());
        let is_big = field.base() == "BigInt";
        assert!(field.is_total() || !is_big, "{} is an amount of one object: Sats", field.place());
    }
}

/// Names of fields that have several types, and why. Not listed are `node`, `nodes` and `edges`, as Relay has them.
const SEVERAL_TYPES: &[(&str, &str)] = &[
    ("address", "a root field returns the object that all others name by its text"),
    ("code", "each kind of error has codes of its own"),
    ("descriptor", "as `address`"),
    ("error", "each kind of input has errors of its own"),
    ("features", "of the server by its settings, of a transaction by its structure"),
    ("inputs", "a PSBT has more to say of each, and pages of its own"),
    ("name", "each list of named things has names of its own"),
    ("outputs", "as `inputs`"),
    ("projectedBlock", "a subscription sends changes of the block that its events have"),
    ("series", "the points of the object that has them"),
    ("stats", "the figures of the object that has them"),
    ("summary", "the figures of the object that has it, for a picture of it"),
    ("transactions", "a ledger lists what each transaction does to it"),
    ("txids", "a mempool has too many for one answer"),
    ("value", "of an output in satoshis, and of an amount in a currency"),
];

/// A type, and the wider type that sums over blocks have.
const SUM_TYPES: &[(&str, &str)] = &[("Int", "UInt53"), ("Int", "Int53"), ("Sats", "BigInt")];

#[test]
fn fields_of_one_name_have_one_type() {
    // the fields of the types of `Server.limits` have the names of settings
    let fields = fields().into_iter().filter(|field| !field.owner.ends_with("Limits"));
    let fields = fields.filter(|field| !["node", "nodes", "edges"].contains(&&*field.name));
    let mut types: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for field in fields {
        let named =
            if field.written.starts_with('[') { format!("[{}]", field.base()) } else { field.base().to_owned() };
        let sum = SUM_TYPES.iter().find(|(_, wide)| field.is_total() && named == *wide);
        // as the fields of one object, where there are such; else the sums must agree with each other
        let named = sum.map_or(named.clone(), |(narrow, _)| (*narrow).to_owned());
        types.entry(field.name.clone()).or_default().entry(named).or_default().push(field.place());
    }
    types.retain(|_, types| types.len() > 1);
    let found: Vec<_> = types.keys().map(String::as_str).collect();
    let listed: Vec<_> = SEVERAL_TYPES.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, listed, "a name with several types and no reason here, or the other way round: {types:#?}");
}
