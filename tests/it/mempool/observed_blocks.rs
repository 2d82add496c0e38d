//! What is stored when a block arrives: when that was, and how it compares with the projected block.

use std::sync::Arc;

use bitcoin::Weight;
use btcgraph::index::Tip;
use btcgraph::mempool::BlockAudit;
use btcgraph::sim::{Mining, SimNode};
use btcgraph::view::Head;

use super::following::{Following, PATIENCE};
use super::simulated::{now, pay, quiet, send};
use crate::support::bitcoind::wait_for;
use crate::support::indexed::in_memory;

fn mine(sim: &SimNode, max_weight: Option<Weight>) {
    sim.with(|world| world.mine(Mining { max_weight, ..Mining::default() })).unwrap().unwrap();
}

fn is_observed(head: &Head) -> bool {
    head.chain.observed_block(Tip { height: head.tip.height, hash: head.tip.hash }).unwrap().is_some()
}

#[test]
fn a_block_that_arrives_is_compared_with_the_projected_one() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    assert!(!is_observed(&following.assert_catches_up(&sim)), "it was mined before");
    let (dear, cheap) = (pay(&coins[0], 9), pay(&coins[1], 5));
    let (_, left) = (send(&sim, &dear), send(&sim, &cheap));
    wait_for("both transactions", PATIENCE, || {
        let head = following.published.head()?;
        (head.mempool.totals().count == 2 && following.is_mempool_in_sync()).then_some(())
    });
    mine(&sim, Some(dear.weight()));
    let head = following.assert_catches_up(&sim);
    let tip = Tip { height: head.tip.height, hash: head.tip.hash };
    let observed = head.chain.observed_block(tip).unwrap().expect("it is observed");
    assert!(observed.first_seen.abs_diff(now()) < 60, "{observed:?}");
    let audit = BlockAudit::decode(&observed.audit).unwrap();
    let weights = [dear.weight().to_wu(), cheap.weight().to_wu()];
    let expected = BlockAudit {
        projected_count: 2,
        projected_weight: weights.iter().sum(),
        projected_fees: audit.projected_fees,
        matched_weight: weights[0],
        fresh_weight: weights[1],
        fresh: vec![left],
        ..BlockAudit::default()
    };
    assert_eq!(audit, expected);
    let fee = head.mempool.get(&left).unwrap().fee;
    assert!(audit.projected_fees > fee, "{audit:?} is not more than {fee}");
    following.stop();

    // while the server does not run
    mine(&sim, None);
    let following = Following::within(&directory, &sim);
    let head = following.assert_catches_up(&sim);
    assert!(!is_observed(&head));
    assert_eq!(head.chain.observed_block(tip).unwrap(), Some(observed), "it survives a restart");
    following.stop();
}
