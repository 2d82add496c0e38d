//! Requests to the node while a client waits, for what the index does not contain.
//!
//! ```text
//!   field ─┐
//!   field ─┼─ NodeClient ── loader ── all of one tick ──► free permit? ──► one request on a thread of its own ──► node
//!   field ─┘  one an answer                        BoundedNode: one a process, bounded, with a deadline
//! ```
//!
//! There is one attempt with a short deadline: a client prefers an early error. Blocking I/O never runs on a thread that
//! executes requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bitcoin::BlockHash;
use dataloader::BatchFn;
use dataloader::non_cached::Loader;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::node::{
    Answer, BlockTemplate, ChainInfo, ChainTip, DOWNLOADING, EstimateMode, FeeEstimate, NO_FILTER_INDEX, NOT_CONNECTED,
    NetworkInfo, Node, NodeError, Question,
};

/// The maximum number of questions in one request to the node.
const QUESTIONS: usize = 100;

/// The limits of requests that clients cause to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Concurrent requests to the node, of all clients together.
    pub requests: usize,
    /// The deadline of an answer, time in the queue included.
    pub timeout: Duration,
    /// Whether clients may request block templates, which take the node much longer than anything else.
    pub block_template: bool,
}

/// Those of the settings by default.
impl Default for NodeLimits {
    fn default() -> Self {
        Self { requests: 4, timeout: Duration::from_secs(5), block_template: false }
    }
}

/// Why the node did not answer. Shared by all fields of one batch.
#[derive(Debug, thiserror::Error)]
pub enum NodeClientError {
    /// No node is connected yet.
    #[error("the node has not been reached yet")]
    NotConnected,
    /// All permits were in use until the deadline.
    #[error("the maximum number of requests waited for the node for {0:?}")]
    Busy(Duration),
    /// The node sent no answer before the deadline.
    #[error("the node did not answer within {0:?}")]
    TimedOut(Duration),
    /// The node or the connection failed.
    #[error(transparent)]
    Node(NodeError),
    /// The settings do not allow block templates.
    #[error("clients may not request block templates: server.block_template is false")]
    NoTemplates,
    /// The thread of the request ended without an answer.
    #[error("the thread of the node request failed")]
    Failed,
}

impl NodeClientError {
    /// A message for clients, without the node's address and credentials.
    #[must_use]
    pub fn to_client(&self) -> &'static str {
        match self {
            Self::NotConnected => "the server has not reached its Bitcoin node yet",
            Self::Busy(_) | Self::Node(NodeError::Busy { .. }) => "too many requests wait for the Bitcoin node",
            Self::TimedOut(_) | Self::Node(NodeError::TimedOut { .. }) => "the Bitcoin node did not answer in time",
            Self::NoTemplates => "this server does not ask its Bitcoin node for block templates",
            Self::Node(NodeError::Rpc { code: NOT_CONNECTED, .. }) => {
                "the Bitcoin node has no peers, without which it makes no block template"
            }
            Self::Node(NodeError::Rpc { code: DOWNLOADING, .. }) => {
                "the Bitcoin node is still downloading the chain, and makes no block template until then"
            }
            Self::Node(NodeError::Rpc { code: NO_FILTER_INDEX, method, .. }) if method == "getblockfilter" => {
                "the Bitcoin node has no compact filter of the block: it runs without -blockfilterindex=1, or still builds that index"
            }
            Self::Node(NodeError::WarmingUp { .. }) => "the Bitcoin node is starting",
            Self::Node(NodeError::Unreachable { .. } | NodeError::NoCookie { .. }) => {
                "the Bitcoin node cannot be reached"
            }
            Self::Node(_) | Self::Failed => "the Bitcoin node gave no answer; the server's log says why",
        }
    }

    /// Whether the request certainly had no effect on the node.
    #[must_use]
    pub fn had_no_effect(&self) -> bool {
        match self {
            Self::NotConnected | Self::Busy(_) | Self::NoTemplates => true,
            Self::TimedOut(_) | Self::Failed => false,
            Self::Node(error) => error.had_no_effect(),
        }
    }

    /// Whether an operator must act on it.
    fn needs_attention(&self) -> bool {
        match self {
            Self::NotConnected
            | Self::Busy(_)
            | Self::TimedOut(_)
            | Self::NoTemplates
            | Self::Node(NodeError::Rpc { code: NOT_CONNECTED | DOWNLOADING, .. }) => false,
            Self::Node(NodeError::Rpc { code: NO_FILTER_INDEX, method, .. }) if method == "getblockfilter" => false,
            Self::Node(error) => !error.is_transient(),
            Self::Failed => true,
        }
    }
}

/// The node behind the limits that all clients share. Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub(in crate::view) struct BoundedNode(Arc<BoundedNodeInner>);

