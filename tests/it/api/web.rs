//! What the tools that others point at a GraphQL schema say of ours, and of every documented example. The scripts in
//! tests/web ask them; each ends with an exit code and prints its faults.

use std::path::Path;
use std::process::Command;

use crate::support::skips::{current_test, skip};

/// Runs a script of tests/web with these arguments. It finds no fault, and says that it read at least `count` things.
#[track_caller]
pub(crate) fn assert_no_fault(script: &str, package: &str, count: usize, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    if !folder.join("node_modules").join(package).is_dir() {
        let reason = format!("no {package}: run scripts/npm.sh --install-node tests/web");
        return skip(&current_test(), &reason);
    }
    let output = Command::new("node").arg(script).args(arguments).current_dir(folder).output().unwrap();
    let (reported, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script} found faults:\n{reported}{errors}");
    let read = reported.split_whitespace().next().and_then(|number| number.parse::<usize>().ok());
    assert!(read >= Some(count), "{script} read less than {count}: {reported}");
}

#[test]
fn the_schema_keeps_the_rules_of_graphql_eslint_and_of_relay() {
    assert_no_fault("lint.js", "@graphql-eslint/eslint-plugin", 130, &[]);
}

#[test]
fn strict_typescript_is_generated_from_the_schema_and_every_documented_example() {
    assert_no_fault("types.js", "@graphql-codegen/core", 30, &[]);
}

#[test]
fn the_schema_is_valid_and_every_documented_example_is_and_uses_nothing_deprecated() {
    assert_no_fault("validity.js", "@graphql-inspector/core", 30, &[]);
}

#[test]
fn shipped_caches_are_generated_from_the_schema() {
    assert_no_fault("cache.js", "graphql", 130, &[]);
}

#[test]
fn operations_of_the_explorer_are_typed_by_the_schema() {
    assert_no_fault("explorer-types.js", "@graphql-codegen/core", 8, &[]);
}

#[test]
fn shipped_typescript_and_its_examples_compile() {
    assert_no_fault("clients.js", "typescript", 9, &[]);
}

#[test]
fn pages_make_one_list_without_gaps_and_repetitions() {
    assert_no_fault("pages.js", "@apollo/client", 500, &[]);
}

#[test]
fn urql_warns_of_nothing_with_the_shipped_keys() {
    assert_no_fault("urql.js", "@urql/exchange-graphcache", 30, &[]);
}

#[test]
fn subscriptions_resume_after_whatever_a_client_reports() {
    assert_no_fault("resume.js", "@urql/core", 40, &[]);
}

#[test]
fn the_schema_breaks_nothing_of_the_one_before() {
    assert_no_fault("compatibility.js", "@graphql-inspector/core", 130, &[]);
}
