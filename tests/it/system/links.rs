//! The pages of the repository lead somewhere: every relative link names a file and a heading of it, and every path of the
//! source tree that a page names in code exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the paths begin with that are checked where a page names them in code.
const FOLDERS: [&str; 9] =
    ["src/", "tests/", "docs/", "benches/", "scripts/", "fuzz/", "packaging/", "playground/", "examples/"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn markdown_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// All pages, by their paths from the root.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root()).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    markdown_below(Path::new("docs"), &mut found);
    markdown_below(Path::new("benches"), &mut found);
    found.sort();
    found
}

/// The text without fenced blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of links that stay in the repository.
fn links(prose: &str) -> Vec<&str> {
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}

/// The paths of the source tree that the page names in code; a pattern of several files does not count.
fn named_paths(prose: &str) -> Vec<&str> {
    let code = prose.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        FOLDERS.iter().any(|folder| text.starts_with(folder))
            && text.chars().all(|char| char.is_ascii_alphanumeric() || "_-./".contains(char))
    };
    code.filter(is_path).collect()
}

/// What is wrong with the links and paths of a page.
fn faults(page: &Path) -> Vec<String> {
    let text = prose(&std::fs::read_to_string(root().join(page)).unwrap());
    let mut faults = Vec::new();
    for link in links(&text) {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { root().join(page) } else { root().join(page).parent().unwrap().join(file) };
        if !target.exists() {
            faults.push(format!("{}: the link {link} leads to no file", page.display()));
        } else if !anchor.is_empty() && !anchors(&prose(&std::fs::read_to_string(target).unwrap())).contains(anchor) {
            faults.push(format!("{}: the link {link} leads to no heading", page.display()));
        }
    }
    let missing = named_paths(&text).into_iter().filter(|path| !root().join(path).exists());
    faults.extend(missing.map(|path| format!("{}: {path} does not exist", page.display())));
    faults
}

#[test]
fn links_and_paths_of_pages_exist() {
    let pages = pages();
    assert!(pages.len() >= 20, "{pages:?}");
    let faults: Vec<_> = pages.iter().flat_map(|page| faults(page)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# The API\n## `GAP`, and what follows\n```sh\n# no heading\n```\n";
    assert_eq!(anchors(&prose(text)), BTreeSet::from(["the-api".to_owned(), "gap-and-what-follows".to_owned()]));
}

#[test]
fn links_and_paths_are_found_in_prose() {
    let text = prose("[a](b.md#c) `src/lib.rs` `src/*.rs`\n```text\n[x](y.md)\n```\n[d](https://e.f) `cargo`");
    assert_eq!((links(&text), named_paths(&text)), (vec!["b.md#c"], vec!["src/lib.rs"]));
}
