//! Reads of one generation: the packed rows of a range of blocks. Its file never changes.

pub(super) mod scan;

use std::iter::Flatten;
use std::ops::Range;
use std::option::IntoIter;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bitcoin::hashes::{Hash, HashEngine, hash160, sha256};
use bitcoin::{BlockHash, Network, Txid};
use tracing::warn;

use super::super::error::IndexError;
use super::super::hot::tables::block_hashes::{self, BlockPlace};
use super::super::hot::tables::block_starts::{self, BlockStart, Occurrence};
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tables::history::HistoryRow;
use super::super::hot::tables::spends::SpendingInput;
use super::super::hot::tables::unspent::{self, UnspentKey, UnspentRow};
use super::super::hot::tables::{overwritten, p2pk, payouts, spends as live_spends};
use super::super::keys::{OutputPosition, Position, Salt, ScriptKey, TxNum};
use super::super::partial::PartialFile;
use super::super::table_rows::TableRows;
use super::builder::Count;
use super::facts::{FileFacts, GenerationRange};
use super::retirable::RetirableFile;
use super::table::{FrozenTable, PackedFile};
use super::tables::filters::{FilterKey, Filtered, Filters};
use super::tables::positions::BlockOffset;
use super::tables::spends::{KeptRow, OutputState};
use super::tables::txid_prefixes::CutBits;
use super::tables::{all, blocks, filters, history, late_spends, positions, spends, txid_prefixes, txids};
use crate::chain::Height;

/// Half of its memory is for transactions that were read lately: reading one again takes several pages, which the system may have in
/// memory as well, and hashing it.
const RECENT_SHARE: usize = 2;

/// A generation, open for reading. Safe to share between threads.
pub struct Generation {
    /// Unset while all may be there; `None` if they are damaged.
    filters: OnceLock<Option<Filters>>,
    /// The rows of the filters; `None` of one that has none.
    filter_rows: Option<FrozenTable<&'static [u8; 9], &'static [u8]>>,
    /// The part of its memory that is for transactions that were read lately, in bytes.
    pub(super) recent_bytes: usize,
    /// The most transactions that a block has, for each group of consecutive blocks (`largest_blocks.rs`).
    pub(super) largest_blocks: OnceLock<Vec<u32>>,
    range: GenerationRange,
    salt: Salt,
    cut_bits: CutBits,
    counts: Vec<(String, Count)>,
    blocks: FrozenTable<&'static [u8; 4], &'static [u8]>,
    block_starts: FrozenTable<&'static [u8; 4], &'static [u8; 8]>,
    block_hashes: FrozenTable<&'static [u8; 32], &'static [u8; 5]>,
    txids: FrozenTable<&'static [u8; 4], &'static [u8]>,
    txid_prefixes: FrozenTable<&'static [u8; 6], &'static [u8]>,
    positions: FrozenTable<&'static [u8; 4], &'static [u8]>,
    spends: FrozenTable<&'static live_spends::TxPoint, &'static [u8]>,
    late_spends: FrozenTable<&'static live_spends::TxPoint, &'static live_spends::TxPoint>,
    overwritten: FrozenTable<&'static live_spends::TxPoint, &'static [u8; 4]>,
    history: FrozenTable<&'static [u8; 14], &'static [u8]>,
    unspent: FrozenTable<&'static unspent::UnspentKeyBytes, &'static unspent::UnspentValue>,
    payouts: FrozenTable<&'static payouts::PayoutKey, ()>,
    p2pk: FrozenTable<&'static p2pk::P2pkKey, &'static [u8; 4]>,
    /// The file, if it was not complete when it was opened.
    partial: Option<Arc<dyn PartialFile>>,
    /// Last, because fields are dropped in this order: the file is closed before it is removed.
    file: RetirableFile,
}

/// Transactions of a block that follow each other.
pub(super) struct ConsecutiveTransactions {
    /// Where the first of them is.
    pub(super) first: Occurrence,
    pub(super) txnums: Range<TxNum>,
    pub(super) txids: Vec<Txid>,
    pub(super) offsets: Vec<BlockOffset>,
}

