//! Lists of unconfirmed transactions, page by page, while others come and go.

use std::cmp::Reverse;

use bitcoin::{Network, Transaction};
use btcgraph::limits::Limits;
use btcgraph::mempool::Departure;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use super::projected::{VSIZE, chain_with_coins, large, output_of, paying, paying_of, refusal};
use crate::support::api::{Api, branch};

const ORDERS: [&str; 4] = ["FEE_RATE", "EFFECTIVE_FEE_RATE", "ARRIVAL", "VALUE"];

fn txid(of: &Transaction) -> String {
    of.compute_txid().to_string()
}

fn txids<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> Vec<String> {
    transactions.into_iter().map(txid).collect()
}

/// A mempool of 40 transactions of few different fees, every fourth of which has a child that pays much.
fn mixed() -> (SimChain, Api, Vec<Transaction>) {
    let (chain, coins) = chain_with_coins(32);
    let mut api = Api::of_chain(&chain);
    let mut transactions = Vec::new();
    for (coin, number) in coins.iter().zip(0_u64..) {
        let fee = 100 * (1 + number * 7 % 5);
        let parent = paying(*coin, fee);
        let child = number.is_multiple_of(4).then(|| paying_of(output_of(&parent), 100_000 - fee, 1_000 + number % 3));
        transactions.push(parent);
        transactions.extend(child);
    }
    api.arrive(&transactions);
    (chain, api, transactions)
}

/// The same in each order: by a key of each transaction, the highest first, and of equal ones the oldest first.
fn expected(api: &Api, transactions: &[Transaction], order: &str) -> Vec<String> {
    let figures = |of: &Transaction| {
        let fields = "feeRate effectiveFeeRate totalOutputValue";
        api.data(&format!("{{ transaction(txid: \"{}\") {{ {fields} }} }}", txid(of)))["transaction"].take()
    };
    let mut rows: Vec<_> = transactions.iter().enumerate().map(|(at, of)| (figures(of), at, txid(of))).collect();
    rows.sort_by(|one, other| {
        let by = |field: &str| other.0[field].as_f64().unwrap().total_cmp(&one.0[field].as_f64().unwrap());
        let by = match order {
            "FEE_RATE" => by("feeRate"),
            "EFFECTIVE_FEE_RATE" => by("effectiveFeeRate"),
            "VALUE" => by("totalOutputValue"),
            _ => Reverse(one.1).cmp(&Reverse(other.1)),
        };
        by.then(one.1.cmp(&other.1))
    });
    rows.into_iter().map(|(_, _, txid)| txid).collect()
}

fn page(api: &Api, arguments: &str) -> Value {
    let mut data = api.data(&format!(
        "{{ mempool {{ transactions({arguments}) {{ totalCount edges {{ cursor node {{ txid }} }}
            pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }} }} }}"
    ));
    data["mempool"]["transactions"].take()
}

fn rows(page: &Value) -> Vec<String> {
    page["edges"].as_array().unwrap().iter().map(|edge| edge["node"]["txid"].as_str().unwrap().to_owned()).collect()
}

/// All pages forwards, put together.
fn forwards(api: &Api, size: usize, arguments: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = page(api, &format!("first: {size}, after: {cursor} {arguments}"));
        assert_eq!(page["pageInfo"]["hasPreviousPage"], json!(!cursor.is_null()));
        all.extend(rows(&page));
        if page["pageInfo"]["hasNextPage"] == json!(false) {
            return all;
        }
        cursor = page["pageInfo"]["endCursor"].clone();
    }
}

/// All pages backwards, put together.
fn backwards(api: &Api, size: usize, arguments: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = page(api, &format!("last: {size}, before: {cursor} {arguments}"));
        assert_eq!(page["pageInfo"]["hasNextPage"], json!(!cursor.is_null()));
        all.splice(0..0, rows(&page));
        if page["pageInfo"]["hasPreviousPage"] == json!(false) {
            return all;
        }
        cursor = page["pageInfo"]["startCursor"].clone();
    }
}

