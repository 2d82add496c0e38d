//! Questions that leave the process: what the index does not know, and the node is asked while a client waits.
//!
//! ```text
//!   field ─┐
//!   field ─┼─ Ask ── loader ── all of one tick ──► free place? ──► one request on a thread of its own ──► node
//!   field ─┘  one an answer                        NodeAccess: one a process, bounded, with a deadline
//! ```
//!
//! There is one short attempt: whoever waits would rather know that there is no answer. Blocking I/O never runs on a
//! thread that executes requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bitcoin::BlockHash;
use dataloader::BatchFn;
use dataloader::non_cached::Loader;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::limits::Limits;
use crate::node::{
    Answer, BlockTemplate, ChainInfo, ChainTip, DOWNLOADING, EstimateMode, FeeEstimate, NOT_CONNECTED, NetworkInfo,
    Node, NodeError, Question,
};

/// The most questions in one request to the node.
const QUESTIONS: usize = 100;

/// How much clients may ask of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Requests to the node at once, of all clients together.
    pub requests: usize,
    /// How long an answer may take, the wait for a free place among those requests included.
    pub timeout: Duration,
    /// Whether they may ask for the block that it would make next, which takes it much longer than anything else.
    pub block_template: bool,
}

impl NodeLimits {
    /// The part of these limits that is about the node.
    #[must_use]
    pub fn new(limits: &Limits, block_template: bool) -> Self {
        Self { requests: limits.node_requests, timeout: limits.node_timeout, block_template }
    }
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self::new(&Limits::default(), false)
    }
}

/// Why the node did not answer. Shared by all who asked at once.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No node was connected to yet.
    #[error("the node was not reached yet")]
    NotConnected,
    /// All places were taken until the deadline.
    #[error("as many requests as there may be were waiting for the node for {0:?}")]
    Busy(Duration),
    /// No answer until the deadline.
    #[error("the node did not answer within {0:?}")]
    TimedOut(Duration),
    /// The node, or the way to it.
    #[error(transparent)]
    Node(NodeError),
    /// The settings do not let clients ask that.
    #[error("clients may not ask the node for block templates: server.block_template is false")]
    NoTemplates,
    /// The thread that asked has ended without an answer.
    #[error("the thread that asks the node has failed")]
    Failed,
}

impl AskError {
    /// The same for those who may know neither where the node is nor how we log in to it.
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
            Self::Node(NodeError::WarmingUp { .. }) => "the Bitcoin node is starting",
            Self::Node(NodeError::Unreachable { .. } | NodeError::NoCookie { .. }) => {
                "the Bitcoin node cannot be reached"
            }
            Self::Node(_) | Self::Failed => "the Bitcoin node gave no answer; the server's log says why",
        }
    }

    /// Whether the node surely did nothing of what it was to do: it was not asked, or did not come to it.
    #[must_use]
    pub fn had_no_effect(&self) -> bool {
        match self {
            Self::NotConnected | Self::Busy(_) | Self::NoTemplates => true,
            Self::TimedOut(_) | Self::Failed => false,
            Self::Node(error) => error.had_no_effect(),
        }
    }

    /// Whether somebody has to do something about it.
    fn is_lasting(&self) -> bool {
        match self {
            Self::NotConnected
            | Self::Busy(_)
            | Self::TimedOut(_)
            | Self::NoTemplates
            | Self::Node(NodeError::Rpc { code: NOT_CONNECTED | DOWNLOADING, .. }) => false,
            Self::Node(error) => !error.is_transient(),
            Self::Failed => true,
        }
    }
}

/// The way to the node, for all requests together. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct NodeAccess(Arc<Access>);

struct Access {
    node: ArcSwapOption<Node>,
    limits: NodeLimits,
    places: Arc<Semaphore>,
}

