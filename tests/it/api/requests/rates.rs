//! Rates: what amounts are worth by the table of the operator, which may change while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use btcgraph::api::Schema;
use btcgraph::outbound::{Fetch, FetchLimits, Target};
use btcgraph::rates::{FetchPauses, RateTable, Rates, changed_at, follow_file, follow_url};
use btcgraph::sim::{Owner, ScriptKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, response_json, sat, spend};

const OWNER: Owner = Owner::new(ScriptKind::BareTrue, 1);
const PAID: Owner = Owner::new(ScriptKind::P2wpkh, 9);
const ALWAYS: Duration = Duration::from_secs(u64::MAX);

fn table(text: &str) -> RateTable {
    text.parse().unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn without_a_table_each_field_of_rates_is_disabled() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let script = OWNER.script_pubkey().to_hex_string();
    for document in [
        "{ rate(currency: \"EUR\") { price } }".to_owned(),
        "{ currencies }".to_owned(),
        format!("{{ script(scriptPubKey: \"{script}\") {{ balance {{ value(currency: \"EUR\") {{ amount }} }} }} }}"),
        format!(
            "{{ script(scriptPubKey: \"{script}\") {{
                transactions(first: 1) {{ nodes {{ value(currency: \"EUR\") {{ amount }} }} }} }} }}"
        ),
    ] {
        let error = api.ask(&document)["errors"][0].take();
        let expected = json!({ "code": "FEATURE_DISABLED", "feature": "RATES", "setting": "rates.file or rates.url" });
        assert_eq!(error["extensions"], expected, "{document}");
    }
    assert!(!has_rates(&api));
}

fn has_rates(api: &Api) -> bool {
    let features = api.data("{ server { features { name enabled } } }");
    let features = features["server"]["features"].as_array().unwrap();
    let found = features.iter().find(|feature| feature["name"] == "RATES").unwrap();
    found["enabled"].as_bool().unwrap()
}

#[test]
fn a_rate_is_the_newest_until_a_time() {
    let (chain, _) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let newest = now() - 100;
    let text = format!("1000,EUR,50000\n2000,EUR,60000.25\n1500,USD,1\n{newest},EUR,70000\n");
    api.serve_rates(Rates::new(table(&text), Duration::from_secs(500)));
    assert!(has_rates(&api));
    assert_eq!(api.data("{ currencies }"), json!({ "currencies": ["EUR", "USD"] }));
    let rate = |currency: &str, at: &str| {
        let document = format!("{{ rate(currency: \"{currency}\", at: {at}) {{ currency price quotedAt }} }}");
        api.data(&document)["rate"].take()
    };
    let at = |seconds: u32| format!("\"1970-01-01T00:{:02}:{:02}Z\"", seconds / 60, seconds % 60);
    let eur = |price: &str, at: &str| json!({ "currency": "EUR", "price": price, "quotedAt": at });
    for (time, expected) in [
        (999, Value::Null),
        (1_000, eur("50000.00", "1970-01-01T00:16:40Z")),
        (1_500, eur("50000.00", "1970-01-01T00:16:40Z")),
        // older than it may be
        (1_501, Value::Null),
        (2_000, eur("60000.25", "1970-01-01T00:33:20Z")),
    ] {
        assert_eq!(rate("EUR", &at(time)), expected, "{time}");
    }
    let present = api.data("{ rate(currency: \"EUR\") { price } }");
    assert_eq!(present["rate"], json!({ "price": "70000.00" }));
    assert_eq!(api.data("{ rate(currency: \"USD\") { price } }"), json!({ "rate": null }), "it is too old");
    for currency in ["CHF", "eur", ""] {
        let error = api.ask(&format!("{{ rate(currency: \"{currency}\") {{ price }} }}"))["errors"][0].take();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{error}");
        assert!(message.ends_with("there are only rates of EUR, USD"), "{message}");
    }
}

#[test]
fn amounts_are_worth_what_the_rate_of_their_time_says() {
    let (mut chain, coins) = chain_with_coins(2);
    let received = spend(&chain, OWNER, &coins[..1], vec![PAID.output(sat(60_000))]);
    let (confirmed, _) = (chain.mine(vec![received.clone()]).unwrap(), chain.mine_empty(3).unwrap());
    let mut api = Api::of_chain(&chain);
    let unconfirmed = spend(&chain, OWNER, &coins[1..], vec![PAID.output(sat(12_345))]);
    api.arrive([&unconfirmed]);
    let time = chain.median_time_past(&confirmed.block_hash()).unwrap();
    let present = now() - 10;
    // another rate begins a second behind the block
    let text = format!("{time},EUR,20000\n{},EUR,30000\n{present},EUR,65000.5\n", time + 1);
    api.serve_rates(Rates::new(table(&text), ALWAYS));
    let height = chain.active_blocks().count() - 4;
    let found = api.data(&format!(
        "{{ script(scriptPubKey: \"{}\") {{
            now: balance {{ total value(currency: \"EUR\") {{ amount rate {{ price }} }} }}
            then: balance(at: {{ height: {height} }}) {{ total value(currency: \"EUR\") {{ amount rate {{ price }} }} }}
            before: balance(at: {{ height: {} }}) {{ total value(currency: \"EUR\") {{ amount }} }}
            transactions(first: 5) {{ nodes {{ net value(currency: \"EUR\") {{ amount rate {{ price }} }} }} }}
        }} }}",
        PAID.script_pubkey().to_hex_string(),
        height - 1
    ));
    let value = |amount: &str, price: &str| json!({ "amount": amount, "rate": { "price": price } });
    assert_eq!(
        found["script"],
        json!({
            // 72,345 sat
            "now": { "total": 72_345, "value": value("47.02461173", "65000.50") },
            "then": { "total": 60_000, "value": value("12.00", "20000.00") },
            "before": { "total": 0, "value": null },
            "transactions": { "nodes": [
                { "net": 12_345, "value": value("8.02431173", "65000.50") },
                { "net": 60_000, "value": value("12.00", "20000.00") },
            ] },
        })
    );
    let sent = api.data(&format!(
        "{{ script(scriptPubKey: \"{}\") {{ transactions(first: 2) {{ nodes {{ net value(currency: \"EUR\") {{ amount }} }} }} }} }}",
        OWNER.script_pubkey().to_hex_string()
    ));
    // what is spent is worth less than nothing
    let expected = json!([
        { "net": -100_000, "value": { "amount": "-65.0005" } },
        { "net": -100_000, "value": { "amount": "-20.00" } },
    ]);
    assert_eq!(sent["script"]["transactions"]["nodes"], expected);
}

/// The price of now, and the currencies.
async fn price(schema: &Schema) -> (Value, Value) {
    let document = "{ currencies rate(currency: \"EUR\") { price } }";
    let mut answer = response_json(async_graphql::Executor::execute(schema, document.into()).await);
    (answer["data"]["rate"]["price"].take(), answer["data"]["currencies"].take())
}

async fn becomes(schema: &Schema, expected: &str) {
    let changed = async {
        while price(schema).await.0 != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), changed).await.unwrap_or_else(|_| panic!("no price {expected}"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_read_again_unless_it_is_no_table() {
    let (chain, _) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let directory = tempfile::tempdir().unwrap();
    let (file, new) = (directory.path().join("rates.csv"), directory.path().join("new.csv"));
    let write = |text: &str, second: u64| {
        std::fs::write(&new, text).unwrap();
        // two changes within the resolution of the file system look like one
        let changed = UNIX_EPOCH + Duration::from_secs(second);
        std::fs::File::options().append(true).open(&new).unwrap().set_modified(changed).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    write("1,EUR,1\n", 1_000);
    let rates = Rates::new(RateTable::read(&file).unwrap(), ALWAYS);
    api.serve_rates(rates.clone());
    let following = tokio::spawn(follow_file(rates, file.clone(), changed_at(&file), Duration::from_millis(5)));
    assert_eq!(price(&api.schema).await, (json!("1.00"), json!(["EUR"])));
    write("1,EUR,2\n1,USD,3\n", 2_000);
    becomes(&api.schema, "2.00").await;
    assert_eq!(price(&api.schema).await.1, json!(["EUR", "USD"]));
    write("no table", 3_000);
    tokio::time::sleep(Duration::from_millis(100)).await;
    std::fs::remove_file(&file).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(price(&api.schema).await, (json!("2.00"), json!(["EUR", "USD"])), "the last table stays");
    write("1,EUR,4\n", 4_000);
    becomes(&api.schema, "4.00").await;
    following.abort();
}

/// A host that answers each request with the next of these responses, and the last again and again; and how many it answered.
async fn host(responses: Vec<String>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, answered) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = answered.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut buffer = [0; 1_024];
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the head of a request");
                request.extend(&buffer[..read]);
            }
            let text = String::from_utf8(request).unwrap();
            assert!(text.starts_with("GET /rates.csv?key=secret HTTP/1.1\r\n"), "{text}");
            assert!(text.contains(&format!("host: {address}\r\n")), "{text}");
            let number = count.load(Ordering::Relaxed).min(responses.len() - 1);
            let _ = stream.write_all(responses[number].as_bytes()).await;
            count.fetch_add(1, Ordering::Relaxed);
            if responses[number].is_empty() {
                // it neither answers nor ends
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_mins(1)).await;
                    drop(stream);
                });
            }
        }
    });
    (format!("http://{address}/rates.csv?key=secret"), answered)
}

fn source(url: &str, allow_private: bool) -> Fetch {
    let limits =
        FetchLimits { body_bytes: 100, connect_timeout: Duration::from_secs(5), timeout: Duration::from_millis(200) };
    Fetch::new(Target::parse(url).unwrap(), allow_private, None, limits)
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_table_from_a_url_stays_until_there_is_another() {
    let (chain, _) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let (elsewhere, reached) = host(vec![response("200 OK", "1,EUR,999\n")]).await;
    let failures = [
        response("500 Internal Server Error", ""),
        response("204 No Content", ""),
        format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n"),
        response("200 OK", "no table"),
        response("200 OK", &"1,EUR,8\n".repeat(20)),
        "HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"1,EUR,8\n".repeat(20),
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n1,EUR,8\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        String::new(),
    ];
    let mut responses = failures.to_vec();
    responses.push(response("200 OK", "1,EUR,1\n"));
    responses.extend(failures);
    responses.push(response("200 OK", "1,USD,3\n1,EUR,2\n"));
    let (first_table, last) = (responses.len() / 2, responses.len());
    let (url, answered) = host(responses).await;

    let rates = Rates::new(RateTable::default(), ALWAYS);
    api.serve_rates(rates.clone());
    assert_eq!(price(&api.schema).await, (Value::Null, json!([])), "there is no table yet");
    let pauses = FetchPauses { refresh: Duration::from_millis(20), retry: Duration::from_millis(20) };
    let following = tokio::spawn(follow_url(rates, source(&url, true), pauses));
    becomes(&api.schema, "1.00").await;
    assert!(answered.load(Ordering::Relaxed) >= first_table);
    // whatever else comes in between
    loop {
        let (price, currencies) = price(&api.schema).await;
        if answered.load(Ordering::Relaxed) + 1 >= last {
            break;
        }
        assert_eq!((price, currencies), (json!("1.00"), json!(["EUR"])));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    becomes(&api.schema, "2.00").await;
    assert_eq!(price(&api.schema).await.1, json!(["EUR", "USD"]));
    assert_eq!(reached.load(Ordering::Relaxed), 0, "the redirect is not followed");
    following.abort();
}

#[tokio::test]
async fn messages_about_a_url_have_no_secret() {
    let (too_large, _) = host(vec![response("200 OK", &"x".repeat(101))]).await;
    let (fits, _) = host(vec![response("200 OK", &"x".repeat(100))]).await;
    assert_eq!(source(&fits, true).text().await.unwrap().len(), 100);
    for (url, allow_private, message) in [
        (too_large, true, "the response has more than 100 bytes"),
        (fits, false, "127.0.0.1 is a private address: set allow_private to connect to it"),
    ] {
        let source = source(&url, allow_private);
        assert_eq!(source.text().await.unwrap_err().to_string(), message);
        assert!(!source.target().to_string().contains("secret"), "{}", source.target());
    }
}
