//! A transaction on its way in, and as the mempool keeps it.

use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{BlockHash, OutPoint, Script, Txid, Weight, Wtxid};

use super::FeeFraction;
use super::prevouts::{PrevoutRef, Prevouts};
use crate::chain::raw::{RawInput, RawOutput, RawTransaction};
use crate::chain::{Height, script, vsize};

/// Why a transaction is in the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It arrived.
    New,
    /// A reorganisation took it out of the chain.
    Returned {
        /// The block it was in.
        block: BlockHash,
    },
    /// It was there when the node was first asked, or was found when the two were compared. When it was first seen is
    /// then what the node or an earlier run says.
    Loaded,
}

/// Where an output that is spent was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrevoutSource {
    /// In a block of the active chain.
    Confirmed {
        /// The height of that block.
        height: Height,
        /// Whether the transaction is that block's coinbase.
        coinbase: bool,
    },
    /// By a transaction of the mempool.
    Unconfirmed,
}

/// An output that is spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prevout {
    /// Its amount in sat.
    pub value: u64,
    /// Its scriptPubKey.
    pub script_pubkey: Box<[u8]>,
    /// Where it was created.
    pub source: PrevoutSource,
}

/// A transaction that enters, with the outputs it spends.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its txid. Believed: `raw` is not hashed again.
    pub txid: Txid,
    /// Its wtxid, as little looked into.
    pub wtxid: Wtxid,
    /// Its serialisation, witness included.
    pub raw: Arc<[u8]>,
    /// What it spends, in the order of its inputs.
    pub prevouts: Vec<Prevout>,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// The height of the tip when it was added.
    pub height: Height,
    /// Why it comes.
    pub cause: Cause,
}

/// A transaction of the mempool.
///
/// What stands around it is asked of the [`MempoolSnapshot`](super::MempoolSnapshot).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its serialisation, witness included. It was parsed once.
    pub raw: Arc<[u8]>,
    /// The outputs that it spends, in the order of its inputs.
    pub prevouts: Prevouts,
    /// What it pays, in sat.
    pub fee: u64,
    /// Its weight in weight units.
    pub weight: u64,
    /// The amounts of its outputs together, in sat.
    pub output_value: u64,
    /// How many outputs it has.
    pub output_count: u32,
    /// The height of the tip when it was added.
    pub height: Height,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// The number of its arrival: that of the event that told of it. Later arrivals have higher ones.
    pub sequence: u64,
    /// The block that a reorganisation took it out of. In a box, since few come so.
    pub returned_from: Option<Box<BlockHash>>,
    /// Whether it was there before anybody could see it arrive, as [`Cause::Loaded`] says.
    pub loaded: bool,
}

impl Entry {
    /// Why it came.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match &self.returned_from {
            Some(block) => Cause::Returned { block: **block },
            None if self.loaded => Cause::Loaded,
            None => Cause::New,
        }
    }

    /// Its virtual size in vbytes: a quarter of the weight, rounded up. Signature operations are not looked at, so a
    /// node may count more for a transaction that has unusually many of them.
    #[must_use]
    pub fn vsize(&self) -> u64 {
        vsize(Weight::from_wu(self.weight))
    }

    /// Bytes of its serialisation, witness included.
    #[must_use]
    pub fn size(&self) -> u64 {
        wide(self.raw.len())
    }

    /// What it pays for its own weight.
    #[must_use]
    pub fn feerate(&self) -> FeeFraction {
        FeeFraction::new(self.fee, self.weight)
    }

    /// Its parts. Always there, since nothing enters that cannot be parsed.
    #[must_use]
    pub fn transaction(&self) -> Option<RawTransaction<'_>> {
        RawTransaction::parse_whole(&self.raw).ok()
    }

    /// Its inputs in order, each with what it spends.
    pub fn inputs(&self) -> impl Iterator<Item = (RawInput<'_>, PrevoutRef<'_>)> {
        self.transaction().into_iter().flat_map(|transaction| transaction.inputs()).zip(&self.prevouts)
    }

    /// Its outputs in order.
    pub fn outputs(&self) -> impl Iterator<Item = RawOutput<'_>> {
        self.transaction().into_iter().flat_map(|transaction| transaction.outputs())
    }

    /// The outpoints that it spends, in the order of its inputs.
    pub fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        self.inputs().map(|(input, _)| outpoint(&input))
    }

    /// Whether it spends an output of a transaction of the mempool.
    #[must_use]
    pub fn has_parents(&self) -> bool {
        self.prevouts.iter().any(|prevout| prevout.source == PrevoutSource::Unconfirmed)
    }
}

/// The outpoint that an input names.
pub(super) fn outpoint(input: &RawInput<'_>) -> OutPoint {
    OutPoint { txid: input.outpoint_txid(), vout: input.vout }
}

/// SHA-256 of a scriptPubKey, `None` if an output with it is no coin of anybody.
pub(super) fn script_hash(script_pubkey: &[u8]) -> Option<[u8; 32]> {
    let spendable = !script::never_spendable(Script::from_bytes(script_pubkey));
    spendable.then(|| sha256::Hash::hash(script_pubkey).to_byte_array())
}

/// A count of things in memory, which never exceeds 64 bits.
pub(super) fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
