//! The bytes of groups and their entries.

use super::super::super::super::codec::{Decoder, low_byte, put_sized, put_varint, put_varint_128, size_of_number};
use super::super::super::super::error::IndexError;
use super::super::super::super::hot::tables::history::{HistoryChange, HistoryRow};
use super::super::super::super::keys::TxNum;

/// The largest number of entries that the head of a group has.
pub(super) const FEW: usize = 7;
pub(super) const HAS_TOTALS: u8 = 1 << 4;

const RECEIVES_ONE: u8 = 0;
const SPENDS_ONE: u8 = 1;
const SPENDS_ALL: u8 = 2;
const ANYTHING: u8 = 3;
const COINBASE: u8 = 1 << 4;
const COINBASE_VALUE: u8 = 1 << 5;
const RECEIVES: u8 = 1 << 6;
const SPENDS: u8 = 1 << 7;

pub(super) fn encode_totals(row: &mut Vec<u8>, totals: &HistoryRow) {
    put_varint_128(row, totals.received);
    put_varint_128(row, totals.spent);
    put_varint(row, totals.coinbase_received);
    for count in [totals.transactions, totals.outputs_received, totals.outputs_spent, totals.coinbase_transactions] {
        put_varint(row, count.into());
    }
}

pub(super) fn decode_totals(row: &mut Decoder<'_>) -> Result<HistoryRow, IndexError> {
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
pub(super) fn spends_all(totals: &HistoryRow, change: &HistoryChange) -> bool {
    change.outputs_spent > 0
        && totals.outputs_spent.checked_add(change.outputs_spent) == Some(totals.outputs_received)
        && totals.spent + change.spent == totals.received
}

pub(super) fn encode_entry(row: &mut Vec<u8>, difference: Option<u32>, totals: &HistoryRow, change: &HistoryChange) {
    let start = row.len();
    row.push(0);
    let mut head = 0;
    if let Some(difference) = difference {
        let size = size_of_number(difference.into()).max(1);
        head |= low_byte(size - 1) << 2;
        put_sized(row, difference.into(), size);
    }
    let is_received_only = change.outputs_spent == 0 && change.spent == 0 && !change.is_coinbase_payment;
    let is_spent_only = change.outputs_received == 0 && change.received == 0 && !change.is_coinbase_payment;
    let small = |value: u128| u64::try_from(value).ok();
    let mut amount = |kind: u8, value: u64| {
        let size = size_of_number(value);
        put_sized(row, value, size);
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

pub(super) fn encode_anything(row: &mut Vec<u8>, totals: &HistoryRow, change: &HistoryChange) -> u8 {
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
pub(super) fn net(change: &HistoryChange) -> Option<HistoryChange> {
    Some(HistoryChange {
        received: change.received.checked_sub(change.overwritten)?,
        outputs_received: change.outputs_received.checked_sub(change.outputs_overwritten)?,
        overwritten: 0,
        outputs_overwritten: 0,
        ..*change
    })
}

/// The number of entries of a group of which `head` was read.
pub(super) fn decode_count(head: u8, row: &mut Decoder<'_>) -> Result<u32, IndexError> {
    match head >> 5 {
        0 => row.varint(),
        few => Ok(few.into()),
    }
}

/// The txnum of an entry of which `head` was read, and which does not stand in the key of its row.
pub(super) fn decode_txnum(head: u8, before: TxNum, row: &mut Decoder<'_>) -> Result<TxNum, IndexError> {
    let difference = row.sized(usize::from(head >> 2 & 3) + 1)?;
    let txnum = u32::try_from(difference).ok().and_then(|difference| before.0.checked_add(difference));
    Ok(TxNum(txnum.ok_or_else(|| row.corrupt("has a txnum that is too large"))?))
}

/// The change of an entry of which `head` was read, on top of these totals.
pub(super) fn decode_change(row: &mut Decoder<'_>, head: u8, totals: &HistoryRow) -> Result<HistoryChange, IndexError> {
    let mut change = HistoryChange::default();
    let amount = |row: &mut Decoder<'_>| row.sized(usize::from(head >> 4)).map(u128::from);
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
