use bitcoin::{OutPoint, Txid};

use super::stage::{block, coin, output, paying, spending, txids};
use crate::chain::Height;
use crate::mempool::{Arrival, Cause, ConnectedBlock, Departure, Mempool, PrevoutSource};

fn confirmed(height: u32) -> PrevoutSource {
    PrevoutSource::Confirmed { height: Height::from(height), coinbase: false }
}

fn connect(mempool: &mut Mempool, number: u8, txids: &[Txid], spends: &[(OutPoint, Txid)]) -> (Vec<Txid>, Vec<Txid>) {
    let height = Height::from(100 + u32::from(number));
    let effect = mempool.connect_block(&ConnectedBlock { hash: block(number), height, txids, spends, at: 50 });
    (self::txids(&effect.mined), self::txids(&effect.conflicted))
}

fn source(mempool: &Mempool, arrival: &Arrival) -> PrevoutSource {
    mempool.get(&arrival.txid).unwrap().prevouts.iter().next().unwrap().source
}

#[test]
fn a_block_removes_its_transactions_and_confirms_their_outputs() {
    let mut mempool = Mempool::default();
    let parent = spending(&[coin(1)], 1);
    let child = spending(&[output(&parent, 0)], 1);
    let grandchild = spending(&[output(&child, 0)], 1);
    for arrival in [&parent, &child, &grandchild] {
        mempool.add(arrival.clone()).unwrap();
    }
    assert_eq!(connect(&mut mempool, 1, &[parent.txid], &[]), (vec![parent.txid], vec![]));
    assert_eq!((source(&mempool, &child), source(&mempool, &grandchild)), (confirmed(101), PrevoutSource::Unconfirmed));
    assert_eq!(mempool.snapshot().departed(&parent.txid), None, "it did not leave for nothing");
}

#[test]
fn a_block_removes_conflicts_and_their_descendants() {
    let mut mempool = Mempool::default();
    let loser = spending(&[coin(1), coin(2)], 1);
    let above = spending(&[output(&loser, 0)], 1);
    let other = spending(&[coin(3)], 1);
    for arrival in [&loser, &above, &other] {
        mempool.add(arrival.clone()).unwrap();
    }
    let winner = paying(9, &[coin(2)], &[1], 0);
    let effect = connect(&mut mempool, 1, &[winner.txid], &[(coin(2).0, winner.txid)]);
    assert_eq!(effect, (vec![], vec![loser.txid, above.txid]));

    let snapshot = mempool.snapshot();
    assert_eq!(txids(snapshot.by_arrival(..)), [other.txid]);
    let departed = snapshot.departed(&above.txid).unwrap();
    assert_eq!(departed.departure, Departure::Conflicted { by: winner.txid, block: block(1) });
    assert_eq!((departed.along_with, departed.at), (Some(loser.txid), 50));
}

#[test]
fn a_returned_transaction_becomes_a_parent_again() {
    let mut mempool = Mempool::default();
    let parent = paying(1, &[coin(1)], &[1], 0);
    let child = paying(5, &[output(&parent, 0)], &[1], 0);
    mempool.add(parent.clone()).unwrap();
    mempool.add(child.clone()).unwrap();
    connect(&mut mempool, 1, &[parent.txid], &[]);
    let mined = mempool.snapshot();

    let added = mempool.add(Arrival { cause: Cause::Returned { block: block(1) }, ..parent.clone() }).unwrap();
    assert_eq!(added.rejoined, [child.txid]);
    assert_eq!(source(&mempool, &child), PrevoutSource::Unconfirmed);
    let returned = mempool.snapshot();
    assert_eq!(txids(&returned.ancestors(&child.txid).entries), [parent.txid]);
    assert_eq!(txids(&returned.chunk(&parent.txid)), [parent.txid, child.txid], "though the child came first");
    assert_eq!(txids(&mined.chunk(&child.txid)), [child.txid]);
}

#[test]
fn a_transaction_mined_again_confirms_at_its_new_height() {
    let mut mempool = Mempool::default();
    let parent = spending(&[coin(1)], 1);
    let child = spending(&[output(&parent, 0)], 1);
    mempool.add(parent.clone()).unwrap();
    mempool.add(child.clone()).unwrap();
    connect(&mut mempool, 1, &[parent.txid], &[]);
    assert_eq!(connect(&mut mempool, 7, &[parent.txid], &[]), (vec![], vec![]));
    assert_eq!(source(&mempool, &child), confirmed(107));
}

#[test]
fn children_of_a_transaction_outside_the_mempool_are_found() {
    let mut mempool = Mempool::default();
    let spender = spending(&[coin(1)], 1);
    mempool.add(spender.clone()).unwrap();
    assert_eq!(txids(&mempool.children(&coin(1).0.txid)), [spender.txid]);
    assert_eq!(mempool.snapshot().spender(&coin(1).0), Some((spender.txid, 0)));
}
