//! Programs of the system that some tests need: a load balancer, shells, a formatter of man pages.

use std::path::PathBuf;

use super::skips::{current_test, skip};

/// The path of a program; `None`, with the running test recorded as skipped, if there is none. What only administrators run
/// is not on everybody's PATH.
#[track_caller]
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file());
    if found.is_none() {
        skip(&current_test(), &format!("no {name}: `scripts/tools.sh` installs it on Debian"));
    }
    found
}
