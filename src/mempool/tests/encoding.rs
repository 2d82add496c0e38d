use std::sync::Arc;

use proptest::prelude::*;

use super::stage::*;
use crate::chain::{Feerate, Height};
use crate::mempool::{
    Cause, Departed, Departure, Entry, Mempool, MempoolLimits, MempoolSample, NodeMempool, PrevoutSource,
};

/// A parent and a child in the mempool, the child for this cause.
fn family(cause: Cause) -> (Mempool, [Arc<Entry>; 2]) {
    let mut mempool = Mempool::default();
    let (outpoint, mut mined) = coin(7);
    mined.source = PrevoutSource::Confirmed { height: 840_000.into(), coinbase: true };
    let parent = spending(&[coin(1), (outpoint, mined)], 2);
    let mut child = paying(3, &[output(&parent, 1), coin(2)], &[1, 9], 5);
    child.cause = cause;
    let entries = [parent, child].map(|arrival| mempool.add(arrival).unwrap().entry);
    (mempool, entries)
}

#[test]
fn an_encoded_transaction_is_decoded_unchanged() {
    for cause in [Cause::New, Cause::Loaded, Cause::Returned { block: block(3) }] {
        for entry in family(cause).1 {
            assert_eq!(Entry::decode(&entry.encode()).unwrap(), *entry);
        }
    }
}

#[test]
fn an_encoded_departure_is_decoded_with_its_number() {
    let (_, [parent, child]) = family(Cause::New);
    let by = parent.txid;
    let departures = [
        Departure::Mined { block: block(1), height: 9.into() },
        Departure::Replaced { by },
        Departure::Conflicted { by, block: block(2) },
        Departure::Expired,
        Departure::Evicted,
        Departure::ReorgedOut { block: block(3) },
        Departure::Unknown,
    ];
    for departure in departures {
        let whole = Departed { sequence: 11, ..Departed::new(&child, departure, Some(by), 77) };
        let bare = Departed { entry: None, fee: None, along_with: None, ..whole.clone() };
        for departed in [whole, bare] {
            assert_eq!(Departed::decode(11, &departed.encode()).unwrap(), departed);
        }
    }
}

#[test]
fn departures_continue_the_numbers_of_an_earlier_run() {
    let mut before = Mempool::new(MempoolLimits { departed: 2, ..MempoolLimits::default() });
    let [forgotten, gone, back, later] = [1, 2, 3, 4].map(|number| spending(&[coin(number)], 1));
    for arrival in [&forgotten, &gone, &back] {
        before.add(arrival.clone()).unwrap();
        before.remove(&arrival.txid, Departure::Unknown, 3);
    }
    let written: Vec<_> =
        before.snapshot().newest_departed(u64::MAX).rev().map(|departed| (**departed).clone()).collect();
    assert_eq!(written.iter().map(|departed| departed.sequence).collect::<Vec<_>>(), [2, 3]);

    let mut mempool = Mempool::default();
    mempool.load_departed(written.clone());
    mempool.add(back.clone()).unwrap();
    mempool.add(later.clone()).unwrap();
    mempool.remove(&later.txid, Departure::Expired, 4);
    // after a departure older ones are skipped
    mempool.load_departed(written);
    let snapshot = mempool.snapshot();
    let kept: Vec<_> = snapshot.newest_departed(u64::MAX).map(|departed| (departed.sequence, departed.txid)).collect();
    assert_eq!(kept, [(4, later.txid), (2, gone.txid)]);
}

#[test]
fn an_encoded_sample_is_decoded_unchanged() {
    let (mut mempool, [parent, child]) = family(Cause::New);
    mempool.set_node(NodeMempool { min_fee_rate: 1.5, ..NodeMempool::default() });
    let sample = MempoolSample::of(&mempool.snapshot(), Height::from(70_000), 1_030);
    assert_eq!((sample.count, sample.vsize), (2, parent.policy_vsize() + child.policy_vsize()));
    assert_eq!((sample.total_fee, sample.min_fee_rate.to_bits()), (parent.fee + child.fee, 1.5_f64.to_bits()));
    assert!((sample.transactions_per_second * 60.0 - 2.0).abs() < 1e-9);
    // one sat a weight unit and three: together the child pays for its parent, a little over 8 sat/vB
    let bins: Vec<_> = sample.bins.iter().map(|bin| (bin.from_rate.to_sat_per_vb().to_bits(), bin.count)).collect();
    assert_eq!(bins, [(6.0_f64.to_bits(), 2)]);
    assert_eq!(sample.bins[0].cumulative_vsize, sample.vsize);
    assert_eq!(MempoolSample::decode(&sample.encode()).unwrap(), sample);
    // with little in the mempool the node's minimum is enough
    let estimates = sample.estimates.unwrap();
    assert_eq!((estimates.tip.to_u32(), estimates.feerates.map(Feerate::to_sat_per_kvb)), (70_000, [1_500; 3]));

    let older = MempoolSample { estimates: None, ..sample };
    assert_eq!(MempoolSample::decode(&older.encode()).unwrap(), older, "of a version without estimates");
    let mut cut = older.encode();
    cut.extend([2, 1, 1]);
    assert!(MempoolSample::decode(&cut).is_err(), "two numbers are no estimates");
}

proptest! {
    #[test]
    fn other_bytes_are_refused_and_never_panic(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let (mut mempool, [_, child]) = family(Cause::New);
        let departed = Departed::new(&child, Departure::Expired, None, 1);
        let sample = MempoolSample::of(&mempool.snapshot(), Height::from(7), 1_030);
        for mut row in [noise, child.encode(), departed.encode(), sample.encode()] {
            if let Some(changed) = row.len().checked_sub(1).map(|_| at.index(row.len())) {
                row[changed] = byte;
            }
            // a changed amount or time is as good as another; a changed length is not
            let _ = (Entry::decode(&row), Departed::decode(1, &row), MempoolSample::decode(&row));
            row.pop();
            let refused = Entry::decode(&row).is_err() || Entry::decode(&row).unwrap().encode() == row;
            prop_assert!(refused);
        }
    }
}
