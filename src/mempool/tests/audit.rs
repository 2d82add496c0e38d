use bitcoin::Txid;
use bitcoin::hashes::Hash;

use super::stage::{coin, output, paying};
use crate::mempool::{Arrival, BlockAudit, Mempool, MempoolLimits, MempoolSnapshot};

fn coinbase() -> Txid {
    Txid::from_byte_array([200; 32])
}

fn mempool_of(arrivals: &[&Arrival]) -> MempoolSnapshot {
    let mut mempool = Mempool::new(MempoolLimits::default());
    for arrival in arrivals {
        mempool.add((*arrival).clone()).unwrap();
    }
    mempool.snapshot()
}

#[test]
fn a_block_is_compared_with_the_projected_one() {
    let seen_at = |arrival: Arrival, first_seen| Arrival { first_seen, ..arrival };
    let mined = paying(5, &[coin(1)], &[1], 0);
    let child = paying(9, &[output(&mined, 0)], &[2], 0);
    let missing = paying(4, &[coin(2)], &[1], 0);
    let fresh = seen_at(paying(4, &[coin(3)], &[1], 0), 1_900);
    let snapshot = mempool_of(&[&mined, &child, &missing, &fresh]);
    let unseen = Txid::from_byte_array([9; 32]);
    let audit = snapshot.audit(&[coinbase(), mined.txid, unseen, child.txid], 2_000);
    let weight = |arrival: &Arrival| snapshot.get(&arrival.txid).unwrap().weight;
    let fee = |arrival: &Arrival| snapshot.get(&arrival.txid).unwrap().fee;
    let all = [&mined, &child, &missing, &fresh];
    assert_eq!(
        audit,
        BlockAudit {
            projected_count: 4,
            projected_weight: all.iter().map(|arrival| weight(arrival)).sum(),
            projected_fees: all.iter().map(|arrival| fee(arrival)).sum(),
            matched_weight: weight(&mined) + weight(&child),
            fresh_weight: weight(&fresh),
            missing: vec![missing.txid],
            fresh: vec![fresh.txid],
            unexpected: vec![],
            unseen: vec![2],
        }
    );
    // all have the same weight, and the fresh one does not count
    assert!((audit.match_rate() - 2.0 / 3.0).abs() < 1e-9, "{}", audit.match_rate());
    assert_eq!(BlockAudit::decode(&audit.encode()).unwrap(), audit);
}

#[test]
fn a_transaction_of_a_later_projected_block_is_unexpected() {
    // 400 outputs of 11 bytes: some 18,000 weight units each, so that one block has no place for all
    let scripts = vec![1; 400];
    let arrivals: Vec<_> =
        (0..250).map(|number| paying(if number == 0 { 0 } else { 2 }, &[coin(number)], &scripts, 0)).collect();
    let snapshot = mempool_of(&arrivals.iter().collect::<Vec<_>>());
    let audit = snapshot.audit(&[coinbase(), arrivals[0].txid, arrivals[1].txid], 2_000);
    assert_eq!(audit.unexpected, [1], "{audit:?}");
    assert!(audit.projected_count < 249 && audit.missing.len() == usize::try_from(audit.projected_count).unwrap() - 1);
    assert_eq!((audit.fresh, audit.unseen), (vec![], vec![]));
}

#[test]
fn nothing_projected_is_a_full_match() {
    let audit = mempool_of(&[]).audit(&[coinbase()], 2_000);
    assert_eq!(audit, BlockAudit::default());
    assert!((audit.match_rate() - 1.0).abs() < 1e-9);
    let fresh = Arrival { first_seen: 1_900, ..paying(4, &[coin(3)], &[1], 0) };
    let audit = mempool_of(&[&fresh]).audit(&[coinbase()], 2_000);
    assert_eq!((audit.matched_weight, audit.fresh.len()), (0, 1));
    assert!((audit.match_rate() - 1.0).abs() < 1e-9, "nothing else was projected");
}

#[test]
fn damaged_rows_are_errors() {
    let audit = BlockAudit { missing: vec![coinbase()], unseen: vec![7], ..BlockAudit::default() };
    let row = audit.encode();
    assert!(BlockAudit::decode(&row[..row.len() - 1]).is_err());
    assert!(BlockAudit::decode(&[&row[..], &[0]].concat()).is_err());
    // a list of txids of 31 bytes
    let mut shorter = row;
    shorter.remove(30);
    shorter[28] = 31;
    assert!(BlockAudit::decode(&shorter).is_err());
}
