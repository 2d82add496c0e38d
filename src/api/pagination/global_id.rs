//! Global ids: typed, and made of content, never of a height.

use std::fmt;
use std::str::FromStr;

use bitcoin::hashes::sha256;
use bitcoin::{BlockHash, Network, OutPoint, Txid};

use crate::api::error::ApiError;
use crate::chain::{address_of, parse_address};

/// How much of an id that is refused its error quotes, in characters.
const QUOTED: usize = 250;

/// What an id names, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobalId {
    Block(BlockHash),
    /// With the block that holds it, if it is meant as the copy that a later one with the same txid replaced (BIP30).
    Transaction(Txid, Option<BlockHash>),
    /// With the block that holds its transaction, likewise.
    Output(OutPoint, Option<BlockHash>),
    /// As it is usually written.
    Address(String),
    /// By the block that was the newest after it.
    Reorg(BlockHash),
    /// By the SHA-256 of the script.
    Script(sha256::Hash),
    Chain,
    Mempool,
    Server,
}

impl GlobalId {
    /// What this id names on this network.
    ///
    /// There is one spelling for each thing, so that clients can compare ids: what this id would be written as.
    ///
    /// Errors: BAD_USER_INPUT for everything that no object has as its id.
    pub(crate) fn parse(id: &str, network: Network) -> Result<Self, ApiError> {
        read(id, network).filter(|read| read.to_string() == id).ok_or_else(|| {
            let quoted: String = id.chars().take(QUOTED).collect();
            let dots = if quoted.len() < id.len() { "…" } else { "" };
            ApiError::bad_user_input(format!(
                "{quoted:?}{dots} is not an id: give one exactly as returned, such as Block:<hash>, \
                 Transaction:<txid>, Output:<txid>:<number>, Reorg:<hash>, Script:<SHA-256> or Address:<address> (of this network; \
                 hexadecimal digits and bech32 in lower case)"
            ))
        })
    }
}

/// What is meant, also where it is spelled differently.
fn read(id: &str, network: Network) -> Option<GlobalId> {
    let (kind, content) = id.split_once(':')?;
    Some(match kind {
        "Block" => GlobalId::Block(hash(content)?),
        "Transaction" => {
            let (txid, replaced_in) = copy(content)?;
            GlobalId::Transaction(hash(txid)?, replaced_in)
        }
        "Output" => {
            let (outpoint, replaced_in) = copy(content)?;
            let (txid, vout) = outpoint.split_once(':')?;
            GlobalId::Output(OutPoint { txid: hash(txid)?, vout: vout.parse().ok()? }, replaced_in)
        }
        "Address" => {
            let script = parse_address(content, network).ok()?;
            GlobalId::Address(address_of(&script, network)?)
        }
        "Reorg" => GlobalId::Reorg(hash(content)?),
        "Script" => GlobalId::Script(hash(content)?),
        "Chain" => GlobalId::Chain,
        "Mempool" => GlobalId::Mempool,
        "Server" => GlobalId::Server,
        _ => return None,
    })
}

/// What comes before an `@` and the hash of a block, and that hash if it is there.
fn copy(content: &str) -> Option<(&str, Option<BlockHash>)> {
    match content.split_once('@') {
        Some((content, block)) => Some((content, Some(hash(block)?))),
        None => Some((content, None)),
    }
}

fn hash<H: FromStr>(content: &str) -> Option<H> {
    content.parse().ok()
}

impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Block(hash) => block_id(*hash),
            Self::Transaction(txid, replaced_in) => transaction_id(*txid, *replaced_in),
            Self::Output(outpoint, replaced_in) => output_id(*outpoint, *replaced_in),
            Self::Address(address) => address_id(address),
            Self::Reorg(new_tip) => reorg_id(*new_tip),
            Self::Script(hash) => script_id(hash),
            Self::Chain => CHAIN_ID.to_owned(),
            Self::Mempool => MEMPOOL_ID.to_owned(),
            Self::Server => SERVER_ID.to_owned(),
        })
    }
}

/// The id of this server. There is one in every process, so it is the same on every server.
pub(crate) const SERVER_ID: &str = "Server:main";

/// The id of the mempool of the one node behind this server.
pub(crate) const MEMPOOL_ID: &str = "Mempool:main";

/// The id of the one chain.
pub(crate) const CHAIN_ID: &str = "Chain:main";

pub(crate) fn block_id(hash: BlockHash) -> String {
    format!("Block:{hash}")
}

/// The reorganisation after which this block was the newest.
pub(crate) fn reorg_id(new_tip: BlockHash) -> String {
    format!("Reorg:{new_tip}")
}

/// The transaction with this txid, or the copy of it that `replaced_in` holds.
pub(crate) fn transaction_id(txid: Txid, replaced_in: Option<BlockHash>) -> String {
    format!("Transaction:{txid}{}", copy_suffix(replaced_in))
}

/// An output of the transaction with this txid, or of the copy of it that `replaced_in` holds.
pub(crate) fn output_id(outpoint: OutPoint, replaced_in: Option<BlockHash>) -> String {
    format!("Output:{}:{}{}", outpoint.txid, outpoint.vout, copy_suffix(replaced_in))
}

