//! Compares a block with the one that was projected of the mempool before it.

use std::collections::HashSet;

use bitcoin::Txid;
use bitcoin::consensus::encode::{Error, deserialize, deserialize_partial, serialize};
use bitcoin::hashes::Hash;

use super::projection::Remainder;
use super::snapshot::MempoolSnapshot;

/// How long a transaction takes to reach most miners, in seconds: one that was first seen later is [fresh](BlockAudit::fresh).
const PROPAGATION: u64 = 180;

/// A block against the projected block of the mempool right before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockAudit {
    /// How many transactions the projected block had.
    pub projected_count: u32,
    /// Their weight, in weight units.
    pub projected_weight: u64,
    /// Their fees, in sat.
    pub projected_fees: u64,
    /// The weight of those that are in the block.
    pub matched_weight: u64,
    /// The weight of the fresh ones.
    pub fresh_weight: u64,
    /// Projected transactions that are not in the block, in the order of the projection, but for the fresh ones.
    pub missing: Vec<Txid>,
    /// Those that are not in the block and were first seen so late that most miners may not have had them.
    pub fresh: Vec<Txid>,
    /// Transactions of the block, by their index in it, that were in the mempool and not in the projected block.
    pub unexpected: Vec<u32>,
    /// Transactions of the block, by their index in it, that were not in the mempool. The coinbase is not among them.
    pub unseen: Vec<u32>,
}

/// The fields of a [`BlockAudit`], nested because one tuple cannot have so many. Txids follow each other.
type EncodedAudit = (EncodedSums, (Vec<u8>, Vec<u8>), (Vec<u64>, Vec<u64>));
/// The fields of a [`BlockAudit`] in front of its lists.
type EncodedSums = (u32, u64, u64, u64, u64);

impl MempoolSnapshot {
    /// Compares a block, whose transactions have these ids, with the first projected block of this state. `at` is now, in
    /// seconds since 1970.
    #[must_use]
    pub fn audit(&self, txids: &[Txid], at: u64) -> BlockAudit {
        let mut audit = BlockAudit::default();
        let mined: HashSet<_> = txids.iter().collect();
        let mut projected = HashSet::new();
        if let Some(block) = self.projected_blocks(1, Remainder::Left).first() {
            (audit.projected_weight, audit.projected_fees) = (block.weight, block.fees);
            for entry in block.sequences.iter().filter_map(|sequence| self.by_sequence(*sequence)) {
                audit.projected_count += 1;
                projected.insert(entry.txid);
                if mined.contains(&entry.txid) {
                    audit.matched_weight += entry.weight;
                } else if at.saturating_sub(entry.first_seen) < PROPAGATION {
                    audit.fresh_weight += entry.weight;
                    audit.fresh.push(entry.txid);
                } else {
                    audit.missing.push(entry.txid);
                }
            }
        }
        for (index, txid) in (0..).zip(txids).skip(1) {
            if projected.contains(txid) {
                continue;
            }
            let list = if self.get(txid).is_some() { &mut audit.unexpected } else { &mut audit.unseen };
            list.push(index);
        }
        audit
    }
}

fn match_rate((projected, fresh): (u64, u64), matched: u64) -> f64 {
    let expected = projected.saturating_sub(fresh);
    #[allow(clippy::cast_precision_loss, reason = "weights of a block are far below 2^52")]
    let rate = matched as f64 / expected.max(1) as f64;
    if expected == 0 { 1.0 } else { rate }
}

impl BlockAudit {
    /// The share of the projected weight that is in the block, from 0 to 1, fresh transactions not counted; 1 if there is no
    /// other.
    #[must_use]
    pub fn match_rate(&self) -> f64 {
        match_rate((self.projected_weight, self.fresh_weight), self.matched_weight)
    }

    /// The bytes of an encoded comparison that [`decode_head`](Self::decode_head) needs: a number of 4 and four of 8.
    pub const HEAD_BYTES: usize = 36;

    /// The [`match_rate`](Self::match_rate) of an encoded comparison and the fees of the projected block in sat, from its first bytes.
    ///
    /// Errors: the bytes do not begin as a valid encoding.
    pub fn decode_head(bytes: &[u8]) -> Result<(f64, u64), Error> {
        let (head, _): (EncodedSums, usize) = deserialize_partial(bytes)?;
        let (_, projected_weight, projected_fees, matched_weight, fresh_weight) = head;
        Ok((match_rate((projected_weight, fresh_weight), matched_weight), projected_fees))
    }

    /// Encodes the row in the serialisation of the Bitcoin protocol, the fields in their order.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let txids = |txids: &[Txid]| txids.iter().flat_map(|txid| txid.to_byte_array()).collect::<Vec<u8>>();
        let indexes = |indexes: &[u32]| indexes.iter().map(|index| u64::from(*index)).collect::<Vec<_>>();
        let encoded: EncodedAudit = (
            (self.projected_count, self.projected_weight, self.projected_fees, self.matched_weight, self.fresh_weight),
            (txids(&self.missing), txids(&self.fresh)),
            (indexes(&self.unexpected), indexes(&self.unseen)),
        );
        serialize(&encoded)
    }

    /// Decodes the result of [`encode`](Self::encode).
    ///
    /// Errors: the bytes are not a valid encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (projected, (missing, fresh), (unexpected, unseen)): EncodedAudit = deserialize(bytes)?;
        let (projected_count, projected_weight, projected_fees, matched_weight, fresh_weight) = projected;
        let txids = |bytes: &[u8]| {
            let (txids, rest) = bytes.as_chunks();
            let txids = txids.iter().map(|txid| Txid::from_byte_array(*txid)).collect();
            if rest.is_empty() { Ok(txids) } else { Err(Error::ParseFailed("a list of txids ends within one")) }
        };
        let indexes = |indexes: Vec<u64>| indexes.into_iter().map(u32::try_from).collect::<Result<Vec<_>, _>>();
        let too_high = |_| Error::ParseFailed("the index of a transaction is too high");
        Ok(Self {
            projected_count,
            projected_weight,
            projected_fees,
            matched_weight,
            fresh_weight,
            missing: txids(&missing)?,
            fresh: txids(&fresh)?,
            unexpected: indexes(unexpected).map_err(too_high)?,
            unseen: indexes(unseen).map_err(too_high)?,
        })
    }
}
