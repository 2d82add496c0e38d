//! `blocks`: height (4) → the fields of the live row, the header first and then numbers as varints. The hash is that of the
//! header.

use bitcoin::block::Header;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{BlockHash, Work};
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::super::super::hot::tables::blocks::{
    BlockRow, ChainTotals, CountAndValue, QUANTILES, TypeTotals, Unspendable,
};
use super::super::versions::TableVersions;
use crate::chain::ScriptType;
use crate::chain::raw::HEADER_SIZE;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("blocks");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("blocks", 2..=2);

pub(in crate::index) fn encode(block: &BlockRow) -> Vec<u8> {
    let mut row = Encoder::default();
    row.bytes(&serialize(&block.header));
    for number in [
        block.median_time,
        block.size,
        block.stripped_size,
        block.weight,
        block.transactions,
        block.inputs,
        block.outputs,
        block.segwit_transactions,
        block.segwit_size,
        block.segwit_weight,
        block.taproot_outputs,
        block.op_return_outputs,
        block.op_return_bytes,
    ] {
        row.varint(number);
    }
    row.varint_128(block.input_value).varint_128(block.output_value).varint_128(block.coin_age);
    row.varint(block.subsidy).varint(block.fees).varint(block.coinbase_value);
    for value in block.fee_quantiles.iter().chain(&block.feerate_quantiles) {
        row.varint(*value);
    }
    encode_totals(&mut row, &block.running);
    row.finish()
}

fn encode_totals(row: &mut Encoder, totals: &ChainTotals) {
    row.varint(totals.transactions).varint(totals.inputs).varint(totals.outputs);
    row.varint_128(totals.input_value).varint_128(totals.output_value);
    row.varint(totals.fees).varint(totals.subsidy).varint(totals.size).varint(totals.weight);
    row.varint(totals.paying_weight);
    let work = totals.chainwork.to_be_bytes();
    let zeros = work.iter().take_while(|byte| **byte == 0).count();
    row.varint(u8::try_from(work.len() - zeros).unwrap_or(u8::MAX)).bytes(&work[zeros..]);
    row.varint(totals.empty_blocks);
    let Unspendable { genesis, bip30, scripts, unclaimed } = totals.unspendable;
    row.varint(genesis).varint(bip30).varint(scripts).varint(unclaimed);
    row.varint(totals.utxo_count).varint(totals.utxo_value);
    row.varint(totals.segwit_transactions).varint(totals.segwit_size).varint(totals.segwit_weight);
    row.varint(totals.op_return_bytes).varint_128(totals.coin_age);
    for sum in totals.feerate_quantiles {
        row.varint(sum);
    }
    for totals in &totals.types {
        for CountAndValue { count, value } in [totals.created, totals.spent, totals.unspendable] {
            row.varint(count).varint_128(value);
        }
    }
}

/// Only the hash.
pub(in crate::index) fn decode_hash(row: &[u8]) -> Result<BlockHash, IndexError> {
    Ok(decode_header(&mut Decoder::new("blocks", row))?.block_hash())
}

/// Only the median time past.
pub(in crate::index) fn decode_median_time(row: &[u8]) -> Result<u32, IndexError> {
    let mut row = Decoder::new("blocks", row);
    row.array::<HEADER_SIZE>()?;
    row.varint()
}

fn decode_header(row: &mut Decoder<'_>) -> Result<Header, IndexError> {
    deserialize(&row.array::<HEADER_SIZE>()?).map_err(|_| row.corrupt("has no header"))
}

pub(in crate::index) fn decode(row: &[u8]) -> Result<BlockRow, IndexError> {
    let mut row = Decoder::new("blocks", row);
    let header = decode_header(&mut row)?;
    let mut block = BlockRow {
        hash: header.block_hash(),
        header,
        median_time: row.varint()?,
        size: row.varint()?,
        stripped_size: row.varint()?,
        weight: row.varint()?,
        transactions: row.varint()?,
        inputs: row.varint()?,
        outputs: row.varint()?,
        segwit_transactions: row.varint()?,
        segwit_size: row.varint()?,
        segwit_weight: row.varint()?,
        taproot_outputs: row.varint()?,
        op_return_outputs: row.varint()?,
        op_return_bytes: row.varint()?,
        input_value: row.varint()?,
        output_value: row.varint()?,
        coin_age: row.varint()?,
        subsidy: row.varint()?,
        fees: row.varint()?,
        coinbase_value: row.varint()?,
        fee_quantiles: [0; QUANTILES],
        feerate_quantiles: [0; QUANTILES],
        running: ChainTotals::zero(),
    };
    for value in block.fee_quantiles.iter_mut().chain(&mut block.feerate_quantiles) {
        *value = row.varint()?;
    }
    block.running = decode_totals(&mut row)?;
    row.finish()?;
    Ok(block)
}

fn decode_totals(row: &mut Decoder<'_>) -> Result<ChainTotals, IndexError> {
    let mut totals = ChainTotals {
        transactions: row.varint()?,
        inputs: row.varint()?,
        outputs: row.varint()?,
        input_value: row.varint()?,
        output_value: row.varint()?,
        fees: row.varint()?,
        subsidy: row.varint()?,
        size: row.varint()?,
        weight: row.varint()?,
        paying_weight: row.varint()?,
        chainwork: decode_work(row)?,
        empty_blocks: row.varint()?,
        unspendable: Unspendable {
            genesis: row.varint()?,
            bip30: row.varint()?,
            scripts: row.varint()?,
            unclaimed: row.varint()?,
        },
        utxo_count: row.varint()?,
        utxo_value: row.varint()?,
        segwit_transactions: row.varint()?,
        segwit_size: row.varint()?,
        segwit_weight: row.varint()?,
        op_return_bytes: row.varint()?,
        coin_age: row.varint()?,
        feerate_quantiles: [0; QUANTILES],
        types: [TypeTotals::default(); ScriptType::ALL.len()],
    };
    for sum in &mut totals.feerate_quantiles {
        *sum = row.varint()?;
    }
    for totals in &mut totals.types {
        for pair in [&mut totals.created, &mut totals.spent, &mut totals.unspendable] {
            *pair = CountAndValue { count: row.varint()?, value: row.varint()? };
        }
    }
    Ok(totals)
}

fn decode_work(row: &mut Decoder<'_>) -> Result<Work, IndexError> {
    let size: u8 = row.varint()?;
    let bytes = row.take(size.into())?;
    let mut work = [0; 32];
    let start = work.len().checked_sub(bytes.len()).ok_or_else(|| row.corrupt("has too much work"))?;
    work[start..].copy_from_slice(bytes);
    Ok(Work::from_be_bytes(work))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_survives_encoding_and_another_length_is_refused() {
        let row = BlockRow::example();
        let mut encoded = encode(&row);
        assert_eq!(decode(&encoded).unwrap(), row);
        assert_eq!(decode_hash(&encoded).unwrap(), row.hash);
        assert!(encoded.len() < row.encode().len() / 2, "{}", encoded.len());
        assert!(decode(&encoded[1..]).is_err());
        assert!(decode(&encoded[..encoded.len() - 1]).is_err());
        encoded.push(0);
        assert!(decode(&encoded).is_err());
    }

    proptest! {
        #[test]
        fn a_damaged_row_is_an_error_or_another_row(at in 0_usize..600, flip in 1_u8..) {
            let mut encoded = encode(&BlockRow::example());
            let at = at % encoded.len();
            encoded[at] ^= flip;
            prop_assert!(decode(&encoded).map_or(true, |row| row != BlockRow::example()));
        }
    }
}
