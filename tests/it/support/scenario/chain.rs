//! What a scenario does to a chain, on whatever node it has.

use bitcoin::{Amount, BlockHash};
use btcgraph::sim::ScriptKind;

use super::names::{Names, START};
use super::node::{NewBlock, Node};
use super::parse::{Contents, Payment};
use super::wallet::Wallet;

/// Seconds from block to block.
const INTERVAL: i64 = 600;

/// A node, the accounts on it, and its clock.
pub(super) struct Chain {
    pub(super) node: Box<dyn Node>,
    wallet: Wallet,
    /// In seconds since 1970.
    clock: i64,
    reorgs: u32,
}

impl Chain {
    /// A node that has the genesis block.
    pub(super) fn new(node: Box<dyn Node>, names: &mut Names) -> Self {
        let genesis = node.tip();
        let mut chain = Self { node, wallet: Wallet::default(), clock: START, reorgs: 0 };
        chain.name_block(names, genesis);
        chain
    }

    pub(super) fn open(
        &mut self,
        names: &mut Names,
        account: &str,
        kind: ScriptKind,
        key_of: Option<&str>,
    ) -> Result<(), String> {
        self.wallet.open(names, account, kind, key_of).map(|_| ())
    }

    /// Mines blocks, 10 minutes apart: with these transactions, or with what waits in the mempool.
    pub(super) fn mine(
        &mut self,
        names: &mut Names,
        count: u32,
        to: &str,
        withheld: Amount,
        with: Option<&Contents>,
    ) -> Result<(), String> {
        let with = with.cloned().or_else(|| (withheld > Amount::ZERO).then(Contents::new));
        if with.as_ref().is_some_and(|with| with.len() > usize::try_from(count).unwrap()) {
            return Err("there are more lists of transactions than blocks".to_owned());
        }
        let to = self.wallet.account(names, to).script_pubkey();
        for number in 0..count {
            let (transactions, fees) = match &with {
                None => (None, Amount::ZERO),
                Some(with) => {
                    let listed = with.get(usize::try_from(number).unwrap()).into_iter().flatten();
                    let listed = listed.map(|name| self.wallet.transaction(name).cloned());
                    let listed: Vec<_> = listed.collect::<Result<_, _>>()?;
                    let fees = listed.iter().map(|transaction| self.wallet.fee(transaction)).sum::<Result<_, _>>()?;
                    (Some(listed), fees)
                }
            };
            self.clock += INTERVAL;
            self.node.set_clock(self.clock);
            let hash = self.node.mine(&NewBlock { to: to.clone(), transactions, fees, withheld })?;
            self.name_block(names, hash);
        }
        Ok(())
    }

    pub(super) fn duplicate_coinbase(&mut self, names: &mut Names, block: &str) -> Result<(), String> {
        self.clock += INTERVAL;
        self.node.set_clock(self.clock);
        let hash = self.node.duplicate_coinbase(block_named(names, block)?)?;
        self.name_block(names, hash);
        Ok(())
    }

    /// Makes a transaction and keeps it.
    pub(super) fn draft(&mut self, names: &mut Names, payment: &Payment) -> Result<(), String> {
        let transaction = self.wallet.make(names, payment, |coin| self.node.is_spendable(coin))?;
        self.wallet.add(names, &transaction, &payment.name);
        Ok(())
    }

    /// Makes a transaction that pays every kind of script and keeps it.
    pub(super) fn draft_to_all_types(&mut self, names: &mut Names, from: &str, name: &str) -> Result<(), String> {
        let transaction = self.wallet.pay_all_types(names, from, |coin| self.node.is_spendable(coin))?;
        self.wallet.add(names, &transaction, name);
        Ok(())
    }

    /// Makes a transaction that spends all of that and keeps it.
    pub(super) fn draft_from_all_types(&mut self, names: &mut Names, to: &str, name: &str) -> Result<(), String> {
        let transaction = self.wallet.spend_all_types(names, to, |coin| self.node.is_spendable(coin))?;
        self.wallet.add(names, &transaction, name);
        Ok(())
    }

    /// Gives a transaction to the node, which must take it, or refuse it for this reason.
    pub(super) fn submit(&mut self, name: &str, refused: Option<&str>) -> Result<(), String> {
        let verdict = self.node.submit(self.wallet.transaction(name)?);
        match (verdict, refused) {
            (Ok(()), None) => Ok(()),
            (Err(reported), Some(reason)) if reported.contains(reason) => Ok(()),
            (Ok(()), Some(_)) => Err(format!("the node took {name}")),
            (Err(reported), _) => Err(format!("the node refused {name}: {reported}")),
        }
    }

    pub(super) fn evict(&mut self, name: &str) -> Result<(), String> {
        let txid = self.wallet.transaction(name)?.compute_txid();
        self.node.evict(txid);
        Ok(())
    }

    /// Replaces the newest blocks by so many others.
    pub(super) fn reorg(&mut self, names: &mut Names, count: u32, to: u32, with: &Contents) -> Result<(), String> {
        self.reorgs += 1;
        self.shorten(count)?;
        self.mine(names, to, &format!("rival{}", self.reorgs), Amount::ZERO, Some(with))
    }

    /// Takes the newest blocks out. Errors: there are not so many.
    pub(super) fn shorten(&mut self, count: u32) -> Result<(), String> {
        let height = self.node.height();
        if count > height {
            return Err(format!("the chain has {height} blocks on the genesis block"));
        }
        if count > 0 {
            self.node.invalidate(self.node.hash_at(height - count + 1));
        }
        Ok(())
    }

    /// Leaves the main chain for the branch of this block. Errors: it is on the main chain.
    pub(super) fn return_to(&mut self, names: &Names, block: &str) -> Result<(), String> {
        let target = block_named(names, block)?;
        let mut fork = target;
        let main = |hash: BlockHash, node: &dyn Node| {
            let height = node.height_of(hash);
            height <= node.height() && node.hash_at(height) == hash
        };
        while !main(fork, &*self.node) {
            fork = self.node.block(fork).header.prev_blockhash;
        }
        if fork == target {
            return Err(format!("{block} is on the main chain"));
        }
        let left = self.node.height_of(fork) + 1;
        if left <= self.node.height() {
            self.node.invalidate(self.node.hash_at(left));
        }
        self.node.reconsider(target);
        Ok(())
    }

    /// `$block7` and `$tx.coinbase7`; the second block at height 7 has a `b` behind the number.
    fn name_block(&mut self, names: &mut Names, hash: BlockHash) {
        let height = self.node.height_of(hash);
        let mut numbers =
            std::iter::once(height.to_string()).chain(('b'..='z').map(|letter| format!("{height}{letter}")));
        let number = numbers.find(|number| !names.has(&format!("$block{number}"))).unwrap();
        names.give(&hash.to_string(), &format!("$block{number}"));
        self.wallet.add(names, &self.node.block(hash).txdata[0], &format!("coinbase{number}"));
    }
}

fn block_named(names: &Names, block: &str) -> Result<BlockHash, String> {
    names.expand(&format!("${block}")).map(|hash| hash.parse().unwrap())
}
