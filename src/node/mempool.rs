//! Questions about the mempool: its transactions, of which bytes and since when, its figures, and what fees it takes to
//! get out of it into a block. Which transactions it holds is asked next door, in `mempool_list`.
//!
//! Transactions are asked for many at a time, and each request holds so many questions that its answer stays below
//! [`BATCH_BYTES`] even if all of them are as large as a node relays them. What a miner has put into the mempool by hand
//! may be larger: a request whose answer is too long is asked again in halves.

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
use super::rpc::{CallAnswer, code, parse, protocol};
use crate::chain::Feerate;

/// How many questions are in one request. A transaction takes at most 400,000 bytes, twice as many in hexadecimal
/// (`MAX_STANDARD_TX_WEIGHT` of Core's `policy/policy.h`).
const BATCH: usize = 100;
/// The most that the answer to one request of [`BATCH`] may take, in bytes.
const BATCH_BYTES: u64 = 96 << 20;

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
    /// Each of these transactions as it is serialised on the wire; `None` for one that is not in the mempool. A node
    /// that runs with `txindex=1` finds confirmed ones too.
    ///
    /// Errors: as any question to the node.
    pub fn raw_transactions(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<u8>>>, NodeError> {
        self.of_each(txids, |txid| [raw_call(txid)], |[raw]| none_if(code::NOT_FOUND, raw)?.map(read_raw).transpose())
    }

    /// The same, with when each entered the node's mempool, in seconds since 1970; `None` for one that is not there.
    ///
    /// Errors: as any question to the node.
    pub fn raw_transactions_with_times(&self, txids: &[Txid]) -> Result<Vec<Option<Timed>>, NodeError> {
        let read = |[raw, entry]: [CallAnswer<'_>; 2]| {
            let (raw, entry) = (none_if(code::NOT_FOUND, raw)?, none_if(code::NOT_FOUND, entry)?);
            let Some((raw, entry)) = raw.zip(entry) else { return Ok(None) };
            let EntryTime { time } = parse(ENTRY, entry)?;
            Ok(Some((read_raw(raw)?, time)))
        };
        self.of_each(txids, |txid| [raw_call(txid), (ENTRY, vec![json!(txid)])], read)
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

    /// Asks the same questions of each transaction.
    fn of_each<T, const N: usize>(
        &self,
        txids: &[Txid],
        questions: impl Fn(&Txid) -> [(&'static str, Vec<Value>); N],
        read: impl Fn([CallAnswer<'_>; N]) -> Result<T, NodeError>,
    ) -> Result<Vec<T>, NodeError> {
        let limits = Limits { bytes: BATCH_BYTES, ..self.limits() };
        let ask = |txids: &[Txid]| {
            let calls: Vec<_> = txids.iter().flat_map(&questions).collect();
            self.patiently(|| {
                self.batch_of_once(&calls, limits, |answers| {
                    let mut answers = answers.into_iter();
                    let of_one = |_: &Txid| {
                        let answers: Vec<_> = answers.by_ref().take(N).collect();
                        // as many as there were questions
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

/// A transaction as it is serialised on the wire, and when it entered the mempool.
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

/// Asks for all of these at once, or in halves, and these in halves, as long as the answer is too long.
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
                "getrawtransaction" if tries.load(Ordering::Relaxed) < 2 => Some(Says::Result(json!("07"))),
                "getrawtransaction" => Some(Says::Error(-1, "disk")),
                _ => None,
            }
        });
        assert_eq!(node.raw_transactions_with_times(&[txid(1)]).unwrap(), [Some((vec![7], 1_700_000_000))]);
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        let error = node.raw_transactions(&[txid(1)]).unwrap_err();
        assert!(matches!(error, NodeError::Rpc { code: -1, .. }), "{error}");
    }

    #[test]
    fn what_is_too_long_at_once_is_asked_for_in_halves_until_even_one_is_too_long() {
        let txids: Vec<Txid> = (0..37).map(txid).collect();
        let ask = |room: usize| {
            move |txids: &[Txid]| match txids.len() {
                length if length > room => Err(NodeError::TooLong { asked: "getrawtransaction".to_owned(), bytes: 1 }),
                _ => Ok(txids.to_vec()),
            }
        };
        for room in [1, 2, 5, 37, 100] {
            assert_eq!(in_halves(&txids, &ask(room)).unwrap(), txids);
        }
        assert!(matches!(in_halves(&txids, &ask(0)), Err(NodeError::TooLong { .. })));
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
