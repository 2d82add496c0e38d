//! How long answers last: the marks of fields, and answers asked again and again while the chain goes on.
//!
//! ```text
//!   questions.rs   the schema ──► one question a field, of deep blocks and of others
//!   history.rs     a random history: blocks, payments, arrivals, departures, reorganisations and back
//!   guide.rs       the queries of docs/api, on the chain they are about
//!   kept.rs        what a client may keep of the answers ──► contradictions
//! ```

mod fields;
mod guide;
mod history;
mod kept;
mod questions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use async_graphql::{Executor, Request};
use btcgraph::api::{Cacheability, Freshness, ReadSet};
use serde_json::Value;

use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};
use history::History;
use kept::Kept;
use questions::{Question, questions};

live_and_cut!(
    cacheable_answers_last_whatever_happens,
    what_is_asked_in_earnest_lasts_as_long_as_it_can,
    what_was_right_after_a_deep_block_lasts_and_what_is_now_does_not,
);

/// How many blocks must be on top of one: as many as a history disconnects at once.
const DEPTH: u32 = 3;
const STEPS: usize = 24;

/// The data of an answer and how long it lasts, as the server would tell it; `None` if it has errors.
fn ask(api: &Api, runtime: &tokio::runtime::Runtime, document: &str) -> Option<(Value, Freshness)> {
    ask_at(DEPTH, api, runtime, document)
}

/// The same where blocks do not change that have this many others on top.
fn ask_at(depth: u32, api: &Api, runtime: &tokio::runtime::Runtime, document: &str) -> Option<(Value, Freshness)> {
    let reads = ReadSet::default();
    let response = runtime.block_on(api.schema.execute(Request::new(document).data(reads.clone())));
    response.errors.is_empty().then(|| (response.data.into_json().unwrap(), reads.freshness(depth)))
}