impl NodeAccess {
    pub(super) fn new(limits: NodeLimits) -> Self {
        let places = Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Access { node: ArcSwapOption::empty(), limits, places }))
    }

    pub(super) fn set(&self, node: Node) {
        self.0.node.store(Some(Arc::new(node)));
    }

    pub(super) fn limits(&self) -> NodeLimits {
        self.0.limits
    }

    /// Asks in one request; each answer can fail by itself.
    async fn ask(&self, questions: Vec<Question>) -> Result<Vec<Result<Answer, NodeError>>, AskError> {
        self.once(move |node, patience| node.ask_once(&questions, patience)).await
    }

    /// Makes one request on a thread of its own, which is told how long the answer may take.
    pub(super) async fn once<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Node, Duration) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, AskError> {
        let node = self.0.node.load_full().ok_or(AskError::NotConnected)?;
        let (started, patience) = (Instant::now(), self.0.limits.timeout);
        let busy = || AskError::Busy(patience);
        let place = timeout(patience, self.0.places.clone().acquire_owned()).await;
        let place = place.map_err(|_| busy())?.map_err(|_| AskError::Failed)?;
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(busy());
        }
        let asking = tokio::task::spawn_blocking(move || {
            let answer = request(&node, left);
            drop(place);
            answer
        });
        // the thread ends by its own deadline, and keeps its place until then
        let asked = timeout(left, asking).await.map_err(|_| AskError::TimedOut(patience))?;
        asked.map_err(|_| AskError::Failed)?.map_err(AskError::Node)
    }
}

impl Default for NodeAccess {
    fn default() -> Self {
        Self::new(NodeLimits::default())
    }
}

type Outcome = Result<Answer, Arc<AskError>>;

/// Where the outcome will be. The loader hands out this instead of the outcome, so that it never waits: a field whose
/// future is dropped, as happens when a field beside it nulls their parent, would else take the others' batch with it.
type Slot = watch::Receiver<Option<Outcome>>;

/// Loads a batch for the loader.
struct Batch(NodeAccess);

