//! Four blocks of mainnet, from the year of the first pools to taproot: their fees, feerates and addresses, against figures that
//! were computed without this crate::. Their pools stand with the tests of the table of pools, and the types of all outputs with
//! those of scripts.

use std::collections::BTreeSet;

use bitcoin::{Network, Weight};

use super::super::address::address_of;
use super::super::feerate::Feerate;
use super::shared_data;

/// What a block comes to.
struct Figures {
    name: &'static str,
    /// Transactions without the coinbase.
    paying: usize,
    /// The sum of the fees, the lowest and the highest, in satoshis.
    fees: (u64, u64, u64),
    /// The lowest and the highest feerate, in satoshis per 1,000 vbytes, each with the weight of its transaction.
    feerates: [(u64, u64); 2],
    /// The weight of all that pay.
    weight: u64,
    /// Some of the addresses that it pays.
    addresses: &'static [&'static str],
}

const BLOCKS: [Figures; 4] = [
    // the payment for two pizzas
    Figures {
        name: "full_57042",
        paying: 1,
        fees: (99_000_000, 99_000_000, 99_000_000),
        feerates: [(4_191_363, 94_480); 2],
        weight: 94_480,
        addresses: &["17SkEw2md5avVNyYgj6RiXuQKNwkXaxFyQ"],
    },
    // only a coinbase, which pays a key without an address
    Figures { name: "full_91721", paying: 0, fees: (0, 0, 0), feerates: [(0, 0); 2], weight: 0, addresses: &[] },
    Figures {
        name: "full_209999",
        paying: 456,
        fees: (1_356_295_554, 0, 700_000_000),
        feerates: [(0, 1_032), (448_430_493, 892)],
        weight: 795_704,
        addresses: &["1NEU779yvLaFk39k4Q3QdLjwpWTdWCbzqL"],
    },
    Figures {
        name: "full_757738",
        paying: 62,
        fees: (107_042, 188, 23_201),
        feerates: [(1_034, 727), (100_135, 767)],
        weight: 57_424,
        addresses: &[
            "1KFHE7w8BhaENAswwryaoccDb6qcT6DbYY",
            "3JYUHejLGKq33cdpcrCPrFQqKC8bmvBzBX",
            "bc1qg3cfup3lkekhswp35y3h5cz8r4aj500q8fqsqr6wm8sartaptyzqh90ql8",
            "bc1qgtxzthrtfnlwhyehnjmymfa0gaq63wp8lyhprt",
            "bc1pvunjlxpqtvwn6jxlezayfea8kjstv3c6jfewnmmjcrvk5shm07as5deft2",
        ],
    },
];

#[test]
fn real_blocks_have_their_fees_feerates_and_addresses() {
    for expected in BLOCKS {
        let name = expected.name;
        let test = "real_blocks_have_their_fees_feerates_and_addresses";
        let Some(block) = shared_data::full_block(name, test) else { return };
        let positions = 1..block.transactions.len();
        assert_eq!(positions.len(), expected.paying, "{name}");
        let fees: Vec<u64> = positions.clone().map(|position| block.fee(position).to_sat()).collect();
        let lowest = fees.iter().min().copied().unwrap_or_default();
        let highest = fees.iter().max().copied().unwrap_or_default();
        assert_eq!((fees.iter().sum::<u64>(), lowest, highest), expected.fees, "{name}");
        let weights: Vec<Weight> = block.transactions.iter().skip(1).map(bitcoin::Transaction::weight).collect();
        assert_eq!(weights.iter().map(|weight| weight.to_wu()).sum::<u64>(), expected.weight, "{name}");
        let feerate = |(position, weight): (usize, &Weight)| {
            (Feerate::of(block.fee(position), *weight).to_sat_per_kvb(), weight.to_wu())
        };
        let mut feerates: Vec<_> = positions.zip(&weights).map(feerate).collect();
        feerates.sort_unstable();
        let ends = [feerates.first(), feerates.last()].map(|end| end.copied().unwrap_or_default());
        assert_eq!(ends, expected.feerates, "{name}");
        let outputs = block.transactions.iter().flat_map(|transaction| &transaction.output);
        let paid = outputs.filter_map(|output| address_of(&output.script_pubkey, Network::Bitcoin));
        let paid: BTreeSet<String> = paid.collect();
        assert!(expected.addresses.iter().all(|address| paid.contains(*address)), "{name}: {paid:?}");
        assert_eq!(paid.is_empty(), expected.addresses.is_empty(), "{name}");
    }
}
