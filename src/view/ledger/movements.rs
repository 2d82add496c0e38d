//! The transactions that paid or spent a ledger.

use std::collections::HashMap;
use std::ops::Range;

use super::Ledger;
use super::merge::Merge;
use crate::index::{HistoryRow, IndexError, ScriptKey, TxNum};
use crate::view::View;

/// The effect of one transaction on a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    /// The position of the transaction.
    pub txnum: TxNum,
    /// The value of its outputs to the ledger, in sat. Overwritten outputs (BIP30) are deducted.
    pub received: u64,
    /// The value of the ledger's outputs that it spends, in sat.
    pub spent: u64,
    /// How many of the ledger's outputs it spends.
    pub outputs_spent: u32,
    /// The balance of the ledger after it, in sat.
    pub balance_after: u64,
    /// Whether it has an output to the ledger, of whatever value.
    pub pays: bool,
    /// Whether it spends an output of the ledger, of whatever value.
    pub spends: bool,
    /// Whether it is a coinbase that pays the ledger.
    pub is_coinbase: bool,
    /// The scripts of the ledger that it paid or spent.
    pub scripts: Vec<ScriptKey>,
}

impl Movement {
    /// The change of the balance in sat.
    #[must_use]
    pub fn net(&self) -> i128 {
        i128::from(self.received) - i128::from(self.spent)
    }
}

/// The number of transactions that paid or spent a ledger. One with several of its scripts counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Movements {
    /// All of them.
    pub transactions: u32,
    /// Coinbases that paid it.
    pub coinbases: u32,
}

/// The effect of one transaction on one script.
struct ScriptMovement {
    txnum: TxNum,
    script: ScriptKey,
    before: HistoryRow,
    after: HistoryRow,
}

impl ScriptMovement {
    fn received(&self) -> Option<u64> {
        self.after.received.checked_sub(self.before.received)?.try_into().ok()
    }

    fn spent(&self) -> Option<u64> {
        self.after.spent.checked_sub(self.before.spent)?.try_into().ok()
    }

    /// A transaction that spends nothing has its row because it pays, even if that only replaces what an earlier copy
    /// paid (BIP30), so that the count stays.
    fn pays(&self) -> bool {
        self.after.outputs_received != self.before.outputs_received || !self.spends()
    }

    fn spends(&self) -> bool {
        self.after.outputs_spent != self.before.outputs_spent
    }

    fn outputs_spent(&self) -> Option<u32> {
        self.after.outputs_spent.checked_sub(self.before.outputs_spent)
    }
}

fn damaged() -> IndexError {
    IndexError::corrupt("history", "the totals of a script fall, or leave what there can be")
}

