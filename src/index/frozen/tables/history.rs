//! `history`: script key (10) ‖ first txnum (4) → groups, one for each script in the order of keys: what its transactions
//! change. The first group is of the script in the row's key, and so is its first transaction.
//!
//! ```text
//!   group   head ‖ difference to the script key before ‖ totals before it, if there are any ‖ [count] ‖ entries
//!           head: bits 0–3 bytes of the difference · bit 4 has totals · bits 5–7 entries, 0: a varint follows
//!   entry   head ‖ difference to the txnum before (of a group's first entry: its txnum) ‖ what changes
//!           head: bits 0–1 kind · bits 2–3 bytes of the difference, less one · bits 4–7 by kind
//!   kind 0  receives one output        bits 4–7: bytes of its value, which follows
//!   kind 1  spends one output          as kind 0
//!   kind 2  spends all that it has     nothing follows
//!   kind 3  anything, as varints       bit 6 receives: outputs ‖ value · bit 7 spends: outputs ‖ value, or 0: all it has ·
//!                                      bit 4 coinbase, bit 5 of another value than it receives, which follows
//! ```
//!
//! A transaction that overwrites outputs (BIP30) receives so much less; what a coinbase pays is not lessened by that.
//!
//! A script whose entries do not fit a row continues in the next one, and totals stand before its first group in a
//! generation if an older one has it: totals at any transaction take one seek. Values in sat.

mod entry;
mod packer;

use redb::TableDefinition;

use super::super::super::codec::Decoder;
use super::super::super::error::IndexError;
use super::super::super::hot::tables::history::{HistoryKey, HistoryRow, key, split_key};
use super::super::super::keys::{ScriptKey, TxNum};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;
use entry::{HAS_TOTALS, decode_change, decode_count, decode_totals, decode_txnum};
pub(in crate::index) use packer::{HistoryPacker, PackedScripts};

pub(in crate::index) const TABLE: TableDefinition<'static, &HistoryKey, &[u8]> = TableDefinition::new("history");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("history", 1..=1);

/// Visits the transactions of a row, each with the totals of its script after it, until `visit` returns false.
pub(in crate::index) fn each(
    first: HistoryKey,
    row: &[u8],
    mut visit: impl FnMut(ScriptKey, TxNum, HistoryRow) -> bool,
) -> Result<(), IndexError> {
    each_step(first, row, |script, txnum, [_, after]| visit(script, txnum, after))
}

/// Visits the transactions of a row, each with the totals of its script before and after it, until `visit` returns false.
pub(in crate::index) fn each_step(
    first: HistoryKey,
    row: &[u8],
    mut visit: impl FnMut(ScriptKey, TxNum, [HistoryRow; 2]) -> bool,
) -> Result<(), IndexError> {
    let mut row = Decoder::new("history", row);
    let (mut script, first) = split_key(&first);
    let mut first = Some(first);
    while !row.is_empty() {
        let head = row.u8()?;
        let difference = row
            .take(usize::from(head & 0xf))?
            .iter()
            .try_fold(0_u128, |number, byte| number.checked_mul(1 << 8)?.checked_add(u128::from(*byte)));
        script = difference
            .and_then(|difference| ScriptKey::from_number(script.to_number().checked_add(difference)?))
            .ok_or_else(|| row.corrupt("has a script key that is too large"))?;
        let mut totals = if head & HAS_TOTALS == 0 { HistoryRow::default() } else { decode_totals(&mut row)? };
        let mut txnum = TxNum(0);
        for _ in 0..decode_count(head, &mut row)? {
            let head = row.u8()?;
            txnum = if let Some(first) = first.take() {
                if head >> 2 & 3 != 0 {
                    return Err(row.corrupt("repeats the txnum of its key"));
                }
                first
            } else {
                decode_txnum(head, txnum, &mut row)?
            };
            let change = decode_change(&mut row, head, &totals)?;
            let before = totals;
            totals = totals.plus(&change).ok_or_else(|| row.corrupt("has totals that are too large"))?;
            if !visit(script, txnum, [before, totals]) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The transactions of a script in a row, with the totals after each.
fn of_script(first: HistoryKey, row: &[u8], script: ScriptKey) -> Result<Vec<(TxNum, HistoryRow)>, IndexError> {
    let mut found = Vec::new();
    each(first, row, |at, txnum, totals| {
        if at == script {
            found.push((txnum, totals));
        }
        at <= script
    })?;
    Ok(found)
}

/// The totals of a script after its last transaction before `before`.
pub(in crate::index) fn totals(
    table: &impl StoredTable<&'static HistoryKey, &'static [u8]>,
    script: ScriptKey,
    before: TxNum,
) -> Result<Option<(TxNum, HistoryRow)>, IndexError> {
    let row = table.range::<&HistoryKey>(..&key(script, before))?.next_back().transpose()?;
    let Some((first, row)) = row else { return Ok(None) };
    let mut found = None;
    each(*first.value(), row.value(), |at, txnum, totals| {
        let is_wanted = at == script && txnum < before;
        if is_wanted {
            found = Some((txnum, totals));
        }
        at < script || is_wanted
    })?;
    Ok(found)
}

/// The transactions of a script within `txnums`, with the totals after each, oldest first, read lazily from either end.
pub(in crate::index) fn read<T: StoredTable<&'static HistoryKey, &'static [u8]>>(
    table: &T,
    script: ScriptKey,
    txnums: std::ops::Range<TxNum>,
) -> Result<impl DoubleEndedIterator<Item = Result<(TxNum, HistoryRow), IndexError>> + use<T>, IndexError> {
    let end = key(script, txnums.end.max(txnums.start));
    // its entries may begin in a row that begins with another script
    let begin = table.range::<&HistoryKey>(..=&key(script, txnums.start))?.next_back().transpose()?;
    let begin = begin.map_or_else(|| key(script, txnums.start), |(first, _)| *first.value());
    let rows = table.range::<&HistoryKey>(&begin.min(end)..&end)?;
    Ok(rows.flat_map(move |row| {
        let entries =
            row.map_err(IndexError::from).and_then(|(first, row)| of_script(*first.value(), row.value(), script));
        let entries: Vec<_> = match entries {
            Ok(entries) => entries.into_iter().filter(|(txnum, _)| txnums.contains(txnum)).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        entries
    }))
}

#[cfg(test)]
mod tests;