struct BoundedNodeInner {
    node: ArcSwapOption<Node>,
    limits: NodeLimits,
    permits: Arc<Semaphore>,
}

impl BoundedNode {
    pub(in crate::view) fn new(limits: NodeLimits) -> Self {
        let permits = Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(BoundedNodeInner { node: ArcSwapOption::empty(), limits, permits }))
    }

    pub(in crate::view) fn set(&self, node: Node) {
        self.0.node.store(Some(Arc::new(node)));
    }

    pub(super) fn limits(&self) -> NodeLimits {
        self.0.limits
    }

    /// Sends questions in one request; each answer can fail by itself.
    async fn request_batch(&self, questions: Vec<Question>) -> Result<Vec<Result<Answer, NodeError>>, NodeClientError> {
        self.request(move |node, patience| node.ask_once(&questions, patience)).await
    }

    /// Runs one request on a blocking thread, with the remaining time as its deadline.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Node, Duration) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeClientError> {
        let node = self.0.node.load_full().ok_or(NodeClientError::NotConnected)?;
        let (started, patience) = (Instant::now(), self.0.limits.timeout);
        let busy = || NodeClientError::Busy(patience);
        let permit = timeout(patience, self.0.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| NodeClientError::Failed)?;
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(busy());
        }
        let asking = tokio::task::spawn_blocking(move || {
            let answer = request(&node, left);
            drop(permit);
            answer
        });
        // the thread ends at its own deadline and keeps its permit until then
        let asked = timeout(left, asking).await.map_err(|_| NodeClientError::TimedOut(patience))?;
        asked.map_err(|_| NodeClientError::Failed)?.map_err(NodeClientError::Node)
    }
}

impl Default for BoundedNode {
    fn default() -> Self {
        Self::new(NodeLimits::default())
    }
}

type SharedAnswer = Result<Answer, Arc<NodeClientError>>;

/// The slot that receives an answer. The loader returns slots instead of answers, so it never waits: otherwise a field
/// whose future is dropped, because a sibling nulls their parent, would cancel the batch of the others.
type AnswerSlot = watch::Receiver<Option<SharedAnswer>>;

/// The batch function of the loader.
struct QuestionBatch(BoundedNode);

impl BatchFn<Question, AnswerSlot> for QuestionBatch {
    async fn load(&mut self, questions: &[Question]) -> HashMap<Question, AnswerSlot> {
        let (mut slots, mut asked) = (HashMap::new(), Vec::new());
        for question in questions {
            let (sender, slot) = watch::channel(None);
            slots.insert(*question, slot);
            asked.push((*question, sender));
        }
        tokio::spawn(answer(self.0.clone(), asked));
        slots
    }
}

async fn answer(node: BoundedNode, asked: Vec<(Question, watch::Sender<Option<SharedAnswer>>)>) {
    let (questions, senders): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    match node.request_batch(questions).await {
        Ok(answers) => {
            for (sender, answer) in senders.into_iter().zip(answers) {
                sender.send_replace(Some(answer.map_err(|error| logged(NodeClientError::Node(error)))));
            }
        }
        Err(error) => {
            let error = logged(error);
            for sender in senders {
                sender.send_replace(Some(Err(Arc::clone(&error))));
            }
        }
    }
}

pub(super) fn logged(error: NodeClientError) -> Arc<NodeClientError> {
    if error.needs_attention() {
        tracing::warn!(%error, "the node did not answer a client's request");
    } else {
        tracing::debug!(%error, "the node did not answer a client's request");
    }
    Arc::new(error)
}

/// The node client of one answer: questions of its fields at the same time are sent in one request. Answers are not
/// cached: a later question is a new request. Cheap to clone; clones share batches.
#[derive(Clone, Default)]
pub struct NodeClient {
    pub(super) node: BoundedNode,
    /// Created by the first question; few answers have any.
    loader: Arc<OnceLock<Loader<Question, AnswerSlot, QuestionBatch>>>,
}

impl NodeClient {
    pub(in crate::view) fn new(node: &BoundedNode) -> Self {
        Self { node: node.clone(), loader: Arc::default() }
    }

