//! Handing transactions to the node: to be judged, to be sent, alone or as a package.
//!
//! None of this is ever asked twice by itself. A request that broke off may have reached the node, and what the second
//! answer says would not be what became of the first; and somebody waits who would rather be told. (To send the same
//! transaction again does no harm: a node that has it in its mempool says so by its id, one that has it in its chain by
//! code -27.)

use std::collections::BTreeMap;
use std::time::Duration;

use bitcoin::{Amount, Txid, Wtxid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::amounts::{amount, optional_feerate, text};
use super::error::NodeError;
use super::http::Limits;
use super::node::Node;
use super::rpc::code;
use crate::chain::Feerate;

/// Why a node does not take a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// The code that `sendrawtransaction` has for it, of Core's `src/rpc/protocol.h`: -22 for bytes that are no
    /// transaction, -25 for inputs that do not exist and for limits of the caller, -26 for rules of consensus and policy,
    /// -27 for a transaction that is in the chain.
    pub code: i64,
    /// Why, in the node's word for it (`reject-reason`), such as `min relay fee not met`.
    pub reason: String,
    /// The reason with particulars, such as `min relay fee not met, 7 < 110`.
    pub message: String,
}

/// What the caller lets a transaction cost. What is `None` is left to the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxFees {
    /// The highest feerate; zero for any. A node's default is 10,000 sat/vB (0.1 BTC/kvB).
    pub feerate: Option<Feerate>,
    /// The most that one output may pay to a script that nobody can ever spend from. A node's default is nothing, since
    /// Core 25, which is the first to be told.
    pub burn: Option<Amount>,
}

/// What a transaction that the node would take pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Its virtual size as policy counts it (signature operations included), in vbytes.
    pub vsize: u64,
    /// Its fee.
    pub fee: Amount,
    /// The feerate by which it is judged: with that of transactions of the package that pay for it.
    pub effective_feerate: Option<Feerate>,
    /// The transactions that this is the feerate of together; nothing where the node does not say.
    pub effective_includes: Vec<Wtxid>,
}

/// What would become of a transaction if it were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestedTransaction {
    /// Its id.
    pub txid: Txid,
    /// Its id with witnesses.
    pub wtxid: Wtxid,
    /// `None` where the node gave up before it came to this one: another of the package was refused, or the package as a
    /// whole.
    pub verdict: Option<Result<Judged, Refusal>>,
    /// Why the transactions are no package that the node could judge.
    pub package_error: Option<String>,
}

/// What became of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageOutcome {
    /// `success` when all of its transactions are in the mempool, else the node's word for why not.
    pub message: String,
    /// What became of each, in the order of their ids with witnesses.
    pub transactions: Vec<SubmittedTransaction>,
    /// What left the mempool for it.
    pub replaced: Vec<Txid>,
}

/// What became of a transaction of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedTransaction {
    /// Its id.
    pub txid: Txid,
    /// Its id with witnesses.
    pub wtxid: Wtxid,
    /// The id with witnesses of a transaction of the same id that the mempool has in its place.
    pub other_wtxid: Option<Wtxid>,
    /// What it pays if it is in the mempool; `None` where [`other_wtxid`](Self::other_wtxid) is.
    pub verdict: Option<Result<Judged, Refusal>>,
}

#[derive(Deserialize)]
struct Fees {
    #[serde(deserialize_with = "amount")]
    base: Amount,
    #[serde(rename = "effective-feerate", default, deserialize_with = "optional_feerate")]
    effective_feerate: Option<Feerate>,
    #[serde(rename = "effective-includes", default)]
    effective_includes: Vec<Wtxid>,
}

/// Of `testmempoolaccept`.
#[derive(Deserialize)]
struct Tested {
    txid: Txid,
    wtxid: Wtxid,
    #[serde(rename = "package-error")]
    package_error: Option<String>,
    allowed: Option<bool>,
    vsize: Option<u64>,
    fees: Option<Fees>,
    #[serde(rename = "reject-reason")]
    reason: Option<String>,
    #[serde(rename = "reject-details")]
    details: Option<String>,
}

/// Of `submitpackage`.
#[derive(Deserialize)]
struct Submitted {
    package_msg: String,
    #[serde(rename = "tx-results")]
    transactions: BTreeMap<Wtxid, SubmittedOne>,
    #[serde(rename = "replaced-transactions", default)]
    replaced: Vec<Txid>,
}

#[derive(Deserialize)]
struct SubmittedOne {
    txid: Txid,
    #[serde(rename = "other-wtxid")]
    other_wtxid: Option<Wtxid>,
    vsize: Option<u64>,
    fees: Option<Fees>,
    error: Option<String>,
}

