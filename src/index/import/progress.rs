//! The progress of an import, reported to its caller, who may stop it.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::error::IndexError;
use super::space::TemporarySpace;

/// The phases after all blocks are pushed, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportPhase {
    /// Finds the transaction that each input spends, by partitions of the hashes of txids.
    Joining,
    /// Joins each output with its spend, by ranges of transactions.
    Outputs,
    /// Builds the tables about scripts, by partitions of script keys.
    Scripts,
    /// Writes two small tables and flushes the file to the disk, in one unit that cannot be stopped.
    Flushing,
}

impl ImportPhase {
    /// A name for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Outputs => "outputs",
            Self::Scripts => "scripts",
            Self::Flushing => "flushing",
        }
    }
}

/// The progress of [`Import::finish`](super::Import::finish).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// What is being done.
    pub phase: ImportPhase,
    /// Partitions or ranges of the phase that are complete.
    pub done: u64,
    /// Partitions or ranges of the phase.
    pub total: u64,
    /// Bytes of temporary runs on the disk now. They shrink when all partitions of a file are consumed.
    pub temporary_bytes: u64,
}

/// Receives the progress on the thread that finishes the import. [`ControlFlow::Break`] stops the import.
pub(super) type ImportWatch<'a> = dyn FnMut(ImportProgress) -> ControlFlow<()> + 'a;

/// Counts the units of the phases, and reports each.
pub(super) struct ReportedProgress<'a> {
    watch: &'a mut ImportWatch<'a>,
    space: Arc<TemporarySpace>,
    phase: ImportPhase,
    done: usize,
    total: usize,
}

impl<'a> ReportedProgress<'a> {
    pub(super) fn new(watch: &'a mut ImportWatch<'a>, space: Arc<TemporarySpace>) -> Self {
        Self { watch, space, phase: ImportPhase::Joining, done: 0, total: 0 }
    }

    /// Reports that a phase of so many units begins, of which some are done if the import is resumed.
    ///
    /// Errors: [`IndexError::Interrupted`] if the watcher stops the import.
    pub(super) fn begin(&mut self, phase: ImportPhase, done: usize, total: usize) -> Result<(), IndexError> {
        (self.phase, self.done, self.total) = (phase, done, total);
        self.report()
    }

    /// Reports that one more unit of the phase is done.
    ///
    /// Errors: as [`ReportedProgress::begin`].
    pub(super) fn advance(&mut self) -> Result<(), IndexError> {
        self.done += 1;
        self.report()
    }

    fn report(&mut self) -> Result<(), IndexError> {
        let progress = ImportProgress {
            phase: self.phase,
            done: self.done as u64,
            total: self.total as u64,
            temporary_bytes: self.space.now(),
        };
        match (self.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Interrupted),
        }
    }
}
