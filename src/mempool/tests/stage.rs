//! Builders of test transactions.

use std::sync::Arc;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::transaction::Version;
use bitcoin::{Amount, BlockHash, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};

use crate::chain::Height;
use crate::mempool::{Arrival, Cause, Entry, Prevout, PrevoutSource};

/// The tip when everything arrives.
pub(super) const TIP: u32 = 100;
/// The value of every confirmed coin and of what is made of it, in sat.
pub(super) const COIN: u64 = 1_000_000;

/// A coin of the chain, one for each number.
pub(super) fn coin(number: u8) -> (OutPoint, Prevout) {
    let txid = Txid::from_byte_array([number; 32]);
    let source = PrevoutSource::Confirmed { height: Height::from(u32::from(number)), coinbase: false };
    (OutPoint { txid, vout: 0 }, Prevout { value: COIN, script_pubkey: script(0).into(), source })
}

/// An output of a transaction of the mempool.
pub(super) fn output(of: &Arrival, vout: u32) -> (OutPoint, Prevout) {
    let raw = crate::chain::raw::RawTransaction::parse(&of.raw).unwrap();
    let output = raw.output(vout).unwrap();
    let script_pubkey = output.script_pubkey.into();
    let prevout = Prevout { value: output.value, script_pubkey, source: PrevoutSource::Unconfirmed };
    (OutPoint { txid: of.txid, vout }, prevout)
}

/// The script with this number. Outputs with number 9 can never be spent.
pub(super) fn script(number: u8) -> Vec<u8> {
    if number == 9 { vec![0x6a] } else { vec![0x51, number] }
}

pub(super) fn script_hash(number: u8) -> [u8; 32] {
    sha256::Hash::hash(&script(number)).to_byte_array()
}

pub(super) fn block(number: u8) -> BlockHash {
    BlockHash::from_byte_array([number; 32])
}

/// A transaction that spends this, with one output for each script, and pays this many sat for each weight unit. What
/// it spends is shared out evenly, the remainder adds to the fee.
pub(super) fn paying(rate: u64, spends: &[(OutPoint, Prevout)], scripts: &[u8], lock_time: u32) -> Arrival {
    let mut transaction = Transaction {
        version: Version::TWO,
        lock_time: LockTime::from_consensus(lock_time),
        input: spends
            .iter()
            .map(|(outpoint, _)| TxIn {
                previous_output: *outpoint,
                script_sig: ScriptBuf::new(),
                sequence: Sequence::MAX,
                witness: Witness::from_slice(&[[7; 64]]),
            })
            .collect(),
        output: scripts
            .iter()
            .map(|number| TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes(script(*number)) })
            .collect(),
    };
    let spent: u64 = spends.iter().map(|(_, prevout)| prevout.value).sum();
    let fee = (rate * transaction.weight().to_wu()).min(spent);
    // the last output takes what cannot be shared, so that the feerate is exact
    let count = u64::try_from(scripts.len()).unwrap();
    let each = (spent - fee) / count;
    for output in &mut transaction.output {
        output.value = Amount::from_sat(each);
    }
    transaction.output.last_mut().unwrap().value = Amount::from_sat(spent - fee - each * (count - 1));
    Arrival {
        txid: transaction.compute_txid(),
        wtxid: transaction.compute_wtxid(),
        raw: Arc::from(serialize(&transaction)),
        prevouts: spends.iter().map(|(_, prevout)| prevout.clone()).collect(),
        first_seen: 1_000,
        height: Height::from(TIP),
        cause: Cause::New,
    }
}

/// A transaction that spends this at one sat for each weight unit.
pub(super) fn spending(spends: &[(OutPoint, Prevout)], outputs: usize) -> Arrival {
    paying(1, spends, &vec![1; outputs], 0)
}

pub(super) fn txids<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Vec<Txid> {
    entries.into_iter().map(|entry| entry.txid).collect()
}
