//! Tests and submits transactions, alone or as a package.
//!
//! These requests are never retried. A request that failed halfway may have reached the node, so a second answer would
//! not describe the first request; and the caller waits for the result. (To send the same transaction again does no
//! harm: a node that has it in its mempool returns its txid, a node that has it in its chain returns code -27.)

use std::collections::BTreeMap;
use std::time::Duration;

use bitcoin::{Amount, Txid, Wtxid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::amounts::{amount, optional_feerate, text};
use super::error::NodeError;
use super::http::ResponseLimits;
use super::node::Node;
use super::rpc::code;
use crate::chain::Feerate;

/// Why a node refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// The code of `sendrawtransaction`, from Core's `src/rpc/protocol.h`: -22 for bytes that are not a transaction,
    /// -25 for missing inputs and for exceeded limits of the caller, -26 for rules of consensus and policy, -27 for a
    /// transaction that is in the chain.
    pub code: i64,
    /// The node's reason (`reject-reason`), such as `min relay fee not met`.
    pub reason: String,
    /// The reason with details, such as `min relay fee not met, 7 < 110`.
    pub message: String,
}

/// The caller's limits on what a transaction may cost. `None` leaves a limit to the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxFees {
    /// The highest feerate; zero for no limit. The node's default is 10,000 sat/vB (0.1 BTC/kvB).
    pub feerate: Option<Feerate>,
    /// The most that one output may pay to an unspendable script. The node's default is zero since Core 25, the first
    /// version with this parameter.
    pub burn: Option<Amount>,
}

/// The size and fee of a transaction that the node accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolAcceptance {
    /// Its virtual size as policy counts it (signature operations included), in vbytes.
    pub vsize: u64,
    /// Its fee.
    pub fee: Amount,
    /// The feerate that the node applies, including transactions of the package that pay for it.
    pub effective_feerate: Option<Feerate>,
    /// The transactions that share this feerate; empty where the node does not list them.
    pub effective_includes: Vec<Wtxid>,
}

/// The result of testing a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestedTransaction {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// `None` where the node stopped before this transaction: it refused another of the package, or the package as a
    /// whole.
    pub verdict: Option<Result<MempoolAcceptance, Refusal>>,
    /// Why the transactions are not a valid package.
    pub package_error: Option<String>,
}

/// The result of submitting a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageOutcome {
    /// `success` when all of its transactions are in the mempool, else the node's reason.
    pub message: String,
    /// The result of each transaction, in the order of their wtxids.
    pub transactions: Vec<SubmittedTransaction>,
    /// The transactions of the mempool that it replaced.
    pub replaced: Vec<Txid>,
}

/// The result of submitting a transaction of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedTransaction {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// The wtxid of a transaction with the same txid that the mempool already has.
    pub other_wtxid: Option<Wtxid>,
    /// Its size and fee if it is in the mempool; `None` where [`other_wtxid`](Self::other_wtxid) is.
    pub verdict: Option<Result<MempoolAcceptance, Refusal>>,
}

#[derive(Deserialize)]
struct AcceptedFees {
    #[serde(deserialize_with = "amount")]
    base: Amount,
    #[serde(rename = "effective-feerate", default, deserialize_with = "optional_feerate")]
    effective_feerate: Option<Feerate>,
    #[serde(rename = "effective-includes", default)]
    effective_includes: Vec<Wtxid>,
}

/// An item of the answer of `testmempoolaccept`.
#[derive(Deserialize)]
struct TestAcceptResult {
    txid: Txid,
    wtxid: Wtxid,
    #[serde(rename = "package-error")]
    package_error: Option<String>,
    allowed: Option<bool>,
    vsize: Option<u64>,
    fees: Option<AcceptedFees>,
    #[serde(rename = "reject-reason")]
    reason: Option<String>,
    #[serde(rename = "reject-details")]
    details: Option<String>,
}

/// The answer of `submitpackage`.
#[derive(Deserialize)]
struct SubmitPackageResult {
    package_msg: String,
    #[serde(rename = "tx-results")]
    transactions: BTreeMap<Wtxid, SubmitPackageTransaction>,
    #[serde(rename = "replaced-transactions", default)]
    replaced: Vec<Txid>,
}

#[derive(Deserialize)]
struct SubmitPackageTransaction {
    txid: Txid,
    #[serde(rename = "other-wtxid")]
    other_wtxid: Option<Wtxid>,
    vsize: Option<u64>,
    fees: Option<AcceptedFees>,
    error: Option<String>,
}

