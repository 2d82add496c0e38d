//! The tree of blocks, the active chain in it, and the making of blocks.
//!
//! Blocks are valid by every rule that does not look into scripts: proof of work, median time, BIP34 height, merkle
//! root, witness commitment, unspent and mature inputs, values, reward, weight and signature operations. Scripts,
//! lock times and relative locks are up to whoever makes the transactions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bitcoin::block::{Header, Version};
use bitcoin::hashes::Hash;
use bitcoin::{
    Block, BlockHash, CompactTarget, Network, OutPoint, Transaction, TxMerkleNode, Txid, Weight, merkle_tree,
};

use super::coinbase::{self, Reward, has_witness, regtest_subsidy};
use super::scripts::{Owner, ScriptKind};
use super::utxo::{Change, Coin, Coins, Duplicates, UtxoSet, total};
use super::{ChainError, Rng};
use crate::chain::Height;

/// The highest cost of signature operations in a block (`MAX_BLOCK_SIGOPS_COST` of Core's `consensus/consensus.h`).
const MAX_BLOCK_SIGOPS_COST: usize = 80_000;
/// The target of every regtest block, as `bits` (Core's `kernel/chainparams.cpp`).
const REGTEST_BITS: u32 = 0x207f_ffff;
/// How many blocks the median time past looks back (`nMedianTimeSpan` of Core's `chain.h`).
const MEDIAN_TIME_SPAN: usize = 11;
/// Seconds from a block to the next, unless told otherwise.
const SPACING: u32 = 600;

/// What a block is to be made of. `Template::default()` is an empty block on the tip that pays the chain's own miner.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// The block to build on, the tip of the active chain if none.
    pub parent: Option<BlockHash>,
    /// All transactions but the coinbase, in an order in which each spends only what exists before it.
    pub transactions: Vec<Transaction>,
    /// What the coinbase pays; all to [`SimChain::miner`] if none.
    pub reward: Option<Reward>,
    /// Seconds since 1970; the chain's clock if none.
    pub time: Option<u32>,
    /// Up to 80 bytes of text that the coinbase script carries.
    pub tag: Vec<u8>,
}

/// A block of the tree. Body and changes are dropped once it is deeper than the chain is told to keep.
#[derive(Clone, Debug)]
struct Record {
    parent: BlockHash,
    height: Height,
    time: u32,
    kept: Option<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    block: Arc<Block>,
    changes: Arc<[Change]>,
}

/// The active chain: the longest branch of a tree of regtest blocks, the first seen among equals (all regtest blocks
/// have the same work).
#[derive(Clone, Debug)]
pub struct SimChain {
    seed: u64,
    first_time: Option<u32>,
    spacing: u32,
    keep: Option<u32>,
    records: HashMap<BlockHash, Record>,
    active: BTreeMap<Height, BlockHash>,
    tip: BlockHash,
    /// The unspent outputs as seen from `view`, which is the tip between two calls.
    utxos: UtxoSet,
    view: BlockHash,
}

