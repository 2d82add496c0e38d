//! No two files import each other, and in most folders not even by way of others.
//!
//! A circle of files can only be read as one. The types of the schema are the exception, because GraphQL types name each
//! other: a block has transactions, and a transaction has a block.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tokens::tokens;
use super::{module_path, rust_files};

/// The types of the schema, which import each other.
const TYPES: &[&str] = &["api", "types"];

/// Folders of which files import each other by way of others. This list only shrinks.
const WITH_CIRCLES: &[&[&str]] = &[TYPES, &["index"]];

/// Modules whose root is a table of contents that none of their own files imports. This list only grows.
const WITH_UNUSED_ROOT: &[&str] = &["execution", "server"];

/// The most files in a folder.
const FOLDER_FILES: usize = 25;

type Module = Vec<String>;

#[test]
fn no_two_files_import_each_other() {
    let sources = sources();
    assert!(sources.len() > 500, "the sources are where this test looks for them");
    let pairs = pairs(&without(imports_of(&sources.iter().collect()), &[TYPES]));
    assert!(pairs.is_empty(), "move what these files share into a file of its own:\n{}", pairs.join("\n"));
}

#[test]
fn no_files_import_each_other_by_way_of_others() {
    let circles = circles(&without(imports_of(&sources().iter().collect()), WITH_CIRCLES));
    assert!(circles.is_empty(), "move what these files share into a file of its own:\n{}", circles.join("\n"));
}

#[test]
fn no_file_imports_the_root_of_its_module() {
    let sources = sources();
    for top in WITH_UNUSED_ROOT {
        let files: BTreeMap<_, _> = sources.iter().filter(|(module, _)| module[0] == *top).collect();
        assert!(files.len() > 5, "the sources of {top} are where this test looks for them");
        let importers = importers_of_root(top, &files);
        assert!(importers.is_empty(), "import the file that defines it instead of {top}: {importers:?}");
    }
}

#[test]
fn a_folder_of_sources_holds_at_most_25_files() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for (module, is_head) in sources().iter().map(|(module, source)| (module, source.is_head)) {
        let folder = if is_head { module.join("/") } else { module[..module.len() - 1].join("/") };
        *folders.entry(folder).or_default() += 1;
    }
    folders.retain(|_, files| *files > FOLDER_FILES);
    assert!(folders.is_empty(), "folders with more than {FOLDER_FILES} files: {folders:?}");
}

struct Source {
    tokens: Vec<String>,
    /// Whether it is the head file of a folder, `mod.rs`.
    is_head: bool,
}

fn sources() -> BTreeMap<Module, Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let source = |file: &Path| Source {
        tokens: without_tests(tokens(&std::fs::read_to_string(file).expect("a readable source file"))),
        is_head: file.file_name().is_some_and(|name| name == "mod.rs"),
    };
    files
        .iter()
        .map(|file| (module_path(file.strip_prefix(&src).expect("a file of src")), source(file)))
        .filter(|(module, _)| module.iter().all(|name| name != "tests"))
        .collect()
}

fn is_in(module: &[String], folder: &[&str]) -> bool {
    module.len() >= folder.len() && module.iter().zip(folder).all(|(name, expected)| name == expected)
}

/// The tokens outside `mod tests { … }`.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let Some(start) = tokens.windows(3).position(|found| found == ["mod", "tests", "{"]) else { return tokens };
    let mut depth = 0_usize;
    let length = tokens[start + 2..].iter().position(|token| {
        depth = match token.as_str() {
            "{" => depth + 1,
            "}" => depth - 1,
            _ => depth,
        };
        depth == 0
    });
    let end = length.map_or(tokens.len(), |length| start + 2 + length + 1);
    [&tokens[..start], &tokens[end..]].concat()
}

/// A path that a file names, from the root of the crate.
struct Named {
    path: Vec<String>,
    /// Whether it is in a `use` that is visible outside the file.
    is_public: bool,
    /// Whether it is in any `use`, so that the file knows its last name.
    is_use: bool,
}