    /// The tips of all branches that the node knows.
    pub async fn chain_tips(&self) -> Result<Arc<Vec<ChainTip>>, Arc<NodeClientError>> {
        match self.load(Question::ChainTips).await? {
            Answer::ChainTips(tips) => Ok(tips),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// The state of the node's chain.
    pub async fn chain_info(&self) -> Result<Arc<ChainInfo>, Arc<NodeClientError>> {
        match self.load(Question::ChainInfo).await? {
            Answer::ChainInfo(info) => Ok(info),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// The node's software and peers.
    pub async fn network_info(&self) -> Result<Arc<NetworkInfo>, Arc<NodeClientError>> {
        match self.load(Question::NetworkInfo).await? {
            Answer::NetworkInfo(info) => Ok(info),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// The feerate estimate for confirmation within this many blocks, 1 to 1,008.
    pub async fn fee_estimate(
        &self,
        target: u16,
        mode: EstimateMode,
    ) -> Result<Arc<FeeEstimate>, Arc<NodeClientError>> {
        match self.load(Question::FeeEstimate { target, mode }).await? {
            Answer::FeeEstimate(estimate) => Ok(estimate),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// Whether the node knows a block of this hash, on any branch.
    pub async fn has_block(&self, hash: BlockHash) -> Result<bool, Arc<NodeClientError>> {
        match self.load(Question::HasBlock(hash)).await? {
            Answer::HasBlock(is_known) => Ok(is_known),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    /// The node's block template. Errors: [`NodeClientError::NoTemplates`], too.
    pub async fn block_template(&self) -> Result<Arc<BlockTemplate>, Arc<NodeClientError>> {
        if !self.node.limits().block_template {
            return Err(Arc::new(NodeClientError::NoTemplates));
        }
        match self.load(Question::BlockTemplate).await? {
            Answer::BlockTemplate(template) => Ok(template),
            _ => Err(Arc::new(NodeClientError::Failed)),
        }
    }

    pub(super) async fn load(&self, question: Question) -> SharedAnswer {
        let failed = || Arc::new(NodeClientError::Failed);
        let loader =
            self.loader.get_or_init(|| Loader::new(QuestionBatch(self.node.clone())).with_max_batch_size(QUESTIONS));
        // unconstrained: the loader must not be suspended between taking a batch and returning its slots, and free locks
        // suspend only a task without budget
        let slot = tokio::task::unconstrained(loader.try_load(question)).await;
        let mut slot = slot.map_err(|_| failed())?;
        let outcome = slot.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().unwrap_or_else(|| Err(failed()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use serde_json::json;

    use super::*;
    use crate::node::fake::{FakeNode, FakeRequest, FakeResponse, regtest};

    const SECONDS: Duration = Duration::from_secs(20);

    fn access(fake: &FakeNode, requests: usize, timeout: Duration) -> BoundedNode {
        let access = BoundedNode::new(NodeLimits { requests, timeout, ..NodeLimits::default() });
        access.set(Node::connect(fake.options()).unwrap());
        access
    }

    /// A node that answers `getchaintips` once what is returned with it is dropped.
    fn stuck() -> (FakeNode, Sender<()>) {
        let (release, blocked) = channel::<()>();
        let blocked = Mutex::new(blocked);
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc("getchaintips", _) => {
                // ends when the sender is dropped
                let _ = blocked.lock().unwrap().recv();
                FakeResponse::Result(serde_json::json!([]))
            }
            _ => regtest(asked),
        });
        (fake, release)
    }

    #[tokio::test]
    async fn concurrent_questions_are_one_request_and_later_ones_another() {
        let fake = FakeNode::start(regtest);
        let access = access(&fake, 1, SECONDS);
        let ask = NodeClient::new(&access);
        let before = fake.requests();
        let (chain, again, network, tips) =
            tokio::join!(ask.chain_info(), ask.chain_info(), ask.network_info(), ask.chain_tips());
        assert_eq!(fake.requests(), before + 1);
        assert!(Arc::ptr_eq(&chain.unwrap(), &again.unwrap()), "one answer for two questions");
        assert_eq!(network.unwrap().subversion, "/fake/");
        assert!(matches!(*tips.unwrap_err(), NodeClientError::Node(NodeError::Rpc { .. })), "it fails by itself");
        ask.chain_info().await.unwrap();
        assert_eq!(fake.requests(), before + 2);
    }

    #[tokio::test]
    async fn templates_are_requested_only_where_they_are_allowed() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getblocktemplate", _) => {
                FakeResponse::Error(NOT_CONNECTED, "Bitcoin Core is not connected!")
            }
            _ => regtest(asked),
        });
        let forbidden = access(&fake, 1, SECONDS);
        let before = fake.requests();
        let error = NodeClient::new(&forbidden).block_template().await.unwrap_err();
        assert!(matches!(*error, NodeClientError::NoTemplates) && fake.requests() == before, "{error}");

        let allowed = BoundedNode::new(NodeLimits { block_template: true, ..forbidden.limits() });
        allowed.set(Node::connect(fake.options()).unwrap());
        let error = NodeClient::new(&allowed).block_template().await.unwrap_err();
        assert_eq!(error.to_client(), "the Bitcoin node has no peers, without which it makes no block template");
        assert!(!error.needs_attention(), "no operator must act on it");
    }

    #[tokio::test]
    async fn no_request_is_sent_before_a_node_is_connected() {
        let access = BoundedNode::default();
        let ask = NodeClient::new(&access);
        assert!(matches!(*ask.chain_info().await.unwrap_err(), NodeClientError::NotConnected));
        let fake = FakeNode::start(regtest);
        access.set(Node::connect(fake.options()).unwrap());
        assert_eq!(ask.chain_info().await.unwrap().chain, "regtest");
    }

    #[tokio::test]
    async fn a_late_answer_times_out_and_returns_its_permit_later() {
        let (fake, release) = stuck();
        let access = access(&fake, 1, Duration::from_millis(200));
        let error = NodeClient::new(&access).chain_tips().await.unwrap_err();
        assert!(
            matches!(*error, NodeClientError::TimedOut(_) | NodeClientError::Node(NodeError::TimedOut { .. })),
            "{error}"
        );
        drop(release);
        let _free = timeout(SECONDS, access.0.permits.acquire()).await.expect("the permit is free again").unwrap();
    }

    #[tokio::test]
    async fn a_request_without_a_permit_until_the_deadline_is_refused() {
        let fake = FakeNode::start(regtest);
        let access = access(&fake, 1, Duration::from_millis(200));
        let permit = access.0.permits.acquire().await.unwrap();
        let before = fake.requests();
        assert!(matches!(*NodeClient::new(&access).chain_info().await.unwrap_err(), NodeClientError::Busy(_)));
        assert_eq!(fake.requests(), before);
        drop(permit);
        assert!(NodeClient::new(&access).chain_info().await.is_ok());
    }

    #[tokio::test]
    async fn a_dropped_field_does_not_cancel_the_batch_of_others() {
        let (fake, release) = stuck();
        let access = access(&fake, 1, SECONDS);
        let ask = NodeClient::new(&access);
        let mut first = Box::pin(ask.chain_tips());
        let mut second = Box::pin(ask.chain_tips());
        let asked = async {
            tokio::select! {
                _ = &mut first => panic!("the node is stuck"),
                _ = &mut second => panic!("the node is stuck"),
                // until the question is at the node
                () = async { while access.0.permits.available_permits() > 0 { tokio::task::yield_now().await } } => {}
            }
        };
        asked.await;
        drop(first);
        drop(release);
        assert!(second.await.unwrap().is_empty());
    }

    #[test]
    fn client_messages_have_neither_address_nor_login() {
        let (url, login) = ("http://10.0.0.7:8332".to_owned(), "user \"alice\"".to_owned());
        for error in [
            NodeError::Unauthorized { url: url.clone(), login },
            NodeError::Unreachable { url: url.clone(), cause: "refused".to_owned() },
            NodeError::WarmingUp { url: url.clone(), progress: "Loading".to_owned() },
            NodeError::Forbidden { url, asked: "getchaintips".to_owned() },
        ] {
            let message = NodeClientError::Node(error).to_client();
            assert!(!message.contains("10.0.0.7") && !message.contains("alice"), "{message}");
        }
    }

    #[tokio::test]
    async fn estimates_share_one_request_and_fail_one_by_one() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("estimatesmartfee", params) => {
                match (params[0].as_u64().unwrap(), params[1].as_str().unwrap()) {
                    (1, "economical") => FakeResponse::Result(json!({ "feerate": 0.000_123_45, "blocks": 2 })),
                    (6, "conservative") => FakeResponse::Result(json!({ "feerate": 0.001, "blocks": 6 })),
                    (144, _) => FakeResponse::Error(-32_603, "Fee estimation disabled"),
                    (target, _) => FakeResponse::Result(json!({ "errors": ["Insufficient data"], "blocks": target })),
                }
            }
            _ => regtest(asked),
        });
        let ask = NodeClient::new(&access(&fake, 1, SECONDS));
        let before = fake.requests();
        let (one, six, none, refused) = tokio::join!(
            ask.fee_estimate(1, EstimateMode::Economical),
            ask.fee_estimate(6, EstimateMode::Conservative),
            ask.fee_estimate(6, EstimateMode::Economical),
            ask.fee_estimate(144, EstimateMode::Economical),
        );
        let estimate = |sat_per_kvb: Option<u64>, blocks| FeeEstimate {
            feerate: sat_per_kvb.map(crate::chain::Feerate::from_sat_per_kvb),
            blocks,
        };
        assert_eq!(*one.unwrap(), estimate(Some(12_345), 2));
        assert_eq!(*six.unwrap(), estimate(Some(100_000), 6));
        assert_eq!(*none.unwrap(), estimate(None, 6));
        assert!(matches!(&*refused.unwrap_err(), NodeClientError::Node(NodeError::Rpc { code: -32_603, .. })));
        assert_eq!(fake.requests(), before + 1);
    }
}
