use bitcoin::Txid;

use super::stage::{TIP, block, coin, output, paying, spending, txids};
use crate::chain::Height;
use crate::mempool::{
    Arrival, Cause, ConnectedBlock, Departed, Departure, Mempool, MempoolEventKind, MempoolLimits, MempoolSnapshot,
};

fn replace(mempool: &mut Mempool, old: &Arrival, new: &Arrival) {
    mempool.remove(&old.txid, Departure::Replaced { by: new.txid }, 5);
    mempool.add(new.clone()).unwrap();
}

fn replaces(snapshot: &MempoolSnapshot, txid: &Txid) -> Vec<Txid> {
    snapshot.replaces(txid).map(|departed| departed.txid).collect()
}

fn roots(snapshot: &MempoolSnapshot) -> Vec<Txid> {
    let replacing = snapshot.replacing(..).map(|(_, txid)| txid);
    replacing.filter(|txid| snapshot.replaced_by(txid).is_none()).collect()
}

#[test]
fn replacements_are_a_tree() {
    let mut mempool = Mempool::default();
    let [first, second, third] = [1, 2, 3].map(|rate| paying(rate, &[coin(1)], &[1], 0));
    let above = spending(&[output(&first, 0)], 1);
    mempool.add(first.clone()).unwrap();
    mempool.add(above.clone()).unwrap();
    replace(&mut mempool, &first, &second);
    replace(&mut mempool, &second, &third);
    let [other, newer] = [1, 2].map(|rate| paying(rate, &[coin(2)], &[1], 0));
    mempool.add(other.clone()).unwrap();
    replace(&mut mempool, &other, &newer);

    let snapshot = mempool.snapshot();
    assert_eq!(roots(&snapshot), [newer.txid, third.txid]);
    assert_eq!(replaces(&snapshot, &third.txid), [second.txid]);
    assert_eq!(replaces(&snapshot, &second.txid), [first.txid], "its descendants were not replaced directly");
    assert_eq!(snapshot.replaced_by(&first.txid), Some(second.txid));
    assert_eq!(snapshot.replaced_by(&above.txid), None);
    assert_eq!(snapshot.departed(&above.txid).unwrap().along_with, Some(first.txid));
}

#[test]
fn a_replacement_of_several_is_one_root() {
    let mut mempool = Mempool::default();
    let [one, two] = [1, 2].map(|number| spending(&[coin(number)], 1));
    let both = spending(&[coin(1), coin(2)], 1);
    mempool.add(one.clone()).unwrap();
    mempool.add(two.clone()).unwrap();
    mempool.remove(&one.txid, Departure::Replaced { by: both.txid }, 5);
    replace(&mut mempool, &two, &both);
    assert_eq!(roots(&mempool.snapshot()), [both.txid]);
    assert_eq!(replaces(&mempool.snapshot(), &both.txid), [one.txid, two.txid]);

    mempool.remove(&both.txid, Departure::Evicted, 6);
    mempool.add(one.clone()).unwrap();
    assert_eq!(roots(&mempool.snapshot()), [both.txid], "it replaced the other still");
    mempool.add(two).unwrap();
    assert!(roots(&mempool.snapshot()).is_empty(), "all that it replaced is back");
}

#[test]
fn a_transaction_that_arrives_again_is_not_departed() {
    let mut mempool = Mempool::default();
    let arrival = spending(&[coin(1)], 1);
    mempool.add(arrival.clone()).unwrap();
    mempool.remove(&arrival.txid, Departure::Evicted, 77);
    let left = mempool.snapshot();
    let added = mempool.add(arrival.clone()).unwrap();
    assert_eq!(added.departed.unwrap().at, 77);
    assert_eq!(mempool.snapshot().departed(&arrival.txid), None);
    assert_eq!(left.departed(&arrival.txid).unwrap().entry.as_ref().unwrap().raw, arrival.raw);
}

