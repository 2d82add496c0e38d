//! A builder of transactions: inputs, outputs, change and fee.

use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, transaction};

use super::{Owner, UnlockError};

/// A spendable output and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spendable {
    /// The outpoint.
    pub outpoint: OutPoint,
    /// The output.
    pub output: TxOut,
    /// The owner, who can spend it.
    pub owner: Owner,
}

impl Spendable {
    /// An output of a transaction, by its position. `None` if there is no such output or it pays another owner.
    #[must_use]
    pub fn of(tx: &Transaction, vout: u32, owner: Owner) -> Option<Self> {
        let output = tx.output.get(usize::try_from(vout).ok()?)?.clone();
        let outpoint = OutPoint { txid: tx.compute_txid(), vout };
        (output.script_pubkey == owner.script_pubkey()).then_some(Spendable { outpoint, output, owner })
    }
}

/// Builds a transaction: by default of version 2, without a lock time, with inputs that signal replaceability (BIP125).
///
/// ```
/// # use bitcoin::Amount;
/// # use btcgraph_core::sim::{Owner, Payment, ScriptKind, SimChain, Spendable};
/// let mut chain = SimChain::new(1);
/// let block = chain.mine_empty(100)?.swap_remove(0);
/// let coin = Spendable::of(&block.txdata[0], 0, SimChain::miner()).ok_or("pays the miner")?;
/// let tx = Payment::of([coin]).to(Owner::new(ScriptKind::P2wsh, 7), Amount::ONE_BTC).change(SimChain::miner(), 2).sign()?;
/// chain.mine(vec![tx])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Payment {
    spends: Vec<Spendable>,
    outputs: Vec<TxOut>,
    change: Option<(Owner, u64)>,
    version: transaction::Version,
    lock_time: absolute::LockTime,
    sequence: Sequence,
}

impl Payment {
    /// Spends these outputs, in this order.
    #[must_use]
    pub fn of(spends: impl IntoIterator<Item = Spendable>) -> Self {
        Payment {
            spends: spends.into_iter().collect(),
            outputs: Vec::new(),
            change: None,
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
        }
    }

    /// Pays an owner.
    #[must_use]
    pub fn to(self, owner: Owner, value: Amount) -> Self {
        self.output(owner.output(value))
    }

    /// Adds this output.
    #[must_use]
    pub fn output(mut self, output: TxOut) -> Self {
        self.outputs.push(output);
        self
    }

    /// Pays the rest to an owner, in a last output, with a fee of this many satoshis a virtual byte. If the rest does
    /// not cover the fee, there is no such output, and all of the rest is the fee.
    #[must_use]
    pub fn change(mut self, owner: Owner, sat_per_vb: u64) -> Self {
        self.change = Some((owner, sat_per_vb));
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = transaction::Version(version);
        self
    }

    /// Sets the lock time, as a number: a height below 500,000,000, else seconds since 1970.
    #[must_use]
    pub fn lock_time(mut self, lock_time: u32) -> Self {
        self.lock_time = absolute::LockTime::from_consensus(lock_time);
        self
    }

    /// Sets the sequence number of every input.
    #[must_use]
    pub fn sequence(mut self, sequence: u32) -> Self {
        self.sequence = Sequence(sequence);
        self
    }

    /// Signs all inputs and returns the transaction.
    pub fn sign(self) -> Result<Transaction, UnlockError> {
        let input = self.spends.iter().map(|spent| TxIn {
            previous_output: spent.outpoint,
            script_sig: ScriptBuf::new(),
            sequence: self.sequence,
            witness: Witness::new(),
        });
        let mut tx = Transaction {
            version: self.version,
            lock_time: self.lock_time,
            input: input.collect(),
            output: self.outputs,
        };
        let prevouts: Vec<TxOut> = self.spends.iter().map(|spent| spent.output.clone()).collect();
        let spent: u64 = prevouts.iter().map(|output| output.value.to_sat()).sum();
        let unlock = |tx: &mut Transaction| {
            self.spends.iter().enumerate().try_for_each(|(index, spent)| spent.owner.unlock(tx, index, &prevouts))
        };
        if let Some((owner, sat_per_vb)) = self.change {
            tx.output.push(owner.output(Amount::ZERO));
            // The size is known once the transaction is signed; another value of the change does not change it, but for
            // a byte of a signature.
            unlock(&mut tx)?;
            let fee = sat_per_vb.saturating_mul(u64::try_from(tx.vsize()).unwrap_or(u64::MAX));
            let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
            tx.output.pop();
            let left = spent.checked_sub(paid.saturating_add(fee)).filter(|left| *left > 0);
            tx.output.extend(left.map(|left| owner.output(Amount::from_sat(left))));
            if !self.spends.iter().any(|spent| spent.owner.kind.is_signed()) {
                return Ok(tx);
            }
        }
        unlock(&mut tx)?;
        Ok(tx)
    }
}
