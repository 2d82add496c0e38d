//! Names in place of what differs from run to run, so that an answer can be compared as a whole.
//!
//! Values get names when they come up: `$block103`, `$tx.pay`, `$address.alice`. In answers each named value is
//! replaced by its name wherever it stands, in ids and messages too; cursors are named as they are met; times are
//! counted from the start of the scenario. What has no name but differs from run to run is covered by [`PLACEHOLDERS`].
//! Anything else that looks like a hash or an address is an error, so that it does not slip into a snapshot.

use std::collections::BTreeMap;

use async_graphql::Value;

/// When every scenario begins, in seconds since 1970.
pub(crate) const START: i64 = 1_700_000_000;

/// Fields whose values are replaced as a whole, unless they have a name: what a miner's search or a node's version
/// decides, or what is made of hashes that are.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("merkleBranch", "<hash>"),
    ("headerHex", "<header>"),
    ("hex", "<bytes>"),
    ("merkleRoot", "<merkle root>"),
    ("nonce", "<nonce>"),
    ("rawHex", "<bytes>"),
    ("root", "<merkle root>"),
];

/// Fields whose values stay as they are as long as nothing in them looks like a hash that we do not know.
const SCRIPTS: &[(&str, &str)] = &[
    ("asm", "<asm>"),
    ("payload", "<data>"),
    ("pushes", "<data>"),
    ("scriptPubKey", "<script>"),
    ("scriptSigHex", "<script>"),
    ("witness", "<witness>"),
];

/// Fields with a number of 256 bits, which has as many digits as a hash.
const NUMBERS: &[&str] = &["chainwork", "target"];

/// Fields with a moment as seconds since 1970.
const SECONDS: &[&str] = &["timestamp"];

/// Fields with a cursor.
const CURSORS: &[&str] = &["cursor", "endCursor", "startCursor"];

/// So many hexadecimal digits in a row are a hash, of 20 bytes at least.
const DIGITS_OF_A_HASH: usize = 40;

/// The names of one scenario.
#[derive(Default)]
pub(crate) struct Names {
    by_value: BTreeMap<String, String>,
    by_name: BTreeMap<String, String>,
    cursors: usize,
    /// The text of the scenario: what stands there is the same in each run.
    constant: String,
}

impl Names {
    pub(crate) fn new(scenario: &str) -> Self {
        Self { constant: scenario.to_owned(), ..Self::default() }
    }

    /// Gives a value its name, with its `$`. A value that has one keeps it.
    pub(crate) fn give(&mut self, value: &str, name: &str) {
        if !self.by_value.contains_key(value) {
            self.by_value.insert(value.to_owned(), name.to_owned());
            let before = self.by_name.insert(name.to_owned(), value.to_owned());
            assert_eq!(before, None, "two values are named {name}");
        }
    }

    /// Gives a script, in hexadecimal digits, its name, and accepts its content as the same in each run. Short ones
    /// stand for themselves: their digits would be found by chance in other values, too.
    pub(crate) fn give_script(&mut self, script: &str, name: &str) {
        self.allow(script);
        if script.len() >= DIGITS_OF_A_HASH {
            self.give(script, name);
        }
    }

    /// Takes this text, and every part of it, for the same in each run.
    pub(crate) fn allow(&mut self, text: &str) {
        self.constant.push('\n');
        self.constant.push_str(text);
    }

