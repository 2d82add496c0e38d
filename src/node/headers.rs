//! Requests for headers: by height, by hash, in bulk along the active chain, and the tips of all branches.

use bitcoin::block::Header;
use bitcoin::consensus::encode;
use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, hashes::Hash};
use serde_json::json;

use super::answers::{ChainTip, ChainTxStats, HeaderInfo};
use super::error::NodeError;
use super::node::Node;
use super::rest::RestResponse;
use super::rpc::code;
use crate::chain::Height;

/// The most headers that [`Node::headers`] returns at once; the node's own limit.
pub const MAX_HEADERS: u32 = 2000;

/// The size of a header, in bytes.
const HEADER_BYTES: usize = 80;

impl Node {
    /// The hash of the active chain's block at a height; `None` above the tip.
    pub fn block_hash(&self, height: Height) -> Result<Option<BlockHash>, NodeError> {
        none_if(code::INVALID_PARAMETER, self.call("getblockhash", &[json!(height.to_u32())]))
    }

    /// A header and its position, in the active chain or outside; `None` when the node does not know it.
    pub fn header(&self, hash: &BlockHash) -> Result<Option<HeaderInfo>, NodeError> {
        none_if(code::NOT_FOUND, self.call("getblockheader", &[json!(hash), json!(true)]))
    }

    /// The tips of all branches that the node knows, the active chain's among them.
    pub fn chain_tips(&self) -> Result<Vec<ChainTip>, NodeError> {
        self.call("getchaintips", &[])
    }

    /// Up to `count` headers of the active chain, from the block `from` on, which is the first. At most
    /// [`MAX_HEADERS`]. Empty when `from` is not in the active chain. Each header is the successor of the one before.
    pub fn headers(&self, from: &BlockHash, count: u32) -> Result<Vec<(BlockHash, Header)>, NodeError> {
        let count = count.min(MAX_HEADERS);
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.supports_rest() {
            let path = format!("headers/{count}/{from}.bin");
            if let RestResponse::Found(bytes) = self.rest(&path, self.limits())? {
                return parse_headers(from, &bytes)
                    .map_err(|problem| NodeError::Protocol { asked: format!("/rest/{path}"), problem });
            }
        }
        self.headers_by_rpc(from, count)
    }

    /// The hashes of the active chain from genesis up to a height, or up to the tip if that is lower.
    pub fn active_hashes(&self, last: Height) -> Result<Vec<BlockHash>, NodeError> {
        let most = usize::try_from(last.to_u32()).unwrap_or(usize::MAX).saturating_add(1);
        let mut hashes = Vec::from_iter(self.block_hash(Height::GENESIS)?);
        while let Some(newest) = hashes.last().copied().filter(|_| hashes.len() < most) {
            let headers = self.headers(&newest, MAX_HEADERS)?;
            match headers.len() {
                // it left the active chain
                0 => drop(hashes.pop()),
                1 => break,
                _ => hashes.extend(headers.into_iter().skip(1).map(|(hash, _)| hash)),
            }
        }
        hashes.truncate(most);
        Ok(hashes)
    }

    /// How many transactions the active chain has from genesis up to a block.
    pub(super) fn transactions_up_to(&self, block: &BlockHash) -> Result<u64, NodeError> {
        const METHOD: &str = "getchaintxstats";
        let stats: ChainTxStats = self.call(METHOD, &[serde_json::Value::Null, json!(block)])?;
        // absent while the blocks below an assumeutxo snapshot are not downloaded yet
        let problem = || "it does not know the number of transactions yet".to_owned();
        stats.transactions.ok_or_else(|| NodeError::Protocol { asked: METHOD.to_owned(), problem: problem() })
    }

