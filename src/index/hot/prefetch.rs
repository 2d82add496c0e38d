//! Reads what a block will need before it arrives.
//!
//! A block changes thousands of pages all over the file, and each page that is not in memory costs a disk read. Most of
//! these pages are known in advance: they belong to the unconfirmed transactions. After a start the cache is empty.
//!
//! What is found on the way stays true until the next block, so the block need not look it up again ([`PrefetchedRows`]). It is
//! ignored once another block, a reorg or freezing has changed what the rows are or whether they are live. Merging generations
//! changes neither.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use bitcoin::{OutPoint, Script, Txid};
use redb::{Key, ReadOnlyTable, ReadableTable, Value};

use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::super::keys::{Position, ScriptKey, TxNum};
use super::super::snapshot::Snapshot;
use super::tables::history::{self, HistoryKey, HistoryRow, HistoryValue};
use super::tables::unspent::{UnspentKey, UnspentKeyBytes};
use super::tables::{spends, unspent};
use super::tip::Tip;
use crate::chain::script::never_spendable;

/// The most facts of [`PrefetchedRows`]: several blocks have fewer. They take some 20 MB.
const MOST: usize = 200_000;

/// What was found on one tip for transactions that the next block may have.
pub struct PrefetchedRows {
    tip: Option<Tip>,
    /// The highest block of the generations.
    frozen: Option<Tip>,
    /// The newest transaction of the chain with a txid.
    positions: HashMap<Txid, Option<TxNum>>,
    scripts: HashMap<ScriptKey, LastTotals>,
    /// Outputs that are unspent right above the generations, and have no live row and no live overwriting. Whether a live
    /// transaction spends them the writer notices when it inserts the row of the spend.
    frozen_outputs: HashSet<UnspentKeyBytes>,
}

/// The totals of a script on the tip.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct LastTotals {
    /// The last live row of the history up to those of the script, of whatever script: new rows are inserted behind it. Only a
    /// hint which page to copy: a row that a generation has, too, may be gone meanwhile.
    pub(in crate::index) before: Option<HistoryKey>,
    pub(in crate::index) totals: HistoryRow,
}

impl LastTotals {
    /// Reads them from the live table, or else from generations.
    pub(in crate::index) fn read(
        live: &impl ReadableTable<&'static HistoryKey, &'static HistoryValue>,
        generations: &Generations,
        script: ScriptKey,
    ) -> Result<Self, IndexError> {
        let last = history::key(script, TxNum(u32::MAX));
        let before = live.range::<&HistoryKey>(..=&last)?.next_back().transpose()?;
        let before = before.map(|(key, row)| (*key.value(), *row.value()));
        let is_live = |key: &HistoryKey| {
            let (of, txnum) = history::split_key(key);
            of == script && txnum >= generations.end()
        };
        let totals = match &before {
            Some((key, row)) if is_live(key) => HistoryRow::decode(row)?,
            _ => generations.totals(script, TxNum(u32::MAX))?.map(|(_, row)| row).unwrap_or_default(),
        };
        Ok(Self { before: before.map(|(key, _)| key), totals })
    }
}

impl PrefetchedRows {
    /// Nothing yet, on the tip of this snapshot.
    #[must_use]
    pub fn on(snapshot: &Snapshot) -> Self {
        Self {
            tip: snapshot.tip(),
            frozen: snapshot.generations.last(),
            positions: HashMap::new(),
            scripts: HashMap::new(),
            frozen_outputs: HashSet::new(),
        }
    }

    /// Whether it has space for what is found in this snapshot, on the same tip.
    #[must_use]
    pub fn accepts(&self, snapshot: &Snapshot) -> bool {
        let facts = self.positions.len() + self.scripts.len() + self.frozen_outputs.len();
        self.is_true_on(snapshot.tip(), &snapshot.generations) && facts < MOST
    }

    /// Whether it is true of an index with this tip and these generations. Only a block changes which rows there are, and only
    /// freezing or disconnecting frozen blocks which of them are live.
    pub(in crate::index) fn is_true_on(&self, tip: Option<Tip>, generations: &Generations) -> bool {
        (self.tip, self.frozen) == (tip, generations.last())
    }

    /// The newest transaction of the chain with this txid, and `None` within if there is none; `None` if that is not known.
    pub(in crate::index) fn newest(&self, txid: &Txid) -> Option<&Option<TxNum>> {
        self.positions.get(txid)
    }

    /// The totals of a script, if they are known.
    pub(in crate::index) fn totals(&self, script: ScriptKey) -> Option<&LastTotals> {
        self.scripts.get(&script)
    }

