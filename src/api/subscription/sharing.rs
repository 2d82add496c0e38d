//! Which subscriptions can be executed once for all clients that ask for the same.
//!
//! What is sent to one must be what would be sent to another that came later: the events themselves, and nothing that
//! depends on when a client came or what it was sent before.
//!
//! | subscription | shared | why |
//! |---|---|---|
//! | `newBlock`, `reorg`, `unconfirmedTransaction` | from now on | the same events for all, each by itself; what is watched and filtered are arguments, and so are the same, too |
//! | `unconfirmedTransaction` with descriptors | no | their scripts become more as they are used, from when the client came |
//! | `difficultyAdjustment`, `syncProgress` | the newest first | each event is the whole value, and the newest one is the present one, or was a second ago |
//! | `recommendedFees` | no | an event comes when the feerates change, and says of which moment they are: the newest one may be of long ago |
//! | `mempoolStats` | the newest first, with its default pause | with another one the newest may be an hour old |
//! | `projectedBlock` | no | the first event is whole, and those behind it are changes to it |
//! | `chainEvents`, `mempoolEvents`, `ledgerEvents` | no | each client has numbers of its own, which begin with 1 or go on from the cursor that it resumes from |
//! | `transactionStatus`, `outputSpent` | no | what is the case already is sent first, and then changes to that |

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{Field, OperationType, Selection, TypeKind, TypeSystemDefinition};
use async_graphql::{Request, Value};

use crate::api::extensions::operation::operation;
use crate::api::extensions::wait_for_tip;

/// What one is sent that joins a subscription that others have already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// What happens from now on, every event of it.
    FromNowOn,
    /// The newest event, and then those that come. Each takes the place of the one before, so that that is slow needs the
    /// newest only.
    NewestFirst,
}

/// How this request can share its execution with others of the same document, operation name and variables; `None` if
/// it must have one of its own. Of its extensions none says more about it.
pub fn sharing(request: &mut Request) -> Option<Sharing> {
    // what it waits for may be there for one and, after a reorganisation, not for the next
    if wait_for_tip::is_asked_by(request) {
        return None;
    }
    let field = root_field(request)?;
    let (name, has_defaults) = (field.name.node.clone(), field.arguments.is_empty());
    let watch = field.get_argument("watch").map(|watch| watch.node.clone());
    let variable = |name| request.variables.get(&name).cloned().ok_or(());
    let may_watch_descriptors = match watch.map(|watch| watch.into_const_with(variable)) {
        Some(Ok(Value::Object(fields))) => fields.contains_key("descriptors"),
        // the default of a variable
        Some(Err(())) => true,
        Some(Ok(_)) | None => false,
    };
    match name.as_str() {
        "unconfirmedTransaction" if may_watch_descriptors => None,
        "newBlock" | "reorg" | "unconfirmedTransaction" => Some(Sharing::FromNowOn),
        "difficultyAdjustment" | "syncProgress" => Some(Sharing::NewestFirst),
        "mempoolStats" if has_defaults => Some(Sharing::NewestFirst),
        _ => None,
    }
}

/// The name of the field that a subscription is to, as its document has it; `None` of what is no subscription.
pub fn subscribed_field(request: &mut Request) -> Option<String> {
    root_field(request).map(|field| field.name.node.to_string())
}

/// Whether a request is a subscription whose events have cursors.
pub fn has_cursors(request: &mut Request) -> bool {
    let field = root_field(request).map(|field| field.name.node.as_str());
    field.is_some_and(|name| ["chainEvents", "mempoolEvents", "ledgerEvents"].contains(&name))
}

/// The names of the fields of `Subscription` in a schema.
pub(crate) fn field_names(sdl: &str) -> Vec<String> {
    let Ok(document) = parse_schema(sdl) else { return Vec::new() };
    let fields = document.definitions.into_iter().find_map(|definition| match definition {
        TypeSystemDefinition::Type(found) if found.node.name.node == "Subscription" => match found.node.kind {
            TypeKind::Object(object) => Some(object.fields),
            _ => None,
        },
        _ => None,
    });
    fields.unwrap_or_default().into_iter().map(|field| field.node.name.node.to_string()).collect()
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
