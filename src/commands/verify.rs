//! `btcgraph verify`: checks the index against itself and against the node. While a server holds the index open, that
//! server does it.

mod check;
mod remote;
mod watch;

use std::io::Write;

use btcgraph::index::{Index, IndexError, IndexOptions};
use btcgraph::node::StopFlag;
use btcgraph::settings::Settings;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};
use super::pieces;
use check::{Outcome, check};
use watch::Watch;

pub(super) use check::VerifyArguments;
pub(super) use remote::answer;

/// Runs until it is done or `stop` is cancelled.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: VerifyArguments,
) -> Result<(), Failure> {
    // everything is read once and in order, so that the cache needs little of the memory and sorting the rest
    let cache_bytes = pieces::buffer_bytes(settings);
    let options = IndexOptions { cache_bytes, ..pieces::index_options(settings) };
    let opened = pieces::blocking(move || match Index::open_existing(&options) {
        Err(error @ IndexError::InUse { .. }) => Ok(Err(error)),
        opened => Ok(Ok(opened?)),
    });
    let outcome = match opened.await? {
        Ok(index) => {
            let (settings, flag) = (settings.clone(), pieces::stop_flag(&stop));
            pieces::blocking(move || check_here(&index, &settings, &flag, &arguments)).await?
        }
        Err(in_use) => tokio::select! {
            outcome = remote::ask(settings, arguments, &in_use) => outcome?,
            () = stop.cancelled() => Outcome::Stopped,
        },
    };
    conclude(&outcome)
}

fn check_here(
    index: &Index,
    settings: &Settings,
    stop: &StopFlag,
    arguments: &VerifyArguments,
) -> Result<Outcome, Failure> {
    let memory = pieces::buffer_bytes(settings).saturating_mul(3);
    let mut watch = Watch::default();
    let outcome = check(&index.snapshot()?, settings, memory, arguments, stop, &mut |progress| {
        watch.step(progress.phase, progress.done, progress.total);
    });
    watch.finish();
    outcome
}

/// Prints the report. Differences fail the command; a signal ends it without a verdict.
fn conclude(outcome: &Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Stopped => {
            info!("stopped before the check was done: whether the index is as it must be was not found out");
            Ok(())
        }
        Outcome::Done { report, differences } => {
            std::io::stdout().lock().write_all(report.as_bytes()).or_exit(Exit::Failed, "cannot print the report")?;
            match differences {
                0 => Ok(()),
                _ => Err(Failure::new(Exit::Failed, "the index is not what it must be; see the list above")),
            }
        }
    }
}
