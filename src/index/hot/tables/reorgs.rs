//! `reorgs`: number (8) → a reorganisation that this server followed: at u64 ‖ fork height u32 ‖ fork hash 32 ‖
//! disconnected ‖ connected ‖ state of the outcome u8: 0 unknown, followed by first seen; 1 partial, 2 complete,
//! followed by returned ‖ died. The row is stored in the commit that disconnects the blocks, and again when the
//! outcome for their transactions is known. `reorg_blocks`: role (1) ‖ block hash (32) → number of the newest
//! reorganisation that disconnected this block (role 0), or after which it was the tip (role 1). Neither table is a
//! function of the chain.
//!
//! A list is its length u32 ‖ its items: hashes and txids of 32 bytes each; a transaction that died is txid 32 ‖ block
//! hash 32 ‖ its list of txids; a first-seen time is txid 32 ‖ seconds since 1970 u32.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::super::tip::Tip;
use super::join;
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 8], &[u8]> = TableDefinition::new("reorgs");
pub(in crate::index) const BLOCKS: TableDefinition<'static, &[u8; 33], &[u8; 8]> = TableDefinition::new("reorg_blocks");

pub(in crate::index) type BlockKey = [u8; 33];

/// The role of a block in a reorganisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum ReorgRole {
    Disconnected,
    NewTip,
}

pub(in crate::index) fn block_key(role: ReorgRole, hash: &BlockHash) -> BlockKey {
    let role = match role {
        ReorgRole::Disconnected => 0,
        ReorgRole::NewTip => 1,
    };
    join([role], hash.to_byte_array())
}

/// A change of the chain that disconnected blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorg {
    /// When this server followed it, in seconds since 1970.
    pub at: u64,
    /// The newest common block of both branches.
    pub fork: Tip,
    /// The disconnected blocks, the highest first. There is at least one.
    pub disconnected: Vec<BlockHash>,
    /// The blocks that replaced them, the lowest first, at least up to the height of the old tip; fewer while they are
    /// being connected, or if the process ended meanwhile; none if the chain only became shorter.
    pub connected: Vec<BlockHash>,
    /// The outcome for the transactions of the disconnected blocks; `None` until it is known.
    pub outcome: Option<ReorgOutcome>,
    /// First-seen times, in seconds since 1970, of the transactions of these blocks that the replacing blocks do not
    /// contain. They are stored here until the mempool, which has them as well, is persisted; empty once `outcome` is
    /// set.
    pub first_seen: Vec<(Txid, u64)>,
}

/// The outcome of a reorganisation for the transactions of the disconnected blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReorgOutcome {
    /// Transactions of these blocks that are unconfirmed again.
    pub returned: Vec<Txid>,
    /// Transactions of these blocks that are neither in the chain nor in the mempool now. Coinbases are not listed.
    pub died: Vec<DeadTransaction>,
    /// Whether the outcome is complete: all of these blocks were kept, and the node's mempool was known.
    pub is_whole: bool,
}

/// A confirmed transaction that a reorganisation made impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTransaction {
    /// Its txid.
    pub txid: Txid,
    /// The disconnected block that contained it.
    pub block: BlockHash,
    /// The transactions in the chain or the mempool that spend one of its inputs. Empty if the outputs it spent do not
    /// exist any more.
    pub conflicting: Vec<Txid>,
}

impl Reorg {
    /// The tip after it.
    #[must_use]
    pub fn new_tip(&self) -> BlockHash {
        self.connected.last().copied().unwrap_or(self.fork.hash)
    }

    /// The disconnected blocks with their heights, the highest first.
    pub fn left(&self) -> impl Iterator<Item = Tip> {
        let heights = (self.fork.height.next().to_u32()..).take(self.disconnected.len()).collect::<Vec<_>>();
        let heights = heights.into_iter().rev().map(Height::from);
        self.disconnected.iter().zip(heights).map(|(hash, height)| Tip { height, hash: *hash })
    }

    /// The keys of its rows in `reorg_blocks`.
    pub(in crate::index) fn block_keys(&self) -> impl Iterator<Item = BlockKey> {
        let left = self.disconnected.iter().map(|hash| block_key(ReorgRole::Disconnected, hash));
        left.chain([self.tip_key()])
    }

