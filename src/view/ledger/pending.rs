//! The effect of the mempool on a ledger: the sums, and each transaction.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Script, ScriptBuf};

use super::Ledger;
use super::merge::{Merge, directed};
use crate::chain::script::never_spendable;
use crate::index::ScriptKey;
use crate::mempool::{Coins, Entry};
use crate::view::{BudgetExceeded, Head, View};

/// The most scripts of a ledger that are looked up in the mempool, in place of hashing those of a transaction.
const MAX_LOOKED_UP: usize = 4;

/// The effect of all transactions of the mempool on a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Outputs to the ledger that they create, spent in the mempool or not.
    pub created: Coins,
    /// Outputs of the ledger on the active chain that they spend.
    pub spent_confirmed: Coins,
    /// Outputs among `created` that they spend.
    pub spent_created: Coins,
}

impl Pending {
    /// The value of all outputs of the ledger that they spend, in sat.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent_confirmed.value.saturating_add(self.spent_created.value)
    }
}

/// The effect of one transaction of the mempool on a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMovement {
    /// The transaction.
    pub entry: Arc<Entry>,
    /// The value of its outputs to the ledger, in sat.
    pub received: u64,
    /// The value of the ledger's outputs that it spends, in sat.
    pub spent: u64,
    /// Whether it has an output to the ledger, of whatever value.
    pub pays: bool,
    /// Whether it spends an output of the ledger, of whatever value.
    pub spends: bool,
    /// The scripts of the ledger that it pays or spends, each once.
    pub scripts: Vec<ScriptKey>,
}

impl PendingMovement {
    /// The change of the balance in sat.
    #[must_use]
    pub fn net(&self) -> i128 {
        i128::from(self.received) - i128::from(self.spent)
    }
}

impl Head {
    /// Whether a transaction pays or spends a ledger. It must be of this mempool, where it may be found by its number of arrival.
    #[must_use]
    pub fn concerns(&self, ledger: &Ledger, entry: &Entry) -> bool {
        // to look a script up takes less time than to hash each of those in the transaction
        if ledger.hashes.len() <= MAX_LOOKED_UP {
            let arrival = entry.sequence..entry.sequence.saturating_add(1);
            let mut arrivals =
                ledger.hashes.iter().flat_map(|hash| self.mempool.script_arrivals(hash, arrival.clone()));
            return arrivals.next().is_some();
        }
        let is_within = |script_pubkey: &[u8]| self.script_within(ledger, script_pubkey).is_some();
        entry.prevouts.into_iter().any(|prevout| is_within(prevout.script_pubkey))
            || entry.outputs().any(|output| is_within(output.script_pubkey))
    }

    /// The key of a script of the ledger.
    fn script_within(&self, ledger: &Ledger, script_pubkey: &[u8]) -> Option<ScriptKey> {
        let key = self.chain.script_key(script_pubkey);
        (ledger.contains(key) && !never_spendable(Script::from_bytes(script_pubkey))).then_some(key)
    }
}

impl View {
    /// The effect of the mempool on a ledger.
    #[must_use]
    pub fn pending(&self, ledger: &Ledger) -> Pending {
        let mut pending = Pending::default();
        for hash in &ledger.hashes {
            // an output is of one script, so the sums of several are those of the ledger
            let totals = self.head.mempool.script_totals(hash);
            pending.created = together(pending.created, totals.pending);
            pending.spent_confirmed = together(pending.spent_confirmed, totals.spent_confirmed);
            pending.spent_created = together(pending.spent_created, totals.spent_unconfirmed);
        }
        pending
    }

    /// The number of transactions of the mempool that pay or spend a ledger; one with several of its scripts counts once.
    /// `None` if `may_read` does not allow that many rows.
    pub fn count_pending<E>(
        &self,
        ledger: &Ledger,
        may_read: impl FnOnce(u64) -> Result<bool, E>,
    ) -> Result<Option<u64>, E> {
        let (mut sum, mut scripts) = (0_u64, 0_usize);
        for hash in &ledger.hashes {
            let transactions = self.head.mempool.script_totals(hash).transactions;
            scripts += usize::from(transactions > 0);
            sum = sum.saturating_add(transactions);
        }
        if scripts <= 1 {
            return Ok(Some(sum));
        }
        if !may_read(sum)? {
            return Ok(None);
        }
        Ok(Some(self.arrivals(ledger, &(0..u64::MAX), true).fold(0, |count: u64, _| count.saturating_add(1))))
    }

