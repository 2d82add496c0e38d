//! Reads the blocks: hashes every transaction, and puts what has to meet into runs.

use std::ops::ControlFlow;

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::{BlockHash, Script, Txid};

use super::super::block::BlockOutput;
use super::super::codec::{put_varint, small};
use super::super::error::IndexError;
use super::super::frozen::page::PackedRow;
use super::super::frozen::tables::txids;
use super::super::hot::tables::block_starts::{self, BlockStart};
use super::super::hot::tables::blocks::too_many;
use super::super::hot::tables::p2pk;
use super::super::hot::update::check_previous;
use super::super::keys::{Position, ScriptKey, TxNum};
use super::super::statistics::{BlockFacts, TransactionFacts};
use super::chain::{BLOCK, ImportedBlock, ImportedChain};
use super::ordered::{ImportThreads, in_order};
use super::run_buffers::{RunBuffers, ThreadBuffers};
use super::run_kinds::RunKind;
use super::runs::Runs;
use super::stages::READING;
use super::stream::CompactBlockWriter;
use super::workspace::Workspace;
use crate::chain::merkle;
use crate::chain::raw::{HEADER_SIZE, RawBlock, RawTransaction};

/// A transaction: hash ‖ txnum.
pub(super) const TRANSACTION: usize = 8 + 4;
/// Blocks that are parsed ahead, for each thread: during writes, the threads parse on.
const AHEAD: usize = 8;
/// Ranges of blocks in one temporary file.
pub(super) const STREAM_BUNDLE: usize = 64;
/// Memory for the buffers of P2PK scripts.
pub(super) const P2PK_MEMORY: usize = 16 << 20;
/// A P2PK script: key of its row ‖ txnum.
pub(super) const P2PK: usize = size_of::<p2pk::P2pkKey>() + 4;
/// Leading bits of the hash of a public key that name the partition of its scripts.
const P2PK_BITS: u32 = 6;
pub(super) const P2PK_PARTITIONS: usize = 1 << P2PK_BITS;

/// The first phase.
pub(super) struct BlockReader {
    txids: txids::TxidPacker,
    /// Rows for the next write.
    txid_rows: Vec<PackedRow<4>>,
    p2pk: RunBuffers,
    threads: ImportThreads,
    /// For transactions and prevouts.
    buffers: ThreadBuffers<2>,
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
    compact: CompactBlockWriter,
    p2pk: Vec<(hash160::Hash, ScriptKey, TxNum)>,
}

impl BlockReader {
    /// Continues behind the blocks of the chain, with the txids that are in no row yet.
    pub(super) fn new(work: &mut Workspace, txids: txids::TxidPacker) -> Result<Self, IndexError> {
        let (partitions, threads) = (work.chain.partitions(), ImportThreads::start(work.chain.options.threads)?);
        let memory = work.chain.options.memory / 8 / threads.count();
        let transactions = work.runs(RunKind::Transactions, Runs::bundle_of(partitions));
        let prevouts = work.runs(RunKind::Prevouts, Runs::bundle_of(partitions));
        let buffers = || [&transactions, &prevouts].map(|runs| runs.buffers(partitions, memory));
        Ok(Self {
            txids,
            txid_rows: Vec::new(),
            p2pk: work.runs(RunKind::P2pk, P2PK_PARTITIONS).buffers(P2PK_PARTITIONS, P2PK_MEMORY),
            buffers: ThreadBuffers::new(threads.count(), buffers),
            threads,
        })
    }

    pub(super) fn push(&mut self, work: &mut Workspace, blocks: &[(BlockHash, Vec<u8>)]) -> Result<(), IndexError> {
        let first = work.chain.starts.len();
        let (stream, block_runs) = (work.runs(RunKind::Stream, STREAM_BUNDLE), work.runs(RunKind::Blocks, 1));
        let mut records = Vec::with_capacity(blocks.len() * BLOCK);
        let tasks = blocks.iter().map(|(hash, bytes)| task(&mut work.chain, &mut records, *hash, bytes));
        let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
        let (buffers, chain, builder) = (&self.buffers, &work.chain, &mut work.builder);
        let (mut txid_rows, txids, p2pk) = (Vec::new(), &mut self.txids, &mut self.p2pk);
        // written while the threads parse, instead of afterwards
        let mut before = std::mem::take(&mut self.txid_rows);
        let parse = |at: usize| buffers.with(|own| parse(chain, &tasks[at], own));
        in_order(0..tasks.len(), &self.threads, AHEAD, parse, |parsed| {
            builder.append(txids::TABLE, &std::mem::take(&mut before), Vec::as_slice)?;
            txid_rows.extend(parsed.txids.iter().filter_map(|txid| txids.push(txid)));
            for (key_hash, script, txnum) in parsed.p2pk {
                let key = p2pk::key(key_hash, script);
                let record = p2pk.record(usize::from(key[0] >> (u8::BITS - P2PK_BITS)))?;
                record.extend(key);
                record.extend(txnum.to_key());
            }
            stream.append(parsed.range, &parsed.compact.finish(&parsed.facts))?;
            Ok(ControlFlow::Continue(()))
        })?;
        before.extend(txid_rows);
        self.txid_rows = before;
        let starts: Vec<_> = work.chain.starts[first..].iter().map(|start| (start.key(), start.value())).collect();
        work.builder.append(block_starts::TABLE, &starts, |row| row)?;
        if records.is_empty() { Ok(()) } else { block_runs.append(0, &records) }
    }

