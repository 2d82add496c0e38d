use proptest::prelude::*;

use super::*;

fn refusal(query: &str) -> Option<RequestRefusal> {
    admit(query, &Limits::default()).err()
}

fn which(query: &str) -> &'static str {
    match refusal(query) {
        Some(RequestRefusal::TooLarge { which, .. }) => which,
        other => panic!("{other:?}"),
    }
}

/// An argument of lists within lists. Some thousand of them overflow the stack of the engine's parser.
fn nested_argument(levels: usize) -> String {
    format!("{{ block(height: {}1{}) {{ hash }} }}", "[".repeat(levels), "]".repeat(levels))
}

/// Each fragment spreads the next one twice.
fn doubling_fragments(count: usize) -> String {
    let spread = |number| format!("fragment F{number} on Block {{ ...F{next} ...F{next} }} ", next = number + 1);
    let spreads = (0..count).map(spread).collect::<Vec<_>>().concat();
    format!("{{ tip {{ ...F0 }} }} {spreads} fragment F{count} on Block {{ hash }}")
}

#[test]
fn ordinary_documents_pass() {
    for query in [
        "{ tip { hash } }",
        "query Q($h: Int) { block(height: $h) { ...F } } fragment F on Block { hash previousBlock { ...G } } fragment G on Block { height }",
        "subscription { newBlock { hash } }",
        "# a comment with ( [ {\n{ tip { hash } }",
        r#"{ address(address: "a \" ( [ {") { id } }"#,
        r#"{ address(address: """ ( [ { \""" ( """) { id } }"#,
        "{ a: tip { hash } b: tip { hash } }",
    ] {
        assert_eq!(refusal(query), None, "{query}");
    }
    assert_eq!(refusal(&nested_argument(60)), None);
}

#[test]
fn deep_nesting_is_refused_before_it_is_parsed() {
    for levels in [63, 2_000, 8_000] {
        assert_eq!(which(&nested_argument(levels)), "nestingLevels");
        let objects = format!("{{ block(height: {}1{}) {{ hash }} }}", "{a:".repeat(levels), "}".repeat(levels));
        assert_eq!(which(&objects), "nestingLevels");
    }
    assert_eq!(which(&"{a".repeat(65)), "nestingLevels");
    assert_eq!(
        which(&format!("query($a: {}Int{}) {{ tip {{ hash }} }}", "[".repeat(64), "]".repeat(64))),
        "nestingLevels"
    );
}

