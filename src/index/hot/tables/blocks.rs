//! `blocks`: height (4) → the statistics of a block, and the totals of the chain up to and including it. Fixed width,
//! big-endian, fields in the order of [`BlockRow`].
//!
//! The sum over any window of blocks is the difference of two rows.

use bitcoin::block::Header;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Work};
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::super::super::keys::TxNum;
use crate::chain::raw::HEADER_SIZE;
use crate::chain::{Height, ScriptType};

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("blocks");

pub(in crate::index) fn key(height: Height) -> [u8; 4] {
    height.to_u32().to_be_bytes()
}

/// The number of points of the fee and feerate distributions: 0, 10, 25, 50, 75, 90 and 100 percent.
pub const QUANTILES: usize = 7;

/// One block. Amounts in sat, sizes in bytes, weight in weight units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Hash of the header.
    pub hash: BlockHash,
    /// The header.
    pub header: Header,
    /// Median time past with this block as the newest of eleven (BIP113), seconds since 1970.
    pub median_time: u32,
    /// Serialised size, witnesses included.
    pub size: u32,
    /// Serialised size without witnesses.
    pub stripped_size: u32,
    /// Three times the stripped size plus the size (BIP141).
    pub weight: u32,
    /// Transactions, the coinbase among them.
    pub transactions: u32,
    /// Inputs, the coinbase's not counted (as in Core's `getblockstats`).
    pub inputs: u32,
    /// Outputs, the coinbase's and unspendable ones among them.
    pub outputs: u32,
    /// Value of all outputs spent here.
    pub input_value: u128,
    /// Value of all outputs created here, the coinbase's among them.
    pub output_value: u128,
    /// The value that the block may create.
    pub subsidy: u64,
    /// Fees of its transactions.
    pub fees: u64,
    /// Value of the coinbase's outputs.
    pub coinbase_value: u64,
    /// Fees at 0 to 100 percent of the transactions but the coinbase, ordered by fee; the middle one is Core's
    /// truncated median, the others the nearest rank. Zeros in an empty block.
    pub fee_quantiles: [u64; QUANTILES],
    /// Feerates in sat per 1,000 vbytes at 0 to 100 percent of the weight of all transactions but the coinbase,
    /// ordered by feerate. Zeros in an empty block.
    pub feerate_quantiles: [u64; QUANTILES],
    /// Transactions with a witness, the coinbase not counted (as in Core's `getblockstats`).
    pub segwit_transactions: u32,
    /// Their size.
    pub segwit_size: u32,
    /// Their weight.
    pub segwit_weight: u32,
    /// P2TR outputs created.
    pub taproot_outputs: u32,
    /// OP_RETURN outputs created.
    pub op_return_outputs: u32,
    /// Bytes of their scripts.
    pub op_return_bytes: u32,
    /// Age that spending destroyed: sum over inputs of value times seconds between the median times past of the two
    /// blocks, in sat seconds.
    pub coin_age: u128,
    /// The chain up to and including this block.
    pub running: ChainTotals,
}

/// Totals of a chain up to and including a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainTotals {
    /// Transactions; so also the txnum that the next block begins with.
    pub transactions: u64,
    /// Inputs but those of coinbases.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
    /// Value of spent outputs.
    pub input_value: u128,
    /// Value of created outputs.
    pub output_value: u128,
    /// Fees.
    pub fees: u64,
    /// Subsidies that could be claimed.
    pub subsidy: u64,
    /// Bytes of all blocks.
    pub size: u64,
    /// Weight of all blocks.
    pub weight: u64,
    /// Weight of their transactions but the coinbases, which pay the fees.
    pub paying_weight: u64,
    /// Work of all headers.
    pub chainwork: Work,
    /// Blocks with nothing but a coinbase.
    pub empty_blocks: u32,
    /// Value that can never be spent.
    pub unspendable: Unspendable,
    /// Outputs in the UTXO set.
    pub utxo_count: u64,
    /// Their value.
    pub utxo_value: u64,
    /// Transactions with a witness, coinbases not counted.
    pub segwit_transactions: u64,
    /// Their size.
    pub segwit_size: u64,
    /// Their weight.
    pub segwit_weight: u64,
    /// Bytes of the scripts of OP_RETURN outputs.
    pub op_return_bytes: u64,
    /// Age that spending destroyed, in sat seconds.
    pub coin_age: u128,
    /// Sums over the blocks of each of their feerate quantiles, to which [empty](Self::empty_blocks) blocks add nothing.
    pub feerate_quantiles: [u64; QUANTILES],
    /// Outputs by script type, in the order of [`ScriptType::ALL`].
    pub types: [TypeTotals; ScriptType::ALL.len()],
}