#[test]
fn pages_put_together_are_the_list_in_every_order_and_both_directions() {
    let (_, api, transactions) = mixed();
    for order in ORDERS {
        let expected = expected(&api, &transactions, order);
        let arguments = format!(", order: {order}");
        for size in [1, 3, 7, 40] {
            assert_eq!(forwards(&api, size, &arguments), expected, "{order} forwards, {size} at a time");
            assert_eq!(backwards(&api, size, &arguments), expected, "{order} backwards, {size} at a time");
        }
        assert_eq!(page(&api, &format!("first: 1, order: {order}"))["totalCount"], json!(40));
    }
    assert_eq!(forwards(&api, 40, ""), expected(&api, &transactions, "FEE_RATE"), "the order if none is given");
}

#[test]
fn all_txids_are_listed_newest_first() {
    let (_, api, transactions) = mixed();
    let newest_first = txids(transactions.iter().rev());
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    for size in [17, 17, 17] {
        let answer = api.data(&format!(
            "{{ mempool {{ txids(first: {size}, after: {cursor}) {{ totalCount nodes pageInfo {{ endCursor }} }} }} }}"
        ));
        let page = &answer["mempool"]["txids"];
        assert_eq!(page["totalCount"], json!(40));
        all.extend(page["nodes"].as_array().unwrap().iter().map(|txid| txid.as_str().unwrap().to_owned()));
        cursor = page["pageInfo"]["endCursor"].clone();
    }
    assert_eq!(all, newest_first);
    let answer = api.data("{ mempool { txids(last: 2) { nodes } } }");
    assert_eq!(answer["mempool"]["txids"]["nodes"], json!(newest_first[38..]));
}

#[test]
fn a_page_goes_on_from_the_same_place_whatever_comes_and_goes() {
    let (chain, coins) = chain_with_coins(8);
    let mut api = Api::of_chain(&chain);
    let old: Vec<_> = [8, 7, 6, 5, 4].iter().zip(&coins).map(|(rate, coin)| paying(*coin, rate * VSIZE)).collect();
    api.arrive(&old);
    for order in ["FEE_RATE", "EFFECTIVE_FEE_RATE"] {
        let first = page(&api, &format!("first: 3, order: {order}"));
        assert_eq!(rows(&first), txids(&old[..3]));
    }
    let cursors = ["FEE_RATE", "EFFECTIVE_FEE_RATE"]
        .map(|order| page(&api, &format!("first: 3, order: {order}"))["pageInfo"]["endCursor"].clone());

    // one above and one below the place, what is at the place is bumped far ahead, and something before it leaves
    let (above, below) = (paying(coins[5], 9 * VSIZE), paying(coins[6], 4 * VSIZE + 1));
    let child = paying_of(output_of(&old[2]), 100_000 - 6 * VSIZE, 50 * VSIZE);
    api.arrive([&above, &below, &child]);
    api.depart(&old[0].compute_txid(), Departure::Unknown);
    for (order, cursor) in ["FEE_RATE", "EFFECTIVE_FEE_RATE"].into_iter().zip(cursors) {
        let next = page(&api, &format!("first: 9, order: {order}, after: {cursor}"));
        assert_eq!(rows(&next), txids([&old[3], &below, &old[4]]), "{order}");
    }
}

/// The answer to the page behind a cursor that is refused: its error's extensions.
fn refused(api: &Api, cursor: &Value) -> Value {
    let response = api.ask(&format!("{{ mempool {{ transactions(after: {cursor}) {{ totalCount }} }} }}"));
    assert_eq!(response["data"], json!({ "mempool": { "transactions": null } }), "{response:#}");
    response["errors"][0]["extensions"].clone()
}

