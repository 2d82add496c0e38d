//! `op_returns` (optional): first 3 bytes of the data of an OP_RETURN output ‖ txnum (4) ‖ vout (3) ‖ the next 5 bytes of the
//! data, 0 behind its end → (). The data is that of all pushes, one behind the other; outputs with less than 3 bytes have no
//! row. Readers compare the full data.

use bitcoin::Script;
use redb::TableDefinition;

use super::super::super::keys::{Position, TxNum};
use super::{join, split, split_tx_point, tx_point};
use crate::chain::raw::RawTransaction;
use crate::chain::script::op_return;

pub(in crate::index) const NAME: &str = "op_returns";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 15], ()> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
pub(in crate::index) const VERSION: u32 = 1;

/// Where the transaction stands in a key.
pub(in crate::index) const TXNUM_AT: usize = 3;

/// The fewest bytes of data by which outputs are found.
pub const SHORTEST_DATA: usize = 3;

pub(in crate::index) type OpReturnKey = [u8; 15];

/// The first 3 bytes of data.
pub(in crate::index) type DataTag = [u8; SHORTEST_DATA];

/// The bytes of data behind the tag, 0 behind the end.
pub(in crate::index) type DataRest = [u8; 5];

/// The tag and the bytes behind it of data, `None` if it is too short.
pub(in crate::index) fn parts(data: impl IntoIterator<Item = u8>) -> Option<(DataTag, DataRest)> {
    let mut bytes = [0; 8];
    let mut length = 0;
    for (at, byte) in bytes.iter_mut().zip(data) {
        *at = byte;
        length += 1;
    }
    (length >= SHORTEST_DATA).then(|| split(&bytes))
}

/// The beginning of a key: tag ‖ txnum ‖ vout.
pub(in crate::index) fn entry_key(tag: DataTag, txnum: TxNum, vout: Position) -> [u8; 10] {
    join(tag, tx_point(txnum, vout))
}

pub(in crate::index) fn key(tag: DataTag, txnum: TxNum, vout: Position, rest: DataRest) -> OpReturnKey {
    join(entry_key(tag, txnum, vout), rest)
}

pub(in crate::index) fn split_entry_key(key: &[u8; 10]) -> (DataTag, TxNum, Position) {
    let (tag, point) = split(key);
    let (txnum, vout) = split_tx_point(&point);
    (tag, txnum, vout)
}

/// The beginning of a key, and the bytes of data at its end.
pub(in crate::index) fn split_key(key: &OpReturnKey) -> ([u8; 10], DataRest) {
    split(key)
}

/// A key that begins so.
pub(in crate::index) fn with_rest(beginning: [u8; 10], rest: DataRest) -> OpReturnKey {
    join(beginning, rest)
}

/// The keys of a transaction.
pub(in crate::index) fn keys_of(txnum: TxNum, transaction: &RawTransaction<'_>) -> impl Iterator<Item = OpReturnKey> {
    (0..).map_while(Position::new).zip(transaction.outputs()).filter_map(move |(vout, output)| {
        let (_, pushes) = op_return(Script::from_bytes(output.script_pubkey))?;
        let (tag, rest) = parts(pushes.into_iter().flatten().copied())?;
        Some(key(tag, txnum, vout, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_encoding() {
        let vout = Position::new(70_000).unwrap();
        let (beginning, rest) = split_key(&key(*b"omn", TxNum(142_572), vout, *b"i\0\0\0\0"));
        assert_eq!(split_entry_key(&beginning), (*b"omn", TxNum(142_572), vout));
        assert_eq!(&rest, b"i\0\0\0\0");
    }

    #[test]
    fn data_that_is_too_short_has_no_parts() {
        assert_eq!(parts(*b"ab"), None);
        assert_eq!(parts(*b"abc"), Some((*b"abc", [0; 5])));
        assert_eq!(parts(*b"abcdefghij"), Some((*b"abc", *b"defgh")));
    }
}
