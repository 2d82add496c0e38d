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

use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder, put_varint, put_varint_128, varint_size};
use super::super::super::error::IndexError;
use super::super::super::hot::tables::history::{HistoryChange, HistoryKey, HistoryRow, key, split_key};
use super::super::super::keys::{ScriptKey, TxNum};
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;

pub(in crate::index) const TABLE: TableDefinition<'static, &HistoryKey, &[u8]> = TableDefinition::new("history");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("history", 1..=1);

const ROW: usize = value_bytes(4, 14);
/// The largest number of entries that the head of a group has.
const FEW: usize = 7;
const HAS_TOTALS: u8 = 1 << 4;

const RECEIVES_ONE: u8 = 0;
const SPENDS_ONE: u8 = 1;
const SPENDS_ALL: u8 = 2;
const ANYTHING: u8 = 3;
const COINBASE: u8 = 1 << 4;
const COINBASE_VALUE: u8 = 1 << 5;
const RECEIVES: u8 = 1 << 6;
const SPENDS: u8 = 1 << 7;

/// Packs the changes of scripts in the order of (script key, txnum).
#[derive(Default)]
pub(in crate::index) struct HistoryPacker {
    first: Option<HistoryKey>,
    row: Vec<u8>,
    /// The script of the last group of the row.
    last: Option<ScriptKey>,
    group: Group,
}

/// The script whose entries are added, with those that are not in the row yet.
#[derive(Default)]
struct Group {
    script: Option<ScriptKey>,
    totals: HistoryRow,
    /// The totals before its first entry.
    before: HistoryRow,
    entries: Vec<u8>,
    count: usize,
    txnum: TxNum,
    /// The bytes before its entries, but the count's.
    lead: Vec<u8>,
}

impl HistoryPacker {
    /// Begins a script, which has these totals before this generation.
    pub(in crate::index) fn script(&mut self, script: ScriptKey, totals: HistoryRow) {
        self.close();
        self.group.script = Some(script);
        self.group.totals = totals;
    }

    /// Adds the next transaction of the script. Returns a row that is full.
    ///
    /// Errors: [`IndexError::Corrupt`] if a total overflows, or no script is begun.
    pub(in crate::index) fn push(
        &mut self,
        txnum: TxNum,
        change: &HistoryChange,
    ) -> Result<Option<PackedRow<14>>, IndexError> {
        let overflow = || IndexError::corrupt("history", "a total of a script is larger than any chain allows");
        let totals = self.group.totals.plus(change).ok_or_else(overflow)?;
        let change = &net(change).ok_or_else(overflow)?;
        let no_script = || IndexError::corrupt("history", "a transaction is packed before its script");
        let script = self.group.script.ok_or_else(no_script)?;
        if self.group.count == 0 {
            self.begin(script);
        }
        let before = self.group.entries.len();
        let stands_in_key = self.first.is_none() && self.group.count == 0;
        let difference = txnum.0 - if self.group.count == 0 { 0 } else { self.group.txnum.0 };
        encode_entry(&mut self.group.entries, (!stands_in_key).then_some(difference), &self.group.totals, change);
        let mut full = None;
        if self.row.len() + self.group.size(1) > ROW && !stands_in_key {
            // this entry begins the next row
            self.group.entries.truncate(before);
            self.close();
            full = self.take();
            self.begin(script);
            encode_entry(&mut self.group.entries, None, &self.group.totals, change);
        }
        if self.first.is_none() {
            self.first = Some(key(script, txnum));
        }
        self.group.count += 1;
        self.group.txnum = txnum;
        self.group.totals = totals;
        Ok(full)
    }