#[test]
fn the_oldest_departures_lose_their_bytes_before_eviction() {
    let arrivals = [1, 2, 3, 4].map(|number| spending(&[coin(number)], 1));
    let size = arrivals[0].raw.len();
    let mut mempool =
        Mempool::new(MempoolLimits { departed: 3, departed_bytes: size * 5 / 2, ..MempoolLimits::default() });
    for arrival in &arrivals {
        mempool.add(arrival.clone()).unwrap();
        mempool.remove(&arrival.txid, Departure::Expired, 1);
    }
    let snapshot = mempool.snapshot();
    let kept =
        arrivals.each_ref().map(|arrival| snapshot.departed(&arrival.txid).map(|departed| departed.entry.is_some()));
    assert_eq!(kept, [None, Some(false), Some(true), Some(true)]);
    assert_eq!(snapshot.departed_len(), 3);
    let newest: Vec<_> = snapshot.newest_departed(u64::MAX).map(|departed| departed.txid).collect();
    assert_eq!(newest, [arrivals[3].txid, arrivals[2].txid, arrivals[1].txid]);
}

#[test]
fn loading_departures_skips_transactions_in_the_mempool() {
    let mut before = Mempool::default();
    let [gone, back] = [1, 2].map(|number| spending(&[coin(number)], 1));
    for arrival in [&gone, &back] {
        before.add(arrival.clone()).unwrap();
        before.remove(&arrival.txid, Departure::Unknown, 3);
    }
    let kept: Vec<_> = before.snapshot().newest_departed(u64::MAX).rev().map(|departed| (**departed).clone()).collect();

    let mut mempool = Mempool::default();
    mempool.add(back.clone()).unwrap();
    mempool.record_departed(kept);
    let snapshot = mempool.snapshot();
    assert_eq!(snapshot.departed(&gone.txid).unwrap().departure, Departure::Unknown);
    assert_eq!((snapshot.departed(&back.txid), txids(snapshot.by_arrival(..))), (None, vec![back.txid]));
    assert_eq!(snapshot.sequence(), 1, "only the arrival is an event");
}

#[test]
fn a_transaction_that_arrives_again_keeps_its_first_sight() {
    for (left, back, first) in [(5, 9, 5), (9, 5, 5)] {
        let mut mempool = Mempool::default();
        let arrival = spending(&[coin(1)], 1);
        mempool.add(Arrival { first_seen: left, ..arrival.clone() }).unwrap();
        mempool.remove(&arrival.txid, Departure::Unknown, 20);
        let cause = Cause::Returned { block: block(1) };
        let added = mempool.add(Arrival { first_seen: back, cause, ..arrival }).unwrap();
        assert_eq!(added.entry.first_seen, first);
    }
}

/// The events after this number.
fn since(mempool: &mut Mempool, sequence: u64) -> Vec<MempoolEventKind> {
    mempool.snapshot().events_after(sequence).unwrap().map(|event| event.kind).collect()
}

fn added(arrival: &Arrival) -> MempoolEventKind {
    MempoolEventKind::Added { txid: arrival.txid, cause: Cause::New }
}

fn corrected(arrival: &Arrival, departure: Departure) -> MempoolEventKind {
    MempoolEventKind::Corrected { txid: arrival.txid, departure }
}

/// A payment, one of its output and one of that one's, and a transaction that conflicts with the first.
fn chain_and_conflict() -> ([Arrival; 3], Arrival) {
    let first = spending(&[coin(1), coin(2)], 1);
    let above = spending(&[output(&first, 0)], 1);
    let top = spending(&[output(&above, 0)], 1);
    ([first, above, top], spending(&[coin(2)], 1))
}

/// A mempool with these, the first of which left with its descendants.
fn without(arrivals: &[Arrival], departure: Departure) -> Mempool {
    let mut mempool = Mempool::default();
    for arrival in arrivals {
        mempool.add(arrival.clone()).unwrap();
    }
    mempool.remove(&arrivals[0].txid, departure, 5);
    mempool
}

