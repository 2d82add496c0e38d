//! `btcgraph config`: every setting with its value and its meaning, as a settings file.

use std::io::{self, Write};

use btcgraph::settings::{Settings, defaults};

use super::failure::{Exit, Failure, OrExit};

/// Prints the settings in effect.
pub(super) fn print(settings: &Settings) -> Result<(), Failure> {
    to_stdout(&settings.to_documented_toml()?)
}

/// Prints the defaults file as it is.
pub(super) fn print_defaults() -> Result<(), Failure> {
    to_stdout(defaults())
}

/// Prints a text. A reader that closes the pipe early, as in `btcgraph config | head`, is not a failure.
pub(super) fn to_stdout(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.or_exit(Exit::Failed, "cannot print"),
    }
}