#[test]
fn nesting_cannot_hide_behind_quotes_that_never_close() {
    let deep = "[".repeat(5_000);
    for query in [
        format!(r#"{{ block(height: ["""abc" {deep}"#),
        format!("{{ block(height: [\"abc\n {deep}"),
        format!("{{ block(height: [\"abc\\\n\" {deep}"),
        format!(r#"{{ block(height: [""" \""" {deep}"#),
        format!(r#"{{ block(height: ["""""" {deep}"#),
        format!(r#"{{ block(height: ["" {deep}"#),
        format!("{{ #\r block(height: [{deep}"),
    ] {
        assert!(
            matches!(refusal(&query), Some(RequestRefusal::OpenString { .. } | RequestRefusal::TooLarge { .. })),
            "{query:.40}"
        );
    }
}

#[test]
fn fragments_are_counted_as_they_expand_without_expanding_them() {
    assert_eq!(refusal(&doubling_fragments(8)), None);
    for count in [13, 25, 60] {
        assert_eq!(which(&doubling_fragments(count)), "selections");
    }
    // the same without a field at its end
    let empty = doubling_fragments(25).replace("on Block { hash }", "on Block { ...Unknown }");
    assert_eq!(which(&empty), "selections");
    // the same with fragments that no operation uses
    let unused = doubling_fragments(25).replace("{ tip { ...F0 } }", "{ tip { hash } }");
    assert_eq!(which(&unused), "selections");
}

#[test]
fn a_long_chain_of_fragments_counts_as_depth() {
    let spread = |number| format!("fragment F{number} on Block {{ ...F{} }} ", number + 1);
    let spreads = (0..100).map(spread).collect::<Vec<_>>().concat();
    let query = format!("{{ tip {{ ...F0 }} }} {spreads} fragment F100 on Block {{ hash }}");
    assert_eq!(which(&query), "nestingLevels");
}

#[test]
fn a_fragment_that_spreads_itself_is_refused() {
    for query in [
        "{ tip { ...A } } fragment A on Block { ...A }",
        "{ tip { ...A } } fragment A on Block { previousBlock { ...B ...B } } fragment B on Block { ...A ...A }",
        "{ tip { hash } } fragment A on Block { ...B } fragment B on Block { ...A }",
    ] {
        assert!(matches!(refusal(query), Some(RequestRefusal::Cycle { .. })), "{query}");
    }
    assert_eq!(refusal("{ tip { ...Unknown } }"), None, "validation says so");
}

#[test]
fn introspection_cannot_go_around_in_circles() {
    let around = |times: usize| {
        let (open, close) = ("fields { type { ".repeat(times), "} } ".repeat(times));
        format!("{{ __schema {{ types {{ {open} name {close} }} }} }}")
    };
    assert_eq!(refusal(&around(2)), None);
    assert_eq!(which(&around(3)), "introspectionLists");
    let by_fragment = "{ __type(name: \"Block\") { ...A } } fragment A on __Type { fields { type { ...B } } } \
                       fragment B on __Type { possibleTypes { interfaces { name } } }";
    assert_eq!(which(by_fragment), "introspectionLists");
    let wide = format!("{{ __schema {{ types {{ {} }} }} }}", "name ".repeat(500));
    assert_eq!(which(&wide), "introspectionSelections");
}

#[test]
fn the_schema_is_not_sent_repeatedly() {
    let again = |times: usize, part: &str| {
        (0..times).map(|number| part.replace('#', &number.to_string())).collect::<Vec<_>>().concat()
    };
    let fields = |times| format!("{{ __schema {{ types {{ {} }} }} }}", again(times, "a#: fields { name } "));
    assert_eq!(refusal(&fields(15)), None);
    assert_eq!(which(&fields(16)), "introspectionLists");
    let schemas = |times| format!("{{ {} }}", again(times, "__schema { types { ...F } } "));
    let fragment = "fragment F on __Type { fields { name } }";
    assert_eq!(refusal(&format!("{} {fragment}", schemas(8))), None);
    assert_eq!(which(&format!("{} {fragment}", schemas(9))), "introspectionLists");
    // what has the same name elsewhere is no introspection
    assert_eq!(refusal(&format!("{{ tip {{ {} }} }}", again(50, "types { fields { name } } "))), None);
}

#[test]
fn every_limit_is_held() {
    let many = |item: &str, count: usize| item.repeat(count);
    assert_eq!(which(&format!("{{ tip {{ hash }} }} #{}", many("x", 33_000))), "queryBytes");
    assert_eq!(which(&format!("{{ tip {{ {} }} }}", many("id ", 5_001))), "documentTokens");
    let aliases = (0..101).map(|number| format!("a{number}: hash ")).collect::<Vec<_>>().concat();
    assert_eq!(which(&format!("{{ tip {{ {aliases} }} }}")), "aliases");
    assert_eq!(which(&format!("{{ {} }}", many("tip { hash } ", 51))), "rootFields");
    assert_eq!(which(&format!("{{ ...F }} fragment F on Query {{ {} }}", many("tip { id } ", 51))), "rootFields");
    assert_eq!(which(&format!("{{ tip {{ hash {} }} }}", many("@include(if: true) ", 51))), "directives");
}

#[test]
fn a_subscription_has_one_field_on_its_root() {
    for query in [
        "subscription { newBlock { hash } newBlock { height } }",
        "subscription { a: newBlock { hash } b: newBlock { hash } }",
        "subscription { ...F } fragment F on Subscription { newBlock { hash } }",
        "subscription { ... on Subscription { newBlock { hash } } }",
    ] {
        assert_eq!(refusal(query), Some(RequestRefusal::SubscriptionRoot), "{query}");
    }
}

#[test]
fn few_unknown_fields_are_reported_and_very_many_refused() {
    let hasj = |count: usize| (0..count).map(|number| format!("hasj{number} ")).collect::<Vec<_>>().concat();
    assert_eq!(refusal(&format!("{{ tip {{ hash {} }} }}", hasj(100))), None);
    let error = ServerError::from(refusal(&format!("{{ tip {{ hash {} }} }}", hasj(101))).unwrap());
    assert!(error.message.starts_with("Unknown field \"hasj100\" on type \"Block\""), "{}", error.message);
    assert_eq!(error.extensions.unwrap().get("code"), Some(&"GRAPHQL_VALIDATION_FAILED".into()));
    assert_eq!(error.locations.len(), 1);
}

#[test]
fn a_refusal_carries_its_code_and_what_was_too_much() {
    let error = ServerError::from(refusal(&doubling_fragments(25)).unwrap());
    assert_eq!(
        serde_json::to_value(error.extensions).unwrap(),
        serde_json::json!({
            "code": "QUERY_LIMIT_EXCEEDED",
            "which": "selections",
            "limit": 5000,
            "actual": 301_989_833,
        })
    );
    let error = ServerError::from(refusal("{ tip { ").unwrap());
    assert_eq!(error.extensions.unwrap().get("code"), Some(&"GRAPHQL_PARSE_FAILED".into()));
}

proptest! {
    #[test]
    fn no_text_panics_and_what_passes_is_within_the_limits(query in r#"[ \n{}()\[\]"\\#a:.,$@!]{0,200}"#) {
        let _ = admit(&query, &Limits::default());
    }

    #[test]
    fn strings_end_where_the_parser_ends_them(content in r#"["\\a\[ ]{0,12}"#) {
        // whatever the string swallows, brackets behind it are counted or the document is refused
        let query = format!(r#"{{ a(b: "{content}" {}"#, "[".repeat(70));
        prop_assert!(refusal(&query).is_some());
    }
}

fn values(variables: serde_json::Value, extensions: serde_json::Value) -> Result<(), RequestRefusal> {
    let mut request = Request::new("{ a }").variables(async_graphql::Variables::from_json(variables));
    request.extensions = serde_json::from_value(extensions).unwrap();
    admit_values(&request, &Limits { values: 10, nesting: 4, ..Limits::default() })
}

#[test]
fn variables_and_extensions_are_counted_together_and_as_deep_as_documents() {
    use serde_json::json;

    let refused = |variables, extensions| match values(variables, extensions) {
        Err(RequestRefusal::TooLarge { which, limit, actual, .. }) => (which, limit, actual > limit),
        other => panic!("{other:?}"),
    };
    // the list, and nine in it
    assert_eq!(values(json!({ "a": [1, 2, 3, 4, 5, 6, 7, 8, 9] }), json!({})), Ok(()));
    let too_many = ("variableValues", 10, true);
    assert_eq!(refused(json!({ "a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }), json!({})), too_many);
    assert_eq!(refused(json!({ "a": [1, 2, 3, 4, 5, 6, 7, 8, 9] }), json!({ "b": null })), too_many);
    assert_eq!(refused(json!({ "a": { "b": [1, 2, 3], "c": { "d": [1, 2, 3] } } }), json!({ "b": {} })), too_many);
    assert_eq!(values(json!({ "a": [[[{}]]] }), json!({ "b": [[{ "c": 1 }]] })), Ok(()));
    let too_deep = ("nestingLevels", 4, true);
    assert_eq!(refused(json!({ "a": [[[[[]]]]] }), json!({})), too_deep);
    assert_eq!(refused(json!({}), json!({ "b": { "c": { "d": { "e": { "f": [] } } } } })), too_deep);
}

#[test]
fn a_list_as_long_as_a_request_may_give_passes() {
    let limits = Limits::default();
    let ids = Limits::default().ids;
    let of = |count: usize| {
        Request::new("").variables(async_graphql::Variables::from_json(serde_json::json!({ "ids": vec![""; count] })))
    };
    assert_eq!(admit_values(&of(ids), &limits), Ok(()));
    assert!(admit_values(&of(limits.values), &limits).is_err());
}

#[test]
fn a_private_key_in_an_invalid_document_is_not_repeated() {
    let key = "KwdMAjGmerYanjeui5SHS7JkmpZvVipYvB2LJGU1ZxJwYvP98617";
    let error = ServerError::from(refusal(&format!("{{ address(address: {key}) {{ id }}")).unwrap());
    assert!(error.message.contains("private key") && !error.message.contains("Kwd"), "{}", error.message);
}