impl View {
    /// The transactions among these that paid or spent a ledger, oldest or newest first.
    pub fn movements<'v>(
        &'v self,
        ledger: &Ledger,
        txnums: &Range<TxNum>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<Movement, IndexError>> + use<'v>, IndexError> {
        let steps = ledger.scripts().iter().map(|script| self.steps(*script, txnums, ascending));
        let mut steps =
            Merge::new(steps.collect::<Result<Vec<_>, _>>()?, ascending, |step| u64::from(step.txnum.0))?.peekable();
        let ledger = ledger.clone();
        let mut balance = None;
        Ok(std::iter::from_fn(move || {
            let mut together = vec![match steps.next()? {
                Ok(step) => step,
                Err(error) => return Some(Err(error)),
            }];
            let txnum = together[0].txnum;
            while let Some(Ok(step)) = steps.next_if(|step| step.as_ref().is_ok_and(|step| step.txnum == txnum)) {
                together.push(step);
            }
            Some(self.movement(&ledger, &together, ascending, &mut balance))
        }))
    }

    /// The number of transactions among these that paid or spent a ledger. For one script the running totals have it; the
    /// histories of several are merged, if `may_read` allows that many rows: `None` if not.
    pub fn count_movements<E: From<IndexError>>(
        &self,
        ledger: &Ledger,
        txnums: &Range<TxNum>,
        may_read: impl FnOnce(u32) -> Result<bool, E>,
    ) -> Result<Option<Movements>, E> {
        let (mut sum, mut scripts) = (Movements::default(), 0_usize);
        for script in ledger.scripts() {
            let count = |end: TxNum| {
                let row = self.head.chain.totals(*script, end)?.map(|(_, row)| row).unwrap_or_default();
                Ok::<_, IndexError>((row.transactions, row.coinbase_transactions))
            };
            let (before, after) =
                (if txnums.start == TxNum(0) { (0, 0) } else { count(txnums.start)? }, count(txnums.end)?);
            let transactions = after.0.saturating_sub(before.0);
            scripts += usize::from(transactions > 0);
            sum.transactions = sum.transactions.saturating_add(transactions);
            sum.coinbases = sum.coinbases.saturating_add(after.1.saturating_sub(before.1));
        }
        if scripts <= 1 {
            return Ok(Some(sum));
        }
        if !may_read(sum.transactions)? {
            return Ok(None);
        }
        let mut counted = Movements::default();
        for movement in self.movements(ledger, txnums, true)? {
            counted.transactions += 1;
            counted.coinbases += u32::from(movement?.is_coinbase);
        }
        Ok(Some(counted))
    }

    /// What those of these transactions that spend any of these scripts pay to them, in sat.
    pub fn received_from_self(&self, scripts: &[(ScriptKey, u32)], txnums: &Range<TxNum>) -> Result<u128, IndexError> {
        let mut received_by: HashMap<TxNum, (u128, bool)> = HashMap::new();
        for (script, _) in scripts {
            for step in self.steps(*script, txnums, true)? {
                let step = step?;
                let (received, spends) = received_by.entry(step.txnum).or_default();
                *received += u128::from(step.received().ok_or_else(damaged)?);
                *spends |= step.spends();
            }
        }
        Ok(received_by.into_values().filter_map(|(received, spends)| spends.then_some(received)).sum())
    }

    /// The effect of a transaction on the ledger, from its effect on each script. `balance` is that of the ledger before this
    /// transaction in ascending order, after it in descending order.
    fn movement(
        &self,
        ledger: &Ledger,
        steps: &[ScriptMovement],
        ascending: bool,
        balance: &mut Option<u64>,
    ) -> Result<Movement, IndexError> {
        let sum = |part: fn(&ScriptMovement) -> Option<u64>| {
            steps.iter().try_fold(0_u64, |sum, step| sum.checked_add(part(step)?)).ok_or_else(damaged)
        };
        let txnum = steps.first().map(|step| step.txnum).ok_or_else(damaged)?;
        let (received, spent) = (sum(ScriptMovement::received)?, sum(ScriptMovement::spent)?);
        let outputs = |sum: u32, step: &ScriptMovement| sum.checked_add(step.outputs_spent()?);
        let outputs_spent = steps.iter().try_fold(0_u32, outputs).ok_or_else(damaged)?;
        let end = if ascending { txnum } else { TxNum(txnum.0.saturating_add(1)) };
        let known = match *balance {
            Some(balance) => balance,
            None => self.totals_before(ledger, end)?.balance()?,
        };
        let (gain, loss) = if ascending { (received, spent) } else { (spent, received) };
        let moved = known.checked_add(gain).and_then(|sum| sum.checked_sub(loss)).ok_or_else(damaged)?;
        *balance = Some(moved);
        Ok(Movement {
            txnum,
            received,
            spent,
            outputs_spent,
            balance_after: if ascending { moved } else { known },
            pays: steps.iter().any(ScriptMovement::pays),
            spends: steps.iter().any(ScriptMovement::spends),
            is_coinbase: steps.iter().any(|step| step.after.coinbase_transactions != step.before.coinbase_transactions),
            scripts: steps.iter().map(|step| step.script).collect(),
        })
    }

    /// The rows of one script, each with the one before it.
    fn steps<'v>(
        &'v self,
        script: ScriptKey,
        txnums: &Range<TxNum>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<ScriptMovement, IndexError>> + use<'v>, IndexError> {
        let start = txnums.start;
        // downwards the row before is the next one to come, so the iteration may read below the range
        let from = if ascending { start } else { TxNum(0) };
        let mut rows = self.head.chain.history(script, from..txnums.end)?;
        let mut pending: Option<(TxNum, HistoryRow)> = None;
        Ok(std::iter::from_fn(move || {
            let step = if ascending {
                let (txnum, after) = match rows.next()? {
                    Ok(row) => row,
                    Err(error) => return Some(Err(error)),
                };
                let before = match pending {
                    Some((_, before)) => Ok(before),
                    None => self
                        .head
                        .chain
                        .totals(script, txnum)
                        .map(|row| row.map_or_else(HistoryRow::default, |row| row.1)),
                };
                pending = Some((txnum, after));
                before.map(|before| ScriptMovement { txnum, script, before, after })
            } else {
                let row = pending.take().map(Ok).or_else(|| rows.next_back())?;
                let (txnum, after) = match row {
                    Ok(row) => row,
                    Err(error) => return Some(Err(error)),
                };
                if txnum < start {
                    return None;
                }
                match rows.next_back().transpose() {
                    Ok(before) => {
                        pending = before;
                        let before = before.map_or_else(HistoryRow::default, |row| row.1);
                        Ok(ScriptMovement { txnum, script, before, after })
                    }
                    Err(error) => Err(error),
                }
            };
            Some(step)
        }))
    }
}
