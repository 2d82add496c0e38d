//! Reading global ids back. Writing them is `node.rs`.

use std::fmt;
use std::str::FromStr;

use bitcoin::{BlockHash, Network, OutPoint, Txid};

use super::error::ApiError;
use super::node::{SERVER_ID, address_id, block_id, output_id, transaction_id};
use crate::chain::{address_of, parse_address};

/// How much of an id that is refused its error quotes, in characters.
const QUOTED: usize = 150;

/// What an id names, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GlobalId {
    Block(BlockHash),
    Transaction(Txid),
    Output(OutPoint),
    /// As it is usually written.
    Address(String),
    Server,
}

impl GlobalId {
    /// What this id names on this network.
    ///
    /// There is one spelling for each thing, so that clients can compare ids: what this id would be written as.
    ///
    /// Errors: BAD_USER_INPUT for everything that no object has as its id.
    pub(super) fn parse(id: &str, network: Network) -> Result<Self, ApiError> {
        read(id, network).filter(|read| read.to_string() == id).ok_or_else(|| {
            let quoted: String = id.chars().take(QUOTED).collect();
            let dots = if quoted.len() < id.len() { "…" } else { "" };
            ApiError::bad_user_input(format!(
                "{quoted:?}{dots} is not an id: give one as it was in an answer, such as Block:<hash>, \
                 Transaction:<txid>, Output:<txid>:<number> or Address:<address> (in this network, hexadecimal digits \
                 and bech32 in lower case)"
            ))
        })
    }
}

/// What is meant, also where it is spelled differently.
fn read(id: &str, network: Network) -> Option<GlobalId> {
    let (kind, content) = id.split_once(':')?;
    Some(match kind {
        "Block" => GlobalId::Block(hash(content)?),
        "Transaction" => GlobalId::Transaction(hash(content)?),
        "Output" => {
            let (txid, vout) = content.split_once(':')?;
            GlobalId::Output(OutPoint { txid: hash(txid)?, vout: vout.parse().ok()? })
        }
        "Address" => {
            let script = parse_address(content, network).ok()?;
            GlobalId::Address(address_of(&script, network)?)
        }
        "Server" => GlobalId::Server,
        _ => return None,
    })
}

fn hash<H: FromStr>(content: &str) -> Option<H> {
    content.parse().ok()
}

impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Block(hash) => block_id(*hash),
            Self::Transaction(txid) => transaction_id(*txid),
            Self::Output(outpoint) => output_id(*outpoint),
            Self::Address(address) => address_id(address),
            Self::Server => SERVER_ID.to_owned(),
        })
    }
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
        let txid: Txid = HASH.parse().unwrap();
        for (id, expected) in [
            (format!("Block:{HASH}"), GlobalId::Block(HASH.parse().unwrap())),
            (format!("Transaction:{HASH}"), GlobalId::Transaction(txid)),
            (format!("Output:{HASH}:0"), GlobalId::Output(OutPoint { txid, vout: 0 })),
            (format!("Output:{HASH}:4294967295"), GlobalId::Output(OutPoint { txid, vout: u32::MAX })),
            (format!("Address:{ADDRESS}"), GlobalId::Address(ADDRESS.to_owned())),
            (
                "Address:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned(),
                GlobalId::Address("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned()),
            ),
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
        fn what_is_written_is_read_back(bytes: [u8; 32], vout: u32) {
            let txid = Txid::from_byte_array(bytes);
            for id in [
                GlobalId::Block(BlockHash::from_byte_array(bytes)),
                GlobalId::Transaction(txid),
                GlobalId::Output(OutPoint { txid, vout }),
            ] {
                prop_assert_eq!(GlobalId::parse(&id.to_string(), Network::Bitcoin), Ok(id));
            }
        }

        #[test]
        fn no_text_is_read_as_what_is_written_otherwise(id in "(Block|Output|Address|Server|[a-zA-Z]*):[ -~é]*") {
            if let Ok(read) = GlobalId::parse(&id, Network::Bitcoin) {
                prop_assert_eq!(read.to_string(), id);
            }
        }
    }
}
