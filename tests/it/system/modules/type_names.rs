//! A type name is defined once in `src/`, so that a reader who finds it knows what it is.
//!
//! Types of the tests and associated types of traits do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tokens::tokens;
use super::{module_path, rust_files};

/// Names that are defined more than once, in modules other than `api` and `server`. This list only shrinks.
const EXCEPTIONS: &[&str] = &["Salt"];

/// Names that `api` or `server` defines although another file does, until their types are renamed. This list only
/// shrinks.
const EXCEPTIONS_OF_API_AND_SERVER: &[&str] =
    &["Block", "Chain", "Connection", "Hex", "Ledger", "Mempool", "Reorg", "Transaction"];

#[test]
fn a_type_name_is_defined_once() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 5, "the sources are where this test looks for them");

    let mut definitions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let module = module_path(file.strip_prefix(&src).expect("a file of src"));
        if module.iter().any(|name| name == "tests") {
            continue;
        }
        let source = std::fs::read_to_string(&file).expect("a readable source file");
        for name in types_defined(&source) {
            // one that differs by platform is defined twice in one file
            definitions.entry(name).or_default().insert(module.join("::"));
        }
    }
    definitions.retain(|_, modules| modules.len() > 1);
    let in_api_or_server =
        |modules: &BTreeSet<String>| modules.iter().any(|module| ["api", "server"].contains(&top_of(module)));
    let (late, now): (BTreeMap<_, _>, BTreeMap<_, _>) =
        definitions.into_iter().partition(|(_, modules)| in_api_or_server(modules));
    compare("EXCEPTIONS", &now, EXCEPTIONS);
    compare("EXCEPTIONS_OF_API_AND_SERVER", &late, EXCEPTIONS_OF_API_AND_SERVER);
}

fn compare(list: &str, found: &BTreeMap<String, BTreeSet<String>>, exceptions: &[&str]) {
    let exceptions: BTreeSet<_> = exceptions.iter().copied().collect();
    let names: BTreeSet<_> = found.keys().map(String::as_str).collect();
    let new: Vec<_> = names.difference(&exceptions).map(|name| format!("{name}: {:?}", found[*name])).collect();
    assert!(new.is_empty(), "type names that are defined more than once; rename all but one:\n{}", new.join("\n"));
    let past: Vec<_> = exceptions.difference(&names).collect();
    assert!(past.is_empty(), "defined once by now; remove them from {list} in {}: {past:?}", file!());
}

fn top_of(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// The names of the types that a source file defines at the level of its modules, but for those of `mod tests`.
fn types_defined(source: &str) -> Vec<String> {
    const DEFINES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
    let tokens = tokens(source);
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut names = Vec::new();
    let mut blocks = Vec::new(); // for each open brace, whether it is that of a module whose types count
    for at in 0..tokens.len() {
        match token(at) {
            "{" => blocks.push(at >= 2 && token(at - 2) == "mod" && token(at - 1) != "tests"),
            "}" => {
                blocks.pop();
            }
            word if DEFINES.contains(&word) && blocks.iter().all(|counts| *counts) => {
                let name = token(at + 1);
                if name.starts_with(|c: char| c.is_ascii_uppercase()) {
                    names.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
    names
}

#[test]
fn only_definitions_at_module_level_count() {
    let source = "
        pub(crate) struct A<T>(T); enum B { C { struct_: u8 } } trait D { type E; } type F = u8;
        impl Iterator for A { type Item = u8; fn next(&mut self) { struct Local; } }
        mod inner { pub union G { h: u8 } }
        #[cfg(test)] mod tests { struct T; }
        // struct Comment;
        const S: &str = \"struct Literal\";
    ";
    assert_eq!(types_defined(source), ["A", "B", "D", "F", "G"]);
}
