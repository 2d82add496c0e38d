//! `btcgraph drain`: takes a running server out of its load balancer, or puts it back.

use btcgraph::settings::Settings;
use clap::Args;

use super::admin;
use super::failure::Failure;

#[derive(Args)]
pub(super) struct DrainArguments {
    /// Show the server as ready again
    #[arg(long)]
    undo: bool,
}

/// Ends when the server has accepted it, which takes milliseconds.
pub(super) fn run(settings: &Settings, arguments: &DrainArguments) -> Result<(), Failure> {
    admin::command(settings, if arguments.undo { "/drain/undo" } else { "/drain" }, &[]).map(|_| ())
}