#[test]
fn a_cursor_on_what_left_the_mempool_says_where_that_went() {
    let (mut chain, coins) = chain_with_coins(4);
    let mut api = Api::of_chain(&chain);
    let transactions: Vec<_> = coins.iter().map(|coin| paying(*coin, 500)).collect();
    api.arrive(&transactions);
    let all = page(&api, "first: 4");
    let cursor = |at: usize| &all["edges"][at]["cursor"];
    let orphaned = |state: &str, block: Value| json!({ "code": "CURSOR_ORPHANED", "state": state, "block": block });

    api.arrive([&paying(coins[0], 900)]);
    assert_eq!(refused(&api, cursor(0)), orphaned("REPLACED", Value::Null));
    api.depart(&transactions[1].compute_txid(), Departure::Expired);
    assert_eq!(refused(&api, cursor(1)), orphaned("EVICTED", Value::Null));
    let block = chain.mine(vec![transactions[2].clone(), paying(coins[3], 1_000)]).unwrap();
    api.connect(&block);
    assert_eq!(refused(&api, cursor(2)), orphaned("CONFIRMED", json!(block.block_hash().to_string())));
    assert_eq!(refused(&api, cursor(3)), orphaned("CONFLICTED", json!(block.block_hash().to_string())));

    // it waits again, but the list went on without it in between
    api.arrive([&transactions[1]]);
    assert_eq!(refused(&api, cursor(1)), orphaned("MEMPOOL", Value::Null));
    // and one that nobody remembers
    api.remember(btcgraph::mempool::MempoolLimits::default());
    api.arrive([]);
    let forgotten = json!({ "code": "CURSOR_ORPHANED", "state": null, "block": null });
    assert_eq!(refused(&api, cursor(0)), forgotten);
    // what a reorganisation leaves in a stale block alone
    let blocks = branch(&mut chain, block.header.prev_blockhash, 2, &[]);
    api.change(1, blocks.iter().map(AsRef::as_ref));
    assert_eq!(refused(&api, cursor(2)), orphaned("REORGED_OUT", json!(block.block_hash().to_string())));
}

#[test]
fn a_cursor_of_another_order_filter_or_list_is_refused() {
    let (_, api, _) = mixed();
    let cursor = page(&api, "first: 1")["pageInfo"]["endCursor"].clone();
    for list in [
        format!("transactions(after: {cursor}, order: VALUE) {{ totalCount }}"),
        format!("transactions(after: {cursor}, filter: {{ minValue: 1 }}) {{ totalCount }}"),
        format!("txids(after: {cursor}) {{ totalCount }}"),
        "transactions(after: \"\") { totalCount }".to_owned(),
        format!("transactions(first: 1, before: {cursor}) {{ totalCount }}"),
    ] {
        assert_eq!(refusal(&api, &list), json!("BAD_USER_INPUT"), "{list}");
    }
    assert_eq!(refusal(&api, "transactions(first: 101) { totalCount }"), json!("QUERY_LIMIT_EXCEEDED"));
    // no filter and an empty one are the same
    assert_eq!(rows(&page(&api, &format!("first: 1, after: {cursor}, filter: {{}}"))).len(), 1);
}

/// Whether a filter keeps a transaction of this feerate and value, given the feerate in its bounds.
type Keeps = fn(f64, u64, f64) -> bool;

#[test]
fn a_filter_leaves_out_what_does_not_meet_all_of_it() {
    let (_, api, transactions) = mixed();
    let figures = |of: &String| {
        let answer = api.data(&format!("{{ transaction(txid: \"{of}\") {{ feeRate totalOutputValue }} }}"));
        (
            answer["transaction"]["feeRate"].as_f64().unwrap(),
            answer["transaction"]["totalOutputValue"].as_u64().unwrap(),
        )
    };
    // exactly what some of them pay: bounds belong to what they bound
    let rate = figures(&txid(&transactions[2])).0;
    let cases: [(String, Keeps); 5] = [
        (format!("minFeeRate: {rate}"), |found, _, rate| found >= rate),
        (format!("maxFeeRate: {rate}"), |found, _, rate| found <= rate),
        (format!("minFeeRate: {rate}, maxFeeRate: {rate}"), |found, _, rate| (rate..=rate).contains(&found)),
        ("minValue: 99500, maxValue: \"99700\"".to_owned(), |_, value, _| (99_500..=99_700).contains(&value)),
        (format!("minFeeRate: {rate}, maxValue: 99000"), |found, value, rate| found >= rate && value <= 99_000),
    ];
    for order in ORDERS {
        let whole = expected(&api, &transactions, order);
        for (filter, keeps) in &cases {
            let kept = whole.iter().filter(|of| {
                let (found, value) = figures(of);
                keeps(found, value, rate)
            });
            let kept: Vec<_> = kept.cloned().collect();
            assert!(!kept.is_empty() && kept.len() < whole.len(), "{filter}");
            let arguments = format!(", order: {order}, filter: {{ {filter} }}");
            assert_eq!(forwards(&api, 4, &arguments), kept, "{order} {filter}");
            assert_eq!(backwards(&api, 4, &arguments), kept, "{order} {filter}");
            assert_eq!(page(&api, &format!("first: 1{arguments}"))["totalCount"], Value::Null);
        }
    }
}

