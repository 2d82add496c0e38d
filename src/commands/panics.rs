//! Reports a panic as a line in the log, in its format, instead of a text of its own on standard error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::thread;

use btcgraph::index::is_catching_damage;
use tracing::{debug, error};

/// Logs panics from now on. The log must have been started.
pub(super) fn log() {
    std::panic::set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or_default();
    let thread = thread::current().name().unwrap_or_default().to_owned();
    if is_catching_damage() {
        debug!(location, reason, thread, "the index file makes the database panic");
        return;
    }
    // only if RUST_BACKTRACE enables it
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    error!(
        location,
        reason,
        thread,
        backtrace,
        "a fault of btcgraph or damage to the index file: run `btcgraph verify` to check the file"
    );
}
