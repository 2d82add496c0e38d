//! The index against the naive model: every row of every script, output and block of hostile chains, repeated coinbases
//! (BIP30) among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::absolute::LockTime;
use bitcoin::constants::genesis_block;
use bitcoin::transaction::Version;
use bitcoin::{Amount, Block, Network, OutPoint, ScriptBuf, Transaction, TxIn, TxOut, Txid};
use btcgraph::sim::{Hostile, Rng, SimChain};

use crate::support::agree::assert_agrees;
use crate::support::cut::{IndexForm, live_and_cut};
use crate::support::indexed::Indexed;
use crate::support::model::Model;

live_and_cut!(
    a_repeated_transaction_overwrites_its_earlier_copy,
    the_totals_of_a_hostile_chain_equal_those_of_the_model,
    a_repeated_coinbase_overwrites_the_unspent_earlier_copy,
    a_coinbase_repeated_twice_overwrites_the_copy_just_before_it,
);

/// Chains in which nearly everything repeats: three coinbases repeat, and each transaction depends only on the output
/// it spends, so that the descendants of a repeated coinbase repeat as well. No node accepts them, since coinbases are
/// spent before they mature.
struct Repeating {
    random: Rng,
    blocks: Vec<Arc<Block>>,
    unspent: BTreeMap<OutPoint, TxOut>,
    repeated: BTreeMap<Txid, u32>,
}

impl Repeating {
    fn new(seed: u64, blocks: u32) -> Self {
        let genesis = Arc::new(genesis_block(Network::Regtest));
        let mut chain =
            Self { random: Rng::new(seed), blocks: vec![genesis], unspent: BTreeMap::new(), repeated: BTreeMap::new() };
        for _ in 0..blocks {
            chain.grow();
        }
        chain
    }

    fn grow(&mut self) {
        let which = u8::try_from(self.random.below(3)).unwrap();
        let values = [1_000_000, 0, 7, 50_000, 2_000_000, 3_000_000];
        let mut transactions = vec![transaction(OutPoint::null(), which, &values)];
        self.add(&transactions[0].clone());
        for _ in 0..self.random.below(5) {
            // mostly spends the coinbase, so that transactions often repeat
            let coinbase = transactions[0].compute_txid();
            let near = self.random.chance(60);
            let spendable: Vec<_> = self.unspent.keys().copied().collect();
            let near: Vec<_> = spendable.iter().copied().filter(|spent| near && spent.txid == coinbase).collect();
            let spendable = if near.is_empty() { spendable } else { near };
            let spent = spendable[usize::try_from(self.random.below(spendable.len() as u64)).unwrap()];
            let value = self.unspent.remove(&spent).unwrap().value.to_sat();
            let spending = transaction(spent, 0, &[value / 2, value / 4, value / 8, 0, 0, 0]);
            self.add(&spending);
            transactions.push(spending);
        }
        let previous = self.blocks.last().unwrap().header;
        let mut block = Block { header: previous, txdata: transactions };
        block.header.prev_blockhash = previous.block_hash();
        block.header.time += 600;
        block.header.merkle_root = block.compute_merkle_root().unwrap();
        self.blocks.push(Arc::new(block));
    }

    fn add(&mut self, transaction: &Transaction) {
        let txid = transaction.compute_txid();
        *self.repeated.entry(txid).or_default() += 1;
        for (vout, output) in (0..).zip(&transaction.output) {
            if !output.script_pubkey.is_op_return() && output.script_pubkey.len() <= 10_000 {
                self.unspent.insert(OutPoint { txid, vout }, output.clone());
            }
        }
    }
}

/// Pays the values to a script that all transactions share, the empty script, OP_RETURN, a script of the longest
/// spendable length, one that is longer, and the shared script again.
fn transaction(spent: OutPoint, which: u8, values: &[u64; 6]) -> Transaction {
    let scripts = [vec![0x51], Vec::new(), vec![0x6a, 1], vec![0x51; 10_000], vec![0x51; 10_001], vec![0x51]]
        .map(ScriptBuf::from);
    let output = values.iter().zip(scripts);
    let output = output.map(|(value, script_pubkey)| TxOut { value: Amount::from_sat(*value), script_pubkey });
    let input = TxIn { previous_output: spent, script_sig: ScriptBuf::from(vec![1, which]), ..TxIn::default() };
    Transaction { version: Version::ONE, lock_time: LockTime::ZERO, input: vec![input], output: output.collect() }
}

