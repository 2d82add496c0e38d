//! The networks: their names here and in Bitcoin Core, the port and data directory of a node on each, and their genesis
//! blocks.

use bitcoin::blockdata::constants::{ChainHash, genesis_block as genesis_block_of};
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, Network};

/// Every network, mainnet first.
pub const ALL: [Network; 5] =
    [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];

/// A name that stands for no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownNetwork {
    /// None of the names that [`name`] returns.
    #[error("there is no network named {0:?}: use one of mainnet, testnet3, testnet4, signet, regtest")]
    Name(String),
    /// None of the chain names of Bitcoin Core.
    #[error("the node follows a chain it calls {0:?}, which is none of main, test, testnet4, signet, regtest")]
    CoreChain(String),
}

/// The name of a network in settings, the API, directories and messages.
#[must_use]
pub const fn name(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "mainnet",
        Network::Testnet => "testnet3",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

/// The network of a [`name`], which must be spelled exactly so.
pub fn from_name(text: &str) -> Result<Network, UnknownNetwork> {
    ALL.into_iter().find(|network| name(*network) == text).ok_or_else(|| UnknownNetwork::Name(text.to_owned()))
}

/// The network that Bitcoin Core means by the `chain` of its `getblockchaininfo`, or by `-chain` (Core
/// `util/chaintype.cpp`). Every signet has the same name, whatever its challenge.
pub fn from_core_chain(chain: &str) -> Result<Network, UnknownNetwork> {
    ALL.into_iter()
        .find(|network| network.to_core_arg() == chain)
        .ok_or_else(|| UnknownNetwork::CoreChain(chain.to_owned()))
}

/// The first block of a network. Its coinbase output never entered the UTXO set.
#[must_use]
pub fn genesis_block(network: Network) -> Block {
    genesis_block_of(network)
}

/// The hash of the first block of a network. A custom signet shares it with the public one.
#[must_use]
pub fn genesis_hash(network: Network) -> BlockHash {
    BlockHash::from_byte_array(ChainHash::using_genesis_block_const(network).to_bytes())
}

/// The default port of a node for RPC and REST (Core `chainparamsbase.cpp`).
#[must_use]
pub const fn rpc_port(network: Network) -> u16 {
    match network {
        Network::Bitcoin => 8332,
        Network::Testnet => 18332,
        Network::Testnet4 => 48332,
        Network::Signet => 38332,
        Network::Regtest => 18443,
    }
}

/// The four bytes that precede every message and every block in a blk file, as they stand there (Core
/// `kernel/chainparams.cpp`). A custom signet has other ones.
#[must_use]
pub fn magic(network: Network) -> [u8; 4] {
    network.magic().to_bytes()
}

/// The subdirectory of a node's data directory with this network's cookie and blocks, empty for mainnet (Core
/// `chainparamsbase.cpp`).
#[must_use]
pub const fn core_data_subdirectory(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "",
        Network::Testnet => "testnet3",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::test_data::shared_data;

    #[test]
    fn every_network_is_found_by_its_name_and_by_cores_name() {
        for (network, ours, cores) in [
            (Network::Bitcoin, "mainnet", "main"),
            (Network::Testnet, "testnet3", "test"),
            (Network::Testnet4, "testnet4", "testnet4"),
            (Network::Signet, "signet", "signet"),
            (Network::Regtest, "regtest", "regtest"),
        ] {
            assert_eq!(name(network), ours);
            assert_eq!(from_name(ours), Ok(network));
            assert_eq!(from_core_chain(cores), Ok(network));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for text in ["", "main", "test", "testnet", "bitcoin", "Mainnet", " mainnet", "regtest\n"] {
            let refusal = from_name(text).unwrap_err().to_string();
            assert!(ALL.iter().all(|network| refusal.contains(name(*network))), "{refusal}");
        }
        for chain in ["", "mainnet", "testnet3", "liquidv1"] {
            assert!(from_core_chain(chain).unwrap_err().to_string().contains(chain));
        }
    }

    #[test]
    fn each_network_begins_with_its_own_block() {
        for (network, hash) in [
            (Network::Bitcoin, "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"),
            (Network::Testnet, "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"),
            (Network::Testnet4, "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"),
            (Network::Signet, "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"),
            (Network::Regtest, "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"),
        ] {
            assert_eq!(genesis_hash(network).to_string(), hash);
            assert_eq!(genesis_block(network).block_hash(), genesis_hash(network));
            assert!(genesis_block(network).check_merkle_root());
        }
    }

    #[test]
    fn every_network_has_its_own_parameters() {
        for distinct in [
            ALL.map(|network| rpc_port(network).to_string()),
            ALL.map(|network| format!("{:?}", magic(network))),
            ALL.map(|network| core_data_subdirectory(network).to_owned()),
        ] {
            let mut sorted = distinct.to_vec();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), ALL.len(), "{distinct:?}");
        }
        assert_eq!(magic(Network::Bitcoin), [0xf9, 0xbe, 0xb4, 0xd9]);
        assert_eq!(magic(Network::Testnet4), [0x1c, 0x16, 0x3f, 0x28]);
    }

    #[test]
    fn real_chains_begin_with_their_networks_block() {
        for (chain, network) in [
            ("mainnet-0-4521", Network::Bitcoin),
            ("signet-0-120", Network::Signet),
            ("regtest-kernel-0-206", Network::Regtest),
        ] {
            let Some(blocks) = shared_data::chain(chain, "real_chains_begin_with_their_networks_block") else { return };
            assert_eq!(blocks[0], genesis_block(network));
        }
    }
}
