//! Core's hash over the UTXO set: double SHA-256 over every unspent output, ordered by the bytes of its txid and then by
//! its number (`hash_serialized_3`; Core `kernel/coinstats.cpp`, `TxOutSer`).

use bitcoin::consensus::encode::{VarInt, serialize};
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Amount, Txid};

use super::super::codec::Decoder;
use super::super::error::IndexError;
use super::super::keys::Position;
use super::super::sorter::Sorter;
use super::report::UtxoSet;
use super::work::{Work, sorting};
use crate::chain::Height;

/// A record that sorts in the order of the hash: txid ‖ vout, then the rest of what is hashed.
pub(super) fn encode(
    txid: &Txid,
    vout: Position,
    height: Height,
    is_coinbase: bool,
    value: u64,
    script_pubkey: &[u8],
) -> Vec<u8> {
    let code = u64::from(height.to_u32()) * 2 + u64::from(is_coinbase);
    [
        &txid.as_byte_array()[..],
        &vout.to_u32().to_be_bytes(),
        &u32::try_from(code).unwrap_or(u32::MAX).to_le_bytes(),
        &value.to_le_bytes(),
        &serialize(&VarInt::from(script_pubkey.len())),
        script_pubkey,
    ]
    .concat()
}

impl Work<'_> {
    pub(super) fn hash_utxo_set(&mut self) -> Result<UtxoSet, IndexError> {
        let mut engine = sha256d::Hash::engine();
        let (mut outputs, mut total) = (0_u64, 0_u64);
        let expected = self.newest.take();
        let rows = expected.as_ref().map_or(0, |running| running.utxo_count);
        for record in self.utxos.take().map(Sorter::sorted).transpose().map_err(sorting)?.into_iter().flatten() {
            let record = record.map_err(sorting)?;
            let mut decoder = Decoder::new("unspent", &record);
            let (txid, vout): ([u8; 32], u32) = (decoder.array()?, decoder.u32()?);
            engine.input(&txid);
            engine.input(&vout.to_le_bytes());
            engine.input(&record[36..]);
            decoder.u32()?;
            outputs += 1;
            total = total.saturating_add(u64::from_le_bytes(decoder.array()?));
            self.progress("hashing the UTXO set", outputs, rows)?;
        }
        if let Some(running) = expected {
            if (running.utxo_count, running.utxo_value) != (outputs, total) {
                self.differences.add(format!(
                    "blocks: the tip counts {} unspent outputs of {} sat, and there are {outputs} of {total} sat",
                    running.utxo_count, running.utxo_value
                ));
            }
            let issued = running.unspendable.total().and_then(|unspendable| running.subsidy.checked_sub(unspendable));
            if issued != Some(total) {
                self.differences
                    .add("blocks: subsidies minus unspendable amounts differ from the value of the UTXO set");
            }
        }
        let hash_serialized_3 = sha256d::Hash::from_engine(engine);
        Ok(UtxoSet { outputs, total_amount: Amount::from_sat(total), hash_serialized_3 })
    }
}