/// Why each left, and with which ancestor.
fn departures(snapshot: &MempoolSnapshot, arrivals: &[Arrival]) -> Vec<(Departure, Option<Txid>)> {
    let departed = arrivals.iter().map(|arrival| snapshot.departed(&arrival.txid).unwrap());
    departed.map(|departed| (departed.departure, departed.along_with)).collect()
}

#[test]
fn a_conflict_that_arrives_later_explains_a_departure() {
    let (left, conflict) = chain_and_conflict();
    let mut mempool = without(&left, Departure::Unknown);
    let before = mempool.sequence();
    mempool.add(conflict.clone()).unwrap();
    let replaced = Departure::Replaced { by: conflict.txid };
    let mut events: Vec<_> = left.iter().map(|arrival| corrected(arrival, replaced)).collect();
    events.push(added(&conflict));
    assert_eq!(since(&mut mempool, before), events);

    let snapshot = mempool.snapshot();
    let with_the_first = (replaced, Some(left[0].txid));
    assert_eq!(departures(&snapshot, &left), [(replaced, None), with_the_first, with_the_first]);
    assert_eq!((replaces(&snapshot, &conflict.txid), roots(&snapshot)), (vec![left[0].txid], vec![conflict.txid]));
    let kept: Vec<_> =
        snapshot.newest_departed(u64::MAX).rev().map(|departed| (departed.sequence, departed.at)).collect();
    assert_eq!(kept, [(4, 5), (5, 5), (6, 5)], "a corrected record has a new number");

    // a replacement of that transaction does not change the other records
    let next = paying(9, &[coin(2)], &[1], 0);
    replace(&mut mempool, &conflict, &next);
    assert_eq!(departures(&mempool.snapshot(), &left), [(replaced, None), with_the_first, with_the_first]);
    assert_eq!(roots(&mempool.snapshot()), [next.txid]);
}

#[test]
fn a_departure_with_a_known_cause_is_not_corrected() {
    let (left, conflict) = chain_and_conflict();
    for departure in [
        Departure::Expired,
        Departure::Evicted,
        Departure::ReorgedOut { block: block(1) },
        Departure::Conflicted { by: coin(9).0.txid, block: block(1) },
        Departure::Replaced { by: coin(9).0.txid },
    ] {
        let mut mempool = without(&left, departure);
        let before = mempool.sequence();
        mempool.add(conflict.clone()).unwrap();
        assert_eq!(since(&mut mempool, before), [added(&conflict)]);
        assert_eq!(departures(&mempool.snapshot(), &left)[0], (departure, None));
    }
}

#[test]
fn a_block_with_a_conflict_explains_a_departure() {
    let (left, conflict) = chain_and_conflict();
    let mut mempool = without(&left, Departure::Unknown);
    let (before, height) = (mempool.sequence(), Height::from(TIP + 1));
    assert!(mempool.is_empty() && mempool.awaits_blocks());
    let connect = |mempool: &mut Mempool, number, mined: &Arrival, spent| {
        let (hash, txids, spends) = (block(number), [mined.txid], [(spent, mined.txid)]);
        mempool.connect_block(&ConnectedBlock { hash, height, txids: &txids, spends: &spends, at: 7 })
    };
    // a departed transaction may be mined
    connect(&mut mempool, 1, &left[0], coin(2).0);
    assert_eq!(since(&mut mempool, before), []);
    let effect = connect(&mut mempool, 2, &conflict, coin(2).0);
    assert!(effect.mined.is_empty() && effect.conflicted.is_empty(), "nothing was there");
    let conflicted = Departure::Conflicted { by: conflict.txid, block: block(2) };
    assert_eq!(since(&mut mempool, before), left.each_ref().map(|arrival| corrected(arrival, conflicted)));
    assert!(!mempool.awaits_blocks());
}