impl Node {
    /// Asks what would become of these transactions, in hexadecimal, if they were sent together: one, or up to 25 that may
    /// spend each other. `timeout` is for the answer.
    pub fn test_accept(
        &self,
        transactions: &[impl AsRef<str>],
        max_feerate: Option<Feerate>,
        timeout: Duration,
    ) -> Result<Result<Vec<TestedTransaction>, Refusal>, NodeError> {
        let mut params = vec![hexes(transactions)];
        params.extend(max_feerate.map(per_kvb));
        let limits = Limits { timeout, ..self.limits() };
        let answer = self.call_once_within::<Vec<Tested>>("testmempoolaccept", &params, limits);
        Ok(refusal(answer)?.map(|tested| tested.into_iter().map(Tested::read).collect()))
    }

    /// Hands a transaction, in hexadecimal, to the node, which tells it to its peers. `timeout` is for the answer: after
    /// an error it is not known whether the node has the transaction.
    pub fn send_raw_transaction(
        &self,
        transaction: &str,
        max: MaxFees,
        timeout: Duration,
    ) -> Result<Result<Txid, Refusal>, NodeError> {
        let mut params = vec![json!(transaction)];
        params.extend(max.params());
        let limits = Limits { timeout, ..self.limits() };
        refusal(self.call_once_within("sendrawtransaction", &params, limits))
    }

    /// Hands a child, which is the last, and parents of it to the node, so that the child pays for those that pay too
    /// little themselves (Core 26 or later; limits since 27). `timeout` is as with
    /// [`send_raw_transaction`](Node::send_raw_transaction). That a transaction is refused is no error here, but told of
    /// that transaction.
    pub fn submit_package(
        &self,
        transactions: &[impl AsRef<str>],
        max: MaxFees,
        timeout: Duration,
    ) -> Result<Result<PackageOutcome, Refusal>, NodeError> {
        let mut params = vec![hexes(transactions)];
        params.extend(max.params());
        let limits = Limits { timeout, ..self.limits() };
        let answer = self.call_once_within::<Submitted>("submitpackage", &params, limits);
        Ok(refusal(answer)?.map(|Submitted { package_msg, transactions, replaced }| PackageOutcome {
            message: package_msg,
            transactions: transactions.into_iter().map(SubmittedOne::read).collect(),
            replaced,
        }))
    }
}

impl MaxFees {
    /// As the last parameters of a call: none where a node is to use its own, since older ones do not know the last.
    fn params(self) -> Vec<Value> {
        let burn = self.burn.map(|burn| json!(text(burn)));
        match (self.feerate.map(per_kvb), burn) {
            (None, None) => Vec::new(),
            (Some(feerate), None) => vec![feerate],
            (feerate, Some(burn)) => vec![feerate.unwrap_or(Value::Null), burn],
        }
    }
}

impl Refusal {
    fn new(code: i32, reason: &str, message: String) -> Refusal {
        Refusal { code: i64::from(code), reason: reason.to_owned(), message }
    }

    /// From what an error says: with code -26 the reason, a comma and particulars (`ValidationState::ToString` of Core's
    /// `consensus/validation.h`), with others a sentence.
    fn of_error(code: i32, message: String) -> Refusal {
        let reason = match message.split_once(", ") {
            Some((reason, _)) if code == code::REJECTED => reason.to_owned(),
            _ => message.clone(),
        };
        Refusal::new(code, &reason, message)
    }

    /// From a reason where there is no code.
    fn of_reason(reason: &str, details: Option<String>) -> Refusal {
        let code = match reason {
            "missing-inputs" | "bad-txns-inputs-missingorspent" | "max-fee-exceeded" => code::VERIFY,
            "txn-already-known" | "txn-already-in-mempool" => code::ALREADY_IN_CHAIN,
            _ => code::REJECTED,
        };
        Refusal::new(code, reason, details.unwrap_or_else(|| reason.to_owned()))
    }
}

impl Fees {
    fn judged(self, vsize: u64) -> Judged {
        Judged {
            vsize,
            fee: self.base,
            effective_feerate: self.effective_feerate,
            effective_includes: self.effective_includes,
        }
    }
}

impl Tested {
    fn read(self) -> TestedTransaction {
        let verdict = match (self.allowed, self.vsize, self.fees) {
            (Some(true), Some(vsize), Some(fees)) => Some(Ok(fees.judged(vsize))),
            (Some(false), ..) => Some(Err(Refusal::of_reason(
                &self.reason.unwrap_or_default(),
                self.details.filter(|text| !text.is_empty()),
            ))),
            _ => None,
        };
        TestedTransaction { txid: self.txid, wtxid: self.wtxid, verdict, package_error: self.package_error }
    }
}

