//! The balance of a ledger over time, period by period.
//!
//! Read from the newest period to the oldest. The totals of each script before a period are one seek in its history, and the
//! transaction that this seek finds says which is the next period in which the script changed: so each script is looked up
//! once for each period in which it changed, and never in between.
//!
//! ```text
//!   period      ···│    3    │    2    │    1    │
//!   script A    ───x─────────────────────x──x────│   3 seeks: the end, before 1, before 4
//!   script B    ──────x───x──────────────────────│   2 seeks: the end, before 3
//! ```

use std::collections::BinaryHeap;
use std::ops::Range;

use super::Ledger;
use crate::chain::{Height, SeriesGroup};
use crate::index::{HistoryRow, IndexError, ScriptKey, TxNum};
use crate::view::View;
use crate::view::chain::period::{Period, Periods};

/// What a ledger received and spent in a period, and what it has at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPeriod {
    /// The period.
    pub period: Period,
    /// The balance after its last block, in sat.
    pub balance: u64,
    /// The value of outputs it received in these blocks, in sat. Outputs that a duplicate overwrites (BIP30) are deducted.
    pub received: u128,
    /// The value of its outputs that these blocks spend, in sat.
    pub spent: u128,
    /// The transactions of these blocks.
    pub txnums: Range<TxNum>,
    /// The scripts that changed in these blocks, each with how many transactions paid or spent it.
    pub changed: Vec<(ScriptKey, u32)>,
}

/// Which periods a series has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesShape {
    /// What a period is.
    pub group: SeriesGroup,
    /// Whether periods count in which nothing changed.
    pub include_empty: bool,
    /// From the one second to the other periods without blocks count, too, if any do; between the blocks if not given.
    pub empty_within: Option<(u32, u32)>,
    /// The most periods.
    pub most: u32,
}

/// A series has more periods than it may: at least so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPeriods(pub u32);

/// What is about to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesRead {
    /// The totals of a script.
    Totals,
    /// The bounds of a period.
    Period,
}

/// The totals of the scripts before some transaction.
struct SeriesTotals<'l> {
    scripts: &'l [ScriptKey],
    rows: Vec<HistoryRow>,
    /// The newest transactions of scripts that changed within the range, each with the index of the script.
    newest: BinaryHeap<(TxNum, usize)>,
    received: u128,
    spent: u128,
}

impl View {
    /// The periods of a range of blocks with the balance of a ledger, oldest first. `may_read` is called before each seek.
    ///
    /// Errors: those of the index and of `may_read`. The inner error is for too many periods.
    pub fn balance_history<E: From<IndexError>>(
        &self,
        ledger: &Ledger,
        blocks: &Range<Height>,
        shape: SeriesShape,
        mut may_read: impl FnMut(SeriesRead) -> Result<(), E>,
    ) -> Result<Result<Vec<LedgerPeriod>, TooManyPeriods>, E> {
        let Some(periods) = Periods::of(self, blocks, shape.group, shape.empty_within)? else {
            return Ok(Ok(Vec::new()));
        };
        if shape.include_empty && periods.count() > shape.most {
            return Ok(Err(TooManyPeriods(periods.count())));
        }
        let begin = self.first_txnum_at(blocks.start)?;
        let mut end = self.first_txnum_at(blocks.end)?;
        let mut totals = SeriesTotals::before(self, ledger, begin..end, &mut may_read)?;
        let mut found: Vec<LedgerPeriod> = Vec::new();
        loop {
            may_read(SeriesRead::Period)?;
            let period = match (shape.include_empty, found.last()) {
                (true, None) => Some(periods.last()?),
                (true, Some(newer)) => periods.before(&newer.period)?,
                (false, _) => match totals.newest.peek() {
                    Some((newest, _)) => Some(periods.containing(self.height_of(*newest)?.to_u32())?),
                    None => None,
                },
            };
            let Some(period) = period else { break };
            if found.len() >= usize::try_from(shape.most).unwrap_or(usize::MAX) {
                return Ok(Err(TooManyPeriods(shape.most.saturating_add(1))));
            }
            if !shape.include_empty {
                end = self.first_txnum_at(period.blocks.end)?;
            }
            let start = if period.blocks.is_empty() { end } else { self.first_txnum_at(period.blocks.start)? };
            found.push(totals.period(self, period, (begin, start..end), &mut may_read)?);
            end = start;
        }
        found.reverse();
        Ok(Ok(found))
    }

