//! Logs the progress of building optional tables, and leaves the processors to requests meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use tracing::info;

use super::super::progress::LOG_INTERVAL;
use crate::chain::float::to_f64;
use crate::index::{BuildPhase, BuildProgress};

/// The longest pause of the thread at a time.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// Watches a thread that builds tables, of which each is named: logs its progress and, if the thread `yields` to requests, lets
/// it rest as long as it works.
pub(super) fn watch_build(yields: bool) -> impl FnMut(&str, BuildProgress) {
    let (mut log, mut worked) = (BuildLog::new(), Instant::now());
    move |table, progress| {
        log.report(table, progress);
        if yields {
            thread::sleep(worked.elapsed().min(LONGEST_REST));
            worked = Instant::now();
        }
    }
}

/// Logs the progress of builds every ten seconds.
struct BuildLog {
    /// The table and the phase that are being worked on, and since when.
    current: Option<(String, BuildPhase)>,
    began: Instant,
    last_line: Instant,
}

impl BuildLog {
    fn new() -> Self {
        let now = Instant::now();
        Self { current: None, began: now, last_line: now }
    }

    fn report(&mut self, table: &str, progress: BuildProgress) {
        let is_current = |(of, phase): &(String, BuildPhase)| of == table && *phase == progress.phase;
        if !self.current.as_ref().is_some_and(is_current) {
            self.current = Some((table.to_owned(), progress.phase));
            self.began = Instant::now();
        }
        if self.last_line.elapsed() < LOG_INTERVAL {
            return;
        }
        self.last_line = Instant::now();
        let (rate, seconds_left) = rate_and_seconds_left(progress, self.began.elapsed());
        let BuildProgress { done, total, .. } = progress;
        let percent = format!("{:.1}", 100.0 * to_f64(done) / to_f64(total.max(1)));
        match progress.phase {
            BuildPhase::Reading => info!(
                table,
                transactions = done,
                of = total,
                %percent,
                transactions_per_second = format_args!("{rate:.0}"),
                seconds_left,
                "reading blocks for an optional table"
            ),
            BuildPhase::Writing => info!(
                table,
                rows = done,
                of = total,
                %percent,
                rows_per_second = format_args!("{rate:.0}"),
                seconds_left,
                "writing an optional table"
            ),
        }
    }
}

/// What a phase does a second, and how many seconds it lasts at that rate.
fn rate_and_seconds_left(progress: BuildProgress, elapsed: Duration) -> (f64, Option<u64>) {
    let BuildProgress { done, total, before, .. } = progress;
    let own = done.saturating_sub(before);
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let left = total.saturating_sub(done).saturating_mul(millis).checked_div(own);
    (1_000.0 * to_f64(own) / to_f64(millis), left.map(|left| left.div_ceil(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_from_what_this_process_did() {
        let after = |done, before, seconds| {
            let progress = BuildProgress { phase: BuildPhase::Reading, done, total: 1_000, before };
            rate_and_seconds_left(progress, Duration::from_secs(seconds))
        };
        let (rate, left) = after(500, 400, 10);
        assert!((rate - 10.0).abs() < 1e-9 && left == Some(50), "{rate} {left:?}");
        assert_eq!(after(400, 400, 10).1, None);
        assert_eq!(after(1_000, 0, 10).1, Some(0));
    }
}