    /// The transactions of the mempool that pay or spend a ledger and whose numbers of arrival are in a range, oldest or
    /// newest first.
    pub fn arrivals<'v>(
        &'v self,
        ledger: &Ledger,
        within: &Range<u64>,
        ascending: bool,
    ) -> impl Iterator<Item = &'v Arc<Entry>> + use<'v> {
        let mempool = &self.head.mempool;
        let sources = ledger.hashes.iter().map(|hash| {
            // the mempool returns the newest first
            directed(mempool.script_arrivals(hash, within.clone()).rev().map(Ok::<_, Infallible>), ascending)
        });
        let Ok(mut merged) = Merge::new(sources.collect(), ascending, |sequence| *sequence);
        let mut last = None;
        std::iter::from_fn(move || {
            loop {
                let Ok(sequence) = merged.next()?;
                if last.replace(sequence) != Some(sequence) {
                    return Some(sequence);
                }
            }
        })
        .filter_map(|sequence| mempool.by_sequence(sequence))
    }

    /// The effect of a transaction of the mempool on a ledger.
    #[must_use]
    pub fn pending_movement(&self, ledger: &Ledger, entry: &Arc<Entry>) -> PendingMovement {
        let (mut received, mut spent) = (0_u64, 0_u64);
        let (mut pays, mut spends, mut scripts) = (false, false, Vec::new());
        for prevout in &entry.prevouts {
            let Some(script) = self.script_within(ledger, prevout.script_pubkey) else { continue };
            (spent, spends) = (spent.saturating_add(prevout.value), true);
            scripts.push(script);
        }
        for output in entry.outputs() {
            let Some(script) = self.script_within(ledger, output.script_pubkey) else { continue };
            (received, pays) = (received.saturating_add(output.value), true);
            scripts.push(script);
        }
        scripts.sort_unstable();
        scripts.dedup();
        PendingMovement { entry: Arc::clone(entry), received, spent, pays, spends, scripts }
    }

    /// The index and the value in sat of each output of a transaction of the mempool to a ledger, in their order.
    #[must_use]
    pub fn pending_outputs(&self, ledger: &Ledger, entry: &Entry) -> Vec<(u32, u64)> {
        let outputs = (0..).zip(entry.outputs());
        let own = outputs.filter(|(_, output)| self.script_within(ledger, output.script_pubkey).is_some());
        own.map(|(vout, output)| (vout, output.value)).collect()
    }

    /// The key of a script of the ledger.
    pub(super) fn script_within(&self, ledger: &Ledger, script_pubkey: &[u8]) -> Option<ScriptKey> {
        self.head.script_within(ledger, script_pubkey)
    }

    /// The scriptPubKey with this SHA-256, if a transaction of the mempool pays or spends it.
    ///
    /// Errors: the byte budget, since that transaction is read.
    pub(super) fn pending_script(&self, hash: &sha256::Hash) -> Result<Option<ScriptBuf>, BudgetExceeded> {
        let Some(entry) = self.head.mempool.script(hash.as_byte_array(), u64::MAX).next() else { return Ok(None) };
        self.count(entry.raw.len())?;
        let spent = entry.prevouts.iter().map(|prevout| prevout.script_pubkey);
        let mut scripts = spent.chain(entry.outputs().map(|output| output.script_pubkey));
        let found = scripts.find(|script| sha256::Hash::hash(script) == *hash);
        Ok(found.map(|script| ScriptBuf::from_bytes(script.to_vec())))
    }
}

fn together(one: Coins, other: Coins) -> Coins {
    Coins { count: one.count.saturating_add(other.count), value: one.value.saturating_add(other.value) }
}