    /// Ends the script, and writes the groups that are in no complete row yet, for [`HistoryPacker::decode_state`].
    /// [`HistoryPacker::script`] must follow.
    pub(in crate::index) fn encode_state(&mut self, state: &mut Encoder) {
        self.close();
        let (first, last) = (self.first.as_ref(), self.last.as_ref());
        state.blob(first.map_or(&[], HistoryKey::as_slice)).blob(last.map_or(&[], |script| &script.0)).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let (first, last) = (state.optional_key()?, state.optional_key()?.map(ScriptKey));
        Ok(Self { first, last, row: state.blob()?.to_vec(), group: Group::default() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<14>> {
        self.close();
        self.take()
    }

    /// Begins a group for the entries that follow.
    fn begin(&mut self, script: ScriptKey) {
        let group = &mut self.group;
        group.entries.clear();
        group.before = group.totals;
        group.lead.clear();
        let last = self.last.filter(|_| self.first.is_some());
        let difference = last.map_or(0, |last| script.to_number() - last.to_number()).to_be_bytes();
        let difference = &difference[difference.iter().take_while(|byte| **byte == 0).count()..];
        group.lead.push(low_byte(difference.len()));
        group.lead.extend_from_slice(difference);
        if group.before != HistoryRow::default() {
            group.lead[0] |= HAS_TOTALS;
            encode_totals(&mut group.lead, &group.before);
        }
    }

    /// Moves the entries of the script to the row.
    fn close(&mut self) {
        let group = &mut self.group;
        if group.count == 0 {
            return;
        }
        let head = self.row.len();
        self.row.append(&mut group.lead);
        if group.count <= FEW {
            self.row[head] |= low_byte(group.count) << 5;
        } else {
            put_varint(&mut self.row, group.count as u64);
        }
        self.row.append(&mut group.entries);
        self.last = group.script;
        group.count = 0;
    }

    fn take(&mut self) -> Option<PackedRow<14>> {
        let first = self.first.take()?;
        Some((first, std::mem::replace(&mut self.row, Vec::with_capacity(ROW))))
    }
}

impl Group {
    /// Its bytes with so many entries more than are counted.
    fn size(&self, more: usize) -> usize {
        let count = self.count + more;
        let count = if count <= FEW { 0 } else { varint_size(count as u64) };
        self.lead.len() + count + self.entries.len()
    }
}

/// The low eight bits of a number that has no others.
fn low_byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn encode_totals(row: &mut Vec<u8>, totals: &HistoryRow) {
    put_varint_128(row, totals.received);
    put_varint_128(row, totals.spent);
    put_varint(row, totals.coinbase_received);
    for count in [totals.transactions, totals.outputs_received, totals.outputs_spent, totals.coinbase_transactions] {
        put_varint(row, count.into());
    }
}

fn decode_totals(row: &mut Decoder<'_>) -> Result<HistoryRow, IndexError> {
    Ok(HistoryRow {
        received: row.varint()?,
        spent: row.varint()?,
        coinbase_received: row.varint()?,
        transactions: row.varint()?,
        outputs_received: row.varint()?,
        outputs_spent: row.varint()?,
        coinbase_transactions: row.varint()?,
    })
}

/// Whether a transaction spends all that a script with these totals has.
fn spends_all(totals: &HistoryRow, change: &HistoryChange) -> bool {
    change.outputs_spent > 0
        && totals.outputs_spent.checked_add(change.outputs_spent) == Some(totals.outputs_received)
        && totals.spent + change.spent == totals.received
}

fn encode_entry(row: &mut Vec<u8>, difference: Option<u32>, totals: &HistoryRow, change: &HistoryChange) {
    let start = row.len();
    row.push(0);
    let mut head = 0;
    if let Some(difference) = difference {
        let bytes = difference.to_be_bytes();
        let size = bytes.len() - (difference.leading_zeros() / 8).min(3) as usize;
        head |= low_byte(size - 1) << 2;
        row.extend_from_slice(&bytes[bytes.len() - size..]);
    }
    let is_received_only = change.outputs_spent == 0 && change.spent == 0 && !change.is_coinbase_payment;
    let is_spent_only = change.outputs_received == 0 && change.received == 0 && !change.is_coinbase_payment;
    let small = |value: u128| u64::try_from(value).ok();
    let mut amount = |kind: u8, value: u64| {
        let bytes = value.to_be_bytes();
        let size = bytes.len() - (value.leading_zeros() / 8) as usize;
        row.extend_from_slice(&bytes[bytes.len() - size..]);
        kind | low_byte(size) << 4
    };
    head |= match (small(change.received), small(change.spent)) {
        (Some(value), _) if is_received_only && change.outputs_received == 1 => amount(RECEIVES_ONE, value),
        _ if is_spent_only && spends_all(totals, change) => SPENDS_ALL,
        (_, Some(value)) if is_spent_only && change.outputs_spent == 1 => amount(SPENDS_ONE, value),
        _ => encode_anything(row, totals, change),
    };
    row[start] = head;
}

fn encode_anything(row: &mut Vec<u8>, totals: &HistoryRow, change: &HistoryChange) -> u8 {
    let mut head = ANYTHING;
    if change.outputs_received > 0 || change.received > 0 {
        head |= RECEIVES;
        put_varint(row, change.outputs_received.into());
        put_varint_128(row, change.received);
    }
    if spends_all(totals, change) {
        head |= SPENDS;
        put_varint(row, 0);
    } else if change.outputs_spent > 0 {
        head |= SPENDS;
        put_varint(row, change.outputs_spent.into());
        put_varint_128(row, change.spent);
    }
    if change.is_coinbase_payment {
        head |= COINBASE;
        if u128::from(change.coinbase_received) != change.received {
            head |= COINBASE_VALUE;
            put_varint(row, change.coinbase_received);
        }
    }
    head
}

/// The change without what it overwrites, which it receives less.
fn net(change: &HistoryChange) -> Option<HistoryChange> {
    Some(HistoryChange {
        received: change.received.checked_sub(change.overwritten)?,
        outputs_received: change.outputs_received.checked_sub(change.outputs_overwritten)?,
        overwritten: 0,
        outputs_overwritten: 0,
        ..*change
    })
}

/// The change of an entry of which `head` was read, on top of these totals.
fn decode_change(row: &mut Decoder<'_>, head: u8, totals: &HistoryRow) -> Result<HistoryChange, IndexError> {
    let mut change = HistoryChange::default();
    let amount = |row: &mut Decoder<'_>| -> Result<u128, IndexError> {
        let size = usize::from(head >> 4);
        if size > 8 {
            return Err(row.corrupt("has an amount that is too large"));
        }
        Ok(row.take(size)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    };
    let all = |row: &Decoder<'_>| {
        let outputs = totals.outputs_received.checked_sub(totals.outputs_spent);
        let value = totals.received.checked_sub(totals.spent);
        outputs.zip(value).ok_or_else(|| row.corrupt("spends more than was received"))
    };
    match head & 3 {
        RECEIVES_ONE => (change.outputs_received, change.received) = (1, amount(row)?),
        SPENDS_ONE => (change.outputs_spent, change.spent) = (1, amount(row)?),
        SPENDS_ALL if head >> 4 != 0 => return Err(row.corrupt("has an amount where all is spent")),
        SPENDS_ALL => (change.outputs_spent, change.spent) = all(row)?,
        _ => {
            if head & RECEIVES != 0 {
                (change.outputs_received, change.received) = (row.varint()?, row.varint()?);
            }
            if head & SPENDS != 0 {
                (change.outputs_spent, change.spent) = match row.varint()? {
                    0 => all(row)?,
                    outputs => (outputs, row.varint()?),
                };
            }
            if head & (COINBASE | COINBASE_VALUE) == COINBASE_VALUE {
                return Err(row.corrupt("has the value of a coinbase that is none"));
            }
            if head & COINBASE != 0 {
                change.is_coinbase_payment = true;
                let received = u64::try_from(change.received).ok();
                change.coinbase_received = match received.filter(|_| head & COINBASE_VALUE == 0) {
                    Some(received) => received,
                    None => row.varint()?,
                };
            }
        }
    }
    Ok(change)
}

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
        let count: u32 = match head >> 5 {
            0 => row.varint()?,
            few => few.into(),
        };
        let mut txnum = TxNum(0);
        for _ in 0..count {
            let head = row.u8()?;
            txnum = if let Some(first) = first.take() {
                if head >> 2 & 3 != 0 {
                    return Err(row.corrupt("repeats the txnum of its key"));
                }
                first
            } else {
                let size = usize::from(head >> 2 & 3) + 1;
                let difference = row.take(size)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
                TxNum(txnum.0.checked_add(difference).ok_or_else(|| row.corrupt("has a txnum that is too large"))?)
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