    /// Whether a name is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// A document with values in place of names. Errors: the first name that is not given. What cannot be a name here
    /// stays: GraphQL's variables have the same sign.
    pub(crate) fn expand(&self, document: &str) -> Result<String, String> {
        let mut expanded = String::new();
        let mut parts = document.split('$');
        expanded.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
            let end = part.bytes().position(|byte| !is_of_name(byte)).unwrap_or(part.len());
            let name = format!("${}", &part[..end]);
            match self.by_name.get(&name) {
                Some(value) => expanded.push_str(value),
                None if is_ours(&name) => return Err(format!("nothing is named {name}")),
                None => expanded.push_str(&name),
            }
            expanded.push_str(&part[end..]);
        }
        Ok(expanded)
    }

    /// Puts names into an answer. Errors: the path and value of what has none.
    pub(crate) fn redact(&mut self, answer: &mut Value) -> Result<(), String> {
        self.redact_below(answer, "", "")
    }

    fn redact_below(&mut self, value: &mut Value, field: &str, path: &str) -> Result<(), String> {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.redact_below(value, name, &format!("{path}/{name}"))?;
                }
            }
            Value::List(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.redact_below(item, field, &format!("{path}/{index}"))?;
                }
            }
            Value::String(text) => {
                *text = self.redacted(text, field).map_err(|what| format!("{what} at {path}"))?;
            }
            Value::Number(number) => {
                let placeholder = PLACEHOLDERS.iter().find(|(name, _)| *name == field);
                if let Some((_, placeholder)) = placeholder {
                    *value = Value::from(*placeholder);
                } else if let Some(seconds) = number.as_i64().filter(|_| SECONDS.contains(&field)) {
                    *value = Value::from(offset(seconds));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn redacted(&mut self, text: &str, field: &str) -> Result<String, String> {
        if CURSORS.contains(&field) && !self.by_value.contains_key(text) {
            self.cursors += 1;
            let name = format!("$cursor{}", self.cursors);
            self.give(text, &name);
        }
        if let Some(name) = self.by_value.get(text) {
            return Ok(name.clone());
        }
        if let Some((_, placeholder)) = PLACEHOLDERS.iter().find(|(name, _)| *name == field && !text.is_empty()) {
            return Ok((*placeholder).to_owned());
        }
        if NUMBERS.contains(&field) {
            return Ok(text.to_owned());
        }
        if let Some(moment) = moment(text) {
            return Ok(offset(moment));
        }
        let mut named = text.to_owned();
        for (value, name) in &self.by_value {
            if named.contains(value.as_str()) {
                named = named.replace(value.as_str(), name);
            }
        }
        let Some(unnamed) = suspicious(&named).find(|word| !self.constant.contains(word)) else { return Ok(named) };
        match SCRIPTS.iter().find(|(name, _)| *name == field) {
            Some((_, placeholder)) => Ok((*placeholder).to_owned()),
            None => Err(format!("{unnamed} has no name")),
        }
    }
}

/// Whether this is how we name things.
fn is_ours(name: &str) -> bool {
    let numbered =
        |kind: &str| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.contains('.') || numbered("$block") || numbered("$cursor")
}

/// The words that look like a hash or an address of regtest.
fn suspicious(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| {
        let hex = word.len() >= DIGITS_OF_A_HASH && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex || word.starts_with("bcrt1")
    })
}

/// Seconds since 1970, if the text is a moment as our DateTime writes it.
fn moment(text: &str) -> Option<i64> {
    let looks_like_it = text.len() == "2009-01-03T18:15:05Z".len() && text.ends_with('Z');
    looks_like_it.then(|| text.parse::<jiff::Timestamp>().ok()).flatten().map(jiff::Timestamp::as_second)
}

/// A moment by its distance from the start.
fn offset(moment: i64) -> String {
    format!("$start{:+}s", moment - START)
}

fn redact(names: &mut Names, answer: serde_json::Value) -> Result<serde_json::Value, String> {
    let mut answer = Value::from_json(answer).unwrap();
    names.redact(&mut answer).map(|()| answer.into_json().unwrap())
}

