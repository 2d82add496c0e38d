//! The generations in force, read as one.
//!
//! Each generation counts up to its own end, which a reorganisation lowers: rows, spenders, late spends and later copies
//! at or above it do not exist. Blocks above the newest end are in the live tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bitcoin::hashes::hash160;
use bitcoin::{BlockHash, Txid};

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::keys::{OutputPosition, ScriptKey, TxNum};
use super::super::raw_blocks::RawBlocks;
use super::super::snapshot::{Occurrence, SpendingInput, StoredTransaction, TableRows};
use super::super::tables::block_hashes::BlockPlace;
use super::super::tables::block_starts::BlockStart;
use super::super::tables::blocks::BlockRow;
use super::super::tables::history::HistoryRow;
use super::super::tables::meta;
use super::super::tables::unspent::{FoundOutput, UnspentKey};
use super::super::update::Tip;
use super::generation::Generation;
use crate::chain::Height;
use crate::chain::raw::RawTransaction;

/// Threads that read at many places.
const READERS: usize = 8;
/// Items that are worth a thread of their own.
const SHARE: usize = 8;
/// The most bytes of transactions that are held at a time, if each is smaller.
const HELD: usize = 16 << 20;
/// The most bytes of a block (Core: `MAX_BLOCK_SERIALIZED_SIZE`).
const MAX_BLOCK: u32 = 4_000_000;

/// A generation up to its end.
#[derive(Clone)]
pub(in crate::index) struct InForce {
    pub(in crate::index) generation: Arc<Generation>,
    /// Its file, in the directory of generations.
    pub(in crate::index) name: String,
    /// Its highest block that counts.
    pub(in crate::index) last: Tip,
    /// The number after its last transaction that counts.
    pub(in crate::index) end: TxNum,
}

/// What the index records about a generation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) struct InForceRecord {
    pub(in crate::index) name: String,
    pub(in crate::index) last: Tip,
    pub(in crate::index) end: TxNum,
}

impl InForce {
    fn has(&self, txnum: TxNum) -> bool {
        self.generation.range().txnums.0 <= txnum && txnum < self.end
    }

    fn first(&self) -> TxNum {
        self.generation.range().txnums.0
    }
}

/// All of them, the oldest first. They follow each other without a gap from the genesis block on.
#[derive(Clone, Default)]
pub(in crate::index) struct Generations {
    in_force: Vec<InForce>,
    raw: Arc<OnceLock<Arc<dyn RawBlocks>>>,
}

impl Generations {
    pub(in crate::index) fn new(in_force: Vec<InForce>) -> Self {
        Self { in_force, raw: Arc::default() }
    }

    /// Whether they follow each other from the genesis block up to the tip of the index or below it.
    ///
    /// Errors: [`IndexError::Corrupt`] if not; storage errors.
    pub(in crate::index) fn check(&self, tip: Option<Tip>) -> Result<(), IndexError> {
        let (mut height, mut txnum) = (Height::GENESIS, TxNum(0));
        for InForce { generation, name, last, end } in &self.in_force {
            let range = generation.range();
            let follows = (range.first, range.txnums.0) == (height, txnum);
            let has_last = last.height <= range.last.height && generation.block_hash(last.height)? == Some(last.hash);
            // the block behind its end begins there
            let behind = generation.starts(*end..range.txnums.1)?.next().transpose()?;
            let (after, expected) = (behind.map(|start| (start.height, start.first)), (last.height.next(), *end));
            let ends = if *end == range.txnums.1 { *last == range.last } else { after == Some(expected) };
            if !(follows && has_last && ends) {
                let what = format!("the index names blocks that generation {name} does not have");
                return Err(IndexError::corrupt("meta", what));
            }
            (height, txnum) = (last.height.next(), *end);
        }
        if self.last().is_some_and(|last| tip.is_none_or(|tip| tip.height < last.height)) {
            return Err(IndexError::corrupt("meta", "the tip of the index is below its generations"));
        }
        Ok(())
    }

    /// The same with one more at the end.
    pub(in crate::index) fn with(&self, newest: InForce) -> Self {
        let mut generations = self.clone();
        generations.in_force.push(newest);
        generations
    }

    /// The same without the highest block, on top of `previous`, which ends before the transaction `end`.
    pub(in crate::index) fn without_last(&self, previous: Option<Tip>, end: TxNum) -> Self {
        let mut generations = self.clone();
        match (generations.in_force.last_mut(), previous) {
            (Some(newest), Some(previous)) if newest.first() < end => (newest.last, newest.end) = (previous, end),
            _ => {
                generations.in_force.pop();
            }
        }
        generations
    }

