//! Infers the reason why transactions left, as the node only reports that they did.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};

use super::lock_times::is_final;
use crate::chain::float::to_f64;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Cause, Departure, Entry, MempoolSnapshot, Sums};

/// The age at which transactions expire: Core's default of `-mempoolexpiry`, which no RPC returns.
const EXPIRY: Duration = Duration::from_hours(336);

/// The last reorganisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReorg {
    /// The highest disconnected block.
    pub(super) highest: BlockHash,
    /// Whether the returned transactions were not compared with the node's mempool yet.
    pub(super) is_unverified: bool,
}

impl LastReorg {
    /// The disconnected block for which a transaction left that the node did not keep: the block that contained it, or,
    /// if its lock time is in the future again, the highest one.
    fn disconnecting_block(&self, entry: &Entry, chain: &Snapshot) -> Result<Option<BlockHash>, IndexError> {
        Ok(match entry.cause() {
            Cause::Returned { block } if self.is_unverified => Some(block),
            _ => (!is_final(entry, chain)?).then_some(self.highest),
        })
    }
}

/// The removals that remove these transactions, each with its reason. A transaction whose parent is among them leaves
/// with the parent, for the same reason. `now` is in seconds since 1970.
pub(super) fn departures(
    mempool: &MempoolSnapshot,
    removals: &[Txid],
    now: u64,
    chain: &Snapshot,
    last_reorg: Option<&LastReorg>,
) -> Result<Vec<(Txid, Departure)>, IndexError> {
    let reason = |entry: &Entry| -> Result<Departure, IndexError> {
        let block = last_reorg.map(|last_reorg| last_reorg.disconnecting_block(entry, chain)).transpose()?.flatten();
        Ok(block.map_or_else(|| reason_without_reorg(mempool, entry, now), |block| Departure::ReorgedOut { block }))
    };
    roots(mempool, removals).into_iter().map(|entry| Ok((entry.txid, reason(entry)?))).collect()
}

/// Those of these transactions that have no parent among them, in the order of arrival.
fn roots<'m>(mempool: &'m MempoolSnapshot, removals: &[Txid]) -> Vec<&'m Arc<Entry>> {
    let removed: HashSet<_> = removals.iter().collect();
    let has_no_removed_parent = |entry: &&Arc<Entry>| {
        !entry.has_parents() || !mempool.parents(&entry.txid).iter().any(|parent| removed.contains(&parent.txid))
    };
    let mut roots: Vec<_> =
        removals.iter().filter_map(|txid| mempool.get(txid)).filter(has_no_removed_parent).collect();
    roots.sort_unstable_by_key(|entry| entry.sequence);
    roots
}

fn reason_without_reorg(mempool: &MempoolSnapshot, entry: &Entry, now: u64) -> Departure {
    if now.saturating_sub(entry.first_seen) >= EXPIRY.as_secs() {
        Departure::Expired
    } else if is_below_minimum_feerate(mempool, entry) {
        Departure::Evicted
    } else {
        Departure::Unknown
    }
}

/// Whether a full node requires a higher feerate than the transaction paid, alone and with its descendants: the minimum
/// rises above the feerate of the best evicted package (`TrimToSize` of Core's `txmempool.cpp`).
fn is_below_minimum_feerate(mempool: &MempoolSnapshot, entry: &Entry) -> bool {
    let node = mempool.node();
    let above = mempool.descendants(&entry.txid).sums;
    let alone = Sums { count: 1, vsize: entry.policy_vsize(), weight: entry.weight, fee: entry.fee };
    let together =
        Sums { vsize: alone.vsize.saturating_add(above.vsize), fee: alone.fee.saturating_add(above.fee), ..alone };
    let pays_less = |sums: Sums| to_f64(sums.fee) < node.min_fee_rate * to_f64(sums.vsize);
    node.min_fee_rate > node.min_relay_fee_rate && pays_less(alone) && pays_less(together)
}

#[cfg(test)]
mod tests {
    use bitcoin::absolute::LockTime;
    use bitcoin::consensus::serialize;
    use bitcoin::hashes::Hash;
    use bitcoin::transaction::Version;
    use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

    use super::*;
    use crate::chain::Height;
    use crate::mempool::{Arrival, Mempool, NodeMempool, Prevout, PrevoutSource};

