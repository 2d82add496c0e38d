//! `reorgs`: number (8) → a reorganisation that this server followed: at u64 ‖ fork height u32 ‖ fork hash 32 ‖
//! disconnected ‖ connected ‖ what is known of the transactions u8: 0 nothing, and then ‖ first seen; 1 some of it, 2 all
//! of it, and then ‖ returned ‖ died. It is written with the blocks that left, and once more when it is known what became
//! of their transactions. `reorg_blocks`: role (1) ‖ block hash (32) → number of the newest
//! reorganisation that took this block out of the chain (role 0), or after which it was the newest (role 1). Neither is a
//! function of the chain.
//!
//! A list is its length u32 ‖ its items: hashes and txids of 32 bytes each; one that died is txid 32 ‖ block hash 32 ‖
//! its list of txids; a first sight is txid 32 ‖ seconds since 1970 u32.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use redb::TableDefinition;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::update::Tip;
use super::join;
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 8], &[u8]> = TableDefinition::new("reorgs");
pub(in crate::index) const BLOCKS: TableDefinition<'static, &[u8; 33], &[u8; 8]> = TableDefinition::new("reorg_blocks");

pub(in crate::index) type BlockKey = [u8; 33];

/// What a block was in a reorganisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum Role {
    Disconnected,
    NewTip,
}

pub(in crate::index) fn block_key(role: Role, hash: &BlockHash) -> BlockKey {
    let role = match role {
        Role::Disconnected => 0,
        Role::NewTip => 1,
    };
    join([role], hash.to_byte_array())
}

/// A change of the chain in which blocks left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorg {
    /// When it was followed, in seconds since 1970.
    pub at: u64,
    /// The newest block of both branches.
    pub fork: Tip,
    /// The blocks that left, the highest first. There is at least one.
    pub disconnected: Vec<BlockHash>,
    /// The blocks that took their place, the lowest first, at least up to the height of the block that was the newest;
    /// fewer while they are still coming, or if the process ended then; none if the chain only became shorter.
    pub connected: Vec<BlockHash>,
    /// What became of the transactions of the blocks that left; `None` until that is known.
    pub outcome: Option<Outcome>,
    /// When transactions of these blocks were first seen which the blocks that took their place did not hold, in seconds
    /// since 1970. It is here until the mempool, which knows it as well, is written down; empty once `outcome` is there.
    pub first_seen: Vec<(Txid, u64)>,
}

/// What became of the transactions of blocks that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What these blocks held and is unconfirmed again.
    pub returned: Vec<Txid>,
    /// What these blocks held and is nowhere now. Coinbases are not listed.
    pub died: Vec<DeadTransaction>,
    /// Whether this is of all of these blocks: they were kept, and the node told what is in its mempool.
    pub is_whole: bool,
}

/// A confirmed transaction that a reorganisation made impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadTransaction {
    /// Its txid.
    pub txid: Txid,
    /// The block that held it.
    pub block: BlockHash,
    /// The transactions that spend what it spent, in the chain or the mempool. Empty if what it spent is itself gone.
    pub conflicting: Vec<Txid>,
}

impl Reorg {
    /// The newest block after it.
    #[must_use]
    pub fn new_tip(&self) -> BlockHash {
        self.connected.last().copied().unwrap_or(self.fork.hash)
    }

    /// The blocks that left with their heights, the highest first.
    pub fn left(&self) -> impl Iterator<Item = Tip> {
        let heights = (self.fork.height.next().to_u32()..).take(self.disconnected.len()).collect::<Vec<_>>();
        let heights = heights.into_iter().rev().map(Height::from);
        self.disconnected.iter().zip(heights).map(|(hash, height)| Tip { height, hash: *hash })
    }

    /// Where `reorg_blocks` leads to it from.
    pub(in crate::index) fn block_keys(&self) -> impl Iterator<Item = BlockKey> {
        let left = self.disconnected.iter().map(|hash| block_key(Role::Disconnected, hash));
        left.chain([self.tip_key()])
    }

    pub(in crate::index) fn tip_key(&self) -> BlockKey {
        block_key(Role::NewTip, &self.new_tip())
    }

    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let mut row = Encoder::default();
        row.u64(self.at).u32(self.fork.height.to_u32()).bytes(self.fork.hash.as_byte_array());
        hashes(&mut row, &self.disconnected);
        hashes(&mut row, &self.connected);
        match &self.outcome {
            None => {
                row.bytes(&[NOT_KNOWN]);
                length(&mut row, self.first_seen.len());
                for (txid, seconds) in &self.first_seen {
                    row.bytes(txid.as_byte_array()).u32(u32::try_from(*seconds).unwrap_or(u32::MAX));
                }
            }
            Some(Outcome { returned, died, is_whole }) => {
                row.bytes(&[if *is_whole { WHOLE } else { IN_PART }]);
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
            NOT_KNOWN => {
                for _ in 0..row.u32()? {
                    first_seen.push((Txid::from_byte_array(row.array()?), row.u32()?.into()));
                }
            }
            known @ (IN_PART | WHOLE) => {
                let (returned, mut died) = (read(&mut row)?, Vec::new());
                for _ in 0..row.u32()? {
                    let (txid, block) = (Hash::from_byte_array(row.array()?), Hash::from_byte_array(row.array()?));
                    died.push(DeadTransaction { txid, block, conflicting: read(&mut row)? });
                }
                outcome = Some(Outcome { returned, died, is_whole: known == WHOLE });
            }
            _ => return Err(row.corrupt("does not say what is known of the transactions")),
        }
        row.finish()?;
        Ok(Self { at, fork, disconnected, connected, outcome, first_seen })
    }
}

/// What is known of the transactions: nothing, some of it, all of it.
const NOT_KNOWN: u8 = 0;
const IN_PART: u8 = 1;
const WHOLE: u8 = 2;

/// Lists never come near so many items: a block has at most 16,666 transactions.
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
    // one by one: a length that is not true ends with the row
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
        let outcome = Some(Outcome { returned: vec![txid(5)], died, is_whole: true });
        Reorg { at: 1_700_000_000, fork, disconnected, connected, outcome, first_seen: Vec::new() }
    }

    #[test]
    fn a_row_survives_its_encoding_and_no_other_length_does() {
        let whole = example();
        let in_part = Reorg { outcome: whole.outcome.clone().map(|it| Outcome { is_whole: false, ..it }), ..example() };
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
    fn blocks_that_left_have_the_heights_above_the_fork() {
        let heights: Vec<_> = example().left().map(|tip| (tip.height.to_u32(), tip.hash.to_byte_array()[0])).collect();
        assert_eq!(heights, [(9, 2), (8, 1)]);
    }

    #[test]
    fn the_new_tip_is_the_last_block_that_joined_or_else_the_fork() {
        let reorg = example();
        assert_eq!(reorg.new_tip(), BlockHash::from_byte_array([5; 32]));
        assert_eq!(Reorg { connected: Vec::new(), ..reorg }.new_tip(), BlockHash::from_byte_array([9; 32]));
    }
}
