//! Questions about the mempool: what is in it, since when, of which bytes, its figures, and what fees it takes to get
//! out of it into a block.
//!
//! The lists are asked for many at a time, and each request holds so many questions that its answer stays below
//! [`BATCH_BYTES`] even if all of them are as large as a node relays them.

use std::borrow::Cow;

use bitcoin::hex::FromHex;
use bitcoin::{Amount, Txid};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::amounts::{amount, feerate, optional_feerate};
use super::error::NodeError;
use super::headers::none_if;
use super::http::Limits;
use super::node::Node;
use super::rpc::code;
use crate::chain::Feerate;

/// How many questions are in one request. A transaction takes at most 400,000 bytes, twice as many in hexadecimal
/// (`MAX_STANDARD_TX_WEIGHT` of Core's `policy/policy.h`).
const BATCH: usize = 100;
/// The most that the answer to one request of [`BATCH`] may take, in bytes.
const BATCH_BYTES: u64 = 96 << 20;
/// The ids of three million transactions.
const TXIDS_BYTES: u64 = 200 << 20;

/// The mempool in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct MempoolInfo {
    /// False while the node, after its start, still reads what it had in its mempool (`mempool.dat`).
    pub loaded: bool,
    /// How many transactions there are.
    pub size: u64,
    /// Their virtual sizes together, in vbytes.
    pub bytes: u64,
    /// What the mempool takes of the node's memory, in bytes.
    pub usage: u64,
    /// What all transactions pay together.
    #[serde(deserialize_with = "amount")]
    pub total_fee: Amount,
    /// What the mempool may take of the node's memory, in bytes (`-maxmempool`).
    #[serde(rename = "maxmempool")]
    pub max_usage: u64,
    /// What a transaction must pay to be taken now: more than [`min_relay`](Self::min_relay) when the mempool is full.
    #[serde(rename = "mempoolminfee", deserialize_with = "feerate")]
    pub min_fee: Feerate,
    /// What a transaction must pay to be relayed at all (`-minrelaytxfee`).
    #[serde(rename = "minrelaytxfee", deserialize_with = "feerate")]
    pub min_relay: Feerate,
    /// What a replacement must pay for its own size on top of what it replaces (`-incrementalrelayfee`).
    #[serde(rename = "incrementalrelayfee", deserialize_with = "feerate")]
    pub incremental: Feerate,
}

/// How an estimate weighs what fees were paid lately (`estimate_mode` of Core's `estimatesmartfee`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EstimateMode {
    /// Follows the last blocks.
    Economical,
    /// Follows a longer past, so that it falls more slowly.
    Conservative,
}

impl EstimateMode {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            EstimateMode::Economical => "economical",
            EstimateMode::Conservative => "conservative",
        }
    }
}

#[derive(Deserialize)]
struct Sequenced {
    txids: Vec<Txid>,
    mempool_sequence: u64,
}

/// Of `getmempoolentry`.
#[derive(Deserialize)]
struct EntryTime {
    time: u64,
}

/// What a transaction should pay to be in a block soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct FeeEstimate {
    /// What it should pay; `None` where the node has seen too few blocks to tell.
    #[serde(default, deserialize_with = "optional_feerate")]
    pub feerate: Option<Feerate>,
    /// Within how many blocks it is then: the node does not estimate for one, and may have an estimate only for more than
    /// it was asked for.
    pub blocks: u16,
}

impl Node {
    /// The ids of all transactions in the mempool, in no order to rely on, and the mempool sequence number at that
    /// moment: the one that the next transaction to enter or leave has in its
    /// [`NodeSignal`](super::NodeSignal). Signals with a lower number tell what this list knows already.
    pub fn mempool_txids(&self) -> Result<(Vec<Txid>, u64), NodeError> {
        let limits = Limits { bytes: TXIDS_BYTES, ..self.limits() };
        let Sequenced { txids, mempool_sequence } =
            self.call_within("getrawmempool", &[json!(false), json!(true)], limits)?;
        Ok((txids, mempool_sequence))
    }

    /// When each of these transactions entered the node's mempool, in seconds since 1970; `None` for one that is not
    /// there.
    pub fn mempool_entry_times(&self, txids: &[Txid]) -> Result<Vec<Option<u64>>, NodeError> {
        let entry = |answer: Box<RawValue>| parse::<EntryTime>("getmempoolentry", &answer).map(|entry| entry.time);
        self.of_each("getmempoolentry", txids, |txid| vec![json!(txid)], entry)
    }

