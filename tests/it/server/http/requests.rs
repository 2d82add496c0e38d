use btcgraph::server::Options;
use serde_json::{Value, json};

use super::{encoded, serve};

#[test]
fn a_query_string_asks_as_a_body_does() {
    let served = serve(Options::default());
    let query = "query One($h: Int!) { block(height: $h) { height } } query Two { tip { height } }";
    let variables = json!({ "h": 2 });
    let posted = served.post(&json!({ "query": query, "operationName": "One", "variables": variables }), &[]);
    let asked = format!("query={}&operationName=One&variables={}", encoded(query), encoded(&variables.to_string()));
    let got = served.get(&asked, &[]);
    assert_eq!((got.status, got.json()), (200, json!({ "data": { "block": { "height": 2 } } })));
    assert_eq!(got.json(), posted.json());
}

#[test]
fn a_query_string_that_is_no_request_is_400() {
    let served = serve(Options::default());
    for query in ["", "query=", "query={tip{id}}&variables=[1]", "query={tip{id}}&extensions=x", "query=a&query=b"] {
        let answer = served.get(query, &[]);
        assert_eq!((answer.status, answer.code()), (400, json!("BAD_USER_INPUT")), "{query}");
    }
}

#[test]
fn a_mutation_is_for_post() {
    let served = serve(Options::default());
    let mutation = "mutation { __typename }";
    let two = "query A { tip { id } } mutation B { __typename }";
    for query in [format!("query={}", encoded(mutation)), format!("query={}&operationName=B", encoded(two))] {
        let answer = served.get(&query, &[]);
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
        assert_eq!(answer.json().get("data"), None);
    }
    assert_eq!(served.get(&format!("query={}&operationName=A", encoded(two)), &[]).status, 200);
    let answer = served.post(&json!({ "query": mutation }), &[]);
    assert_eq!((answer.status, answer.json()), (200, json!({ "data": { "__typename": "Mutation" } })));
}

#[test]
fn methods_that_mean_nothing_here_are_405() {
    let served = serve(Options::default());
    for method in ["PUT", "DELETE", "PATCH"] {
        let answer = served.send(method, "/graphql", &[("content-type", "application/json")], "{}");
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("POST") && answer.header("allow").contains("GET"), "{answer:?}");
    }
}

#[test]
fn forms_and_plain_text_are_415_whatever_they_hold() {
    let served = serve(Options::default());
    let body = json!({ "query": "mutation { __typename }" }).to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "a"] {
        let answer = served.send("POST", "/graphql", &[("content-type", content_type)], &body);
        assert_eq!((answer.status, answer.code()), (415, json!("BAD_USER_INPUT")), "{content_type}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_with_the_limit() {
    let served = serve(Options::default());
    let padding = " ".repeat(1024 * 1024);
    let answer = served.post(&json!({ "query": format!("{{ tip {{ id }} }}{padding}") }), &[]);
    let error = &answer.json()["errors"][0]["extensions"];
    assert_eq!((answer.status, &error["code"]), (413, &json!("QUERY_LIMIT_EXCEEDED")));
    assert_eq!((&error["which"], &error["limit"]), (&json!("bodyBytes"), &json!(1024 * 1024)));
    assert!(error["actual"].as_u64() > Some(1024 * 1024), "{error}");
}

#[test]
fn parameters_of_the_wrong_type_are_named() {
    let served = serve(Options::default());
    for (parameter, value) in
        [("query", json!(["a"])), ("operationName", json!(1)), ("variables", json!("{}")), ("extensions", json!([]))]
    {
        let mut request = json!({ "query": "{ tip { id } }" });
        request[parameter] = value;
        let answer = served.post(&request, &[]);
        assert_eq!(answer.status, 400, "{parameter}");
        let message: Value = answer.json()["errors"][0]["message"].clone();
        assert!(message.as_str().unwrap().starts_with(parameter), "{message}");
    }
}
