//! The fenced blocks of README.md and docs/, which tests run, ask or compare.

use std::path::Path;

/// How fences of shell examples are marked.
const SHELL: [&str; 5] = ["sh", "bash", "shell", "console", "zsh"];

/// A fenced block of a page.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) page: String,
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
}

impl Fence {
    pub(crate) fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    pub(crate) fn is_shell(&self) -> bool {
        SHELL.contains(&self.language.as_str())
    }

    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

fn fences_of(page: &str, text: &str) -> Vec<Fence> {
    let (mut fences, mut open): (Vec<Fence>, Option<(usize, Fence)>) = (Vec::new(), None);
    for (line, number) in text.lines().zip(1..) {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let (page, language) = (page.to_owned(), language.trim().to_owned());
                open = Some((indent, Fence { page, line: number, language, text: String::new() }));
            }
            (Some(_), Some("")) => fences.extend(open.take().map(|(_, fence)| fence)),
            (Some((indent, fence)), _) => {
                fence.text += line.get(*indent..).unwrap_or_default();
                fence.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a fence does not end");
    fences
}

fn pages(folder: &Path, found: &mut Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root.join(&path).is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// The shell example of a page that begins with this line.
pub(crate) fn found((page, first_line): (&str, &str)) -> Fence {
    let mut all = fences().into_iter();
    let found = all.find(|fence| fence.is_shell() && fence.page == page && fence.first_line() == first_line);
    found.unwrap_or_else(|| panic!("{page} has no shell example that begins with: {first_line}"))
}

/// The fences of all pages, in the order of each.
pub(crate) fn fences() -> Vec<Fence> {
    let mut all = vec!["README.md".to_owned()];
    pages(Path::new("docs"), &mut all);
    all.sort();
    let read = |page: &String| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    all.iter().flat_map(|page| fences_of(page, &read(page))).collect()
}
