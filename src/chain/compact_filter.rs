//! Basic compact filters of blocks (BIP158), and the headers that commit to them (BIP157).
//!
//! The elements of a filter are the scriptPubKeys that a block pays, those that begin with OP_RETURN excepted, and those of the
//! outputs that it spends. Each counts once, and an empty one does not count. The Golomb-coded set of them is made by the
//! `bitcoin` crate.

use bitcoin::bip158::{FilterHash, FilterHeader, GcsFilterWriter};
use bitcoin::hashes::Hash;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::{BlockHash, OutPoint};

use super::raw::RawTransaction;

/// The bits of a remainder in the Golomb-Rice code of basic filters (BIP158).
const REMAINDER_BITS: u8 = 19;
/// One in so many scripts that are not in a basic filter matches it (BIP158).
const FALSE_POSITIVE_RATE: u64 = 784_931;

/// The basic filter of a block, as it is sent between nodes: the number of its elements, and a Golomb-coded set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicFilter(Vec<u8>);

impl BasicFilter {
    /// The filter of a block that pays and spends outputs with these scriptPubKeys.
    pub fn new<'s>(
        block: BlockHash,
        paid: impl IntoIterator<Item = &'s [u8]>,
        spent: impl IntoIterator<Item = &'s [u8]>,
    ) -> Self {
        let mut content = Vec::new();
        // the two halves of the first 16 bytes of the block hash are the key of the hash function (BIP158)
        let hash = block.to_byte_array();
        let key = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| hash[at + byte]));
        let mut writer = GcsFilterWriter::new(&mut content, key(0), key(8), FALSE_POSITIVE_RATE, REMAINDER_BITS);
        let paid = paid.into_iter().filter(|script| script.first() != Some(&OP_RETURN.to_u8()));
        for script in paid.chain(spent) {
            writer.add_element(script);
        }
        // a vector takes every byte
        let _ = writer.finish();
        Self(content)
    }

    /// Its serialisation.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its hash (BIP157).
    #[must_use]
    pub fn hash(&self) -> FilterHash {
        FilterHash::hash(&self.0)
    }

    /// Its header, after that of the block before; for the genesis block after [`before_genesis`].
    #[must_use]
    pub fn header(&self, previous: &FilterHeader) -> FilterHeader {
        self.hash().filter_header(previous)
    }
}

/// What stands for the filter header of the block before the genesis block (BIP157).
#[must_use]
pub fn before_genesis() -> FilterHeader {
    FilterHeader::all_zeros()
}

/// The outputs that transactions spend, in the order of their inputs; the input of a coinbase spends none.
pub fn spent_outpoints<'t>(transactions: &'t [RawTransaction<'_>]) -> impl Iterator<Item = OutPoint> + 't {
    let inputs = transactions.iter().flat_map(RawTransaction::inputs).filter(|input| !input.is_null());
    inputs.map(|input| OutPoint { txid: input.outpoint_txid(), vout: input.vout })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bitcoin::Block;
    use bitcoin::consensus::deserialize;
    use bitcoin::hex::{DisplayHex, FromHex};

    use super::super::raw::RawBlock;
    use super::*;

    struct Vector<'v> {
        name: &'v str,
        block: Vec<u8>,
        spent: Vec<Vec<u8>>,
        /// `previous`, `filter` and `header`.
        hex: HashMap<&'v str, &'v str>,
    }

    fn vectors() -> Vec<Vector<'static>> {
        let mut found: Vec<Vector<'static>> = Vec::new();
        let (mut name, bytes) = ("", |hex: &str| Vec::from_hex(hex).unwrap());
        for line in include_str!("compact_filter/vectors.txt").lines() {
            let (what, value) = line.split_once(' ').unwrap_or((line, ""));
            match what {
                "#" => name = value,
                "block" => found.push(Vector { name, block: bytes(value), spent: Vec::new(), hex: HashMap::new() }),
                "spent" => found.last_mut().unwrap().spent.push(bytes(value)),
                _ => drop(found.last_mut().unwrap().hex.insert(what, value)),
            }
        }
        found
    }

    fn header(hex: &str) -> FilterHeader {
        let mut bytes = <[u8; 32]>::from_hex(hex).unwrap();
        bytes.reverse();
        FilterHeader::from_byte_array(bytes)
    }

    #[test]
    fn filters_and_headers_are_those_of_the_vectors_of_bip158() {
        let vectors = vectors();
        for Vector { name, block, spent, hex } in &vectors {
            let hash = deserialize::<Block>(block).unwrap().block_hash();
            let raw = RawBlock::parse(block).unwrap();
            assert_eq!(spent_outpoints(&raw.transactions).count(), spent.len(), "{name}");
            let paid = raw.transactions.iter().flat_map(RawTransaction::outputs).map(|output| output.script_pubkey);
            let filter = BasicFilter::new(hash, paid, spent.iter().map(Vec::as_slice));
            assert_eq!(filter.as_bytes().to_lower_hex_string(), hex["filter"], "{name}");
            assert_eq!(filter.header(&header(hex["previous"])), header(hex["header"]), "{name}");
        }
        assert_eq!(vectors.len(), 10);
        assert_eq!(header(vectors[0].hex["previous"]), before_genesis());
    }

    #[test]
    fn elements_count_once_and_neither_empty_nor_behind_op_return() {
        let block = BlockHash::from_byte_array([9; 32]);
        let of = |paid: &[&'static [u8]], spent: &[&'static [u8]]| {
            BasicFilter::new(block, paid.iter().copied(), spent.iter().copied())
        };
        let both = of(&[b"\x51", b"\x52"], &[]);
        assert_eq!(of(&[b"\x52", b"\x6a\x51", b"", b"\x51", b"\x52"], &[b"\x51", b""]), both);
        // an output with such a script cannot be spent, and would count (BIP158)
        assert_ne!(of(&[b"\x51", b"\x52"], &[b"\x6a\x51"]), both);
        assert_eq!(of(&[b"\x6a"], &[b""]).as_bytes(), [0]);
    }
}
