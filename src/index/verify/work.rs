//! What the passes of the check share: their resources, and what a pass leaves for the next one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::super::block::BlockOutput;
use super::super::error::IndexError;
use super::super::hot::tables::blocks::ChainTotals;
use super::super::hot::tables::spends;
use super::super::keys::TxNum;
use super::super::optional::OptionalTable;
use super::super::snapshot::Snapshot;
use super::super::sorter::Sorter;
use super::digest::Digest;
use super::progress::VerifyProgress;
use super::report::Differences;

/// The resources of the check.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Memory for sorting, in bytes.
    pub memory: usize,
    /// The directory of what does not fit into memory: for all of mainnet some 300 GB.
    pub directory: PathBuf,
}

/// Digests of tables whose rows are hashed as they are read.
#[derive(Default)]
pub(super) struct Digests {
    /// Of frozen blocks.
    pub(super) blocks: Digest,
    pub(super) block_starts: Digest,
    /// Of frozen transactions.
    pub(super) transactions: Digest,
    pub(super) spends: Digest,
    pub(super) txids: Digest,
}

/// What a pass leaves for the next one.
pub(super) struct Work<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) watch: &'a mut dyn FnMut(VerifyProgress) -> ControlFlow<()>,
    pub(super) differences: Differences,
    /// Totals of the chain as the tip's row has them, if it can be read.
    pub(super) newest: Option<ChainTotals>,
    /// A copy that a later copy overwrote → that later copy (BIP30).
    pub(super) overwritten_by: HashMap<TxNum, TxNum>,
    /// Outputs that copies overwrote, by the overwriting transaction.
    pub(super) overwritten: HashMap<TxNum, Vec<BlockOutput>>,
    /// The same outputs as rows, in the order of their keys. BIP34 makes repetitions impossible, so there are few.
    pub(super) overwritten_rows: Vec<(spends::TxPoint, TxNum)>,
    pub(super) transactions: u64,
    /// Overwritten outputs whose own generation has the row of them.
    pub(super) own_overwritten: HashSet<spends::TxPoint>,
    pub(super) digests: Digests,
    pub(super) links: Option<Sorter>,
    pub(super) utxos: Option<Sorter>,
    pub(super) history: Sorter,
    pub(super) unspent: Sorter,
    pub(super) txids: Sorter,
    /// The rows of the optional tables that are on, each by its place in [`OptionalTable::ALL`].
    pub(super) optional: [Sorter; OptionalTable::ALL.len()],
    pub(super) payouts: Sorter,
    pub(super) p2pk: Sorter,
    pub(super) block_hashes: Sorter,
    pub(super) stale_transactions: Sorter,
}

impl<'a> Work<'a> {
    pub(super) fn new(
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
    pub(super) fn take_txids(&mut self) -> Sorter {
        let empty = self.txids.like();
        std::mem::replace(&mut self.txids, empty)
    }

    pub(super) fn progress(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), IndexError> {
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
pub(super) fn sorting(error: io::Error) -> IndexError {
    IndexError::Sorting(error)
}