    /// Sets where the bytes of their blocks are read, once.
    pub(in crate::index) fn set_raw_blocks(&self, raw: Arc<dyn RawBlocks>) {
        // the first reader stays
        let _ = self.raw.set(raw);
    }

    /// Whether it is set where the bytes of their blocks are read.
    pub(in crate::index) fn has_raw_blocks(&self) -> bool {
        self.raw.get().is_some()
    }

    pub(in crate::index) fn is_empty(&self) -> bool {
        self.in_force.is_empty()
    }

    pub(in crate::index) fn iter(&self) -> impl DoubleEndedIterator<Item = &InForce> {
        self.in_force.iter()
    }

    /// The rows of each packed table of all of them.
    pub(in crate::index) fn tables(&self) -> impl Iterator<Item = TableRows> {
        let mut tables = BTreeMap::new();
        for (TableRows { name, rows }, _) in self.in_force.iter().flat_map(|in_force| in_force.generation.tables()) {
            *tables.entry(name).or_insert(0_u64) += rows;
        }
        tables.into_iter().map(|(name, rows)| TableRows { name: format!("frozen.{name}"), rows })
    }

    /// The bytes of their files, `None` if the file system does not report them.
    pub(in crate::index) fn file_bytes(&self) -> Option<u64> {
        self.in_force.iter().map(|in_force| in_force.generation.file_bytes()).sum()
    }

    /// The highest block.
    pub(in crate::index) fn last(&self) -> Option<Tip> {
        self.in_force.last().map(|newest| newest.last)
    }

    /// The number of the first transaction above them.
    pub(in crate::index) fn end(&self) -> TxNum {
        self.in_force.last().map_or(TxNum(0), |newest| newest.end)
    }

    pub(in crate::index) fn records(&self) -> Vec<InForceRecord> {
        let record =
            |InForce { name, last, end, .. }: &InForce| InForceRecord { name: name.clone(), last: *last, end: *end };
        self.in_force.iter().map(record).collect()
    }

    fn of(&self, txnum: TxNum) -> Option<&InForce> {
        let at = self.in_force.partition_point(|in_force| in_force.end <= txnum);
        self.in_force.get(at).filter(|in_force| in_force.has(txnum))
    }

