//! A cursor whose block a reorganisation took away says so and where the chains part; from there a client reads on.

use std::sync::Arc;

use bitcoin::{BlockHash, Transaction};
use btcgraph::sim::{Hostile, Owner, Rng, ScriptKind, SimChain};
use serde_json::{Value, json};

use super::expected::{ENTRY, Scripts, Truth, UTXO, follow, hostile_chain, known_scripts, set};
use super::walk::List;
use crate::api::mempool::projected::{chain_with_coins, paying};
use crate::support::api::{Api, branch};
use crate::support::cut::{IndexForm, live_and_cut};

/// A chain, its index, a set of most of its scripts, and what is fed so far.
struct Scene {
    chain: SimChain,
    hostile: Hostile,
    api: Api,
    fed: Vec<Arc<bitcoin::Block>>,
    scripts: Scripts,
    owner: String,
}

impl Scene {
    fn new(kind: IndexForm, seed: u64) -> Self {
        let (chain, hostile) = hostile_chain(seed, 130);
        let scripts: Scripts = known_scripts(&chain).into_iter().step_by(2).collect();
        let owner = set(&scripts, &mut Rng::new(seed));
        let fed = chain.active_blocks().cloned().collect();
        Self { api: Api::of_chain_in(kind, &chain), chain, hostile, fed, scripts, owner }
    }

    /// Takes `depth` blocks away. Returns the height where the branches part.
    fn reorganise(&mut self, depth: u32) -> u32 {
        let fork = self.chain.height().to_u32() - depth;
        self.hostile.branch(&mut self.chain, depth, depth + 1).unwrap();
        follow(&mut self.api, &self.chain, &mut self.fed);
        fork
    }

    fn refusal(&self, list: &List, page: &str) -> Value {
        let response = self.api.ask(&list.document(page));
        let data = &response["data"];
        let field = if list.owner.is_empty() { &data[list.field] } else { &data["owner"][list.field] };
        assert_eq!(*field, Value::Null, "{response}");
        assert_eq!(response["errors"].as_array().unwrap().len(), 1, "{response}");
        response["errors"][0]["extensions"].clone()
    }
}

live_and_cut!(
    a_cursor_of_a_block_that_is_gone_is_refused_with_the_fork_and_reading_goes_on_from_there,
    a_walk_through_the_past_ends_when_the_block_it_began_at_is_gone_and_only_then,
    a_moment_stays_the_block_that_it_was_at_the_first_page,
);

fn a_cursor_of_a_block_that_is_gone_is_refused_with_the_fork_and_reading_goes_on_from_there(kind: IndexForm) {
    let mut scene = Scene::new(kind, 90);
    let list = |field, arguments: &str, row| List::new(scene.owner.clone(), field, arguments, row);
    let entries = list("transactions", "", ENTRY);
    let lists = [
        entries.clone(),
        list("transactions", "filter: { direction: IN }", ENTRY),
        list("utxos", "", UTXO),
        list("coinbaseBlocks", "", "height"),
        List::new("", "transactions", "", "txid"),
    ];
    let cursors: Vec<Value> = lists.iter().map(|list| list.page(&scene.api, "first: 2").end).collect();
    // rows of the last blocks but a few
    let kept: Vec<Value> = lists.iter().map(|list| list.page(&scene.api, "last: 3").end).collect();
    let fork = scene.reorganise(12);
    for ((list, cursor), kept) in lists.iter().zip(&cursors).zip(&kept) {
        for page in [format!("first: 5, after: {cursor}"), format!("last: 5, before: {cursor}")] {
            let expected = json!({ "code": "CURSOR_ORPHANED", "forkHeight": fork });
            assert_eq!(scene.refusal(list, &page), expected, "{list:?} {page}");
        }
        list.page(&scene.api, &format!("last: 5, before: {kept}"));
    }
    let truth = Truth::whole(&scene.chain);
    let from_fork =
        List { arguments: format!("order: ASC, filter: {{ range: {{ heights: {{ to: {fork} }} }} }}"), ..entries };
    let mut read = from_fork.all(&mut scene.api);
    let rest = List {
        arguments: format!("order: ASC, filter: {{ range: {{ heights: {{ from: {} }} }} }}", fork + 1),
        ..from_fork
    };
    read.extend(rest.all(&mut scene.api));
    let balances = |rows: &[Value]| rows.iter().map(|row| row["balanceAfter"].clone()).collect::<Vec<_>>();
    assert_eq!(balances(&read), balances(&truth.entries(&scene.scripts)));
}

