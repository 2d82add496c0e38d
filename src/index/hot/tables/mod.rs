//! The tables, one per file: the meaning of a row, the layout of its key and value, and both directions of the
//! encoding.
//!
//! Keys are fixed-width and big-endian, so that the order of bytes is the order of numbers.

pub(in crate::index) mod address_prefixes;
pub(in crate::index) mod block_files;
pub(in crate::index) mod block_filters;
pub(in crate::index) mod block_hashes;
pub(in crate::index) mod block_starts;
pub(in crate::index) mod blocks;
pub(in crate::index) mod history;
pub(in crate::index) mod meta;
pub(in crate::index) mod miner_blocks;
pub(in crate::index) mod observed;
pub(in crate::index) mod op_returns;
pub(in crate::index) mod overwritten;
pub(in crate::index) mod p2pk;
pub(in crate::index) mod payouts;
pub(in crate::index) mod raw_blocks;
pub(in crate::index) mod reorgs;
pub(in crate::index) mod spends;
pub(in crate::index) mod stale_blocks;
pub(in crate::index) mod stale_transactions;
pub(in crate::index) mod transactions;
pub(in crate::index) mod txids;
pub(in crate::index) mod unspent;
pub(in crate::index) mod wtxids;

use redb::TableError;

use super::super::error::IndexError;
use super::super::keys::{Position, ScriptKey, TxNum};

/// Concatenates two fields of `A` and `B` bytes.
fn join<const A: usize, const B: usize, const N: usize>(first: [u8; A], second: [u8; B]) -> [u8; N] {
    const { assert!(A + B == N) };
    let mut joined = [0; N];
    joined[..A].copy_from_slice(&first);
    joined[A..].copy_from_slice(&second);
    joined
}

/// The two fields that [`join`] concatenated.
fn split<const A: usize, const B: usize, const N: usize>(joined: &[u8; N]) -> ([u8; A], [u8; B]) {
    const { assert!(A + B == N) };
    let (mut first, mut second) = ([0; A], [0; B]);
    first.copy_from_slice(&joined[..A]);
    second.copy_from_slice(&joined[A..]);
    (first, second)
}

/// The bytes of an outpoint or input: txnum (4) ‖ number of the output or input (3).
pub(in crate::index) fn tx_point(txnum: TxNum, position: Position) -> [u8; 7] {
    join(txnum.to_key(), position.to_key())
}

pub(in crate::index) fn split_tx_point(point: &[u8; 7]) -> (TxNum, Position) {
    let (txnum, position) = split(point);
    (TxNum::from_key(txnum), Position::from_key(position))
}

/// The key of a row about a script in a transaction: script key (10) ‖ txnum (4).
pub(in crate::index) fn script_key_and_txnum(script: ScriptKey, txnum: TxNum) -> [u8; 14] {
    join(script.0, txnum.to_key())
}

pub(in crate::index) fn split_script_key_and_txnum(key: &[u8; 14]) -> (ScriptKey, TxNum) {
    let (script, txnum) = split(key);
    (ScriptKey(script), TxNum::from_key(txnum))
}

/// A table that files of an earlier version lack.
pub(in crate::index) fn if_exists<T>(table: Result<T, TableError>) -> Result<Option<T>, IndexError> {
    match table {
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        table => Ok(Some(table?)),
    }
}