impl Generation {
    /// Opens the file of a generation, of which at most `cache_bytes` of pages and transactions are kept in memory, the latter together
    /// with those of other generations. Repairs a complete file that was not closed.
    ///
    /// Errors: [`IndexError::Foreign`] if it is not a generation, `WrongVersion`, `TableVersion`, `WrongNetwork`,
    /// `WrongSalt` if it is of another kind, storage errors.
    pub fn open(path: &Path, network: Network, salt: Salt, cache_bytes: usize) -> Result<Self, IndexError> {
        let recent_bytes = cache_bytes / RECENT_SHARE;
        let (facts, opened) = FileFacts::open(path, network, salt, cache_bytes - recent_bytes)?;
        Self::of(path, (facts, opened), None, salt, cache_bytes)
    }

    /// Opens a generation of which bytes may be missing on this machine. `path` is its place once it is complete.
    ///
    /// Errors: as [`Generation::open`]; [`IndexError::Unfetched`], here and in all reads.
    pub fn open_partial(
        path: &Path,
        partial: &Arc<dyn PartialFile>,
        network: Network,
        salt: Salt,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let recent_bytes = cache_bytes / RECENT_SHARE;
        let opened = PackedFile::open_partial(path, partial, cache_bytes - recent_bytes)?;
        let facts = FileFacts::of(&opened, path, network, salt)?;
        Self::of(path, (facts, opened), Some(Arc::clone(partial)), salt, cache_bytes)
    }

    fn of(
        path: &Path,
        (facts, opened): (FileFacts, PackedFile),
        partial: Option<Arc<dyn PartialFile>>,
        salt: Salt,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        facts.check_versions(path, &all::VERSIONS, &[all::FILTERS])?;
        let FileFacts { range, cut_bits, counts, .. } = facts;
        let has_filters = counts.iter().any(|(table, _)| table == filters::NAME);
        Ok(Self {
            filters: OnceLock::new(),
            filter_rows: has_filters.then(|| opened.table(filters::TABLE)).transpose()?,
            recent_bytes: cache_bytes / RECENT_SHARE,
            largest_blocks: OnceLock::new(),
            range,
            salt,
            cut_bits,
            counts,
            blocks: opened.table(blocks::TABLE)?,
            block_starts: opened.table(block_starts::TABLE)?,
            block_hashes: opened.table(block_hashes::TABLE)?,
            txids: opened.table(txids::TABLE)?,
            txid_prefixes: opened.table(txid_prefixes::TABLE)?,
            positions: opened.table(positions::TABLE)?,
            spends: opened.table(spends::TABLE)?,
            late_spends: opened.table(late_spends::TABLE)?,
            overwritten: opened.table(overwritten::TABLE)?,
            history: opened.table(history::TABLE)?,
            unspent: opened.table(unspent::TABLE)?,
            payouts: opened.table(payouts::TABLE)?,
            p2pk: opened.table(p2pk::TABLE)?,
            file: RetirableFile::new(path),
            partial,
        })
    }

    /// Its blocks and transactions.
    #[must_use]
    pub fn range(&self) -> GenerationRange {
        self.range
    }

    /// The rows of each table, and the bytes of their keys and values, as they were counted when it was built.
    pub fn tables(&self) -> impl Iterator<Item = TableRows> {
        let table = |(name, count): &(String, Count)| TableRows {
            name: name.clone(),
            rows: count.rows,
            bytes: Some(count.bytes),
        };
        self.counts.iter().map(table)
    }

    /// Its file.
    pub(in crate::index) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Has the file removed once its last reader drops it.
    pub(in crate::index) fn retire(&self) {
        self.file.retire();
    }