    /// How many of these transactions pay or spend any of these scripts.
    pub fn count_distinct(&self, scripts: &[(ScriptKey, u32)], txnums: &Range<TxNum>) -> Result<u64, IndexError> {
        let mut found = Vec::new();
        for (script, _) in scripts {
            for row in self.head.chain.history(*script, txnums.clone())? {
                found.push(row?.0);
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(crate::chain::wide(found.len()))
    }
}

impl<'l> SeriesTotals<'l> {
    /// The totals before the end of a range.
    fn before<E: From<IndexError>>(
        view: &View,
        ledger: &'l Ledger,
        range: Range<TxNum>,
        may_read: &mut impl FnMut(SeriesRead) -> Result<(), E>,
    ) -> Result<Self, E> {
        let scripts = ledger.scripts();
        let (mut rows, mut newest) = (Vec::with_capacity(scripts.len()), BinaryHeap::new());
        let (mut received, mut spent) = (0_u128, 0_u128);
        for (index, script) in scripts.iter().enumerate() {
            may_read(SeriesRead::Totals)?;
            let found = view.head.chain.totals(*script, range.end)?;
            newest.extend(found.filter(|(txnum, _)| *txnum >= range.start).map(|(txnum, _)| (txnum, index)));
            let row = found.map(|(_, row)| row).unwrap_or_default();
            // 80-bit sums of at most as many scripts as fit a request stay far below 128 bits
            received += row.received;
            spent += row.spent;
            rows.push(row);
        }
        Ok(Self { scripts, rows, newest, received, spent })
    }

    /// A period whose transactions are `txnums`, of a range that begins at `begin`. Advances to the totals in front of it.
    fn period<E: From<IndexError>>(
        &mut self,
        view: &View,
        period: Period,
        (begin, txnums): (TxNum, Range<TxNum>),
        may_read: &mut impl FnMut(SeriesRead) -> Result<(), E>,
    ) -> Result<LedgerPeriod, E> {
        let damaged = || IndexError::corrupt("history", "the totals of a script fall, or leave what there can be");
        let balance = self.received.checked_sub(self.spent).and_then(|balance| u64::try_from(balance).ok());
        let balance = balance.ok_or_else(damaged)?;
        let (mut received, mut spent, mut changed) = (0_u128, 0_u128, Vec::new());
        while let Some((_, index)) = self.newest.peek().copied().filter(|(newest, _)| *newest >= txnums.start) {
            self.newest.pop();
            may_read(SeriesRead::Totals)?;
            let (script, after) = (self.scripts[index], self.rows[index]);
            let found = view.head.chain.totals(script, txnums.start)?;
            self.newest.extend(found.filter(|(txnum, _)| *txnum >= begin).map(|(txnum, _)| (txnum, index)));
            let before = found.map(|(_, row)| row).unwrap_or_default();
            received += after.received.checked_sub(before.received).ok_or_else(damaged)?;
            spent += after.spent.checked_sub(before.spent).ok_or_else(damaged)?;
            changed.push((script, after.transactions.checked_sub(before.transactions).ok_or_else(damaged)?));
            self.rows[index] = before;
        }
        self.received = self.received.checked_sub(received).ok_or_else(damaged)?;
        self.spent = self.spent.checked_sub(spent).ok_or_else(damaged)?;
        Ok(LedgerPeriod { period, balance, received, spent, txnums, changed })
    }
}