    fn headers_by_rpc(&self, from: &BlockHash, count: u32) -> Result<Vec<(BlockHash, Header)>, NodeError> {
        let Some(first) = self.header(from)?.filter(HeaderInfo::is_active) else {
            return Ok(Vec::new());
        };
        let first = first.height.to_u32();
        let heights: Vec<_> = (first..first.saturating_add(count)).map(|height| vec![json!(height)]).collect();
        let hashes = self.with_retries(|| {
            let hashes = self.batch_once::<BlockHash>("getblockhash", &heights)?;
            hashes
                .into_iter()
                .map(|hash| none_if(code::INVALID_PARAMETER, hash))
                .take_while(|hash| !matches!(hash, Ok(None)))
                .filter_map(Result::transpose)
                .collect::<Result<Vec<_>, _>>()
        })?;
        let calls: Vec<_> = hashes.iter().map(|hash| vec![json!(hash), json!(false)]).collect();
        let headers = self.with_retries(|| {
            let headers = self.batch_once::<String>("getblockheader", &calls)?;
            headers.into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        let mut bytes = Vec::with_capacity(headers.len() * HEADER_BYTES);
        for header in &headers {
            let header = Vec::from_hex(header).map_err(|error| NodeError::Protocol {
                asked: "getblockheader".to_owned(),
                problem: error.to_string(),
            })?;
            bytes.extend(header);
        }
        let asked = || "getblockheader".to_owned();
        let mut chain = decode(&bytes).map_err(|problem| NodeError::Protocol { asked: asked(), problem })?;
        // a reorganisation between the calls breaks the links: the headers before the break are still valid
        chain.truncate(linked(from, &chain));
        Ok(chain)
    }
}

/// Decodes headers that must form one chain from `from` on.
fn parse_headers(from: &BlockHash, bytes: &[u8]) -> Result<Vec<(BlockHash, Header)>, String> {
    let headers = decode(bytes)?;
    let linked = linked(from, &headers);
    if linked == headers.len() { Ok(headers) } else { Err(format!("header {linked} does not follow the one before")) }
}

fn decode(bytes: &[u8]) -> Result<Vec<(BlockHash, Header)>, String> {
    if !bytes.len().is_multiple_of(HEADER_BYTES) {
        return Err(format!("{} bytes are not a whole number of headers", bytes.len()));
    }
    let decode = |bytes| encode::deserialize::<Header>(bytes).map_err(|error| error.to_string());
    bytes.chunks_exact(HEADER_BYTES).map(|bytes| decode(bytes).map(|header| (header.block_hash(), header))).collect()
}

/// The number of leading headers that form a chain from `from` on.
fn linked(from: &BlockHash, headers: &[(BlockHash, Header)]) -> usize {
    let mut previous = BlockHash::all_zeros();
    headers
        .iter()
        .enumerate()
        .take_while(|(index, (hash, header))| {
            let follows = if *index == 0 { hash == from } else { header.prev_blockhash == previous };
            previous = *hash;
            follows
        })
        .count()
}

/// Turns the node's error `none`, for an object that does not exist, into `None`.
pub(super) fn none_if<T>(none: i32, answer: Result<T, NodeError>) -> Result<Option<T>, NodeError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(NodeError::Rpc { code, .. }) if code == none => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::CompactTarget;
    use bitcoin::block::Version;
    use bitcoin::consensus::encode::serialize;

    use super::*;

    fn chain(length: u32) -> Vec<Header> {
        let mut previous = BlockHash::all_zeros();
        let header = |nonce| {
            let header = Header {
                version: Version::TWO,
                prev_blockhash: previous,
                merkle_root: bitcoin::TxMerkleNode::all_zeros(),
                time: 0,
                bits: CompactTarget::from_consensus(0),
                nonce,
            };
            previous = header.block_hash();
            header
        };
        (0..length).map(header).collect()
    }

    #[test]
    fn only_one_chain_from_the_requested_block_is_accepted() {
        let chain = chain(3);
        let bytes = |headers: &[Header]| headers.iter().flat_map(serialize).collect::<Vec<u8>>();
        let from = chain[0].block_hash();
        let hashes = |headers: Vec<(BlockHash, Header)>| headers.iter().map(|(hash, _)| *hash).collect::<Vec<_>>();
        let expected: Vec<_> = chain.iter().map(Header::block_hash).collect();
        assert_eq!(hashes(parse_headers(&from, &bytes(&chain)).unwrap()), expected);
        assert_eq!(parse_headers(&from, &[]).unwrap(), []);
        assert!(parse_headers(&from, &bytes(&chain[1..])).unwrap_err().contains("header 0"));
        assert!(parse_headers(&from, &bytes(&[chain[0], chain[2]])).unwrap_err().contains("header 1"));
        assert!(parse_headers(&from, &bytes(&chain)[..200]).is_err());
    }
}
