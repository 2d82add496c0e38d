//! A transaction that arrives, and its entry in the mempool.

use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{BlockHash, OutPoint, Script, Txid, Weight, Wtxid};

use super::FeeFraction;
use super::prevouts::{Prevout, PrevoutRef, PrevoutSource, Prevouts};
use crate::chain::raw::{RawInput, RawOutput, RawTransaction};
use crate::chain::{Height, script, vsize, wide};

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
    /// It was in the node's first list, or was found by a comparison with the node. The time of its first sight is then
    /// the node's or that of an earlier run.
    Loaded,
}

/// A transaction that arrives, with the outputs it spends.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its txid. Trusted: `raw` is not hashed again.
    pub txid: Txid,
    /// Its wtxid, trusted as well.
    pub wtxid: Wtxid,
    /// Its serialisation, witness included.
    pub raw: Arc<[u8]>,
    /// The outputs it spends, in the order of its inputs.
    pub prevouts: Vec<Prevout>,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// The height of the tip when it was added.
    pub height: Height,
    /// Why it arrives.
    pub cause: Cause,
}

/// A transaction of the mempool.
///
/// Its relatives are in the [`MempoolSnapshot`](super::MempoolSnapshot).
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
    /// Its fee in sat.
    pub fee: u64,
    /// Its weight in weight units.
    pub weight: u64,
    /// The weight by which nodes judge and order it: more than its own if its signature operations count for more
    /// ([`policy_weight`](crate::chain::policy_weight)).
    pub policy_weight: u64,
    /// The sum of its outputs in sat.
    pub output_value: u64,
    /// How many outputs it has.
    pub output_count: u32,
    /// The height of the tip when it was added.
    pub height: Height,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// The number of its arrival, which is that of its [`Added`](super::MempoolEventKind::Added) event. Later arrivals
    /// have higher ones.
    pub sequence: u64,
    /// The block that it was in before a reorganisation. Boxed, because it is rare.
    pub returned_from: Option<Box<BlockHash>>,
    /// Whether its cause is [`Cause::Loaded`].
    pub loaded: bool,
}

impl Entry {
    /// Why it arrived.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match &self.returned_from {
            Some(block) => Cause::Returned { block: **block },
            None if self.loaded => Cause::Loaded,
            None => Cause::New,
        }
    }

    /// Its virtual size in vbytes by which nodes judge it: a quarter of the policy weight, rounded up.
    #[must_use]
    pub fn policy_vsize(&self) -> u64 {
        vsize(Weight::from_wu(self.policy_weight))
    }

    /// Bytes of its serialisation, witness included.
    #[must_use]
    pub fn size(&self) -> u64 {
        wide(self.raw.len())
    }

    /// Its own fee per weight, without relatives.
    #[must_use]
    pub fn feerate(&self) -> FeeFraction {
        FeeFraction::new(self.fee, self.weight)
    }

    /// Its own fee per policy weight, by which miners order it if nothing else pays for it, and it for nothing else.
    #[must_use]
    pub fn policy_feerate(&self) -> FeeFraction {
        FeeFraction::new(self.fee, self.policy_weight)
    }

    /// The parsed transaction. Always there, since a transaction that cannot be parsed is refused.
    #[must_use]
    pub fn transaction(&self) -> Option<RawTransaction<'_>> {
        RawTransaction::parse_whole(&self.raw).ok()
    }

    /// Its inputs in order, each with the output it spends.
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

/// SHA-256 of a scriptPubKey, `None` if an output with it can never be spent.
pub(super) fn script_hash(script_pubkey: &[u8]) -> Option<[u8; 32]> {
    let spendable = !script::never_spendable(Script::from_bytes(script_pubkey));
    spendable.then(|| sha256::Hash::hash(script_pubkey).to_byte_array())
}
