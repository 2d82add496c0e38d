//! What the mempool holds at one moment, together with what tells whether that is all of it, and on which block it
//! stands.
//!
//! The questions are in one request, which a node answers one after the other and in one run of it: a node that is
//! started anew between two of them would else give the list of one run and the figures of another.

use std::fmt;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::NodeError;
use super::http::Limits;
use super::mempool::MempoolInfo;
use super::node::Node;
use super::rpc::{parse, protocol};

/// The ids of three million transactions.
const TXIDS_BYTES: u64 = 200 << 20;

/// The mempool in figures, and the block that it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolStanding {
    /// The mempool in figures.
    pub info: MempoolInfo,
    /// The tip of the node's chain, asked for last.
    pub tip: BlockHash,
}

/// All transactions of the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolList {
    /// Their ids, in no order to rely on. Unless the figures say that the mempool is loaded there may be more.
    pub txids: Vec<Txid>,
    /// The mempool sequence number at that moment: the one that the next transaction to enter or leave has in its
    /// [`NodeSignal`](super::NodeSignal). Signals with a lower number tell what this list knows already.
    pub mempool_sequence: u64,
    /// Asked for before the ids, and the tip after them.
    pub standing: MempoolStanding,
}

/// Of `getrawmempool`.
#[derive(Deserialize)]
struct Sequenced<'a> {
    #[serde(borrow)]
    txids: &'a RawValue,
    mempool_sequence: u64,
}

/// A txid in hexadecimal, its quotes and a comma.
const TXID_BYTES: usize = 67;

/// A list of txids, with room for as many as its length says, since it may be long.
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

/// Of `getblockchaininfo`.
#[derive(Deserialize)]
struct Chain {
    #[serde(rename = "bestblockhash")]
    tip: BlockHash,
}

const INFO: &str = "getmempoolinfo";
const LIST: &str = "getrawmempool";
const CHAIN: &str = "getblockchaininfo";

impl Node {
    /// All transactions of the mempool.
    ///
    /// Errors: as any question to the node.
    pub fn mempool_list(&self) -> Result<MempoolList, NodeError> {
        self.patiently(|| self.mempool_list_once(self.settings().timeout))
    }

    /// The same, asked once and without patience; `timeout` is for the answer.
    ///
    /// Errors: as any question to the node.
    pub fn mempool_list_once(&self, timeout: Duration) -> Result<MempoolList, NodeError> {
        let calls = [(INFO, Vec::new()), (LIST, vec![json!(false), json!(true)]), (CHAIN, Vec::new())];
        self.together(&calls, Limits { timeout, bytes: TXIDS_BYTES }, |[info, list, chain]| {
            let Sequenced { txids, mempool_sequence } = parse(LIST, list)?;
            let room = Txids(txids.get().len() / TXID_BYTES + 1);
            let txids = serde_json::Deserializer::from_str(txids.get()).deserialize_seq(room);
            let txids = txids.map_err(|error| protocol(LIST, &error))?;
            Ok(MempoolList { txids, mempool_sequence, standing: standing(info, chain)? })
        })
    }

    /// The mempool in figures, and the block that it stands on.
    ///
    /// Errors: as any question to the node.
    pub fn mempool_standing(&self) -> Result<MempoolStanding, NodeError> {
        let calls = [(INFO, Vec::new()), (CHAIN, Vec::new())];
        self.patiently(|| self.together(&calls, self.limits(), |[info, chain]| standing(info, chain)))
    }

    /// Asks all of these in one request; an error of one is an error of all.
    fn together<T, const N: usize>(
        &self,
        calls: &[(&str, Vec<Value>); N],
        limits: Limits,
        read: impl FnOnce([&RawValue; N]) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        self.batch_of_once(calls, limits, |answers| {
            let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
            let problem = |answers: Vec<_>| format!("it has {} parts, not {N}", answers.len());
            read(answers.try_into().map_err(|answers| protocol(LIST, &problem(answers)))?)
        })
    }
}

fn standing(info: &RawValue, chain: &RawValue) -> Result<MempoolStanding, NodeError> {
    let Chain { tip } = parse(CHAIN, chain)?;
    Ok(MempoolStanding { info: parse(INFO, info)?, tip })
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::super::fake::{Asked, FakeNode, Says, regtest};
    use super::*;

    fn txid(number: u8) -> Txid {
        Txid::hash(&[number])
    }

    fn info(loaded: bool) -> Says {
        Says::Result(json!({
            "loaded": loaded, "size": 2, "bytes": 300, "usage": 2_000, "total_fee": 0.00001, "maxmempool": 300_000_000,
            "mempoolminfee": 0.00001, "minrelaytxfee": 0.00001, "incrementalrelayfee": 0.00001,
        }))
    }

    #[test]
    fn the_list_its_number_the_figures_and_the_tip_come_in_one_request() {
        let fake = FakeNode::start(|asked| match asked {
            Asked::Rpc("getmempoolinfo", _) => info(false),
            Asked::Rpc("getrawmempool", params) if *params == [json!(false), json!(true)] => {
                Says::Result(json!({"txids": [txid(1), txid(2)], "mempool_sequence": 77}))
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        let (tip, before) = (node.chain_info().unwrap().best_block_hash, fake.requests());
        let list = node.mempool_list().unwrap();
        assert_eq!((&list.txids[..], list.mempool_sequence), (&[txid(1), txid(2)][..], 77));
        assert_eq!((list.standing.tip, list.standing.info.loaded), (tip, false));
        assert_eq!(node.mempool_standing().unwrap(), list.standing);
        assert_eq!(fake.requests() - before, 2);
    }

    #[test]
    fn an_error_of_one_question_is_an_error_of_all() {
        let fake = FakeNode::start(|asked| match asked {
            Asked::Rpc("getmempoolinfo", _) => info(true),
            Asked::Rpc("getrawmempool", _) => Says::Error(-32_601, "Method not found"),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        let error = node.mempool_list().unwrap_err();
        assert!(matches!(&error, NodeError::Rpc { method, .. } if method == "getrawmempool"), "{error}");
    }
}
