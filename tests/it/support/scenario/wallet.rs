//! The accounts of a scenario: keys that are ours, so that which coins pay what, and in which order, is the same in each
//! run. (A wallet of a node draws its keys, the place of the change and the coins at random.)

use std::collections::BTreeMap;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::script::PushBytesBuf;
use bitcoin::{
    Address, Amount, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, absolute, transaction,
};
use btcgraph::sim::{Owner, ScriptKind};

use super::names::Names;
use super::parse::{Coins, Payment, Receiver};

/// Taproot: all signatures are of one size, and so are all transactions of one form.
const USUAL_KIND: ScriptKind = ScriptKind::P2trKey;
/// What the first kind of all gets, the second gets twice that, and so on.
const STEP: Amount = Amount::from_sat(1_000_000);
/// For the transactions of all types, which are large.
const LARGE_FEE: Amount = Amount::from_sat(50_000);

/// Accounts, their coins, and all transactions that have names.
#[derive(Default)]
pub(super) struct Wallet {
    accounts: BTreeMap<String, Owner>,
    /// Every output that ever paid an account, the oldest first.
    coins: Vec<(OutPoint, TxOut)>,
    transactions: BTreeMap<String, Transaction>,
}

impl Wallet {
    /// Opens an account of this kind, with a key of its own or that of another. Errors: it is there, or the other is not.
    pub(super) fn open(
        &mut self,
        names: &mut Names,
        name: &str,
        kind: ScriptKind,
        key_of: Option<&str>,
    ) -> Result<Owner, String> {
        if self.accounts.contains_key(name) {
            return Err(format!("there is an account '{name}' already"));
        }
        let number = match key_of {
            None => u32::try_from(self.accounts.len()).unwrap() + 1,
            Some(other) => self.accounts.get(other).ok_or_else(|| format!("there is no account '{other}'"))?.n,
        };
        let owner = Owner::new(kind, number);
        self.accounts.insert(name.to_owned(), owner);
        let script = owner.script_pubkey();
        if let Ok(address) = Address::from_script(&script, Network::Regtest) {
            names.give(&address.to_string(), &format!("$address.{name}"));
        }
        names.give_script(&script.to_hex_string(), &format!("$script.{name}"));
        let mut hash = sha256::Hash::hash(script.as_bytes()).to_byte_array();
        names.give(&hash.to_lower_hex_string(), &format!("$script_hash.{name}"));
        hash.reverse();
        names.give(&hash.to_lower_hex_string(), &format!("$electrum_hash.{name}"));
        // the key whose hash is in the script, if there is one
        names.allow(&Owner::new(ScriptKind::P2pk, number).script_pubkey().to_hex_string());
        Ok(owner)
    }

    /// The account of this name, opened if there is none.
    pub(super) fn account(&mut self, names: &mut Names, name: &str) -> Owner {
        self.accounts.get(name).copied().unwrap_or_else(|| self.open(names, name, USUAL_KIND, None).unwrap())
    }

    /// A transaction by its name.
    pub(super) fn transaction(&self, name: &str) -> Result<&Transaction, String> {
        self.transactions.get(name).ok_or_else(|| format!("there is no transaction '{name}'"))
    }

    /// Gives a transaction its name, `$tx.NAME`, and takes its outputs as coins, spendable or not.
    pub(super) fn add(&mut self, names: &mut Names, transaction: &Transaction, name: &str) {
        let txid = transaction.compute_txid();
        names.give(&txid.to_string(), &format!("$tx.{name}"));
        names.give(&transaction.compute_wtxid().to_string(), &format!("$wtxid.{name}"));
        let paid = (0..).zip(&transaction.output).filter(|(_, output)| self.owner(&output.script_pubkey).is_some());
        let coins: Vec<_> = paid.map(|(vout, output)| (OutPoint { txid, vout }, output.clone())).collect();
        self.coins.extend(coins);
        self.transactions.insert(name.to_owned(), transaction.clone());
    }

    /// Makes a transaction and signs it: first the outputs asked for, then the change if there is any.
    /// Errors: the coins are not enough, or not ours.
    pub(super) fn make(
        &mut self,
        names: &mut Names,
        payment: &Payment,
        is_spendable: impl Fn(&OutPoint) -> bool,
    ) -> Result<Transaction, String> {
        let payer = self.account(names, &payment.from);
        let mut outputs: Vec<_> =
            payment.outputs.iter().map(|(amount, receiver)| self.output(names, *amount, receiver)).collect();
        let needed = outputs.iter().map(|output| output.value).sum::<Amount>() + payment.fee;
        let coins = match &payment.coins {
            Coins::Oldest => self.oldest(payer, needed, is_spendable),
            Coins::Named(coins) => coins.iter().map(|(name, vout)| self.coin(name, *vout)).collect::<Result<_, _>>()?,
            Coins::Of(name) => self.transaction(name)?.input.iter().map(|input| input.previous_output).collect(),
        };
        let prevouts = self.prevouts(&coins)?;
        let total = prevouts.iter().map(|output| output.value).sum::<Amount>();
        let change =
            total.checked_sub(needed).ok_or_else(|| format!("{needed} is needed, and the coins are {total}"))?;
        outputs.extend((change > Amount::ZERO).then(|| payer.output(change)));
        let usual = if payment.lock_time == 0 { Sequence::MAX } else { Sequence::ENABLE_LOCKTIME_NO_RBF };
        let sequence = payment.sequence.map_or(usual, Sequence);
        self.signed(&coins, &prevouts, outputs, payment.lock_time, sequence)
    }

