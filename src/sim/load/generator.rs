//! Makes the blocks of a chain for loads.

use std::sync::Arc;

use bitcoin::Block;

use super::profile::LoadProfile;
use super::writer::{BodyWriter, LoadBody};
use crate::sim::{ChainError, SimChain, Template};

/// Makes the blocks of a [`LoadProfile`] on a chain of genesis alone, on which no other miner mines.
#[derive(Debug)]
pub struct LoadGenerator {
    profile: LoadProfile,
    made: u64,
    writer: Option<BodyWriter>,
}

impl LoadGenerator {
    /// A generator before its first block, the one on genesis.
    #[must_use]
    pub fn new(profile: LoadProfile) -> Self {
        LoadGenerator { profile, made: 0, writer: None }
    }

    /// Transactions made so far, coinbases not counted. After the last block it is below the profile's number if they
    /// do not fit into the blocks.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.made
    }

    /// Mines the next block on the chain's tip, `None` after the last. The chain need not keep bodies.
    pub fn next_block(&mut self, chain: &mut SimChain) -> Result<Option<Arc<Block>>, ChainError> {
        let writer = self.writer.get_or_insert_with(|| BodyWriter::start(self.profile));
        let Some(LoadBody { transactions, txids, reward }) = writer.next_body().transpose()? else { return Ok(None) };
        self.made += u64::try_from(transactions.len()).unwrap_or(u64::MAX);
        let template = Template { transactions, reward: Some(reward), ..Template::default() };
        let block = chain.mine_known(template, txids)?;
        writer.report_coinbase(&block);
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
        let mut load = LoadGenerator::new(profile);
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
        let (mut inputs, mut outputs, mut spends_in_block, mut bytes) = (0, 0, 0, 0);
        let mut paid: HashMap<&ScriptBuf, u32> = HashMap::new();
        for block in &blocks {
            let txids: HashSet<_> = block.txdata.iter().map(Transaction::compute_txid).collect();
            for tx in &block.txdata[1..] {
                inputs += tx.input.len();
                bytes += tx.total_size();
                outputs += tx.output.len();
                spends_in_block += tx.input.iter().filter(|input| txids.contains(&input.previous_output.txid)).count();
                tx.output.iter().for_each(|output| *paid.entry(&output.script_pubkey).or_default() += 1);
            }
        }
        // within a twentieth of 2.47 and 2.75 a transaction
        assert!((14_079..15_561).contains(&inputs), "{inputs}");
        assert!((15_675..17_325).contains(&outputs), "{outputs}");
        // within a quarter of 480 bytes a transaction: a short chain has few owners, so that chance weighs more
        assert!((2_160_000..3_600_000).contains(&bytes), "{bytes}");
        assert!((inputs / 10..inputs / 2).contains(&spends_in_block), "{spends_in_block}");
        let once = paid.values().filter(|times| **times == 1).count();
        assert!(once * 2 > paid.len(), "most scripts are paid once");
        assert!(paid.values().any(|times| *times > 200), "a few are paid all the time");
    }

    #[test]
    fn transactions_that_do_not_fit_are_left_out_and_not_counted() {
        let mut chain = SimChain::new(1).keeping(1);
        let mut load = LoadGenerator::new(LoadProfile { transactions: 100_000, blocks: 102, seed: 1 });
        while load.next_block(&mut chain).unwrap().is_some() {}
        assert!((2_000..20_000).contains(&load.transactions()), "{}", load.transactions());
    }
}
