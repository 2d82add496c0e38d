//! Requests for the contents of blocks: raw blocks, the outputs they spend, raw transactions.

use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, TxOut, Txid, hashes::Hash};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::NodeError;
use super::headers::none_if;
use super::http::ResponseLimits;
use super::node::Node;
use super::rest::RestResponse;
use super::rpc::code;
use super::spent_outputs;
use super::verbose::VerboseBlock;
use crate::chain::raw::MAX_BLOCK_SIZE;

/// An upper bound of the outputs that a block spends, in bytes: 24,000 inputs of outputs with 10,000-byte scripts.
pub(super) const SPENT_OUTPUTS_BYTES: u64 = 256 << 20;
/// Verbose JSON has up to about fifty times the bytes of the block.
const VERBOSE_BLOCK_BYTES: u64 = 512 << 20;
const HEADER_BYTES: usize = 80;

impl Node {
    /// A block as it is serialised on the wire, by REST where the node serves it, else by RPC. The hash of its header
    /// is checked. Errors: `BlockNotFound`, `Pruned`.
    pub fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        let bytes = match self.block_by_rest(hash)? {
            Some(bytes) => bytes,
            None => self.block_by_rpc(hash)?,
        };
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| wrong_block(hash, "it is shorter than a header"))?;
        // a block's hash is the hash of its header
        if BlockHash::hash(header) != *hash {
            return Err(wrong_block(hash, "it is another block"));
        }
        Ok(bytes)
    }

    /// Some bytes of a block, by REST since Core 31. They are not checked. `None` when the node does not serve parts of
    /// blocks, or does not have the block.
    pub(super) fn block_part(&self, hash: &BlockHash, offset: u32, length: u32) -> Result<Option<Vec<u8>>, NodeError> {
        let path = format!("{hash}.bin?offset={offset}&size={length}");
        let limits = ResponseLimits { bytes: MAX_BLOCK_SIZE.into(), ..self.limits() };
        match self.rest_block_part(&path, limits)? {
            Some(bytes) if u32::try_from(bytes.len()).ok() != Some(length) => {
                let problem = format!("{} bytes are not the {length} that were requested", bytes.len());
                Err(NodeError::Protocol { asked: format!("/rest/blockpart/{path}"), problem })
            }
            bytes => Ok(bytes),
        }
    }

    /// The outputs that a block's inputs spend: a list for each transaction, in the order of its inputs, the
    /// coinbase's empty list first. `None` when the node does not serve them, or has no undo data of this block.
    pub fn spent_outputs(&self, hash: &BlockHash) -> Result<Option<Vec<Vec<TxOut>>>, NodeError> {
        if !self.supports_spent_outputs() {
            return Ok(None);
        }
        let path = format!("spenttxouts/{hash}.bin");
        match self.rest(&path, ResponseLimits { bytes: SPENT_OUTPUTS_BYTES, ..self.limits() })? {
            RestResponse::Found(bytes) => spent_outputs::parse(&bytes)
                .map(Some)
                .map_err(|problem| NodeError::Protocol { asked: format!("/rest/{path}"), problem }),
            RestResponse::NotFound | RestResponse::Unavailable => Ok(None),
        }
    }

    /// A transaction as it is serialised on the wire; `None` when the node does not find it. Without the hash of its
    /// block, a node finds it in the mempool only, or anywhere when it runs with `txindex=1`.
    pub fn raw_transaction(&self, txid: &Txid, block: Option<&BlockHash>) -> Result<Option<Vec<u8>>, NodeError> {
        const METHOD: &str = "getrawtransaction";
        let mut params = vec![json!(txid), json!(false)];
        params.extend(block.map(|hash| json!(hash)));
        let hex = none_if(code::NOT_FOUND, self.call::<String>(METHOD, &params))?;
        hex.map(|hex| from_hex(METHOD, &hex)).transpose()
    }

    /// A block as the node decodes it, with what each input spends. Errors: `BlockNotFound`, `Pruned`.
    pub fn block_verbose(&self, hash: &BlockHash) -> Result<VerboseBlock, NodeError> {
        let limits = ResponseLimits { bytes: VERBOSE_BLOCK_BYTES, ..self.limits() };
        self.getblock(hash, json!(3), limits)
    }

    /// `None` when REST is off or does not have the block; RPC then reports why.
    fn block_by_rest(&self, hash: &BlockHash) -> Result<Option<Vec<u8>>, NodeError> {
        if !self.supports_rest() {
            return Ok(None);
        }
        let limits = ResponseLimits { bytes: MAX_BLOCK_SIZE.into(), ..self.limits() };
        match self.rest(&format!("block/{hash}.bin"), limits)? {
            RestResponse::Found(bytes) => Ok(Some(bytes)),
            RestResponse::NotFound | RestResponse::Unavailable => Ok(None),
        }
    }

    fn block_by_rpc(&self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        let hex: String = self.getblock(hash, json!(0), self.limits())?;
        from_hex("getblock", &hex)
    }

    fn getblock<T: DeserializeOwned>(
        &self,
        hash: &BlockHash,
        verbosity: Value,
        limits: ResponseLimits,
    ) -> Result<T, NodeError> {
        self.call_within("getblock", &[json!(hash), verbosity], limits).map_err(|error| match error {
            NodeError::Rpc { code: code::NOT_FOUND, .. } => NodeError::BlockNotFound { hash: *hash },
            NodeError::Rpc { code: code::MISC, message, .. } if message.contains("pruned") => {
                let kept_from = self.chain_info().ok().and_then(|info| info.prune_height);
                NodeError::Pruned { hash: *hash, kept_from }
            }
            // a header whose block the node has not downloaded yet
            NodeError::Rpc { code: code::MISC, message, .. } if message.starts_with("Block not") => {
                NodeError::BlockNotFound { hash: *hash }
            }
            error => error,
        })
    }
}

fn wrong_block(hash: &BlockHash, problem: &str) -> NodeError {
    NodeError::Protocol { asked: format!("block {hash}"), problem: problem.to_owned() }
}

fn from_hex(method: &str, hex: &str) -> Result<Vec<u8>, NodeError> {
    Vec::from_hex(hex).map_err(|error| NodeError::Protocol { asked: method.to_owned(), problem: error.to_string() })
}
