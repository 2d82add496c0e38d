//! Requests about the mempool: the bytes and entry times of its transactions, its statistics, and fee estimates. The
//! list of its transactions is in `mempool_list`.
//!
//! Transactions are requested in batches. The size of a batch keeps its answer below [`BATCH_BYTES`] even if all
//! transactions are as large as a node relays them. A transaction that a miner put into the mempool by hand may be
//! larger: a batch whose answer is too long is repeated in halves.

use std::borrow::Cow;

use bitcoin::hex::FromHex;
use bitcoin::{Amount, Txid};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::amounts::{amount, feerate, optional_feerate};
use super::error::NodeError;
use super::headers::none_if;
use super::http::ResponseLimits;
use super::node::Node;
use super::rpc::{CallAnswer, code, parse, protocol};
use crate::chain::Feerate;

/// The number of transactions in one request. A transaction takes at most 400,000 bytes, twice as many in hexadecimal
/// (`MAX_STANDARD_TX_WEIGHT` of Core's `policy/policy.h`).
const BATCH: usize = 100;
/// The size limit of the answer to one request of [`BATCH`], in bytes.
const BATCH_BYTES: u64 = 96 << 20;

/// Statistics of the mempool (`getmempoolinfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct MempoolInfo {
    /// False while the node, after its start, still loads its saved mempool (`mempool.dat`).
    pub loaded: bool,
    /// The number of transactions.
    pub size: u64,
    /// The sum of their virtual sizes, in vbytes.
    pub bytes: u64,
    /// The node's memory that the mempool uses, in bytes.
    pub usage: u64,
    /// The sum of all fees.
    #[serde(deserialize_with = "amount")]
    pub total_fee: Amount,
    /// The node's memory that the mempool may use, in bytes (`-maxmempool`).
    #[serde(rename = "maxmempool")]
    pub max_usage: u64,
    /// The lowest feerate that the mempool accepts now: above [`min_relay`](Self::min_relay) when the mempool is full.
    #[serde(rename = "mempoolminfee", deserialize_with = "feerate")]
    pub min_fee: Feerate,
    /// The lowest feerate that the node relays (`-minrelaytxfee`).
    #[serde(rename = "minrelaytxfee", deserialize_with = "feerate")]
    pub min_relay: Feerate,
    /// The feerate that a replacement must pay for its own size, in addition to the fees it replaces
    /// (`-incrementalrelayfee`).
    #[serde(rename = "incrementalrelayfee", deserialize_with = "feerate")]
    pub incremental: Feerate,
}

/// How an estimate weighs recent fees (`estimate_mode` of Core's `estimatesmartfee`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EstimateMode {
    /// Follows the most recent blocks.
    Economical,
    /// Follows a longer history, so that it falls more slowly.
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

/// The answer of `getmempoolentry`.
#[derive(Deserialize)]
struct EntryTime {
    time: u64,
}

/// The feerate for confirmation within some number of blocks (`estimatesmartfee`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct FeeEstimate {
    /// The estimate; `None` where the node has seen too few blocks.
    #[serde(default, deserialize_with = "optional_feerate")]
    pub feerate: Option<Feerate>,
    /// The number of blocks that the estimate is for: the node does not estimate for one block, and may have an
    /// estimate only for more blocks than requested.
    pub blocks: u16,
}

