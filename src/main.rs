//! The `btcgraph` command: reads the settings, builds the pieces, runs them, stops them cleanly.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod commands;

// a request makes some hundred small allocations on whichever thread is free (benches/README.md has the figures)
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