fn a_walk_through_the_past_ends_when_the_block_it_began_at_is_gone_and_only_then(kind: IndexForm) {
    let mut scene = Scene::new(kind, 91);
    let tip = scene.chain.height().to_u32();
    let at = |height: u32| List::new(scene.owner.clone(), "utxos", &format!("at: {{ height: {height} }}"), UTXO);
    let (young, old) = (at(tip - 2), at(tip - 20));
    let cursor = |scene: &Scene, list: &List| list.page(&scene.api, "first: 3").end;
    let (young_cursor, old_cursor) = (cursor(&scene, &young), cursor(&scene, &old));
    let before = old.page(&scene.api, &format!("first: 100, after: {old_cursor}")).rows;
    let fork = scene.reorganise(10);
    let refused = scene.refusal(&young, &format!("first: 3, after: {young_cursor}"));
    assert_eq!(refused, json!({ "code": "CURSOR_ORPHANED", "forkHeight": fork }));
    assert_eq!(old.page(&scene.api, &format!("first: 100, after: {old_cursor}")).rows, before);
}

fn a_moment_stays_the_block_that_it_was_at_the_first_page(kind: IndexForm) {
    let mut scene = Scene::new(kind, 92);
    let in_the_future = "at: { time: \"2090-01-01T00:00:00Z\" }";
    let list = List::new(scene.owner.clone(), "utxos", in_the_future, UTXO);
    let whole = list.all(&mut scene.api);
    assert_eq!(whole, Truth::whole(&scene.chain).utxos(&scene.scripts));
    let Scene { chain, hostile, api, .. } = &mut scene;
    let rows = list.forwards(api, 40, |api| api.connect(&hostile.mine(chain).unwrap()));
    assert_eq!(rows, whole);
    assert_ne!(list.all(api), whole, "asked anew it is the newest block");
}

/// A script that two unconfirmed transactions pay, of which a block had some until a reorg.
struct Returned {
    api: Api,
    /// The lists of the script, and the page of each that ends with the newer transaction.
    lists: [(List, &'static str); 3],
    /// The cursors of these pages, from before the block.
    cursors: Vec<Value>,
    older: Transaction,
    newer: Transaction,
    /// The block that left.
    block: BlockHash,
}

impl Returned {
    fn new(has_older: bool) -> Self {
        let (mut chain, coins) = chain_with_coins(2);
        let [older, newer] = [coins[0], coins[1]].map(|coin| paying(coin, 1_000));
        let mut api = Api::of_chain(&chain);
        api.arrive([&older, &newer]);
        let script = Owner::new(ScriptKind::BareTrue, 1).script_pubkey().to_hex_string();
        let list = |field, arguments: &str, row| {
            List::new(format!("script(scriptPubKey: \"{script}\")"), field, arguments, row)
        };
        let lists = [
            (list("transactions", "", "transaction { txid }"), "first: 1"),
            (list("transactions", "order: ASC", "transaction { txid }"), "last: 1"),
            (list("utxos", "", "outpoint { txid }"), "first: 1"),
        ];
        let cursors = lists.iter().map(|(list, page)| list.page(&api, page).end).collect();
        let parent = chain.tip();
        let mined = if has_older { vec![older.clone()] } else { Vec::new() };
        let left = branch(&mut chain, parent, 1, &mined);
        api.change(0, left.iter().map(Arc::as_ref));
        api.change(1, branch(&mut chain, parent, 2, &[]).iter().map(Arc::as_ref));
        let block = left[0].block_hash();
        api.return_from(block, &mined);
        Self { api, lists, cursors, older, newer, block }
    }
}

fn txid(row: &Value) -> &Value {
    row.pointer("/transaction/txid").or_else(|| row.pointer("/outpoint/txid")).unwrap()
}

#[test]
fn a_cursor_of_the_mempool_is_refused_once_a_reorg_returns_others_of_its_list() {
    let Returned { mut api, lists, cursors, older, newer, block } = Returned::new(true);
    for ((list, _), cursor) in lists.iter().zip(&cursors) {
        let response = api.ask(&list.document(&format!("first: 1, after: {cursor}")));
        let expected = json!({ "code": "CURSOR_ORPHANED", "state": "MEMPOOL", "block": block.to_string() });
        assert_eq!(response["errors"][0]["extensions"], expected, "{list:?}: {response}");
    }
    // what is read from the first page on has all of them, in their new order
    let rows = lists[0].0.forwards(&mut api, 1, |_| ());
    let txids = [&older, &newer].map(|transaction| json!(transaction.compute_txid().to_string()));
    assert_eq!([txid(&rows[0]), txid(&rows[1])], [&txids[0], &txids[1]]);
}

#[test]
fn a_cursor_of_the_mempool_outlives_a_reorg_of_blocks_without_its_list() {
    let Returned { api, lists, cursors, older, .. } = Returned::new(false);
    for ((list, _), cursor) in lists.iter().zip(&cursors) {
        let rows = list.page(&api, &format!("first: 1, after: {cursor}")).rows;
        let expected = if list.arguments.is_empty() { Some(json!(older.compute_txid().to_string())) } else { None };
        assert_eq!(rows.first().map(txid), expected.as_ref(), "{list:?}");
    }
}
