//! Shows the progress of a transfer: a bar with rate and remaining time on a terminal, otherwise a log line now and then.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tracing::info;

/// The interval between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Bytes that are done, shared by the tasks that transfer them.
pub(super) struct TransferProgress {
    doing: &'static str,
    all_bytes: u64,
    done_bytes: AtomicU64,
    began: Instant,
    logged: Mutex<Instant>,
    /// On a terminal.
    bar: Option<ProgressBar>,
}

impl TransferProgress {
    pub(super) fn new(doing: &'static str, all_bytes: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(all_bytes).with_message(doing);
            let template = "{bar:32} {percent} %  {msg}: {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
            // the template is a valid constant; a plain bar would do, too
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let mut progress = Self::in_background(doing, all_bytes);
        progress.bar = bar;
        progress
    }

    /// Without a bar: the log continues meanwhile.
    pub(super) fn in_background(doing: &'static str, all_bytes: u64) -> Self {
        let now = Instant::now();
        Self { doing, all_bytes, done_bytes: AtomicU64::new(0), began: now, logged: Mutex::new(now), bar: None }
    }

    /// So many more bytes are done.
    pub(super) fn add(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
            return;
        }
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let Some(mut logged) = self.logged.try_lock().filter(|logged| logged.elapsed() >= INTERVAL) else { return };
        *logged = Instant::now();
        let percent = done.saturating_mul(100) / self.all_bytes.max(1);
        let rate = done / self.began.elapsed().as_secs().max(1);
        let left = self.all_bytes.saturating_sub(done) / rate.max(1);
        info!(
            percent,
            done_mib = done >> 20,
            all_mib = self.all_bytes >> 20,
            kib_per_second = rate >> 10,
            seconds_left = left,
            "{}",
            self.doing
        );
    }

    /// So many bytes that were done have to be done again.
    pub(super) fn take_back(&self, bytes: u64) {
        match &self.bar {
            Some(bar) => bar.dec(bytes),
            None => drop(self.done_bytes.fetch_sub(bytes, Ordering::Relaxed)),
        }
    }
}

impl Drop for TransferProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
