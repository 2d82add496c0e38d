//! The `btcgraph` command: reads the settings, builds the pieces, runs them, stops them cleanly.

mod commands;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::CommandLine::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.report());
            failure.exit().into()
        }
    }
}