    /// Whether this output is known to be unspent right above the generations, and to have no live row.
    pub(in crate::index) fn is_frozen_output(&self, output: &UnspentKeyBytes) -> bool {
        self.frozen_outputs.contains(output)
    }
}

impl Snapshot {
    /// Reads what a block with this transaction needs, which spends these outputs and pays these scripts: into the cache of
    /// pages, and into `rows`, which [accept](PrefetchedRows::accepts) this snapshot.
    ///
    /// Errors: the index cannot be read.
    pub fn prefetch<'s>(
        &self,
        rows: &mut PrefetchedRows,
        txid: &Txid,
        spent: impl Iterator<Item = (OutPoint, &'s Script)>,
        paid: impl Iterator<Item = &'s Script>,
    ) -> Result<(), IndexError> {
        debug_assert!(rows.is_true_on(self.tip(), &self.generations), "found on another tip");
        self.prefetch_position(rows, txid)?;
        for (outpoint, script) in spent {
            let script = self.prefetch_history(rows, script)?;
            // an output of the mempool has no rows yet
            let (Some(funding), Some(vout)) =
                (self.prefetch_position(rows, &outpoint.txid)?, Position::new(outpoint.vout))
            else {
                continue;
            };
            let (key, point) = (unspent::key(script, funding, vout), spends::tx_point(funding, vout));
            if self.unspent.get(&key)?.is_none()
                && self.overwritten.get(&point)?.is_none()
                && self.generations.is_unspent(UnspentKey { script, txnum: funding, vout: outpoint.vout })?
            {
                rows.frozen_outputs.insert(key);
            }
            // the row will be inserted before the next row by key
            self.spends.range::<&spends::TxPoint>(&point..)?.next().transpose()?;
        }
        for script in paid.filter(|script| !never_spendable(script)) {
            let script = self.prefetch_history(rows, script)?;
            let key = unspent::key(script, TxNum(u32::MAX), Position::ZERO);
            self.unspent.range::<&unspent::UnspentKeyBytes>(..&key)?.next_back().transpose()?;
        }
        Ok(())
    }

    /// Reads pages into the cache, about `bytes` or all there are, while `continues`, which is called periodically,
    /// returns true: half of them of the newest transactions, which are requested most, the other half in equal shares
    /// of the tables that blocks change. Returns the bytes of rows read.
    ///
    /// Errors: the index cannot be read.
    pub fn warm_up(&self, bytes: u64, mut continues: impl FnMut() -> bool) -> Result<u64, IndexError> {
        // the unused share of a small table is left to the tables after it; pages are at least two thirds full
        let rows = bytes / 3 * 2;
        let share = |left: u64, tables: u64| left.saturating_sub(rows / 2) / tables;
        let mut left = rows;
        left -= read_backwards(&self.txids, share(left, 4), &mut continues)?.min(left);
        left -= read_backwards(&self.spends, share(left, 3), &mut continues)?.min(left);
        left -= read_backwards(&self.unspent, share(left, 2), &mut continues)?.min(left);
        left -= read_backwards(&self.history, share(left, 1), &mut continues)?.min(left);
        left -= read_backwards(&self.transactions, left, &mut continues)?.min(left);
        Ok(rows - left)
    }

    fn prefetch_position(&self, rows: &mut PrefetchedRows, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        match rows.positions.entry(*txid) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(unknown) => Ok(*unknown.insert(self.positions(txid)?.pop())),
        }
    }

    fn prefetch_history(&self, rows: &mut PrefetchedRows, script: &Script) -> Result<ScriptKey, IndexError> {
        let script = self.script_key(script.as_bytes());
        if let Entry::Vacant(unknown) = rows.scripts.entry(script) {
            unknown.insert(LastTotals::read(&self.history, &self.generations, script)?);
        }
        Ok(script)
    }
}

/// Bytes of rows between two calls of `continues`.
const STEP: u64 = 256 << 10;

