//! The scripts of a ledger, and what is known of them without their rows one by one.

use std::ops::Range;

use bitcoin::Script;
use bitcoin::hashes::{Hash, sha256};

use crate::chain::Height;
use crate::index::{IndexError, ScriptKey, TxNum};
use crate::view::{BudgetExceeded, Transaction, View};

/// Scripts whose coins are counted together: one script of an address, several of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Their keys in the index, sorted and distinct.
    pub(super) scripts: Vec<ScriptKey>,
    /// SHA-256 of each scriptPubKey, in the same order.
    pub(super) hashes: Vec<[u8; 32]>,
}

impl Ledger {
    /// Its distinct scripts.
    #[must_use]
    pub fn scripts(&self) -> &[ScriptKey] {
        &self.scripts
    }

    /// The ledger of those among its scripts that are wanted.
    #[must_use]
    pub fn filtered(&self, wanted: impl Fn(ScriptKey) -> bool) -> Self {
        let pairs = self.scripts.iter().zip(&self.hashes).filter(|(script, _)| wanted(**script));
        let (scripts, hashes) = pairs.unzip();
        Self { scripts, hashes }
    }

    /// Whether this script is one of them.
    #[must_use]
    pub fn contains(&self, script: ScriptKey) -> bool {
        self.scripts.binary_search(&script).is_ok()
    }
}

impl View {
    /// The ledger of the scripts with these SHA-256. Duplicates count once.
    pub fn ledger(&self, hashes: impl IntoIterator<Item = sha256::Hash>) -> Ledger {
        let keyed = hashes.into_iter().map(|hash| (self.script_hash_key(&hash), hash.to_byte_array()));
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        keyed.dedup_by_key(|(key, _)| *key);
        let (scripts, hashes) = keyed.into_iter().unzip();
        Ledger { scripts, hashes }
    }

    /// The key of a script's rows.
    #[must_use]
    pub fn script_key(&self, script_pubkey: &Script) -> ScriptKey {
        self.head.chain.script_key(script_pubkey.as_bytes())
    }

    /// The key of the rows of the script with this SHA-256.
    #[must_use]
    pub fn script_hash_key(&self, hash: &sha256::Hash) -> ScriptKey {
        self.head.chain.script_hash_key(hash)
    }

    /// Whether a transaction of the active chain or of the mempool paid or spent the script with this SHA-256.
    pub fn has_history(&self, hash: &sha256::Hash) -> Result<bool, IndexError> {
        if self.is_pending(hash) {
            return Ok(true);
        }
        Ok(self.head.chain.totals(self.script_hash_key(hash), TxNum(u32::MAX))?.is_some())
    }

    /// Whether a transaction of the mempool pays or spends the script with this SHA-256.
    #[must_use]
    pub fn is_pending(&self, hash: &sha256::Hash) -> bool {
        self.head.mempool.script_totals(hash.as_byte_array()).transactions > 0
    }

    /// Whether a transaction of the active chain in front of a position, or one of the mempool whose number of arrival is below
    /// another, paid or spent the script with this SHA-256.
    pub fn has_history_before(&self, hash: &sha256::Hash, end: TxNum, arrival: u64) -> Result<bool, IndexError> {
        if self.head.mempool.script_arrivals(hash.as_byte_array(), 0..arrival).next().is_some() {
            return Ok(true);
        }
        Ok(self.head.chain.totals(self.script_hash_key(hash), end)?.is_some())
    }

    /// The transaction at an existing position, counted in the byte budget.
    pub(super) fn counted_transaction<E>(&self, txnum: TxNum) -> Result<Transaction, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        self.count(0)?;
        let transaction = self.transaction_at(txnum)?;
        self.count(transaction.raw().len())?;
        Ok(transaction)
    }

    /// The transactions in the existing blocks at these heights.
    pub fn txnums(&self, heights: Range<Height>) -> Result<Range<TxNum>, IndexError> {
        let tip = self.tip().height;
        let end_before = |height: Height| match height.min(tip.next()).previous() {
            Some(height) => self.main_block(height)?.end_txnum(),
            None => Ok(TxNum(0)),
        };
        let start = end_before(heights.start)?;
        Ok(start..end_before(heights.end)?.max(start))
    }

    /// The scriptPubKey with this SHA-256, `None` if no spendable output of the active chain or of the mempool has
    /// it.
    ///
    /// Errors: those of the index, and the byte budget, since a transaction is read for it.
    pub fn script_of_hash<E>(&self, hash: &sha256::Hash) -> Result<Option<bitcoin::ScriptBuf>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let key = self.script_hash_key(hash);
        let Some(first) = self.head.chain.first_seen(key)? else { return Ok(self.pending_script(hash)?) };
        let paying = self.counted_transaction::<E>(first)?;
        // the key is a short hash: only the script itself proves that the rows are its own
        let matching = |script: &&bitcoin::ScriptBuf| sha256::Hash::hash(script.as_bytes()) == *hash;
        Ok(paying.parts.output.iter().map(|output| &output.script_pubkey).find(matching).cloned())
    }
}
