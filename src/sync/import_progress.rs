//! Shows the progress of a bulk import: a bar with phase, rate and remaining time on a terminal, otherwise a log line every
//! ten seconds and, after the first ten, at the beginning of each phase.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use indicatif::{ProgressBar, ProgressStyle};
use tracing::info;

use super::progress::LOG_INTERVAL;
use crate::chain::raw::RawBlock;
use crate::chain::wide;
use crate::index::{ImportPhase, ImportProgress, Imported};
use crate::node::ScanProgress;
use crate::view::IndexingSpeed;

/// The parts of the whole time that reading the blocks and the phases after it take, in thousandths. Measured with
/// 5,000,000 transactions of the shape of mainnet's from block files in memory (`benches/README.md`).
const READING: u64 = 500;

/// The thousandths before a phase, and those of it.
fn share(phase: ImportPhase) -> (u64, u64) {
    match phase {
        ImportPhase::Joining => (READING, 100),
        ImportPhase::Outputs => (600, 200),
        ImportPhase::Scripts => (800, 180),
        ImportPhase::Flushing => (980, 20),
    }
}

/// The progress of one bulk import.
pub(super) struct BulkImportProgress {
    bar: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
    /// Blocks to import.
    total: u64,
    blocks: u64,
    /// Those of them that were read before this process.
    before: u64,
    transactions: u64,
    bytes: u64,
    phase: Option<ImportPhase>,
    /// Thousandths of the whole.
    done: u64,
}

impl BulkImportProgress {
    pub(super) fn new(blocks: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1_000);
            // the template is a valid constant; a plain bar would do, too
            if let Ok(style) = ProgressStyle::with_template("{bar:32} {percent} %  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self {
            bar,
            started: now,
            last_line: now,
            total: wide(blocks),
            blocks: 0,
            before: 0,
            transactions: 0,
            bytes: 0,
            phase: None,
            done: 0,
        }
    }

    /// Records the progress of the search for the blocks in the node's block files.
    pub(super) fn scanned(&mut self, ScanProgress { files_done, files }: ScanProgress) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("scanning the node's block files: {files_done} of {files}"));
        } else if self.is_line_due() {
            info!(files_done, of = files, "scanning the node's block files");
        }
    }

    /// Records that so many blocks were read before this process.
    pub(super) fn continue_at(&mut self, blocks: usize) {
        (self.blocks, self.before) = (wide(blocks), wide(blocks));
        // the search of the block files does not count
        self.started = Instant::now();
    }

    /// Records that these blocks were read, with the bytes of temporary files after that.
    pub(super) fn read(&mut self, blocks: &[(BlockHash, Vec<u8>)], temporary_bytes: u64) {
        self.blocks += wide(blocks.len());
        for (_, block) in blocks {
            self.bytes += wide(block.len());
            self.transactions += RawBlock::transaction_count(block).unwrap_or(0);
        }
        self.done = READING * self.blocks / self.total.max(1);
        let (blocks, of) = (self.blocks, self.total);
        let (rate, mib) = (self.rate(self.transactions), self.rate(self.bytes >> 20));
        let (left, temporary_mib) = (self.seconds_left(), temporary_bytes >> 20);
        if let Some(bar) = &self.bar {
            let of_disk = format!("{temporary_mib} MiB of temporary files");
            self.show(
                bar,
                left,
                &format!("block {blocks} of {of}, {rate:.0} transactions/s, {mib:.0} MiB/s, {of_disk}"),
            );
        } else if self.is_line_due() {
            info!(
                blocks,
                of,
                transactions_per_second = format_args!("{rate:.0}"),
                mib_per_second = format_args!("{mib:.0}"),
                temporary_mib,
                seconds_left = left,
                "reading blocks"
            );
        }
    }

    /// Records the progress of the phases after that.
    pub(super) fn advance(&mut self, progress: ImportProgress) {
        let ImportProgress { done, total, .. } = progress;
        let (before, of_phase) = share(progress.phase);
        self.done = before + of_phase * done / total.max(1);
        let is_new =
            self.phase.replace(progress.phase) != Some(progress.phase) && self.started.elapsed() > LOG_INTERVAL;
        let (left, temporary_mib) = (self.seconds_left(), progress.temporary_bytes >> 20);
        let phase = progress.phase.name();
        if let Some(bar) = &self.bar {
            self.show(bar, left, &format!("{phase}: {done} of {total}, {temporary_mib} MiB of temporary files"));
        } else if is_new || self.is_line_due() {
            info!(phase, done, of = total, temporary_mib, seconds_left = left, "building the index");
        }
    }

    /// The speed so far, and the remaining time of the whole; `None` until blocks were read.
    pub(super) fn speed(&self) -> Option<IndexingSpeed> {
        let remaining = Duration::from_secs(self.seconds_left()?);
        Some(IndexingSpeed { blocks_per_second: self.rate(self.blocks - self.before), remaining })
    }

    /// Ends it.
    pub(super) fn finish(self, imported: &Imported) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        info!(
            blocks = self.blocks,
            transactions = imported.range.transactions(),
            seconds = format_args!("{:.1}", self.started.elapsed().as_secs_f64()),
            transactions_per_second = format_args!("{:.0}", self.rate(imported.range.transactions().into())),
            temporary_mib = imported.temporary_bytes >> 20,
            "imported"
        );
    }

    /// Shows how much is done, with a message that ends with the remaining time in seconds.
    fn show(&self, bar: &ProgressBar, left: Option<u64>, message: &str) {
        let left = left.map_or_else(String::new, |seconds| format!(", {} left", minutes(seconds)));
        bar.set_position(self.done);
        bar.set_message(format!("{message}{left}"));
    }

    fn is_line_due(&mut self) -> bool {
        let is_due = self.last_line.elapsed() > LOG_INTERVAL;
        if is_due {
            self.last_line = Instant::now();
        }
        is_due
    }

    fn seconds_left(&self) -> Option<u64> {
        let left = 1_000_u64.saturating_sub(self.done);
        let done = self.done.saturating_sub(READING * self.before / self.total.max(1));
        (done > 0).then(|| self.started.elapsed().as_secs().saturating_mul(left) / done)
    }

    fn rate(&self, count: u64) -> f64 {
        super::progress::rate(count, self.started)
    }
}

fn minutes(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}