/// Which of the files each of them imports. Re-exports of a head file are not imports, and an import by way of one is an
/// import of the file that it leads to.
fn imports_of(files: &BTreeMap<&Module, &Source>) -> BTreeMap<Module, BTreeSet<Module>> {
    let is_file = |path: &[String]| files.contains_key(&path.to_vec());
    let named: BTreeMap<&Module, Vec<Named>> =
        files.iter().map(|(module, source)| (*module, named(module, source, &is_file))).collect();
    let mut known: BTreeMap<(&[String], &str), &[String]> = BTreeMap::new();
    for (module, paths) in &named {
        for Named { path, .. } in paths.iter().filter(|named| named.is_use) {
            if let Some(last) = path.last() {
                known.insert((module, last), path);
            }
        }
    }
    let file_of = |path: &[String]| -> Option<Module> {
        let (mut path, mut seen) = (path.to_vec(), BTreeSet::new());
        loop {
            let length = (1..=path.len()).rev().find(|length| is_file(&path[..*length]))?;
            let (file, rest) = path.split_at(length);
            // a name of which two uses lead to each other is that of the file reached last
            let is_new = seen.insert(path.clone());
            match rest.first().and_then(|name| known.get(&(file, name.as_str()))) {
                Some(found) if is_new && (found.len() != length + 1 || found[..length] != *file) => {
                    path = [found, &rest[1..]].concat();
                }
                _ => return Some(file.to_vec()),
            }
        }
    };
    let imports = named.iter().map(|(module, paths)| {
        let is_head = files[*module].is_head;
        let imported = paths.iter().filter(|named| !(is_head && named.is_public));
        let imported = imported.filter_map(|named| file_of(&named.path)).filter(|file| file != *module);
        ((*module).clone(), imported.collect())
    });
    imports.collect()
}

/// The files of a module that name something of its root, be it defined there or re-exported.
fn importers_of_root(top: &str, files: &BTreeMap<&Module, &Source>) -> Vec<String> {
    let is_file = |path: &[String]| files.contains_key(&path.to_vec());
    let of_root = |path: &[String]| {
        path.first().is_some_and(|first| first == top) && path.get(..2).is_none_or(|child| !is_file(child))
    };
    let imports_root = |(module, source): &(&&Module, &&Source)| {
        module.len() > 1 && named(module, source, &is_file).iter().any(|named| of_root(&named.path))
    };
    files.iter().filter(imports_root).map(|(module, _)| module.join("::")).collect()
}

/// All paths into the crate that a file names.
fn named(module: &[String], source: &Source, is_file: &dyn Fn(&[String]) -> bool) -> Vec<Named> {
    let tokens = &source.tokens;
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        // not the `use<…>` of a bound
        let is_use = token(at) == "use" && token(at + 1) != "<";
        let is_public =
            at > 0 && (token(at - 1) == "pub" || (at > 3 && token(at - 1) == ")" && token(at - 4) == "pub"));
        let (paths, end) = if is_use {
            let mut paths = Vec::new();
            let end = use_tree(tokens, at + 1, &[], &mut paths);
            (paths, end)
        } else if at > 0 && matches!(token(at - 1), "::" | "mod") {
            // a declaration names a file, and imports nothing of it
            (Vec::new(), at + 1)
        } else {
            let end = (at + 1..tokens.len()).step_by(2).find(|end| token(*end) != "::").unwrap_or(tokens.len());
            let path = tokens[at..end].iter().step_by(2).cloned().collect();
            (vec![path], end.max(at + 1))
        };
        for path in paths {
            if let Some(path) = from_the_root(module, &path, source.is_head, is_file) {
                found.push(Named { path, is_public, is_use });
            }
        }
        at = end;
    }
    found
}

