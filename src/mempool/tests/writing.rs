use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};

use super::stage::{COIN, block, coin, output, paying, script_hash, spending, txids};
use crate::chain::Height;
use crate::chain::raw::RawError;
use crate::mempool::{
    AddError, Cause, Coins, ConnectedBlock, Departure, Mempool, MempoolEvent, MempoolEventKind, MempoolLimits,
    NodeMempool, PrevoutSource, ScriptTotals,
};

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut mempool = Mempool::default();
    let parent = spending(&[coin(1)], 2);
    mempool.add(parent.clone()).unwrap();
    let before = mempool.snapshot();

    let missing = OutPoint { txid: Txid::from_byte_array([77; 32]), vout: 0 };
    let mut unknown = coin(77);
    unknown.1.source = PrevoutSource::Unconfirmed;
    let mut no_such_output = output(&parent, 1);
    no_such_output.0.vout = 2;
    let mut poor = spending(&[coin(2)], 1);
    poor.prevouts[0].value = 5;
    let mut rich = spending(&[coin(2), coin(3)], 1);
    rich.prevouts[0].value = u64::MAX;
    let mut short = spending(&[coin(2)], 1);
    short.raw = short.raw[..20].into();
    let mut unresolved = spending(&[coin(2)], 1);
    unresolved.prevouts.clear();
    let paid = COIN - mempool_fee(&spending(&[coin(2)], 1));
    let null = OutPoint::null();
    for (arrival, error) in [
        (parent.clone(), AddError::Present),
        (paying(2, &[coin(1)], &[1], 0), AddError::Conflict { outpoint: coin(1).0, spender: parent.txid }),
        (spending(&[unknown], 1), AddError::MissingParent { outpoint: missing }),
        (spending(&[no_such_output], 1), AddError::MissingParent { outpoint: OutPoint { txid: parent.txid, vout: 2 } }),
        (spending(&[coin(4), coin(4)], 1), AddError::DuplicateInput { outpoint: coin(4).0 }),
        (spending(&[(null, coin(1).1)], 1), AddError::Coinbase),
        (short, AddError::Malformed(RawError::UnexpectedEnd { offset: 7 })),
        (unresolved, AddError::PrevoutCount { inputs: 1, prevouts: 0 }),
        (poor, AddError::NegativeFee { spent: 5, paid }),
        (rich, AddError::TooLarge),
    ] {
        assert_eq!(mempool.add(arrival).unwrap_err(), error);
    }
    assert_eq!(mempool.snapshot().sequence(), before.sequence());
    assert_eq!(mempool.snapshot().totals(), before.totals());
}

fn mempool_fee(arrival: &crate::mempool::Arrival) -> u64 {
    Mempool::default().add(arrival.clone()).unwrap().entry.fee
}

#[test]
fn a_prevout_of_the_mempool_is_always_unconfirmed() {
    let mut mempool = Mempool::default();
    let parent = spending(&[coin(1)], 1);
    mempool.add(parent.clone()).unwrap();
    let mut child = spending(&[output(&parent, 0)], 1);
    child.prevouts[0].source = PrevoutSource::Confirmed { height: Height::from(3), coinbase: false };
    let added = mempool.add(child).unwrap();
    assert_eq!(added.entry.prevouts.iter().next().unwrap().source, PrevoutSource::Unconfirmed);
}

#[test]
fn each_arrival_and_each_departure_is_an_event() {
    let mut mempool = Mempool::default();
    let parent = spending(&[coin(1)], 1);
    let child = spending(&[output(&parent, 0)], 1);
    mempool.add(parent.clone()).unwrap();
    mempool.add(child.clone()).unwrap();
    mempool.remove(&parent.txid, Departure::Expired, 9);

    let added = |txid| MempoolEventKind::Added { txid, cause: Cause::New };
    let removed = |txid| MempoolEventKind::Removed { txid, departure: Departure::Expired };
    let expected = [added(parent.txid), added(child.txid), removed(parent.txid), removed(child.txid)];
    let expected: Vec<_> = (1..).zip(expected).map(|(sequence, kind)| MempoolEvent { sequence, kind }).collect();
    assert_eq!(mempool.snapshot().events_after(0).unwrap().collect::<Vec<_>>(), expected);
    assert_eq!(mempool.sequence(), 4);
}

#[test]
fn an_entry_has_the_number_of_its_added_event() {
    let mut mempool = Mempool::new(MempoolLimits { events: 0, ..MempoolLimits::default() });
    let first = mempool.add(spending(&[coin(1)], 1)).unwrap().entry;
    mempool.remove(&first.txid, Departure::Evicted, 0);
    let second = mempool.add(spending(&[coin(2)], 1)).unwrap().entry;
    assert_eq!((first.sequence, second.sequence), (1, 3));
    assert_eq!(mempool.snapshot().by_sequence(3), Some(&second));
}

#[test]
fn a_snapshot_is_reused_until_the_next_change() {
    let mut mempool = Mempool::default();
    mempool.add(spending(&[coin(1)], 1)).unwrap();
    let node = NodeMempool { loaded: true, ..NodeMempool::default() };
    let before = mempool.snapshot();
    mempool.set_node(node);
    assert_eq!((before.node().loaded, mempool.snapshot().node()), (false, node));
}

#[test]
fn script_totals_count_created_and_spent_outputs() {
    let mut mempool = Mempool::default();
    let parent = paying(0, &[coin(1)], &[1, 1, 2, 9], 0); // 250,000 each
    let child = paying(0, &[output(&parent, 0), output(&parent, 2)], &[1], 0);
    mempool.add(parent.clone()).unwrap();
    let alone = mempool.snapshot();
    mempool.add(child.clone()).unwrap();
    let both = mempool.snapshot();

    let coins = |count, value| Coins { count, value };
    let none = ScriptTotals::default();
    let pending = |transactions, pending| ScriptTotals { transactions, pending, ..none };
    assert_eq!(alone.script_totals(&script_hash(1)), pending(1, coins(2, 500_000)));
    assert_eq!(
        alone.script_totals(&script_hash(0)),
        ScriptTotals { transactions: 1, spent_confirmed: coins(1, COIN), ..none }
    );
    assert_eq!(alone.script_totals(&script_hash(9)), none, "it is unspendable");
    assert_eq!(
        both.script_totals(&script_hash(1)),
        ScriptTotals { spent_unconfirmed: coins(1, 250_000), ..pending(2, coins(3, 1_000_000)) }
    );
    assert_eq!(
        both.script_totals(&script_hash(2)),
        ScriptTotals { spent_unconfirmed: coins(1, 250_000), ..pending(2, coins(1, 250_000)) }
    );
    assert_eq!(txids(both.script(&script_hash(1), u64::MAX)), [child.txid, parent.txid]);
    assert_eq!(txids(both.script(&script_hash(1), 2)), [parent.txid]);
    assert_eq!(txids(alone.script(&script_hash(1), 1)), []);

    let (txids, spends) = ([parent.txid], []);
    mempool.connect_block(&ConnectedBlock {
        hash: block(1),
        height: Height::from(101),
        txids: &txids,
        spends: &spends,
        at: 0,
    });
    assert_eq!(
        mempool.snapshot().script_totals(&script_hash(1)),
        ScriptTotals { spent_confirmed: coins(1, 250_000), ..pending(1, coins(1, 500_000)) }
    );
}
