//! Tells that a test did not run here. libtest knows no such outcome, so a skipped test returns as if it had
//! passed; what it leaves in the file named by `$BTCGRAPH_SKIPS` is printed by `make test` at the end.

use std::io::Write;
use std::path::PathBuf;

/// Records that the test `name` did not run here, and why.
pub(crate) fn skip(name: &str, reason: &str) {
    eprintln!("{name}: skipped: {reason}");
    let Some(file) = std::env::var_os("BTCGRAPH_SKIPS").filter(|file| !file.is_empty()) else { return };
    let line = format!("{name}\t{reason}\n");
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).expect("open $BTCGRAPH_SKIPS");
    // one write a line: the tests of a process, and the processes of a run, append at the same time
    file.write_all(line.as_bytes()).expect("append to $BTCGRAPH_SKIPS");
}

/// The folder or file `path` of the data shared by all clones, or `None`, with the test `name` recorded as skipped.
#[allow(dead_code)] // the first tests on real chains come with the importer
pub(crate) fn shared_data(name: &str, path: &str) -> Option<PathBuf> {
    let found = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    if !found.exists() {
        skip(name, &format!("shared data absent: ../shared/{path}"));
        return None;
    }
    Some(found)
}