    /// The block at a height, `None` above them.
    pub(in crate::index) fn block(&self, height: Height) -> Result<Option<BlockRow>, IndexError> {
        let at = self.in_force.partition_point(|in_force| in_force.last.height < height);
        let Some(in_force) = self.in_force.get(at) else { return Ok(None) };
        let row = in_force.generation.block(height)?;
        row.map(Some).ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))
    }

    pub(in crate::index) fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        for in_force in self.in_force.iter().rev() {
            let place = in_force.generation.block_place(hash)?;
            if let Some(place) = place.filter(|place| place.height <= in_force.last.height) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The starts of the blocks that begin within `txnums`, the lowest first, read lazily.
    pub(in crate::index) fn starts(
        &self,
        txnums: Range<TxNum>,
    ) -> Result<impl Iterator<Item = Result<BlockStart, IndexError>> + use<>, IndexError> {
        let starts = |in_force: &InForce| in_force.generation.starts(txnums.start..txnums.end.min(in_force.end));
        let starts = self.in_force.iter().map(starts).collect::<Result<Vec<_>, _>>()?;
        Ok(starts.into_iter().flatten())
    }

    /// The txids of transactions of theirs.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if one is missing.
    pub(in crate::index) fn txids(&self, txnums: Range<TxNum>) -> Result<Vec<Txid>, IndexError> {
        let missing = |txnum| IndexError::corrupt("txids", format!("transaction {txnum} is missing"));
        (txnums.start.0..txnums.end.0).map(|txnum| self.txid(TxNum(txnum))?.ok_or_else(|| missing(txnum))).collect()
    }

    /// Appends the serialisations of transactions of theirs to `bytes`. Those of one block are read at once.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn append_raw_transactions(
        &self,
        txnums: Range<TxNum>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let mut from = txnums.start;
        while from < txnums.end {
            let first = self.located(from)?;
            let (mut length, mut next) = (0_u32, from);
            let mut transactions = Vec::new();
            while next < txnums.end {
                let found = self.located(next)?;
                if found.block != first.block {
                    break;
                }
                length = length.saturating_add(found.length);
                transactions.push(found);
                next = TxNum(next.0 + 1);
            }
            let raw = self.checked_bytes(first.block, first.offset, length, |mut rest| {
                for found in &transactions {
                    let length = usize::try_from(found.length).unwrap_or(0).min(rest.len());
                    let (transaction, behind) = rest.split_at(length);
                    found.check(transaction)?;
                    rest = behind;
                }
                Ok(())
            })?;
            bytes.extend(raw);
            from = next;
        }
        Ok(())
    }

    /// Where the bytes of a transaction of theirs are.
    fn located(&self, txnum: TxNum) -> Result<Located, IndexError> {
        let missing = |table| IndexError::corrupt(table, format!("transaction {txnum} is missing"));
        let generation = &self.of(txnum).ok_or_else(|| missing("transactions"))?.generation;
        let txid = generation.txid(txnum)?.ok_or_else(|| missing("txids"))?;
        let (offset, length, fee) = generation.block_offset(txnum)?.ok_or_else(|| missing("positions"))?;
        let height = generation.occurrence(txnum)?.ok_or_else(|| missing("block_starts"))?.height;
        let hash = generation.block_hash(height)?.ok_or_else(|| missing("blocks"))?;
        Ok(Located { txnum, block: Tip { height, hash }, txid, offset, length, fee })
    }

    pub(in crate::index) fn occurrence(&self, txnum: TxNum) -> Result<Option<Occurrence>, IndexError> {
        self.of(txnum).map_or(Ok(None), |in_force| in_force.generation.occurrence(txnum))
    }

    pub(in crate::index) fn txid(&self, txnum: TxNum) -> Result<Option<Txid>, IndexError> {
        self.of(txnum).map_or(Ok(None), |in_force| in_force.generation.txid(txnum))
    }

    /// The transactions with this txid, oldest first.
    pub(in crate::index) fn positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        let mut found = Vec::new();
        for in_force in &self.in_force {
            let positions = in_force.generation.positions(txid)?;
            found.extend(positions.into_iter().filter(|txnum| in_force.has(*txnum)));
        }
        Ok(found)
    }

    /// A transaction, `None` above them.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if nobody has its bytes; storage errors.
    pub(in crate::index) fn transaction(&self, txnum: TxNum) -> Result<Option<StoredTransaction>, IndexError> {
        if self.of(txnum).is_none() {
            return Ok(None);
        }
        self.read(&self.located(txnum)?).map(Some)
    }

    fn read(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let raw = self.checked_bytes(found.block, found.offset, found.length, |raw| found.check(raw))?;
        Ok(StoredTransaction { txnum: found.txnum, txid: found.txid, fee: found.fee, raw })
    }

    /// Visits transactions of the generations, in the order of these numbers. Several are read at a time, of which
    /// [`HELD`] bytes are held.
    ///
    /// Errors: as [`Generations::transaction`]; [`IndexError::Threads`]; what `visit` returns.
    pub(in crate::index) fn each_transaction(
        &self,
        txnums: &[TxNum],
        mut visit: impl FnMut(usize, StoredTransaction) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let located = in_parallel(txnums, |txnum| self.located(*txnum))?;
        let (mut rest, mut at) = (located.as_slice(), 0);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|found| {
                bytes += usize::try_from(found.length).unwrap_or(HELD);
                bytes <= HELD
            });
            let (held, behind) = rest.split_at(fitting.count().max(1));
            for stored in in_parallel(held, |found| self.read(found))? {
                visit(at, stored)?;
                at += 1;
            }
            rest = behind;
        }
        Ok(())
    }

    /// The newest transaction of theirs before `before` with each of these txids, of which several are looked up at a
    /// time.
    ///
    /// Errors: storage errors; [`IndexError::Threads`].
    pub(in crate::index) fn newest(&self, txids: &[Txid], before: TxNum) -> Result<Vec<Option<TxNum>>, IndexError> {
        if self.in_force.is_empty() {
            return Ok(vec![None; txids.len()]);
        }
        in_parallel(txids, |txid| Ok(self.positions(txid)?.into_iter().rfind(|txnum| *txnum < before)))
    }

    /// `length` bytes of a block from `offset` on that pass a check, from another place if those of the first do not.
    ///
    /// Errors: as [`Generations::raw_bytes`]; that of the check.
    fn checked_bytes(
        &self,
        block: Tip,
        offset: u32,
        length: u32,
        check: impl Fn(&[u8]) -> Result<(), IndexError>,
    ) -> Result<Vec<u8>, IndexError> {
        let bytes = self.raw_bytes(block, offset, length)?;
        let Err(error) = check(&bytes) else { return Ok(bytes) };
        let again = self.raw.get().and_then(|raw| raw.read_elsewhere(block, offset, length).ok());
        again.filter(|bytes| check(bytes).is_ok()).ok_or(error)
    }

    /// `length` bytes of a block from `offset` on.
    ///
    /// Errors: [`IndexError::RawUnavailable`].
    pub(in crate::index) fn raw_bytes(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, IndexError> {
        let unavailable = |why: String| IndexError::RawUnavailable { height: block.height, hash: block.hash, why };
        if offset.saturating_add(length) > MAX_BLOCK {
            let what = format!("{length} bytes at offset {offset} of block {} are more than a block has", block.hash);
            return Err(IndexError::corrupt("positions", what));
        }
        let raw = self.raw.get().ok_or_else(|| unavailable("no node is connected yet".into()))?;
        let bytes = raw.read(block, offset, length).map_err(|error| unavailable(error.to_string()))?;
        if u32::try_from(bytes.len()) == Ok(length) {
            Ok(bytes)
        } else {
            Err(unavailable(format!("{} bytes were returned, not {length}", bytes.len())))
        }
    }

    /// The input that spends an output of theirs, if a transaction of theirs does.
    pub(in crate::index) fn spender(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        let at = self.in_force.partition_point(|in_force| in_force.end <= txnum);
        for in_force in &self.in_force[at..] {
            let spender = in_force.generation.spender(txnum, vout)?;
            if let Some(spender) = spender.filter(|spender| spender.txnum < in_force.end) {
                return Ok(Some(spender));
            }
        }
        Ok(None)
    }

    /// Whether one of their transactions overwrites this output (BIP30).
    fn is_overwritten(&self, txnum: TxNum, vout: u32) -> Result<bool, IndexError> {
        let at = self.in_force.partition_point(|in_force| in_force.end <= txnum);
        for in_force in &self.in_force[at..] {
            if in_force.generation.overwriter(txnum, vout)?.is_some_and(|later| later < in_force.end) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the generation of an output has a row of it in `unspent`. It may be spent since.
    pub(in crate::index) fn has_unspent_row(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let Some(in_force) = self.of(output.txnum) else { return Ok(false) };
        in_force.generation.has_unspent_row(output)
    }

    /// Whether an output is unspent right above them.
    pub(in crate::index) fn is_unspent(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let own = self.in_force.partition_point(|in_force| in_force.end <= output.txnum);
        Ok(self.has_unspent_row(output)? && !self.is_gone_after(own, output)?)
    }

    /// Whether an output with a row in `unspent` of a generation is spent or overwritten by a later one.
    fn is_gone_after(&self, own: usize, output: UnspentKey) -> Result<bool, IndexError> {
        for in_force in self.in_force.iter().skip(own + 1) {
            let spender = in_force.generation.spender(output.txnum, output.vout)?;
            let overwriter = in_force.generation.overwriter(output.txnum, output.vout)?;
            let is_in_force = |txnum: TxNum| txnum < in_force.end;
            if spender.is_some_and(|spender| is_in_force(spender.txnum)) || overwriter.is_some_and(is_in_force) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an output of theirs is spent or overwritten by a transaction of theirs.
    pub(in crate::index) fn is_gone(&self, output: UnspentKey) -> Result<bool, IndexError> {
        Ok(self.spender(output.txnum, output.vout)?.is_some() || self.is_overwritten(output.txnum, output.vout)?)
    }

    /// The last of their transactions of a script before `before`, with the totals of the script after it.
    pub(in crate::index) fn totals(
        &self,
        script: ScriptKey,
        before: TxNum,
    ) -> Result<Option<(TxNum, HistoryRow)>, IndexError> {
        for in_force in self.in_force.iter().rev().filter(|in_force| in_force.first() < before) {
            let totals = in_force.generation.totals(script, before.min(in_force.end))?;
            if totals.is_some() {
                return Ok(totals);
            }
        }
        Ok(None)
    }

    /// Those of their transactions within `txnums` that paid or spent a script, oldest first.
    pub(in crate::index) fn history(
        &self,
        script: ScriptKey,
        txnums: &Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(TxNum, HistoryRow), IndexError>> + use<>, IndexError> {
        let overlapping =
            self.in_force.iter().filter(|in_force| in_force.first() < txnums.end && txnums.start < in_force.end);
        let rows = overlapping
            .map(|in_force| in_force.generation.history(script, txnums.start..txnums.end.min(in_force.end)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().flatten())
    }

    /// Those of their outputs at these positions that pay a script and are unspent at the end of their generation, oldest
    /// first, with their row if they are unspent right above all of them.
    pub(in crate::index) fn unspent(
        self: &Arc<Self>,
        script: ScriptKey,
        positions: &Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<FoundOutput, IndexError>> + use<>, IndexError> {
        let mut rows = Vec::new();
        for (at, in_force) in self.in_force.iter().enumerate() {
            let end = positions.end.min(OutputPosition::first_of(in_force.end));
            if positions.start < end && OutputPosition::first_of(in_force.first()) < end {
                let (generations, found) =
                    (Arc::clone(self), in_force.generation.unspent(script, positions.start..end)?);
                rows.push(found.map(move |row| {
                    let (output, row) = row?;
                    let is_gone = generations.is_gone_after(at, output)?;
                    Ok((output, (!is_gone).then_some(row)))
                }));
            }
        }
        Ok(rows.into_iter().flatten())
    }

    /// Heights of those of their blocks whose coinbase pays a script, within `heights`, lowest first.
    pub(in crate::index) fn payouts(
        &self,
        script: ScriptKey,
        heights: &Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let rows = self.in_force.iter().map(|in_force| {
            in_force.generation.payouts(script, heights.start..heights.end.min(in_force.last.height.next()))
        });
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten())
    }

    /// The P2PK scripts whose public key has this HASH160 and that one of their transactions paid, with the first that did.
    pub(in crate::index) fn p2pk_scripts(
        &self,
        key_hash: hash160::Hash,
    ) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
        let mut found: Vec<(ScriptKey, TxNum)> = Vec::new();
        for in_force in &self.in_force {
            for (script, txnum) in in_force.generation.p2pk_scripts(key_hash)? {
                if txnum < in_force.end && found.iter().all(|(known, _)| *known != script) {
                    found.push((script, txnum));
                }
            }
        }
        Ok(found)
    }
}

/// Where the bytes of a transaction are, and what they must be.
struct Located {
    txnum: TxNum,
    block: Tip,
    txid: Txid,
    /// Bytes of the block before it.
    offset: u32,
    length: u32,
    /// In sat, `None` for a coinbase.
    fee: Option<u64>,
}

impl Located {
    /// Errors: [`IndexError::RawUnavailable`] if the bytes are not this transaction.
    fn check(&self, raw: &[u8]) -> Result<(), IndexError> {
        if RawTransaction::parse_whole(raw).is_ok_and(|transaction| transaction.txid() == self.txid) {
            return Ok(());
        }
        let Self { block: Tip { height, hash }, txid, offset, .. } = self;
        let why = format!("the bytes at offset {offset} are not transaction {txid}");
        Err(IndexError::RawUnavailable { height: *height, hash: *hash, why })
    }
}

impl InForceRecord {
    /// The row of all of them in `meta`.
    pub(in crate::index) fn encode_all(records: &[Self]) -> Vec<u8> {
        let mut row = Encoder::default();
        for Self { name, last, end } in records {
            row.varint(u32::try_from(name.len()).unwrap_or(u32::MAX)).bytes(name.as_bytes());
            row.bytes(&meta::encode_tip(last.height, last.hash)).u32(end.0);
        }
        row.finish()
    }

    pub(in crate::index) fn decode_all(row: &[u8]) -> Result<Vec<Self>, IndexError> {
        let (mut row, mut records) = (Decoder::new("meta", row), Vec::new());
        while !row.is_empty() {
            let length = usize::try_from(row.varint_32()?).unwrap_or(usize::MAX);
            let name = std::str::from_utf8(row.take(length)?).map(str::to_owned);
            let name = name.map_err(|_| row.corrupt("names a generation with bytes that are not text"))?;
            let (height, hash) = meta::decode_tip(&row.array::<36>()?)?;
            records.push(Self { name, last: Tip { height, hash }, end: TxNum(row.u32()?) });
        }
        Ok(records)
    }
}

/// The results of reads for many items, in their order. Each thread reads for items next to each other.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    read: impl Fn(&T) -> Result<R, IndexError> + Sync,
) -> Result<Vec<R>, IndexError> {
    let share = items.len().div_ceil(READERS).max(SHARE);
    if items.len() <= share {
        return items.iter().map(read).collect();
    }
    std::thread::scope(|scope| {
        let (mut readers, read) = (Vec::with_capacity(READERS), &read);
        for part in items.chunks(share) {
            let reader = std::thread::Builder::new().name("read".into());
            let work = move || part.iter().map(read).collect::<Result<Vec<_>, _>>();
            readers.push(reader.spawn_scoped(scope, work).map_err(IndexError::Threads)?);
        }
        let mut found = Vec::with_capacity(items.len());
        for reader in readers {
            found.extend(reader.join().unwrap_or(Err(IndexError::Broken))?);
        }
        Ok(found)
    })
}
