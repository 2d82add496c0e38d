//! What the comparison must find: a resolver written in the wrong way, and each thing that this version of the engine is
//! known to do otherwise than the spec says; and what is mended around the engine.
//!
//! When a test here fails after an upgrade of the engine, the engine was mended: take it out, and what it allows in
//! the comparison with it.

use async_graphql::{Context, Object, ObjectType};
use serde_json::json;

use super::compare::{Allowed, Case, compare};
use super::schema::{Engine, Exposes, Fault, Lists, Plan, Query, Singles, engine, made};

/// What differs when a document is executed in many ways.
#[track_caller]
fn differences<Q: ObjectType + 'static>(engine: &Engine<Q>, document: &str) -> Option<Vec<String>> {
    let case = |seed| Case {
        document: document.to_owned(),
        variables: json!({}),
        plan: Plan { seed, percent: if seed % 2 == 0 { 0 } else { 30 } },
    };
    let cases: Vec<_> = (0..40).map(case).collect();
    Some(compare(engine, &cases, Allowed::default())?.differences)
}

/// Nothing differs for the first document; for the second something does, in these words.
#[track_caller]
fn assert_found<Q: ObjectType + 'static>(engine: &Engine<Q>, same: &str, other: &str, words: &str) {
    assert_same(engine, same);
    let Some(found) = differences(engine, other) else { return };
    assert!(!found.is_empty(), "nothing differs for {other}");
    assert!(found.iter().any(|difference| difference.contains(words)), "no {words:?} in {}", found.join("\n\n"));
}

/// Nothing differs for the document.
#[track_caller]
fn assert_same<Q: ObjectType + 'static>(engine: &Engine<Q>, document: &str) {
    let Some(found) = differences(engine, document) else { return };
    assert_eq!(found, [""; 0]);
}

struct Notations;

#[Object]
impl Notations {
    async fn right(&self, ctx: &Context<'_>) -> Option<Result<String, Fault>> {
        made(ctx).await
    }

    async fn wrong(&self, ctx: &Context<'_>) -> Result<Option<String>, Fault> {
        made::<Option<Result<String, Fault>>>(ctx).await.transpose()
    }
}

#[test]
fn a_result_around_an_option_nulls_the_parent_and_is_found() {
    assert_found(&engine(Notations), "{ right }", "{ right wrong }", "data: null\nnot:  {\"right\":");
}

#[test]
fn the_path_of_an_error_that_passes_list_items_is_whole() {
    assert_same(&engine(Query(Singles, Lists)), "{ hedge { root { sure } } }");
}

#[test]
fn a_field_that_is_mentioned_twice_fails_twice() {
    let engine = engine(Query(Singles, Lists));
    assert_found(&engine, "{ stone { maybe } }", "{ stone { maybe maybe } }", "null at '/stone/maybe'");
}

#[test]
fn a_field_that_one_mention_nulls_is_not_null_if_an_earlier_mention_is_not() {
    let engine = engine(Query(Singles, Lists));
    let words = "\nnot:  {\"stone\":null}";
    assert_found(&engine, "{ stone { id sure } }", "{ stone { id } stone { sure } }", words);
}

#[test]
fn of_a_list_of_lists_only_the_first_mention_is_answered() {
    let engine = engine(Query(Singles, Lists));
    let words = "\"}]]}\nnot:  {\"wall\":[[";
    assert_found(&engine, "{ wall { id maybe } }", "{ wall { id } wall { maybe } }", words);
}

#[test]
fn a_default_of_a_variable_is_a_condition() {
    let document =
        "query ($yes: Boolean = true) { stone { id marks @include(if: $yes) ... @skip(if: $yes) { marks } } }";
    assert_same(&engine(Query(Singles, Lists)), document);
}

#[test]
fn an_error_of_a_field_that_an_interface_resolves_has_its_path() {
    assert_same(&engine(Exposes), "{ exposed { sure } }");
}
