//! The check as a whole: its passes, one after the other.

use std::ops::ControlFlow;

use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::snapshot::Snapshot;
use super::progress::VerifyProgress;
use super::report::Report;
use super::work::{VerifyOptions, Work};

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