impl SimChain {
    /// A chain of the regtest genesis block alone. The seed goes into every coinbase, so that chains of different
    /// seeds share no other block.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let genesis = bitcoin::constants::genesis_block(Network::Regtest);
        let hash = genesis.block_hash();
        // The genesis coinbase is no unspent output: Core never adds it to its database.
        let record = Record {
            parent: genesis.header.prev_blockhash,
            height: Height::GENESIS,
            time: genesis.header.time,
            kept: Some(Kept { block: Arc::new(genesis), changes: Arc::from([]) }),
        };
        SimChain {
            seed,
            first_time: None,
            spacing: SPACING,
            keep: None,
            records: HashMap::from([(hash, record)]),
            active: BTreeMap::from([(Height::GENESIS, hash)]),
            tip: hash,
            utxos: UtxoSet::default(),
            view: hash,
        }
    }

    /// Sets the clock: block 1 at `first`, in seconds since 1970, and `spacing` seconds from each block to the next.
    #[must_use]
    pub fn with_clock(mut self, first: u32, spacing: u32) -> Self {
        (self.first_time, self.spacing) = (Some(first), spacing);
        self
    }

    /// Keeps bodies and changes of the last `blocks` blocks of the active chain only, for chains that would not fit
    /// into memory. Nothing can be built on a block below them.
    #[must_use]
    pub fn keeping(mut self, blocks: u32) -> Self {
        self.keep = Some(blocks);
        self
    }

    /// Who gets the reward of a block whose template does not say.
    #[must_use]
    pub fn miner() -> Owner {
        Owner::new(ScriptKind::P2wsh, 0)
    }

    /// The hash of the last block of the active chain.
    #[must_use]
    pub fn tip(&self) -> BlockHash {
        self.tip
    }

    /// The height of the last block of the active chain.
    #[must_use]
    pub fn height(&self) -> Height {
        self.active.last_key_value().map_or(Height::GENESIS, |(height, _)| *height)
    }

    /// A block of the tree, on the active chain or not. `None` when it is unknown or its body was dropped.
    #[must_use]
    pub fn block(&self, hash: &BlockHash) -> Option<&Arc<Block>> {
        Some(&self.records.get(hash)?.kept.as_ref()?.block)
    }

    /// The height of a block of the tree.
    #[must_use]
    pub fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        self.records.get(hash).map(|record| record.height)
    }

    /// The hash of the active chain's block at this height.
    #[must_use]
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.active.get(&height).copied()
    }

    /// The block `depth` blocks before `hash`, or genesis if the chain is shorter.
    #[must_use]
    pub fn ancestor(&self, hash: &BlockHash, depth: u32) -> Option<BlockHash> {
        let mut found = *hash;
        for _ in 0..depth {
            let record = self.records.get(&found)?;
            if record.height > Height::GENESIS {
                found = record.parent;
            }
        }
        self.records.contains_key(&found).then_some(found)
    }

    /// The blocks of the active chain, genesis first, as far as their bodies are kept.
    pub fn active_blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.active.values().filter_map(|hash| self.block(hash))
    }

    /// The median time past of a block, its own time included: what its child's time must be above.
    #[must_use]
    pub fn median_time_past(&self, hash: &BlockHash) -> Option<u32> {
        let mut times = Vec::with_capacity(MEDIAN_TIME_SPAN);
        let mut next = self.records.get(hash);
        while let Some(record) = next
            && times.len() < MEDIAN_TIME_SPAN
        {
            times.push(record.time);
            next = self.records.get(&record.parent);
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// The unspent outputs at the tip, in no order to rely on.
    #[must_use]
    pub fn unspent(&self) -> &Coins {
        self.utxos.coins()
    }

    /// An output that is unspent at the tip.
    #[must_use]
    pub fn coin(&self, outpoint: &OutPoint) -> Option<&Coin> {
        self.utxos.coins().get(outpoint)
    }

    /// The unspent outputs as seen from any block of the tree, in order.
    pub fn unspent_at(&mut self, hash: &BlockHash) -> Result<BTreeMap<OutPoint, Coin>, ChainError> {
        self.move_view(*hash)?;
        let coins = self.utxos.sorted();
        self.move_view(self.tip)?;
        Ok(coins)
    }

    /// Mines these transactions on the tip.
    pub fn mine(&mut self, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { transactions, ..Template::default() })
    }

    /// Mines `count` blocks without transactions on the tip.
    pub fn mine_empty(&mut self, count: u32) -> Result<Vec<Arc<Block>>, ChainError> {
        (0..count).map(|_| self.mine(Vec::new())).collect()
    }

    /// Mines these transactions on any block of the tree. The new block becomes the tip when its branch is now the
    /// longest.
    pub fn mine_on(&mut self, parent: BlockHash, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { parent: Some(parent), transactions, ..Template::default() })
    }

    /// Mines a block as the template says.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.mine_with(template, None)
    }

    /// Mines a block on the tip whose coinbase is the very coinbase of an earlier block of the active chain, as
    /// happened on mainnet before BIP30. **A node refuses such a block**: it is for feeding an index directly. What is
    /// unspent of the earlier copy is overwritten.
    ///
    /// The transactions must have no witnesses, and so must those of the earlier block, because a coinbase that
    /// commits to witnesses commits to one block only.
    pub fn mine_duplicate_coinbase(
        &mut self,
        earlier: &BlockHash,
        transactions: Vec<Transaction>,
    ) -> Result<Arc<Block>, ChainError> {
        let body = self.body(earlier)?;
        let coinbase = body.coinbase().cloned().ok_or(ChainError::UnknownBlock(*earlier))?;
        if has_witness(&coinbase) || transactions.iter().any(has_witness) {
            return Err(ChainError::CommittedCoinbase(*earlier));
        }
        self.mine_with(Template { transactions, ..Template::default() }, Some(coinbase))
    }

    fn mine_with(&mut self, template: Template, coinbase: Option<Transaction>) -> Result<Arc<Block>, ChainError> {
        let parent = template.parent.unwrap_or(self.tip);
        let height = self.height_of(&parent).ok_or(ChainError::UnknownBlock(parent))?.next();
        self.move_view(parent)?;
        let mut changes = Vec::new();
        let assembled = self.assemble(parent, height, template, coinbase, &mut changes);
        let block = match assembled {
            Ok(block) => Arc::new(block),
            Err(error) => {
                self.utxos.undo(&changes);
                self.move_view(self.tip)?;
                return Err(error);
            }
        };
        let hash = block.block_hash();
        self.view = hash;
        let kept = Some(Kept { block: Arc::clone(&block), changes: Arc::from(changes) });
        self.records.insert(hash, Record { parent, height, time: block.header.time, kept });
        if height > self.height() {
            self.activate(hash);
        }
        self.move_view(self.tip)?;
        Ok(block)
    }

    /// Makes a block on `parent`, from whose view the unspent outputs must be seen, and changes them to its own.
    fn assemble(
        &mut self,
        parent: BlockHash,
        height: Height,
        template: Template,
        coinbase: Option<Transaction>,
        changes: &mut Vec<Change>,
    ) -> Result<Block, ChainError> {
        let time = self.time_after(&parent, template.time)?;
        let mut earned = regtest_subsidy(height);
        let mut sigops = 0usize;
        let mut txids = vec![Txid::all_zeros()];
        for tx in &template.transactions {
            let txid = tx.compute_txid();
            let coins = self.utxos.coins();
            sigops += tx.total_sigop_cost(|outpoint| coins.get(outpoint).map(|coin| coin.output.clone()));
            // Fees are at most the value of all unspent outputs, far below what overflows.
            earned += self.utxos.apply(tx, txid, height, changes)?;
            txids.push(txid);
        }
        let duplicates = if coinbase.is_some() { Duplicates::Overwrite } else { Duplicates::Refuse };
        let coinbase = if let Some(coinbase) = coinbase {
            coinbase
        } else {
            let made = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
            let extra_nonce = Rng::new(self.seed ^ made.rotate_left(32)).next_u64();
            let reward = template.reward.unwrap_or_else(|| Reward::to(SimChain::miner().script_pubkey()));
            let outputs = reward.into_outputs(earned)?;
            coinbase::build(height, extra_nonce, &template.tag, outputs, &template.transactions)?
        };
        let claimed = total(&coinbase.output);
        if claimed > earned {
            return Err(ChainError::RewardTooHigh { claimed, earned });
        }
        sigops += coinbase.total_sigop_cost(|_| None);
        if sigops > MAX_BLOCK_SIGOPS_COST {
            return Err(ChainError::TooManySigops(sigops));
        }
        txids[0] = coinbase.compute_txid();
        self.utxos.add_outputs(&coinbase, txids[0], height, duplicates, changes)?;

        let mut txdata = template.transactions;
        txdata.insert(0, coinbase);
        let merkle_root = merkle_tree::calculate_root(txids.iter().map(|txid| txid.to_raw_hash()))
            .map_or_else(TxMerkleNode::all_zeros, TxMerkleNode::from_raw_hash);
        let header = Header {
            version: Version::from_consensus(0x2000_0000),
            prev_blockhash: parent,
            merkle_root,
            time,
            bits: CompactTarget::from_consensus(REGTEST_BITS),
            nonce: 0,
        };
        let block = Block { header: with_proof_of_work(header)?, txdata };
        if block.weight() > Weight::MAX_BLOCK {
            return Err(ChainError::TooHeavy(block.weight().to_wu()));
        }
        Ok(block)
    }

    fn time_after(&self, parent: &BlockHash, asked: Option<u32>) -> Result<u32, ChainError> {
        let record = self.records.get(parent).ok_or(ChainError::UnknownBlock(*parent))?;
        let median_time_past = self.median_time_past(parent).unwrap_or(record.time);
        let on_schedule = match self.first_time {
            Some(first) if record.height == Height::GENESIS => first,
            _ => record.time.saturating_add(self.spacing),
        };
        let time = asked.unwrap_or_else(|| on_schedule.max(median_time_past.saturating_add(1)));
        if time > median_time_past { Ok(time) } else { Err(ChainError::TimeTooOld { time, median_time_past }) }
    }

    /// Makes `hash` the tip and drops what is now too deep.
    fn activate(&mut self, hash: BlockHash) {
        self.tip = hash;
        let mut next = hash;
        while let Some(record) = self.records.get(&next) {
            if self.active.insert(record.height, next) == Some(next) {
                break;
            }
            next = record.parent;
        }
        let deep = self.keep.and_then(|keep| self.height().to_u32().checked_sub(keep));
        let deep = deep.and_then(|height| self.active.get(&Height::from(height)));
        if let Some(record) = deep.and_then(|hash| self.records.get_mut(hash)) {
            record.kept = None;
        }
    }

    /// Shows the unspent outputs as seen from another block, through the last common block of both.
    fn move_view(&mut self, to: BlockHash) -> Result<(), ChainError> {
        let (mut left, mut right) = (self.view, to);
        let (mut back, mut forward) = (Vec::new(), Vec::new());
        while left != right {
            let height = |hash| self.height_of(&hash).ok_or(ChainError::UnknownBlock(hash));
            let (left_height, right_height) = (height(left)?, height(right)?);
            if left_height >= right_height {
                back.push(self.changes(&left)?);
                left = self.records[&left].parent;
            }
            if right_height >= left_height {
                forward.push(self.changes(&right)?);
                right = self.records[&right].parent;
            }
        }
        for changes in back {
            self.utxos.undo(&changes);
        }
        for changes in forward.iter().rev() {
            self.utxos.redo(changes);
        }
        self.view = to;
        Ok(())
    }

    fn changes(&self, hash: &BlockHash) -> Result<Arc<[Change]>, ChainError> {
        self.kept(hash).map(|kept| Arc::clone(&kept.changes))
    }

    fn body(&self, hash: &BlockHash) -> Result<&Arc<Block>, ChainError> {
        self.kept(hash).map(|kept| &kept.block)
    }

    fn kept(&self, hash: &BlockHash) -> Result<&Kept, ChainError> {
        let record = self.records.get(hash).ok_or(ChainError::UnknownBlock(*hash))?;
        record.kept.as_ref().ok_or(ChainError::Forgotten(*hash))
    }
}

