//! The hashrate of a range of blocks against that of a node.

use bitcoin::consensus::encode::serialize_hex;
use btcgraph::sim::{Rng, SimChain};
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

/// The node divides by header times and this server by median times past, which pass alike where blocks come at equal intervals
/// and eleven others precede them.
#[test]
fn the_hashrate_of_random_ranges_is_that_of_the_node() {
    let Some(node) = RealNode::start(&[]) else { return };
    for (seed, interval) in [(95, 600), (96, 37)] {
        let mut chain = SimChain::new(seed).with_clock(1_700_000_000, interval);
        for block in chain.mine_empty(200).unwrap() {
            let answer = node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
            assert!(answer == Value::Null || answer == json!("inconclusive"), "{answer}");
        }
        if json!(chain.tip().to_string()) != node.must("getbestblockhash", &[]) {
            // of two chains with the same work the node stays on the first
            node.must("preciousblock", &[json!(chain.tip().to_string())]);
        }
        let (api, mut random) = (Api::of_chain(&chain), Rng::new(seed));
        for _ in 0..40 {
            let from = 13 + u32::try_from(random.below(150)).unwrap();
            let to = from + u32::try_from(random.below(u64::from(200 - from))).unwrap();
            let range = format!("range(of: {{ heights: {{ from: {from}, to: {to} }} }})");
            let ours =
                api.data(&format!("{{ chain {{ {range} {{ hashrate }} }} }}"))["chain"]["range"]["hashrate"].take();
            let theirs = node.must("getnetworkhashps", &[json!(to - from + 1), json!(to)]);
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            assert!((ours - theirs).abs() <= theirs * 1e-9, "{ours} and {theirs} from {from} to {to}");
        }
    }
}