/// Value that can never be spent, in sat, by its four kinds (as in Core's coinstatsindex).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unspendable {
    /// The genesis coinbase, which never entered the UTXO set.
    pub genesis: u64,
    /// Outputs that a later transaction with the same txid overwrote (BIP30).
    pub bip30: u64,
    /// Outputs whose script can never succeed: OP_RETURN and scripts over 10,000 bytes.
    pub scripts: u64,
    /// Reward that coinbases did not claim.
    pub unclaimed: u64,
}

impl Unspendable {
    /// All four together; `None` beyond 64 bits, which no chain reaches.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.genesis.checked_add(self.bip30)?.checked_add(self.scripts)?.checked_add(self.unclaimed)
    }
}

/// A count of outputs and their value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountAndValue {
    /// The number of outputs.
    pub count: u64,
    /// Their value, in sat.
    pub value: u128,
}

impl CountAndValue {
    pub(in crate::index) fn add(&mut self, value: u64) {
        // a count grows by one an output: 64 bits last longer than any chain
        self.count += 1;
        self.value += u128::from(value);
    }
}

/// Outputs of one script type. The UTXO set contains `created - spent - unspendable` of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeTotals {
    /// All created outputs.
    pub created: CountAndValue,
    /// Outputs that an input spent.
    pub spent: CountAndValue,
    /// Outputs that never entered the UTXO set, or were overwritten in it (BIP30).
    pub unspendable: CountAndValue,
}

impl ChainTotals {
    /// The totals before the genesis block.
    pub(in crate::index) fn zero() -> Self {
        Self {
            transactions: 0,
            inputs: 0,
            outputs: 0,
            input_value: 0,
            output_value: 0,
            fees: 0,
            subsidy: 0,
            size: 0,
            weight: 0,
            paying_weight: 0,
            chainwork: Work::from_be_bytes([0; 32]),
            empty_blocks: 0,
            unspendable: Unspendable::default(),
            utxo_count: 0,
            utxo_value: 0,
            segwit_transactions: 0,
            segwit_size: 0,
            segwit_weight: 0,
            op_return_bytes: 0,
            coin_age: 0,
            feerate_quantiles: [0; QUANTILES],
            types: [TypeTotals::default(); ScriptType::ALL.len()],
        }
    }

    /// P2TR outputs created.
    #[must_use]
    pub fn taproot_outputs(&self) -> u64 {
        self.types[ScriptType::P2tr.index()].created.count
    }

    /// OP_RETURN outputs created.
    #[must_use]
    pub fn op_return_outputs(&self) -> u64 {
        self.types[ScriptType::OpReturn.index()].created.count
    }

    fn encode_into(&self, row: &mut Encoder) {
        row.u64(self.transactions).u64(self.inputs).u64(self.outputs);
        row.u128(self.input_value).u128(self.output_value);
        row.u64(self.fees).u64(self.subsidy).u64(self.size).u64(self.weight);
        row.u64(self.paying_weight).bytes(&self.chainwork.to_be_bytes()).u32(self.empty_blocks);
        let Unspendable { genesis, bip30, scripts, unclaimed } = self.unspendable;
        row.u64(genesis).u64(bip30).u64(scripts).u64(unclaimed);
        row.u64(self.utxo_count).u64(self.utxo_value);
        row.u64(self.segwit_transactions).u64(self.segwit_size).u64(self.segwit_weight);
        row.u64(self.op_return_bytes).u128(self.coin_age);
        for sum in &self.feerate_quantiles {
            row.u64(*sum);
        }
        for totals in &self.types {
            for pair in [totals.created, totals.spent, totals.unspendable] {
                row.u64(pair.count).u128(pair.value);
            }
        }
    }

