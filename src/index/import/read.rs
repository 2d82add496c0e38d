//! Reads the blocks: hashes every transaction, and puts what has to meet into runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::{BlockHash, Script, Txid, merkle_tree};

use super::super::block::{BlockOutput, small};
use super::super::codec::put_varint;
use super::super::error::IndexError;
use super::super::frozen::builder::GenerationBuilder;
use super::super::frozen::page::PackedRow;
use super::super::frozen::tables::txids;
use super::super::keys::{Position, ScriptKey, TxNum};
use super::super::sorter::Sorter;
use super::super::statistics::{BlockFacts, TransactionFacts};
use super::super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::tables::block_starts::{self, BlockStart};
use super::super::tables::p2pk;
use super::super::update::{check_previous, too_many};
use super::ordered::in_order;
use super::runs::{RunBuffers, Runs};
use super::{ImportOptions, ImportedChain, ReadBlocks, partition_bits, stream};
use crate::chain::raw::{RawBlock, RawTransaction};
use crate::chain::{Height, median_time_past};

/// A transaction: hash ‖ txnum.
pub(super) const TRANSACTION: usize = 8 + 4;
/// Ranges of blocks in one temporary file.
const BUNDLE: usize = 64;
/// Memory for sorting the rows of small tables.
pub(super) const SORT: usize = 16 << 20;

/// The first phase.
pub(super) struct BlockReader {
    chain: ImportedChain,
    builder: GenerationBuilder,
    txids: txids::TxidPacker,
    /// Rows that are not written yet.
    txid_rows: Vec<PackedRow<4>>,
    stream: Arc<Runs>,
    transactions: Arc<Runs>,
    prevouts: Arc<Runs>,
    p2pk: Sorter,
    block_hashes: Sorter,
    /// The times of the last eleven blocks, oldest first.
    times: Vec<u32>,
    workers: Vec<Mutex<Buffers>>,
}

struct Buffers {
    transactions: RunBuffers,
    prevouts: RunBuffers,
}

/// A block before it is parsed.
struct Task<'a> {
    hash: BlockHash,
    header: Header,
    bytes: &'a [u8],
    first: TxNum,
    median_time: u32,
    range: usize,
}

/// What parsing a block gives, but what went into runs.
struct ParsedTransactions {
    facts: BlockFacts,
    range: usize,
    txids: Vec<Txid>,
    /// Its transactions.
    stream: Vec<u8>,
    p2pk: Vec<(hash160::Hash, ScriptKey, TxNum)>,
}

impl BlockReader {
    pub(super) fn begin(options: ImportOptions) -> Result<Self, IndexError> {
        let partition_bits = partition_bits(options.transactions, options.memory, options.threads);
        let threads = options.threads.max(1);
        let space = Arc::default();
        let runs = || Runs::new(&options.directory, &space, 1 << partition_bits, options.memory / 8 / threads);
        let (transactions, prevouts) = (runs(), runs());
        let buffers = || Buffers { transactions: transactions.buffers(), prevouts: prevouts.buffers() };
        Ok(Self {
            builder: GenerationBuilder::create(&options.path)?,
            txids: txids::TxidPacker::new(TxNum(0)),
            txid_rows: Vec::new(),
            stream: Runs::growing(&options.directory, &space, BUNDLE),
            p2pk: Sorter::new(&options.directory, SORT),
            block_hashes: Sorter::new(&options.directory, SORT),
            times: Vec::new(),
            workers: (0..threads).map(|_| Mutex::new(buffers())).collect(),
            transactions,
            prevouts,
            chain: ImportedChain {
                options,
                space,
                partition_bits,
                starts: Vec::new(),
                hashes: Vec::new(),
                ranges: Vec::new(),
                next: TxNum(0),
                overwritten: HashMap::new(),
            },
        })
    }