/// The place among those that are counted: for ever, while the tip is, while the Head is, and no longer than a moment.
fn kind(lasting: Freshness) -> usize {
    match lasting {
        Freshness::Immutable => 0,
        Freshness::UntilNextTip(_) => 1,
        Freshness::UntilNextHead(..) => 2,
        Freshness::NoStore => 3,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// What a history brought to light.
#[derive(Default)]
struct Found {
    /// Answers that were marked as lasting and changed.
    broken: Vec<String>,
    /// The fields that would have been wrong if they were marked as fixed.
    caught: BTreeSet<String>,
    /// How many answers were marked as lasting for ever, while a block is the tip, while a Head is the newest, and not at all.
    lasting: [usize; 4],
}

fn play(form: IndexForm, seed: u64) -> Found {
    let (mut history, runtime) = (History::start(form, seed), runtime());
    let (mut found, mut kept, mut if_fixed) = (Found::default(), Kept::default(), Kept::default());
    let mut questions: Vec<Question> = questions(&history.seeds());
    for step in 0..STEPS {
        // how long the objects around the fields last, each asked for once
        let mut objects = BTreeMap::new();
        for question in &questions {
            let Some((reported, lasting)) = ask(&history.api, &runtime, &question.document) else { continue };
            found.lasting[kind(lasting)] += 1;
            if let Err(broken) = kept.keep(&history.api.schema, &question.document, lasting, &reported) {
                found.broken.push(format!("seed {seed}, step {step}: {broken}"));
            }
            // its marking if the field itself were fixed: that of the objects around it
            let (around, mark) = (&question.around, question.mark);
            let lasts = || ask(&history.api, &runtime, around).map(|(_, lasting)| lasting);
            if mark != Cacheability::Immutable
                && let Some(lasting) = *objects.entry(around).or_insert_with(lasts)
                && if_fixed.keep(&history.api.schema, &question.document, lasting, &reported).is_err()
            {
                found.caught.insert(question.field.clone());
            }
        }
        history.step();
        if step % 3 == 1 {
            history.freeze(form);
        }
        if step % 10 == 5 {
            questions.extend(questions::of_block(&history.tip()));
        }
    }
    found
}

/// What a history brings to light, of an index whose blocks are all live, and of one with frozen blocks.
static LIVE: LazyLock<Found> = LazyLock::new(|| play(IndexForm::Live, 3));
static CUT: LazyLock<Found> = LazyLock::new(|| play(IndexForm::Cut, 2));

fn cacheable_answers_last_whatever_happens(form: IndexForm) {
    let Found { broken, lasting, .. } = match form {
        IndexForm::Live => &*LIVE,
        IndexForm::Cut => &*CUT,
    };
    assert_eq!(broken, &Vec::<String>::new());
    println!("for ever, while the tip, while the Head, a moment: {lasting:?}");
    assert!(lasting.iter().all(|count| *count > 100), "some kind of answer was hardly seen: {lasting:?}");
}

/// So that the tests here do not pass because nothing is ever marked as lasting.
fn what_is_asked_in_earnest_lasts_as_long_as_it_can(form: IndexForm) {
    let (history, runtime) = (History::start(form, 4), runtime());
    for (document, lasting) in [
        ("{ block(height: 1) { hash transactions { nodes { txid outputs { nodes { value script { id } } } } } } }", 0),
        (
            "{ block(height: 1) { feeStats { feeRatePercentiles } stats { outputsByType { outputCount } } previousBlock { id } } }",
            0,
        ),
        (
            "{ transactionByIndex(index: 5) { id fee block { height } merkleProof { merkleBranch } inputs { nodes { witness } } } }",
            0,
        ),
        ("{ blocks(first: 2) { nodes { hash confirmations } pageInfo { endCursor } } }", 1),
        ("{ chain { network supply(at: { height: 100 }) { circulating immatureCoinbase } } }", 0),
        ("{ chain { range(of: { heights: { from: 3, to: 100 } }) { txCount hashrate } } }", 0),
        ("{ chain { utxoSet(at: { height: 100 }) { unspentCount byType { totalValue } } } }", 0),
        (
            "{ chain { series(range: { heights: { from: 97, to: 100 } }, group: BLOCK) { stats { fees } utxoSet { totalValue } } } }",
            0,
        ),
        (
            "{ chain { series(range: { heights: { to: 100 } }, includeEmpty: true) { startAt endAt lastBlock { hash } } } }",
            0,
        ),
        ("{ headers(range: { heights: { from: 90, to: 99 } }) { hash } }", 0),
        (
            "{ blocks(first: 2, range: { heights: { to: 100 } }) { totalCount nodes { hash } pageInfo { endCursor } } }",
            0,
        ),
        ("{ transactions(first: 2, range: { heights: { from: 50, to: 60 } }) { totalCount nodes { fee } } }", 0),
        // where a page ends that looks for its rows is for the settings to say
        ("{ transactions(first: 2, range: { heights: { to: 60 } }, filter: { minValue: 1 }) { nodes { txid } } }", 1),
        ("{ chain { epochs { nodes { startedAt } } } block(height: 1) { nextBlock { hash } } }", 1),
        (
            "{ chain { supply { circulating } range(of: { heights: { from: 1 } }) { txCount } epoch(index: 0) { startedAt } } }",
            1,
        ),
        ("{ chain { range(of: { lastBlocks: 3 }) { txCount } supply(at: { height: 109 }) { circulating } } }", 1),
        ("{ chain { utxoSet { unspentCount } } }", 1),
        ("{ chain { utxoSet(at: { height: 109 }) { unspentCount } } }", 1),
        ("{ chain { series { blockCount } } }", 1),
        ("{ chain { series(range: { lastBlocks: 3 }, group: BLOCK) { blockCount } } }", 1),
        ("{ chain { series(range: { heights: { from: 90, to: 109 } }, group: HALVING) { difficulty } } }", 1),
        ("{ headers(range: { heights: { from: 100, to: 109 } }) { hash } }", 1),
        ("{ blocks(first: 2, range: { heights: { to: 110 } }) { totalCount } }", 1),
        ("{ mempool { txids { nodes } feeHistogram { txCount } stats { txCount } } }", 2),
        (
            "{ block(height: 1) { siblings { hash } transactions(first: 1) { nodes { outputs { nodes { spendStatus } } } } } }",
            2,
        ),
        ("{ block(height: 1000) { hash } }", 2),
        ("{ block(height: 1) { hash } server { softwareVersion } }", 3),
        ("{ mempool { stats { txPerSecond } } }", 3),
        // up to now, or to a given time
        ("{ mempool { history { startAt } } }", 3),
        ("{ mempool { feeTrackRecord { targetBlocks } } }", 3),
        ("{ mempool { history(range: { times: {} }) { startAt } } }", 3),
        (
            "{ mempool { history(range: { times: { from: \"2020-01-01T00:00:00Z\", to: \"2020-01-02T00:00:00Z\" } }) { startAt } } }",
            2,
        ),
        ("{ mempool { feeTrackRecord(range: { times: { to: \"2020-01-02T00:00:00Z\" } }) { targetBlocks } } }", 2),
        ("{ mempool { history(range: { heights: { from: 99, to: 100 } }) { startAt } } }", 2),
    ] {
        let (_, lasts) = ask(&history.api, &runtime, document).unwrap();
        assert_eq!(kind(lasts), lasting, "{document}: {lasts:?}");
    }
}

/// The same of what is asked for as it was right after a block.
fn what_was_right_after_a_deep_block_lasts_and_what_is_now_does_not(form: IndexForm) {
    let (history, runtime) = (History::start(form, 4), runtime());
    let (address, deep, newest) = (history.address(), history.time(90), history.time(109));
    let set = address.replace("address(address: ", "ledgerSet(of: { addresses: [").replace(')', "] })");
    let at = |field: &str, at: &str, fields: &str| format!("{field}(at: {{ {at} }}) {{ {fields} }}");
    let deep = format!("time: \"{deep}\"");
    for (asked, lasting) in [
        (at("balance", "height: 106", "confirmed immature spendable total"), 0),
        (at("balance", &deep, "confirmed"), 0),
        (at("stats", "height: 106", "txCount received used mempoolTxCount firstSeenBlock { hash }"), 0),
        // where a page ends that looks for its rows is for the settings to say
        (
            at(
                "utxos",
                "height: 106",
                "totalCount totalValue nodes { outpoint { text } confirmations spendability { isSpendable } }",
            ),
            1,
        ),
        (at("balance", "height: 107", "confirmed"), 1),
        (at("utxos", "height: 109", "totalCount"), 1),
        (at("stats", &format!("time: \"{newest}\""), "txCount"), 1),
        (at("utxos", "height: 109", "nodes { output { spendStatus } }"), 2),
        ("balance { confirmed }".to_owned(), 2),
        ("stats { txCount }".to_owned(), 2),
        ("utxos { totalCount }".to_owned(), 2),
        (format!("balance {{ total }} {}", at("stats", "height: 1", "used")), 2),
    ] {
        for of in [&address, &set] {
            let document = format!("{{ {of} {{ {asked} }} }}");
            let (reported, lasts) = ask(&history.api, &runtime, &document).unwrap();
            assert_eq!(kind(lasts), lasting, "{document}: {lasts:?}, {reported}");
        }
    }
    // who is paid for the first time has an address from then on
    let unpaid = format!(
        "{{ script(scriptHash: \"{}\") {{ address balance(at: {{ height: 1 }}) {{ total }} }} }}",
        "11".repeat(32)
    );
    assert_eq!(ask(&history.api, &runtime, &unpaid).map(|(_, lasts)| kind(lasts)), Some(2));
    let coin = history.coin();
    for (asked, lasting) in
        [("spendStatus(at: { height: 106 })", 0), ("spendStatus", 2), ("spendStatus(at: { height: 107 })", 1)]
    {
        let document = format!("{{ {coin} {{ {asked} }} }}");
        let (_, lasts) = ask(&history.api, &runtime, &document).unwrap();
        assert_eq!(kind(lasts), lasting, "{document}: {lasts:?}");
    }
}

/// So that the test above would have found a field that is marked as fixed and is not.
#[test]
fn a_field_that_moves_and_is_marked_as_fixed_is_found() {
    let found = &*LIVE;
    let moving = [
        "Block.confirmations",
        "Block.nextBlock",
        "Block.siblings",
        "Transaction.confirmations",
        "Output.spendStatus",
        "Output.spentBy",
        "Output.spentHeight",
        "Output.spentInMempoolBy",
        "Output.isMature",
        "Address.balance",
        "Address.stats",
        "Address.transactions",
        "Chain.summary",
        "Mempool.stats",
        "Query.tip",
        "Query.blocks",
    ];
    let missed: Vec<_> = moving.iter().filter(|field| !found.caught.contains(**field)).collect();
    assert!(missed.is_empty(), "{missed:?} not among {:?}", found.caught);
}
