//! The commands by which docs/testing.md plays histories: as they stand there, by a `cargo` that has the tests built already,
//! because it is one of them that runs it.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::pages::found;

const ALL: (&str, &str) = ("docs/testing.md", "cargo test --test it through_any_history -- --nocapture");
const ONE: (&str, &str) =
    ("docs/testing.md", "BTCGRAPH_HISTORY=17 cargo test --test it through_any_history_the_index -- --nocapture");

/// The pages and first lines of the examples that are run here.
pub(crate) const PLAYED: [(&str, &str); 2] = [ALL, ONE];

/// `cargo test --test it`, with what follows.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "test --test it" ] || exit 64
shift 3
for argument; do
  shift
  [ "$argument" = -- ] || set -- "$@" "$argument"
done
exec "$TESTS" "$@"
"#;

/// What an example prints with one history for each test, whatever seed it asks for.
fn played(example: (&str, &str), seed: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    std::fs::write(&cargo, CARGO).unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::env::join_paths([folder.path().to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &found(example).text]).env("PATH", path).env("TESTS", std::env::current_exe().unwrap());
    shell.env_remove("BTCGRAPH_HISTORY").envs(seed.map(|seed| ("BTCGRAPH_HISTORY", seed)));
    let output = shell.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn the_examples_of_the_page_play_what_it_says() {
    // all histories take minutes, and the tests that it names play them anyway
    let all = played(ALL, Some("3"));
    assert!(all.contains("\nrunning 4 tests\n") && all.contains("test result: ok. 4 passed"), "{all}");
    let one = played(ONE, None);
    assert!(one.contains("\nrunning 1 test\n") && one.contains("test result: ok. 1 passed"), "{one}");
    for printed in [all, one] {
        assert!(printed.contains("reorg"), "the counts of events are printed: {printed}");
    }
}
