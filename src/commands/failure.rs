//! How a command fails: with a message for the user, its causes, and an exit code for scripts.

use std::fmt::Display;
use std::process::ExitCode;

use anyhow::Context;
use btcgraph::settings::SettingsError;
use serde::{Deserialize, Serialize};

/// The kind of failure. `--help` and docs/operations.md document the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub(crate) enum Exit {
    /// The operation failed, `verify` found differences, `notify` named no block of the node or found no server.
    Failed = 1,
    /// The command line or the settings are wrong. clap, too, exits with this one.
    Usage = 2,
    /// The node cannot be reached, refuses, or is on another network.
    Node = 3,
    /// The index cannot be opened, read or written, or is damaged.
    Index = 4,
    /// `verify` found no difference, but could not compare everything, or was stopped.
    Incomplete = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// A failure without a cause beneath it.
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Failure { exit, error: anyhow::Error::msg(message.to_string()) }
    }

    /// The kind of failure.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The report for the user: the name of the program, and the message.
    pub(crate) fn report(&self) -> String {
        format!("btcgraph: {}\n", self.message())
    }

    /// The error, and on a line of its own each cause that adds information.
    pub(crate) fn message(&self) -> String {
        let mut message = self.error.to_string();
        for cause in self.error.chain().skip(1).map(ToString::to_string) {
            // some error types contain the message of their cause
            if !message.contains(&cause) {
                message.push_str("\n  because: ");
                message.push_str(&cause);
            }
        }
        message
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure { exit: Exit::Usage, error: error.into() }
    }
}

/// Turns an error into a [`Failure`].
pub(crate) trait OrExit<T> {
    /// Converts an error to this kind of failure, with `tried` as the message and the error as its cause.
    fn or_exit(self, exit: Exit, tried: impl Display + Send + Sync + 'static) -> Result<T, Failure>;
}

impl<T, E> OrExit<T> for Result<T, E>
where
    Result<T, E>: Context<T, E>,
{
    fn or_exit(self, exit: Exit, tried: impl Display + Send + Sync + 'static) -> Result<T, Failure> {
        self.context(tried).map_err(|error| Failure { exit, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_attempt_and_each_cause_once() {
        let inner: Result<(), _> = Err(std::io::Error::other("disk full"));
        let middle = inner.context("cannot write block 7");
        let failure = middle.or_exit(Exit::Index, "cannot import").unwrap_err();
        assert_eq!(
            failure.report(),
            "btcgraph: cannot import\n  because: cannot write block 7\n  because: disk full\n"
        );

        let repeating = Err::<(), _>(anyhow::anyhow!("disk full")).context("cannot write: disk full");
        let failure = repeating.or_exit(Exit::Index, "cannot import").unwrap_err();
        assert_eq!(failure.report(), "btcgraph: cannot import\n  because: cannot write: disk full\n");
    }
}
