//! The log on standard error. Standard output is for the results of commands.

use std::io::IsTerminal;
use std::sync::OnceLock;

use btcgraph::settings::{LogFormat, LogSettings};
use tracing_subscriber::{EnvFilter, reload};

use super::failure::{Exit, Failure, OrExit};

/// Starts the log for the whole process.
pub(super) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.filter)
        .or_exit(Exit::Usage, format!("the setting log.filter is not a filter: {:?}", settings.filter))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format {
        LogFormat::Human => {
            let log = log.with_ansi(colours()).with_filter_reloading();
            change_by(log.reload_handle());
            log.try_init()
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            change_by(log.reload_handle());
            log.try_init()
        }
    };
    started.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the log: {error}")))
}

type ChangeFilter = dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync;

/// Changes the filter of the log; empty before the log starts.
static CHANGE: OnceLock<Box<ChangeFilter>> = OnceLock::new();

fn change_by<S: 'static>(handle: reload::Handle<EnvFilter, S>) {
    // the log starts once in a process
    let _ = CHANGE.set(Box::new(move |filter| handle.reload(filter)));
}

/// Logs what this filter says from now on. Errors: why it cannot.
pub(super) fn set_filter(text: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(text).map_err(|error| format!("{text:?} is not a filter of the log: {error}"))?;
    let change = CHANGE.get().ok_or("the log has not started")?;
    change(filter).map_err(|error| format!("cannot change the log: {error}"))
}

/// Colours are used on a terminal, unless NO_COLOR is set (<https://no-color.org>).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