    pub(in crate::index) fn tip_key(&self) -> BlockKey {
        block_key(ReorgRole::NewTip, &self.new_tip())
    }

    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let mut row = Encoder::default();
        row.u64(self.at).u32(self.fork.height.to_u32()).bytes(self.fork.hash.as_byte_array());
        hashes(&mut row, &self.disconnected);
        hashes(&mut row, &self.connected);
        match &self.outcome {
            None => {
                row.bytes(&[UNKNOWN]);
                length(&mut row, self.first_seen.len());
                for (txid, seconds) in &self.first_seen {
                    row.bytes(txid.as_byte_array()).u32(u32::try_from(*seconds).unwrap_or(u32::MAX));
                }
            }
            Some(ReorgOutcome { returned, died, is_whole }) => {
                row.bytes(&[if *is_whole { COMPLETE } else { PARTIAL }]);
                hashes(&mut row, returned);
                length(&mut row, died.len());
                for DeadTransaction { txid, block, conflicting } in died {
                    row.bytes(txid.as_byte_array()).bytes(block.as_byte_array());
                    hashes(&mut row, conflicting);
                }
            }
        }
        row.finish()
    }

    pub(in crate::index) fn decode(row: &[u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("reorgs", row);
        let at = row.u64()?;
        let fork = Tip { height: row.u32()?.into(), hash: BlockHash::from_byte_array(row.array()?) };
        let (disconnected, connected) = (read(&mut row)?, read(&mut row)?);
        let (mut outcome, mut first_seen) = (None, Vec::new());
        match row.u8()? {
            UNKNOWN => {
                for _ in 0..row.u32()? {
                    first_seen.push((Txid::from_byte_array(row.array()?), row.u32()?.into()));
                }
            }
            known @ (PARTIAL | COMPLETE) => {
                let (returned, mut died) = (read(&mut row)?, Vec::new());
                for _ in 0..row.u32()? {
                    let (txid, block) = (Hash::from_byte_array(row.array()?), Hash::from_byte_array(row.array()?));
                    died.push(DeadTransaction { txid, block, conflicting: read(&mut row)? });
                }
                outcome = Some(ReorgOutcome { returned, died, is_whole: known == COMPLETE });
            }
            _ => return Err(row.corrupt("has an unknown state of the outcome")),
        }
        row.finish()?;
        Ok(Self { at, fork, disconnected, connected, outcome, first_seen })
    }
}

/// The state of the outcome in a row.
const UNKNOWN: u8 = 0;
const PARTIAL: u8 = 1;
const COMPLETE: u8 = 2;

/// Writes the length of a list. Lists are far below 32 bits: a block has at most 16,666 transactions.
fn length(row: &mut Encoder, items: usize) {
    row.u32(u32::try_from(items).unwrap_or(u32::MAX));
}

fn hashes<H: Hash<Bytes = [u8; 32]>>(row: &mut Encoder, items: &[H]) {
    length(row, items.len());
    for item in items {
        row.bytes(&item.to_byte_array());
    }
}

fn read<H: Hash<Bytes = [u8; 32]>>(row: &mut Decoder<'_>) -> Result<Vec<H>, IndexError> {
    // item by item, without reserving memory: a wrong length ends at the end of the row
    let count = row.u32()?;
    (0..count).map(|_| row.array().map(H::from_byte_array)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Reorg {
        let (block, txid) = (|byte| BlockHash::from_byte_array([byte; 32]), |byte| Txid::from_byte_array([byte; 32]));
        let died = vec![
            DeadTransaction { txid: txid(6), block: block(1), conflicting: vec![txid(7), txid(8)] },
            DeadTransaction { txid: txid(9), block: block(1), conflicting: Vec::new() },
        ];
        let (disconnected, connected) = (vec![block(2), block(1)], vec![block(3), block(4), block(5)]);
        let fork = Tip { height: 7.into(), hash: block(9) };
        let outcome = Some(ReorgOutcome { returned: vec![txid(5)], died, is_whole: true });
        Reorg { at: 1_700_000_000, fork, disconnected, connected, outcome, first_seen: Vec::new() }
    }

    #[test]
    fn a_row_survives_encoding_and_another_length_is_refused() {
        let whole = example();
        let in_part =
            Reorg { outcome: whole.outcome.clone().map(|it| ReorgOutcome { is_whole: false, ..it }), ..example() };
        let first_seen = vec![(Txid::from_byte_array([5; 32]), 1_600_000_000), (Txid::from_byte_array([6; 32]), 7)];
        let not_known = Reorg { outcome: None, first_seen, ..example() };
        for reorg in [whole, in_part, not_known] {
            let mut row = reorg.encode();
            assert_eq!(Reorg::decode(&row).unwrap(), reorg);
            for end in 0..row.len() {
                assert!(Reorg::decode(&row[..end]).is_err(), "cut to {end}");
            }
            row.push(0);
            assert!(Reorg::decode(&row).is_err());
        }
    }

    #[test]
    fn disconnected_blocks_have_the_heights_above_the_fork() {
        let heights: Vec<_> = example().left().map(|tip| (tip.height.to_u32(), tip.hash.to_byte_array()[0])).collect();
        assert_eq!(heights, [(9, 2), (8, 1)]);
    }

    #[test]
    fn the_new_tip_is_the_last_connected_block_or_the_fork() {
        let reorg = example();
        assert_eq!(reorg.new_tip(), BlockHash::from_byte_array([5; 32]));
        assert_eq!(Reorg { connected: Vec::new(), ..reorg }.new_tip(), BlockHash::from_byte_array([9; 32]));
    }
}