impl BatchFn<Question, Slot> for Batch {
    async fn load(&mut self, questions: &[Question]) -> HashMap<Question, Slot> {
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

async fn answer(access: NodeAccess, asked: Vec<(Question, watch::Sender<Option<Outcome>>)>) {
    let (questions, senders): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    match access.ask(questions).await {
        Ok(answers) => {
            for (sender, answer) in senders.into_iter().zip(answers) {
                sender.send_replace(Some(answer.map_err(|error| told_to_log(AskError::Node(error)))));
            }
        }
        Err(error) => {
            let error = told_to_log(error);
            for sender in senders {
                sender.send_replace(Some(Err(Arc::clone(&error))));
            }
        }
    }
}

pub(super) fn told_to_log(error: AskError) -> Arc<AskError> {
    if error.is_lasting() {
        tracing::warn!(%error, "the node does not answer what a client asked");
    } else {
        tracing::debug!(%error, "the node does not answer what a client asked");
    }
    Arc::new(error)
}

/// Asks the node for one answer: what its fields ask at the same time goes out in one request. Nothing is kept, so
/// that what is asked later is asked anew. Cheap to clone; clones ask together.
#[derive(Clone, Default)]
pub struct Ask {
    pub(super) access: NodeAccess,
    /// Made when something is asked, which few answers do.
    loader: Arc<OnceLock<Loader<Question, Slot, Batch>>>,
}

impl Ask {
    pub(super) fn new(access: &NodeAccess) -> Self {
        Self { access: access.clone(), loader: Arc::default() }
    }

    /// The tips of all branches that the node knows.
    pub async fn chain_tips(&self) -> Result<Arc<Vec<ChainTip>>, Arc<AskError>> {
        match self.load(Question::ChainTips).await? {
            Answer::ChainTips(tips) => Ok(tips),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    /// The state of the node's chain.
    pub async fn chain_info(&self) -> Result<Arc<ChainInfo>, Arc<AskError>> {
        match self.load(Question::ChainInfo).await? {
            Answer::ChainInfo(info) => Ok(info),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    /// The node's software and peers.
    pub async fn network_info(&self) -> Result<Arc<NetworkInfo>, Arc<AskError>> {
        match self.load(Question::NetworkInfo).await? {
            Answer::NetworkInfo(info) => Ok(info),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    /// What to pay to be in a block within so many, 1 to 1,008.
    pub async fn fee_estimate(&self, target: u16, mode: EstimateMode) -> Result<Arc<FeeEstimate>, Arc<AskError>> {
        match self.load(Question::FeeEstimate { target, mode }).await? {
            Answer::FeeEstimate(estimate) => Ok(estimate),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    /// Whether the node knows a block of this hash, on any branch.
    pub async fn has_block(&self, hash: BlockHash) -> Result<bool, Arc<AskError>> {
        match self.load(Question::HasBlock(hash)).await? {
            Answer::HasBlock(is_known) => Ok(is_known),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    /// The block that the node would make next. Errors: [`AskError::NoTemplates`], too.
    pub async fn block_template(&self) -> Result<Arc<BlockTemplate>, Arc<AskError>> {
        if !self.access.limits().block_template {
            return Err(Arc::new(AskError::NoTemplates));
        }
        match self.load(Question::BlockTemplate).await? {
            Answer::BlockTemplate(template) => Ok(template),
            _ => Err(Arc::new(AskError::Failed)),
        }
    }

    async fn load(&self, question: Question) -> Outcome {
        let failed = || Arc::new(AskError::Failed);
        let loader = self.loader.get_or_init(|| Loader::new(Batch(self.access.clone())).with_max_batch_size(QUESTIONS));
        // unconstrained: between taking a batch and handing out its slots the loader must not be suspended, and free
        // locks suspend only a task that has used up its budget
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

    fn access(fake: &FakeNode, requests: usize, timeout: Duration) -> NodeAccess {
        let access = NodeAccess::new(NodeLimits { requests, timeout, ..NodeLimits::default() });
        access.set(Node::connect(fake.options()).unwrap());
        access
    }

    /// A node that answers `getchaintips` once what is returned with it is dropped.
    fn stuck() -> (FakeNode, Sender<()>) {
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let fake = FakeNode::start(move |asked| match asked {
            FakeRequest::Rpc("getchaintips", _) => {
                // ends when the sender is dropped
                let _ = held.lock().unwrap().recv();
                FakeResponse::Result(serde_json::json!([]))
            }
            _ => regtest(asked),
        });
        (fake, release)
    }

    #[tokio::test]
    async fn what_is_asked_at_once_is_one_request_and_what_is_asked_later_another() {
        let fake = FakeNode::start(regtest);
        let access = access(&fake, 1, SECONDS);
        let ask = Ask::new(&access);
        let before = fake.requests();
        let (chain, again, network, tips) =
            tokio::join!(ask.chain_info(), ask.chain_info(), ask.network_info(), ask.chain_tips());
        assert_eq!(fake.requests(), before + 1);
        assert!(Arc::ptr_eq(&chain.unwrap(), &again.unwrap()), "asked twice, answered once");
        assert_eq!(network.unwrap().subversion, "/fake/");
        assert!(matches!(*tips.unwrap_err(), AskError::Node(NodeError::Rpc { .. })), "it fails by itself");
        ask.chain_info().await.unwrap();
        assert_eq!(fake.requests(), before + 2);
    }

    #[tokio::test]
    async fn a_template_is_asked_for_only_where_that_is_allowed_and_a_node_that_makes_none_says_why() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getblocktemplate", _) => {
                FakeResponse::Error(NOT_CONNECTED, "Bitcoin Core is not connected!")
            }
            _ => regtest(asked),
        });
        let forbidden = access(&fake, 1, SECONDS);
        let before = fake.requests();
        let error = Ask::new(&forbidden).block_template().await.unwrap_err();
        assert!(matches!(*error, AskError::NoTemplates) && fake.requests() == before, "{error}");

        let allowed = NodeAccess::new(NodeLimits { block_template: true, ..forbidden.limits() });
        allowed.set(Node::connect(fake.options()).unwrap());
        let error = Ask::new(&allowed).block_template().await.unwrap_err();
        assert_eq!(error.to_client(), "the Bitcoin node has no peers, without which it makes no block template");
        assert!(!error.is_lasting(), "nobody has to do something about it");
    }

    #[tokio::test]
    async fn nothing_is_asked_before_a_node_is_connected() {
        let access = NodeAccess::default();
        let ask = Ask::new(&access);
        assert!(matches!(*ask.chain_info().await.unwrap_err(), AskError::NotConnected));
        let fake = FakeNode::start(regtest);
        access.set(Node::connect(fake.options()).unwrap());
        assert_eq!(ask.chain_info().await.unwrap().chain, "regtest");
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_given_up_at_the_deadline_and_keeps_its_place_no_longer() {
        let (fake, release) = stuck();
        let access = access(&fake, 1, Duration::from_millis(200));
        let error = Ask::new(&access).chain_tips().await.unwrap_err();
        assert!(matches!(*error, AskError::TimedOut(_) | AskError::Node(NodeError::TimedOut { .. })), "{error}");
        drop(release);
        let _free = timeout(SECONDS, access.0.places.acquire()).await.expect("the place is free again").unwrap();
    }

    #[tokio::test]
    async fn whoever_finds_no_free_place_until_the_deadline_is_refused() {
        let fake = FakeNode::start(regtest);
        let access = access(&fake, 1, Duration::from_millis(200));
        let place = access.0.places.acquire().await.unwrap();
        let before = fake.requests();
        assert!(matches!(*Ask::new(&access).chain_info().await.unwrap_err(), AskError::Busy(_)));
        assert_eq!(fake.requests(), before);
        drop(place);
        assert!(Ask::new(&access).chain_info().await.is_ok());
    }

    #[tokio::test]
    async fn one_that_gives_up_waiting_takes_nobodys_answer_with_it() {
        let (fake, release) = stuck();
        let access = access(&fake, 1, SECONDS);
        let ask = Ask::new(&access);
        let mut first = Box::pin(ask.chain_tips());
        let mut second = Box::pin(ask.chain_tips());
        let asked = async {
            tokio::select! {
                _ = &mut first => panic!("the node is stuck"),
                _ = &mut second => panic!("the node is stuck"),
                // until the question is at the node
                () = async { while access.0.places.available_permits() > 0 { tokio::task::yield_now().await } } => {}
            }
        };
        asked.await;
        drop(first);
        drop(release);
        assert!(second.await.unwrap().is_empty());
    }

    #[test]
    fn a_client_is_told_neither_address_nor_login() {
        let (url, login) = ("http://10.0.0.7:8332".to_owned(), "user \"alice\"".to_owned());
        for error in [
            NodeError::Unauthorized { url: url.clone(), login },
            NodeError::Unreachable { url: url.clone(), cause: "refused".to_owned() },
            NodeError::WarmingUp { url: url.clone(), progress: "Loading".to_owned() },
            NodeError::Forbidden { url, asked: "getchaintips".to_owned() },
        ] {
            let told = AskError::Node(error).to_client();
            assert!(!told.contains("10.0.0.7") && !told.contains("alice"), "{told}");
        }
    }

    #[tokio::test]
    async fn estimates_for_several_targets_go_out_in_one_request_and_fail_one_by_one() {
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
        let ask = Ask::new(&access(&fake, 1, SECONDS));
        let before = fake.requests();
        let (one, six, none, refused) = tokio::join!(
            ask.fee_estimate(1, EstimateMode::Economical),
            ask.fee_estimate(6, EstimateMode::Conservative),
            ask.fee_estimate(6, EstimateMode::Economical),
            ask.fee_estimate(144, EstimateMode::Economical),
        );
        let told = |sat_per_kvb: Option<u64>, blocks| FeeEstimate {
            feerate: sat_per_kvb.map(crate::chain::Feerate::from_sat_per_kvb),
            blocks,
        };
        assert_eq!(*one.unwrap(), told(Some(12_345), 2));
        assert_eq!(*six.unwrap(), told(Some(100_000), 6));
        assert_eq!(*none.unwrap(), told(None, 6));
        assert!(matches!(&*refused.unwrap_err(), AskError::Node(NodeError::Rpc { code: -32_603, .. })));
        assert_eq!(fake.requests(), before + 1);
    }
}
