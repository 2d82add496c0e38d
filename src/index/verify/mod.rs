//! Checks the whole index against itself.
//!
//! From the chain as it is stored (`blocks`, `block_starts`, `transactions`) and the links between transactions
//! (`spends`) every other row is computed again and compared with the stored row, in both directions: no row
//! may be missing, different or superfluous. Stored rows are those that count, live and packed, merged into one table
//! (`merged.rs`); the bytes of frozen blocks are read from where the index reads them (`RawBlocks`). Totals are recounted
//! from the first block on. The UTXO set is hashed as Bitcoin Core hashes it, so that one figure shows whether a node agrees.
//!
//! ```text
//!   pass 0   txids of generations, sorted ∥ `txid_prefixes` ──► transactions that repeat a txid
//!   pass 1   transactions ∥ spends, in order ──► expected rows, outputs to be spent ──► sorted on disk
//!   pass 2   transactions ∥ outputs they spend ──► fees, statistics, `blocks` rows, changes to scripts
//!   pass 3   expected rows ∥ tables, in order of their keys
//! ```
//!
//! No pass reads at random: each reads in order and sorts outside of memory where orders differ. Before them,
//! [`IndexFile`] checks the file itself: a damaged file can have a row that a scan finds and a lookup by key does not.

mod chain;
mod compare;
mod duplicates;
mod file;
mod filters;
mod frozen;
mod link;
mod merged;
mod miners;
mod optional;
mod recount;
mod report;
mod spent;
mod stale;
mod utxo;

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub use file::{IndexFile, WatchFile};
pub use report::{Report, TableReport, UtxoSet};

use super::damage::catch_damage;
use super::error::IndexError;
use super::hot::tables::blocks::ChainTotals;
use super::hot::tables::spends;
use super::keys::TxNum;
use super::optional::OptionalTable;
use super::snapshot::Snapshot;
use super::sorter::Sorter;
use chain::Digest;
use report::Differences;

/// The resources of the check.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Memory for sorting, in bytes.
    pub memory: usize,
    /// The directory of what does not fit into memory: for all of mainnet some 300 GB.
    pub directory: PathBuf,
}

/// The progress of the check.
#[derive(Clone, Copy, Debug)]
pub struct VerifyProgress {
    /// What is being done.
    pub phase: &'static str,
    /// How much of the phase is done: transactions or rows.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

/// Checks everything. `watch` receives the progress every few thousand rows, and may stop the check.
///
/// Errors: [`IndexError::NoRawBlocks`], `RawUnavailable` if the bytes of frozen blocks cannot be read; `Interrupted`,
/// `Damaged`, `Sorting`; storage errors. Readable rows with wrong
/// content are not an error, but listed in the report.
pub fn verify(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    watch: &mut dyn FnMut(VerifyProgress) -> ControlFlow<()>,
) -> Result<Report, IndexError> {
    catch_damage(|| report(snapshot, options, watch).map_err(IndexError::of_reading))
}

fn report(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    watch: &mut dyn FnMut(VerifyProgress) -> ControlFlow<()>,
) -> Result<Report, IndexError> {
    if let Some(last) = snapshot.generations.last().filter(|last| !snapshot.generations.raw().may_have(last.height)) {
        return Err(IndexError::NoRawBlocks { height: last.height });
    }
    let mut work = Work::new(snapshot, options, watch)?;
    let (is_readable, highest_frozen) = work.check_generations()?;
    work.check_raw_rows()?;
    if is_readable {
        work.find_duplicates()?;
        work.read_own_overwritten()?;
        work.read_chain(highest_frozen)?;
    }
    let utxo_set = work.hash_utxo_set()?;
    if is_readable {
        work.recount()?;
    }
    let tables = work.compare_tables()?;
    Ok(Report { tip: snapshot.tip(), utxo_set, tables, differences: work.differences.finish() })
}

/// Digests of tables whose rows are hashed as they are read.
#[derive(Default)]
struct Digests {
    /// Of frozen blocks.
    blocks: Digest,
    block_starts: Digest,
    /// Of frozen transactions.
    transactions: Digest,
    spends: Digest,
    txids: Digest,
}

/// What a pass leaves for the next one.
struct Work<'a> {
    snapshot: &'a Snapshot,
    watch: &'a mut dyn FnMut(VerifyProgress) -> ControlFlow<()>,
    differences: Differences,
    /// Totals of the chain as the tip's row has them, if it can be read.
    newest: Option<ChainTotals>,
    /// A copy that a later copy overwrote → that later copy (BIP30).
    overwritten_by: HashMap<TxNum, TxNum>,
    /// Outputs that copies overwrote, by the overwriting transaction.
    overwritten: HashMap<TxNum, Vec<super::block::BlockOutput>>,
    /// The same outputs as rows, in the order of their keys. BIP34 makes repetitions impossible, so there are few.
    overwritten_rows: Vec<(spends::TxPoint, TxNum)>,
    transactions: u64,
    /// Overwritten outputs whose own generation has the row of them.
    own_overwritten: HashSet<spends::TxPoint>,
    digests: Digests,
    links: Option<Sorter>,
    utxos: Option<Sorter>,
    history: Sorter,
    unspent: Sorter,
    txids: Sorter,
    /// The rows of the optional tables that are on, each by its place in [`OptionalTable::ALL`].
    optional: [Sorter; OptionalTable::ALL.len()],
    payouts: Sorter,
    p2pk: Sorter,
    block_hashes: Sorter,
    stale_transactions: Sorter,
}

impl<'a> Work<'a> {
    fn new(
        snapshot: &'a Snapshot,
        options: &VerifyOptions,
        watch: &'a mut dyn FnMut(VerifyProgress) -> ControlFlow<()>,
    ) -> Result<Self, IndexError> {
        let sorter = |share: usize| Sorter::new(&options.directory, options.memory / share);
        let mut differences = Differences::default();
        let newest = snapshot.tip().map(|tip| snapshot.block(tip.height)).transpose();
        // `read_chain` reports a row that is missing or damaged
        let newest = differences.record(newest)?.flatten().flatten();
        let transactions = newest.as_ref().map_or(0, |row| row.running.transactions);
        Ok(Self {
            snapshot,
            watch,
            differences,
            newest: newest.map(|row| row.running),
            overwritten_by: HashMap::new(),
            overwritten: HashMap::new(),
            overwritten_rows: Vec::new(),
            transactions,
            own_overwritten: HashSet::new(),
            digests: Digests::default(),
            links: Some(sorter(4)),
            utxos: Some(sorter(8)),
            history: sorter(4),
            unspent: sorter(8),
            txids: sorter(16),
            optional: OptionalTable::ALL.map(|_| sorter(16)),
            payouts: sorter(32),
            p2pk: sorter(32),
            block_hashes: sorter(32),
            stale_transactions: sorter(32),
        })
    }

    /// Hands out the expected rows of `txids`, and begins anew.
    fn take_txids(&mut self) -> Sorter {
        let empty = self.txids.like();
        std::mem::replace(&mut self.txids, empty)
    }

    fn progress(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), IndexError> {
        if !done.is_multiple_of(4096) && done != total {
            return Ok(());
        }
        match (self.watch)(VerifyProgress { phase, done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Interrupted),
        }
    }
}

/// An error of the temporary files, which may be on another disk than the index.
fn sorting(error: io::Error) -> IndexError {
    IndexError::Sorting(error)
}
