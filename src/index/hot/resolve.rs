//! Resolves the inputs of blocks: finds the outputs of their outpoints, in the blocks themselves or in the index.

use std::collections::HashMap;

use bitcoin::{OutPoint, Script, Txid};
use redb::ReadableTable;

use super::super::block::{BlockOutput, ParsedBlock};
use super::super::error::IndexError;
use super::super::keys::{Position, Salt, TxNum, TxidPrefix};
use super::live_tables::Tables;
use super::prefetch::PrefetchedRows;
use super::tables::block_starts::BlockStart;
use super::tables::transactions::TransactionRow;
use super::tables::txids;
use crate::chain::ScriptType;
use crate::chain::raw::RawTransaction;

/// The output that an input spends.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct ResolvedPrevout {
    pub(in crate::index) txnum: TxNum,
    pub(in crate::index) vout: Position,
    pub(in crate::index) script: super::super::keys::ScriptKey,
    /// In sat.
    pub(in crate::index) value: u64,
    pub(in crate::index) script_type: ScriptType,
    pub(in crate::index) is_coinbase: bool,
    /// Median time past of the block that created it.
    pub(in crate::index) median_time: u32,
}

/// Consecutive blocks, and their position in the chain (before it, if they are disconnected).
pub(in crate::index) struct BlockRun<'a> {
    pub(in crate::index) blocks: &'a [ParsedBlock],
    /// The txnum of the first transaction.
    pub(in crate::index) first: TxNum,
    /// The starts of all blocks of the chain up to and including these.
    pub(in crate::index) starts: &'a [BlockStart],
    pub(in crate::index) salt: Salt,
}

/// The outputs that the inputs of a run spend, and which of its transactions repeat an earlier one.
pub(in crate::index) struct Resolved {
    /// One for each of the blocks' inputs, in order.
    pub(in crate::index) prevouts: Vec<ResolvedPrevout>,
    /// The txnum of a transaction with the txid of an earlier one → the txnum of the latest earlier copy (BIP30).
    pub(in crate::index) duplicates: HashMap<TxNum, TxNum>,
    /// The scriptPubKey of each of the prevouts, `None` if they were not requested.
    pub(in crate::index) scripts: Option<Vec<Box<[u8]>>>,
}

/// The outputs that are found so far.
struct FoundOutputs {
    prevouts: Vec<Option<ResolvedPrevout>>,
    /// `None` if they are not requested.
    scripts: Option<Vec<Box<[u8]>>>,
}

impl FoundOutputs {
    fn set_script(&mut self, input: usize, script: &[u8]) {
        if let Some(scripts) = &mut self.scripts {
            scripts[input] = script.into();
        }
    }
}

/// An output that is known before the block that spends it, so that it is not read from the chain.
#[derive(Clone, Copy, Debug)]
pub struct KnownOutput<'k> {
    /// In sat.
    pub value: u64,
    /// Its scriptPubKey.
    pub script_pubkey: &'k [u8],
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

/// The outputs that the transaction with a txid spends, in the order of its inputs; empty if they are not known.
pub type KnownOutputs<'k> = dyn Fn(&Txid) -> Vec<KnownOutput<'k>> + 'k;

/// What is known before blocks are connected.
#[derive(Clone, Copy)]
pub struct Known<'k> {
    /// What their transactions spend, as the mempool knows it.
    pub outputs: &'k KnownOutputs<'k>,
    /// What was looked up before they came. Ignored if it is of another state.
    pub prefetched: Option<&'k PrefetchedRows>,
}

impl Known<'static> {
    /// All is looked up.
    pub(in crate::index) const NOTHING: Self = Self { outputs: &|_| Vec::new(), prefetched: None };
}

/// A transaction of the run.
struct RunTransaction<'a> {
    txnum: TxNum,
    is_coinbase: bool,
    outputs: &'a [BlockOutput],
    raw: &'a [u8],
}

/// An input that spends an output of the run.
struct OwnInput<'a> {
    /// The transaction with the output.
    txnum: TxNum,
    raw: &'a [u8],
    vout: u32,
    /// Its index among all inputs.
    index: usize,
}

impl<'a> BlockRun<'a> {
    /// The transactions in order, with their numbers.
    pub(in crate::index) fn transactions(
        &self,
    ) -> impl Iterator<Item = (TxNum, &'a ParsedBlock, &'a super::super::block::BlockTransaction)> {
        let all = self.blocks.iter().flat_map(|block| block.transactions.iter().map(move |tx| (block, tx)));
        (self.first.0..).map(TxNum).zip(all).map(|(txnum, (block, transaction))| (txnum, block, transaction))
    }