#[test]
fn a_descendant_that_left_first_is_explained_with_its_parent() {
    let (all, conflict) = chain_and_conflict();
    let [first, above, top] = &all;
    let mut mempool = Mempool::default();
    for arrival in &all {
        mempool.add(arrival.clone()).unwrap();
    }
    // the node announces both departures, and the conflict arrives in between
    mempool.remove(&above.txid, Departure::Unknown, 5);
    let before = mempool.sequence();
    replace(&mut mempool, first, &conflict);
    let replaced = Departure::Replaced { by: conflict.txid };
    let removed = MempoolEventKind::Removed { txid: first.txid, departure: replaced };
    assert_eq!(
        since(&mut mempool, before),
        [removed, corrected(above, replaced), corrected(top, replaced), added(&conflict)]
    );
    let with_the_first = (replaced, Some(first.txid));
    assert_eq!(departures(&mempool.snapshot(), &all), [(replaced, None), with_the_first, with_the_first]);
}

#[test]
fn a_conflict_with_a_descendant_does_not_explain_its_parent() {
    let parent = spending(&[coin(1)], 1);
    let child = spending(&[output(&parent, 0), coin(2)], 1);
    let top = spending(&[output(&child, 0)], 1);
    let left = [parent, child, top];
    let mut mempool = without(&left, Departure::Unknown);
    let conflict = spending(&[coin(2)], 1);
    mempool.add(conflict.clone()).unwrap();
    let replaced = Departure::Replaced { by: conflict.txid };
    assert_eq!(
        departures(&mempool.snapshot(), &left),
        [(Departure::Unknown, None), (replaced, None), (replaced, Some(left[1].txid))]
    );
}

#[test]
fn a_transaction_that_arrived_again_is_replaced_as_usual() {
    let (left, conflict) = chain_and_conflict();
    let mut mempool = without(&left, Departure::Unknown);
    mempool.add(left[0].clone()).unwrap();
    let before = mempool.sequence();
    replace(&mut mempool, &left[0], &conflict);
    let replaced = Departure::Replaced { by: conflict.txid };
    let removed = MempoolEventKind::Removed { txid: left[0].txid, departure: replaced };
    // its descendants did not arrive again
    let corrections = left[1..].iter().map(|arrival| corrected(arrival, replaced));
    let expected: Vec<_> = std::iter::once(removed).chain(corrections).chain([added(&conflict)]).collect();
    assert_eq!(since(&mut mempool, before), expected);
}

#[test]
fn a_departure_from_disk_is_explained_while_it_has_its_bytes() {
    let (left, conflict) = chain_and_conflict();
    let before = without(&left[..1], Departure::Unknown).snapshot();
    let written = before.departed(&left[0].txid).unwrap().encode();
    for (departed_bytes, is_explained) in [(1_000, true), (0, false)] {
        let mut mempool = Mempool::new(MempoolLimits { departed_bytes, ..MempoolLimits::default() });
        mempool.load_departed([Departed::decode(7, &written).unwrap()]);
        assert_eq!(mempool.awaits_blocks(), is_explained, "the index of spends has no departure without bytes");
        mempool.add(conflict.clone()).unwrap();
        let snapshot = mempool.snapshot();
        let departed = snapshot.departed(&left[0].txid).unwrap();
        let replaced = (Departure::Replaced { by: conflict.txid }, 8);
        let expected = if is_explained { replaced } else { (Departure::Unknown, 7) };
        assert_eq!((departed.departure, departed.sequence), expected);
    }
}

#[test]
fn an_evicted_departure_is_not_explained() {
    let mut mempool = Mempool::new(MempoolLimits { departed: 1, ..MempoolLimits::default() });
    let left = [1, 2].map(|number| spending(&[coin(number)], 1));
    for arrival in &left {
        mempool.add(arrival.clone()).unwrap();
        mempool.remove(&arrival.txid, Departure::Unknown, 5);
    }
    let before = mempool.sequence();
    let conflict = paying(9, &[coin(1)], &[1], 0);
    mempool.add(conflict.clone()).unwrap();
    assert_eq!(since(&mut mempool, before), [added(&conflict)]);
}