/// Finds the nonce; every second one does, the regtest target being half of all hashes.
fn with_proof_of_work(mut header: Header) -> Result<Header, ChainError> {
    let target = header.target();
    (0..=u32::MAX)
        .find(|nonce| {
            header.nonce = *nonce;
            target.is_met_by(header.block_hash())
        })
        .ok_or(ChainError::NoNonce)?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use bitcoin::{Amount, ScriptBuf, Sequence, TxIn, TxOut, Witness, absolute, transaction};

    use super::*;

    /// Spends one output of the chain's miner, with this fee, into `count` outputs of `owner`.
    fn pay(spent: OutPoint, value: Amount, fee: Amount, owner: Owner, count: u64) -> Transaction {
        let each = (value - fee) / count;
        let mut tx = Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn {
                previous_output: spent,
                script_sig: ScriptBuf::new(),
                sequence: Sequence::MAX,
                witness: Witness::new(),
            }],
            output: (0..count).map(|_| owner.output(each)).collect(),
        };
        SimChain::miner().unlock(&mut tx, 0, &[]).unwrap();
        tx
    }

    fn coinbase_of(block: &Block) -> (OutPoint, Amount) {
        let coinbase = &block.txdata[0];
        (OutPoint { txid: coinbase.compute_txid(), vout: 0 }, coinbase.output[0].value)
    }

    fn owner(n: u32) -> Owner {
        Owner::new(ScriptKind::P2sh, n)
    }

    #[test]
    fn a_block_keeps_the_rules_of_header_coinbase_and_commitment() {
        let mut chain = SimChain::new(1);
        let first = chain.mine_empty(100).unwrap()[0].clone();
        let (outpoint, value) = coinbase_of(&first);
        let fee = Amount::from_sat(1_000);
        let block = chain.mine(vec![pay(outpoint, value, fee, owner(1), 2)]).unwrap();

        assert!(block.header.validate_pow(block.header.target()).is_ok());
        assert_eq!(block.header.prev_blockhash, chain.hash_at(Height::from(100)).unwrap());
        assert!(block.check_merkle_root());
        assert!(block.check_witness_commitment());
        assert_eq!(block.bip34_block_height().unwrap(), 101);
        assert_eq!(block.txdata[0].output[0].value, Amount::from_int_btc(50) + fee);
        assert_eq!(chain.tip(), block.block_hash());
        assert_eq!(chain.coin(&outpoint), None);
    }

    #[test]
    fn the_subsidy_halves_every_150_blocks_down_to_nothing() {
        let subsidy = |height: u32| regtest_subsidy(Height::from(height)).to_sat();
        assert_eq!(subsidy(149), 5_000_000_000);
        assert_eq!(subsidy(150), 2_500_000_000);
        assert_eq!(subsidy(299), 2_500_000_000);
        assert_eq!(subsidy(150 * 33), 0);
        assert_eq!(subsidy(u32::MAX), 0);
    }

    #[test]
    fn the_same_seed_makes_the_same_blocks_and_another_seed_makes_others() {
        let tip = |seed| {
            let mut chain = SimChain::new(seed);
            chain.mine_empty(20).unwrap();
            chain.tip()
        };
        assert_eq!(tip(1), tip(1));
        assert_ne!(tip(1), tip(2));
    }

    #[test]
    fn siblings_of_the_same_content_differ() {
        let mut chain = SimChain::new(1);
        let genesis = chain.tip();
        let one = chain.mine(vec![]).unwrap();
        let other = chain.mine_on(genesis, vec![]).unwrap();
        assert_ne!(one.block_hash(), other.block_hash());
        assert_eq!(chain.tip(), one.block_hash(), "the first seen of two equally long branches stays");
    }

    #[test]
    fn a_longer_branch_overtakes_and_its_unspent_outputs_equal_a_fresh_replay() {
        let mut chain = SimChain::new(1);
        let blocks = chain.mine_empty(110).unwrap();
        let fork = chain.tip();
        let (a, b) = (coinbase_of(&blocks[0]), coinbase_of(&blocks[1]));
        // The branch that loses spends a, the branch that wins spends b, and the latter's outputs within a block.
        chain.mine(vec![pay(a.0, a.1, Amount::ZERO, owner(1), 3)]).unwrap();
        let lost_tip = chain.mine(vec![]).unwrap().block_hash();
        let before = chain.unspent().clone();

        let first = pay(b.0, b.1, Amount::ZERO, SimChain::miner(), 2);
        let second = pay(OutPoint { txid: first.compute_txid(), vout: 1 }, b.1 / 2, Amount::ZERO, owner(2), 5);
        let one = chain.mine_on(fork, vec![first, second]).unwrap();
        let two = chain.mine_on(one.block_hash(), vec![]).unwrap();
        assert_eq!(chain.unspent(), &before, "a branch that is not longer changes nothing");
        let three = chain.mine_on(two.block_hash(), vec![]).unwrap();

        assert_eq!(chain.tip(), three.block_hash());
        assert!(chain.coin(&a.0).is_some());
        let mut replayed = UtxoSet::default();
        for (height, block) in (0u32..).map(Height::from).zip(chain.active_blocks()).skip(1) {
            let mut changes = Vec::new();
            for tx in &block.txdata[1..] {
                replayed.apply(tx, tx.compute_txid(), height, &mut changes).unwrap();
            }
            let coinbase = &block.txdata[0];
            replayed.add_outputs(coinbase, coinbase.compute_txid(), height, Duplicates::Refuse, &mut changes).unwrap();
        }
        assert_eq!(chain.unspent(), replayed.coins());
        assert_eq!(chain.unspent_at(&lost_tip).unwrap(), UtxoSetOf(before).sorted());
        assert_eq!(chain.unspent(), replayed.coins(), "looking at another block changes nothing");
    }

    /// Unspent outputs in order, to compare with.
    struct UtxoSetOf(Coins);

    impl UtxoSetOf {
        fn sorted(self) -> BTreeMap<OutPoint, Coin> {
            self.0.into_iter().collect()
        }
    }

    #[test]
    fn what_breaks_a_rule_is_refused_and_changes_nothing() {
        let mut chain = SimChain::new(1);
        let blocks = chain.mine_empty(100).unwrap();
        let before = chain.unspent().clone();
        let (mature, value) = coinbase_of(&blocks[0]);
        let (young, _) = coinbase_of(&blocks[1]);
        let good = pay(mature, value, Amount::ZERO, owner(1), 1);
        let missing = OutPoint { txid: Txid::all_zeros(), vout: 7 };

        let mut check = |transactions: Vec<Transaction>, refused: fn(&ChainError) -> bool| {
            let error = chain.mine(transactions).unwrap_err();
            assert!(refused(&error), "{error}");
            assert_eq!(chain.unspent(), &before);
        };
        check(vec![good.clone(), pay(young, value, Amount::ZERO, owner(1), 1)], |error| {
            matches!(error, ChainError::Immature { .. })
        });
        check(vec![pay(missing, value, Amount::ZERO, owner(1), 1)], |error| {
            matches!(error, ChainError::MissingCoin { .. })
        });
        check(vec![good.clone(), good.clone()], |error| matches!(error, ChainError::MissingCoin { .. }));
        check(vec![pay(mature, value + Amount::ONE_SAT, Amount::ZERO, owner(1), 1)], |error| {
            matches!(error, ChainError::Overspent { .. })
        });
        let multisigs = pay(mature, value, Amount::ZERO, Owner::new(ScriptKind::Multisig, 0), 1_001);
        check(vec![multisigs], |error| matches!(error, ChainError::TooManySigops(_)));
        let heavy = pay(mature, value, Amount::ZERO, Owner::new(ScriptKind::Oversized, 0), 100);
        check(vec![heavy], |error| matches!(error, ChainError::TooHeavy(_)));
        let old = Template { time: Some(1), ..Template::default() };
        assert!(matches!(chain.mine_template(old), Err(ChainError::TimeTooOld { .. })));
        assert!(matches!(chain.mine_on(BlockHash::all_zeros(), vec![]), Err(ChainError::UnknownBlock(_))));
        assert!(chain.mine(vec![good]).is_ok());
    }

    #[test]
    fn a_coinbase_pays_what_its_template_says() {
        let mut chain = SimChain::new(1);
        let one = Amount::ONE_BTC;
        let mut outputs = |reward: Reward| {
            let template = Template { reward: Some(reward), tag: b"/tag/".to_vec(), ..Template::default() };
            chain.mine_template(template).map(|block| block.txdata[0].output.clone())
        };
        let (a, b) = (owner(1).script_pubkey(), owner(2).script_pubkey());
        let rest = |btc| TxOut { value: Amount::from_int_btc(btc), script_pubkey: a.clone() };

        let paid = outputs(Reward::to(a.clone()).and(one, b.clone()).withholding(one * 9)).unwrap();
        assert_eq!(paid, [TxOut { value: one, script_pubkey: b.clone() }, rest(40)]);
        assert_eq!(outputs(Reward::exactly(vec![rest(3)])).unwrap(), [rest(3)]);
        assert_eq!(outputs(Reward::exactly(vec![])), Err(ChainError::EmptyReward));
        assert!(matches!(outputs(Reward::to(a.clone()).and(one * 51, b)), Err(ChainError::RewardTooHigh { .. })));
    }

    #[test]
    fn a_repeated_coinbase_overwrites_what_is_unspent_of_the_earlier_copy() {
        let mut chain = SimChain::new(1);
        let earlier = chain.mine(vec![]).unwrap();
        let (outpoint, value) = coinbase_of(&earlier);
        let unspent = chain.unspent().len();
        let later = chain.mine_duplicate_coinbase(&earlier.block_hash(), vec![]).unwrap();

        assert_eq!(later.txdata, earlier.txdata);
        assert_ne!(later.block_hash(), earlier.block_hash());
        assert_eq!(chain.unspent().len(), unspent);
        assert_eq!(chain.coin(&outpoint).unwrap().height, Height::from(2));
        let tip = chain.tip();
        let before_it = chain.unspent_at(&earlier.block_hash()).unwrap();
        assert_eq!(before_it[&outpoint].height, Height::from(1));

        // Spent fully, it can be repeated again, and is there again.
        chain.mine_empty(100).unwrap();
        chain.mine(vec![pay(outpoint, value, Amount::ZERO, owner(1), 1)]).unwrap();
        assert_eq!(chain.coin(&outpoint), None);
        chain.mine_duplicate_coinbase(&tip, vec![]).unwrap();
        assert_eq!(chain.coin(&outpoint).unwrap().height, chain.height());
    }

    #[test]
    fn the_clock_follows_its_settings_and_stays_above_the_median() {
        let mut chain = SimChain::new(1).with_clock(1_700_000_000, 60);
        let times: Vec<u32> = chain.mine_empty(3).unwrap().iter().map(|block| block.header.time).collect();
        assert_eq!(times, [1_700_000_000, 1_700_000_060, 1_700_000_120]);
        let mut still = SimChain::new(1).with_clock(1_700_000_000, 0);
        let blocks = still.mine_empty(30).unwrap();
        let last = blocks.last().unwrap().header;
        assert!(last.time > still.median_time_past(&last.prev_blockhash).unwrap());
    }

    #[test]
    fn a_chain_that_keeps_few_blocks_refuses_to_build_on_older_ones() {
        let mut chain = SimChain::new(1).keeping(3);
        chain.mine_empty(10).unwrap();
        let at = |chain: &SimChain, height: u32| chain.hash_at(Height::from(height)).unwrap();
        assert_eq!(chain.active_blocks().count(), 3);
        let deep = at(&chain, 4);
        assert_eq!(chain.mine_on(deep, vec![]).unwrap_err(), ChainError::Forgotten(at(&chain, 7)));
        let shallow = at(&chain, 8);
        chain.mine_on(shallow, vec![]).unwrap();
    }
}
