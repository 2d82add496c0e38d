//! The queries of the guide, asked again and again while the chain that they are about goes on.

use bitcoin::Network;
use btcgraph::mempool::Departure;

use super::kept::Kept;
use super::{ask_at, kind, runtime};
use crate::api::documented::{blocks, queries, unconfirmed};
use crate::support::api::Api;
use crate::support::skips::shared_data;

/// As the settings have it by default.
const DEPTH: u32 = 144;
/// How many blocks are there at the beginning.
const BEGIN: usize = 4_300;

/// What the guide does not ask by itself: how the chain was at a height, some of them not yet deep at the beginning. The
/// script is that of the first who was ever paid and paid on.
const OF_THE_PAST: [&str; 6] = [
    "{ chain { supply(at: { height: 4200 }) { circulating immatureCoinbase unspendable } } }",
    "{ chain { range(of: { heights: { from: 3, to: 4150 } }) { txCount fees hashrate utxoDelta } epoch(index: 1) { change } } }",
    "{ chain { supply(at: { time: \"2009-02-14T02:00:00Z\" }) { height circulating } } }",
    "{ headers(range: { heights: { from: 4290, to: 4301 } }) { hash } }",
    "{ blocks(last: 3, range: { times: { to: \"2009-02-14T21:20:00Z\" } }) { totalCount nodes { hash } } }",
    "{ script(electrumScriptHash: \"8131e31b9b2da6ddb7cca24c537869c94320f19e80fc2ee72c9558e5a9296978\") { balance(at: { height: 4280 }) { confirmed immature }
       stats(at: { height: 170 }) { txCount received spentCount } utxos(at: { height: 181 }) { totalValue } } }",
];

#[test]
fn answers_of_the_guide_last_as_their_headers_say() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let (blocks, mut queries, runtime) = (blocks(&data), queries(), runtime());
    assert!(queries.len() > 20, "the guide was read");
    queries.extend(OF_THE_PAST.map(ToOwned::to_owned));
    let mut api = Api::of(Network::Bitcoin, &blocks[..BEGIN]);
    let waiting = unconfirmed(&blocks);
    let (mut kept, mut lasting) = (Kept::default(), [0_usize; 4]);
    let mut ask_all = |api: &Api| {
        for query in &queries {
            let Some((reported, lasts)) = ask_at(DEPTH, api, &runtime, query) else { continue };
            kept.keep(&api.schema, query, lasts, &reported).unwrap();
            lasting[kind(lasts)] += 1;
        }
    };
    ask_all(&api);
    for transaction in &waiting {
        api.arrive([transaction]);
        ask_all(&api);
    }
    api.depart(&waiting[2].compute_txid(), Departure::Expired);
    for start in (BEGIN..blocks.len()).step_by(37) {
        let end = blocks.len().min(start + 37);
        api.change(0, &blocks[start..end]);
        ask_all(&api);
        // out and in again: the same tip, and blocks that were stale meanwhile
        api.change(5, []);
        ask_all(&api);
        api.change(0, &blocks[end - 5..end]);
        ask_all(&api);
    }
    println!("for ever, while the tip, while the Head, a moment: {lasting:?}");
    // of the guide itself nothing does: in these years a coinbase could come again, and one is in each of its answers that
    // would last
    assert!(lasting.iter().all(|count| *count > 0), "{lasting:?}");
}

#[test]
fn an_epoch_lasts_once_its_last_block_is_deep() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let (blocks, runtime) = (blocks(&data), runtime());
    // so many are on top of the last block of the epoch 1
    for (on_top, lasting) in [(DEPTH, 0), (DEPTH - 1, 1), (0, 1)] {
        let count = 2 * 2_016 + usize::try_from(on_top).unwrap();
        let api = Api::of(Network::Bitcoin, &blocks[..count]);
        for (index, lasting) in [(0, 0), (1, lasting), (2, 1), (3, 1)] {
            let query =
                format!("{{ chain {{ epoch(index: {index}) {{ endedAt change stats {{ hashrate }} isComplete }} }} }}");
            let (reported, lasts) = ask_at(DEPTH, &api, &runtime, &query).unwrap();
            assert_eq!(kind(lasts), lasting, "{query} with {on_top} on top: {lasts:?}, {reported}");
        }
    }
}
