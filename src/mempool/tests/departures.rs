use bitcoin::Txid;

use super::stage::{block, coin, output, paying, spending, txids};
use crate::mempool::{Arrival, Cause, Departure, Mempool, MempoolLimits, MempoolSnapshot};

fn replace(mempool: &mut Mempool, old: &Arrival, new: &Arrival) {
    mempool.remove(&old.txid, Departure::Replaced { by: new.txid }, 5);
    mempool.add(new.clone()).unwrap();
}

fn replaces(snapshot: &MempoolSnapshot, txid: &Txid) -> Vec<Txid> {
    snapshot.replaces(txid).map(|departed| departed.txid).collect()
}

fn roots(snapshot: &MempoolSnapshot) -> Vec<Txid> {
    let replacing = snapshot.replacing(u64::MAX).map(|(_, txid)| txid);
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
    assert_eq!(replaces(&snapshot, &second.txid), [first.txid], "what stood on it was not replaced itself");
    assert_eq!(snapshot.replaced_by(&first.txid), Some(second.txid));
    assert_eq!(snapshot.replaced_by(&above.txid), None);
    assert_eq!(snapshot.departed(&above.txid).unwrap().along_with, Some(first.txid));
}

#[test]
fn what_replaces_several_is_one_root() {
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
fn what_arrives_again_is_no_longer_departed() {
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
fn the_oldest_departures_lose_their_bytes_first_and_then_are_forgotten() {
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
fn departures_of_an_earlier_run_are_taken_up_but_for_what_is_back() {
    let mut before = Mempool::default();
    let [gone, back] = [1, 2].map(|number| spending(&[coin(number)], 1));
    for arrival in [&gone, &back] {
        before.add(arrival.clone()).unwrap();
        before.remove(&arrival.txid, Departure::Unknown, 3);
    }
    let kept: Vec<_> = before.snapshot().newest_departed(u64::MAX).rev().map(|departed| (**departed).clone()).collect();

    let mut mempool = Mempool::default();
    mempool.add(back.clone()).unwrap();
    mempool.restore_departed(kept);
    let snapshot = mempool.snapshot();
    assert_eq!(snapshot.departed(&gone.txid).unwrap().departure, Departure::Unknown);
    assert_eq!((snapshot.departed(&back.txid), txids(snapshot.by_arrival(..))), (None, vec![back.txid]));
    assert_eq!(snapshot.sequence(), 1, "only the arrival is an event");
}

#[test]
fn what_comes_back_was_first_seen_when_it_was_seen_the_earliest() {
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
