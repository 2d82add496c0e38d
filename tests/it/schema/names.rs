//! How the schema names its fields: a client who knows a field of one type knows it in all types.

use std::collections::BTreeMap;

use async_graphql::parser::parse_schema;

use super::{committed, fields_of};

/// A field that is returned to clients.
struct Field {
    /// The type that has it.
    owner: String,
    name: String,
    /// Its type as written: `[Sats!]!`.
    written: String,
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
    let types = fields_of(&parse_schema(committed()).unwrap(), |_| true);
    let fields = types.into_iter().flat_map(|(owner, fields)| {
        fields.into_iter().map(move |(name, written)| Field { owner: owner.clone(), name, written })
    });
    let fields: Vec<_> = fields.collect();
    assert!(fields.len() > 500, "the schema was read");
    fields
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
    ("addresses", "an account has pages of them, a text that is validated the few that are asked for"),
    ("branch", "of the keys of a wallet, and of a merkle tree"),
    ("code", "each kind of error has codes of its own"),
    ("descriptor", "as `address`"),
    ("error", "each kind of input has errors of its own"),
    ("inputs", "a PSBT has more to say of each, and pages of its own"),
    ("name", "each list of named things has names of its own"),
    ("outputs", "as `inputs`"),
    ("projectedBlock", "a subscription sends changes of the block that its events have"),
    ("stats", "the figures of the object that has them"),
    ("transactions", "a ledger lists what each transaction does to it"),
    ("txids", "a mempool has too many for one answer"),
    ("value", "of an output in satoshis, and of an amount in a currency"),
    ("version", "software counts its versions in text, the protocol in numbers"),
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