#[test]
fn named_values_are_replaced_wherever_they_stand() {
    let (hash, txid) = ("ab".repeat(32), "cd".repeat(32));
    let mut names = Names::new("");
    names.give(&hash, "$block1");
    names.give(&txid, "$tx.pay");
    names.give("bcrt1qalice", "$address.alice");
    names.give(&txid, "$wtxid.pay");
    let answer = serde_json::json!({
        "id": format!("Block:{hash}"),
        "outputs": [{ "outpoint": format!("{txid}:0"), "address": "bcrt1qalice", "scriptPubKey": "ef".repeat(34), "value": 7 }],
        "message": format!("{hash} is not {txid}"),
        "edges": [{ "cursor": "AAA" }, { "cursor": "BBB" }],
        "pageInfo": { "startCursor": "AAA", "endCursor": "BBB" },
        "time": "2023-11-14T22:23:20Z",
        "timestamp": 1_699_999_999,
        "nonce": 3,
        "witness": ["00", "ef".repeat(64)],
        "chainwork": "ef".repeat(32),
    });
    let expected = serde_json::json!({
        "id": "Block:$block1",
        "outputs": [{ "outpoint": "$tx.pay:0", "address": "$address.alice", "scriptPubKey": "<script>", "value": 7 }],
        "message": "$block1 is not $tx.pay",
        "edges": [{ "cursor": "$cursor1" }, { "cursor": "$cursor2" }],
        "pageInfo": { "startCursor": "$cursor1", "endCursor": "$cursor2" },
        "time": "$start+600s",
        "timestamp": "$start-1s",
        "nonce": "<nonce>",
        "witness": ["00", "<witness>"],
        "chainwork": "ef".repeat(32),
    });
    assert_eq!(redact(&mut names, answer), Ok(expected));
}

#[test]
fn hashes_and_addresses_without_a_name_are_refused() {
    let known = "11".repeat(32);
    let mut names = Names::new(&format!("query it\n  {{ block(hash: \"{known}\") {{ id }} }}"));
    for (value, refused) in [
        ("ef".repeat(32), true),
        (format!("Block:{}", "EF".repeat(32)), true),
        ("ef".repeat(20), true),
        (format!("{}:0 is spent", "ef".repeat(32)), true),
        ("to bcrt1pbob".to_owned(), true),
        (format!("no block {known}"), false),
        ("5000000000".to_owned(), false),
        ("a block".to_owned(), false),
    ] {
        let result = redact(&mut names, serde_json::json!({ "a": [{ "b": value }] }));
        assert_eq!(result.is_err(), refused, "{result:?}");
        assert!(!refused || result.is_err_and(|error| error.ends_with(" has no name at /a/0/b")));
    }
}

#[test]
fn documents_name_what_is_known_and_keep_their_variables() {
    let mut names = Names::default();
    names.give("1234", "$tx.pay");
    names.give("xyz", "$cursor1");
    let document = "query ($n: Int) { a(first: $n, after: \"$cursor1\", txid: \"$tx.pay\", id: \"Output:$tx.pay:0\") }";
    let expected = "query ($n: Int) { a(first: $n, after: \"xyz\", txid: \"1234\", id: \"Output:1234:0\") }";
    assert_eq!(names.expand(document).as_deref(), Ok(expected));
    for unknown in ["$tx.other", "$block7", "$cursor2", "$address.pay"] {
        assert_eq!(names.expand(&format!("{{ a(b: \"{unknown}\") }}")), Err(format!("nothing is named {unknown}")));
    }
}

#[test]
fn scripts_of_the_test_are_shown_and_random_ones_are_not() {
    let (key, other) = ("ab".repeat(32), "cd".repeat(32));
    let mut names = Names::new("");
    names.give_script(&format!("5120{key}"), "$script.alice");
    names.give_script("51024e73", "$script.anchor");
    names.allow("68656c6c6f");
    let scripts = |key: &str, alice: &str, other: &str| {
        serde_json::json!({
            "scripts": [{ "scriptPubKey": alice }, { "scriptPubKey": "51024e73" }, { "scriptPubKey": other }],
            "asm": format!("1 {key}"),
            "opReturn": { "pushes": ["68656c6c6f"], "payload": "0568656c6c6f" },
            "hex": "",
        })
    };
    let answer = scripts(&key, &format!("5120{key}"), &format!("5120{other}"));
    assert_eq!(redact(&mut names, answer), Ok(scripts(&key, "$script.alice", "<script>")));
    assert_eq!(redact(&mut names, serde_json::json!({ "asm": other })), Ok(serde_json::json!({ "asm": "<asm>" })));
}
