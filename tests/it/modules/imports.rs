//! The files of a module do not import each other in circles, and a folder holds few files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tokens::tokens;
use super::{module_path, rust_files};

/// Modules whose files have an order. This list only grows.
const ORDERED: &[&str] = &["server"];

/// The most files and folders in a folder of an ordered module.
const FOLDER_SIZE: usize = 25;

type Module = Vec<String>;

#[test]
fn files_of_ordered_modules_import_no_circles_and_not_their_root() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for top in ORDERED {
        let mut files = Vec::new();
        rust_files(&src.join(top), &mut files);
        let sources: BTreeMap<Module, String> = files
            .iter()
            .map(|file| (module_path(file.strip_prefix(&src).expect("a file of src")), file))
            .filter(|(module, _)| module.last().is_none_or(|name| name != "tests"))
            .map(|(module, file)| (module, std::fs::read_to_string(file).expect("a readable source file")))
            .collect();
        assert!(sources.len() > 5, "the sources are where this test looks for them");
        let imports = imports(&sources);
        let root = vec![(*top).to_owned()];
        let of_root: Vec<_> = imports.iter().filter(|(_, imports)| imports.contains(&root)).collect();
        assert!(of_root.is_empty(), "files that import {top}/mod.rs: {of_root:?}");
        assert_eq!(circle(&imports), None, "files of {top} that import each other");
    }
}

#[test]
fn folders_of_ordered_modules_hold_few_files() {
    fn check(folder: &Path) {
        let entries: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()).collect();
        assert!(entries.len() <= FOLDER_SIZE, "{} holds {} files: split it", folder.display(), entries.len());
        entries.iter().filter(|path| path.is_dir()).for_each(|path| check(path));
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for top in ORDERED {
        check(&src.join(top));
    }
}

/// The files that each file names in paths, its tests left out.
fn imports(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let files_of = |(module, source): (&Module, &String)| {
        let paths = paths(&tokens(source));
        let named = paths.iter().filter_map(|path| file_of(path, module, sources)).filter(|file| file != module);
        (module.clone(), named.collect())
    };
    sources.iter().map(files_of).collect()
}

/// The file in which a path from `module` ends, if that is one of these.
fn file_of(path: &[String], module: &Module, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let child = || [module.as_slice(), path].concat();
    let absolute = match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("super") => {
            let levels = path.iter().take_while(|name| *name == "super").count();
            [&module[..module.len().saturating_sub(levels)], &path[levels..]].concat()
        }
        Some("self") => [module.as_slice(), &path[1..]].concat(),
        _ if sources.contains_key(&child()[..=module.len()]) => child(),
        _ => return None,
    };
    (1..=absolute.len()).rev().map(|length| absolute[..length].to_vec()).find(|prefix| sources.contains_key(prefix))
}

/// The paths in a source file before its tests, each group taken apart.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let end = tokens.windows(3).position(|window| window == ["mod", "tests", "{"]).unwrap_or(tokens.len());
    let tokens = &tokens[..end];
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_name(&tokens[at]) && tokens.get(at + 1).is_some_and(|next| next == "::") {
            at = read_path(tokens, at, &[], &mut paths);
        } else {
            at += 1;
        }
    }
    paths
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads the path at `at`, which continues `prefix`, and returns where it ends.
fn read_path(tokens: &[String], mut at: usize, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = prefix.to_vec();
    while is_name(token(at)) {
        path.push(token(at).to_owned());
        at += 1;
        if token(at) != "::" {
            break;
        }
        at += 1;
    }
    if token(at) != "{" || token(at.saturating_sub(1)) != "::" {
        paths.push(path);
        return at;
    }
    at += 1;
    while at < tokens.len() && token(at) != "}" {
        at = if is_name(token(at)) { read_path(tokens, at, &path, paths) } else { at + 1 };
    }
    at + 1
}

/// Files of which each imports the next, and the last the first.
fn circle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    fn visit<'a>(
        file: &'a Module,
        imports: &'a BTreeMap<Module, BTreeSet<Module>>,
        done: &mut BTreeSet<&'a Module>,
        open: &mut Vec<&'a Module>,
    ) -> Option<Vec<Module>> {
        if let Some(start) = open.iter().position(|other| *other == file) {
            return Some(open[start..].iter().map(|file| (*file).clone()).collect());
        }
        if !done.insert(file) {
            return None;
        }
        open.push(file);
        let found = imports.get(file).into_iter().flatten().find_map(|next| visit(next, imports, done, open));
        open.pop();
        found
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|file| visit(file, imports, &mut done, &mut Vec::new()))
}

#[test]
fn a_circle_is_found_through_groups_and_super() {
    let module = |path: &str| -> Module { path.split("::").map(ToOwned::to_owned).collect() };
    let sources = |b: &str| -> BTreeMap<Module, String> {
        let files = [
            ("t", "mod a; mod b; pub use a::A;"),
            ("t::a", "use crate::{other, t::b::{self, B}}; struct A;"),
            ("t::b", b),
        ];
        files.map(|(file, source)| (module(file), source.to_owned())).into()
    };
    assert_eq!(circle(&imports(&sources("use super::a::A;"))), Some(vec![module("t::a"), module("t::b")]));
    assert_eq!(circle(&imports(&sources("use crate::t::A;"))).map(|circle| circle.len()), Some(3));
    assert_eq!(circle(&imports(&sources("use std::a::A; mod tests { use super::super::a::A; }"))), None);
}