impl SubmittedOne {
    fn read((wtxid, one): (Wtxid, SubmittedOne)) -> SubmittedTransaction {
        let verdict = match (one.error, one.vsize, one.fees) {
            (Some(message), ..) => {
                let reason = message.split(", ").next().unwrap_or_default().to_owned();
                Some(Err(Refusal::of_reason(&reason, Some(message))))
            }
            (None, Some(vsize), Some(fees)) => Some(Ok(fees.judged(vsize))),
            _ => None,
        };
        SubmittedTransaction { txid: one.txid, wtxid, other_wtxid: one.other_wtxid, verdict }
    }
}

fn hexes(transactions: &[impl AsRef<str>]) -> Value {
    transactions.iter().map(AsRef::as_ref).collect()
}

/// A feerate as the node reads it, in BTC for 1,000 virtual bytes.
fn per_kvb(feerate: Feerate) -> Value {
    json!(text(Amount::from_sat(feerate.to_sat_per_kvb())))
}

/// Tells what is the transaction's fault from what is not.
fn refusal<T>(answer: Result<T, NodeError>) -> Result<Result<T, Refusal>, NodeError> {
    const REFUSALS: [i32; 5] =
        [code::INVALID_PARAMETER, code::DESERIALIZATION, code::VERIFY, code::REJECTED, code::ALREADY_IN_CHAIN];
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(NodeError::Rpc { code, message, .. }) if REFUSALS.contains(&code) => {
            Ok(Err(Refusal::of_error(code, message)))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bitcoin::hashes::Hash;

    use super::super::fake::{Asked, FakeNode, Says, regtest};
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A node that says this to a method, and what the method was given.
    fn node(method: &'static str, says: fn() -> Says) -> (FakeNode, Node, Arc<Mutex<Vec<Vec<Value>>>>) {
        let given = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&given);
        let fake = FakeNode::start(move |asked| match asked {
            Asked::Rpc(asked, params) if *asked == method => {
                noted.lock().unwrap().push(params.to_vec());
                says()
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.settings()).unwrap();
        (fake, node, given)
    }

    fn refusal(code: i64, reason: &str, message: &str) -> Refusal {
        Refusal { code, reason: reason.into(), message: message.into() }
    }

    #[test]
    fn limits_are_told_in_btc_and_left_to_the_node_where_there_are_none() {
        let txid = || Says::Result(json!(Txid::all_zeros()));
        let (_fake, node, given) = node("sendrawtransaction", txid);
        let (feerate, burn) = (Some(Feerate::from_sat_per_kvb(12_345)), Some(Amount::from_sat(5_000)));
        for max in [
            MaxFees::default(),
            MaxFees { feerate, burn: None },
            MaxFees { feerate: None, burn },
            MaxFees { feerate: Some(Feerate::ZERO), burn },
        ] {
            assert_eq!(node.send_raw_transaction("00", max, TIMEOUT).unwrap(), Ok(Txid::all_zeros()));
        }
        let expected = [
            vec![json!("00")],
            vec![json!("00"), json!("0.00012345")],
            vec![json!("00"), json!(null), json!("0.00005000")],
            vec![json!("00"), json!("0"), json!("0.00005000")],
        ];
        let amounts = |params: &Vec<Value>| {
            // the number of zeros at the end is free
            let short =
                |value: &Value| value.as_str().map(|text| text.trim_end_matches('0').trim_end_matches('.').to_owned());
            params[1..].iter().map(short).collect::<Vec<_>>()
        };
        let given = given.lock().unwrap();
        assert_eq!(given.iter().map(amounts).collect::<Vec<_>>(), expected.iter().map(amounts).collect::<Vec<_>>());
        assert!(given.iter().all(|params| params[0] == json!("00")));
    }

    #[test]
    fn what_is_the_transactions_fault_is_a_refusal_with_the_nodes_reason() {
        let refused = |says| {
            let (_fake, node, _) = node("sendrawtransaction", says);
            node.send_raw_transaction("00", MaxFees::default(), TIMEOUT).unwrap().unwrap_err()
        };
        let words = "min relay fee not met, 7 < 110";
        assert_eq!(
            refused(|| Says::Error(-26, "min relay fee not met, 7 < 110")),
            refusal(-26, "min relay fee not met", words)
        );
        let words = "bad-txns-inputs-missingorspent";
        assert_eq!(refused(|| Says::Error(-25, "bad-txns-inputs-missingorspent")), refusal(-25, words, words));
        let words = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
        let says = || Says::Error(-25, "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)");
        assert_eq!(refused(says), refusal(-25, words, words));
        assert_eq!(refused(|| Says::Error(-22, "TX decode failed")).code, -22);
        assert_eq!(refused(|| Says::Error(-27, "Transaction outputs already in utxo set")).code, -27);
    }

    #[test]
    fn what_is_the_nodes_fault_is_an_error_and_nothing_is_sent_twice() {
        for says in [|| Says::Status(503, "Work queue depth exceeded"), || Says::Error(-28, "Loading…")] {
            let (_fake, node, given) = node("sendrawtransaction", says);
            let error = node.send_raw_transaction("00", MaxFees::default(), TIMEOUT).unwrap_err();
            assert!(error.is_transient(), "{error}");
            assert_eq!(given.lock().unwrap().len(), 1);
        }
        let (_fake, node, _) = node("submitpackage", || Says::Error(-32601, "Method not found"));
        assert!(matches!(
            node.submit_package(&["00"], MaxFees::default(), TIMEOUT),
            Err(NodeError::Rpc { code: -32601, .. })
        ));
    }

    #[test]
    fn a_package_is_tested_one_by_one_and_what_was_not_come_to_has_no_verdict() {
        let (_fake, node, given) = node("testmempoolaccept", || {
            let id = |byte| json!(Txid::from_byte_array([byte; 32]));
            Says::Result(json!([
                {"txid": id(1), "wtxid": id(2), "allowed": true, "vsize": 141,
                 "fees": {"base": 0.000_014_1, "effective-feerate": 0.000_1, "effective-includes": [id(2)]}},
                {"txid": id(3), "wtxid": id(4), "allowed": false, "reject-reason": "min relay fee not met",
                 "reject-details": "min relay fee not met, 7 < 110"},
                {"txid": id(5), "wtxid": id(6), "allowed": false, "reject-reason": "missing-inputs"},
                {"txid": id(7), "wtxid": id(8), "package-error": "package-not-sorted"},
            ]))
        });
        let tested = node.test_accept(&["00", "01"], Some(Feerate::from_sat_per_kvb(1_000)), TIMEOUT).unwrap().unwrap();
        let verdicts: Vec<_> = tested.iter().map(|one| one.verdict.clone()).collect();
        let judged = Judged {
            vsize: 141,
            fee: Amount::from_sat(1_410),
            effective_feerate: Some(Feerate::from_sat_per_kvb(10_000)),
            effective_includes: vec![Wtxid::from_byte_array([2; 32])],
        };
        let expected = [
            Some(Ok(judged)),
            Some(Err(refusal(-26, "min relay fee not met", "min relay fee not met, 7 < 110"))),
            Some(Err(refusal(-25, "missing-inputs", "missing-inputs"))),
            None,
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(tested[3].package_error.as_deref(), Some("package-not-sorted"));
        assert_eq!(
            (tested[0].txid, tested[0].wtxid),
            (Txid::from_byte_array([1; 32]), Wtxid::from_byte_array([2; 32]))
        );
        assert_eq!(given.lock().unwrap()[0][0], json!(["00", "01"]));
    }

    #[test]
    fn a_submitted_package_tells_what_became_of_each() {
        let (_fake, node, _) = node("submitpackage", || {
            let id = |byte| Txid::from_byte_array([byte; 32]).to_string();
            Says::Result(json!({
                "package_msg": "transaction failed",
                "tx-results": {
                    id(9): {"txid": id(1), "error": "min relay fee not met, 0 < 110"},
                    id(8): {"txid": id(2), "vsize": 110, "fees": {"base": 0.000_01}},
                    id(7): {"txid": id(3), "other-wtxid": id(6)},
                },
                "replaced-transactions": [id(5)],
            }))
        });
        let outcome = node.submit_package(&["00"], MaxFees::default(), TIMEOUT).unwrap().unwrap();
        assert_eq!(
            (outcome.message.as_str(), &outcome.replaced[..]),
            ("transaction failed", &[Txid::from_byte_array([5; 32])][..])
        );
        let of =
            |byte| outcome.transactions.iter().find(|one| one.wtxid == Wtxid::from_byte_array([byte; 32])).unwrap();
        let refused = refusal(-26, "min relay fee not met", "min relay fee not met, 0 < 110");
        assert_eq!(of(9).verdict, Some(Err(refused)));
        let judged = Judged {
            vsize: 110,
            fee: Amount::from_sat(1_000),
            effective_feerate: None,
            effective_includes: Vec::new(),
        };
        assert_eq!((of(8).txid, of(8).verdict.clone()), (Txid::from_byte_array([2; 32]), Some(Ok(judged))));
        assert_eq!((of(7).other_wtxid, of(7).verdict.clone()), (Some(Wtxid::from_byte_array([6; 32])), None));
    }
}