    fn decode_from(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let mut running = Self {
            transactions: row.u64()?,
            inputs: row.u64()?,
            outputs: row.u64()?,
            input_value: row.u128()?,
            output_value: row.u128()?,
            fees: row.u64()?,
            subsidy: row.u64()?,
            size: row.u64()?,
            weight: row.u64()?,
            paying_weight: row.u64()?,
            chainwork: Work::from_be_bytes(row.array()?),
            empty_blocks: row.u32()?,
            unspendable: Unspendable {
                genesis: row.u64()?,
                bip30: row.u64()?,
                scripts: row.u64()?,
                unclaimed: row.u64()?,
            },
            utxo_count: row.u64()?,
            utxo_value: row.u64()?,
            segwit_transactions: row.u64()?,
            segwit_size: row.u64()?,
            segwit_weight: row.u64()?,
            op_return_bytes: row.u64()?,
            coin_age: row.u128()?,
            feerate_quantiles: [0; QUANTILES],
            types: [TypeTotals::default(); ScriptType::ALL.len()],
        };
        for sum in &mut running.feerate_quantiles {
            *sum = row.u64()?;
        }
        for totals in &mut running.types {
            for pair in [&mut totals.created, &mut totals.spent, &mut totals.unspendable] {
                *pair = CountAndValue { count: row.u64()?, value: row.u128()? };
            }
        }
        Ok(running)
    }
}

impl BlockRow {
    /// The position of the first transaction of the block, which is of the active chain at this height.
    ///
    /// Errors: the block has more transactions than the chain up to it.
    pub fn first_txnum(&self, height: Height) -> Result<TxNum, IndexError> {
        let first = self.running.transactions.checked_sub(self.transactions.into());
        first.and_then(|first| u32::try_from(first).ok()).map(TxNum).ok_or_else(|| {
            let what = format!("the row at height {height} counts more transactions than the chain");
            IndexError::corrupt("blocks", what)
        })
    }

    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let mut row = Encoder::default();
        row.bytes(self.hash.as_byte_array()).bytes(&serialize(&self.header)).u32(self.median_time);
        row.u32(self.size).u32(self.stripped_size).u32(self.weight);
        row.u32(self.transactions).u32(self.inputs).u32(self.outputs);
        row.u128(self.input_value).u128(self.output_value);
        row.u64(self.subsidy).u64(self.fees).u64(self.coinbase_value);
        for value in self.fee_quantiles.iter().chain(&self.feerate_quantiles) {
            row.u64(*value);
        }
        row.u32(self.segwit_transactions).u32(self.segwit_size).u32(self.segwit_weight);
        row.u32(self.taproot_outputs).u32(self.op_return_outputs).u32(self.op_return_bytes);
        row.u128(self.coin_age);
        self.running.encode_into(&mut row);
        row.finish()
    }

    pub(in crate::index) fn decode(row: &[u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("blocks", row);
        let decoded = Self::decode_from(&mut row)?;
        row.finish()?;
        Ok(decoded)
    }

    /// Only the hash of the block.
    pub(in crate::index) fn decode_hash(row: &[u8]) -> Result<BlockHash, IndexError> {
        Ok(BlockHash::from_byte_array(Decoder::new("blocks", row).array()?))
    }

    /// Only the median time past of the block.
    pub(in crate::index) fn decode_median_time(row: &[u8]) -> Result<u32, IndexError> {
        let mut row = Decoder::new("blocks", row);
        row.array::<{ BlockHash::LEN + HEADER_SIZE }>()?;
        row.u32()
    }

    /// Decodes a row at the front of the remaining bytes, as in `stale_blocks`.
    pub(in crate::index) fn decode_from(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let hash = BlockHash::from_byte_array(row.array()?);
        let header: Header = deserialize(&row.array::<80>()?).map_err(|_| row.corrupt("has no header"))?;
        let mut decoded = Self {
            hash,
            header,
            median_time: row.u32()?,
            size: row.u32()?,
            stripped_size: row.u32()?,
            weight: row.u32()?,
            transactions: row.u32()?,
            inputs: row.u32()?,
            outputs: row.u32()?,
            input_value: row.u128()?,
            output_value: row.u128()?,
            subsidy: row.u64()?,
            fees: row.u64()?,
            coinbase_value: row.u64()?,
            fee_quantiles: [0; QUANTILES],
            feerate_quantiles: [0; QUANTILES],
            segwit_transactions: 0,
            segwit_size: 0,
            segwit_weight: 0,
            taproot_outputs: 0,
            op_return_outputs: 0,
            op_return_bytes: 0,
            coin_age: 0,
            running: ChainTotals::zero(),
        };
        for value in decoded.fee_quantiles.iter_mut().chain(&mut decoded.feerate_quantiles) {
            *value = row.u64()?;
        }
        decoded.segwit_transactions = row.u32()?;
        decoded.segwit_size = row.u32()?;
        decoded.segwit_weight = row.u32()?;
        decoded.taproot_outputs = row.u32()?;
        decoded.op_return_outputs = row.u32()?;
        decoded.op_return_bytes = row.u32()?;
        decoded.coin_age = row.u128()?;
        decoded.running = ChainTotals::decode_from(row)?;
        Ok(decoded)
    }
}

