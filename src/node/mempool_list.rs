//! The list of the mempool's transactions at one moment, with the statistics that show whether the list is complete,
//! and the tip that the mempool is based on.
//!
//! The calls are in one request, which the node answers in order and in one run of its process: a node that restarts
//! between two requests would return the list of one run and the statistics of another.

use std::fmt;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::NodeError;
use super::http::ResponseLimits;
use super::mempool::MempoolInfo;
use super::node::Node;
use super::rpc::{parse, protocol};

/// An upper bound of the list of three million txids, in bytes.
const TXIDS_BYTES: u64 = 200 << 20;

/// Statistics of the mempool, and the tip that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolStatus {
    /// Statistics of the mempool.
    pub info: MempoolInfo,
    /// The tip of the node's chain, requested last.
    pub tip: BlockHash,
}

/// All transactions of the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolList {
    /// Their txids, in no particular order. The list is incomplete until the statistics say that the mempool is loaded.
    pub txids: Vec<Txid>,
    /// The mempool sequence number at that moment: the number of the next change of the mempool in its
    /// [`NodeSignal`](super::NodeSignal). This list already includes signals with a lower number.
    pub mempool_sequence: u64,
    /// The statistics, requested before the txids, and the tip, requested after them.
    pub status: MempoolStatus,
}

/// The answer of `getrawmempool`.
#[derive(Deserialize)]
struct RawMempool<'a> {
    #[serde(borrow)]
    txids: &'a RawValue,
    mempool_sequence: u64,
}

/// The bytes of a txid in hexadecimal, its quotes and a comma.
const TXID_BYTES: usize = 67;

/// Decodes a list of txids into a vector of the expected capacity, since it may be long.
struct Txids(usize);

impl<'de> Visitor<'de> for Txids {
    type Value = Vec<Txid>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of txids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Txid>, A::Error> {
        let mut txids = Vec::with_capacity(self.0);
        while let Some(txid) = list.next_element()? {
            txids.push(txid);
        }
        Ok(txids)
    }
}

/// The answer of `getblockchaininfo`.
#[derive(Deserialize)]
struct Chain {
    #[serde(rename = "bestblockhash")]
    tip: BlockHash,
}

const INFO: &str = "getmempoolinfo";
const LIST: &str = "getrawmempool";
const CHAIN: &str = "getblockchaininfo";

/// How long requests for the whole mempool are retried. Short, because new blocks wait for them, and the next round of the loop
/// that follows the node repeats them.
const PATIENCE: Duration = Duration::from_secs(5);

impl Node {
    /// All transactions of the mempool.
    ///
    /// Errors: as any request to the node.
    pub fn mempool_list(&self) -> Result<MempoolList, NodeError> {
        self.with_retries_for(PATIENCE, || self.mempool_list_once(self.options().timeout))
    }

    /// All transactions of the mempool, requested once without retries; `timeout` is for the answer.
    ///
    /// Errors: as any request to the node.
    pub fn mempool_list_once(&self, timeout: Duration) -> Result<MempoolList, NodeError> {
        let calls = [(INFO, Vec::new()), (LIST, vec![json!(false), json!(true)]), (CHAIN, Vec::new())];
        self.ask_together(&calls, ResponseLimits { timeout, bytes: TXIDS_BYTES }, |[info, list, chain]| {
            let RawMempool { txids, mempool_sequence } = parse(LIST, list)?;
            let visitor = Txids(txids.get().len() / TXID_BYTES + 1);
            let txids = serde_json::Deserializer::from_str(txids.get()).deserialize_seq(visitor);
            let txids = txids.map_err(|error| protocol(LIST, &error))?;
            Ok(MempoolList { txids, mempool_sequence, status: status(info, chain)? })
        })
    }

    /// Statistics of the mempool, and the tip that it is based on.
    ///
    /// Errors: as any request to the node.
    pub fn mempool_status(&self) -> Result<MempoolStatus, NodeError> {
        let calls = [(INFO, Vec::new()), (CHAIN, Vec::new())];
        self.with_retries_for(PATIENCE, || {
            self.ask_together(&calls, self.limits(), |[info, chain]| status(info, chain))
        })
    }

    /// Sends these calls in one request; an error of one is an error of all.
    fn ask_together<T, const N: usize>(
        &self,
        calls: &[(&str, Vec<Value>); N],
        limits: ResponseLimits,
        read: impl FnOnce([&RawValue; N]) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        self.batch_calls_once(calls, limits, |answers| {
            let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
            let problem = |answers: Vec<_>| format!("it has {} parts, not {N}", answers.len());
            read(answers.try_into().map_err(|answers| protocol(LIST, &problem(answers)))?)
        })
    }
}

fn status(info: &RawValue, chain: &RawValue) -> Result<MempoolStatus, NodeError> {
    let Chain { tip } = parse(CHAIN, chain)?;
    Ok(MempoolStatus { info: parse(INFO, info)?, tip })
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    fn txid(number: u8) -> Txid {
        Txid::hash(&[number])
    }

    fn info(loaded: bool) -> FakeResponse {
        FakeResponse::Result(json!({
            "loaded": loaded, "size": 2, "bytes": 300, "usage": 2_000, "total_fee": 0.00001, "maxmempool": 300_000_000,
            "mempoolminfee": 0.00001, "minrelaytxfee": 0.00001, "incrementalrelayfee": 0.00001,
        }))
    }

    #[test]
    fn list_sequence_statistics_and_tip_come_in_one_request() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getmempoolinfo", _) => info(false),
            FakeRequest::Rpc("getrawmempool", params) if *params == [json!(false), json!(true)] => {
                FakeResponse::Result(json!({"txids": [txid(1), txid(2)], "mempool_sequence": 77}))
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let (tip, before) = (node.chain_info().unwrap().best_block_hash, fake.requests());
        let list = node.mempool_list().unwrap();
        assert_eq!((&list.txids[..], list.mempool_sequence), (&[txid(1), txid(2)][..], 77));
        assert_eq!((list.status.tip, list.status.info.loaded), (tip, false));
        assert_eq!(node.mempool_status().unwrap(), list.status);
        assert_eq!(fake.requests() - before, 2);
    }

    #[test]
    fn an_error_of_one_call_is_an_error_of_the_list() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getmempoolinfo", _) => info(true),
            FakeRequest::Rpc("getrawmempool", _) => FakeResponse::Error(-32_601, "Method not found"),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let error = node.mempool_list().unwrap_err();
        assert!(matches!(&error, NodeError::Rpc { method, .. } if method == "getrawmempool"), "{error}");
    }
}
