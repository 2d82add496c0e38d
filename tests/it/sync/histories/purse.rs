//! Who can spend what on the simulated chain, and transactions that do.

use std::collections::{BTreeMap, HashMap};

use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, absolute, transaction};
use btcgraph::chain::Height;
use btcgraph::sim::{Owner, Rng, ScriptKind, SimChain, SimCoin};

/// Scripts of each kind that hostile blocks pay.
const SCRIPTS_OF_A_KIND: u32 = 5;
/// Numbers from here on are those of owners of coinbases that will be repeated.
const PLANTED: u32 = 1_000;

/// The owners of all scripts that are paid.
#[derive(Clone, Debug)]
pub(crate) struct Purse {
    owners: HashMap<ScriptBuf, Owner>,
}

/// The unspent outputs as seen from a block, in order.
pub(crate) type Coins = BTreeMap<OutPoint, SimCoin>;

impl Purse {
    /// With the owners of this many planted coinbases.
    pub(crate) fn new(planted: u32) -> Self {
        let kinds = ScriptKind::ALL.into_iter().filter(|kind| kind.is_spendable());
        let shared = kinds.flat_map(|kind| (0..SCRIPTS_OF_A_KIND).map(move |n| Owner::new(kind, n)));
        let owners = shared.chain((0..planted).flat_map(planted_owners));
        Self { owners: owners.map(|owner| (owner.script_pubkey(), owner)).collect() }
    }

    fn owner(&self, coin: &SimCoin) -> Option<Owner> {
        self.owners.get(&coin.output.script_pubkey).copied()
    }

    /// What a block at this height may spend and is not kept for a coinbase to come again.
    pub(crate) fn spendable<'c>(&self, coins: &'c Coins, height: Height) -> Vec<(&'c OutPoint, &'c SimCoin)> {
        let mine = |coin: &SimCoin| self.owner(coin).is_some_and(|owner| owner.n < PLANTED);
        coins.iter().filter(|(_, coin)| coin.is_mature_at(height) && mine(coin)).collect()
    }

    /// Spends these coins to these outputs.
    pub(crate) fn spend(&self, coins: &[(&OutPoint, &SimCoin)], output: Vec<TxOut>) -> Transaction {
        let input = coins.iter().map(|(outpoint, _)| TxIn {
            previous_output: **outpoint,
            sequence: Sequence::MAX,
            ..TxIn::default()
        });
        let (version, lock_time) = (transaction::Version::TWO, absolute::LockTime::ZERO);
        let mut spending = Transaction { version, lock_time, input: input.collect(), output };
        let prevouts: Vec<_> = coins.iter().map(|(_, coin)| coin.output.clone()).collect();
        for (input, (_, coin)) in coins.iter().enumerate() {
            self.owner(coin).expect("has an owner").unlock(&mut spending, input, &prevouts).expect("can be unlocked");
        }
        spending
    }

    /// Spends one coin, nearly all of it, to two scripts of any kind; the first output can be spent.
    pub(crate) fn pay_on(&self, (outpoint, coin): (&OutPoint, &SimCoin), random: &mut Rng) -> Transaction {
        let value = coin.output.value.to_sat();
        let kinds: Vec<_> = ScriptKind::ALL.into_iter().filter(|kind| kind.is_spendable()).collect();
        let owner = |kinds: &[ScriptKind], random: &mut Rng| {
            let n = u32::try_from(random.below(SCRIPTS_OF_A_KIND.into())).unwrap();
            Owner::new(*random.choose(kinds).unwrap(), n)
        };
        let (to, change) = (owner(&kinds, random), owner(&ScriptKind::ALL, random));
        let outputs = [to.output(Amount::from_sat(value - value / 3)), change.output(Amount::from_sat(value / 4))];
        self.spend(&[(outpoint, coin)], outputs.to_vec())
    }
}

/// Whom a planted coinbase pays: three outputs that can be spent without a witness.
pub(crate) fn planted_owners(number: u32) -> [Owner; 3] {
    [ScriptKind::P2pkh, ScriptKind::P2sh, ScriptKind::BareTrue].map(|kind| Owner::new(kind, PLANTED + number))
}

/// Those of the transactions that can follow each other from these coins on, and what is left over.
pub(crate) fn applicable(
    coins: &mut Coins,
    height: Height,
    transactions: Vec<Transaction>,
) -> (Vec<Transaction>, Vec<Transaction>) {
    transactions.into_iter().partition(|transaction| {
        let spends = |input: &TxIn| coins.get(&input.previous_output).is_some_and(|coin| coin.is_mature_at(height));
        let repeats = coins.range(OutPoint::new(transaction.compute_txid(), 0)..).next();
        let repeats = repeats.is_some_and(|(outpoint, _)| outpoint.txid == transaction.compute_txid());
        let can = !repeats && transaction.input.iter().all(spends);
        if can {
            apply(coins, height, transaction);
        }
        can
    })
}

/// What a transaction does to the coins.
pub(crate) fn apply(coins: &mut Coins, height: Height, transaction: &Transaction) {
    let txid = transaction.compute_txid();
    for input in &transaction.input {
        coins.remove(&input.previous_output);
    }
    for (vout, output) in (0..).zip(&transaction.output) {
        if !output.script_pubkey.is_op_return() && output.script_pubkey.len() <= 10_000 {
            let coin = SimCoin { output: output.clone(), height, coinbase: transaction.is_coinbase() };
            coins.insert(OutPoint { txid, vout }, coin);
        }
    }
}

/// The unspent outputs at the tip, in order.
pub(crate) fn coins_of(chain: &SimChain) -> Coins {
    chain.unspent().iter().map(|(outpoint, coin)| (*outpoint, coin.clone())).collect()
}
