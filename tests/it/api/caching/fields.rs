//! Every field of the schema has one mark, and every mark is that of a field.

use std::collections::BTreeMap;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use btcgraph::api::{Cacheability, field_cacheability};

const LIST: &str = "src/api/extensions/cacheability/list.rs";

/// All fields of all types that have fields, by type; but those of `Subscription`, whose events no client caches.
fn fields() -> Vec<String> {
    let mut all = Vec::new();
    for definition in parse_schema(btcgraph::api::type_definitions()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let fields = match definition.node.kind {
            TypeKind::Object(object) => object.fields,
            TypeKind::Interface(interface) => interface.fields,
            _ => continue,
        };
        let name = definition.node.name.node;
        if name == "Subscription" {
            continue;
        }
        all.extend(fields.into_iter().map(|field| format!("{name}.{}", field.node.name.node)));
    }
    all.sort();
    all
}

#[test]
fn every_field_of_the_schema_has_one_mark_and_there_are_no_others() {
    let marked = field_cacheability()
        .flat_map(|(owner, _, fields)| fields.split_ascii_whitespace().map(move |field| format!("{owner}.{field}")));
    let mut marked: Vec<_> = marked.collect();
    marked.sort();
    let fields = fields();
    assert!(fields.len() > 500, "the schema was read");
    let unmarked: Vec<_> = fields.iter().filter(|field| !marked.contains(field)).collect();
    assert!(unmarked.is_empty(), "declare them beside their types, and list new types in {LIST}: {unmarked:?}");
    assert_eq!(marked, fields, "marked twice, or no field of the schema");
}

#[test]
fn what_is_known_to_move_is_not_marked_as_fixed() {
    let marks: BTreeMap<_, _> = [
        ("Block", "confirmations nextBlock siblings reorg"),
        ("Transaction", "confirmations occurrences mempoolEntry replacedBy firstSeenAt"),
        ("Output", "spendStatus spentBy spentHeight spentInMempoolBy isMature unspendableReason"),
        ("LockTime", "isFinalAtNextBlock"),
        ("Address", "stats balance utxos transactions coinbaseBlocks"),
        ("AddressSet", "stats balance utxos transactions coinbaseBlocks"),
        ("Chain", "summary supply range difficultyAdjustment epoch epochs"),
        ("Query", "tip blocks headers transactions mempool recommendedFees server sync bitcoinNode"),
    ]
    .into_iter()
    .flat_map(|(owner, fields)| fields.split(' ').map(move |field| ((owner, field), Cacheability::of(owner, field))))
    .collect();
    // the mempool as an object is nothing but its fields
    let fixed: Vec<_> =
        marks.iter().filter(|(_, mark)| **mark == Cacheability::Immutable).map(|(field, _)| *field).collect();
    assert_eq!(fixed, [("Query", "mempool")]);
}

#[test]
fn what_is_of_the_moment_is_never_kept() {
    for owner in ["ServerInfo", "SyncProgress", "BitcoinNode", "FeeEstimate", "RecommendedFees", "Mutation"] {
        for (_, mark, fields) in field_cacheability().filter(|(name, ..)| *name == owner) {
            assert_eq!(mark, Cacheability::Never, "{owner}: {fields}");
        }
    }
}
