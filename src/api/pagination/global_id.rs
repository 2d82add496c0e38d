//! Global ids: typed, and made of content, never of a height.

use std::fmt;
use std::str::FromStr;

use bitcoin::hashes::sha256;
use bitcoin::{BlockHash, Network, OutPoint, Txid, Wtxid};

use crate::api::error::ApiError;
use crate::chain::{address_of, parse_address};
use crate::view;

/// How much of an id that is refused its error quotes, in characters.
const QUOTED: usize = 250;

/// Which of the transactions with one txid is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The one that a lookup by txid finds.
    #[default]
    Newest,
    /// The copy in this block, which a later transaction with the same txid replaced (BIP30).
    ReplacedIn(BlockHash),
    /// One with this wtxid, of which the server has no more than the bytes that a client submitted. It has an id of its own,
    /// because a cache of a client would otherwise mix it with the known transaction, whose witness differs.
    Submitted(Wtxid),
}

impl Variant {
    pub(crate) fn of(transaction: &view::Transaction) -> Self {
        match (transaction.submitted_as, transaction.replaced_in) {
            (Some(wtxid), _) => Self::Submitted(wtxid),
            (None, Some(block)) => Self::ReplacedIn(block),
            (None, None) => Self::Newest,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => Ok(()),
            Self::ReplacedIn(block) => write!(f, "@{block}"),
            Self::Submitted(wtxid) => write!(f, "+{wtxid}"),
        }
    }
}

/// What an id names, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobalId {
    Block(BlockHash),
    Transaction(Txid, Variant),
    /// With the variant of its transaction.
    Output(OutPoint, Variant),
    /// In its usual spelling.
    Address(String),
    /// By the block that was the newest after it.
    Reorg(BlockHash),
    /// By the SHA-256 of the script.
    Script(sha256::Hash),
    /// A script that is not known, by its SHA-256.
    ScriptHash(sha256::Hash),
    /// By its first block.
    DifficultyEpoch(BlockHash),
    /// By a hash of its entries.
    AddressSet(sha256::Hash),
    /// By a hash of the descriptor and the gap limit.
    DescriptorAccount(sha256::Hash),
    /// A mining pool, by its slug.
    Miner(String),
    Chain,
    Mempool,
    Server,
}

impl GlobalId {
    /// What this id names on this network.
    ///
    /// There is one spelling for each thing, so that clients can compare ids: others are refused.
    ///
    /// Errors: BAD_USER_INPUT for everything that no object has as its id.
    pub(crate) fn parse(argument: &str, id: &str, network: Network) -> Result<Self, ApiError> {
        read(id, network).filter(|read| read.to_string() == id).ok_or_else(|| {
            let quoted: String = id.chars().take(QUOTED).collect();
            let dots = if quoted.len() < id.len() { "…" } else { "" };
            let fault = format!(
                "is {quoted:?}{dots}, which is not an id: give one exactly as returned, such as Block:<hash>, \
                 Transaction:<txid>, Output:<txid>:<number>, Reorg:<hash>, Script:<SHA-256>, Address:<address> (of this network), \
                 Miner:<slug> or DifficultyEpoch:<hash> (slugs, hexadecimal digits and bech32 in lower case)"
            );
            ApiError::bad_argument(argument, fault)
        })
    }
}

/// What is meant, also where it is spelled differently.
fn read(id: &str, network: Network) -> Option<GlobalId> {
    let (kind, content) = id.split_once(':')?;
    Some(match kind {
        "Block" => GlobalId::Block(hash(content)?),
        "Transaction" => {
            let (txid, variant) = variant(content)?;
            GlobalId::Transaction(hash(txid)?, variant)
        }
        "Output" => {
            let (outpoint, variant) = variant(content)?;
            let (txid, vout) = outpoint.split_once(':')?;
            GlobalId::Output(OutPoint { txid: hash(txid)?, vout: vout.parse().ok()? }, variant)
        }
        "Address" => {
            let script = parse_address(content, network).ok()?;
            GlobalId::Address(address_of(&script, network)?)
        }
        "Reorg" => GlobalId::Reorg(hash(content)?),
        "Script" => GlobalId::Script(hash(content)?),
        "ScriptHash" => GlobalId::ScriptHash(hash(content)?),
        "DifficultyEpoch" => GlobalId::DifficultyEpoch(hash(content)?),
        "AddressSet" => GlobalId::AddressSet(hash(content)?),
        "DescriptorAccount" => GlobalId::DescriptorAccount(hash(content)?),
        "Miner" => GlobalId::Miner(slug(content)?),
        "Chain" => GlobalId::Chain,
        "Mempool" => GlobalId::Mempool,
        "Server" => GlobalId::Server,
        _ => return None,
    })
}

