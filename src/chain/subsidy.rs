//! The new coins that a block may create: the subsidy, its halvings, and how much has been issued.
//!
//! The rule is Core's `GetBlockSubsidy` (`validation.cpp`): 50 BTC, halved and rounded down to the satoshi every
//! [`halving_interval`] blocks. The index adds up what miners claimed, and what was lost.

use bitcoin::{Amount, Network};

use super::Height;

/// The subsidy of the first halving epoch.
const FIRST: Amount = Amount::from_int_btc(50);

/// The first epoch whose subsidy is zero: 5,000,000,000 sat halved 33 times, rounded down.
const FIRST_EPOCH_WITHOUT_SUBSIDY: u32 = 33;

/// Blocks between two halvings: 210,000, and 150 on regtest (Core `kernel/chainparams.cpp`).
#[must_use]
pub const fn halving_interval(network: Network) -> u32 {
    match network {
        Network::Bitcoin | Network::Testnet | Network::Testnet4 | Network::Signet => 210_000,
        Network::Regtest => 150,
    }
}

/// How many halvings came before or with the block at this height (0 from genesis on).
#[must_use]
pub const fn halving_epoch(height: Height, network: Network) -> u32 {
    height.to_u32() / halving_interval(network)
}

/// The lowest height above this one at which the subsidy is halved, `None` once it is zero.
#[must_use]
pub fn next_halving(height: Height, network: Network) -> Option<Height> {
    let next = halving_epoch(height, network).saturating_add(1);
    // the last halving reduces 1 sat to zero; up to there the product stays far below the maximum of u32
    (next <= FIRST_EPOCH_WITHOUT_SUBSIDY).then(|| Height::from(next * halving_interval(network)))
}

/// The most that the coinbase of the block at this height may claim beyond the block's fees.
#[must_use]
pub fn subsidy(height: Height, network: Network) -> Amount {
    of_epoch(halving_epoch(height, network))
}

/// The sum of the subsidies of all blocks from genesis up to and including this height.
///
/// This is what the schedule allows. It includes the genesis block, and it also includes coins that miners left
/// unclaimed or that can never be spent.
#[must_use]
pub fn issued(height: Height, network: Network) -> Amount {
    let interval = halving_interval(network);
    let epoch = halving_epoch(height, network);
    let complete: u64 =
        (0..epoch.min(FIRST_EPOCH_WITHOUT_SUBSIDY)).map(|epoch| of_epoch(epoch).to_sat() * u64::from(interval)).sum();
    let blocks_of_this_epoch = u64::from(height.to_u32() % interval) + 1;
    Amount::from_sat(complete + of_epoch(epoch).to_sat() * blocks_of_this_epoch)
}

fn of_epoch(epoch: u32) -> Amount {
    Amount::from_sat(FIRST.to_sat().checked_shr(epoch).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::test_data::shared_data;

    const NETWORKS: [Network; 5] =
        [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];

    fn sat_at(height: u32, network: Network) -> u64 {
        subsidy(Height::from(height), network).to_sat()
    }

    #[test]
    fn the_subsidy_halves_at_the_interval_of_the_network() {
        for (height, network, sat) in [
            (0, Network::Bitcoin, 5_000_000_000),
            (209_999, Network::Bitcoin, 5_000_000_000),
            (210_000, Network::Bitcoin, 2_500_000_000),
            (420_000, Network::Testnet4, 1_250_000_000),
            (840_000, Network::Bitcoin, 312_500_000),
            (149, Network::Regtest, 5_000_000_000),
            (150, Network::Regtest, 2_500_000_000),
            (209_999, Network::Signet, 5_000_000_000),
            (210_000 * 33 - 1, Network::Bitcoin, 1),
            (210_000 * 33, Network::Bitcoin, 0),
            (u32::MAX, Network::Bitcoin, 0),
            (u32::MAX, Network::Regtest, 0),
        ] {
            assert_eq!(sat_at(height, network), sat, "at {height} on {network}");
        }
    }

    #[test]
    fn the_next_halving_is_the_next_multiple_of_the_interval() {
        for (height, network, next) in [
            (0, Network::Bitcoin, Some(210_000)),
            (209_999, Network::Bitcoin, Some(210_000)),
            (210_000, Network::Bitcoin, Some(420_000)),
            (149, Network::Regtest, Some(150)),
            (210_000 * 33 - 1, Network::Bitcoin, Some(210_000 * 33)),
            (210_000 * 33, Network::Bitcoin, None),
            (u32::MAX, Network::Regtest, None),
        ] {
            assert_eq!(next_halving(Height::from(height), network), next.map(Height::from), "after {height}");
        }
    }

    #[test]
    fn every_satoshi_that_will_ever_be_issued() {
        for network in [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet] {
            assert_eq!(issued(Height::from(u32::MAX), network).to_sat(), 2_099_999_997_690_000);
        }
        assert_eq!(issued(Height::from(u32::MAX), Network::Regtest).to_sat(), 2_099_999_997_690_000 / 210_000 * 150);
    }

    #[test]
    fn issued_agrees_with_core_at_a_mainnet_height() {
        // total_amount + total_unspendable_amount of gettxoutsetinfo at 915,117
        let core = Amount::from_sat(1_992_201_367_356_559 + 23_007_643_441);
        assert_eq!(issued(Height::from(915_117), Network::Bitcoin), core);
    }

    #[test]
    fn issued_is_the_sum_of_the_subsidies() {
        for network in NETWORKS {
            let mut sum = Amount::ZERO;
            for height in (0..430_000).map(Height::from) {
                sum += subsidy(height, network);
                assert_eq!(issued(height, network), sum, "at {height} on {network}");
            }
        }
    }

    #[test]
    fn a_real_coinbase_claims_the_subsidy_and_the_fees() {
        for name in shared_data::FULL_BLOCKS {
            let Some(block) = shared_data::full_block(name, "a_real_coinbase_claims_the_subsidy_and_the_fees") else {
                return;
            };
            let fees: Amount = (1..block.transactions.len()).map(|position| block.fee(position)).sum();
            let claimed: Amount = block.transactions[0].output.iter().map(|output| output.value).sum();
            assert_eq!(claimed, subsidy(Height::from(block.height), Network::Bitcoin) + fees, "in {name}");
        }
    }

    proptest! {
        #[test]
        fn each_block_issues_its_own_subsidy(height in 1_u32.., network in prop::sample::select(&NETWORKS[..])) {
            let issued_here = issued(Height::from(height), network) - issued(Height::from(height - 1), network);
            prop_assert_eq!(issued_here, subsidy(Height::from(height), network));
        }
    }
}