    /// The bytes of its file, `None` if the file system does not report them.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.partial.as_ref().map(|partial| partial.bytes()).or_else(|| self.file.bytes())
    }

    /// The bytes of its file that are missing on this machine.
    pub(in crate::index) fn missing_bytes(&self) -> u64 {
        self.partial.as_ref().map_or(0, |partial| partial.missing_bytes())
    }

    /// Whether bytes of its file may be missing on this machine.
    pub(in crate::index) fn is_partial(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| !partial.is_complete())
    }

    /// SHA-256 over all rows of each table, by its name. Reads the whole file.
    ///
    /// Errors: storage errors.
    pub fn checksums(&self) -> Result<Vec<(String, sha256::Hash)>, IndexError> {
        // destructured, so that the compiler reports a new table that is not listed here
        let Self {
            filters: _,
            filter_rows,
            recent_bytes: _,
            largest_blocks: _,
            range: _,
            salt: _,
            cut_bits: _,
            counts: _,
            blocks,
            block_starts,
            block_hashes,
            txids,
            txid_prefixes,
            positions,
            spends,
            late_spends,
            overwritten,
            history,
            unspent,
            payouts,
            p2pk,
            partial: _,
            file: _,
        } = self;
        let mut checksums = vec![
            checksum(blocks)?,
            checksum(block_starts)?,
            checksum(block_hashes)?,
            checksum(txids)?,
            checksum(txid_prefixes)?,
            checksum(positions)?,
            checksum(spends)?,
            checksum(late_spends)?,
            checksum(overwritten)?,
            checksum(history)?,
            checksum(unspent)?,
            checksum(payouts)?,
            checksum(p2pk)?,
        ];
        if let Some(filters) = filter_rows {
            checksums.push(checksum(filters)?);
        }
        Ok(checksums)
    }

    /// One of its blocks, `None` at other heights.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is damaged, here and in all other reads.
    pub fn block(&self, height: Height) -> Result<Option<BlockRow>, IndexError> {
        let row = self.blocks.get(&super::super::hot::tables::blocks::key(height))?;
        row.map(|row| blocks::decode(row.value())).transpose()
    }

    /// The hash of one of its blocks, `None` at other heights.
    pub(super) fn block_hash(&self, height: Height) -> Result<Option<BlockHash>, IndexError> {
        let row = self.blocks.get(&super::super::hot::tables::blocks::key(height))?;
        row.map(|row| blocks::decode_hash(row.value())).transpose()
    }

    /// The median time past of one of its blocks, `None` at other heights.
    pub(super) fn median_time(&self, height: Height) -> Result<Option<u32>, IndexError> {
        let row = self.blocks.get(&super::super::hot::tables::blocks::key(height))?;
        row.map(|row| blocks::decode_median_time(row.value())).transpose()
    }

    /// The place of one of its blocks.
    pub fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        self.block_hashes.get(hash.as_byte_array())?.map(|row| BlockPlace::decode(row.value())).transpose()
    }

    /// The block of one of its transactions.
    pub fn occurrence(&self, txnum: TxNum) -> Result<Option<Occurrence>, IndexError> {
        if !self.range.contains(txnum) {
            return Ok(None);
        }
        let row = self.block_starts.range::<&[u8; 4]>(..=&txnum.to_key())?.next_back().transpose()?;
        let (key, value) = row.ok_or_else(|| IndexError::corrupt("block_starts", "the first row is missing"))?;
        let start = BlockStart::decode(key.value(), value.value());
        Ok(Some(Occurrence { height: start.height, index: txnum.0 - start.first.0 }))
    }

    /// The txid of one of its transactions.
    pub fn txid(&self, txnum: TxNum) -> Result<Option<Txid>, IndexError> {
        if !self.range.contains(txnum) {
            return Ok(None);
        }
        let txid = txids::read_row_of(&self.txids, self.range.txnums.0, txnum)?;
        let missing = || IndexError::corrupt("txids", format!("transaction {txnum} is missing"));
        txid.map(Some).ok_or_else(missing)
    }

    /// The transactions with this txid, oldest first.
    pub fn positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        self.positions_above(txid, None)
    }

    /// Its transactions with this txid, oldest first, or those of them behind a position.
    pub(super) fn positions_above(&self, txid: &Txid, above: Option<TxNum>) -> Result<Vec<TxNum>, IndexError> {
        let hash = self.cut_bits.cut(self.salt.txid_prefix(txid));
        if !self.may_have(Filtered::Txids, hash) {
            return Ok(Vec::new());
        }
        let mut found = txid_prefixes::read(txid_prefixes::NAME, &self.txid_prefixes, hash)?;
        found.retain(|txnum| Some(*txnum) > above);
        let mut failed = None;
        found.retain(|txnum| match self.txid(*txnum) {
            Ok(other) => other == Some(*txid),
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        failed.map_or(Ok(found), Err)
    }

    /// Appends the txids of transactions of it to `found`, as far as it has them.
    pub(super) fn txids(&self, txnums: Range<TxNum>, found: &mut Vec<Txid>) -> Result<(), IndexError> {
        txids::read_consecutive(&self.txids, self.range.txnums.0, txnums, found)
    }

    /// Offset and length in its block of one of its transactions, in bytes, and its fee in sat (`None` of a coinbase).
    pub fn block_offset(&self, txnum: TxNum) -> Result<Option<(u32, u32, Option<u64>)>, IndexError> {
        let position = positions::read(&self.positions, txnum)?;
        Ok(position.map(|positions::BlockOffset { offset, length, fee }| (offset, length, fee)))
    }

    /// One of its transactions and those behind it, up to the end of their block and to this number at most.
    pub(super) fn consecutive(&self, from: TxNum, end: TxNum) -> Result<ConsecutiveTransactions, IndexError> {
        let first = self.occurrence(from)?;
        let first =
            first.ok_or_else(|| IndexError::corrupt("block_starts", format!("transaction {from} is missing")))?;
        let behind = TxNum(from.0.saturating_add(1));
        let next_block = self.block_starts.range::<&[u8; 4]>(&behind.to_key()..)?.next().transpose()?;
        let block_end = next_block.map_or(self.range.txnums.1, |(key, _)| TxNum::from_key(*key.value()));
        let txnums = from..end.min(block_end).min(self.range.txnums.1);
        let count = usize::try_from(txnums.end.0.saturating_sub(from.0)).unwrap_or_default();
        let (mut txids, mut offsets) = (Vec::with_capacity(count), Vec::with_capacity(count));
        txids::read_consecutive(&self.txids, self.range.txnums.0, txnums.clone(), &mut txids)?;
        positions::read_consecutive(&self.positions, txnums.clone(), &mut offsets)?;
        if txids.len() != count || offsets.len() != count {
            return Err(IndexError::corrupt(
                "positions",
                format!("a transaction from {from} to {} is missing", txnums.end),
            ));
        }
        Ok(ConsecutiveTransactions { first, txnums, txids, offsets })
    }

    /// The input that spends an output, if the output is of this or an older generation and the input of this one.
    pub fn spender(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let outpoint = live_spends::tx_point(txnum, vout);
        if txnum < self.range.txnums.0 {
            if !self.may_have(Filtered::LateSpends, outpoint) {
                return Ok(None);
            }
            return Ok(self.late_spends.get(&outpoint)?.map(|row| SpendingInput::of_row(row.value())));
        }
        Ok(spends::read(&self.spends, outpoint)?.and_then(OutputState::spender))
    }

    /// The input of this generation that spends an output of it, of a transaction before `end`. `kept` has the row of the output that
    /// was asked for before.
    pub(super) fn spender_near(
        &self,
        kept: &mut Option<KeptRow>,
        outpoint: live_spends::TxPoint,
        end: TxNum,
    ) -> Result<Option<SpendingInput>, IndexError> {
        let end = live_spends::tx_point(end, Position::ZERO);
        Ok(spends::read_near(&self.spends, kept, outpoint, end)?.and_then(OutputState::spender))
    }

    /// The transaction of this generation that overwrites an output of an earlier copy (BIP30).
    pub fn overwriter(&self, txnum: TxNum, vout: u32) -> Result<Option<TxNum>, IndexError> {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let row = self.overwritten.get(&live_spends::tx_point(txnum, vout))?;
        Ok(row.map(|row| TxNum::from_key(*row.value())))
    }

    /// The last of its transactions of a script before `before`, with the totals of the script after it.
    pub fn totals(&self, script: ScriptKey, before: TxNum) -> Result<Option<(TxNum, HistoryRow)>, IndexError> {
        if !self.may_have(Filtered::Scripts, script) {
            return Ok(None);
        }
        history::totals(&self.history, script, before)
    }

    /// Those of its transactions within `txnums` that paid or spent a script, each with the totals after it, oldest first.
    pub fn history(
        &self,
        script: ScriptKey,
        txnums: Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(TxNum, HistoryRow), IndexError>> + use<>, IndexError> {
        self.rows_of(script, || history::read(&self.history, script, txnums))
    }

    /// Rows of a script, which are read only if one of its transactions may have paid or spent it.
    fn rows_of<R: IntoIterator>(
        &self,
        script: ScriptKey,
        read: impl FnOnce() -> Result<R, IndexError>,
    ) -> Result<Flatten<IntoIter<R>>, IndexError> {
        let rows = self.may_have(Filtered::Scripts, script).then(read).transpose()?;
        Ok(rows.into_iter().flatten())
    }

    /// Whether it may have something that is filtered.
    fn may_have(&self, of: Filtered, key: impl Into<FilterKey>) -> bool {
        self.filters.get().and_then(Option::as_ref).is_none_or(|filters| filters.may_have(of, key))
    }

    /// Keeps its filters in memory from now on, unless they take more than so many bytes. Damaged ones are not used, as what
    /// they say follows from the other tables.
    pub(super) fn keep_filters(&self, most_bytes: u64) {
        // of a file that is being downloaded they would be most of what opening it fetches
        if self.is_partial() {
            return;
        }
        let Some(Count { bytes, .. }) = self.filter_count().filter(|count| count.bytes <= most_bytes) else { return };
        self.filters.get_or_init(|| match self.read_filters() {
            Ok(filters) => filters,
            Err(error) => {
                let path = self.path().display();
                warn!(%path, %error, bytes, "the filters of a generation are damaged: all its tables are read instead");
                None
            }
        });
    }

    /// The bytes of memory that its filters take, 0 if they are not kept.
    pub(super) fn kept_filter_bytes(&self) -> u64 {
        let is_kept = self.filters.get().is_some_and(Option::is_some);
        self.filter_count().filter(|_| is_kept).map_or(0, |count| count.bytes)
    }

    /// Its filters, `None` if it has none.
    fn read_filters(&self) -> Result<Option<Filters>, IndexError> {
        let counted = self.filter_count().map_or(0, |count| count.rows);
        self.filter_rows.as_ref().map(|rows| Filters::read(rows, counted, self.salt)).transpose()
    }

    fn filter_count(&self) -> Option<Count> {
        self.counts.iter().find(|(table, _)| table == filters::NAME).map(|(_, count)| *count)
    }

    /// Those of its outputs at these positions that pay a script and are unspent at its end, oldest first.
    pub fn unspent(
        &self,
        script: ScriptKey,
        positions: Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(UnspentKey, UnspentRow), IndexError>> + use<>, IndexError> {
        self.rows_of(script, || unspent::read(&self.unspent, script, positions))
    }

    /// Whether it has a row of this output in `unspent`.
    pub(super) fn has_unspent_row(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let Some(vout) = Position::new(output.vout) else { return Ok(false) };
        Ok(self.unspent.get(&unspent::key(output.script, output.txnum, vout))?.is_some())
    }

    /// The starts of its blocks that begin within `txnums`, the lowest first.
    pub(super) fn starts(
        &self,
        txnums: Range<TxNum>,
    ) -> Result<impl Iterator<Item = Result<BlockStart, IndexError>> + use<>, IndexError> {
        let end = txnums.end.max(txnums.start);
        let rows = self.block_starts.range::<&[u8; 4]>(&txnums.start.to_key()..&end.to_key())?;
        Ok(rows.map(|row| {
            row.map(|(key, value)| BlockStart::decode(key.value(), value.value())).map_err(IndexError::from)
        }))
    }

    /// Heights of those of its blocks whose coinbase pays a script, within `heights`, lowest first.
    pub fn payouts(
        &self,
        script: ScriptKey,
        heights: Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        self.rows_of(script, || payouts::read(&self.payouts, script, heights))
    }

    /// The P2PK scripts whose public key has this HASH160 and that one of its transactions paid, each with the first.
    pub fn p2pk_scripts(&self, key_hash: hash160::Hash) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
        p2pk::read(&self.p2pk, key_hash)
    }
}

fn checksum<const KEY: usize, V: redb::Value + 'static>(
    table: &FrozenTable<&'static [u8; KEY], V>,
) -> Result<(String, sha256::Hash), IndexError> {
    let mut engine = sha256::Hash::engine();
    for row in table.range::<&[u8; KEY]>(..)? {
        let (key, value) = row?;
        let value = value.value();
        let value = V::as_bytes(&value);
        let size = u64::try_from(value.as_ref().len()).unwrap_or(u64::MAX);
        engine.input(key.value());
        engine.input(&size.to_be_bytes());
        engine.input(value.as_ref());
    }
    Ok((table.name().to_owned(), sha256::Hash::from_engine(engine)))
}
