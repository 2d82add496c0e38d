//! What the inputs of blocks spend: the outputs behind their outpoints, from the blocks themselves or from the index.

use std::collections::HashMap;

use bitcoin::{OutPoint, Script, Txid};
use redb::ReadableTable;

use super::block::{Block, BlockOutput};
use super::error::IndexError;
use super::keys::{Position, Salt, TxNum, TxidPrefix};
use super::tables::block_starts::BlockStart;
use super::tables::transactions::TransactionRow;
use super::tables::txids;
use super::update::Tables;
use crate::chain::ScriptType;
use crate::chain::raw::RawTransaction;

/// The output that an input spends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prevout {
    pub(super) txnum: TxNum,
    pub(super) vout: Position,
    pub(super) script: super::keys::ScriptKey,
    /// In sat.
    pub(super) value: u64,
    pub(super) script_type: ScriptType,
    pub(super) is_coinbase: bool,
    /// Median time past of the block that created it.
    pub(super) median_time: u32,
}

/// Blocks that follow each other, and where they stand (or stood) in the chain.
pub(super) struct Run<'a> {
    pub(super) blocks: &'a [Block],
    /// The txnum of the first transaction.
    pub(super) first: TxNum,
    /// The starts of all blocks of the chain up to and including these.
    pub(super) starts: &'a [BlockStart],
    pub(super) salt: Salt,
}

/// What the inputs of a run spend, and which of its transactions repeat an earlier one.
pub(super) struct Resolved {
    /// One for each of the blocks' inputs, in order.
    pub(super) prevouts: Vec<Prevout>,
    /// The txnum of a transaction whose txid was in the chain before → that of the copy just before it (BIP30).
    pub(super) duplicates: HashMap<TxNum, TxNum>,
}

/// A transaction of the run by its txid.
struct Located<'a> {
    txnum: TxNum,
    is_coinbase: bool,
    outputs: &'a [BlockOutput],
}

impl<'a> Run<'a> {
    /// The transactions in order, with their numbers.
    pub(super) fn transactions(&self) -> impl Iterator<Item = (TxNum, &'a Block, &'a super::block::BlockTransaction)> {
        let all = self.blocks.iter().flat_map(|block| block.transactions.iter().map(move |tx| (block, tx)));
        (self.first.0..).map(TxNum).zip(all).map(|(txnum, (block, transaction))| (txnum, block, transaction))
    }

