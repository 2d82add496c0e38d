//! Which subscriptions can be executed once for all clients that ask for the same.

use async_graphql::Request;
use async_graphql::parser::types::{Field, OperationType, Selection};

use super::field_sharing::{FieldSharing, Sharing};
use super::{blocks, followed, ledgers, sampled, unconfirmed};
use crate::api::extensions::operation::operation;
use crate::api::extensions::wait_for_tip;

fn declared() -> impl Iterator<Item = &'static FieldSharing> {
    let groups: [&[FieldSharing]; 5] =
        [&blocks::SHARING, &ledgers::SHARING, &followed::SHARING, &unconfirmed::SHARING, &sampled::SHARING];
    groups.into_iter().flatten()
}

fn declared_of(field: &Field) -> Option<&'static FieldSharing> {
    declared().find(|declared| declared.field == field.name.node)
}

/// How this request can share its execution with others of the same document, operation name and variables; `None` if
/// it must have one of its own. Of its extensions none says more about it.
pub fn sharing(request: &mut Request) -> Option<Sharing> {
    // what it waits for may be there for one and, after a reorganisation, not for the next
    if wait_for_tip::is_asked_by(request) {
        return None;
    }
    let variables = request.variables.clone();
    let field = root_field(request)?;
    let declared = declared_of(field)?;
    declared.sharing.filter(|_| (declared.condition)(field, &variables))
}

/// The name of the field that a subscription is to, as its document has it; `None` of what is no subscription.
pub fn subscribed_field(request: &mut Request) -> Option<String> {
    root_field(request).map(|field| field.name.node.to_string())
}

/// Whether a request is a subscription whose events have cursors.
pub fn has_cursors(request: &mut Request) -> bool {
    root_field(request).and_then(declared_of).is_some_and(|declared| declared.has_cursors)
}

/// The names of the fields of `Subscription`.
pub fn subscription_fields() -> impl Iterator<Item = &'static str> {
    declared().map(|declared| declared.field)
}

/// The field of a subscription, if it is one and has one.
fn root_field(request: &mut Request) -> Option<&Field> {
    let name = request.operation_name.clone();
    let document = request.parsed_query().ok()?;
    let operation = operation(document, name.as_deref())?;
    if operation.node.ty != OperationType::Subscription {
        return None;
    }
    match operation.node.selection_set.node.items.as_slice() {
        [selection] => match &selection.node {
            Selection::Field(field) => Some(&field.node),
            Selection::FragmentSpread(_) | Selection::InlineFragment(_) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::Value;
    use async_graphql::parser::parse_schema;
    use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};

    use super::*;

    fn of(document: &str, operation: Option<&str>) -> Option<Sharing> {
        let mut request = Request::new(document);
        request.operation_name = operation.map(str::to_owned);
        sharing(&mut request)
    }

    #[test]
    fn every_subscription_of_the_schema_is_shared_or_is_not() {
        let schema = parse_schema(crate::api::type_definitions()).unwrap();
        let fields = schema.definitions.iter().find_map(|definition| match definition {
            TypeSystemDefinition::Type(found) if found.node.name.node == "Subscription" => match &found.node.kind {
                TypeKind::Object(object) => Some(&object.fields),
                _ => None,
            },
            _ => None,
        });
        let mut found: Vec<_> = fields.unwrap().iter().map(|field| field.node.name.node.to_string()).collect();
        found.sort_unstable();
        let mut declared: Vec<_> = subscription_fields().collect();
        declared.sort_unstable();
        assert_eq!(declared, found, "each is declared beside its resolver, once, in a group of `declared`");
        let shared = |name: &String| (name.clone(), of(&format!("subscription {{ {name} }}"), None));
        let sent: Vec<_> = found.iter().map(shared).collect();
        let expected = [
            ("chainEvents", None),
            ("difficultyAdjustment", Some(Sharing::NewestFirst)),
            ("ledgerEvents", None),
            ("mempoolEvents", None),
            ("mempoolStats", Some(Sharing::NewestFirst)),
            ("newBlock", Some(Sharing::FromNowOn)),
            ("outputSpent", None),
            ("projectedBlock", None),
            ("projectedBlocks", None),
            ("recommendedFees", None),
            ("reorg", Some(Sharing::FromNowOn)),
            ("syncProgress", Some(Sharing::NewestFirst)),
            ("transactionStatus", None),
            ("unconfirmedTransaction", Some(Sharing::FromNowOn)),
        ];
        assert_eq!(sent, expected.map(|(name, sharing)| (name.to_owned(), sharing)));
    }

    #[test]
    fn it_is_the_operation_that_is_executed_that_counts() {
        let both =
            "subscription A { b: newBlock { hash } } subscription B { chainEvents { seq } } query C { newBlock }";
        for (operation, expected) in [
            (Some("A"), Some(Sharing::FromNowOn)),
            (Some("B"), None),
            (Some("C"), None),
            (Some("D"), None),
            (None, None),
        ] {
            assert_eq!(of(both, operation), expected, "{operation:?}");
        }
        assert_eq!(of("subscription { newBlock { hash } reorg { depth } }", None), None);
        assert_eq!(of("subscription { mempoolStats(everySeconds: 5) { count } }", None), None);
    }

    #[test]
    fn descriptors_are_watched_by_one_client_alone() {
        let watch = |argument: &str| {
            format!("subscription ($watch: LedgerInput) {{ unconfirmedTransaction(watch: {argument}) {{ txid }} }}")
        };
        let given = |argument: &str, variables: Value| {
            let mut request = Request::new(watch(argument));
            request.variables = async_graphql::Variables::from_value(variables);
            sharing(&mut request)
        };
        let none = Value::from_json(serde_json::json!({})).unwrap();
        assert_eq!(given("{ addresses: [] }", none.clone()), Some(Sharing::FromNowOn));
        assert_eq!(given("{ descriptors: [] }", none.clone()), None);
        assert_eq!(given("$watch", none), None, "the default of the variable may have some");
        for (variable, shared) in [("scripts", Some(Sharing::FromNowOn)), ("descriptors", None)] {
            let variables = Value::from_json(serde_json::json!({ "watch": { variable: [] } })).unwrap();
            assert_eq!(given("$watch", variables), shared, "{variable}");
        }
    }

    #[test]
    fn waiting_for_a_block_delays_no_other_request() {
        let mut request = Request::new("subscription { newBlock { hash } }");
        request.extensions.insert("waitForTip".to_owned(), Value::from(1));
        assert_eq!(sharing(&mut request), None);
        request.extensions.insert("waitForTip".to_owned(), Value::Null);
        request.extensions.insert("client".to_owned(), Value::from(1));
        assert_eq!(sharing(&mut request), Some(Sharing::FromNowOn));
    }
}
