//! Shows the progress of catching up: a bar with rate and remaining time on a terminal, otherwise a log line every ten
//! seconds. A few blocks are logged one by one.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tracing::info;

use crate::chain::Height;
use crate::index::{ParsedBlock, Tip};
use crate::view::IndexingSpeed;

/// The interval between log lines.
pub(super) const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Fewer blocks than this are logged one by one, do not count as catching up, and leave the chain in one commit.
pub(super) const FEW: u32 = 12;

/// Whether so many blocks are fewer than [`FEW`].
pub(super) fn are_few(blocks: usize) -> bool {
    u32::try_from(blocks).is_ok_and(|blocks| blocks < FEW)
}

/// Whether fewer than [`FEW`] blocks are above the fork point, up to this tip.
pub(super) fn is_shallow(tip: Option<Tip>, fork: Option<Tip>) -> bool {
    let height = |tip: Option<Tip>| tip.map_or(0, |tip| tip.height.to_u32());
    height(tip).saturating_sub(height(fork)) < FEW
}

/// The progress of one series of blocks.
pub(super) struct CatchUpProgress {
    bar: Option<ProgressBar>,
    target: Height,
    started: Instant,
    last_line: Instant,
    blocks: u64,
    transactions: u64,
    is_few: bool,
    /// Heights between the last connected block and the target.
    remaining: u32,
}

impl CatchUpProgress {
    /// Starts at a fork point; `target` is the height of the node's tip, `blocks` the number of blocks in this series.
    #[must_use]
    pub(super) fn new(fork: Option<Tip>, target: Height, blocks: usize) -> Self {
        let is_few = are_few(blocks);
        let from = fork.map_or(0, |fork| fork.height.to_u32());
        let bar = (!is_few && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(u64::from(target.to_u32()));
            // the template is a valid constant; a plain bar would do, too
            if let Ok(style) =
                ProgressStyle::with_template("{bar:32} block {human_pos} of {human_len}  {msg}  {eta} left")
            {
                bar.set_style(style);
            }
            bar.set_position(u64::from(from));
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        Self {
            bar,
            target,
            started: now,
            last_line: now,
            blocks: 0,
            transactions: 0,
            is_few,
            remaining: target.to_u32().saturating_sub(from),
        }
    }

    /// Records that these blocks were connected, and that this is the tip now.
    pub(super) fn connected(&mut self, tip: Option<Tip>, blocks: &[ParsedBlock]) {
        let Some(tip) = tip else { return };
        self.blocks += u64::try_from(blocks.len()).unwrap_or(u64::MAX);
        let transactions = blocks.iter().map(ParsedBlock::transaction_count).sum::<usize>();
        self.transactions += u64::try_from(transactions).unwrap_or(u64::MAX);
        self.remaining = self.target.to_u32().saturating_sub(tip.height.to_u32());
        if self.is_few {
            for (block, behind) in blocks.iter().rev().zip(0..).collect::<Vec<_>>().into_iter().rev() {
                let height = tip.height.to_u32().saturating_sub(behind);
                info!(height, hash = %block.hash(), transactions = block.transaction_count(), "connected a block");
            }
        } else if let Some(bar) = &self.bar {
            bar.set_position(u64::from(tip.height.to_u32()));
            bar.set_message(format!("{:.0} transactions/s", self.rate(self.transactions)));
        } else if self.last_line.elapsed() > LOG_INTERVAL {
            self.last_line = Instant::now();
            info!(
                height = tip.height.to_u32(),
                of = self.target.to_u32(),
                transactions_per_second = format_args!("{:.0}", self.rate(self.transactions)),
                seconds_left = self.speed().map(|speed| speed.remaining.as_secs()),
                "catching up"
            );
        }
    }

    /// The speed of this series so far; `None` until a block is connected.
    #[must_use]
    pub(super) fn speed(&self) -> Option<IndexingSpeed> {
        let blocks_per_second = self.rate(self.blocks);
        let remaining = Duration::try_from_secs_f64(f64::from(self.remaining) / blocks_per_second).ok()?;
        Some(IndexingSpeed { blocks_per_second, remaining })
    }

    /// Ends the series.
    pub(super) fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.is_few {
            info!(
                blocks = self.blocks,
                transactions = self.transactions,
                seconds = format_args!("{:.1}", self.started.elapsed().as_secs_f64()),
                transactions_per_second = format_args!("{:.0}", self.rate(self.transactions)),
                "connected"
            );
        }
    }

    fn rate(&self, count: u64) -> f64 {
        rate(count, self.started)
    }
}

/// So many a second.
pub(super) fn rate(count: u64, since: Instant) -> f64 {
    // counts here are far below 2^32 a run; a rate needs no more digits than that
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / since.elapsed().as_secs_f64().max(0.001)
}