impl Node {
    /// Tests whether the mempool would accept these transactions, in hexadecimal, if they were sent together: one, or
    /// up to 25 that may spend each other. `timeout` is for the answer.
    pub fn test_accept(
        &self,
        transactions: &[impl AsRef<str>],
        max_feerate: Option<Feerate>,
        timeout: Duration,
    ) -> Result<Result<Vec<TestedTransaction>, Refusal>, NodeError> {
        let mut params = vec![hexes(transactions)];
        params.extend(max_feerate.map(per_kvb));
        let limits = ResponseLimits { timeout, ..self.limits() };
        let answer = self.call_once_within::<Vec<TestAcceptResult>>("testmempoolaccept", &params, limits);
        Ok(refusal(answer)?.map(|tested| tested.into_iter().map(TestAcceptResult::read).collect()))
    }

    /// Submits a transaction, in hexadecimal, to the node, which announces it to its peers. `timeout` is for the
    /// answer: after an error it is not known whether the node has the transaction.
    pub fn send_raw_transaction(
        &self,
        transaction: &str,
        max: MaxFees,
        timeout: Duration,
    ) -> Result<Result<Txid, Refusal>, NodeError> {
        let mut params = vec![json!(transaction)];
        params.extend(max.params());
        let limits = ResponseLimits { timeout, ..self.limits() };
        refusal(self.call_once_within("sendrawtransaction", &params, limits))
    }

    /// Submits parents and their child, which is the last, as a package, so that the child pays for parents with too
    /// low a feerate (Core 26 or later; limits since 27). `timeout` is as with
    /// [`send_raw_transaction`](Node::send_raw_transaction). A refused transaction is not an error here; its result
    /// says so.
    pub fn submit_package(
        &self,
        transactions: &[impl AsRef<str>],
        max: MaxFees,
        timeout: Duration,
    ) -> Result<Result<PackageOutcome, Refusal>, NodeError> {
        let mut params = vec![hexes(transactions)];
        params.extend(max.params());
        let limits = ResponseLimits { timeout, ..self.limits() };
        let answer = self.call_once_within::<SubmitPackageResult>("submitpackage", &params, limits);
        Ok(refusal(answer)?.map(|SubmitPackageResult { package_msg, transactions, replaced }| PackageOutcome {
            message: package_msg,
            transactions: transactions.into_iter().map(SubmitPackageTransaction::read).collect(),
            replaced,
        }))
    }
}

impl MaxFees {
    /// The last parameters of a call: none where the node applies its own limits, since older nodes do not know the
    /// last parameter.
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

    /// From the message of an error: with code -26 the reason, a comma and details (`ValidationState::ToString` of
    /// Core's `consensus/validation.h`), with others a sentence.
    fn of_error(code: i32, message: String) -> Refusal {
        let reason = match message.split_once(", ") {
            Some((reason, _)) if code == code::REJECTED => reason.to_owned(),
            _ => message.clone(),
        };
        Refusal::new(code, &reason, message)
    }

    /// From a reason without a code.
    fn of_reason(reason: &str, details: Option<String>) -> Refusal {
        let code = match reason {
            "missing-inputs" | "bad-txns-inputs-missingorspent" | "max-fee-exceeded" => code::VERIFY,
            "txn-already-known" | "txn-already-in-mempool" => code::ALREADY_IN_CHAIN,
            _ => code::REJECTED,
        };
        Refusal::new(code, reason, details.unwrap_or_else(|| reason.to_owned()))
    }
}

impl AcceptedFees {
    fn acceptance(self, vsize: u64) -> MempoolAcceptance {
        MempoolAcceptance {
            vsize,
            fee: self.base,
            effective_feerate: self.effective_feerate,
            effective_includes: self.effective_includes,
        }
    }
}

impl TestAcceptResult {
    fn read(self) -> TestedTransaction {
        let verdict = match (self.allowed, self.vsize, self.fees) {
            (Some(true), Some(vsize), Some(fees)) => Some(Ok(fees.acceptance(vsize))),
            (Some(false), ..) => Some(Err(Refusal::of_reason(
                &self.reason.unwrap_or_default(),
                self.details.filter(|text| !text.is_empty()),
            ))),
            _ => None,
        };
        TestedTransaction { txid: self.txid, wtxid: self.wtxid, verdict, package_error: self.package_error }
    }
}

impl SubmitPackageTransaction {
    fn read((wtxid, one): (Wtxid, SubmitPackageTransaction)) -> SubmittedTransaction {
        let verdict = match (one.error, one.vsize, one.fees) {
            (Some(message), ..) => {
                let reason = message.split(", ").next().unwrap_or_default().to_owned();
                Some(Err(Refusal::of_reason(&reason, Some(message))))
            }
            (None, Some(vsize), Some(fees)) => Some(Ok(fees.acceptance(vsize))),
            _ => None,
        };
        SubmittedTransaction { txid: one.txid, wtxid, other_wtxid: one.other_wtxid, verdict }
    }
}

