//! The order of the modules: which crate is named where, that imports run only downwards and which may run in circles, and that
//! a type name is defined once.
//!
//! The tests read the sources as tokens, so that prose and literals may name anything.

mod circles;
mod tokens;
mod type_names;

use std::path::{Path, PathBuf};

/// Each module of `src/` with the modules that it may import. None of them imports anything else of the crate, such as
/// the settings: `commands` passes them what they need.
const MODULES: &[(&str, &[&str])] = &[
    ("chain", &[]),
    ("durable", &[]),
    ("limits", &[]),
    ("outbound", &[]),
    ("rates", &["outbound"]),
    ("node", &["chain"]),
    ("index", &["chain", "durable"]),
    ("fleet", &["chain", "durable", "index", "outbound"]),
    ("mempool", &["chain"]),
    ("view", &["chain", "index", "mempool", "node"]),
    ("live", &["chain", "index", "mempool", "node", "view"]),
    ("sync", &["chain", "index", "mempool", "node", "view", "live"]),
    ("api", &["chain", "limits", "rates", "index", "view", "live"]),
    ("metrics", &["api"]),
    ("execution", &["limits", "api", "metrics"]),
    ("server", &["limits", "api", "metrics", "execution"]),
    ("webhooks", &["durable", "outbound", "api"]),
    ("sim", &["chain"]),
];

/// Crates that are named in these places of `src/` only.
const ONLY_IN: &[(&str, &[&str])] = &[
    // its modules are named as those of the package above
    ("btcgraph_core", &["lib"]),
    ("redb", &["index"]),
    ("bitcoincore_rpc", &["node"]),
    ("axum", &["server", "sim"]),
    ("async_graphql", &["api", "execution", "server", "webhooks"]),
    ("async_graphql_value", &["api", "execution"]),
    // everything else has that of `bitcoin`
    ("hex_conservative", &["execution"]),
    ("httparse", &["server"]),
    ("http_body_util", &["outbound", "webhooks"]),
    ("hyper", &["outbound", "server", "webhooks"]),
    ("hyper_util", &["outbound", "server"]),
    ("rustls_native_certs", &["outbound"]),
    ("tokio_rustls", &["outbound", "webhooks"]),
    ("rustix", &["index", "server", "settings", "sync"]),
    ("socket2", &["server"]),
    // of it, `execution` names the text that websockets send without copying it
    ("tokio_tungstenite", &["execution", "server"]),
    ("tower", &["server"]),
    ("anyhow", &["main", "commands"]),
    ("dataloader", &["view"]),
    ("imbl", &["mempool"]),
    ("object_store", &["fleet"]),
    ("prometheus", &["metrics"]),
];

/// Crates that are not named in a place that could name any other.
const NOT_IN: &[(&str, &[&str])] =
    &[("tokio", &["chain", "index", "mempool"]), ("bitcoin", &["execution", "metrics", "server"])];