    pub(super) fn push(&mut self, blocks: &[(BlockHash, Vec<u8>)]) -> Result<(), IndexError> {
        let first = self.chain.starts.len();
        let tasks = blocks.iter().map(|(hash, bytes)| self.task(*hash, bytes)).collect::<Result<Vec<_>, _>>()?;
        let (workers, chain) = (&self.workers, &self.chain);
        let (mut txid_rows, txids, builder) = (Vec::new(), &mut self.txids, &mut self.builder);
        // written while the threads parse, instead of afterwards
        let mut before = std::mem::take(&mut self.txid_rows);
        let (p2pk_rows, stream) = (&mut self.p2pk, &self.stream);
        let parse = |at: usize| {
            let mut buffers = workers[at % workers.len()].lock().unwrap_or_else(PoisonError::into_inner);
            parse(chain, &tasks[at], &mut buffers)
        };
        in_order(tasks.len(), workers.len(), parse, |parsed| {
            builder.append(txids::TABLE, &std::mem::take(&mut before), Vec::as_slice)?;
            txid_rows.extend(parsed.txids.iter().filter_map(|txid| txids.push(txid)));
            for (key_hash, script, txnum) in parsed.p2pk {
                p2pk_rows.push(&[&p2pk::key(key_hash, script), &txnum.to_key()]).map_err(IndexError::Sorting)?;
            }
            let mut block = Vec::with_capacity(parsed.stream.len() + 128);
            stream::put_block(&mut block, &parsed.facts);
            block.extend(parsed.stream);
            stream.append(parsed.range, &block)
        })?;
        before.extend(txid_rows);
        self.txid_rows = before;
        let starts: Vec<_> = self.chain.starts[first..].iter().map(|start| (start.key(), start.value())).collect();
        self.builder.append(block_starts::TABLE, &starts, |row| row)
    }

    /// Checks that a block stands on the one before it, and numbers its transactions.
    fn task<'b>(&mut self, hash: BlockHash, bytes: &'b [u8]) -> Result<Task<'b>, IndexError> {
        let chain = &mut self.chain;
        let invalid = |what: String| IndexError::InvalidBlock { hash, what };
        let header = bytes.get(..80).and_then(|header| deserialize::<Header>(header).ok());
        let header = header.ok_or_else(|| invalid("its header cannot be decoded".into()))?;
        if header.block_hash() != hash {
            return Err(invalid(format!("its header hashes to {}", header.block_hash())));
        }
        check_previous(hash, header.prev_blockhash, chain.tip(), chain.options.network)?;
        let transactions =
            RawBlock::transaction_count(bytes).map_err(|source| IndexError::Malformed { hash, source })?;
        self.times.push(header.time);
        if self.times.len() > 11 {
            self.times.remove(0);
        }
        let (median_time, first) = (median_time_past(&self.times).unwrap_or(header.time), chain.next);
        let height = Height::from(small(chain.starts.len()));
        chain.starts.push(BlockStart { first, height, median_time });
        chain.hashes.push(hash);
        let place = BlockPlace { height, membership: ChainMembership::Main };
        self.block_hashes.push(&[hash.as_byte_array(), &place.value()]).map_err(IndexError::Sorting)?;
        let end = u32::try_from(transactions).ok().and_then(|count| first.0.checked_add(count));
        chain.next = TxNum(end.ok_or_else(too_many)?);
        if chain.ranges.last().is_none_or(|begun| first.0 - begun.0 >= chain.options.range) {
            chain.ranges.push(first);
        }
        Ok(Task { hash, header, bytes, first, median_time, range: chain.ranges.len() - 1 })
    }

    pub(super) fn finish(mut self) -> Result<ReadBlocks, IndexError> {
        self.txid_rows.extend(self.txids.finish());
        self.builder.append(txids::TABLE, &self.txid_rows, Vec::as_slice)?;
        for buffers in self.workers {
            let buffers = buffers.into_inner().unwrap_or_else(PoisonError::into_inner);
            buffers.transactions.finish()?;
            buffers.prevouts.finish()?;
        }
        Ok(ReadBlocks {
            chain: self.chain,
            builder: self.builder,
            stream: self.stream,
            transactions: self.transactions,
            prevouts: self.prevouts,
            p2pk: self.p2pk,
            block_hashes: self.block_hashes,
        })
    }
}

