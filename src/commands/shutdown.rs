//! The signals that stop btcgraph. The first one starts a graceful shutdown; the second one ends the process at once.

use std::io;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A token that ctrl-c or SIGTERM cancels, from now on. The second signal ends the process at once, which loses only
/// uncommitted work.
pub(super) fn on_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let mut signals = StopSignals::listen()?;
    tokio::spawn(async move {
        let (name, _) = signals.next().await;
        info!(signal = name, "stopping; a second signal stops at once");
        cancel.cancel();
        let (name, code) = signals.next().await;
        warn!(signal = name, "stopped at once");
        std::process::exit(code);
    });
    Ok(stop)
}

/// Cancels the token also when the terminal closes, for commands that must clean up then.
pub(super) fn on_hangup(stop: &CancellationToken) -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut hangup, stop) = (signal(SignalKind::hangup())?, stop.clone());
        tokio::spawn(async move {
            hangup.recv().await;
            stop.cancel();
        });
    }
    #[cfg(not(unix))]
    let _ = stop;
    Ok(())
}

/// Both signals, with their names and the exit codes that shells give them (128 and the signal's number).
#[cfg(unix)]
struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StopSignals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(StopSignals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 130),
            _ = self.terminate.recv() => ("SIGTERM", 143),
        }
    }
}

/// Ctrl-c alone, where there is no SIGTERM.
#[cfg(windows)]
struct StopSignals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl StopSignals {
    fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(StopSignals)
    }

    async fn next(&mut self) -> (&'static str, i32) {
        self.0.recv().await;
        ("ctrl-c", 130)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    #[tokio::test]
    async fn a_signal_cancels_the_token() {
        let stop = super::on_signal().unwrap();
        assert!(!stop.is_cancelled());
        let sent = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();
        assert!(sent.success());
        tokio::time::timeout(Duration::from_secs(30), stop.cancelled()).await.expect("the token is cancelled");
    }
}
