//! Several different questions in one request, sent once, for a caller that waits for the answers.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::BlockHash;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::{ChainInfo, ChainTip, NetworkInfo};
use super::deployments::{CompactFilter, Deployments};
use super::error::NodeError;
use super::http::ResponseLimits;
use super::mempool::{EstimateMode, FeeEstimate};
use super::node::Node;
use super::rpc::code;
use super::template::{self, BlockTemplate};

/// A question that can share a request with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The tips of all branches that the node knows.
    ChainTips,
    /// The state of the node's chain.
    ChainInfo,
    /// The node's software and peers.
    NetworkInfo,
    /// The feerate for confirmation within some number of blocks.
    FeeEstimate {
        /// Within how many blocks, 1 to 1,008.
        target: u16,
        /// How recent fees are weighed.
        mode: EstimateMode,
    },
    /// The template of the next block.
    BlockTemplate,
    /// Whether the node knows a block of this hash, on any branch.
    HasBlock(BlockHash),
    /// The soft forks that the node knows, as of a block.
    Deployments(BlockHash),
    /// The basic compact filter of a block (BIP158).
    CompactFilter(BlockHash),
}

/// The code of the error that a node without an index of compact filters returns, and one whose index lacks the block yet
/// (`RPC_MISC_ERROR`, Core `rpc/protocol.h`).
pub const NO_FILTER_INDEX: i32 = -1;

/// The answer to the [`Question`] of the same name. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// In no particular order.
    ChainTips(Arc<Vec<ChainTip>>),
    /// As of one moment.
    ChainInfo(Arc<ChainInfo>),
    /// As of one moment.
    NetworkInfo(Arc<NetworkInfo>),
    /// As of one moment.
    FeeEstimate(Arc<FeeEstimate>),
    /// As of one moment.
    BlockTemplate(Arc<BlockTemplate>),
    /// Whether it does.
    HasBlock(bool),
    /// By name.
    Deployments(Arc<Deployments>),
    /// Of the block that was asked about.
    CompactFilter(Arc<CompactFilter>),
}

impl Question {
    /// The RPC method and its parameters.
    fn call(self) -> (&'static str, Vec<Value>) {
        match self {
            Question::ChainTips => ("getchaintips", Vec::new()),
            Question::ChainInfo => ("getblockchaininfo", Vec::new()),
            Question::NetworkInfo => ("getnetworkinfo", Vec::new()),
            Question::FeeEstimate { target, mode } => ("estimatesmartfee", vec![json!(target), json!(mode.as_str())]),
            Question::BlockTemplate => (template::METHOD, template::parameters()),
            Question::HasBlock(hash) => ("getblockheader", vec![json!(hash), json!(false)]),
            Question::Deployments(block) => ("getdeploymentinfo", vec![json!(block)]),
            Question::CompactFilter(block) => ("getblockfilter", vec![json!(block), json!("basic")]),
        }
    }

    fn read(self, answer: &RawValue) -> Result<Answer, NodeError> {
        Ok(match self {
            Question::ChainTips => Answer::ChainTips(self.parse(answer)?),
            Question::ChainInfo => Answer::ChainInfo(self.parse(answer)?),
            Question::NetworkInfo => Answer::NetworkInfo(self.parse(answer)?),
            Question::FeeEstimate { .. } => Answer::FeeEstimate(self.parse(answer)?),
            Question::BlockTemplate => Answer::BlockTemplate(self.parse(answer)?),
            Question::HasBlock(_) => Answer::HasBlock(true),
            Question::Deployments(_) => Answer::Deployments(self.parse(answer)?),
            Question::CompactFilter(_) => Answer::CompactFilter(self.parse(answer)?),
        })
    }