/// What comes before the suffix of a variant, and the variant.
fn variant(content: &str) -> Option<(&str, Variant)> {
    if let Some((content, block)) = content.split_once('@') {
        return Some((content, Variant::ReplacedIn(hash(block)?)));
    }
    Some(match content.split_once('+') {
        Some((content, wtxid)) => (content, Variant::Submitted(hash(wtxid)?)),
        None => (content, Variant::Newest),
    })
}

/// The slug of a pool: letters in lower case, and digits.
fn slug(content: &str) -> Option<String> {
    let is_slug = |character: u8| character.is_ascii_lowercase() || character.is_ascii_digit();
    let is_one = !content.is_empty() && content.bytes().all(is_slug);
    is_one.then(|| content.to_owned())
}

fn hash<H: FromStr>(content: &str) -> Option<H> {
    content.parse().ok()
}

impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Block(hash) => block_id(*hash),
            Self::Transaction(txid, variant) => transaction_id(*txid, *variant),
            Self::Output(outpoint, variant) => output_id(*outpoint, *variant),
            Self::Address(address) => address_id(address),
            Self::Reorg(new_tip) => reorg_id(*new_tip),
            Self::Script(hash) => script_id(hash),
            Self::ScriptHash(hash) => script_hash_id(hash),
            Self::DifficultyEpoch(first) => difficulty_epoch_id(*first),
            Self::AddressSet(hash) => address_set_id(hash),
            Self::DescriptorAccount(hash) => descriptor_account_id(hash),
            Self::Miner(slug) => miner_id(slug),
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

pub(crate) fn transaction_id(txid: Txid, variant: Variant) -> String {
    format!("Transaction:{txid}{variant}")
}

/// An output of this variant of its transaction.
pub(crate) fn output_id(outpoint: OutPoint, variant: Variant) -> String {
    format!("Output:{}:{}{variant}", outpoint.txid, outpoint.vout)
}

/// The epoch of the difficulty that begins with this block.
pub(crate) fn difficulty_epoch_id(first: BlockHash) -> String {
    format!("DifficultyEpoch:{first}")
}

/// The set of entries with this hash in natural byte order.
pub(crate) fn address_set_id(hash: &sha256::Hash) -> String {
    format!("AddressSet:{hash}")
}

/// The account of the descriptor and the gap limit with this hash in natural byte order.
pub(crate) fn descriptor_account_id(hash: &sha256::Hash) -> String {
    format!("DescriptorAccount:{hash}")
}

/// The pool with this slug.
pub(crate) fn miner_id(slug: &str) -> String {
    format!("Miner:{slug}")
}

pub(crate) fn address_id(address: &str) -> String {
    format!("Address:{address}")
}

/// The hash is in natural byte order.
pub(crate) fn script_id(hash: &sha256::Hash) -> String {
    format!("Script:{hash}")
}