    /// Begins a checkpoint of everything that is read.
    pub(super) fn begin_checkpoint(&mut self, work: &mut Workspace) -> Result<(), IndexError> {
        self.flush(work)?;
        work.begin_checkpoint(|row| self.txids.encode_state(row.bytes(&[READING])))
    }

    fn flush(&mut self, work: &mut Workspace) -> Result<(), IndexError> {
        work.builder.append(txids::TABLE, &std::mem::take(&mut self.txid_rows), Vec::as_slice)?;
        self.buffers.flush()?;
        self.p2pk.flush()
    }

    /// Writes the last rows and records.
    pub(super) fn finish(mut self, work: &mut Workspace) -> Result<(), IndexError> {
        self.flush(work)?;
        let last: Vec<_> = self.txids.finish().into_iter().collect();
        work.builder.append(txids::TABLE, &last, Vec::as_slice)
    }
}

/// Checks that a block stands on the one before it, numbers its transactions, and writes its record.
fn task<'b>(
    chain: &mut ImportedChain,
    records: &mut Vec<u8>,
    hash: BlockHash,
    bytes: &'b [u8],
) -> Result<Task<'b>, IndexError> {
    let invalid = |what: String| IndexError::InvalidBlock { hash, what };
    let header = bytes.get(..HEADER_SIZE).and_then(|header| deserialize::<Header>(header).ok());
    let header = header.ok_or_else(|| invalid("its header cannot be decoded".into()))?;
    if header.block_hash() != hash {
        return Err(invalid(format!("its header hashes to {}", header.block_hash())));
    }
    check_previous(hash, header.prev_blockhash, chain.tip(), chain.options.network)?;
    let transactions = RawBlock::transaction_count(bytes).map_err(|source| IndexError::Malformed { hash, source })?;
    let block =
        ImportedBlock { hash, time: header.time, transactions: u32::try_from(transactions).map_err(|_| too_many())? };
    block.encode(records);
    let BlockStart { first, median_time, .. } = chain.push(&block)?;
    Ok(Task { hash, header, bytes, first, median_time, range: chain.ranges.len() - 1 })
}

fn parse(
    chain: &ImportedChain,
    task: &Task<'_>,
    buffers: &mut [RunBuffers; 2],
) -> Result<ParsedTransactions, IndexError> {
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
        compact: CompactBlockWriter::of_size(task.bytes.len()),
        p2pk: Vec::new(),
    };
    for ((transaction, txnum), index) in raw.transactions.iter().zip((task.first.0..).map(TxNum)).zip(0..) {
        if transaction.is_coinbase() != (index == 0) {
            return Err(invalid("its first transaction, and no other, must be a coinbase"));
        }
        parse_transaction(chain, transaction, txnum, &mut parsed, buffers)?
            .ok_or_else(|| invalid("a transaction has more inputs or outputs than fit a block"))?;
    }
    if merkle::root(&parsed.txids) != Some(task.header.merkle_root) {
        return Err(invalid("its transactions do not hash to its merkle root"));
    }
    Ok(parsed)
}

/// What the records of transactions and of prevouts begin with.
fn hash_and_txnum(hash: u64, txnum: TxNum) -> [u8; TRANSACTION] {
    let mut record = [0; TRANSACTION];
    record[..8].copy_from_slice(&hash.to_be_bytes());
    record[8..].copy_from_slice(&txnum.to_key());
    record
}

/// `None` if a number of an input or output is too large.
fn parse_transaction(
    chain: &ImportedChain,
    transaction: &RawTransaction<'_>,
    txnum: TxNum,
    parsed: &mut ParsedTransactions,
    [transactions, prevouts]: &mut [RunBuffers; 2],
) -> Result<Option<()>, IndexError> {
    let salt = chain.options.salt;
    let txid = transaction.txid();
    let (partition, hash) = chain.partition_of_hash(salt.txid_hash(txid.as_byte_array()));
    let record = transactions.record(partition)?;
    record.extend_from_slice(&hash_and_txnum(hash, txnum));
    let is_coinbase = parsed.txids.is_empty();
    parsed.txids.push(txid);

    let inputs = if is_coinbase { 0 } else { transaction.input_count() };
    for (input, vin) in transaction.inputs().take(inputs).zip(0..) {
        let (Some(vin), Some(vout)) = (Position::new(vin), Position::new(input.vout)) else { return Ok(None) };
        let (partition, hash) = chain.partition_of_hash(salt.txid_hash(input.txid));
        let record = prevouts.record(partition)?;
        record.extend_from_slice(&hash_and_txnum(hash, txnum));
        put_varint(record, vout.to_u32().into());
        put_varint(record, vin.to_u32().into());
    }
    let facts = TransactionFacts::of(transaction);
    parsed.compact.transaction(facts, transaction.output_count());
    for (output, vout) in transaction.outputs().zip(0..) {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let output = BlockOutput::of(salt, vout, output.value, Script::from_bytes(output.script_pubkey));
        parsed.compact.output(&output);
        parsed.p2pk.extend(output.p2pk.map(|key_hash| (key_hash, output.script, txnum)));
    }
    parsed.facts.inputs += small(inputs);
    parsed.facts.outputs += small(transaction.output_count());
    parsed.facts.stripped_size += facts.stripped_size;
    Ok(Some(()))
}
