//! The schema over an index in a temporary directory: blocks go in, answers come out. Commits and events are made as
//! following makes them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request, Response};
use bitcoin::consensus::serialize;
use bitcoin::{
    Amount, Block, BlockHash, Network, OutPoint, Sequence, Transaction, TxIn, TxOut, Txid, absolute, transaction,
};
use btcgraph::api::{self, Account, Include, Schema};
use btcgraph::chain::pools::Pools;
use btcgraph::index::{Index, IndexOptions, ObservedBlock, ObservedLimits, OptionalTables};
use btcgraph::limits::Limits;
use btcgraph::live::{ChainEvent, Event, Live};
use btcgraph::mempool::{
    Arrival, Cause, ConnectedBlock, Departure, Mempool, MempoolLimits, MempoolSnapshot, NodeMempool, Prevout,
    PrevoutSource,
};
use btcgraph::node::Node;
use btcgraph::rates::Rates;
use btcgraph::sim::{Owner, SimChain};
use btcgraph::sync::{Follow, Until, Wake, run};
use btcgraph::view::{Head, NodeLimits, Published, SyncState, Tip, View};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::cut::{self, IndexForm};
use super::following;
use super::indexed::SALT;

/// When transactions are seen if a test does not say, in seconds since 1970.
pub(crate) const MOMENT: u64 = 1_800_000_000;

/// What is counted as it usually is in the worst case, and may cost more.
const ESTIMATED: [&str; 7] = ["descriptor", "filter", "ledgerSet", "netEffect", "pushes", "utxos", "witness"];

/// An index, what is published of it, and the schema over that.
pub(crate) struct Api {
    index: Index,
    mempool: Mempool,
    published: Published,
    live: Live,
    /// The mempool of the next Head, if it is not the one above.
    given: Option<MempoolSnapshot>,
    pub(crate) schema: Schema,
    /// Every published Head, to count those that are still referenced.
    heads: Vec<Weak<Head>>,
    _directory: TempDir,
}

// they are made for the one call
#[allow(clippy::large_types_passed_by_value)]
impl Api {
    /// Over an empty index.
    pub(crate) fn empty(network: Network, limits: Limits) -> Self {
        Self::with_index(network, limits, |options| options)
    }

    /// The same, with an index that is set up otherwise.
    pub(crate) fn with_index(
        network: Network,
        limits: Limits,
        otherwise: impl FnOnce(IndexOptions) -> IndexOptions,
    ) -> Self {
        Self::over(Published::default(), network, limits, otherwise)
    }

    fn over(
        published: Published,
        network: Network,
        limits: Limits,
        otherwise: impl FnOnce(IndexOptions) -> IndexOptions,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = IndexOptions {
            path: directory.path().join("index.redb"),
            network,
            salt: Some(SALT),
            cache_bytes: 64 << 20,
            freezes: false,
            stale_blocks_kept: 1_000,
            observed: ObservedLimits::default(),
        };
        let live = Live::default();
        let schema = api::schema(published.clone(), live.clone(), limits, api::Features::default());
        let index = Index::open(&otherwise(options)).unwrap();
        let mempool = Mempool::default();
        Self { index, mempool, given: None, published, live, schema, heads: Vec::new(), _directory: directory }
    }