    /// The starts of these blocks alone.
    pub(in crate::index) fn own_starts(&self) -> &'a [BlockStart] {
        &self.starts[self.starts.len() - self.blocks.len()..]
    }

    /// The start of the block of a transaction.
    fn start_of(&self, txnum: TxNum) -> Option<&'a BlockStart> {
        let behind = self.starts.partition_point(|start| start.first <= txnum);
        behind.checked_sub(1).and_then(|at| self.starts.get(at))
    }

    /// Finds the output that every input spends, `with_scripts` also its scriptPubKey. What is `known` is not read; what was
    /// prefetched must be true of the tables.
    ///
    /// Errors: [`IndexError::Unresolved`] with the outpoint that does not exist; storage errors.
    pub(in crate::index) fn resolve(
        &self,
        tables: &Tables<'_>,
        with_scripts: bool,
        known: Known<'_>,
    ) -> Result<Resolved, IndexError> {
        let mut run: HashMap<Txid, Vec<RunTransaction<'a>>> = HashMap::new();
        let mut duplicates = HashMap::new();
        let mut found = FoundOutputs { prevouts: Vec::new(), scripts: with_scripts.then(Vec::new) };
        let (mut own, mut unresolved) = (Vec::new(), Vec::new());
        let earlier = self.earlier_copies(tables, known.prefetched)?;
        for ((txnum, block, transaction), earlier) in self.transactions().zip(earlier) {
            let known = (known.outputs)(&transaction.txid);
            for (vin, (txid, vout)) in block.inputs[transaction.inputs.clone()].iter().enumerate() {
                let (located, index) = (run.get(txid).and_then(|copies| copies.last()), found.prevouts.len());
                match located {
                    Some(RunTransaction { txnum, raw, .. }) if with_scripts => {
                        own.push(OwnInput { txnum: *txnum, raw, vout: *vout, index });
                    }
                    Some(_) => {}
                    None => unresolved.push(UnresolvedInput {
                        prefix: self.salt.txid_prefix(txid),
                        txid,
                        vout: *vout,
                        index,
                        known: known.get(vin).copied(),
                    }),
                }
                found.prevouts.push(located.and_then(|located| self.pick(located, *vout)));
            }
            let outputs = &block.outputs[transaction.outputs.clone()];
            let is_coinbase = transaction.inputs.is_empty();
            let copies = run.entry(transaction.txid).or_default();
            if let Some(copy) = copies.last() {
                duplicates.insert(txnum, copy.txnum);
            } else if let Some(copy) = earlier {
                duplicates.insert(txnum, copy);
            }
            copies.push(RunTransaction { txnum, is_coinbase, outputs, raw: block.raw(transaction) });
        }
        if let Some(scripts) = &mut found.scripts {
            scripts.resize(found.prevouts.len(), Box::default());
        }
        self.look_up(tables, known.prefetched, unresolved, &mut found)?;
        find_own_scripts(own, &mut found)?;
        let FoundOutputs { prevouts, scripts } = found;
        let prevouts = prevouts.into_iter().enumerate().map(|(at, found)| found.ok_or_else(|| self.missing(at)));
        Ok(Resolved { prevouts: prevouts.collect::<Result<_, _>>()?, duplicates, scripts })
    }

    /// The newest transaction before these blocks with the txid of each of theirs.
    fn earlier_copies(
        &self,
        tables: &Tables<'_>,
        prefetched: Option<&PrefetchedRows>,
    ) -> Result<Vec<Option<TxNum>>, IndexError> {
        let known = |txid: &Txid| prefetched.and_then(|rows| rows.newest(txid));
        let txids = self.transactions().map(|(_, _, transaction)| transaction.txid);
        let unknown: Vec<_> = txids.filter(|txid| known(txid).is_none()).collect();
        let mut frozen = tables.generations.newest(&unknown, self.first)?.into_iter();
        let copies = self.transactions().map(|(_, _, transaction)| {
            if let Some(copy) = known(&transaction.txid) {
                return Ok(*copy);
            }
            // one for each, whether it is needed or not
            let frozen = frozen.next().flatten();
            Ok(self.latest_live(tables, transaction.prefix, &transaction.txid)?.or(frozen))
        });
        copies.collect()
    }

    fn pick(&self, located: &RunTransaction<'_>, vout: u32) -> Option<ResolvedPrevout> {
        let output = located.outputs.get(usize::try_from(vout).ok()?)?;
        Some(self.prevout(located.txnum, located.is_coinbase, output))
    }

    fn prevout(&self, txnum: TxNum, is_coinbase: bool, output: &BlockOutput) -> ResolvedPrevout {
        let BlockOutput { vout, script, value, script_type, .. } = *output;
        let median_time = self.start_of(txnum).map_or(0, |start| start.median_time);
        ResolvedPrevout { txnum, vout, script, value, script_type, is_coinbase, median_time }
    }

    /// Finds the outputs that are not created by these blocks, and reads them in the order of the index.
    fn look_up(
        &self,
        tables: &Tables<'_>,
        prefetched: Option<&PrefetchedRows>,
        mut unresolved: Vec<UnresolvedInput<'_>>,
        found: &mut FoundOutputs,
    ) -> Result<(), IndexError> {
        unresolved.sort_unstable_by_key(|input| (input.prefix, input.txid));
        let mut places = Vec::with_capacity(unresolved.len());
        let mut only_frozen = Vec::new();
        for same in unresolved.chunk_by(|one, other| one.txid == other.txid) {
            let known = prefetched.and_then(|rows| rows.newest(same[0].txid));
            let newest = match known {
                Some(newest) => *newest,
                None => self.candidate(tables, same[0].prefix, same[0].txid)?,
            };
            match newest {
                Some(txnum) => places.extend(same.iter().map(|input| (txnum, input))),
                None => only_frozen.push(same),
            }
        }
        let txids: Vec<_> = only_frozen.iter().map(|same| *same[0].txid).collect();
        for (same, txnum) in only_frozen.into_iter().zip(tables.generations.newest(&txids, self.first)?) {
            places.extend(txnum.into_iter().flat_map(|txnum| same.iter().map(move |input| (txnum, input))));
        }
        places.sort_unstable_by_key(|(txnum, input)| (*txnum, input.txid, input.vout));
        let mut frozen = Vec::new();
        for same in places.chunk_by(|one, other| (one.0, one.1.txid) == (other.0, other.1.txid)) {
            let (txnum, txid) = (same[0].0, same[0].1.txid);
            // the only candidate with the prefix may be another transaction
            let has_txid = !tables.generations.is_empty() || prefetched.is_some_and(|rows| rows.newest(txid).is_some());
            if has_txid && self.pick_known(same, txnum, found) {
                continue;
            }
            if txnum < tables.generations.end() {
                frozen.push(same);
                continue;
            }
            let Some(row) = tables.transactions.get(&txnum.to_key())? else { continue };
            let row = TransactionRow::decode(row.value())?;
            if row.txid != *txid {
                continue; // another transaction with the same prefix
            }
            self.pick_stored(same, txnum, row.is_coinbase, row.raw, found)?;
        }
        let txnums: Vec<_> = frozen.iter().map(|same| same[0].0).collect();
        tables.generations.each_transaction(&txnums, |at, stored| {
            self.pick_stored(frozen[at], stored.txnum, stored.fee.is_none(), stored.parts.raw(), found)
        })
    }

    /// Picks the outputs of these inputs, which this transaction created, if all of them are known. Returns whether they are.
    fn pick_known(&self, same: &[(TxNum, &UnresolvedInput<'_>)], txnum: TxNum, found: &mut FoundOutputs) -> bool {
        let outputs = || same.iter().filter_map(|(_, input)| Some((input, input.known?, Position::new(input.vout)?)));
        if outputs().count() < same.len() {
            return false;
        }
        for (input, KnownOutput { value, script_pubkey, is_coinbase }, vout) in outputs() {
            found.set_script(input.index, script_pubkey);
            let output = BlockOutput::of(self.salt, vout, value, Script::from_bytes(script_pubkey));
            found.prevouts[input.index] = Some(self.prevout(txnum, is_coinbase, &output));
        }
        true
    }

    /// Picks the outputs of these inputs, in the order of their vout, from the stored transaction that created them.
    fn pick_stored(
        &self,
        same: &[(TxNum, &UnresolvedInput<'_>)],
        txnum: TxNum,
        is_coinbase: bool,
        raw: &[u8],
        found: &mut FoundOutputs,
    ) -> Result<(), IndexError> {
        let transaction = parse(txnum, raw)?;
        let mut outputs = (0..).zip(transaction.outputs()).peekable();
        for (_, input) in same {
            while outputs.next_if(|(at, _)| *at < input.vout).is_some() {}
            let Some((_, output)) = outputs.peek().filter(|(at, _)| *at == input.vout) else { continue };
            let Some(vout) = Position::new(input.vout) else { continue };
            found.set_script(input.index, output.script_pubkey);
            let output = BlockOutput::of(self.salt, vout, output.value, Script::from_bytes(output.script_pubkey));
            found.prevouts[input.index] = Some(self.prevout(txnum, is_coinbase, &output));
        }
        Ok(())
    }

    /// The latest live transaction before these blocks with this txid, or another one if it is the only one with the
    /// prefix and nothing is frozen: the caller compares the txid of its row anyway, so the row is not read twice.
    fn candidate(&self, tables: &Tables<'_>, prefix: TxidPrefix, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        if !tables.generations.is_empty() {
            return self.latest_live(tables, prefix, txid);
        }
        let (from, to) = self.live_keys(tables, prefix);
        let mut keys = tables.txids.range::<&txids::TxidKey>(&from..&to)?;
        let first = keys.next().transpose()?.map(|(key, _)| txids::split_key(key.value()).1);
        if keys.next().is_some() { self.latest_live(tables, prefix, txid) } else { Ok(first) }
    }

    /// The keys of the live transactions before these blocks with this prefix.
    fn live_keys(&self, tables: &Tables<'_>, prefix: TxidPrefix) -> (txids::TxidKey, txids::TxidKey) {
        let first = tables.generations.end().min(self.first);
        (txids::key(prefix, first), txids::key(prefix, self.first))
    }

    /// The latest live transaction before these blocks that has this txid.
    fn latest_live(&self, tables: &Tables<'_>, prefix: TxidPrefix, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        let (from, to) = self.live_keys(tables, prefix);
        for key in tables.txids.range::<&txids::TxidKey>(&from..&to)?.rev() {
            let (_, txnum) = txids::split_key(key?.0.value());
            let row = tables.transactions.get(&txnum.to_key())?;
            let row = row.ok_or_else(|| {
                IndexError::corrupt("txids", format!("a row names transaction {txnum}, which is missing"))
            })?;
            if TransactionRow::decode(row.value())?.txid == *txid {
                return Ok(Some(txnum));
            }
        }
        Ok(None)
    }

    fn missing(&self, input: usize) -> IndexError {
        self.unresolved(input, "is not in the index")
    }

    /// The error that names the input with this index among all inputs of the run.
    pub(in crate::index) fn unresolved(&self, mut input: usize, why: &'static str) -> IndexError {
        for (txnum, block, transaction) in self.transactions() {
            let inputs = &block.inputs[transaction.inputs.clone()];
            if let Some((txid, vout)) = inputs.get(input) {
                return IndexError::Unresolved {
                    height: self.start_of(txnum).map_or_else(Default::default, |start| start.height),
                    txid: transaction.txid,
                    vin: super::super::codec::small(input),
                    outpoint: OutPoint { txid: *txid, vout: *vout },
                    why,
                };
            }
            input -= inputs.len();
        }
        IndexError::corrupt("unspent", "an input outside of its blocks was requested")
    }
}

/// Finds the scripts of outputs of the run itself, and parses each of its transactions once.
fn find_own_scripts(mut own: Vec<OwnInput<'_>>, found: &mut FoundOutputs) -> Result<(), IndexError> {
    own.sort_unstable_by_key(|input| (input.txnum, input.vout));
    for same in own.chunk_by(|one, other| one.txnum == other.txnum) {
        let transaction = parse(same[0].txnum, same[0].raw)?;
        let mut outputs = (0..).zip(transaction.outputs()).peekable();
        for input in same {
            while outputs.next_if(|(at, _)| *at < input.vout).is_some() {}
            // an output that is not there is an error of its prevout
            if let Some((_, output)) = outputs.peek().filter(|(at, _)| *at == input.vout) {
                found.set_script(input.index, output.script_pubkey);
            }
        }
    }
    Ok(())
}

/// An input whose outpoint is not created by these blocks.
struct UnresolvedInput<'a> {
    prefix: TxidPrefix,
    txid: &'a Txid,
    vout: u32,
    /// Its index among all inputs.
    index: usize,
    known: Option<KnownOutput<'a>>,
}

/// Parses a stored transaction, which was validated when it was connected.
pub(in crate::index) fn parse(txnum: TxNum, raw: &[u8]) -> Result<RawTransaction<'_>, IndexError> {
    RawTransaction::parse_whole(raw)
        .map_err(|error| IndexError::corrupt("transactions", format!("row {txnum} is not a transaction: {error}")))
}
