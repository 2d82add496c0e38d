//! A cursor whose block a reorganisation took away says so and where the chains part; from there a client reads on.

use std::sync::Arc;

use btcgraph::sim::{Hostile, Rng, SimChain};
use serde_json::{Value, json};

use super::expected::{ENTRY, Scripts, Truth, UTXO, follow, hostile_chain, known_scripts, set};
use super::walk::List;
use crate::support::api::Api;
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
