//! Puts the same cases to the engine and to graphql-js, and says where their answers differ.
//!
//! The data must be the same text, keys in the same order. Of errors the spec (6.4.4, "Handling Execution Errors")
//! leaves two things open: once an error makes a parent null, "sibling fields which have not yet executed or have not
//! yet yielded a value may be cancelled to avoid unnecessary work"; and of several errors that reach the same parent,
//! "only one error should be added to the errors list". So take everything that fails if nothing is cancelled, and say
//! that a failure *nulls* the nearest nullable position at or above it. Then
//!
//! 1. of the failures that null the same position of the answer, exactly one is reported. Which of several, timing
//!    decides;
//! 2. of the failures that null a position which is in no answer, because it is below one that failures null, at most
//!    one is reported;
//! 3. nothing else is reported, and each error has the path of the field or item that failed.
//!
//! Both sides are held to these rules, so what they report can differ only in what the rules leave open.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use async_graphql::{ObjectType, Request, Variables};
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{Engine, INFALLIBLE, Plan, fixed};
use crate::support::skips;

/// A document with its variables, and how the resolvers behave while it is executed.
pub(super) struct Case {
    pub(super) document: String,
    pub(super) variables: Value,
    pub(super) plan: Plan,
}

/// What the engine is known to do otherwise than the spec says, and is not counted as a difference.
#[derive(Clone, Copy, Default)]
pub(super) struct Allowed {
    /// A field that is mentioned more than once is resolved for each mention, so its errors are reported as often.
    /// Cases in which an error makes a parent null are left out, because what is null then depends on the mention.
    pub(super) repeated_mentions: bool,
}

/// An error of a response.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Reported {
    message: String,
    #[serde(deserialize_with = "path_text")]
    path: String,
}

/// Something that failed, and the position that it nulls.
#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(flatten)]
    error: Reported,
    #[serde(deserialize_with = "path_text")]
    nulled: String,
}

/// A path as text: each part with a `/` in front.
fn path_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let part = |part: &Value| format!("/{}", part.as_str().map_or_else(|| part.to_string(), str::to_owned));
    Ok(Vec::<Value>::deserialize(deserializer)?.iter().map(part).collect())
}

#[derive(Debug, Deserialize)]
struct Answer {
    /// As JSON text.
    data: String,
    errors: Vec<Reported>,
}

/// What graphql-js answered, and what happened meanwhile.
#[derive(Debug, Deserialize)]
struct Reference {
    #[serde(flatten)]
    answer: Answer,
    failures: Vec<Failure>,
}

/// What a comparison found, and what it saw, to know that it saw enough.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// In words.
    pub(super) differences: Vec<String>,
    /// Cases that were compared.
    pub(super) compared: usize,
    /// Those in which something failed.
    pub(super) failing: usize,
    /// Those in which a failure made null what is above it.
    pub(super) propagating: usize,
    /// Those in which the rules left a choice of errors.
    pub(super) ambiguous: usize,
}

/// Puts the cases to both; `None`, which is recorded, where there is no graphql-js.
#[track_caller]
pub(super) fn compare<Q: ObjectType + 'static>(
    engine: &Engine<Q>,
    cases: &[Case],
    allowed: Allowed,
) -> Option<Comparison> {
    let references = graphql_js(&engine.sdl(), cases)?;
    assert_eq!(references.len(), cases.len());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut comparison = Comparison::default();
    for (case, reference) in cases.iter().zip(references) {
        let theirs = broken_rules(&reference.answer.errors, &reference.failures, Allowed::default());
        assert_eq!(theirs, [""; 0], "graphql-js breaks the rules with {}", case.document);

        let failures = &reference.failures;
        let propagates = failures.iter().any(|failure| failure.nulled != failure.error.path);
        if allowed.repeated_mentions && propagates {
            continue;
        }
        let ours = runtime.block_on(execute(engine, case));
        let mut found = Vec::new();
        if ours.data != reference.answer.data {
            found.push(format!("data: {}\nnot:  {}", ours.data, reference.answer.data));
        }
        found.extend(broken_rules(&ours.errors, failures, allowed));
        if !found.is_empty() {
            let Plan { seed, percent } = case.plan;
            let head = format!("seed {seed}, {percent} % fail: {}", case.document);
            comparison.differences.push(format!("{head}\n{}", found.join("\n")));
        }
        let is_shared = |position| failures.iter().filter(|failure| &failure.nulled == position).count() > 1;
        comparison.compared += 1;
        comparison.failing += usize::from(!failures.is_empty());
        comparison.propagating += usize::from(propagates);
        comparison.ambiguous += usize::from(failures.iter().any(|failure| is_shared(&failure.nulled)));
    }
    Some(comparison)
}

async fn execute<Q: ObjectType + 'static>(engine: &Engine<Q>, case: &Case) -> Answer {
    let request = Request::new(&case.document).variables(Variables::from_json(case.variables.clone()));
    let response = engine.execute(request.data(case.plan)).await;
    let reported = |error: &async_graphql::ServerError| json!({ "message": error.message, "path": error.path });
    let errors: Vec<_> = response.errors.iter().map(reported).collect();
    Answer {
        data: serde_json::to_string(&response.data).unwrap(),
        errors: serde_json::from_value(json!(errors)).unwrap(),
    }
}

/// Where the reported errors break the rules at the head of this module, in words.
fn broken_rules(reported: &[Reported], failures: &[Failure], allowed: Allowed) -> Vec<String> {
    let mut by_nulled = BTreeMap::<&str, Vec<Reported>>::new();
    for failure in failures {
        by_nulled.entry(&failure.nulled).or_default().push(failure.error.clone());
    }
    let mut broken = Vec::new();
    for (position, candidates) in &by_nulled {
        let mut listed: Vec<_> = reported.iter().filter(|error| candidates.contains(error)).collect();
        if allowed.repeated_mentions {
            listed.dedup();
        }
        let gone = by_nulled.keys().any(|other| is_below(position, other));
        if listed.len() > 1 || listed.is_empty() && !gone {
            broken.push(format!("null at '{position}': {listed:?} of {candidates:?}"));
        }
    }
    let known = |error: &&Reported| by_nulled.values().any(|candidates| candidates.contains(error));
    broken.extend(reported.iter().filter(|error| !known(error)).map(|error| format!("nothing failed as {error:?}")));
    broken
}

fn is_below(position: &str, other: &str) -> bool {
    position.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

/// graphql-js's answers, in order.
#[track_caller]
fn graphql_js(sdl: &str, cases: &[Case]) -> Option<Vec<Reference>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    if !folder.join("node_modules/graphql").is_dir() {
        skips::skip(&skips::current_test(), "no graphql-js: scripts/npm.sh puts it into tests/web");
        return None;
    }
    let mut node = Command::new("node");
    node.arg("reference.js").current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut node) = node.spawn() else {
        skips::skip(&skips::current_test(), "no node on the PATH to run graphql-js with");
        return None;
    };
    let asked = |Case { document, variables, plan: Plan { seed, percent } }: &Case| json!({ "document": document, "variables": variables, "seed": seed, "percent": percent });
    let cases: Vec<_> = cases.iter().map(asked).collect();
    let input = json!({ "sdl": sdl, "infallible": INFALLIBLE, "fixed": fixed(), "cases": cases }).to_string();
    // it reads to the end before it prints, so neither waits for the other
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "reference.js: {}", output.status);
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines().zip(&cases);
    let read = |(line, case)| serde_json::from_str(line).unwrap_or_else(|_| panic!("{case} is answered with {line}"));
    Some(lines.map(read).collect())
}