impl Node {
    /// Each of these transactions as it is serialised on the wire; `None` for one that is not in the mempool. A node
    /// that runs with `txindex=1` finds confirmed ones too.
    ///
    /// Errors: as any request to the node.
    pub fn raw_transactions(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<u8>>>, NodeError> {
        self.of_each(txids, |txid| [raw_call(txid)], |[raw]| none_if(code::NOT_FOUND, raw)?.map(read_raw).transpose())
    }

    /// Each of these transactions as it is serialised on the wire, with the time it entered the node's mempool, in
    /// seconds since 1970; `None` for one that is not in the mempool.
    ///
    /// Errors: as any request to the node.
    pub fn raw_transactions_with_times(&self, txids: &[Txid]) -> Result<Vec<Option<Timed>>, NodeError> {
        let read = |[raw, entry]: [CallAnswer<'_>; 2]| {
            let (raw, entry) = (none_if(code::NOT_FOUND, raw)?, none_if(code::NOT_FOUND, entry)?);
            let Some((raw, entry)) = raw.zip(entry) else { return Ok(None) };
            let EntryTime { time } = parse(ENTRY, entry)?;
            Ok(Some((read_raw(raw)?, time)))
        };
        self.of_each(txids, |txid| [raw_call(txid), (ENTRY, vec![json!(txid)])], read)
    }

    /// Statistics of the mempool (`getmempoolinfo`).
    pub fn mempool_info(&self) -> Result<MempoolInfo, NodeError> {
        self.call("getmempoolinfo", &[])
    }

    /// The feerate for confirmation within each of these numbers of blocks (1 to 1,008), in one request. `None` where
    /// the node has no estimate: it has seen too few blocks, or does not estimate that far.
    pub fn estimate_fees(&self, targets: &[u16], mode: EstimateMode) -> Result<Vec<Option<Feerate>>, NodeError> {
        const METHOD: &str = "estimatesmartfee";
        let estimate = |answer: Box<RawValue>| parse::<FeeEstimate>(METHOD, &answer).map(|estimate| estimate.feerate);
        let calls: Vec<_> = targets.iter().map(|target| vec![json!(target), json!(mode.as_str())]).collect();
        self.with_retries(|| {
            let answers = self.batch_once::<Box<RawValue>>(METHOD, &calls)?;
            let optional = |answer| none_if(code::INVALID_PARAMETER, answer)?.map_or(Ok(None), estimate);
            answers.into_iter().map(optional).collect()
        })
    }

    /// Sends the same calls for each transaction, in batches.
    fn of_each<T, const N: usize>(
        &self,
        txids: &[Txid],
        questions: impl Fn(&Txid) -> [(&'static str, Vec<Value>); N],
        read: impl Fn([CallAnswer<'_>; N]) -> Result<T, NodeError>,
    ) -> Result<Vec<T>, NodeError> {
        let limits = ResponseLimits { bytes: BATCH_BYTES, ..self.limits() };
        let ask = |txids: &[Txid]| {
            let calls: Vec<_> = txids.iter().flat_map(&questions).collect();
            self.with_retries(|| {
                self.batch_calls_once(&calls, limits, |answers| {
                    let mut answers = answers.into_iter();
                    let of_one = |_: &Txid| {
                        let answers: Vec<_> = answers.by_ref().take(N).collect();
                        // as many as there were calls
                        let answers = answers.try_into().map_err(|_| protocol(RAW, &"answers are missing"))?;
                        read(answers)
                    };
                    txids.iter().map(of_one).collect()
                })
            })
        };
        let mut found = Vec::with_capacity(txids.len());
        for some in txids.chunks(BATCH) {
            found.extend(in_halves(some, &ask)?);
        }
        Ok(found)
    }
}

/// A transaction as it is serialised on the wire, and the time it entered the mempool, in seconds since 1970.
type Timed = (Vec<u8>, u64);

const RAW: &str = "getrawtransaction";
const ENTRY: &str = "getmempoolentry";

fn raw_call(txid: &Txid) -> (&'static str, Vec<Value>) {
    (RAW, vec![json!(txid), json!(0)])
}

fn read_raw(answer: &RawValue) -> Result<Vec<u8>, NodeError> {
    // hexadecimal digits need no escape, so that this borrows them
    let hex: Cow<'_, str> = parse(RAW, answer)?;
    Vec::from_hex(&hex).map_err(|error| protocol(RAW, &error))
}

/// Requests all of these at once, and splits them in halves as long as the answer is too long.
fn in_halves<T>(txids: &[Txid], ask: &impl Fn(&[Txid]) -> Result<Vec<T>, NodeError>) -> Result<Vec<T>, NodeError> {
    match ask(txids) {
        Err(NodeError::TooLong { .. }) if txids.len() > 1 => {
            let (first, second) = txids.split_at(txids.len() / 2);
            let mut found = in_halves(first, ask)?;
            found.extend(in_halves(second, ask)?);
            Ok(found)
        }
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use bitcoin::hashes::Hash;

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    fn txid(number: u32) -> Txid {
        Txid::hash(&number.to_le_bytes())
    }

    fn node(answer: impl Fn(&str, &[Value]) -> Option<FakeResponse> + Send + Sync + 'static) -> (FakeNode, Node) {
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc(method, params) => answer(method, params).unwrap_or_else(|| regtest(asked)),
            FakeRequest::Rest(_) => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        (fake, node)
    }

    #[test]
    fn batches_return_transactions_in_order_with_none_for_absent() {
        let (fake, node) = node(|method, params| {
            (method == "getrawtransaction").then(|| {
                assert_eq!(params[1], json!(0));
                let number = (0..1_000).find(|number| params[0] == json!(txid(*number))).unwrap();
                if number.is_multiple_of(3) {
                    FakeResponse::Error(-5, "No such mempool transaction.")
                } else {
                    FakeResponse::Result(json!(format!("{number:08x}")))
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
    fn only_transient_errors_are_retried() {
        let tries = Arc::new(AtomicUsize::new(0));
        let (_fake, node) = node({
            let tries = Arc::clone(&tries);
            move |method, _| match method {
                "getmempoolentry" if tries.fetch_add(1, Ordering::Relaxed) == 0 => {
                    Some(FakeResponse::Error(-28, "Loading…"))
                }
                "getmempoolentry" => Some(FakeResponse::Result(json!({"time": 1_700_000_000, "vsize": 141}))),
                "getrawtransaction" if tries.load(Ordering::Relaxed) < 2 => Some(FakeResponse::Result(json!("07"))),
                "getrawtransaction" => Some(FakeResponse::Error(-1, "disk")),
                _ => None,
            }
        });
        assert_eq!(node.raw_transactions_with_times(&[txid(1)]).unwrap(), [Some((vec![7], 1_700_000_000))]);
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        let error = node.raw_transactions(&[txid(1)]).unwrap_err();
        assert!(matches!(error, NodeError::Rpc { code: -1, .. }), "{error}");
    }

    #[test]
    fn a_batch_with_too_long_an_answer_is_split_in_halves() {
        let txids: Vec<Txid> = (0..37).map(txid).collect();
        let ask = |limit: usize| {
            move |txids: &[Txid]| match txids.len() {
                length if length > limit => Err(NodeError::TooLong { asked: "getrawtransaction".to_owned(), bytes: 1 }),
                _ => Ok(txids.to_vec()),
            }
        };
        for limit in [1, 2, 5, 37, 100] {
            assert_eq!(in_halves(&txids, &ask(limit)).unwrap(), txids);
        }
        assert!(matches!(in_halves(&txids, &ask(0)), Err(NodeError::TooLong { .. })));
    }

    #[test]
    fn a_transaction_that_is_not_hexadecimal_is_a_protocol_error() {
        for wrong in [json!("0g"), json!("000"), json!(5), json!(null)] {
            let (_fake, node) =
                node(move |method, _| (method == "getrawtransaction").then(|| FakeResponse::Result(wrong.clone())));
            let error = node.raw_transactions(&[txid(1)]).unwrap_err();
            assert!(matches!(&error, NodeError::Protocol { asked, .. } if asked == "getrawtransaction"), "{error}");
        }
    }

    #[test]
    fn statistics_are_exact_to_the_satoshi() {
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
    fn a_missing_estimate_is_none() {
        let modes = Arc::new(Mutex::new(Vec::new()));
        let (_fake, node) = node({
            let modes = Arc::clone(&modes);
            move |method, params| {
                (method == "estimatesmartfee").then(|| {
                    modes.lock().unwrap().push(params[1].clone());
                    match params[0].as_u64().unwrap() {
                        2 => FakeResponse::Result(json!({"feerate": 0.000_123_45, "blocks": 2})),
                        6 => FakeResponse::Result(
                            json!({"errors": ["Insufficient data or no feerate found"], "blocks": 6}),
                        ),
                        _ => FakeResponse::Error(-8, "Invalid conf_target, must be between 1 and 1008"),
                    }
                })
            }
        });
        let estimates = node.estimate_fees(&[2, 6, 2000], EstimateMode::Economical).unwrap();
        assert_eq!(estimates, [Some(Feerate::from_sat_per_kvb(12_345)), None, None]);
        assert_eq!(*modes.lock().unwrap(), vec![json!("economical"); 3]);
    }
}
