//! The log on standard error. Standard output is for the results of commands.

use std::io::IsTerminal;

use btcgraph::settings::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

use super::failure::{Exit, Failure, OrExit};

/// Starts the log for the whole process.
pub(super) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.filter)
        .or_exit(Exit::Usage, format!("the setting log.filter is not a filter: {:?}", settings.filter))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format {
        LogFormat::Human => log.with_ansi(colours()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the log: {error}")))
}

/// Colours are used on a terminal, unless NO_COLOR is set (<https://no-color.org>).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