/// Adds the paths of the `use` tree at `at` to `paths`, each behind `prefix`, and returns where the tree ends.
fn use_tree(tokens: &[String], mut at: usize, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = prefix.to_vec();
    loop {
        match token(at) {
            "" | ";" | "," | "}" => {
                paths.push(path);
                return at;
            }
            "{" => {
                at += 1;
                while !matches!(token(at), "" | ";" | "}") {
                    at = use_tree(tokens, at, &path, paths);
                    if token(at) == "," {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "as" => at += 1, // the new name is skipped, too
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
}

/// The path from the root of the crate, `None` for one that leads elsewhere.
fn from_the_root(
    module: &[String],
    path: &[String],
    is_head: bool,
    is_file: &dyn Fn(&[String]) -> bool,
) -> Option<Vec<String>> {
    let levels = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" if levels <= module.len() => Some([&module[..module.len() - levels], &path[levels..]].concat()),
        first if is_head => {
            let child = [module, &[first.to_owned()]].concat();
            is_file(&child).then(|| [module, path].concat())
        }
        _ => None,
    }
}

/// The imports outside these folders.
fn without(mut imports: BTreeMap<Module, BTreeSet<Module>>, folders: &[&[&str]]) -> BTreeMap<Module, BTreeSet<Module>> {
    let is_outside = |module: &Module| !folders.iter().any(|folder| is_in(module, folder));
    imports.retain(|module, _| is_outside(module));
    for imported in imports.values_mut() {
        imported.retain(is_outside);
    }
    imports
}

/// The pairs of files that import each other, in words.
fn pairs(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let is_pair = |file: &Module, other: &Module| {
        file < other && imports.get(other).is_some_and(|imported| imported.contains(file))
    };
    let pairs = imports.iter().flat_map(|(file, imported)| {
        let others: Vec<_> = imported.iter().filter(|other| is_pair(file, other)).collect();
        others.into_iter().map(|other| format!("{} ◄──► {}", file.join("::"), other.join("::")))
    });
    pairs.collect()
}

/// The groups of files that reach each other, in words.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let reached = |from: &Module| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            for imported in imports.get(file).into_iter().flatten() {
                if reached.insert(imported) {
                    next.push(imported);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&Module, BTreeSet<&Module>> = imports.keys().map(|file| (file, reached(file))).collect();
    let groups: BTreeSet<Vec<String>> = all
        .iter()
        .filter(|(file, reached)| reached.contains(*file))
        .map(|(file, reached)| {
            let back = reached.iter().filter(|other| all.get(*other).is_some_and(|reached| reached.contains(file)));
            back.map(|other| other.join("::")).collect()
        })
        .collect();
    groups.into_iter().map(|group| group.join(" ◄──► ")).collect()
}

mod the_check {
    use super::*;

    fn sources_of(files: &[(&str, &str)]) -> BTreeMap<Module, Source> {
        let source = |(file, source): &(&str, &str)| {
            let is_head = file.ends_with("mod.rs");
            (module_path(Path::new(file)), Source { tokens: without_tests(tokens(source)), is_head })
        };
        files.iter().map(source).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        circles(&imports_of(&sources_of(files).iter().collect()))
    }

    #[test]
    fn finds_two_files_that_import_each_other() {
        let found = found(&[("a/x.rs", "use super::y::{Y, other};"), ("a/y.rs", "fn f(x: crate::a::x::X) {}")]);
        assert_eq!(found, ["a::x ◄──► a::y"]);
    }

    #[test]
    fn finds_pairs_alone_outside_some_folders() {
        let sources = sources_of(&[
            ("a/x.rs", "use super::y::Y; use super::t::T;"),
            ("a/y.rs", "use super::x::X; use crate::b::z;"),
            ("a/t.rs", "use super::x::X;"),
            ("b/z.rs", "use crate::b::w;"),
            ("b/w.rs", "use crate::a::x;"),
        ]);
        let imports = without(imports_of(&sources.iter().collect()), &[&["a", "t"]]);
        assert_eq!(pairs(&imports), ["a::x ◄──► a::y"]);
    }

    #[test]
    fn ends_where_names_lead_to_each_other() {
        let found = found(&[
            ("a/x.rs", "pub use super::y::N;"),
            ("a/y.rs", "pub use super::x::N;"),
            ("a/z.rs", "use super::x::N;"),
        ]);
        assert_eq!(found, ["a::x ◄──► a::y"]);
    }

    #[test]
    fn finds_a_circle_by_way_of_a_third_file_and_a_re_export() {
        let found = found(&[
            ("a/b/mod.rs", "mod x; pub(crate) use x::X;"),
            ("a/b/x.rs", "use crate::a::z;"),
            ("a/y.rs", "use super::b::X;"),
            ("a/z.rs", "use {std::fmt, super::{y::{self, Y}, other}};"),
        ]);
        assert_eq!(found, ["a::b::x ◄──► a::y ◄──► a::z"]);
    }

    #[test]
    fn finds_a_head_file_that_uses_what_imports_it() {
        let found = found(&[("a/mod.rs", "mod x; struct A(x::X);"), ("a/x.rs", "use super::A;")]);
        assert_eq!(found, ["a ◄──► a::x"]);
    }

    #[test]
    fn finds_an_import_of_the_root() {
        let importers = |source: &str| {
            let files = [("a/mod.rs", "mod x; mod y; pub use x::X;"), ("a/x.rs", "struct X;"), ("a/y.rs", source)];
            importers_of_root("a", &sources_of(&files).iter().collect())
        };
        for source in
            ["use super::X;", "use crate::a::{self};", "fn f(x: crate::a::X) {}", "use crate::{a::{x::X, X as Y}};"]
        {
            assert_eq!(importers(source), ["a::y"], "{source}");
        }
        for source in
            ["use super::x::X;", "use crate::a::x::{self, X};", "fn f(x: crate::b::X) {}", "use crate::{b, c};"]
        {
            assert_eq!(importers(source), [""; 0], "{source}");
        }
    }

    #[test]
    fn lets_imports_run_one_way() {
        let found = found(&[
            ("a/mod.rs", "mod x; mod y; pub use x::X;"),
            ("a/x.rs", "use super::y::Y; #[cfg(test)] mod tests { use super::*; use crate::a::z::Z; }"),
            ("a/y.rs", "use std::x::X; use y::x;"),
            ("a/z.rs", "use super::{X, y::Y as Z};"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
