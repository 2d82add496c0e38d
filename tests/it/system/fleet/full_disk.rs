//! Publishers and joiners whose disk is full: a clear message, and the next command goes on.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::{Ended, Stage, run};
use crate::sync::faults::may_mount;

/// Runs a command with `$DIRECTORY` on a file system of `$SMALL` bytes, and again when that has 256 MiB. Before that it makes the
/// files `$PARTS` there, of lines with a length and a path, without space. Prints the messages of the first command; those of the second are on the standard error.
const ON_A_SMALL_DISK: &str = r#"
    mount -t tmpfs -o size="$SMALL" none "$DIRECTORY" || exit 99
    printf %s "$PARTS" | while read -r length path; do
        mkdir -p "$(dirname "$DIRECTORY/$path")" && truncate -s "$length" "$DIRECTORY/$path" || exit 98
    done
    "$@" 2>&1 && exit 97
    mount -o remount,size=256m "$DIRECTORY" || exit 96
    "$@""#;

/// What the command prints on the small disk. It must succeed on the large one.
#[track_caller]
fn refused(command: &Command, directory: &Path, small: u64, parts: &str) -> String {
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("DIRECTORY", directory).env("SMALL", small.to_string()).env("PARTS", parts);
    let Ended { code, printed, stderr, .. } = run(shell);
    assert_eq!(code, Some(0), "{printed}{stderr}");
    printed
}

#[test]
fn a_joiner_with_a_full_disk_says_so_and_continues() {
    if !may_mount() {
        return;
    }
    let stage = Stage::start(60);
    stage.publish().assert_success();
    let directory = tempfile::tempdir().unwrap();
    let join = stage.program(directory.path(), &["import", "--from", &stage.url()]);
    let printed = refused(&join, directory.path(), 1 << 20, "");
    assert!(printed.contains("the published blocks do not fit on the disk: "), "{printed}");
    // a download of which the file system did not take the space
    let part = |(path, length): (PathBuf, u64)| {
        format!("{length} regtest/index.joining/{}.part\n", path.file_name().unwrap().display())
    };
    let parts: String = stage.objects("objects").into_iter().map(part).collect();
    let printed = refused(&join, directory.path(), stage.largest_object().metadata().unwrap().len() / 2, &parts);
    assert!(printed.contains(&format!("cannot make space for {}", directory.path().display())), "{printed}");
    assert!(printed.contains("No space left on device"), "{printed}");
}

#[test]
fn a_publisher_with_a_full_disk_says_so_and_continues() {
    if !may_mount() {
        return;
    }
    let stage = Stage::start(40);
    // checksums and notes of uploads are beside the index
    let notes = stage.publisher.path().join("regtest/index.publishing");
    std::fs::create_dir_all(&notes).unwrap();
    let publish = stage.program(stage.publisher.path(), &["publish", "--to", &stage.url()]);
    let printed = refused(&publish, &notes, 4 << 10, "");
    assert!(printed.contains("No space left on device"), "{printed}");
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}