    const VALUE: u64 = 1_000_000;
    const NOW: u64 = 1_700_000_000;
    const DAY: u64 = 86_400;

    /// A transaction that spends the first output of another one, was first seen so many days ago and pays this fee.
    fn spending(parent: Txid, source: PrevoutSource, days: u64, fee: u64) -> Arrival {
        let outpoint = OutPoint { txid: parent, vout: 0 };
        let (script_sig, sequence, witness) = (ScriptBuf::new(), Sequence::MAX, Witness::new());
        let output = TxOut { value: Amount::from_sat(VALUE - fee), script_pubkey: ScriptBuf::from(vec![0x51]) };
        let transaction = Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: vec![TxIn { previous_output: outpoint, script_sig, sequence, witness }],
            output: vec![output],
        };
        Arrival {
            txid: transaction.compute_txid(),
            wtxid: transaction.compute_wtxid(),
            raw: Arc::from(serialize(&transaction)),
            prevouts: vec![Prevout { value: VALUE, script_pubkey: Box::new([0x51]), source }],
            first_seen: NOW - days * DAY,
            height: Height::from(100),
            cause: Cause::New,
        }
    }

    /// The reasons while the chain only grows.
    fn departures(mempool: &MempoolSnapshot, removals: &[Txid], now: u64) -> Vec<(Txid, Departure)> {
        roots(mempool, removals)
            .into_iter()
            .map(|entry| (entry.txid, reason_without_reorg(mempool, entry, now)))
            .collect()
    }

    fn coin(number: u8) -> (Txid, PrevoutSource) {
        let source = PrevoutSource::Confirmed { height: Height::from(1), coinbase: false };
        (Txid::from_byte_array([number; 32]), source)
    }

    fn root(number: u8, days: u64, fee: u64) -> Arrival {
        let (txid, source) = coin(number);
        spending(txid, source, days, fee)
    }

    fn above(parent: &Arrival, days: u64) -> Arrival {
        // the value of the spent output has no effect here
        spending(parent.txid, PrevoutSource::Unconfirmed, days, 50_000)
    }

    fn snapshot(arrivals: &[&Arrival], min_fee_rate: f64) -> MempoolSnapshot {
        let mut mempool = Mempool::default();
        for arrival in arrivals {
            mempool.add(Arrival::clone(arrival)).unwrap();
        }
        mempool.set_node(NodeMempool { min_fee_rate, min_relay_fee_rate: 1.0, ..NodeMempool::default() });
        mempool.snapshot()
    }

    #[test]
    fn the_root_decides_the_reason_in_any_order_of_signals() {
        let (young, old) = (root(1, 1, 500), root(2, 15, 500));
        let (old_above, young_above) = (above(&young, 15), above(&old, 1));
        let mempool = snapshot(&[&young, &old, &old_above, &young_above], 1.0);
        let expected = [(young.txid, Departure::Unknown), (old.txid, Departure::Expired)];
        let mut removals = [young_above.txid, old_above.txid, old.txid, young.txid];
        assert_eq!(departures(&mempool, &removals, NOW), expected);
        removals.reverse();
        assert_eq!(departures(&mempool, &removals, NOW), expected);
        // each of them alone
        let left = departures(&mempool, &[young_above.txid, old_above.txid], NOW);
        assert_eq!(left, [(old_above.txid, Departure::Expired), (young_above.txid, Departure::Unknown)]);
    }

    #[test]
    fn packages_above_the_minimum_feerate_are_not_evicted() {
        let (cheap, helped) = (root(1, 1, 500), root(2, 1, 500));
        let helps = above(&helped, 1);
        for (min_fee_rate, evicted) in [(1.0, [false; 2]), (5.0, [false; 2]), (9.0, [true, false]), (900.0, [true; 2])]
        {
            let mempool = snapshot(&[&cheap, &helped, &helps], min_fee_rate);
            let left = departures(&mempool, &[cheap.txid, helped.txid, helps.txid], NOW);
            let expected = evicted.map(|evicted| if evicted { Departure::Evicted } else { Departure::Unknown });
            assert_eq!(left, [(cheap.txid, expected[0]), (helped.txid, expected[1])], "at {min_fee_rate} sat/vB");
        }
    }
}
