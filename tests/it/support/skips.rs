//! The record of tests that could not run here. libtest knows only "passed" and "failed", so a test that lacks what it
//! needs says so in the file named by `BTCGRAPH_SKIPS` and returns; `make test` prints that file at its end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Appends `test_name<TAB>reason` to the file named by `BTCGRAPH_SKIPS`, and says the same on standard error.
pub(crate) fn skip(test_name: &str, reason: &str) {
    eprintln!("skipped {test_name}: {reason}");
    if let Some(path) = std::env::var_os("BTCGRAPH_SKIPS").filter(|path| !path.is_empty()) {
        let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("BTCGRAPH_SKIPS can be written");
        // one write a line, so that lines of tests that run at once do not mix
        file.write_all(format!("{test_name}\t{reason}\n").as_bytes()).expect("BTCGRAPH_SKIPS can be written");
    }
}

/// The name of the running test, as libtest names its thread; with one test thread, the place in the source.
#[track_caller]
pub(crate) fn current_test() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::panic::Location::caller().to_string(),
    }
}

/// A file of the real chain data that developers share, or `None`, with the running test recorded as skipped.
#[track_caller]
pub(crate) fn shared_data(path: &str) -> Option<PathBuf> {
    let found = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(path);
    if found.exists() {
        return Some(found);
    }
    skip(&current_test(), &format!("shared data absent: ../shared/data/{path}"));
    None
}