/// The hash is in natural byte order.
pub(crate) fn script_hash_id(hash: &sha256::Hash) -> String {
    format!("ScriptHash:{hash}")
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
        let (replaced, submitted) = (Variant::ReplacedIn(block), Variant::Submitted(HASH.parse().unwrap()));
        for (id, expected) in [
            (format!("Block:{HASH}"), GlobalId::Block(block)),
            (format!("Transaction:{HASH}"), GlobalId::Transaction(txid, Variant::Newest)),
            (format!("Transaction:{HASH}@{HASH}"), GlobalId::Transaction(txid, replaced)),
            (format!("Transaction:{HASH}+{HASH}"), GlobalId::Transaction(txid, submitted)),
            (format!("Output:{HASH}:0"), GlobalId::Output(OutPoint { txid, vout: 0 }, Variant::Newest)),
            (format!("Output:{HASH}:4294967295"), GlobalId::Output(OutPoint { txid, vout: u32::MAX }, Variant::Newest)),
            (format!("Output:{HASH}:7@{HASH}"), GlobalId::Output(OutPoint { txid, vout: 7 }, replaced)),
            (format!("Output:{HASH}:7+{HASH}"), GlobalId::Output(OutPoint { txid, vout: 7 }, submitted)),
            (format!("Reorg:{HASH}"), GlobalId::Reorg(block)),
            (format!("Script:{HASH}"), GlobalId::Script(HASH.parse().unwrap())),
            (format!("ScriptHash:{HASH}"), GlobalId::ScriptHash(HASH.parse().unwrap())),
            (format!("DifficultyEpoch:{HASH}"), GlobalId::DifficultyEpoch(block)),
            (format!("AddressSet:{HASH}"), GlobalId::AddressSet(HASH.parse().unwrap())),
            (format!("DescriptorAccount:{HASH}"), GlobalId::DescriptorAccount(HASH.parse().unwrap())),
            (format!("Address:{ADDRESS}"), GlobalId::Address(ADDRESS.to_owned())),
            (
                "Address:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned(),
                GlobalId::Address("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".to_owned()),
            ),
            ("Miner:f2pool".to_owned(), GlobalId::Miner("f2pool".to_owned())),
            ("Chain:main".to_owned(), GlobalId::Chain),
            ("Mempool:main".to_owned(), GlobalId::Mempool),
            ("Server:main".to_owned(), GlobalId::Server),
        ] {
            assert_eq!(GlobalId::parse("id", &id, Network::Bitcoin), Ok(expected), "{id}");
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
            format!("Transaction:{HASH}+"),
            format!("Transaction:{HASH}@{HASH}+{HASH}"),
            format!("Transaction:{HASH}+{HASH}@{HASH}"),
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
            "Miner:".to_owned(),
            "Miner:F2Pool".to_owned(),
            "Miner:btc.com".to_owned(),
            "Unknown:main".to_owned(),
        ] {
            let error = GlobalId::parse("id", &id, Network::Bitcoin).unwrap_err();
            let text = serde_json::to_value(async_graphql::ServerError::from(error)).unwrap();
            assert_eq!(text["extensions"]["code"], "BAD_USER_INPUT");
            assert!(
                text["message"].as_str().unwrap().starts_with(&format!("id is {id:?}, which is not an id")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_one_is_not_quoted_in_full() {
        let error = GlobalId::parse("id", &"é".repeat(10_000), Network::Bitcoin).unwrap_err();
        assert!(format!("{error:?}").len() < 1_000);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes: [u8; 32], vout: u32, kind in 0..3_u8) {
            let (txid, block) = (Txid::from_byte_array(bytes), BlockHash::from_byte_array(bytes));
            let variant = match kind {
                0 => Variant::Newest,
                1 => Variant::ReplacedIn(block),
                _ => Variant::Submitted(Wtxid::from_byte_array(bytes)),
            };
            for id in [
                GlobalId::Block(block),
                GlobalId::Transaction(txid, variant),
                GlobalId::Output(OutPoint { txid, vout }, variant),
                GlobalId::Reorg(block),
                GlobalId::Script(sha256::Hash::from_byte_array(bytes)),
                GlobalId::ScriptHash(sha256::Hash::from_byte_array(bytes)),
            ] {
                prop_assert_eq!(GlobalId::parse("id", &id.to_string(), Network::Bitcoin), Ok(id));
            }
        }

        #[test]
        fn no_text_is_read_as_what_is_written_otherwise(id in "(Block|Output|Address|Script|Chain|Server|[a-zA-Z]*):[ -~é]*") {
            if let Ok(read) = GlobalId::parse("id", &id, Network::Bitcoin) {
                prop_assert_eq!(read.to_string(), id);
            }
        }
    }
}