/// Reads rows from the last one backwards, about this many bytes. Returns the bytes read.
fn read_backwards<K: Key + 'static, V: Value + 'static>(
    table: &ReadOnlyTable<K, V>,
    bytes: u64,
    continues: &mut impl FnMut() -> bool,
) -> Result<u64, IndexError> {
    let (mut read, mut next_check) = (0_u64, 0);
    for row in table.iter()?.rev() {
        if read >= next_check {
            if !continues() {
                break;
            }
            next_check = read.saturating_add(STEP);
        }
        if read >= bytes {
            break;
        }
        let (key, value) = row?;
        let length = K::as_bytes(&key.value()).as_ref().len() + V::as_bytes(&value.value()).as_ref().len();
        read = read.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use bitcoin::block::Header;
    use bitcoin::consensus::serialize;
    use bitcoin::constants::genesis_block;
    use bitcoin::hashes::Hash;
    use bitcoin::{Amount, Block, Network, ScriptBuf, Transaction, TxIn, TxOut};
    use tempfile::TempDir;

    use super::super::super::keys::Salt;
    use super::super::super::open::{Index, IndexOptions};
    use super::super::observed_limits::ObservedLimits;
    use super::super::resolve::Known;
    use super::*;

    /// A block with a coinbase that pays 9 sat to a script, and with these transactions.
    fn block_that_pays(script_pubkey: ScriptBuf, previous: &Block, others: &[Transaction]) -> Block {
        let script_sig = ScriptBuf::from_bytes(previous.block_hash().to_byte_array().to_vec());
        let coinbase = Transaction {
            input: vec![TxIn { script_sig, ..TxIn::default() }],
            output: vec![TxOut { value: Amount::from_sat(9), script_pubkey }],
            ..previous.txdata[0].clone()
        };
        let header = Header { prev_blockhash: previous.block_hash(), ..previous.header };
        let mut block = Block { header, txdata: [&[coinbase], others].concat() };
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        block
    }

    /// An index of the first block, and that block.
    fn index_of_genesis() -> (TempDir, Index, Block) {
        let directory = tempfile::tempdir().unwrap();
        let options = IndexOptions {
            path: directory.path().join("index.redb"),
            network: Network::Regtest,
            salt: Some(Salt([7; 16])),
            cache_bytes: 8 << 20,
            freezes: false,
            stale_blocks_kept: 10,
            observed: ObservedLimits::default(),
        };
        let (mut index, genesis) = (Index::open(&options).unwrap(), genesis_block(Network::Regtest));
        connect(&mut index, &genesis, None).unwrap();
        (directory, index, genesis)
    }

    fn connect(index: &mut Index, block: &Block, prefetched: Option<&PrefetchedRows>) -> Result<Snapshot, IndexError> {
        let parsed = index.parser().parse(block.block_hash(), serialize(block)).unwrap();
        let mut update = index.update()?;
        update.connect_with(&[parsed], Known { outputs: &|_| Vec::new(), prefetched })?;
        update.commit()?;
        index.snapshot()
    }

    fn script_pubkey() -> ScriptBuf {
        ScriptBuf::from_bytes([vec![0, 20], vec![7; 20]].concat())
    }

    #[test]
    fn totals_that_were_found_on_the_tip_of_a_block_are_not_looked_up_again() {
        let (_directory, mut index, genesis) = index_of_genesis();
        let snapshot = index.snapshot().unwrap();
        let script = snapshot.script_key(script_pubkey().as_bytes());
        let mut rows = PrefetchedRows::on(&snapshot);
        // other than those in the table, which has none of the script
        let totals = HistoryRow { received: 100, transactions: 3, outputs_received: 3, ..HistoryRow::default() };
        rows.scripts.insert(script, LastTotals { before: None, totals });

        let mut received = |block: &Block| {
            let snapshot = connect(&mut index, block, Some(&rows)).unwrap();
            snapshot.totals(script, TxNum(u32::MAX)).unwrap().map(|(_, row)| row.received)
        };
        let first = block_that_pays(script_pubkey(), &genesis, &[]);
        assert_eq!(received(&first), Some(109));
        // on the next tip they count no longer
        assert_eq!(received(&block_that_pays(script_pubkey(), &first, &[])), Some(118));
    }

    #[test]
    fn positions_and_frozen_outputs_that_were_found_are_not_looked_up_again() {
        let (_directory, mut index, genesis) = index_of_genesis();
        let first = block_that_pays(script_pubkey(), &genesis, &[]);
        let snapshot = connect(&mut index, &first, None).unwrap();
        let (script, coinbase) = (snapshot.script_key(script_pubkey().as_bytes()), &first.txdata[0]);
        let previous_output = OutPoint { txid: coinbase.compute_txid(), vout: 0 };
        let spend = Transaction { input: vec![TxIn { previous_output, ..TxIn::default() }], ..coinbase.clone() };
        let second = block_that_pays(script_pubkey(), &first, &[spend]);

        let mut rows = PrefetchedRows::on(&snapshot);
        rows.positions.insert(previous_output.txid, None);
        let error = connect(&mut index, &second, Some(&rows)).err().unwrap();
        assert!(matches!(error, IndexError::Unresolved { .. }), "{error}");

        // its row is left in the live table, as if there were none
        let key = unspent::key(script, TxNum(1), Position::ZERO);
        let mut rows = PrefetchedRows::on(&snapshot);
        rows.frozen_outputs.insert(key);
        let snapshot = connect(&mut index, &second, Some(&rows)).unwrap();
        assert!(snapshot.unspent.get(&key).unwrap().is_some());
    }
}
