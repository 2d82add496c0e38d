//! `btcgraph log`: changes what a running server logs.

use btcgraph::settings::Settings;
use clap::Args;

use super::failure::Failure;
use super::{admin, config};

#[derive(Args)]
pub(super) struct LogArguments {
    /// What to log from now on, such as `btcgraph=debug,warn`; the setting log.filter if not given
    filter: Option<String>,
}

/// Prints the filter that is in force then.
pub(super) fn run(settings: &Settings, arguments: &LogArguments) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let in_force = admin::command(settings, "/log", filter.as_bytes())?;
    config::to_stdout(&(in_force.trim_end().to_owned() + "\n"))
}
