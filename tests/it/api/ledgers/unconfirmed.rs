//! Addresses, scripts and sets with the mempool on top, after every step of a random life.

use std::collections::BTreeSet;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Amount, Network, ScriptBuf};
use btcgraph::sim::{Life, Mining, Owner, Payment, Profile, Rng, ScriptKind, SimChain, Spendable, World};
use serde_json::{Value, json};

use super::expected::{ENTRY, Scripts, Truth, address, known_scripts, one, set, some};
use super::unconfirmed_truth::{PENDING, WAITING_UTXO, WorldTruth};
use super::walk::List;
use crate::support::api::Api;
use crate::support::pool::Pool;

/// When the lives of these tests begin, in seconds since 1970.
const NOW: u32 = 1_700_000_000;

/// A world that goes on, the index of its chain, and its mempool.
pub(super) struct Stage {
    life: Life,
    pub(super) world: World,
    pool: Pool,
    pub(super) api: Api,
    pub(super) random: Rng,
}

impl Stage {
    pub(super) fn new(seed: u64) -> Self {
        let (life, world) = Life::start(Profile::Hostile, seed, NOW).unwrap();
        let mut stage =
            Self { life, world, pool: Pool::new(), api: Api::of(Network::Regtest, []), random: Rng::new(seed) };
        stage.follow();
        stage
    }

    /// So many steps of the life, of which only the last is published.
    pub(super) fn go_on(&mut self, steps: u32) {
        for _ in 0..steps {
            self.life.next(&mut self.world).unwrap();
        }
        self.follow();
    }

    fn follow(&mut self) {
        self.pool.follow(&mut self.api, &self.world);
    }

    pub(super) fn truth(&mut self) -> WorldTruth {
        WorldTruth::of(&self.world, &self.pool.entries())
    }

    /// One script and a set of several, most of which the mempool touches, and how they are asked for.
    pub(super) fn owners(&mut self, truth: &WorldTruth) -> Vec<(String, Scripts)> {
        let (touched, known) = (truth.touched(), known_scripts(self.world.chain()));
        let from: &[ScriptBuf] = if touched.is_empty() { &known } else { &touched };
        let alone = self.random.choose(from).unwrap().clone();
        let mut several = some(from, 12, &mut self.random);
        several.extend(some(&known, 4, &mut self.random));
        vec![(one(&alone, &mut self.random), Scripts::from([alone])), (set(&several, &mut self.random), several)]
    }
}

#[test]
fn balances_separate_confirmed_pending_and_spending() {
    for seed in [300, 301, 302] {
        let mut stage = Stage::new(seed);
        let (mut pending, mut chained) = (0, 0);
        for _ in 0..25 {
            let steps = u32::try_from(stage.random.between(1, 6)).unwrap();
            stage.go_on(steps);
            let truth = stage.truth();
            for _ in 0..4 {
                for (owner, scripts) in stage.owners(&truth) {
                    let found = stage.api.data(&format!("{{ owner: {owner} {{ {PENDING} }} }}"))["owner"].take();
                    assert_eq!(found, truth.figures(&scripts), "{owner}");
                    let part = |name: &str| found["balance"][name].as_u64().unwrap();
                    pending += u32::from(part("pendingIn") > 0);
                    chained += u32::from(part("pendingIn") > 0 && part("spentInMempool") > 0);
                }
            }
        }
        assert!(pending > 20 && chained > 10, "{pending} and {chained} with something to tell");
    }
}

#[test]
fn at_a_block_there_is_no_mempool_not_even_at_the_newest() {
    let mut stage = Stage::new(310);
    stage.go_on(60);
    let truth = stage.truth();
    let height = stage.world.chain().height().to_u32();
    let at = format!("at: {{ height: {height} }}");
    let owners: Vec<_> = (0..10).flat_map(|_| stage.owners(&truth)).collect();
    for (owner, scripts) in owners {
        let asked =
            PENDING.replace("balance {", &format!("balance({at}) {{")).replace("stats {", &format!("stats({at}) {{"));
        let mut expected = truth.figures(&scripts);
        let balance = expected["balance"].as_object_mut().unwrap();
        let (confirmed, immature) = (balance["confirmed"].as_u64().unwrap(), balance["immature"].as_u64().unwrap());
        for (part, value) in [
            ("spentInMempool", 0),
            ("pendingIn", 0),
            ("unconfirmedDelta", 0),
            ("total", confirmed),
            ("spendable", confirmed - immature),
        ] {
            balance.insert(part.to_owned(), json!(value));
        }
        expected["stats"]["mempoolTxCount"] = json!(0);
        assert_eq!(stage.api.data(&format!("{{ owner: {owner} {{ {asked} }} }}"))["owner"], expected, "{owner}");
    }
}

