//! The queries of the guide, asked again and again while the chain that they are about goes on.

use bitcoin::Network;
use btcgraph::mempool::Departure;

use super::kept::Kept;
use super::{ask_at, kind, runtime};
use crate::documented::{blocks, queries, unconfirmed};
use crate::support::api::Api;
use crate::support::skips::shared_data;

/// As the settings have it by default.
const DEPTH: u32 = 144;
/// How many blocks are there at the beginning.
const BEGIN: usize = 4_300;

#[test]
fn what_the_answers_of_the_guide_are_told_to_last_they_do() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let (blocks, queries, runtime) = (blocks(&data), queries(), runtime());
    assert!(queries.len() > 20, "the guide was read");
    let mut api = Api::of(Network::Bitcoin, &blocks[..BEGIN]);
    let waiting = unconfirmed(&blocks);
    let (mut kept, mut lasting) = (Kept::default(), [0_usize; 4]);
    let mut ask_all = |api: &Api| {
        for query in &queries {
            let Some((said, lasts)) = ask_at(DEPTH, api, &runtime, query) else { continue };
            kept.keep(&api.schema, query, lasts, &said).unwrap();
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
    // none for ever: in these years a coinbase could come again, and there is one in every answer that would be
    assert!(lasting[1..].iter().all(|count| *count > 0), "{lasting:?}");
}