#[test]
fn modules_import_only_from_below() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 5, "the sources are where this test looks for them");

    let mut found = Vec::new();
    for file in files {
        let module = module_path(file.strip_prefix(&src).expect("a file of src"));
        let source = std::fs::read_to_string(&file).expect("a readable source file");
        found.extend(
            violations(&module, &source).into_iter().map(|violation| format!("{}: {violation}", file.display())),
        );
    }
    assert!(found.is_empty(), "see MODULES, ONLY_IN and NOT_IN in {}:\n{}", file!(), found.join("\n"));
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder") {
        let path = entry.expect("a readable folder entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The modules down to a file of `src/`: `index/mod.rs` is `[index]`, `index/rows.rs` is `[index, rows]`.
fn module_path(file: &Path) -> Vec<String> {
    let mut path: Vec<String> =
        file.with_extension("").iter().map(|name| name.to_str().expect("a UTF-8 file name").to_owned()).collect();
    if path.last().is_some_and(|name| name == "mod") {
        path.pop();
    }
    path
}

/// What the file of `module` names although it must not, in words.
fn violations(module: &[String], source: &str) -> Vec<String> {
    let Some(place) = module.first() else { return Vec::new() };
    let tokens = tokens::tokens(source);
    let mut found = Vec::new();
    for (name, places) in ONLY_IN {
        if !places.contains(&place.as_str()) && tokens.iter().any(|token| token == name) {
            found.push(format!("`{place}` names the crate `{name}`, which is for {places:?} only"));
        }
    }
    for (name, places) in NOT_IN {
        if places.contains(&place.as_str()) && tokens.iter().any(|token| token == name) {
            found.push(format!("`{place}` names the crate `{name}`, which it must not know"));
        }
    }
    if let Some((_, below)) = MODULES.iter().find(|(module, _)| module == place) {
        for name in names_at_the_root(&tokens, module.len()) {
            if name != place && !below.contains(&name) {
                found.push(format!("`{place}` imports `crate::{name}`, which is not below it"));
            }
        }
    }
    found
}

/// What is named directly below the crate's root, by `crate::…` or by enough `super::…`, in a file whose module is
/// `depth` levels below the root.
fn names_at_the_root(tokens: &[String], depth: usize) -> Vec<&str> {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut names = Vec::new();
    let mut braces = 0_usize;
    let mut inline_modules = Vec::new(); // the brace level of each inline module that is open
    let mut at = 0;
    while at < tokens.len() {
        match token(at) {
            "{" => {
                braces += 1;
                if at >= 2 && token(at - 2) == "mod" {
                    inline_modules.push(braces);
                }
            }
            "}" => {
                if inline_modules.last() == Some(&braces) {
                    inline_modules.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "crate" if token(at + 1) == "::" => {
                names.extend(first_names(tokens, at + 2));
                at += 1;
            }
            "super" => {
                let mut levels = 1;
                while token(at + 1) == "::" && token(at + 2) == "super" {
                    at += 2;
                    levels += 1;
                }
                if levels == depth + inline_modules.len() && token(at + 1) == "::" {
                    names.extend(first_names(tokens, at + 2));
                }
            }
            _ => {}
        }
        at += 1;
    }
    names
}

/// The first name of the path at `at`, or of each path of the group there.
fn first_names(tokens: &[String], at: usize) -> Vec<&str> {
    let Some(first) = tokens.get(at) else { return Vec::new() };
    if first != "{" {
        return vec![first];
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for (before, token) in tokens[at..].iter().zip(&tokens[at + 1..]) {
        match before.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(before.as_str(), "{" | ",") && token != "}" {
            names.push(token.as_str());
        }
    }
    names
}

mod the_check {
    use super::{module_path, violations};
    use std::path::Path;

    fn check(file: &str, source: &str) -> Vec<String> {
        violations(&module_path(Path::new(file)), source)
    }

    fn imported(file: &str, source: &str) -> Vec<String> {
        let name = |violation: String| violation.split("crate::").nth(1).unwrap().split('`').next().unwrap().to_owned();
        check(file, source).into_iter().map(name).collect()
    }

    #[test]
    fn finds_a_crate_outside_its_module() {
        let found = check("view/mod.rs", "fn open() -> Result<(), redb::Error> { Ok(()) }");
        assert_eq!(found, ["`view` names the crate `redb`, which is for [\"index\"] only"]);
        assert_eq!(check("main.rs", "use bitcoincore_rpc::Client;").len(), 1);
        assert_eq!(check("commands/serve.rs", "use axum::Router;").len(), 1);
        assert_eq!(check("chain/mod.rs", "use async_graphql::Enum;").len(), 1);
        assert_eq!(check("node/rpc.rs", "type Result<T> = anyhow::Result<T>;").len(), 1);
    }

    #[test]
    fn finds_a_crate_that_a_module_must_not_know() {
        assert_eq!(check("index/mod.rs", "use tokio::sync::Mutex;").len(), 1);
        assert_eq!(check("server/mod.rs", "use bitcoin::Txid;").len(), 1);
    }

    #[test]
    fn lets_a_crate_be_named_in_its_module() {
        assert_eq!(check("index/tables.rs", "use redb::TableDefinition;"), [""; 0]);
        assert_eq!(check("sim/node.rs", "use axum::Router;"), [""; 0]);
        assert_eq!(check("main.rs", "use anyhow::Context;"), [""; 0]);
    }

    #[test]
    fn lets_prose_and_literals_name_anything() {
        assert_eq!(check("api/mod.rs", "//! Knows no redb, see [`crate::sync`].\nconst A: &str = \"axum\";"), [""; 0]);
    }

    #[test]
    fn finds_an_import_from_above() {
        assert_eq!(imported("chain/mod.rs", "use crate::node::Node;"), ["node"]);
        assert_eq!(imported("index/rows.rs", "fn f(view: &crate::view::View) {}"), ["view"]);
        assert_eq!(imported("node/mod.rs", "use crate::settings::Settings;"), ["settings"]);
        assert_eq!(imported("server/mod.rs", "use crate::*;"), ["*"]);
    }

    #[test]
    fn finds_an_import_from_above_in_a_group() {
        let source = "use crate::{chain::{Height, sync}, index, sync::{run}, api::Schema};";
        assert_eq!(imported("view/mod.rs", source), ["sync", "api"]);
    }

    #[test]
    fn finds_an_import_from_above_by_way_of_super() {
        assert_eq!(imported("chain/mod.rs", "use super::index;"), ["index"]);
        assert_eq!(imported("chain/height.rs", "use super::super::index::Row; use super::raw;"), ["index"]);
        assert_eq!(imported("chain/mod.rs", "mod tests { use super::raw; use super::super::{sim, chain}; }"), ["sim"]);
        assert_eq!(imported("chain/mod.rs", "mod a { fn f() {} } use super::view::View;"), ["view"]);
    }

    #[test]
    fn lets_imports_run_downwards() {
        let source = "pub(crate) use crate::{chain::Height, view, live::Live};\nuse super::index;";
        assert_eq!(check("sync/mod.rs", source), [""; 0]);
        assert_eq!(check("main.rs", "use crate::sync; use super::index;"), [""; 0]);
    }
}
