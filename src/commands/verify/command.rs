//! The command: runs the check in this process, or asks the server that has the index open, and prints the report.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use btcgraph::index::{IndexError, IndexFile, IndexOptions};
use btcgraph::node::StopFlag;
use btcgraph::settings::Settings;
use btcgraph::sync;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::super::failure::{Exit, Failure, OrExit};
use super::super::pieces;
use super::check::{CheckResult, Outcome, Subject, VerifyArguments, ask_node, check};
use super::remote;
use super::watch::Watch;

/// Runs until it is done or `stop` is cancelled.
pub(crate) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: VerifyArguments,
) -> Result<(), Failure> {
    let (here, flag, asked) = (settings.clone(), pieces::stop_flag(&stop), arguments.clone());
    let outcome = match pieces::blocking(move || check_here(&here, &flag, &asked)).await? {
        Checked::Here(outcome) => outcome,
        Checked::InUse(in_use) => tokio::select! {
            outcome = remote::ask(settings, arguments, &in_use) => outcome?,
            () = stop.cancelled() => Outcome::Stopped,
        },
    };
    conclude(&outcome)
}

/// Where the check runs.
enum Checked {
    /// In this process, with this outcome.
    Here(Outcome),
    /// In the process that has the file open.
    InUse(IndexError),
}

fn check_here(settings: &Settings, stop: &StopFlag, arguments: &VerifyArguments) -> Result<Checked, Failure> {
    let stopped = Ok(Checked::Here(Outcome::Stopped));
    // the check reads everything once and in order: the cache needs little memory, and sorting gets the rest
    let cache_bytes = pieces::buffer_bytes(settings);
    let options = IndexOptions { cache_bytes, ..pieces::index_options(settings) };
    let watch = Arc::new(Mutex::new(Watch::default()));
    let (of_file, to_stop) = (Arc::clone(&watch), stop.clone());
    let opened = IndexFile::open(
        options,
        Box::new(move |progress| {
            if to_stop.is_raised() {
                return ControlFlow::Break(());
            }
            let mut watch = of_file.lock();
            watch.step(progress.phase, progress.done, progress.total);
            ControlFlow::Continue(())
        }),
    );
    let file = match opened {
        Err(in_use @ IndexError::InUse { .. }) => return Ok(Checked::InUse(in_use)),
        Err(IndexError::Interrupted) => return stopped,
        opened => opened?,
    };
    let asked = if arguments.without_node {
        None
    } else {
        match ask_node(settings, stop, file.tip()) {
            Err(_) if stop.is_raised() => return stopped,
            asked => Some(asked),
        }
    };
    let checked = file.check();
    let mut watch = watch.lock();
    watch.finish();
    let mut index = match checked {
        Err(IndexError::Interrupted) => return stopped,
        checked => checked?,
    };
    index.set_pools(Arc::new(pieces::pools(settings)?));
    // damage is reported also while the node is unreachable
    let asked = asked.transpose()?;
    if let Some(asked) = &asked {
        sync::read_frozen_blocks(&index, asked.node(), settings.node.blocks_dir().map(Into::into))?;
    }
    let memory = cache_bytes.saturating_mul(3);
    let subject = Subject { snapshot: &index.snapshot()?, checksums_match: true };
    let outcome = check(&subject, settings, memory, arguments, asked, stop, &mut |progress| {
        watch.step(progress.phase, progress.done, progress.total);
    });
    watch.finish();
    outcome.map(Checked::Here)
}

/// Prints the report. Differences fail the command, and so do comparisons that were not made, also because a signal stopped
/// the check.
fn conclude(outcome: &Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Stopped => {
            let stopped = "INCOMPLETE: stopped before the check was done, so there is no verdict on the index";
            Err(Failure::new(Exit::Incomplete, stopped))
        }
        Outcome::Done(CheckResult { report, differences, is_complete, checksums_match }) => {
            std::io::stdout().lock().write_all(report.as_bytes()).or_exit(Exit::Failed, "cannot print the report")?;
            match (differences, is_complete) {
                (0, true) => Ok(()),
                (0, false) => Err(Failure::new(Exit::Incomplete, "not everything was compared; see the result above")),
                _ => Err(Failure::new(Exit::Failed, differing(*checksums_match))),
            }
        }
    }
}

/// The error of a check that found differences.
fn differing(checksums_match: bool) -> String {
    let mut message = "the index has errors; see the list above".to_owned();
    if !checksums_match {
        message.push_str(
            ". The file may be damaged: its page checksums were not compared, because a running server has it open. Stop the \
             server and run `btcgraph verify`: exit code 4 means that the file is damaged",
        );
    }
    message
}