    /// Over an index of these blocks.
    pub(crate) fn of<'b>(network: Network, blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        let mut api = Self::empty(network, Limits::default());
        api.change(0, blocks);
        api
    }

    /// Over an index of the simulated chain.
    pub(crate) fn of_chain(chain: &SimChain) -> Self {
        Self::of(Network::Regtest, chain.active_blocks().map(Arc::as_ref))
    }

    /// Over an index of the simulated chain, within these limits.
    pub(crate) fn of_chain_within(chain: &SimChain, limits: Limits) -> Self {
        let mut api = Self::empty(Network::Regtest, limits);
        api.change(0, chain.active_blocks().map(Arc::as_ref));
        api
    }

    /// Over an index of the simulated chain in this form.
    pub(crate) fn of_chain_in(form: IndexForm, chain: &SimChain) -> Self {
        let mut api = Self::of_chain(chain);
        api.take(form);
        api
    }

    /// Brings the index into this form, if it is not in it, and publishes that.
    pub(crate) fn take(&mut self, form: IndexForm) {
        if form == IndexForm::Cut {
            cut::freeze_half(&mut self.index);
            self.publish(Vec::new());
        }
    }

    /// Over an index of the simulated chain, with other limits to what clients may ask of the node.
    pub(crate) fn of_chain_asking(chain: &SimChain, limits: NodeLimits) -> Self {
        let published = Published::with_node_limits(limits);
        let mut api = Self::over(published, Network::Regtest, Limits::default(), |options| options);
        api.change(0, chain.active_blocks().map(Arc::as_ref));
        api
    }

    /// Over an index of the simulated chain, where what the node reports is true for so long.
    pub(crate) fn of_chain_believing_for(chain: &SimChain, longest_silence: Duration) -> Self {
        let published = Published::default().with_longest_silence(longest_silence);
        let mut api = Self::over(published, Network::Regtest, Limits::default(), |options| options);
        api.change(0, chain.active_blocks().map(Arc::as_ref));
        api
    }

    /// One more block.
    pub(crate) fn connect(&mut self, block: &Block) {
        self.change(0, [block]);
    }

    /// The mempool that is published with the next change of the chain.
    pub(crate) fn set_mempool(&mut self, mempool: MempoolSnapshot) {
        self.given = Some(mempool);
    }

    /// Takes `depth` blocks out and adds others, in one commit; publishes the Head, then reports each block.
    pub(crate) fn change<'b>(&mut self, depth: u32, blocks: impl IntoIterator<Item = &'b Block>) {
        let parser = self.index.parser();
        let parse = |block: &Block| parser.parse(block.block_hash(), serialize(block)).unwrap();
        let blocks: Vec<_> = blocks.into_iter().map(parse).collect();
        let mut events = Vec::new();
        let mut update = self.index.update().unwrap();
        for _ in 0..depth {
            events.push(ChainEvent::Disconnected(update.disconnect().unwrap().unwrap()));
        }
        let first = update.tip().map_or(0, |tip| tip.height.to_u32() + 1);
        update.connect(&blocks).unwrap();
        update.commit().unwrap();
        for (block, height) in blocks.iter().zip(first..) {
            events.push(ChainEvent::Connected(Tip { height: height.into(), hash: block.hash() }));
        }
        for (block, height) in blocks.iter().zip(first..) {
            let (txids, spends) = (block.txids().collect::<Vec<_>>(), block.spends().collect::<Vec<_>>());
            let height = height.into();
            let block = ConnectedBlock { hash: block.hash(), height, txids: &txids, spends: &spends, at: MOMENT };
            self.mempool.connect_block(&block);
        }
        self.publish(events);
    }

    /// Publishes the state of chain and mempool, and reports the changes of the chain.
    fn publish(&mut self, events: Vec<ChainEvent>) {
        let chain = Arc::new(self.index.snapshot().unwrap());
        let mempool = self.given.clone().unwrap_or_else(|| self.mempool.snapshot());
        let Some(head) = Head::after(self.published.head().as_deref(), chain, mempool).map(Arc::new) else {
            return;
        };
        self.heads.push(Arc::downgrade(&head));
        self.published.publish(head.clone());
        self.live.publish(Event { chain: events, head });
    }

    /// Takes these transactions into the mempool, seen at [`MOMENT`], and publishes that. What is there and spends the
    /// same is replaced.
    pub(crate) fn arrive<'t>(&mut self, transactions: impl IntoIterator<Item = &'t Transaction>) {
        self.arrive_at(MOMENT, transactions);
    }

    /// The same, seen at this moment, in seconds since 1970.
    pub(crate) fn arrive_at<'t>(&mut self, first_seen: u64, transactions: impl IntoIterator<Item = &'t Transaction>) {
        self.add(first_seen, Cause::New, transactions);
    }

    /// Takes transactions of a block that left the chain into the mempool, and publishes that.
    pub(crate) fn return_from<'t>(
        &mut self,
        block: BlockHash,
        transactions: impl IntoIterator<Item = &'t Transaction>,
    ) {
        self.add(MOMENT, Cause::Returned { block }, transactions);
    }

    fn add<'t>(&mut self, first_seen: u64, cause: Cause, transactions: impl IntoIterator<Item = &'t Transaction>) {
        for transaction in transactions {
            let txid = transaction.compute_txid();
            for input in &transaction.input {
                let spender = self.mempool.spender(&input.previous_output).map(|entry| entry.txid);
                spender.map(|spender| self.mempool.remove(&spender, Departure::Replaced { by: txid }, first_seen));
            }
            let prevouts = transaction.input.iter().map(|input| self.prevout(&input.previous_output)).collect();
            let arrival = Arrival {
                txid,
                wtxid: transaction.compute_wtxid(),
                raw: serialize(transaction).into(),
                prevouts,
                first_seen,
                height: self.view().tip().height,
                cause,
            };
            self.mempool.add(arrival).unwrap();
        }
        self.publish(Vec::new());
    }

    /// An output that is spent, of the mempool or of the chain.
    fn prevout(&self, outpoint: &OutPoint) -> Prevout {
        let vout = usize::try_from(outpoint.vout).unwrap();
        if let Some(parent) = self.mempool.get(&outpoint.txid) {
            let output = parent.outputs().nth(vout).unwrap();
            let script_pubkey = output.script_pubkey.into();
            return Prevout { value: output.value, script_pubkey, source: PrevoutSource::Unconfirmed };
        }
        let parent = self.view().transaction(&outpoint.txid).unwrap().unwrap();
        let output = &parent.parts.output[vout];
        let (height, coinbase) = (parent.place.unwrap().height, parent.parts.is_coinbase());
        Prevout {
            value: output.value.to_sat(),
            script_pubkey: output.script_pubkey.as_bytes().into(),
            source: PrevoutSource::Confirmed { height, coinbase },
        }
    }

    /// Takes a transaction and all that stands on it out of the mempool at [`MOMENT`], and publishes that.
    pub(crate) fn depart(&mut self, txid: &Txid, departure: Departure) {
        self.mempool.remove(txid, departure, MOMENT);
        self.publish(Vec::new());
    }

    /// What the node says of its mempool from now on.
    pub(crate) fn set_node_mempool(&mut self, node: NodeMempool) {
        self.mempool.set_node(node);
        self.publish(Vec::new());
    }

    /// Begins with an empty mempool that remembers no more than this of what is past.
    pub(crate) fn remember(&mut self, limits: MempoolLimits) {
        self.mempool = Mempool::new(limits);
    }

    /// How many follow the events that are published.
    pub(crate) fn listeners(&self) -> usize {
        self.live.listeners()
    }

    /// A view of the newest Head.
    pub(crate) fn view(&self) -> View {
        View::new(self.published.head().unwrap())
    }

    /// Advances the index to the node's tip as following does, and lets answers ask the node.
    pub(crate) fn follow(&mut self, node: &Node) {
        self.set_node(node);
        following::catch_up(node, &mut self.index, &self.published, &self.live, None).unwrap();
    }

    /// The blocks that clients wait for and the index does not have.
    pub(crate) fn requested_blocks(&self) -> Vec<BlockHash> {
        self.published.requested_blocks()
    }

    /// Follows a node until its stop flag is raised.
    pub(crate) fn keep_following(&mut self, node: &Node) {
        let wake = Wake::default();
        let follow = following::follow(node, &mut self.index, &self.published, &self.live, &wake);
        run(Follow { until: Until::Stopped, ..follow }).unwrap();
    }

    /// Lets answers ask the node.
    pub(crate) fn set_node(&self, node: &Node) {
        self.published.set_node(node.clone());
    }

    /// Lets clients send transactions through this node.
    pub(crate) fn broadcast_by(&mut self, node: &Node) {
        self.set_node(node);
        let (published, live) = (self.published.clone(), self.live.clone());
        self.schema = api::schema(
            published,
            live,
            Limits::default(),
            api::Features { broadcast: true, ..api::Features::default() },
        );
    }

    /// Ascribes blocks to these pools from now on.
    pub(crate) fn set_pools(&mut self, pools: Pools) {
        self.index.set_pools(Arc::new(pools));
        self.publish(Vec::new());
    }

    /// Answers with these rates.
    pub(crate) fn serve_rates(&mut self, rates: Rates) {
        let features = api::Features { rates: Some(rates), ..api::Features::default() };
        self.schema = api::schema(self.published.clone(), self.live.clone(), Limits::default(), features);
    }

    /// Switches optional tables, adds so many of their live rows, and publishes the result.
    pub(crate) fn switch_tables(&mut self, tables: OptionalTables, rows: u32) {
        self.index.switch_tables(tables).unwrap();
        self.index.tend_tables(rows).unwrap();
        self.publish(Vec::new());
    }

    /// Records what was observed when the newest block arrived, and publishes that.
    pub(crate) fn observe(&mut self, observed: &ObservedBlock) {
        let mut update = self.index.update().unwrap();
        let tip = update.tip().unwrap();
        update.record_observed_block(tip, observed).unwrap();
        update.commit().unwrap();
        self.publish(Vec::new());
    }

    /// Completes tables that are built in the background, and publishes the result.
    pub(crate) fn tend_tables(&mut self) {
        while self.tend_once(1_000) {}
    }

    /// Adds or deletes so many rows of such tables, and publishes the result. Returns whether any may be left.
    pub(crate) fn tend_once(&mut self, rows: u32) -> bool {
        let may_be_left = self.index.tend_tables(rows).unwrap();
        self.publish(Vec::new());
        may_be_left
    }

    /// What following says of the node, which reports its newest block just now.
    pub(crate) fn set_state(&self, state: SyncState) {
        self.published.report_node(|_| state);
    }

    /// The node is unreachable from now on.
    pub(crate) fn disconnect_node(&self) {
        self.published.change_state(SyncState::without_node);
    }

    /// How many of the Heads published so far are still referenced.
    pub(crate) fn live_heads(&self) -> usize {
        self.heads.iter().filter(|head| head.strong_count() > 0).count()
    }

    /// The whole response to a document.
    pub(crate) fn ask(&self, document: &str) -> Value {
        self.execute(Request::new(document))
    }

    /// The whole response to a document with variables.
    pub(crate) fn ask_with(&self, document: &str, variables: Value) -> Value {
        self.execute(Request::new(document).variables(async_graphql::Variables::from_json(variables)))
    }

    /// The data of a response that must have no errors.
    #[track_caller]
    pub(crate) fn data(&self, document: &str) -> Value {
        let mut response = self.ask(document);
        assert_eq!(response.get("errors"), None, "{response:#}");
        response["data"].take()
    }

    /// The code that all errors of a response have, which must have no other data than null.
    #[track_caller]
    pub(crate) fn refusal(&self, document: &str) -> Value {
        let response = self.ask(document);
        let data = &response["data"];
        let nothing = data.is_null() || data.as_object().is_some_and(|data| data.values().all(Value::is_null));
        assert!(nothing, "{response:#}");
        let errors = response["errors"].as_array().unwrap_or_else(|| panic!("no error: {response:#}"));
        let code = |error: &Value| error["extensions"]["code"].clone();
        assert!(errors.iter().all(|error| code(error) == code(&errors[0])), "{response:#}");
        code(&errors[0])
    }

    /// The first event of a subscription that begins with this state.
    pub(crate) fn first_event(&self, document: &str) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut events = self.schema.execute_stream(Request::new(document), None);
        response_json(runtime.block_on(events.next()).unwrap_or_else(|| panic!("{document} has no event")))
    }

    /// What an answer without errors costs.
    pub(crate) fn cost(&self, document: &str) -> u64 {
        let (answer, account) = self.execute_counted(Request::new(document));
        assert_eq!(answer.get("errors"), None, "{document}");
        account.cost()
    }

    /// The whole response to a request, which must not cost more than the worst case of its document, unless that is an
    /// estimate.
    pub(crate) fn execute(&self, request: Request) -> Value {
        let document = request.query.clone();
        let (answer, account) = self.execute_counted(request);
        let (cost, worst_case) = (account.cost(), account.worst_case());
        let is_estimate = ESTIMATED.iter().any(|field| document.contains(field));
        assert!(cost <= worst_case || is_estimate, "it costs {cost}, at most {worst_case}: {document}");
        answer
    }

    fn execute_counted(&self, request: Request) -> (Value, Arc<Account>) {
        let account = Arc::new(Account::new(true, Include::default(), None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(self.schema.execute(request.data(account.clone())));
        (response_json(answer), account)
    }
}

pub(crate) fn response_json(response: Response) -> Value {
    serde_json::to_value(response).unwrap()
}

/// A transaction that spends these coins of the chain, which their owner can, to these outputs.
pub(crate) fn spend(chain: &SimChain, owner: Owner, coins: &[OutPoint], output: Vec<TxOut>) -> Transaction {
    let prevouts: Vec<TxOut> = coins.iter().map(|coin| chain.coin(coin).unwrap().output.clone()).collect();
    spend_outputs(owner, coins, &prevouts, output)
}

/// The same for outputs that need not be in the chain yet.
pub(crate) fn spend_outputs(owner: Owner, coins: &[OutPoint], prevouts: &[TxOut], output: Vec<TxOut>) -> Transaction {
    let input = coins.iter().map(|coin| TxIn { previous_output: *coin, sequence: Sequence::MAX, ..TxIn::default() });
    let mut spending = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: input.collect(),
        output,
    };
    for input in 0..coins.len() {
        owner.unlock(&mut spending, input, prevouts).unwrap();
    }
    spending
}