fn copy_suffix(replaced_in: Option<BlockHash>) -> String {
    replaced_in.map_or_else(String::new, |block| format!("@{block}"))
}

pub(crate) fn address_id(address: &str) -> String {
    format!("Address:{address}")
}

/// The hash is written in natural byte order.
pub(crate) fn script_id(hash: &sha256::Hash) -> String {
    format!("Script:{hash}")
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
    const ADDRESS: &str = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";

    #[test]
    fn every_type_has_one_spelling() {
        let (txid, block): (Txid, BlockHash) = (HASH.parse().unwrap(), HASH.parse().unwrap());
        for (id, expected) in [
            (format!("Block:{HASH}"), GlobalId::Block(block)),
            (format!("Transaction:{HASH}"), GlobalId::Transaction(txid, None)),
            (format!("Transaction:{HASH}@{HASH}"), GlobalId::Transaction(txid, Some(block))),
            (format!("Output:{HASH}:0"), GlobalId::Output(OutPoint { txid, vout: 0 }, None)),
            (format!("Output:{HASH}:4294967295"), GlobalId::Output(OutPoint { txid, vout: u32::MAX }, None)),
            (format!("Output:{HASH}:7@{HASH}"), GlobalId::Output(OutPoint { txid, vout: 7 }, Some(block))),
            (format!("Reorg:{HASH}"), GlobalId::Reorg(block)),
            (format!("Script:{HASH}"), GlobalId::Script(HASH.parse().unwrap())),
            (format!("Address:{ADDRESS}"), GlobalId::Address(ADDRESS.to_owned())),
            (
                "Address:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned(),
                GlobalId::Address("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned()),
            ),
            ("Chain:main".to_owned(), GlobalId::Chain),
            ("Mempool:main".to_owned(), GlobalId::Mempool),
            ("Server:main".to_owned(), GlobalId::Server),
        ] {
            assert_eq!(GlobalId::parse(&id, Network::Bitcoin), Ok(expected), "{id}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_quoted() {
        for id in [
            String::new(),
            ":".to_owned(),
            "Block".to_owned(),
            "Block:".to_owned(),
            HASH.to_owned(),
            format!("block:{HASH}"),
            format!(" Block:{HASH}"),
            format!("Block:{HASH} "),
            format!("Block::{HASH}"),
            format!("Block:{}", HASH.to_uppercase()),
            format!("Block:{}", &HASH[1..]),
            format!("Block:{HASH}0"),
            "Block:0".to_owned(),
            format!("Transaction:{HASH}:0"),
            format!("Transaction:{HASH}@"),
            format!("Transaction:{HASH}@{HASH}@{HASH}"),
            format!("Block:{HASH}@{HASH}"),
            format!("Output:{HASH}@{HASH}:0"),
            format!("Script:{}", HASH.to_uppercase()),
            format!("Output:{HASH}"),
            format!("Output:{HASH}:"),
            format!("Output:{HASH}:00"),
            format!("Output:{HASH}:+1"),
            format!("Output:{HASH}:-1"),
            format!("Output:{HASH}:4294967296"),
            format!("Output:{HASH}:0:0"),
            format!("Address:{}", ADDRESS.to_uppercase()),
            "Address:".to_owned(),
            "Address:bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".to_owned(),
            "Server:".to_owned(),
            "Server:other".to_owned(),
            "Chain:other".to_owned(),
            "Mempool:".to_owned(),
            "Unknown:main".to_owned(),
        ] {
            let error = GlobalId::parse(&id, Network::Bitcoin).unwrap_err();
            let text = serde_json::to_value(async_graphql::ServerError::from(error)).unwrap();
            assert_eq!(text["extensions"]["code"], "BAD_USER_INPUT");
            assert!(text["message"].as_str().unwrap().starts_with(&format!("{id:?} is not an id")), "{text}");
        }
    }

    #[test]
    fn a_long_one_is_not_quoted_in_full() {
        let error = GlobalId::parse(&"é".repeat(10_000), Network::Bitcoin).unwrap_err();
        assert!(format!("{error:?}").len() < 1_000);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes: [u8; 32], vout: u32, copied: bool) {
            let (txid, block) = (Txid::from_byte_array(bytes), BlockHash::from_byte_array(bytes));
            let replaced_in = copied.then_some(block);
            for id in [
                GlobalId::Block(block),
                GlobalId::Transaction(txid, replaced_in),
                GlobalId::Output(OutPoint { txid, vout }, replaced_in),
                GlobalId::Reorg(block),
                GlobalId::Script(sha256::Hash::from_byte_array(bytes)),
            ] {
                prop_assert_eq!(GlobalId::parse(&id.to_string(), Network::Bitcoin), Ok(id));
            }
        }

        #[test]
        fn no_text_is_read_as_what_is_written_otherwise(id in "(Block|Output|Address|Script|Chain|Server|[a-zA-Z]*):[ -~é]*") {
            if let Ok(read) = GlobalId::parse(&id, Network::Bitcoin) {
                prop_assert_eq!(read.to_string(), id);
            }
        }
    }
}