fn a_repeated_transaction_overwrites_its_earlier_copy(form: IndexForm) {
    for seed in 40..44 {
        let mut chain = Repeating::new(seed, 60);
        let often = chain.repeated.iter().filter(|(_, times)| **times > 2).count();
        assert!(often > 6, "{often} transactions come three times");
        let refs = |from: usize| chain.blocks[from..].iter().map(Arc::as_ref);
        let one_by_one = Indexed::of(refs(0), 1);
        let mut model = model(&chain.blocks);
        assert_agrees(&one_by_one.index.snapshot().unwrap(), &model);
        for run in [3, 1_000] {
            let mut indexed = Indexed::of(refs(0), run);
            form.freeze_to(&mut indexed.index, 30);
            assert_eq!(indexed.rows(), one_by_one.rows());
            for _ in 0..4 {
                let left = usize::try_from(chain.random.between(1, 61)).unwrap();
                indexed.disconnect_to(u32::try_from(left).unwrap());
                indexed.verified();
                model.follow(chain.blocks[..left].iter().map(Arc::as_ref));
                assert_agrees(&indexed.index.snapshot().unwrap(), &model);
                indexed.connect(chain.blocks[left..].iter().map(Arc::as_ref), run);
                assert_eq!(indexed.rows(), one_by_one.rows());
                // again what left, and what is overwritten from further above
                form.freeze_to(&mut indexed.index, u32::try_from(left.min(50)).unwrap());
                assert_eq!(indexed.rows(), one_by_one.rows());
            }
        }
    }
}

fn blocks(chain: &SimChain) -> Vec<Arc<Block>> {
    chain.active_blocks().cloned().collect()
}

fn model(blocks: &[Arc<Block>]) -> Model {
    Model::of(blocks.iter().map(Arc::as_ref))
}

fn the_totals_of_a_hostile_chain_equal_those_of_the_model(form: IndexForm) {
    for seed in 20..24 {
        let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
        for _ in 0..180 {
            hostile.mine(&mut chain).unwrap();
        }
        let blocks = blocks(&chain);
        let mut indexed = Indexed::of(blocks.iter().map(Arc::as_ref), 25);
        form.freeze_to(&mut indexed.index, chain.height().to_u32() / 2);
        let model = model(&blocks);
        assert_agrees(&indexed.index.snapshot().unwrap(), &model);
        let sums = model.sums.last().unwrap();
        let counts = [sums.segwit.0, sums.taproot_outputs, sums.op_returns.0, sums.feerate_quantiles[0]];
        assert!(counts.iter().all(|count| *count > 0) && sums.coin_age > 0, "{sums:?}");
    }
}

fn a_repeated_coinbase_overwrites_the_unspent_earlier_copy(form: IndexForm) {
    for spent in 0..=3 {
        let (mut chain, mut hostile) = (SimChain::new(30), Hostile::new(30));
        let (earlier, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
        for _ in 0..30 {
            hostile.mine(&mut chain).unwrap();
        }
        let blocks = blocks(&chain);
        let mut model = Model::default();
        let mut agrees = |indexed: &Indexed, height: u32| {
            model.follow(blocks[..=usize::try_from(height).unwrap()].iter().map(Arc::as_ref));
            assert_agrees(&indexed.index.snapshot().unwrap(), &model);
        };
        let first = chain.height_of(&earlier).unwrap().to_u32();
        let second = chain.height_of(&later).unwrap().to_u32();
        for run in [1, 7, 1_000] {
            let mut indexed = Indexed::of(blocks.iter().map(Arc::as_ref), run);
            // between the copies
            form.freeze_to(&mut indexed.index, u32::midpoint(first, second));
            indexed.verified();
            agrees(&indexed, chain.height().to_u32());
            // with the later copy, without it, and without either
            for height in [second, second - 1, first, first - 1] {
                indexed.disconnect_to(height + 1);
                indexed.verified();
                agrees(&indexed, height);
            }
            indexed.connect(blocks[usize::try_from(first).unwrap()..].iter().map(Arc::as_ref), run);
            indexed.verified();
            agrees(&indexed, chain.height().to_u32());
        }
    }
}

fn a_coinbase_repeated_twice_overwrites_the_copy_just_before_it(form: IndexForm) {
    let (mut chain, mut hostile) = (SimChain::new(31), Hostile::new(31));
    let (earlier, _) = hostile.repeat_coinbase(&mut chain, 1).unwrap();
    chain.mine_duplicate_coinbase(&earlier, Vec::new()).unwrap();
    hostile.mine(&mut chain).unwrap();
    let blocks = blocks(&chain);
    for run in [1, 1_000] {
        let mut indexed = Indexed::of(blocks.iter().map(Arc::as_ref), run);
        // between the second copy and the third
        form.freeze_to(&mut indexed.index, chain.height().to_u32() - 2);
        indexed.verified();
        for left in (blocks.len() - 4..=blocks.len()).rev() {
            indexed.disconnect_to(u32::try_from(left).unwrap());
            indexed.verified();
            assert_agrees(&indexed.index.snapshot().unwrap(), &model(&blocks[..left]));
        }
    }
}
