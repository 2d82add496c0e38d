//! Has cargo notice that the playground was built, or built anew; and says which commit the program is built from.

use std::path::Path;
use std::process::Command;

/// Where `scripts/playground.sh` leaves the playground for `src/server/playground/mod.rs` to embed.
const BUILT: &str = "playground/dist";

/// Says the commit where there is no git, as in a container that has the sources alone.
const GIVEN: &str = "BTCGRAPH_GIT_COMMIT";

fn main() {
    // cargo takes a path that does not exist for changed, every time
    let watched = if Path::new(BUILT).is_dir() { BUILT } else { "playground" };
    println!("cargo::rerun-if-changed={watched}");
    println!("cargo::rerun-if-env-changed={GIVEN}");
    let given = std::env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    // developers build after every commit, and need not wait for all of it then
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| if is_release { commit() } else { None });
    if let Some(commit) = &commit {
        println!("cargo::rustc-env={GIVEN}={commit}");
    }
    let short: String = commit.iter().flat_map(|commit| commit.chars().take(12)).collect();
    let shown = if short.is_empty() { short } else { format!(" ({short})") };
    println!("cargo::rustc-env=COMMIT_IN_PARENTHESES={shown}");
}

/// The commit that is checked out here; `None` without git, without a repository, and where the sources only lie within
/// the repository of something else.
fn commit() -> Option<String> {
    // in a linked worktree it is a file that says where, and which commit is not worth following that
    let head = Path::new(".git/HEAD");
    let reference = std::fs::read_to_string(head).ok()?;
    println!("cargo::rerun-if-changed={}", head.display());
    if let Some(branch) = reference.trim().strip_prefix("ref: ") {
        // the file of a branch may be packed away, and cargo must not get the path of one that does not exist
        for file in [Path::new(".git").join(branch), Path::new(".git/packed-refs").to_owned()] {
            if file.is_file() {
                println!("cargo::rerun-if-changed={}", file.display());
            }
        }
    }
    let output = Command::new("git").args(["rev-parse", "--verify", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let is_hash = commit.len() >= 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
    (output.status.success() && is_hash).then_some(commit)
}
