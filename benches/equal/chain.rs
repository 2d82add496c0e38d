//! A long chain in which everything occurs that makes an index difficult.
//!
//! Most blocks are of the shape of mainnet's. Between them coinbases repeat, with all, some or none of the earlier copy spent,
//! and so do transactions that spent them; all script types are paid and spent; branches become stale. The last blocks spend
//! whatever they find.

use std::collections::HashMap;

use anyhow::{Context, Result};
use bitcoin::consensus::serialize;
use bitcoin::{Amount, BlockHash, OutPoint, Transaction};
use btcgraph::sim::{
    Hostile, LoadGenerator, LoadProfile, Owner, Payment, Reward, ScriptKind, SimChain, Spendable, Template,
};

/// Transactions of a block of the shape of mainnet's.
const BLOCK: u64 = 3_200;
/// One in so many of these blocks is followed by a coinbase that repeats later.
const BLOCKS_A_PLANT: u32 = 16;
/// So many blocks later it repeats: it is mature.
const BLOCKS_TO_REPEAT: u32 = 110;
/// One in so many blocks of the shape of mainnet's has a stale branch beside it, which leaves the chain so far below.
const BLOCKS_A_BRANCH: u32 = 25;
const BRANCH_DEPTH: u32 = 7;
/// Blocks at the end that spend any outputs.
const HOSTILE_BLOCKS: u32 = 40;
/// Numbers of owners from here on are of planted coinbases, and of what is paid out of them.
const PLANTED: u32 = 3_000_000_000;

/// A chain, and how an index comes to its tip.
pub(crate) struct HostileChain {
    pub(crate) chain: SimChain,
    /// The tips that an index follows one after the other, stale ones among them.
    pub(crate) tips: Vec<BlockHash>,
    /// Every block of every branch.
    pub(crate) bytes: HashMap<BlockHash, Vec<u8>>,
    pub(crate) repeated: usize,
    pub(crate) branches: usize,
}

/// A block whose coinbase repeats later, and the owners of its three outputs.
struct Planted {
    hash: BlockHash,
    height: u32,
    owners: [Owner; 3],
}

/// The chain while it is made.
struct Maker {
    chain: SimChain,
    hostile: Hostile,
    tips: Vec<BlockHash>,
    planted: Vec<Planted>,
    repeated: usize,
    branches: usize,
}

impl HostileChain {
    /// A chain with about so many transactions.
    pub(crate) fn make(transactions: u64) -> Result<Self> {
        let mut maker = Maker {
            chain: SimChain::new(1),
            hostile: Hostile::new(1),
            tips: Vec::new(),
            planted: Vec::new(),
            repeated: 0,
            branches: 0,
        };
        let blocks = 100 + u32::try_from(transactions.div_ceil(BLOCK))?;
        let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
        let mut made = 0_u32;
        while load.next_block(&mut maker.chain)?.is_some() {
            made += 1;
            if made.is_multiple_of(BLOCKS_A_PLANT) {
                maker.plant()?;
            }
            if made > 100 && made.is_multiple_of(BLOCKS_A_BRANCH) {
                maker.branch(BRANCH_DEPTH, 3)?;
            }
            let due = |planted: &Planted| planted.height + BLOCKS_TO_REPEAT <= maker.chain.height().to_u32();
            if maker.planted.first().is_some_and(due) {
                let planted = maker.planted.remove(0);
                maker.repeat(&planted)?;
            }
        }
        for block in 0..HOSTILE_BLOCKS {
            maker.hostile.mine(&mut maker.chain)?;
            if block % 10 == 9 {
                maker.branch(3, 5)?;
            }
        }
        let Maker { chain, mut tips, repeated, branches, .. } = maker;
        tips.push(chain.tip());
        let mut bytes = HashMap::new();
        for tip in &tips {
            let mut hash = *tip;
            while !bytes.contains_key(&hash) {
                let block = chain.block(&hash).context("the chain keeps all blocks")?;
                bytes.insert(hash, serialize(block.as_ref()));
                match chain.parent(&hash) {
                    Some(parent) => hash = parent,
                    None => break,
                }
            }
        }
        Ok(Self { chain, tips, bytes, repeated, branches })
    }
}

impl Maker {
    /// A branch beside the last blocks, which an index follows before it returns. It becomes the chain if it is longer.
    fn branch(&mut self, depth: u32, length: u32) -> Result<()> {
        let before = self.chain.tip();
        let branch = self.hostile.branch(&mut self.chain, depth, length)?;
        let stale = branch.last().context("a branch has blocks")?.block_hash();
        // in the order in which the index can meet them
        self.tips.extend([before, stale]);
        self.branches += 1;
        Ok(())
    }

    fn plant(&mut self) -> Result<()> {
        let number = PLANTED + u32::try_from(10 * (self.planted.len() + self.repeated))?;
        let owners = [ScriptKind::P2pkh, ScriptKind::P2pk, ScriptKind::BareTrue].map(|kind| Owner::new(kind, number));
        let outputs = owners.map(|owner| owner.output(Amount::from_sat(1_000_001)));
        let reward = Some(Reward::exactly(outputs.to_vec()));
        let block = self.chain.mine_template(Template { reward, ..Template::default() })?;
        self.planted.push(Planted { hash: block.block_hash(), height: self.chain.height().to_u32(), owners });
        Ok(())
    }

    /// Spends none to all of the outputs of a planted coinbase, in one block with what spends that again, and lets the coinbase
    /// repeat. If all were spent, what spent the first copy repeats as well, and the coinbase a second time.
    fn repeat(&mut self, planted: &Planted) -> Result<()> {
        let coinbase = self.chain.block(&planted.hash).context("the chain keeps all blocks")?.txdata[0].clone();
        let txid = coinbase.compute_txid();
        let coins = (0..).zip(planted.owners).zip(&coinbase.output).map(|((vout, owner), output)| Spendable {
            outpoint: OutPoint { txid, vout },
            output: output.clone(),
            owner,
        });
        let coins: Vec<_> = coins.take(self.repeated % 4).collect();
        let spending = if coins.is_empty() { Vec::new() } else { pay_every_type(coins, planted.owners[0].n)? };
        self.chain.mine(spending.clone())?;
        let first = self.chain.mine_duplicate_coinbase(&planted.hash, Vec::new())?;
        self.repeated += 1;
        if self.repeated.is_multiple_of(4) {
            // the copy has to mature before the same transactions spend it
            self.chain.mine_empty(99)?;
            self.chain.mine(spending)?;
            self.chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new())?;
        }
        Ok(())
    }
}

/// Pays all script types out of these coins, spends what can be spent of that, and leaves it to the miner.
fn pay_every_type(coins: Vec<Spendable>, number: u32) -> Result<Vec<Transaction>> {
    // a malformed script cannot be spent and counts as unspent, so that the payment could not repeat
    let kinds = ScriptKind::ALL.into_iter().filter(|kind| *kind != ScriptKind::Malformed);
    let owners: Vec<_> = kinds.map(|kind| Owner::new(kind, number)).collect();
    let payment = owners.iter().fold(Payment::of(coins), |payment, owner| payment.to(*owner, Amount::from_sat(1_000)));
    let payment = payment.sign()?;
    let paid = (0..).zip(owners).filter(|(_, owner)| owner.kind.is_spendable());
    let paid = paid.filter_map(|(vout, owner)| Spendable::of(&payment, vout, owner));
    // data, so that nothing of it is unspent when it repeats
    let burnt = Owner::new(ScriptKind::OpReturn, number).output(Amount::ZERO);
    let spending = Payment::of(paid).output(burnt).sign()?;
    Ok(vec![payment, spending])
}
