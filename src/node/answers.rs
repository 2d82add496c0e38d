//! The node's answers about its chain and itself, as types: only the fields that the service uses, decoded leniently
//! across node versions. Blocks and transactions are in other files.

use bitcoin::hashes::sha256d;
use bitcoin::pow::Work;
use bitcoin::{Amount, BlockHash};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::amounts::amount;
use crate::chain::Height;

/// The state of the node's chain (`getblockchaininfo`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ChainInfo {
    /// The node's name of its chain: `main`, `test`, `testnet4`, `signet`, `regtest`.
    pub chain: String,
    /// The height of the tip of the validated chain.
    #[serde(deserialize_with = "height")]
    pub blocks: Height,
    /// The height of the best header, whose block may not be downloaded yet.
    #[serde(deserialize_with = "height")]
    pub headers: Height,
    /// The hash of the tip of the validated chain.
    #[serde(rename = "bestblockhash")]
    pub best_block_hash: BlockHash,
    /// The node's estimate of how much of the chain it has verified, 0 to 1.
    #[serde(rename = "verificationprogress")]
    pub verification_progress: f64,
    /// Whether the node is in initial block download; also true for a node whose tip is old.
    #[serde(rename = "initialblockdownload")]
    pub initial_block_download: bool,
    /// Bytes that blocks and undo data take on the node's disk.
    pub size_on_disk: u64,
    /// Whether the node deletes old blocks.
    pub pruned: bool,
    /// The lowest height from which a pruned node still has all blocks up to the tip.
    #[serde(rename = "pruneheight", default, deserialize_with = "optional_height")]
    pub prune_height: Option<Height>,
    /// The node's warnings, such as unknown new rules; empty if there are none.
    #[serde(default, deserialize_with = "warnings")]
    pub warnings: Vec<String>,
}

/// The node's software and connections (`getnetworkinfo`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NetworkInfo {
    /// The node's version as a number: 290500 is 29.5.0.
    pub version: u32,
    /// The node's user agent, as it announces it to its peers (BIP 14).
    pub subversion: String,
    /// The number of peers.
    pub connections: u32,
    /// The node's warnings; empty if there are none.
    #[serde(default, deserialize_with = "warnings")]
    pub warnings: Vec<String>,
}

/// A header and its position in the node's chain (`getblockheader`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HeaderInfo {
    /// The block's hash.
    pub hash: BlockHash,
    /// The block's height.
    #[serde(deserialize_with = "height")]
    pub height: Height,
    /// The block before it; `None` for genesis.
    #[serde(rename = "previousblockhash")]
    pub previous: Option<BlockHash>,
    /// Blocks of the active chain from this one on, so 1 for the tip; -1 for a block outside the active chain.
    pub confirmations: i64,
    /// The time in the header, in seconds since 1970.
    pub time: u32,
    /// The median of the times of this block and the ten before it (BIP 113), in seconds since 1970.
    #[serde(rename = "mediantime")]
    pub median_time: u32,
    /// The expected number of hashes to make the chain up to this block.
    #[serde(rename = "chainwork", deserialize_with = "work")]
    pub chain_work: Work,
}

impl HeaderInfo {
    /// Whether the block is in the node's active chain.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.confirmations > 0
    }
}

/// A block without a known successor (`getchaintips`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChainTip {
    /// The height of the tip.
    #[serde(deserialize_with = "height")]
    pub height: Height,
    /// The hash of the tip.
    pub hash: BlockHash,
    /// The number of blocks from where the branch leaves the active chain up to the tip; 0 for the active tip.
    #[serde(rename = "branchlen")]
    pub branch_length: u32,
    /// The node's validation status of the branch.
    pub status: ChainTipStatus,
}

/// The node's validation status of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainTipStatus {
    /// The tip of the active chain.
    Active,
    /// Fully validated, with less work than the active chain.
    ValidFork,
    /// All blocks are available and were never fully validated.
    ValidHeaders,
    /// Not all blocks are available; the headers are valid.
    HeadersOnly,
    /// The branch contains an invalid block.
    Invalid,
    /// A status that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Which hash over the UTXO set `gettxoutsetinfo` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxOutSetHash {
    /// `hash_serialized_3`: over the outputs in order; Core 26 or later.
    HashSerialized3,
    /// `muhash`: over the outputs as a set.
    Muhash,
    /// No hash, the quickest.
    None,
}

impl TxOutSetHash {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            TxOutSetHash::HashSerialized3 => "hash_serialized_3",
            TxOutSetHash::Muhash => "muhash",
            TxOutSetHash::None => "none",
        }
    }
}

/// Statistics of the node's UTXO set (`gettxoutsetinfo`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TxOutSetInfo {
    /// The height of the set.
    #[serde(deserialize_with = "height")]
    pub height: Height,
    /// The block of the set.
    #[serde(rename = "bestblock")]
    pub best_block: BlockHash,
    /// The number of unspent outputs.
    #[serde(rename = "txouts")]
    pub outputs: u64,
    /// A size of the set that does not depend on how it is stored, in no particular unit.
    pub bogosize: Option<u64>,
    /// The value of all unspent outputs.
    #[serde(deserialize_with = "amount")]
    pub total_amount: Amount,
    /// With [`TxOutSetHash::HashSerialized3`].
    pub hash_serialized_3: Option<sha256d::Hash>,
    /// With [`TxOutSetHash::Muhash`], as the node writes it.
    pub muhash: Option<String>,
}

fn height<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Height, D::Error> {
    u32::deserialize(deserializer).map(Height::from)
}

fn optional_height<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Height>, D::Error> {
    Ok(Option::<u32>::deserialize(deserializer)?.map(Height::from))
}

fn work<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Work, D::Error> {
    Work::from_unprefixed_hex(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// One string up to Core 27, a list from Core 28 on.
fn warnings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Warnings {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Warnings::deserialize(deserializer)? {
        Warnings::List(list) => list,
        Warnings::Text(text) if text.is_empty() => Vec::new(),
        Warnings::Text(text) => vec![text],
    })
}

/// The answer of `getchaintxstats`.
#[derive(Deserialize)]
pub(super) struct ChainTxStats {
    /// The transactions up to a block, if they are known.
    #[serde(rename = "txcount")]
    pub(super) transactions: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(json: &str) -> Vec<String> {
        let info = format!(r#"{{"version":1,"subversion":"/x/","connections":0,"warnings":{json}}}"#);
        serde_json::from_str::<NetworkInfo>(&info).unwrap().warnings
    }

    #[test]
    fn warnings_may_be_one_string_or_a_list() {
        assert_eq!(warnings_of(r#""""#), Vec::<String>::new());
        assert_eq!(warnings_of(r#""low disk""#), ["low disk"]);
        assert_eq!(warnings_of("[]"), Vec::<String>::new());
        assert_eq!(warnings_of(r#"["a","b"]"#), ["a", "b"]);
    }

    #[test]
    fn an_unknown_branch_status_is_no_error() {
        let status = |word: &str| serde_json::from_str::<ChainTipStatus>(&format!("\"{word}\"")).unwrap();
        assert_eq!(status("valid-fork"), ChainTipStatus::ValidFork);
        assert_eq!(status("sideways"), ChainTipStatus::Unknown);
    }
}