#[test]
fn received_and_spent_stay_confirmed_whatever_waits() {
    let mut stage = Stage::new(320);
    stage.go_on(40);
    for script in stage.truth().touched() {
        let owner = by_hash(&script);
        let asked = "hex stats { received spent used mempoolTxCount } balance { confirmed }";
        let found = stage.api.data(&format!("{{ owner: {owner} {{ {asked} }} }}"))["owner"].take();
        let sum = |name: &str| found["stats"][name].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(Some(sum("received") - sum("spent")), found["balance"]["confirmed"].as_u64());
        assert_eq!((&found["hex"], &found["stats"]["used"]), (&json!(script.to_hex_string()), &Value::Bool(true)));
        assert!(found["stats"]["mempoolTxCount"].as_u64() > Some(0));
    }
}

#[test]
fn a_script_that_only_the_mempool_pays_is_found_by_its_hash_and_is_used() {
    let (payee, mut world) = (Owner::new(ScriptKind::P2wpkh, 930), waiting_world());
    let coin = Spendable::of(&world.chain().active_blocks().nth(1).unwrap().txdata[0].clone(), 0, SimChain::miner());
    let payment = Payment::of(coin).to(payee, Amount::from_sat(5_000)).change(SimChain::miner(), 2).sign().unwrap();
    let (mut pool, mut api) = (Pool::new(), Api::of(Network::Regtest, []));
    pool.follow(&mut api, &world);
    let asked = "hex stats { received used firstSeenBlock { height } lastSeenBlock { height } mempoolTxCount } balance { total spendable }";
    let document = format!("{{ owner: {} {{ {asked} }} }}", by_hash(&payee.script_pubkey()));
    let stats = |used: bool, waiting: u32| json!({ "received": "0", "used": used, "firstSeenBlock": null, "lastSeenBlock": null, "mempoolTxCount": waiting });
    let unused = json!({ "hex": null, "stats": stats(false, 0), "balance": { "total": 0, "spendable": 0 } });
    assert_eq!(api.data(&document)["owner"], unused);
    world.submit(payment).unwrap();
    pool.follow(&mut api, &world);
    let hex = payee.script_pubkey().to_hex_string();
    let paid = json!({ "hex": hex, "stats": stats(true, 1), "balance": { "total": 5_000, "spendable": 0 } });
    assert_eq!(api.data(&document)["owner"], paid);
}

#[test]
fn lists_with_the_mempool_on_top_are_the_same_in_pages_of_every_size_from_either_end() {
    let mut waiting = 0;
    for seed in [340, 341] {
        let mut stage = Stage::new(seed);
        for _ in 0..5 {
            let steps = u32::try_from(stage.random.between(1, 25)).unwrap();
            stage.go_on(steps);
            let (truth, chain) = (stage.truth(), Truth::whole(stage.world.chain()));
            for (owner, scripts) in stage.owners(&truth) {
                let mut entries = chain.entries(&scripts);
                entries.extend(truth.waiting_entries(&scripts));
                let newest_first: Vec<_> = entries.iter().rev().cloned().collect();
                let confirmed = chain.entries(&scripts).into_iter().rev().collect();
                waiting += truth.waiting_entries(&scripts).len();
                let coins = |with_spent| truth.utxos(&scripts, with_spent);
                let confirmed_coins = coins(false).into_iter().filter(|coin| !coin["height"].is_null()).collect();
                for (field, arguments, row, expected) in [
                    ("transactions", "", ENTRY, newest_first.clone()),
                    ("transactions", "order: ASC", ENTRY, entries),
                    (
                        "transactions",
                        "filter: { range: { heights: { from: 0 } }, includeMempool: null }",
                        ENTRY,
                        newest_first,
                    ),
                    ("transactions", "filter: { includeMempool: false }", ENTRY, confirmed),
                    ("utxos", "", WAITING_UTXO, coins(false)),
                    ("utxos", "filter: { includeSpentInMempool: true }", WAITING_UTXO, coins(true)),
                    ("utxos", "filter: { minConfirmations: 1 }", WAITING_UTXO, confirmed_coins),
                ] {
                    let list = List::new(owner.clone(), field, arguments, row);
                    for size in [1, 3, 10, 100].into_iter().filter(|size| size * 40 > expected.len()) {
                        assert_eq!(list.forwards(&mut stage.api, size, |_| ()), expected, "{list:?}, {size} at a time");
                        let backwards = list.backwards(&mut stage.api, size, |_| ());
                        assert_eq!(backwards, expected, "{list:?} backwards, {size} at a time");
                    }
                    let values = if field == "utxos" { "totalValue" } else { "__typename" };
                    let arguments = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
                    let asked =
                        format!("{{ owner: {owner} {{ list: {field}{arguments} {{ totalCount {values} }} }} }}");
                    let totals = stage.api.data(&asked)["owner"]["list"].take();
                    assert_eq!(totals["totalCount"], expected.len(), "{list:?}");
                    let sum: u64 = expected.iter().filter_map(|row| row["value"].as_u64()).sum();
                    assert!(field != "utxos" || totals["totalValue"] == sum, "{list:?}: {totals}");
                }
            }
        }
    }
    assert!(waiting > 30, "only {waiting} rows waited");
}

