//! How blocks compare with the projected ones, on average.

use bitcoin::Amount;
use btcgraph::index::ObservedBlock;
use btcgraph::mempool::BlockAudit;
use btcgraph::sim::{Reward, SimChain, Template};
use serde_json::{Value, json};

use super::miners::{OTHER, PAID, mine, ready_api_of};
use crate::support::api::{coinbase_output, spend};

#[test]
fn audits_are_averaged_by_period_and_by_pool() {
    let mut chain = SimChain::new(31);
    let coins: Vec<_> = (0..3).map(|_| coinbase_output(&mine(&mut chain, "", OTHER), 0)).collect();
    chain.mine_empty(98).unwrap();
    let (mut coins, mut api) = (coins.into_iter(), ready_api_of(&chain));
    let observed = |matched: Option<u64>| {
        let audit = |matched_weight| BlockAudit {
            projected_weight: 4_000,
            projected_fees: matched_weight / 10,
            matched_weight,
            ..BlockAudit::default()
        };
        ObservedBlock {
            first_seen: 1_700_000_000,
            audit: matched.map_or_else(Vec::new, |matched| audit(matched).encode()),
        }
    };
    for (tag, owner, matched, pays) in [
        ("/tagged/", OTHER, Some(1_000), true),
        // one that was not compared, between others
        ("", OTHER, None, true),
        ("", PAID, Some(2_000), false),
        ("/tagged/", OTHER, Some(4_000), true),
        // and one that will be stale
        ("/tagged/", OTHER, Some(0), false),
    ] {
        let paid = vec![OTHER.output(Amount::from_sat(4_999_999_000))];
        let transactions = pays.then(|| spend(&chain, OTHER, &[coins.next().unwrap()], paid)).into_iter().collect();
        let reward = Some(Reward::to(owner.script_pubkey()));
        let tag = tag.as_bytes().to_vec();
        api.connect(&chain.mine_template(Template { reward, tag, transactions, ..Template::default() }).unwrap());
        api.observe(&observed(matched));
    }
    api.change(1, []);
    let audits = "audits { blockCount averageMatchRate fees projectedFees }";
    let reported = api.data(&format!(
        "{{ chain {{
            series(range: {{ lastBlocks: 4 }}, group: EPOCH) {{ {audits} }}
            miners(range: {{ lastBlocks: 4 }}) {{ miner {{ slug }} {audits} }}
            blocks: series(range: {{ lastBlocks: 3 }}, group: BLOCK) {{ {audits} }}
            miner(slug: \"tagpool\") {{
              series(range: {{ lastBlocks: 4 }}, group: EPOCH) {{ {audits} }}
              all: minerShare {{ {audits} }} few: minerShare(range: {{ lastBlocks: 3 }}) {{ {audits} }}
            }}
          }} }}"
    ));
    let audits = |blocks: u32, rate: Value, fees: u64, projected: u64| json!({ "blockCount": blocks, "averageMatchRate": rate, "fees": fees.to_string(), "projectedFees": projected.to_string() });
    let of_pool = audits(2, json!(0.625), 2_000, 500);
    assert_eq!(reported["chain"]["series"], json!([{ "audits": audits(3, json!(1.75 / 3.0), 2_000, 700) }]));
    let none = audits(0, Value::Null, 0, 0);
    assert_eq!(
        reported["chain"]["miners"],
        json!([
            { "miner": { "slug": "tagpool" }, "audits": of_pool },
            { "miner": { "slug": "paidpool" }, "audits": audits(1, json!(0.5), 0, 200) },
            { "miner": null, "audits": none },
        ])
    );
    let (paid, last) = (audits(1, json!(0.5), 0, 200), audits(1, json!(1.0), 1_000, 400));
    assert_eq!(reported["chain"]["blocks"], json!([{ "audits": none }, { "audits": paid }, { "audits": last }]));
    let of_miner = json!({
        "series": [{ "audits": of_pool }], "all": { "audits": of_pool }, "few": { "audits": last },
    });
    assert_eq!(reported["chain"]["miner"], of_miner);
}