    /// What a transaction leaves to the miner. Errors: it spends what is not ours.
    pub(super) fn fee(&self, transaction: &Transaction) -> Result<Amount, String> {
        let coins: Vec<_> = transaction.input.iter().map(|input| input.previous_output).collect();
        let spent = self.prevouts(&coins)?.iter().map(|output| output.value).sum::<Amount>();
        let paid = transaction.output.iter().map(|output| output.value).sum::<Amount>();
        Ok(spent - paid)
    }

    /// One output to each kind of script there is; the accounts have the names of the kinds.
    pub(super) fn pay_all_types(
        &mut self,
        names: &mut Names,
        from: &str,
        is_spendable: impl Fn(&OutPoint) -> bool,
    ) -> Result<Transaction, String> {
        let payer = self.account(names, from);
        let mut outputs = Vec::new();
        for (kind, value) in ScriptKind::ALL.into_iter().zip((1..).map(|times| STEP * times)) {
            let name = kind_name(kind);
            let owner = match self.accounts.get(&name) {
                Some(owner) => *owner,
                None => self.open(names, &name, kind, None)?,
            };
            outputs.push(owner.output(value));
        }
        let needed = outputs.iter().map(|output| output.value).sum::<Amount>() + LARGE_FEE;
        let coins = self.oldest(payer, needed, is_spendable);
        let prevouts = self.prevouts(&coins)?;
        let total = prevouts.iter().map(|output| output.value).sum::<Amount>();
        let change = total.checked_sub(needed).ok_or_else(|| format!("{from} can spend {total} and no more"))?;
        outputs.extend((change > Amount::ZERO).then(|| payer.output(change)));
        self.signed(&coins, &prevouts, outputs, 0, Sequence::MAX)
    }

    /// All that the accounts with names of kinds have, in one output.
    pub(super) fn spend_all_types(
        &mut self,
        names: &mut Names,
        to: &str,
        is_spendable: impl Fn(&OutPoint) -> bool,
    ) -> Result<Transaction, String> {
        let owners: Vec<_> = ScriptKind::ALL
            .into_iter()
            .filter(|kind| kind.is_spendable())
            .filter_map(|kind| self.accounts.get(&kind_name(kind)))
            .map(Owner::script_pubkey)
            .collect();
        let ours = self
            .coins
            .iter()
            .filter(|(outpoint, output)| owners.contains(&output.script_pubkey) && is_spendable(outpoint));
        let coins: Vec<_> = ours.map(|(outpoint, _)| *outpoint).collect();
        let prevouts = self.prevouts(&coins)?;
        let total = prevouts.iter().map(|output| output.value).sum::<Amount>();
        let rest = total.checked_sub(LARGE_FEE).ok_or("nothing of all script types can be spent")?;
        let outputs = vec![self.account(names, to).output(rest)];
        self.signed(&coins, &prevouts, outputs, 0, Sequence::MAX)
    }

    fn output(&mut self, names: &mut Names, value: Amount, receiver: &Receiver) -> TxOut {
        match receiver {
            Receiver::Account(name) => self.account(names, name).output(value),
            Receiver::Data(text) => {
                let data = PushBytesBuf::try_from(text.as_bytes().to_vec()).unwrap();
                let script_pubkey = ScriptBuf::new_op_return(data);
                names.allow(&script_pubkey.to_hex_string());
                TxOut { value, script_pubkey }
            }
        }
    }

    fn oldest(&self, owner: Owner, needed: Amount, is_spendable: impl Fn(&OutPoint) -> bool) -> Vec<OutPoint> {
        let script = owner.script_pubkey();
        let (mut coins, mut total) = (Vec::new(), Amount::ZERO);
        for (outpoint, output) in self.coins.iter().filter(|(_, output)| output.script_pubkey == script) {
            if total >= needed {
                break;
            }
            if is_spendable(outpoint) {
                total += output.value;
                coins.push(*outpoint);
            }
        }
        coins
    }

    fn coin(&self, name: &str, vout: u32) -> Result<OutPoint, String> {
        self.transaction(name).map(|transaction| OutPoint { txid: transaction.compute_txid(), vout })
    }

    fn prevouts(&self, coins: &[OutPoint]) -> Result<Vec<TxOut>, String> {
        let known = |coin: &OutPoint| self.coins.iter().find(|(outpoint, _)| outpoint == coin);
        let found = coins.iter().map(|coin| known(coin).ok_or_else(|| format!("{coin} pays no account")));
        found.map(|found| found.map(|(_, output)| output.clone())).collect()
    }

    fn owner(&self, script: &ScriptBuf) -> Option<Owner> {
        self.accounts.values().copied().find(|owner| owner.script_pubkey() == *script)
    }

    fn signed(
        &self,
        coins: &[OutPoint],
        prevouts: &[TxOut],
        output: Vec<TxOut>,
        lock_time: u32,
        sequence: Sequence,
    ) -> Result<Transaction, String> {
        let input = coins.iter().map(|coin| TxIn { previous_output: *coin, sequence, ..TxIn::default() });
        let mut transaction = Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::from_consensus(lock_time),
            input: input.collect(),
            output,
        };
        for (index, prevout) in prevouts.iter().enumerate() {
            let owner = self.owner(&prevout.script_pubkey).unwrap();
            owner.unlock(&mut transaction, index, prevouts).map_err(|error| error.to_string())?;
        }
        Ok(transaction)
    }
}

/// The kind of script by the name that scenarios have for it.
pub(super) fn kind_named(name: &str) -> Option<ScriptKind> {
    ScriptKind::ALL.into_iter().find(|kind| kind_name(*kind) == name)
}

/// `P2shP2wpkh` is `p2sh_p2wpkh`.
fn kind_name(kind: ScriptKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
