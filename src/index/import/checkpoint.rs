//! The checkpoint of an import: a row of the file under construction that says how far its tables and runs are.

use bitcoin::Network;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::frozen::PackedFormat;
use super::super::frozen::tables::txids::TxidPacker;
use super::super::keys::{Salt, TxNum};
use super::super::statistics::TransactionFacts;
use super::fresh_start::FreshStart;
use super::join::JoinState;
use super::options::ImportOptions;
use super::outputs::OutputsState;
use super::run_kinds::RunKind;
use super::runs::{ImportId, RecordedRuns};
use super::scripts::ScriptsState;
use super::stages::{JOINING, OUTPUTS, READING, SCRIPTS};
use crate::chain::network;

/// The format of checkpoints and runs. Raised with every change of them; changes of tables are noticed by [`row_versions`].
const FORMAT: u32 = 5;

/// The versions of the rows of an import: of the packed tables, and of what it keeps of transactions.
fn row_versions() -> String {
    let tables = PackedFormat::newest().tables.into_iter().map(|(name, version)| format!("{name} {version}"));
    tables.chain([format!("facts {}", TransactionFacts::VERSION)]).collect::<Vec<_>>().join(", ")
}

/// What stays the same when an import is resumed, whatever the options say.
#[derive(Clone, Debug)]
pub(super) struct ImportPlan {
    pub(super) id: ImportId,
    pub(super) network: Network,
    pub(super) salt: Salt,
    pub(super) partition_bits: u32,
    /// Transactions of a range, or a few more, as it ends with a block.
    pub(super) range: u32,
}

/// What the phase in work has beside rows and runs. Its runs are flushed, and nothing is done ahead.
pub(super) enum ImportStage {
    Reading(TxidPacker),
    Joining(JoinState),
    Outputs(Box<OutputsState>),
    Scripts(Box<ScriptsState>),
}

impl ImportStage {
    fn decode(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(match row.u8()? {
            READING => Self::Reading(TxidPacker::decode_state(row)?),
            JOINING => Self::Joining(JoinState::decode(row)?),
            OUTPUTS => Self::Outputs(Box::new(OutputsState::decode(row)?)),
            SCRIPTS => Self::Scripts(Box::new(ScriptsState::decode(row)?)),
            _ => return Err(row.corrupt("has an unknown phase")),
        })
    }

    /// How many partitions or ranges of runs of this kind are consumed.
    pub(super) fn consumed(&self, kind: RunKind) -> usize {
        match (self, kind) {
            (Self::Joining(state), RunKind::Transactions | RunKind::Prevouts) => state.next,
            (Self::Outputs(state), RunKind::Stream | RunKind::Spends | RunKind::Inputs) => state.next,
            (Self::Scripts(state), RunKind::Scripts) => state.next,
            _ => 0,
        }
    }
}

/// What a checkpoint records beside the stage.
pub(super) struct Checkpoint {
    pub(super) plan: ImportPlan,
    /// The most bytes of runs at a time.
    pub(super) peak: u64,
    pub(super) runs: Vec<RecordedRuns>,
    /// An earlier copy and the next one with its txid.
    pub(super) overwritten: Vec<(TxNum, TxNum)>,
}

impl Checkpoint {
    /// Writes everything before the stage.
    pub(super) fn encode(&self) -> Encoder {
        let Self { plan, peak, runs, overwritten } = self;
        let mut row = Encoder::default();
        row.u32(FORMAT)
            .blob(row_versions().as_bytes())
            .blob(network::name(plan.network).as_bytes())
            .bytes(&plan.salt.0)
            .bytes(&plan.id);
        row.varint(plan.partition_bits).varint(plan.range).varint(*peak);
        row.varint(runs.len() as u64);
        for RecordedRuns { kind, bundle, chunks, checksum } in runs {
            row.blob(kind.name().as_bytes()).varint(*bundle).varint(*chunks).u32(*checksum);
        }
        row.varint(overwritten.len() as u64);
        for (earlier, later) in overwritten {
            row.u32(earlier.0).u32(later.0);
        }
        row
    }

    /// Reads a checkpoint, if it is of an import with these options.
    ///
    /// Errors: [`IndexError::Corrupt`].
    pub(super) fn decode(
        row: &[u8],
        options: &ImportOptions,
    ) -> Result<Result<(Self, ImportStage), FreshStart>, IndexError> {
        let mut row = Decoder::new("checkpoint", row);
        let found = row.u32()?;
        if found != FORMAT {
            return Ok(Err(FreshStart::OtherFormat { found, expected: FORMAT }));
        }
        if row.blob()? != row_versions().as_bytes() {
            return Ok(Err(FreshStart::OtherTables));
        }
        let (found, expected) = (row.blob()?, network::name(options.network));
        if found != expected.as_bytes() {
            let found = String::from_utf8_lossy(found).into_owned();
            return Ok(Err(FreshStart::OtherNetwork { found, expected: expected.to_owned() }));
        }
        if row.array()? != options.salt.0 {
            return Ok(Err(FreshStart::OtherSalt));
        }
        let plan = ImportPlan {
            network: options.network,
            salt: options.salt,
            id: row.array()?,
            partition_bits: row.varint()?,
            range: row.varint()?,
        };
        let (peak, mut runs, mut overwritten) = (row.varint()?, Vec::new(), Vec::new());
        for _ in 0..row.varint::<u64>()? {
            let name = row.blob()?;
            let kind = RunKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name);
            let kind = kind.ok_or_else(|| row.corrupt("names unknown runs"))?;
            runs.push(RecordedRuns { kind, bundle: row.varint()?, chunks: row.varint()?, checksum: row.u32()? });
        }
        for _ in 0..row.varint::<u64>()? {
            overwritten.push((TxNum(row.u32()?), TxNum(row.u32()?)));
        }
        let stage = ImportStage::decode(&mut row)?;
        row.finish()?;
        Ok(Ok((Self { plan, peak, runs, overwritten }, stage)))
    }
}