#[test]
fn filters_leave_what_meets_them_among_what_waits() {
    let mut stage = Stage::new(350);
    stage.go_on(50);
    let (truth, chain) = (stage.truth(), Truth::whole(stage.world.chain()));
    let tip = chain.tip();
    for (owner, scripts) in stage.owners(&truth) {
        let mut entries = chain.entries(&scripts);
        let confirmed: Vec<_> = entries.iter().rev().cloned().collect();
        entries.extend(truth.waiting_entries(&scripts));
        let kept = |keeps: &dyn Fn(&Value) -> bool| entries.iter().rev().filter(|row| keeps(row)).cloned().collect();
        let large = |row: &Value| row["net"].as_i64().unwrap().unsigned_abs() >= 50_000;
        let list = |arguments: &str| List::new(owner.clone(), "transactions", arguments, ENTRY);
        let expected: [(String, Vec<Value>); 2] = [
            (format!("filter: {{ range: {{ heights: {{ to: {tip} }} }} }}"), confirmed),
            ("filter: { minAbsNet: 50000 }".to_owned(), kept(&large)),
        ];
        for (arguments, expected) in expected {
            assert_eq!(list(&arguments).all(&mut stage.api), expected, "{owner} {arguments}");
        }
        let worth: Vec<_> =
            truth.utxos(&scripts, false).into_iter().filter(|coin| coin["value"].as_u64() >= Some(50_000)).collect();
        let list = List::new(owner.clone(), "utxos", "filter: { minValue: 50000 }", WAITING_UTXO);
        assert_eq!(list.all(&mut stage.api), worth, "{owner}");
    }
}

#[test]
fn a_walk_through_a_list_that_changes_skips_and_repeats_nothing_or_says_that_it_cannot_go_on() {
    let (mut finished, mut orphaned) = (0, 0);
    for seed in 360..366 {
        let mut stage = Stage::new(seed);
        stage.go_on(30);
        for order in ["DESC", "ASC"] {
            let truth = stage.truth();
            let several: Scripts = truth.touched().into_iter().collect();
            let owner = set(&several, &mut stage.random);
            let list = List::new(owner, "transactions", &format!("order: {order}"), "transaction { txid }");
            let (mut reported, mut cursor) = (Vec::new(), Value::Null);
            let mut always: BTreeSet<String> = ids(&list.all(&mut stage.api));
            loop {
                let response = stage.api.ask(&list.document(&format!("first: 4, after: {cursor}")));
                if let Some(errors) = response.get("errors") {
                    assert_eq!(errors[0]["extensions"]["code"], "CURSOR_ORPHANED", "{response:#}");
                    orphaned += 1;
                    break;
                }
                let page = &response["data"]["owner"]["transactions"];
                reported.extend(page["nodes"].as_array().unwrap().iter().cloned());
                if page["pageInfo"]["hasNextPage"] == false {
                    let found = ids(&reported);
                    assert!(always.is_subset(&found), "{list:?} skipped {:?}", always.difference(&found));
                    let again = reported.iter().filter(|row| always.contains(&id(row))).count();
                    assert_eq!(again, always.len(), "{list:?} has some twice");
                    finished += 1;
                    break;
                }
                cursor = page["pageInfo"]["endCursor"].clone();
                stage.go_on(1);
                let now = ids(&list.all(&mut stage.api));
                always.retain(|id| now.contains(id));
            }
        }
    }
    assert!(finished > 0 && orphaned > 0, "{finished} finished, {orphaned} orphaned");
}