fn parse(chain: &ImportedChain, task: &Task<'_>, buffers: &mut Buffers) -> Result<ParsedTransactions, IndexError> {
    let hash = task.hash;
    let invalid = |what: &str| IndexError::InvalidBlock { hash, what: what.into() };
    let raw = RawBlock::parse(task.bytes).map_err(|source| IndexError::Malformed { hash, source })?;
    let mut parsed = ParsedTransactions {
        facts: BlockFacts {
            hash,
            header: task.header,
            median_time: task.median_time,
            size: small(task.bytes.len()),
            stripped_size: small(raw.frame_size),
            transactions: small(raw.transactions.len()),
            inputs: 0,
            outputs: 0,
        },
        range: task.range,
        txids: Vec::with_capacity(raw.transactions.len()),
        stream: Vec::with_capacity(task.bytes.len() / 3),
        p2pk: Vec::new(),
    };
    for ((transaction, txnum), index) in raw.transactions.iter().zip((task.first.0..).map(TxNum)).zip(0..) {
        if transaction.is_coinbase() != (index == 0) {
            return Err(invalid("its first transaction, and no other, must be a coinbase"));
        }
        parse_transaction(chain, transaction, txnum, &mut parsed, buffers)?
            .ok_or_else(|| invalid("a transaction has more inputs or outputs than fit a block"))?;
    }
    let txids = parsed.txids.iter().map(|txid| txid.to_raw_hash());
    if merkle_tree::calculate_root(txids) != Some(task.header.merkle_root.to_raw_hash()) {
        return Err(invalid("its transactions do not hash to its merkle root"));
    }
    Ok(parsed)
}

/// `None` if a number of an input or output is too large.
fn parse_transaction(
    chain: &ImportedChain,
    transaction: &RawTransaction<'_>,
    txnum: TxNum,
    parsed: &mut ParsedTransactions,
    buffers: &mut Buffers,
) -> Result<Option<()>, IndexError> {
    let salt = chain.options.salt;
    let txid = transaction.txid();
    let (partition, hash) = chain.partition_of_hash(salt.txid_hash(txid.as_byte_array()));
    let record = buffers.transactions.record(partition)?;
    record.extend(hash.to_be_bytes());
    record.extend(txnum.to_key());
    let is_coinbase = parsed.txids.is_empty();
    parsed.txids.push(txid);

    let inputs = if is_coinbase { 0 } else { transaction.input_count() };
    for (input, vin) in transaction.inputs().take(inputs).zip(0..) {
        let (Some(vin), Some(vout)) = (Position::new(vin), Position::new(input.vout)) else { return Ok(None) };
        let (partition, hash) = chain.partition_of_hash(salt.txid_hash(input.txid));
        let record = buffers.prevouts.record(partition)?;
        record.extend(hash.to_be_bytes());
        record.extend(txnum.to_key());
        put_varint(record, vout.to_u32().into());
        put_varint(record, vin.to_u32().into());
    }
    let facts = TransactionFacts {
        size: small(transaction.size()),
        stripped_size: small(transaction.stripped_size()),
        has_witness: transaction.has_witness(),
    };
    stream::put_transaction(&mut parsed.stream, facts, transaction.output_count());
    for (output, vout) in transaction.outputs().zip(0..) {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let output = BlockOutput::of(salt, vout, output.value, Script::from_bytes(output.script_pubkey));
        stream::put_output(&mut parsed.stream, &output);
        parsed.p2pk.extend(output.p2pk.map(|key_hash| (key_hash, output.script, txnum)));
    }
    parsed.facts.inputs += small(inputs);
    parsed.facts.outputs += small(transaction.output_count());
    parsed.facts.stripped_size += facts.stripped_size;
    Ok(Some(()))
}
