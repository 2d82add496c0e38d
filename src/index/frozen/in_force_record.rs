//! What the index records about the generations in force: a row of `meta`.

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::hot::tables::meta;
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;

/// What the index records about a generation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) struct InForceRecord {
    pub(in crate::index) name: String,
    pub(in crate::index) last: Tip,
    pub(in crate::index) end: TxNum,
}

impl InForceRecord {
    /// The row of all of them in `meta`.
    pub(in crate::index) fn encode_all(records: &[Self]) -> Vec<u8> {
        let mut row = Encoder::default();
        for Self { name, last, end } in records {
            row.blob(name.as_bytes()).bytes(&meta::encode_tip(last.height, last.hash)).u32(end.0);
        }
        row.finish()
    }

    pub(in crate::index) fn decode_all(row: &[u8]) -> Result<Vec<Self>, IndexError> {
        let (mut row, mut records) = (Decoder::new("meta", row), Vec::new());
        while !row.is_empty() {
            let name = std::str::from_utf8(row.blob()?).map(str::to_owned);
            let name = name.map_err(|_| row.corrupt("names a generation with bytes that are not text"))?;
            let (height, hash) = meta::decode_tip(&row.array::<36>()?)?;
            records.push(Self { name, last: Tip { height, hash }, end: TxNum(row.u32()?) });
        }
        Ok(records)
    }
}
