//! How blocks compare with the projected ones, on average.

use btcgraph::index::ObservedBlock;
use btcgraph::mempool::BlockAudit;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use super::miners::{OTHER, PAID, mine, ready_api_of};

#[test]
fn audits_are_averaged_by_period_and_by_pool() {
    let mut chain = SimChain::new(31);
    chain.mine_empty(3).unwrap();
    let mut api = ready_api_of(&chain);
    let observed = |matched: Option<u64>| {
        let audit = |matched_weight| BlockAudit { projected_weight: 4_000, matched_weight, ..BlockAudit::default() };
        ObservedBlock {
            first_seen: 1_700_000_000,
            audit: matched.map_or_else(Vec::new, |matched| audit(matched).encode()),
        }
    };
    for (tag, owner, matched) in [
        ("/tagged/", OTHER, Some(1_000)),
        ("", PAID, Some(2_000)),
        ("/tagged/", OTHER, Some(4_000)),
        ("", OTHER, None),
        // and one that will be stale
        ("/tagged/", OTHER, Some(0)),
    ] {
        api.connect(&mine(&mut chain, tag, owner));
        api.observe(&observed(matched));
    }
    api.change(1, []);
    let said = api.data(
        "{ chain {
            series(range: { lastBlocks: 4 }, group: EPOCH) { audits { blockCount averageMatchRate } }
            miners(range: { lastBlocks: 4 }) { miner { slug } audits { blockCount averageMatchRate } }
            blocks: series(range: { lastBlocks: 2 }, group: BLOCK) { audits { blockCount averageMatchRate } }
            miner(slug: \"tagpool\") {
              series(range: { lastBlocks: 4 }, group: EPOCH) { audits { blockCount averageMatchRate } }
            }
          } }",
    );
    let audits = |blocks: u32, rate: Value| json!({ "blockCount": blocks, "averageMatchRate": rate });
    let of_pool = audits(2, json!(0.625));
    assert_eq!(said["chain"]["series"], json!([{ "audits": audits(3, json!(1.75 / 3.0)) }]));
    assert_eq!(
        said["chain"]["miners"],
        json!([
            { "miner": { "slug": "tagpool" }, "audits": of_pool },
            { "miner": { "slug": "paidpool" }, "audits": audits(1, json!(0.5)) },
            { "miner": null, "audits": audits(0, Value::Null) },
        ])
    );
    assert_eq!(
        said["chain"]["blocks"],
        json!([{ "audits": audits(1, json!(1.0)) }, { "audits": audits(0, Value::Null) }])
    );
    assert_eq!(said["chain"]["miner"]["series"], json!([{ "audits": of_pool }]));
}