#[test]
fn a_cursor_on_what_waits_holds_while_it_waits_and_says_where_it_went() {
    let (mut world, mut pool, mut api) = (waiting_world(), Pool::new(), Api::of(Network::Regtest, []));
    let payee = Owner::new(ScriptKind::P2wpkh, 931);
    let pay = |world: &World, block: usize, sat_per_vb| {
        let block = world.chain().active_blocks().nth(block).unwrap();
        let coin = Spendable::of(&block.txdata[0], 0, SimChain::miner());
        let payment = Payment::of(coin).to(payee, Amount::from_sat(5_000)).change(SimChain::miner(), sat_per_vb);
        payment.sign().unwrap()
    };
    let payments: Vec<_> = (1..=4).map(|block| pay(&world, block, 2)).collect();
    for payment in &payments {
        world.submit(payment.clone()).unwrap();
    }
    pool.follow(&mut api, &world);
    let owner = format!("address(address: \"{}\")", address(&payee.script_pubkey()).unwrap());
    let list = List::new(owner.clone(), "utxos", "", "outpoint { text }");
    let first = list.page(&api, "first: 2");
    let next = format!("first: 2, after: {}", first.end);
    let page = list.page(&api, &next);
    assert_eq!(page.rows.len(), 2);
    // what arrives, and a block that has nothing to do with the list, change nothing
    world.submit(pay(&world, 5, 2)).unwrap();
    world.mine_exactly(Vec::new(), Mining::default()).unwrap();
    pool.follow(&mut api, &world);
    assert_eq!(list.page(&api, &next).rows, page.rows);
    let refused = |api: &Api, cursor: &Value| {
        let response = api.ask(&list.document(&format!("first: 2, after: {cursor}")));
        let extensions = &response["errors"][0]["extensions"];
        (extensions["code"].clone(), extensions["state"].clone(), extensions["block"].clone())
    };
    // a block that takes another row of the list, and one that takes the row of the cursor
    let mut mine =
        |transaction: usize| world.mine_exactly(vec![payments[transaction].clone()], Mining::default()).unwrap();
    let block = json!(mine(0).block_hash().to_string());
    pool.follow(&mut api, &world);
    assert_eq!(refused(&api, &first.end), (json!("CURSOR_ORPHANED"), json!("MEMPOOL"), block));
    let cursor = list.page(&api, "first: 3").end;
    let mut mine =
        |transaction: usize| world.mine_exactly(vec![payments[transaction].clone()], Mining::default()).unwrap();
    let block = json!(mine(2).block_hash().to_string());
    pool.follow(&mut api, &world);
    assert_eq!(refused(&api, &cursor), (json!("CURSOR_ORPHANED"), json!("CONFIRMED"), block));
    // what is evicted is nowhere
    let cursor = list.page(&api, "first: 2").end;
    world.evict(&payments[3].compute_txid());
    pool.follow(&mut api, &world);
    assert_eq!(refused(&api, &cursor), (json!("CURSOR_ORPHANED"), json!("EVICTED"), Value::Null));
    // a cursor of another list of the same rows
    let other = List::new(owner, "utxos", "filter: { minConfirmations: 0, minValue: 1 }", "outpoint { text }");
    let cursor = list.page(&api, "first: 1").end;
    let response = api.ask(&other.document(&format!("after: {cursor}")));
    assert_eq!(response["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
}

fn id(row: &Value) -> String {
    row["transaction"]["txid"].as_str().unwrap().to_owned()
}

fn ids(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().map(id).collect()
}

/// A short chain whose first coinbases can be spent, and nothing that waits.
fn waiting_world() -> World {
    let mut chain = SimChain::new(330);
    chain.mine_empty(110).unwrap();
    World::new(chain)
}

/// The field that leads to a script by its hash alone.
fn by_hash(script: &ScriptBuf) -> String {
    format!("script(scriptHash: \"{}\")", sha256::Hash::hash(script.as_bytes()))
}
