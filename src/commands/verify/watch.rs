//! The progress of the check, for people.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use tracing::info;

/// Shows a bar for each phase on a terminal, and a line for each in the log elsewhere.
#[derive(Default)]
pub(super) struct Watch {
    phase: String,
    bar: Option<ProgressBar>,
}

impl Watch {
    /// `done` of `total` transactions or rows of this phase are done.
    pub(super) fn step(&mut self, phase: &str, done: u64, total: u64) {
        if self.phase != phase {
            self.finish();
            phase.clone_into(&mut self.phase);
            if std::io::stderr().is_terminal() {
                let bar = ProgressBar::new(total);
                // the template is a valid constant; with an invalid one the bar would be plain
                if let Ok(style) =
                    ProgressStyle::with_template("{msg:22} {bar:32} {human_pos} of {human_len}  {per_sec}  {eta} left")
                {
                    bar.set_style(style);
                }
                bar.set_message(self.phase.clone());
                self.bar = Some(bar);
            } else {
                info!("{phase}");
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Removes the bar from the terminal.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