#[test]
fn a_filtered_page_reads_no_more_rows_than_allowed_and_says_where_it_ended() {
    let (chain, coins) = chain_with_coins(10);
    let limits = Limits { scan_rows: 3, ..Limits::default() };
    let mut api = Api::empty(Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    let transactions: Vec<_> = coins.iter().zip(1..).map(|(coin, fee)| paying(*coin, fee * 100)).collect();
    api.arrive(&transactions);
    // the one that is wanted arrived third of all
    let arguments = ", order: ARRIVAL, filter: { minValue: 99700, maxValue: 99700 }";
    let first = page(&api, &format!("first: 5{arguments}"));
    assert_eq!((rows(&first), &first["pageInfo"]["hasNextPage"]), (Vec::new(), &json!(true)));
    let second = page(&api, &format!("first: 5, after: {}{arguments}", first["pageInfo"]["endCursor"]));
    assert_eq!((rows(&second), &second["pageInfo"]["hasNextPage"]), (Vec::new(), &json!(true)));
    assert_eq!(forwards(&api, 5, arguments), [txid(&transactions[2])]);
    assert_eq!(backwards(&api, 5, arguments), [txid(&transactions[2])]);
    // in the order of what is asked about nothing behind the last that fits is read
    let dearest = page(&api, "first: 5, filter: { minFeeRate: 15 }");
    assert_eq!((rows(&dearest), &dearest["pageInfo"]["hasNextPage"]), (txids([&transactions[9]]), &json!(false)));
    // without a filter the limit does not count
    assert_eq!(rows(&page(&api, "first: 10")).len(), 10);
}

#[test]
fn a_projected_block_is_paged_in_the_order_in_which_it_is_filled() {
    let (chain, coins) = chain_with_coins(8);
    let mut api = Api::of_chain(&chain);
    let mut waiting: Vec<_> = [5, 9, 7].iter().zip(&coins).map(|(rate, coin)| paying(*coin, rate * VSIZE)).collect();
    waiting.extend([30_000, 20_000, 10_000].iter().zip(&coins[3..]).map(|(fee, coin)| large(*coin, *fee)));
    api.arrive(&waiting);
    let ask = |arguments: &str, api: &Api| {
        let page = "totalCount nodes { txid } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }";
        api.ask(&format!("{{ mempool {{ projectedBlocks {{ transactions{arguments} {{ {page} }} }} }} }}"))
    };
    let block = |answer: &Value, at: usize| answer["data"]["mempool"]["projectedBlocks"][at]["transactions"].clone();
    let nodes = |page: &Value| -> Vec<String> {
        page["nodes"].as_array().unwrap().iter().map(|node| node["txid"].as_str().unwrap().to_owned()).collect()
    };
    let answer = ask("", &api);
    let first = [&waiting[1], &waiting[2], &waiting[0], &waiting[3], &waiting[4]];
    assert_eq!(nodes(&block(&answer, 0)), txids(first));
    assert_eq!(block(&answer, 0)["totalCount"], json!(5));
    assert_eq!(nodes(&block(&answer, 1)), txids([&waiting[5]]));

    let two = block(&ask("(first: 2)", &api), 0);
    assert_eq!((nodes(&two), &two["pageInfo"]["hasNextPage"]), (txids(first[..2].iter().copied()), &json!(true)));
    let cursor = two["pageInfo"]["endCursor"].clone();
    let single = |arguments: &str, api: &Api| {
        api.ask(&format!(
            "{{ mempool {{ projectedBlocks(first: 1) {{ transactions({arguments}) {{ nodes {{ txid }} }} }} }} }}"
        ))
    };
    assert_eq!(
        nodes(&block(&single(&format!("after: {cursor}"), &api), 0)),
        txids([&waiting[0], &waiting[3], &waiting[4]])
    );
    assert_eq!(nodes(&block(&single(&format!("before: {cursor}"), &api), 0)), txids([&waiting[1]]));
    // a cursor of one block is none of another, and holds only while its transaction is in the block
    let response = ask(&format!("(after: {cursor})"), &api);
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
    let cursor = block(&ask("(last: 1)", &api), 0)["pageInfo"]["endCursor"].clone();
    api.arrive([&large(coins[6], 50_000)]);
    let response = single(&format!("after: {cursor}"), &api);
    let moved = json!({ "code": "CURSOR_ORPHANED", "state": "MEMPOOL", "block": null });
    assert_eq!(response["errors"][0]["extensions"], moved);
}
