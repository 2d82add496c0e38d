//! How the schema names its fields: a client who knows a field of one type knows it in all types.

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
