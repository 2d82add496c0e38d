//! The command line, and what all commands need before they start: settings, log, runtime, and the signals that stop
//! them.

use std::time::Duration;

use bitcoin::BlockHash;
use btcgraph::execution;
use btcgraph::settings::Settings;
use clap::{CommandFactory, Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use super::failure::{Exit, Failure, OrExit};
use super::flags::Flags;
use super::{
    config, demo, drain, fleet, health, import, log, logging, manual, metrics, notify, panics, serve, shutdown, token,
    verify, webhooks,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or stopped by ctrl-c or SIGTERM (a stopped `verify`: 5)
  1  the operation failed, `verify` found differences, `notify` named no block of the node or found no server
  2  the command line or the settings are wrong
  3  the node cannot be reached, refuses, or is on another network
  4  the index cannot be opened, read or written, or is damaged
  5  `verify` found no difference, but could not compare everything with the node, or was stopped
  A second ctrl-c or SIGTERM ends the process at once, with 130 or 143.";

/// A GraphQL API for the Bitcoin chain, with an index of its own, built from your Bitcoin Core node.
#[derive(Parser)]
#[command(name = "btcgraph", version = btcgraph::VERSION, after_help = EXIT_CODES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Subcommand)]
enum Command {
    /// Follow the node, keep the index up to date, and answer GraphQL requests
    Serve(serve::ServeArguments),
    /// Serve a simulated chain that grows by itself: no node needed, all files removed at the end
    Demo(demo::DemoArguments),
    /// Synchronise the index to the node's tip, then exit
    Import(import::ImportArguments),
    /// Upload the frozen blocks of the index to an object store, from which other machines join with `--from`
    Publish(fleet::publish::PublishArguments),
    /// Write a backup of the index to a directory, or bring it up to date, also while a server runs
    Backup(fleet::backup::BackupArguments),
    /// Restore a backup into a data directory without an index
    Restore(fleet::backup::RestoreArguments),
    /// Check the index against itself and against the node; a server that has it open runs the check
    Verify(verify::VerifyArguments),
    /// Notify a running server of a new block, for the node's -blocknotify="btcgraph notify %s"
    Notify {
        /// The hash of the block
        hash: BlockHash,
    },
    /// Print whether a running server is ready, and fail if it is not
    Health(health::HealthArguments),
    /// Print the metrics of a running server, as Prometheus reads them
    Metrics,
    /// Change what a running server logs, until it stops
    Log(log::LogArguments),
    /// Show a running server as not ready, so that load balancers send it no more clients
    Drain(drain::DrainArguments),
    /// Make a token for a client, and its line for the settings of the server
    Token(token::TokenArguments),
    /// Send the dead letters of a webhook again
    Webhook(webhooks::WebhookArguments),
    /// Print the GraphQL schema in the schema definition language
    Schema,
    /// Print every setting with its value and meaning, passwords masked
    Config {
        /// Print the defaults instead of the values in effect
        #[arg(long)]
        defaults: bool,
    },
    /// Print a script by which a shell completes commands and flags
    Completions(manual::CompletionArguments),
    /// Write the man pages of btcgraph and of its commands
    Man(manual::ManArguments),
}

impl CommandLine {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { command, flags } = self;
        match command {
            Command::Token(arguments) => token::run(&arguments),
            Command::Schema => config::to_stdout(btcgraph::api::sdl()),
            Command::Config { defaults: true } => config::print_defaults(),
            Command::Config { defaults: false } => config::print(&load(flags)?),
            Command::Completions(arguments) => manual::print_completions(Self::command(), &arguments),
            Command::Man(arguments) => manual::write_pages(Self::command(), &arguments),
            Command::Health(arguments) => health::run(&load(flags)?, &arguments),
            Command::Metrics => metrics::run(&load(flags)?),
            Command::Webhook(arguments) => webhooks::run(&load(flags)?, &arguments),
            Command::Log(arguments) => log::run(&load(flags)?, &arguments),
            Command::Drain(arguments) => drain::run(&load(flags)?, &arguments),
            Command::Notify { hash } => notify::run(&load(flags)?, hash),
            Command::Serve(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                serve::run(settings, stop, arguments).await
            }),
            Command::Import(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                import::run(settings, stop, arguments).await
            }),
            Command::Publish(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                fleet::publish::run(settings, stop, arguments).await
            }),
            Command::Backup(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                fleet::backup::run(settings, stop, arguments).await
            }),
            Command::Restore(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                fleet::backup::run_restore(settings, stop, arguments).await
            }),
            Command::Verify(arguments) => until_stopped(&load(flags)?, async |settings: &Settings, stop| {
                verify::run(settings, stop, arguments).await
            }),
            Command::Demo(arguments) => until_stopped(&demo::settings(flags)?, async |settings: &Settings, stop| {
                demo::run(settings, stop, arguments).await
            }),
        }
    }
}

/// The settings, with the flags of the command line.
fn load(flags: Flags) -> Result<Settings, Failure> {
    Ok(Settings::load(&flags.sources())?)
}

/// Runs `command` with the log, a runtime, and a token that a signal cancels.
fn until_stopped(
    settings: &Settings,
    command: impl AsyncFnOnce(&Settings, CancellationToken) -> Result<(), Failure>,
) -> Result<(), Failure> {
    logging::start(&settings.log)?;
    panics::log();
    let runtime = execution::runtime().or_exit(Exit::Failed, "cannot start the runtime")?;
    let result = runtime.block_on(async {
        let stop = shutdown::on_signal().or_exit(Exit::Failed, "cannot listen for signals")?;
        command(settings, stop).await
    });
    // requests that are still running have no reader any more
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_flag_gives_the_setting_of_its_name() {
        let line = "btcgraph config --listen 0.0.0.0:1 --port-file /p --data-dir /d --network regtest --rpc-url http://n:1 \
                    --rpc-user u --rpc-password p --raw-transactions index --memory 2GiB --log-format json --admin /s \
                    --zmq tcp://n:2 --blocks-dir /b --temporary-dir /t";
        let settings = Settings::load(&CommandLine::parse_from(line.split_whitespace()).flags.sources_alone()).unwrap();
        let printed = settings.to_documented_toml().unwrap();
        for expected in [
            "listen = \"0.0.0.0:1\"",
            "port_file = \"/p\"",
            "data_dir = \"/d\"",
            "network = \"regtest\"",
            "rpc_url = \"http://n:1\"",
            "rpc_user = \"u\"",
            "zmq = \"tcp://n:2\"",
            "blocks_dir = \"/b\"",
            "temporary_dir = \"/t\"",
            "raw_transactions = \"index\"",
            "memory = \"2GiB\"",
            "format = \"json\"",
            "listen = \"/s\"",
        ] {
            assert!(printed.lines().any(|line| line == expected), "{expected} in:\n{printed}");
        }
        assert_eq!(settings.node.rpc_password.expose(), "p");

        let line = "btcgraph --rpc-cookie /c import";
        let settings = Settings::load(&CommandLine::parse_from(line.split_whitespace()).flags.sources_alone()).unwrap();
        assert_eq!(settings.node.rpc_cookie, std::path::Path::new("/c"));
    }
}
