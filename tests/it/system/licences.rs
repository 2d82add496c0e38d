//! Holds every dependency, on any platform and for tests too, to the licences that `deny.toml` allows. cargo-deny
//! checks the same and more; this needs nothing but cargo.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::skips::skip;

#[test]
fn every_dependency_has_an_allowed_licence() {
    let Some(metadata) = metadata() else {
        return skip(
            "licences::every_dependency_has_an_allowed_licence",
            "the dependencies of other platforms are not downloaded: run `cargo fetch --locked`",
        );
    };
    let allowed = allowed();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let foreign: Vec<&Value> = packages.iter().filter(|package| !package["source"].is_null()).collect();
    assert!(foreign.len() > 100, "cargo lists the dependencies");

    let refused: Vec<String> = foreign
        .into_iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| permitted(licence, &allowed)))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not allowed by `licenses.allow` of deny.toml:\n{}", refused.join("\n"));
}

/// What cargo knows of all dependencies, or `None` when it would have to download some to tell.
fn metadata() -> Option<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    if output.status.success() {
        return Some(serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON"));
    }
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("offline"), "cargo metadata failed:\n{message}");
    None
}

/// The allow-list of deny.toml.
fn allowed() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let rules = config::Config::builder().add_source(config::File::from(file)).build().expect("deny.toml is TOML");
    rules.get("licenses.allow").expect("deny.toml has a list licenses.allow")
}

/// Whether the SPDX `expression` can be satisfied with `allowed` licences alone. `/` means OR, as in old manifests.
fn permitted(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let permitted = any_of(&mut words, allowed);
    permitted && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// OR binds loosest. Every operand is read to its end, whether or not it is still needed.
fn any_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut permitted = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        permitted |= all_of(words, allowed);
    }
    permitted
}

fn all_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut permitted = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        permitted &= one(words, allowed);
    }
    permitted
}

/// A licence, with its exception if it has one, or an expression in parentheses.
fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => any_of(words, allowed) && words.next() == Some(")"),
        Some(licence) => match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
            Some(exception) => allowed.contains(&format!("{licence} WITH {exception}")),
            // `+` is "or any later version", of which the one named is enough
            None => allowed.iter().any(|allowed| allowed == licence.strip_suffix('+').unwrap_or(licence)),
        },
        None => false,
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for expression in [
        "MIT",
        "MIT OR GPL-3.0-only",
        "GPL-3.0-only OR MIT",
        "Apache-2.0/MIT",
        "MIT AND ISC",
        "ISC+",
        "(GPL-3.0-only OR MIT) AND ISC",
        "GPL-3.0-only AND MIT OR ISC",
        "Apache-2.0 WITH LLVM-exception",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
    ] {
        assert!(permitted(expression, &allowed), "{expression}");
    }
    for expression in [
        "",
        "GPL-3.0-only",
        "Apache-2.0",
        "MIT AND GPL-3.0-only",
        "MIT AND (GPL-3.0-only OR Apache-2.0)",
        "MIT WITH Classpath-exception-2.0",
        "GPL-3.0-only OR MIT AND Apache-2.0",
        "MIT GPL-3.0-only",
        "(MIT",
    ] {
        assert!(!permitted(expression, &allowed), "{expression}");
    }
}
