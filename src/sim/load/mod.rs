//! A long chain of the shape of mainnet, made fast: to measure an import with, not to find errors with.
//!
//! The first 100 blocks only pay coins to many owners. From then on blocks are filled evenly: inputs and outputs a
//! transaction, spends within the block, recent and old coins, and owners who are paid once or a hundred thousand
//! times are distributed about as on mainnet. Script types are mostly those that a node validates without a signature.
//!
//! ```text
//!   a thread of its own:  Traffic ──► writer ── bodies, a few ahead ──► Load ──► SimChain
//!                                       ▲                                           │
//!                                       └──── coinbases, once they are mature ──────┘
//! ```

mod traffic;
mod writer;

use std::sync::Arc;

use bitcoin::Block;

pub(crate) use self::traffic::Traffic;
use self::writer::{Body, Writer};
use super::{ChainError, SimChain, Template};

/// How much to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProfile {
    /// Transactions in all, coinbases not counted.
    pub transactions: u64,
    /// Blocks in all, genesis not counted. The first 100 hold no transactions; each of the others can hold about
    /// 4,500.
    pub blocks: u32,
    /// What all choices follow from.
    pub seed: u64,
}

/// Makes the blocks of a [`LoadProfile`] on a chain of genesis alone, on which nobody else mines.
#[derive(Debug)]
pub struct Load {
    profile: LoadProfile,
    made: u64,
    writer: Option<Writer>,
}

impl Load {
    /// A generator that is about to make the first block on genesis.
    #[must_use]
    pub fn new(profile: LoadProfile) -> Self {
        Load { profile, made: 0, writer: None }
    }

    /// Transactions made so far, coinbases not counted. Below the profile's number after the last block when its
    /// blocks cannot hold them.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.made
    }

    /// Mines the next block on the chain's tip, `None` when all are made. The chain may be told to keep no bodies.
    pub fn next_block(&mut self, chain: &mut SimChain) -> Result<Option<Arc<Block>>, ChainError> {
        let writer = self.writer.get_or_insert_with(|| Writer::start(self.profile));
        let Some(Body { transactions, txids, reward }) = writer.next_body().transpose()? else { return Ok(None) };
        self.made += u64::try_from(transactions.len()).unwrap_or(u64::MAX);
        let template = Template { transactions, reward: Some(reward), ..Template::default() };
        let block = chain.mine_known(template, txids)?;
        writer.tell_coinbase(&block);
        Ok(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use bitcoin::{ScriptBuf, Transaction};

    use super::*;

    const PROFILE: LoadProfile = LoadProfile { transactions: 6_000, blocks: 106, seed: 1 };

    fn blocks(profile: LoadProfile) -> Vec<Arc<Block>> {
        let mut chain = SimChain::new(profile.seed).keeping(1);
        let mut load = Load::new(profile);
        std::iter::from_fn(|| load.next_block(&mut chain).unwrap()).collect()
    }

    #[test]
    fn the_same_profile_makes_the_same_chain() {
        let tip = |seed| blocks(LoadProfile { seed, ..PROFILE }).last().unwrap().block_hash();
        assert_eq!(tip(1), tip(1));
        assert_ne!(tip(1), tip(2));
    }

    #[test]
    fn blocks_are_filled_evenly_after_the_coinbases_are_mature() {
        let counts: Vec<usize> = blocks(PROFILE).iter().map(|block| block.txdata.len() - 1).collect();
        assert_eq!(counts[..100], [0; 100]);
        assert_eq!(counts[100..], [1_000; 6]);
    }

    #[test]
    fn transactions_have_the_shape_of_mainnet() {
        let blocks = blocks(PROFILE);
        let (mut inputs, mut outputs, mut spends_in_block) = (0, 0, 0);
        let mut paid: HashMap<&ScriptBuf, u32> = HashMap::new();
        for block in &blocks {
            let txids: HashSet<_> = block.txdata.iter().map(Transaction::compute_txid).collect();
            for tx in &block.txdata[1..] {
                inputs += tx.input.len();
                outputs += tx.output.len();
                spends_in_block += tx.input.iter().filter(|input| txids.contains(&input.previous_output.txid)).count();
                tx.output.iter().for_each(|output| *paid.entry(&output.script_pubkey).or_default() += 1);
            }
        }
        // Within a twentieth of 2.25 and 2.53 a transaction.
        assert!((12_825..14_175).contains(&inputs), "{inputs}");
        assert!((14_421..15_939).contains(&outputs), "{outputs}");
        assert!((inputs / 10..inputs / 2).contains(&spends_in_block), "{spends_in_block}");
        let once = paid.values().filter(|times| **times == 1).count();
        assert!(once * 2 > paid.len(), "most scripts are paid once");
        assert!(paid.values().any(|times| *times > 200), "a few are paid all the time");
    }

    #[test]
    fn what_blocks_cannot_hold_is_left_out_and_told() {
        let mut chain = SimChain::new(1).keeping(1);
        let mut load = Load::new(LoadProfile { transactions: 100_000, blocks: 102, seed: 1 });
        while load.next_block(&mut chain).unwrap().is_some() {}
        assert!((2_000..20_000).contains(&load.transactions()), "{}", load.transactions());
    }
}
