//! The row encoding of transactions and departures that outlive the process, in Bitcoin's own serialisation.
//!
//! ```text
//!   transaction   raw ‖ prevouts ‖ where each was created ‖ first seen u64 ‖ height u32 ‖ arrival u64 ‖ cause u8 ‖ block 32
//!   departure     txid 32 ‖ wtxid 32 ‖ fee u64 ‖ weight u64 ‖ first seen u64 ‖ at u64 ‖ why ‖ along with 32 ‖ transaction
//! ```
//!
//! Lists and byte strings begin with their CompactSize. An absent value is all zeros, or the highest number.

use std::sync::Arc;

use bitcoin::consensus::encode::{Error, deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, TxOut, Txid, Wtxid};

use super::departed::Departed;
use super::entry::{Cause, Entry};
use super::events::Departure;
use super::prevouts::{PrevoutRef, number_of, source_of};
use crate::chain::raw::RawTransaction;
use crate::chain::{Height, policy_weight, wide};

/// The fields of a transaction, nested because one tuple cannot have so many.
type EncodedEntry = ((Vec<u8>, Vec<TxOut>, Vec<u64>), (u64, u32, u64), (u8, BlockHash));
/// The fields of a departure.
type EncodedDeparted = ((Txid, Wtxid, u64, u64), (u64, u64), (u8, Txid, BlockHash, u32), (Txid, Vec<u8>));

/// An unknown fee; no transaction pays so much.
const NO_FEE: u64 = u64::MAX;

impl Entry {
    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let prevouts: Vec<_> = self.prevouts.iter().map(PrevoutRef::to_output).collect();
        let sources: Vec<_> = self.prevouts.iter().map(|prevout| number_of(prevout.source)).collect();
        let (cause, block) = match self.cause() {
            Cause::New => (0, BlockHash::all_zeros()),
            Cause::Loaded => (1, BlockHash::all_zeros()),
            Cause::Returned { block } => (2, block),
        };
        let seen = (self.first_seen, self.height.to_u32(), self.sequence);
        let written: EncodedEntry = ((self.raw.to_vec(), prevouts, sources), seen, (cause, block));
        serialize(&written)
    }

    /// Decodes the result of [`encode`](Self::encode).
    ///
    /// Errors: the bytes are not a valid encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let ((raw, outputs, sources), (first_seen, height, sequence), (cause, block)): EncodedEntry =
            deserialize(bytes)?;
        let transaction = RawTransaction::parse_whole(&raw).map_err(|_| bad("its bytes are not a transaction"))?;
        if transaction.input_count() != outputs.len() || sources.len() != outputs.len() {
            return Err(bad("it has not one prevout for each input"));
        }
        let sum = |mut values: Box<dyn Iterator<Item = u64> + '_>| {
            values.try_fold(0_u64, u64::checked_add).ok_or_else(|| bad("its amounts are too large"))
        };
        let spent = sum(Box::new(outputs.iter().map(|output| output.value.to_sat())))?;
        let output_value = sum(Box::new(transaction.outputs().map(|output| output.value)))?;
        let fee = spent.checked_sub(output_value).ok_or_else(|| bad("it pays out more than it spends"))?;
        let (txid, wtxid, weight) = (transaction.txid(), transaction.wtxid(), wide(transaction.weight()));
        let policy_weight = policy_weight(&transaction, || Ok::<_, Error>(outputs.clone()))?;
        let output_count = u32::try_from(transaction.output_count()).map_err(|_| bad("it has too many outputs"))?;
        let prevouts = outputs.iter().zip(sources).map(|(output, source)| PrevoutRef {
            value: output.value.to_sat(),
            script_pubkey: output.script_pubkey.as_bytes(),
            source: source_of(source),
        });
        Ok(Self {
            txid,
            wtxid,
            prevouts: prevouts.collect(),
            raw: raw.into(),
            fee,
            weight,
            policy_weight,
            output_value,
            output_count,
            height: height.into(),
            first_seen,
            sequence,
            returned_from: (cause == 2).then(|| Box::new(block)),
            loaded: cause == 1,
        })
    }
}

impl Departed {
    /// The stored form, all but its number.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (no_txid, no_block) = (Txid::all_zeros(), BlockHash::all_zeros());
        let why = match self.departure {
            Departure::Mined { block, height } => (0, no_txid, block, height.to_u32()),
            Departure::Replaced { by } => (1, by, no_block, 0),
            Departure::Conflicted { by, block } => (2, by, block, 0),
            Departure::Expired => (3, no_txid, no_block, 0),
            Departure::Evicted => (4, no_txid, no_block, 0),
            Departure::ReorgedOut { block } => (5, no_txid, block, 0),
            Departure::Unknown => (6, no_txid, no_block, 0),
        };
        let entry = self.entry.as_ref().map(|entry| entry.encode()).unwrap_or_default();
        let what = (self.txid, self.wtxid, self.fee.unwrap_or(NO_FEE), self.weight);
        let along_with = self.along_with.unwrap_or(no_txid);
        let written: EncodedDeparted = (what, (self.first_seen, self.at), why, (along_with, entry));
        serialize(&written)
    }

    /// From what [`encode`](Self::encode) gave, under the number that it was stored with.
    ///
    /// Errors: the bytes are not a valid encoding.
    pub fn decode(sequence: u64, bytes: &[u8]) -> Result<Self, Error> {
        let ((txid, wtxid, fee, weight), (first_seen, at), why, (along_with, entry)): EncodedDeparted =
            deserialize(bytes)?;
        let departure = match why {
            (0, _, block, height) => Departure::Mined { block, height: Height::from(height) },
            (1, by, ..) => Departure::Replaced { by },
            (2, by, block, _) => Departure::Conflicted { by, block },
            (3, ..) => Departure::Expired,
            (4, ..) => Departure::Evicted,
            (5, _, block, _) => Departure::ReorgedOut { block },
            _ => Departure::Unknown,
        };
        let entry = if entry.is_empty() { None } else { Some(Arc::new(Entry::decode(&entry)?)) };
        Ok(Self {
            txid,
            wtxid,
            fee: (fee != NO_FEE).then_some(fee),
            weight,
            first_seen,
            departure,
            along_with: (along_with != Txid::all_zeros()).then_some(along_with),
            at,
            sequence,
            entry,
        })
    }
}

fn bad(what: &'static str) -> Error {
    Error::ParseFailed(what)
}