/// The number of the next transaction after a chain with these totals.
pub(in crate::index) fn next_txnum(running: &ChainTotals) -> Result<TxNum, IndexError> {
    u32::try_from(running.transactions).map(TxNum).map_err(|_| too_many())
}

pub(in crate::index) fn too_many() -> IndexError {
    IndexError::corrupt("transactions", "the chain has more transactions than this format can number (2^32)")
}

#[cfg(test)]
impl BlockRow {
    /// A row whose every field differs from its neighbours.
    pub(crate) fn example() -> Self {
        let header = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin).header;
        let pair = |i: u64| CountAndValue { count: i, value: u128::from(i) << 70 };
        Self {
            hash: header.block_hash(),
            header,
            median_time: 1,
            size: 2,
            stripped_size: 3,
            weight: 4,
            transactions: 5,
            inputs: 6,
            outputs: 7,
            input_value: 1 << 65,
            output_value: 1 << 66,
            subsidy: 8,
            fees: 9,
            coinbase_value: 10,
            fee_quantiles: [11, 12, 13, 14, 15, 16, 17],
            feerate_quantiles: [18, 19, 20, 21, 22, 23, 24],
            segwit_transactions: 25,
            segwit_size: 26,
            segwit_weight: 27,
            taproot_outputs: 28,
            op_return_outputs: 29,
            op_return_bytes: 30,
            coin_age: 1 << 100,
            running: ChainTotals {
                transactions: 31,
                inputs: 32,
                outputs: 33,
                input_value: 1 << 67,
                output_value: 1 << 68,
                fees: 34,
                subsidy: 35,
                size: 36,
                weight: 37,
                paying_weight: 56,
                chainwork: header.work(),
                empty_blocks: 38,
                unspendable: Unspendable { genesis: 39, bip30: 40, scripts: 41, unclaimed: 42 },
                utxo_count: 43,
                utxo_value: 44,
                segwit_transactions: 45,
                segwit_size: 46,
                segwit_weight: 47,
                op_return_bytes: 48,
                coin_age: 1 << 101,
                feerate_quantiles: [49, 50, 51, 52, 53, 54, 55],
                types: std::array::from_fn(|i| {
                    let i = u64::try_from(i).unwrap();
                    TypeTotals { created: pair(100 + i), spent: pair(200 + i), unspendable: pair(300 + i) }
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_encoding_and_another_length_is_refused() {
        let row = BlockRow::example();
        let mut encoded = row.encode();
        assert_eq!(BlockRow::decode(&encoded).unwrap(), row);
        // as docs/index-format.md says
        assert_eq!(encoded.len(), 1_496);
        assert!(BlockRow::decode(&encoded[1..]).is_err());
        encoded.push(0);
        assert!(BlockRow::decode(&encoded).is_err());
    }
}
