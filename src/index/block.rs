//! A block parsed for connecting: hashed, sliced and classified. Needs no database, so any thread can parse a block
//! while the writer connects the blocks before it.

use std::ops::Range;

use bitcoin::block::Header;
use bitcoin::consensus::encode::VarInt;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::{Hash, hash160};
use bitcoin::{BlockHash, OutPoint, Script, Txid, merkle_tree};
use redb::ReadableTable;

use super::codec::small;
use super::error::IndexError;
use super::hot::tables::blocks::BlockRow;
use super::hot::tables::transactions::TransactionRow;
use super::keys::{Position, Salt, ScriptKey, TxNum, TxidPrefix};
use super::statistics::{BlockFacts, OutputFacts, TransactionFacts};
use crate::chain::ScriptType;
use crate::chain::raw::{MAX_BLOCK_SIZE, RawBlock};
use crate::chain::script::{never_spendable, p2pk_key};

/// Parses blocks for one index (row keys depend on its salt).
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    pub(super) salt: Salt,
}

/// A parsed block, ready to be connected.
#[derive(Clone, Debug)]
pub struct ParsedBlock {
    pub(super) hash: BlockHash,
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
    /// Size without witnesses.
    pub(super) stripped_size: u32,
    pub(super) transactions: Vec<BlockTransaction>,
    /// Outpoints of all inputs but the coinbase's, in order.
    pub(super) inputs: Vec<(Txid, u32)>,
    /// All outputs in order.
    pub(super) outputs: Vec<BlockOutput>,
}

#[derive(Clone, Debug)]
pub(super) struct BlockTransaction {
    pub(super) txid: Txid,
    pub(super) prefix: TxidPrefix,
    /// Where its bytes are in the block.
    pub(super) raw: Range<usize>,
    pub(super) facts: TransactionFacts,
    /// The range of its inputs in [`ParsedBlock::inputs`]; empty for the coinbase.
    pub(super) inputs: Range<usize>,
    /// The range of its outputs in [`ParsedBlock::outputs`].
    pub(super) outputs: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOutput {
    pub(super) vout: Position,
    pub(super) script: ScriptKey,
    /// In sat.
    pub(super) value: u64,
    pub(super) script_type: ScriptType,
    pub(super) never_spendable: bool,
    pub(super) script_size: u32,
    /// HASH160 of the key of a P2PK output.
    pub(super) p2pk: Option<hash160::Hash>,
}

impl Parser {
    /// Parses the block with this hash. Checks the header hash, the merkle root, and that the first transaction alone
    /// is a coinbase, so that everything but the witnesses is proven to be that block; witnesses are not checked.
    ///
    /// Errors: [`IndexError::Malformed`], [`IndexError::InvalidBlock`].
    pub fn parse(&self, hash: BlockHash, bytes: Vec<u8>) -> Result<ParsedBlock, IndexError> {
        let invalid = |what: &str| IndexError::InvalidBlock { hash, what: what.into() };
        let raw = RawBlock::parse(&bytes).map_err(|source| IndexError::Malformed { hash, source })?;
        let header: Header = deserialize(raw.header).map_err(|_| invalid("its header cannot be decoded"))?;
        if header.block_hash() != hash {
            return Err(invalid(&format!("its header hashes to {}", header.block_hash())));
        }

        let mut transactions = Vec::with_capacity(raw.transactions.len());
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let (mut at, mut stripped_size) = (raw.frame_size, raw.frame_size);
        for (index, transaction) in raw.transactions.iter().enumerate() {
            if transaction.is_coinbase() != (index == 0) {
                return Err(invalid("its first transaction, and no other, must be a coinbase"));
            }
            let (first_input, first_output) = (inputs.len(), outputs.len());
            if index > 0 {
                inputs.extend(transaction.inputs().map(|input| (input.outpoint_txid(), input.vout)));
            }
            for (vout, output) in (0..).map_while(Position::new).zip(transaction.outputs()) {
                outputs.push(BlockOutput::of(self.salt, vout, output.value, Script::from_bytes(output.script_pubkey)));
            }
            if outputs.len() - first_output != transaction.output_count() {
                return Err(invalid("a transaction has more outputs than fit a block"));
            }
            let txid = transaction.txid();
            stripped_size += transaction.stripped_size();
            transactions.push(BlockTransaction {
                txid,
                prefix: self.salt.txid_prefix(&txid),
                raw: at..at + transaction.size(),
                facts: TransactionFacts::of(transaction),
                inputs: first_input..inputs.len(),
                outputs: first_output..outputs.len(),
            });
            at += transaction.size();
        }
        let txids = transactions.iter().map(|transaction| transaction.txid.to_raw_hash());
        if merkle_tree::calculate_root(txids) != Some(header.merkle_root.to_raw_hash()) {
            return Err(invalid("its transactions do not hash to its merkle root"));
        }
        let stripped_size = small(stripped_size);
        Ok(ParsedBlock { hash, header, bytes, stripped_size, transactions, inputs, outputs })
    }
}

// here, because `statistics.rs` knows no blocks
impl BlockFacts {
    pub(super) fn of(block: &ParsedBlock, median_time: u32) -> Self {
        Self {
            hash: block.hash,
            header: block.header,
            median_time,
            size: small(block.size()),
            stripped_size: block.stripped_size,
            transactions: small(block.transactions.len()),
            inputs: small(block.inputs.len()),
            outputs: small(block.outputs.len()),
        }
    }
}

impl OutputFacts {
    pub(super) fn of(output: &BlockOutput) -> Self {
        let BlockOutput { value, script_type, never_spendable, script_size, .. } = *output;
        Self { value, script_type, never_spendable, script_size }
    }
}

/// The bytes of a stored block of the active chain, assembled from its row and its transactions.
pub(super) fn assemble(
    row: &BlockRow,
    first: TxNum,
    transactions: &impl ReadableTable<&'static [u8; 4], &'static [u8]>,
) -> Result<Vec<u8>, IndexError> {
    // a damaged row may have any size: reserve no more than a block can have
    let mut bytes = Vec::with_capacity(usize::try_from(row.size.min(MAX_BLOCK_SIZE)).unwrap_or(0));
    bytes.extend(serialize(&row.header));
    bytes.extend(serialize(&VarInt::from(u64::from(row.transactions))));
    for index in 0..row.transactions {
        let txnum = TxNum(first.0.saturating_add(index));
        let stored = transactions.get(&txnum.to_key())?;
        let stored = stored.ok_or_else(|| IndexError::corrupt("transactions", format!("row {txnum} is missing")))?;
        bytes.extend(TransactionRow::decode(stored.value())?.raw);
    }
    Ok(bytes)
}

impl ParsedBlock {
    /// Hash of the header.
    #[must_use]
    pub fn hash(&self) -> BlockHash {
        self.hash
    }

