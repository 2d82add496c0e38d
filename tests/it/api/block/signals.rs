//! Blocks by the bit that their version signals (BIP9).

use bitcoin::block::Version;
use bitcoin::{Block, Network};
use btcgraph::sim::SimChain;

use crate::support::api::Api;

/// A chain with blocks of these versions from height 1 on.
fn chain_of(versions: &[i32]) -> Vec<Block> {
    let mut chain = SimChain::new(70);
    chain.mine_empty(versions.len().try_into().unwrap()).unwrap();
    let mut blocks: Vec<Block> = chain.active_blocks().map(|block| block.as_ref().clone()).collect();
    for height in 1..blocks.len() {
        blocks[height].header.prev_blockhash = blocks[height - 1].block_hash();
        blocks[height].header.version = Version::from_consensus(versions[height - 1]);
    }
    blocks
}

#[test]
fn blocks_are_filtered_by_the_bit_that_they_signal() {
    // the top bits 001 with the bits 0, 2, none and 28; then top bits of other kinds with the bits 0 and 2
    let blocks = chain_of(&[0x2000_0001, 0x2000_0004, 0x2000_0000, 0x3000_0000, 5, 0x6000_0005, -1]);
    let api = Api::of(Network::Regtest, &blocks);
    for (bit, expected) in [(0, vec![1]), (1, vec![]), (2, vec![2]), (28, vec![4])] {
        let reported =
            api.data(&format!("{{ blocks(filter: {{ signalsBit: {bit} }}) {{ nodes {{ height }} totalCount }} }}"));
        let heights = reported["blocks"]["nodes"].as_array().unwrap().iter();
        let heights: Vec<_> = heights.map(|block| block["height"].as_i64().unwrap()).collect();
        assert_eq!(heights, expected, "bit {bit}");
        assert_eq!(reported["blocks"]["totalCount"], serde_json::Value::Null, "bit {bit}");
    }
}