/// Mines `count` blocks one on the other, the first on `parent` and the last with these transactions.
pub(crate) fn branch(
    chain: &mut SimChain,
    parent: BlockHash,
    count: usize,
    transactions: &[Transaction],
) -> Vec<Arc<Block>> {
    let mut blocks: Vec<Arc<Block>> = Vec::new();
    for number in 1..=count {
        let parent = blocks.last().map_or(parent, |block| block.block_hash());
        let transactions = if number == count { transactions.to_vec() } else { Vec::new() };
        blocks.push(chain.mine_on(parent, transactions).unwrap());
    }
    blocks
}

/// The outpoint of a coinbase's output.
pub(crate) fn coinbase_output(block: &Block, vout: u32) -> OutPoint {
    OutPoint { txid: block.txdata[0].compute_txid(), vout }
}

pub(crate) fn sat(sat: u64) -> Amount {
    Amount::from_sat(sat)
}

/// Blocks of a real chain from a file of the shared data; `None`, which is recorded, where it is absent.
pub(crate) fn real_chain(name: &str) -> Option<Vec<Block>> {
    let bytes = std::fs::read(super::skips::shared_data(name)?).unwrap();
    let (mut rest, mut blocks) = (bytes.as_slice(), Vec::new());
    while let Some((header, framed)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let (block, after) = framed.split_at(length.try_into().unwrap());
        blocks.push(bitcoin::consensus::deserialize(block).unwrap());
        rest = after;
    }
    Some(blocks)
}

/// An error of a field, as the response shows it.
pub(crate) fn error(path: &Value, column: u32, message: &str, extensions: &Value) -> Value {
    json!({ "message": message, "locations": [{ "line": 1, "column": column }], "path": path, "extensions": extensions })
}