    /// The hash of the previous block.
    #[must_use]
    pub fn previous(&self) -> BlockHash {
        self.header.prev_blockhash
    }

    /// Serialised size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// An upper bound of the rows that it changes in tables whose keys are hashes or point far back, unless one of its
    /// transactions is a duplicate: one for each txid, three for each input and two for each output.
    pub(super) fn scattered_rows(&self) -> u64 {
        let rows = self.transactions.len() + 3 * self.inputs.len() + 2 * self.outputs.len();
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    /// The number of its transactions.
    #[must_use]
    pub fn transaction_count(&self) -> usize {
        self.transactions.len()
    }

    /// The txids of its transactions in order, the coinbase first.
    pub fn txids(&self) -> impl Iterator<Item = Txid> {
        self.transactions.iter().map(|transaction| transaction.txid)
    }

    /// The outputs that it spends, in order, each with the txid of the spending transaction.
    pub fn spends(&self) -> impl Iterator<Item = (OutPoint, Txid)> {
        let of_each = |transaction: &BlockTransaction| {
            let by = transaction.txid;
            let inputs = self.inputs[transaction.inputs.clone()].iter();
            inputs.map(move |(txid, vout)| (OutPoint { txid: *txid, vout: *vout }, by))
        };
        self.transactions.iter().flat_map(of_each)
    }

    pub(super) fn raw(&self, transaction: &BlockTransaction) -> &[u8] {
        &self.bytes[transaction.raw.clone()]
    }
}

impl BlockOutput {
    pub(super) fn of(salt: Salt, vout: Position, value: u64, script: &Script) -> Self {
        let script_type = ScriptType::of(script);
        Self {
            vout,
            script: salt.script_key(script.as_bytes()),
            value,
            script_type,
            never_spendable: never_spendable(script),
            script_size: small(script.len()),
            p2pk: p2pk_key(script).map(hash160::Hash::hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::constants::genesis_block;
    use bitcoin::{Network, Transaction, TxIn};

    use super::*;

    fn parser() -> Parser {
        Parser { salt: Salt([1; 16]) }
    }

    #[test]
    fn the_genesis_block_is_parsed() {
        let genesis = genesis_block(Network::Bitcoin);
        let block = parser().parse(genesis.block_hash(), serialize(&genesis)).unwrap();
        assert_eq!((block.size(), block.stripped_size, block.inputs.len(), block.outputs.len()), (285, 285, 0, 1));
        assert_eq!((block.outputs[0].value, block.outputs[0].script_type), (5_000_000_000, ScriptType::P2pk));
        assert!(block.outputs[0].p2pk.is_some());
    }

    #[test]
    fn a_parsed_block_lists_its_txids_and_spends_in_order() {
        let mut block = genesis_block(Network::Regtest);
        let outpoint = |number: u8, vout| OutPoint { txid: Txid::from_byte_array([number; 32]), vout };
        let spent = [vec![outpoint(1, 7), outpoint(2, 0)], vec![outpoint(1, 8)]];
        for outpoints in &spent {
            let mut transaction = block.txdata[0].clone();
            let input = |previous_output: &OutPoint| TxIn { previous_output: *previous_output, ..TxIn::default() };
            transaction.input = outpoints.iter().map(input).collect();
            block.txdata.push(transaction);
        }
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        let parsed = parser().parse(block.block_hash(), serialize(&block)).unwrap();
        let txids: Vec<_> = block.txdata.iter().map(Transaction::compute_txid).collect();
        assert_eq!(parsed.txids().collect::<Vec<_>>(), txids);
        let spends = [(spent[0][0], txids[1]), (spent[0][1], txids[1]), (spent[1][0], txids[2])];
        assert_eq!(parsed.spends().collect::<Vec<_>>(), spends);
    }

    #[test]
    fn bytes_with_another_header_or_transaction_are_refused() {
        let genesis = genesis_block(Network::Bitcoin);
        let error = parser().parse(genesis_block(Network::Signet).block_hash(), serialize(&genesis)).unwrap_err();
        assert!(error.to_string().contains("its header hashes to"), "{error}");
        let mut bytes = serialize(&genesis);
        bytes[284] ^= 1; // the locktime
        let error = parser().parse(genesis.block_hash(), bytes).unwrap_err();
        assert!(error.to_string().contains("merkle root"), "{error}");
    }
}
