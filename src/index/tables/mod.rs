//! The tables, one per file: the meaning of a row, the layout of its key and value, and both directions of the
//! encoding.
//!
//! Keys are fixed-width and big-endian, so that the order of bytes is the order of numbers.

pub(super) mod address_prefixes;
pub(super) mod block_files;
pub(super) mod block_filters;
pub(super) mod block_hashes;
pub(super) mod block_observed;
pub(super) mod block_starts;
pub(super) mod blocks;
pub(super) mod departed;
pub(super) mod first_seen;
pub(super) mod history;
pub(super) mod mempool;
pub(super) mod mempool_samples;
pub(super) mod meta;
pub(super) mod miner_blocks;
pub(super) mod op_returns;
pub(super) mod overwritten;
pub(super) mod p2pk;
pub(super) mod payouts;
pub(super) mod raw_blocks;
pub(super) mod reorgs;
pub(super) mod spends;
pub(super) mod stale_blocks;
pub(super) mod stale_transactions;
pub(super) mod transactions;
pub(super) mod txids;
pub(super) mod unspent;
pub(super) mod wtxids;

use super::keys::{Position, ScriptKey, TxNum};

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
