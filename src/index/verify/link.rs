//! A spent output as a record that is sorted by the input that spends it.

use bitcoin::Txid;
use bitcoin::hashes::Hash;

use super::super::codec::Decoder;
use super::super::error::IndexError;
use super::super::hot::resolve::ResolvedPrevout;
use super::super::hot::tables::spends;
use super::super::keys::{Position, ScriptKey, TxNum};
use crate::chain::ScriptType;

/// The input, the output that it spends, and the txid that the input must name.
pub(super) struct Link {
    pub(super) input: spends::TxPoint,
    pub(super) txid: Txid,
    pub(super) prevout: ResolvedPrevout,
    /// The scriptPubKey of the output, if filters are checked.
    pub(super) script: Vec<u8>,
}

impl Link {
    pub(super) fn encode(&self) -> Vec<u8> {
        let ResolvedPrevout { txnum, vout, script, value, script_type, is_coinbase, median_time } = self.prevout;
        let script_type = u8::try_from(script_type.index()).unwrap_or(u8::MAX); // there are twelve
        [
            &self.input[..],
            self.txid.as_byte_array(),
            &spends::tx_point(txnum, vout),
            &script.0,
            &value.to_be_bytes(),
            &[script_type, u8::from(is_coinbase)],
            &median_time.to_be_bytes(),
            &self.script,
        ]
        .concat()
    }

    pub(super) fn decode(record: &[u8]) -> Result<Self, IndexError> {
        let mut record = Decoder::new("spends", record);
        let (input, txid) = (record.array()?, Txid::from_byte_array(record.array()?));
        let (txnum, vout): (TxNum, Position) = spends::split_tx_point(&record.array()?);
        let (script, value) = (ScriptKey(record.array()?), record.u64()?);
        let script_type = ScriptType::from_index(record.u8()?.into());
        let script_type = script_type.ok_or_else(|| record.corrupt("has an unknown script type"))?;
        let is_coinbase = record.u8()? == 1;
        let median_time = record.u32()?;
        let prevout = ResolvedPrevout { txnum, vout, script, value, script_type, is_coinbase, median_time };
        Ok(Self { input, txid, prevout, script: record.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_survives_its_encoding() {
        let prevout = ResolvedPrevout {
            txnum: TxNum(7),
            vout: Position::new(8).unwrap(),
            script: ScriptKey([9; 10]),
            value: 10,
            script_type: ScriptType::P2tr,
            is_coinbase: true,
            median_time: 11,
        };
        let place = spends::tx_point(TxNum(1), Position::new(2).unwrap());
        for script in [vec![], vec![0x51; 34]] {
            let link = Link { input: place, txid: Txid::from_byte_array([3; 32]), prevout, script };
            let encoded = link.encode();
            let decoded = Link::decode(&encoded).unwrap();
            assert_eq!((decoded.encode(), &decoded.script), (encoded.clone(), &link.script));
            assert_eq!((decoded.prevout.value, decoded.prevout.script_type), (10, ScriptType::P2tr));
            assert!(Link::decode(&encoded[..69]).is_err());
        }
    }
}
