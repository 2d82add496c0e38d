//! Publishers and joiners that are killed at any moment, and go on.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::stage::{Stage, run};
use crate::support::program;

/// How long a command runs that is not killed.
fn duration_of(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

#[test]
fn a_publisher_and_a_joiner_that_are_killed_continue() {
    let stage = Stage::start(60);
    let rows = stage.rows(stage.publisher.path());
    let whole = tempfile::tempdir().unwrap();
    let url = format!("file://{}", whole.path().display());
    let publishing = duration_of(|| {
        run(stage.program(stage.publisher.path(), &["publish", "--to", &url])).assert_success();
    });
    std::fs::remove_dir_all(stage.publisher.path().join("regtest/index.publishing")).unwrap();
    let killed = |mut command: std::process::Command, after: Duration| {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(after);
        let _ = process.kill();
        process.wait().unwrap().success()
    };
    for round in 1..=8 {
        killed(stage.program(stage.publisher.path(), &["publish", "--to", &stage.url()]), publishing * round / 9);
    }
    stage.publish().assert_success();

    let joining = duration_of(|| stage.join(&[]).0.assert_success());
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=12 {
        killed(stage.program(directory.path(), &["import", "--from", &stage.url()]), joining * round / 14);
    }
    let ended = stage.join_in(directory.path(), &[]);
    if ended.code != Some(0) {
        // it had joined when it was killed
        assert!(ended.stderr.contains("only an empty data directory can join"), "{}", ended.stderr);
        run(stage.program(directory.path(), &["import"])).assert_success();
    }
    assert_eq!(stage.rows(directory.path()), rows);
}

#[test]
fn two_commands_do_not_publish_from_one_directory() {
    let stage = Stage::start(40);
    let lock = stage.publisher.path().join("regtest/index.publishing");
    std::fs::create_dir_all(&lock).unwrap();
    let file = std::fs::File::create(lock.join("lock")).unwrap();
    file.lock().unwrap();
    let (code, printed) = program::run(&mut stage.program(stage.publisher.path(), &["publish", "--to", &stage.url()]));
    assert_eq!(code, Some(1));
    assert!(printed.contains("another command publishes or joins with"), "{printed}");
    drop(file);
    stage.publish().assert_success();
}