    /// Each of these transactions as it is serialised on the wire; `None` for one that is not in the mempool. A node
    /// that runs with `txindex=1` finds confirmed ones too.
    pub fn raw_transactions(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<u8>>>, NodeError> {
        const METHOD: &str = "getrawtransaction";
        let bytes = |answer: Box<RawValue>| {
            // hexadecimal digits need no escape, so that this borrows them
            let hex: Cow<'_, str> = parse(METHOD, &answer)?;
            Vec::from_hex(&hex).map_err(|error| protocol(METHOD, &error))
        };
        self.of_each(METHOD, txids, |txid| vec![json!(txid), json!(0)], bytes)
    }

    /// The mempool in figures.
    pub fn mempool_info(&self) -> Result<MempoolInfo, NodeError> {
        self.call("getmempoolinfo", &[])
    }

    /// What a transaction should pay to be in a block after at most so many, for each of these numbers of blocks (1 to
    /// 1,008), in one request. `None` where the node has no estimate: it has seen too few blocks, or does not estimate
    /// that far.
    pub fn estimate_fees(&self, targets: &[u16], mode: EstimateMode) -> Result<Vec<Option<Feerate>>, NodeError> {
        const METHOD: &str = "estimatesmartfee";
        let estimate = |answer: Box<RawValue>| parse::<FeeEstimate>(METHOD, &answer).map(|estimate| estimate.feerate);
        let calls: Vec<_> = targets.iter().map(|target| vec![json!(target), json!(mode.as_str())]).collect();
        self.patiently(|| {
            let answers = self.batch_once::<Box<RawValue>>(METHOD, &calls)?;
            let told = |answer| none_if(code::INVALID_PARAMETER, answer)?.map_or(Ok(None), estimate);
            answers.into_iter().map(told).collect()
        })
    }

    /// Asks the same of each transaction; `None` for those that the node does not find.
    fn of_each<T>(
        &self,
        method: &str,
        txids: &[Txid],
        params: impl Fn(&Txid) -> Vec<Value>,
        read: impl Fn(Box<RawValue>) -> Result<T, NodeError>,
    ) -> Result<Vec<Option<T>>, NodeError> {
        let limits = Limits { bytes: BATCH_BYTES, ..self.limits() };
        let mut found = Vec::with_capacity(txids.len());
        for some in txids.chunks(BATCH) {
            let calls: Vec<_> = some.iter().map(&params).collect();
            let answers = self.patiently(|| {
                let answers = self.batch_once_within::<Box<RawValue>>(method, &calls, limits)?;
                let told = |answer| none_if(code::NOT_FOUND, answer)?.map(&read).transpose();
                answers.into_iter().map(told).collect::<Result<Vec<_>, _>>()
            })?;
            found.extend(answers);
        }
        Ok(found)
    }
}

fn parse<'a, T: Deserialize<'a>>(method: &str, answer: &'a RawValue) -> Result<T, NodeError> {
    serde_json::from_str(answer.get()).map_err(|error| protocol(method, &error))
}

fn protocol(method: &str, problem: &impl ToString) -> NodeError {
    NodeError::Protocol { asked: method.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use bitcoin::hashes::Hash;

    use super::super::fake::{Asked, FakeNode, Says, regtest};
    use super::*;

    fn txid(number: u32) -> Txid {
        Txid::hash(&number.to_le_bytes())
    }

    fn node(answer: impl Fn(&str, &[Value]) -> Option<Says> + Send + Sync + 'static) -> (FakeNode, Node) {
        let fake = FakeNode::start(move |asked| match asked {
            Asked::Rpc(method, params) => answer(method, params).unwrap_or_else(|| regtest(asked)),
            Asked::Rest(_) => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        (fake, node)
    }

    #[test]
    fn the_ids_come_with_the_sequence_number_they_are_of() {
        let (_fake, node) = node(|method, params| {
            (method == "getrawmempool" && params == [json!(false), json!(true)])
                .then(|| Says::Result(json!({"txids": [txid(1), txid(2)], "mempool_sequence": 77})))
        });
        assert_eq!(node.mempool_txids().unwrap(), (vec![txid(1), txid(2)], 77));
    }

    #[test]
    fn transactions_are_asked_for_in_batches_and_come_in_their_order_with_gaps_where_there_are_none() {
        let (fake, node) = node(|method, params| {
            (method == "getrawtransaction").then(|| {
                assert_eq!(params[1], json!(0));
                let number = (0..1_000).find(|number| params[0] == json!(txid(*number))).unwrap();
                if number.is_multiple_of(3) {
                    Says::Error(-5, "No such mempool transaction.")
                } else {
                    Says::Result(json!(format!("{number:08x}")))
                }
            })
        });
        let before = fake.requests();
        let txids: Vec<Txid> = (0..250).map(txid).collect();
        let found = node.raw_transactions(&txids).unwrap();
        let expected = |number: u32| (!number.is_multiple_of(3)).then(|| number.to_be_bytes().to_vec());
        assert_eq!(found, (0..250).map(expected).collect::<Vec<_>>());
        assert_eq!(fake.requests() - before, 3);
        assert_eq!(node.raw_transactions(&[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
        assert_eq!(fake.requests() - before, 3);
    }

    #[test]
    fn another_error_than_not_found_is_an_error_and_a_transient_one_is_tried_again() {
        let tries = Arc::new(AtomicUsize::new(0));
        let (_fake, node) = node({
            let tries = Arc::clone(&tries);
            move |method, _| match method {
                "getmempoolentry" if tries.fetch_add(1, Ordering::Relaxed) == 0 => Some(Says::Error(-28, "Loading…")),
                "getmempoolentry" => Some(Says::Result(json!({"time": 1_700_000_000, "vsize": 141}))),
                "getrawtransaction" => Some(Says::Error(-1, "disk")),
                _ => None,
            }
        });
        assert_eq!(node.mempool_entry_times(&[txid(1)]).unwrap(), [Some(1_700_000_000)]);
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        let error = node.raw_transactions(&[txid(1)]).unwrap_err();
        assert!(matches!(error, NodeError::Rpc { code: -1, .. }), "{error}");
    }

    #[test]
    fn what_is_no_hexadecimal_text_is_named() {
        for wrong in [json!("0g"), json!("000"), json!(5), json!(null)] {
            let (_fake, node) =
                node(move |method, _| (method == "getrawtransaction").then(|| Says::Result(wrong.clone())));
            let error = node.raw_transactions(&[txid(1)]).unwrap_err();
            assert!(matches!(&error, NodeError::Protocol { asked, .. } if asked == "getrawtransaction"), "{error}");
        }
    }

    #[test]
    fn the_figures_are_exact_to_the_satoshi() {
        let info: MempoolInfo = serde_json::from_str(
            r#"{"loaded":false,"size":3,"bytes":700,"usage":4096,"total_fee":20999999.97690001,
            "maxmempool":300000000,"mempoolminfee":0.00000101,"minrelaytxfee":0.00000100,
            "incrementalrelayfee":0.00001000,"unbroadcastcount":0,"fullrbf":true}"#,
        )
        .unwrap();
        let expected = MempoolInfo {
            loaded: false,
            size: 3,
            bytes: 700,
            usage: 4_096,
            total_fee: Amount::from_sat(2_099_999_997_690_001),
            max_usage: 300_000_000,
            min_fee: Feerate::from_sat_per_kvb(101),
            min_relay: Feerate::from_sat_per_kvb(100),
            incremental: Feerate::from_sat_per_kvb(1_000),
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn an_estimate_that_the_node_does_not_have_is_none() {
        let modes = Arc::new(Mutex::new(Vec::new()));
        let (_fake, node) = node({
            let modes = Arc::clone(&modes);
            move |method, params| {
                (method == "estimatesmartfee").then(|| {
                    modes.lock().unwrap().push(params[1].clone());
                    match params[0].as_u64().unwrap() {
                        2 => Says::Result(json!({"feerate": 0.000_123_45, "blocks": 2})),
                        6 => Says::Result(json!({"errors": ["Insufficient data or no feerate found"], "blocks": 6})),
                        _ => Says::Error(-8, "Invalid conf_target, must be between 1 and 1008"),
                    }
                })
            }
        });
        let estimates = node.estimate_fees(&[2, 6, 2000], EstimateMode::Economical).unwrap();
        assert_eq!(estimates, [Some(Feerate::from_sat_per_kvb(12_345)), None, None]);
        assert_eq!(*modes.lock().unwrap(), vec![json!("economical"); 3]);
    }
}