    /// What the node's answer says. That it does not know a block is no failure where that is asked.
    fn read_or_refused(self, answer: Result<&RawValue, NodeError>) -> Result<Answer, NodeError> {
        match (self, answer) {
            (Question::HasBlock(_), Err(NodeError::Rpc { code: code::NOT_FOUND, .. })) => Ok(Answer::HasBlock(false)),
            (_, answer) => self.read(answer?),
        }
    }

    fn parse<T: DeserializeOwned>(self, answer: &RawValue) -> Result<Arc<T>, NodeError> {
        serde_json::from_str(answer.get())
            .map(Arc::new)
            .map_err(|error| NodeError::Protocol { asked: self.call().0.to_owned(), problem: error.to_string() })
    }
}

impl Node {
    /// Sends all of these in one request, once and without retries: the caller prefers an early error to a late answer.
    /// The answers are in the order of the questions; each can fail by itself.
    ///
    /// `timeout` is for one exchange; there are two where the node has a new cookie.
    pub fn ask_once(
        &self,
        questions: &[Question],
        timeout: Duration,
    ) -> Result<Vec<Result<Answer, NodeError>>, NodeError> {
        let calls: Vec<_> = questions.iter().map(|question| question.call()).collect();
        self.batch_calls_once(&calls, ResponseLimits { timeout, ..self.limits() }, |answers| {
            Ok(questions.iter().zip(answers).map(|(question, answer)| question.read_or_refused(answer)).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bitcoin::hashes::Hash;
    use serde_json::json;

    use super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_block_that_the_node_does_not_know_is_an_answer() {
        let known = BlockHash::all_zeros();
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc("getblockheader", [hash, Value::Bool(false)]) if *hash == json!(known) => {
                FakeResponse::Result(json!("00"))
            }
            FakeRequest::Rpc("getblockheader", _) => FakeResponse::Error(-5, "Block not found"),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let unknown = BlockHash::from_byte_array([7; 32]);
        let answers = node.ask_once(&[Question::HasBlock(known), Question::HasBlock(unknown)], TIMEOUT).unwrap();
        assert!(matches!(answers.as_slice(), [Ok(Answer::HasBlock(true)), Ok(Answer::HasBlock(false))]), "{answers:?}");
    }

    #[test]
    fn questions_are_answered_in_order_and_fail_one_by_one() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getchaintips", _) => FakeResponse::Error(-1, "not now"),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let before = fake.requests();
        let questions = [Question::NetworkInfo, Question::ChainTips, Question::ChainInfo];
        let answers = node.ask_once(&questions, TIMEOUT).unwrap();
        assert_eq!(fake.requests(), before + 1);
        assert!(matches!(&answers[0], Ok(Answer::NetworkInfo(info)) if info.subversion == "/fake/"), "{answers:?}");
        assert!(matches!(&answers[1], Err(NodeError::Rpc { method, code: -1, .. }) if method == "getchaintips"));
        assert!(matches!(&answers[2], Ok(Answer::ChainInfo(info)) if info.chain == "regtest"), "{answers:?}");
    }

    #[test]
    fn a_malformed_answer_does_not_affect_the_others() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getchaintips", _) => FakeResponse::Result(json!({ "height": 0 })),
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let answers = node.ask_once(&[Question::ChainTips, Question::ChainInfo], TIMEOUT).unwrap();
        assert!(matches!(&answers[0], Err(NodeError::Protocol { asked, .. }) if asked == "getchaintips"));
        assert!(answers[1].is_ok());
    }

    #[test]
    fn a_failed_request_is_not_retried() {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc("getchaintips", _) => {
                counted.fetch_add(1, Ordering::Relaxed);
                FakeResponse::Status(503, "Work queue depth exceeded")
            }
            _ => regtest(asked),
        });
        let node = Node::connect(fake.options()).unwrap();
        let error = node.ask_once(&[Question::ChainTips], TIMEOUT).unwrap_err();
        assert!(matches!(error, NodeError::Busy { .. }), "{error}");
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        assert!(node.ask_once(&[], TIMEOUT).unwrap().is_empty());
    }
}