    /// The starts of these blocks alone.
    pub(super) fn own_starts(&self) -> &'a [BlockStart] {
        &self.starts[self.starts.len() - self.blocks.len()..]
    }

    /// The start of the block that holds a transaction.
    fn start_of(&self, txnum: TxNum) -> Option<&'a BlockStart> {
        let behind = self.starts.partition_point(|start| start.first <= txnum);
        behind.checked_sub(1).and_then(|at| self.starts.get(at))
    }

    /// Finds what every input spends.
    ///
    /// Errors: [`IndexError::Unresolved`] with the outpoint that is nowhere to be found.
    pub(super) fn resolve(&self, tables: &Tables<'_>) -> Result<Resolved, IndexError> {
        let mut run: HashMap<Txid, Vec<Located<'a>>> = HashMap::new();
        let mut duplicates = HashMap::new();
        let mut prevouts = Vec::new();
        let mut elsewhere = Vec::new();
        for (txnum, block, transaction) in self.transactions() {
            for (txid, vout) in &block.inputs[transaction.inputs.clone()] {
                let found = run.get(txid).and_then(|copies| copies.last()).map(|located| self.pick(located, *vout));
                if found.is_none() {
                    elsewhere.push(Wanted {
                        prefix: self.salt.txid_prefix(txid),
                        txid,
                        vout: *vout,
                        input: prevouts.len(),
                    });
                }
                prevouts.push(found.flatten());
            }
            let outputs = &block.outputs[transaction.outputs.clone()];
            let is_coinbase = transaction.inputs.is_empty();
            let copies = run.entry(transaction.txid).or_default();
            if let Some(copy) = copies.last() {
                duplicates.insert(txnum, copy.txnum);
            } else if let Some(copy) = self.latest(tables, transaction.prefix, &transaction.txid)? {
                duplicates.insert(txnum, copy);
            }
            copies.push(Located { txnum, is_coinbase, outputs });
        }
        self.look_up(tables, elsewhere, &mut prevouts)?;
        let prevouts = prevouts.into_iter().enumerate().map(|(at, found)| found.ok_or_else(|| self.missing(at)));
        Ok(Resolved { prevouts: prevouts.collect::<Result<_, _>>()?, duplicates })
    }

    fn pick(&self, located: &Located<'_>, vout: u32) -> Option<Prevout> {
        let output = located.outputs.get(usize::try_from(vout).ok()?)?;
        Some(self.prevout(located.txnum, located.is_coinbase, output))
    }

    fn prevout(&self, txnum: TxNum, is_coinbase: bool, output: &BlockOutput) -> Prevout {
        let BlockOutput { vout, script, value, script_type, .. } = *output;
        let median_time = self.start_of(txnum).map_or(0, |start| start.median_time);
        Prevout { txnum, vout, script, value, script_type, is_coinbase, median_time }
    }

    /// The outputs that are not of these blocks, read in the order of the index.
    fn look_up(
        &self,
        tables: &Tables<'_>,
        mut wanted: Vec<Wanted<'_>>,
        prevouts: &mut [Option<Prevout>],
    ) -> Result<(), IndexError> {
        wanted.sort_unstable_by_key(|wanted| (wanted.prefix, wanted.txid));
        let mut places = Vec::with_capacity(wanted.len());
        for same in wanted.chunk_by(|one, other| one.txid == other.txid) {
            if let Some(txnum) = self.candidate(tables, same[0].prefix, same[0].txid)? {
                places.extend(same.iter().map(|wanted| (txnum, wanted)));
            }
        }
        places.sort_unstable_by_key(|(txnum, wanted)| (*txnum, wanted.txid, wanted.vout));
        for same in places.chunk_by(|one, other| (one.0, one.1.txid) == (other.0, other.1.txid)) {
            let (txnum, txid) = (same[0].0, same[0].1.txid);
            let Some(row) = tables.transactions.get(&txnum.to_key())? else { continue };
            let row = TransactionRow::decode(row.value())?;
            if row.txid != *txid {
                continue; // a foreign row with the same prefix
            }
            let transaction = parse(txnum, row.raw)?;
            let mut outputs = (0..).zip(transaction.outputs()).peekable();
            for (_, wanted) in same {
                while outputs.next_if(|(at, _)| *at < wanted.vout).is_some() {}
                let Some((_, output)) = outputs.peek().filter(|(at, _)| *at == wanted.vout) else { continue };
                let Some(vout) = Position::new(wanted.vout) else { continue };
                let output = BlockOutput::of(self.salt, vout, output.value, Script::from_bytes(output.script_pubkey));
                prevouts[wanted.input] = Some(self.prevout(txnum, row.is_coinbase, &output));
            }
        }
        Ok(())
    }

    /// A transaction before these blocks that is the latest with this txid, or a foreign one with the same prefix if
    /// there is no other: whoever reads its row compares the txid anyway, so it is not read twice.
    fn candidate(&self, tables: &Tables<'_>, prefix: TxidPrefix, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        let (from, to) = (txids::key(prefix, TxNum(0)), txids::key(prefix, self.first));
        let mut keys = tables.txids.range::<&txids::Key>(&from..&to)?;
        let first = keys.next().transpose()?.map(|(key, _)| txids::split_key(key.value()).1);
        if keys.next().is_some() { self.latest(tables, prefix, txid) } else { Ok(first) }
    }

    /// The latest transaction before these blocks that has this txid.
    fn latest(&self, tables: &Tables<'_>, prefix: TxidPrefix, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        let (from, to) = (txids::key(prefix, TxNum(0)), txids::key(prefix, self.first));
        for key in tables.txids.range::<&txids::Key>(&from..&to)?.rev() {
            let (_, txnum) = txids::split_key(key?.0.value());
            let row = tables.transactions.get(&txnum.to_key())?;
            let row = row.ok_or_else(|| IndexError::corrupt("txids", format!("a row names the absent {txnum}")))?;
            if TransactionRow::decode(row.value())?.txid == *txid {
                return Ok(Some(txnum));
            }
        }
        Ok(None)
    }

    fn missing(&self, input: usize) -> IndexError {
        self.unresolved(input, "is not in the index")
    }

    /// The error that names the input with this place among all inputs of the run.
    pub(super) fn unresolved(&self, mut input: usize, why: &'static str) -> IndexError {
        for (txnum, block, transaction) in self.transactions() {
            let inputs = &block.inputs[transaction.inputs.clone()];
            if let Some((txid, vout)) = inputs.get(input) {
                return IndexError::Unresolved {
                    height: self.start_of(txnum).map_or_else(Default::default, |start| start.height),
                    txid: transaction.txid,
                    vin: super::block::small(input),
                    outpoint: OutPoint { txid: *txid, vout: *vout },
                    why,
                };
            }
            input -= inputs.len();
        }
        IndexError::corrupt("unspent", "an input outside of its blocks was looked for")
    }
}

/// An outpoint that is not of these blocks.
struct Wanted<'a> {
    prefix: TxidPrefix,
    txid: &'a Txid,
    vout: u32,
    /// Its place among all inputs.
    input: usize,
}

/// A stored transaction, which was checked when it was connected.
pub(super) fn parse(txnum: TxNum, raw: &[u8]) -> Result<RawTransaction<'_>, IndexError> {
    RawTransaction::parse_whole(raw)
        .map_err(|error| IndexError::corrupt("transactions", format!("row {txnum} is no transaction: {error}")))
}