fn hexes(transactions: &[impl AsRef<str>]) -> Value {
    transactions.iter().map(AsRef::as_ref).collect()
}

/// A feerate as the node parses it, in BTC per 1,000 vbytes.
fn per_kvb(feerate: Feerate) -> Value {
    json!(text(Amount::from_sat(feerate.to_sat_per_kvb())))
}

/// Separates a refusal of the transaction from other errors.
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

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A node with this response to a method, and the parameters of each call of the method.
    fn node(method: &'static str, says: fn() -> FakeResponse) -> (FakeNode, Node, Arc<Mutex<Vec<Vec<Value>>>>) {
        let given = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&given);
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc(asked, params) if *asked == method => {
                noted.lock().unwrap().push(params.to_vec());
                says()
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        (fake, node, given)
    }

    fn refusal(code: i64, reason: &str, message: &str) -> Refusal {
        Refusal { code, reason: reason.into(), message: message.into() }
    }

    #[test]
    fn limits_are_sent_in_btc_and_omitted_where_there_are_none() {
        let txid = || FakeResponse::Result(json!(Txid::all_zeros()));
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
    fn a_refused_transaction_has_the_nodes_reason() {
        let refused = |says| {
            let (_fake, node, _) = node("sendrawtransaction", says);
            node.send_raw_transaction("00", MaxFees::default(), TIMEOUT).unwrap().unwrap_err()
        };
        let words = "min relay fee not met, 7 < 110";
        assert_eq!(
            refused(|| FakeResponse::Error(-26, "min relay fee not met, 7 < 110")),
            refusal(-26, "min relay fee not met", words)
        );
        let words = "bad-txns-inputs-missingorspent";
        assert_eq!(refused(|| FakeResponse::Error(-25, "bad-txns-inputs-missingorspent")), refusal(-25, words, words));
        let words = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
        let says = || FakeResponse::Error(-25, "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)");
        assert_eq!(refused(says), refusal(-25, words, words));
        assert_eq!(refused(|| FakeResponse::Error(-22, "TX decode failed")).code, -22);
        assert_eq!(refused(|| FakeResponse::Error(-27, "Transaction outputs already in utxo set")).code, -27);
    }

    #[test]
    fn a_failed_request_is_an_error_and_is_not_retried() {
        for says in [|| FakeResponse::Status(503, "Work queue depth exceeded"), || FakeResponse::Error(-28, "Loading…")]
        {
            let (_fake, node, given) = node("sendrawtransaction", says);
            let error = node.send_raw_transaction("00", MaxFees::default(), TIMEOUT).unwrap_err();
            assert!(error.is_transient(), "{error}");
            assert_eq!(given.lock().unwrap().len(), 1);
        }
        let (_fake, node, _) = node("submitpackage", || FakeResponse::Error(-32601, "Method not found"));
        assert!(matches!(
            node.submit_package(&["00"], MaxFees::default(), TIMEOUT),
            Err(NodeError::Rpc { code: -32601, .. })
        ));
    }

    #[test]
    fn a_transaction_that_was_not_tested_has_no_verdict() {
        let (_fake, node, given) = node("testmempoolaccept", || {
            let id = |byte| json!(Txid::from_byte_array([byte; 32]));
            FakeResponse::Result(json!([
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
        let acceptance = MempoolAcceptance {
            vsize: 141,
            fee: Amount::from_sat(1_410),
            effective_feerate: Some(Feerate::from_sat_per_kvb(10_000)),
            effective_includes: vec![Wtxid::from_byte_array([2; 32])],
        };
        let expected = [
            Some(Ok(acceptance)),
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
    fn a_submitted_package_lists_the_result_of_each_transaction() {
        let (_fake, node, _) = node("submitpackage", || {
            let id = |byte| Txid::from_byte_array([byte; 32]).to_string();
            FakeResponse::Result(json!({
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
        let acceptance = MempoolAcceptance {
            vsize: 110,
            fee: Amount::from_sat(1_000),
            effective_feerate: None,
            effective_includes: Vec::new(),
        };
        assert_eq!((of(8).txid, of(8).verdict.clone()), (Txid::from_byte_array([2; 32]), Some(Ok(acceptance))));
        assert_eq!((of(7).other_wtxid, of(7).verdict.clone()), (Some(Wtxid::from_byte_array([6; 32])), None));
    }
}
