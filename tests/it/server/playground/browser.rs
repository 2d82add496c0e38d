//! Its pages in a headless Chromium, on a server that follows a real node. tests/web/playground.js is the visitor; this
//! mines when it asks for a block, and judges what it saw.
//!
//! With `PLAYGROUND_PICTURES` set to a folder the visitor leaves pictures there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bitcoin::BlockHash;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::skips::{current_test, skip};
use crate::support::test_process::TestProcess;

/// What the visitor says, line by line.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// It needs a block, and waits for its hash.
    Mine,
    Asked(Asked),
    Seen(Seen),
}

/// An example as a page shows it.
#[derive(Deserialize)]
struct Asked {
    query: String,
    variables: Value,
    answer: Value,
}

/// What it saw, as the head of its file says.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Seen {
    title: String,
    marked: Vec<String>,
    completions: Vec<String>,
    live: Vec<BlockHash>,
    themes: Value,
    complaints: Vec<String>,
    elsewhere: Vec<String>,
}

/// The browser to visit with; `None`, which is recorded, where there is none.
#[track_caller]
pub(super) fn browser() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web/node_modules/playwright-core");
    if !installed.is_dir() {
        skip(&current_test(), "no playwright-core: run scripts/npm.sh --install-node tests/web");
        return None;
    }
    let given = std::env::var_os("CHROMIUM_EXE").map(PathBuf::from);
    let found = given.or_else(|| {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join("chromium")).find(|candidate| candidate.is_file())
    });
    if found.is_none() {
        skip(&current_test(), "no browser: set CHROMIUM_EXE or put chromium into PATH");
    }
    found
}

/// A node with a chain that pays to addresses and spends from them, and a server with these variables that follows it; `None`,
/// which is recorded, where there is no node.
#[track_caller]
pub(super) fn chain(directory: &Path, variables: &[(&str, &str)]) -> Option<(RealNode, TestProcess)> {
    let node = RealNode::start(&[])?;
    let address = node.wallet_address("bech32");
    node.mine_to(&address, 101);
    node.must("sendtoaddress", &[json!(node.wallet_address("bech32m")), json!(1.5)]);
    node.mine_to(&address, 1);
    let served = TestProcess::start_with(&node, directory, variables);
    wait_for("the server to be in sync", Duration::from_secs(30), || {
        let sync = served.query("{ sync { indexedHeight isReady } }");
        (sync["data"]["sync"] == json!({ "indexedHeight": 102, "isReady": true })).then_some(())
    });
    Some((node, served))
}

/// Visits a page and holds it to what both pages promise.
fn visit(browser: &Path, page: &str, node: &RealNode, served: &TestProcess) -> Seen {
    let mut visitor = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web/playground.js"))
        .arg(browser)
        .args([&format!("http://{}", served.address), page])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut mined, mut asked, mut seen) = (Vec::new(), Vec::new(), None);
    let mut hashes = visitor.stdin.take().unwrap();
    for line in BufReader::new(visitor.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Line::Mine => {
                mined.extend(node.mine(1));
                writeln!(hashes, "{}", mined[mined.len() - 1]).unwrap();
            }
            Line::Asked(Asked { query, variables, answer }) => {
                assert_eq!(answer, served.query_with(&query, &variables), "{query}");
                asked.push(answer["data"].clone());
            }
            Line::Seen(all) => seen = Some(all),
        }
    }
    assert!(visitor.wait().unwrap().success(), "the visitor failed");

    let [tip, block, address] = asked.as_slice() else { panic!("{} examples", asked.len()) };
    assert_eq!(tip["tip"]["hash"], node.must("getblockhash", &[json!(102)]));
    assert_eq!(block["block"]["hash"], tip["tip"]["hash"]);
    assert!(address["address"]["transactions"]["totalCount"].as_u64() > Some(0), "{address}");

    let seen: Seen = seen.expect("the visitor says what it saw");
    let reported: BTreeSet<_> = seen.live.iter().collect();
    assert!(reported.len() == 2 && reported.iter().all(|hash| mined.contains(hash)), "{reported:?} of {mined:?}");
    seen
}

/// A page that has nothing to complain of, loads nothing from elsewhere, and looks as the system or its reader likes.
fn sound(title: &str, completions: &[&str], live: &[BlockHash]) -> Seen {
    let theme = |system| json!({ "system": system, "light": "light", "dark": "dark" });
    Seen {
        title: title.to_owned(),
        marked: Vec::new(),
        completions: completions.iter().map(|&name| name.to_owned()).collect(),
        live: live.to_vec(),
        themes: json!({ "light": theme("light"), "dark": theme("dark") }),
        complaints: Vec::new(),
        elsewhere: Vec::new(),
    }
}

#[test]
fn graphiql_completes_fields_shows_answers_and_new_blocks() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some((node, served)) = chain(directory.path(), &[]) else { return };
    if served.get("/playground") == served.get("/playground/plain") {
        return skip(&current_test(), "no GraphiQL in this program: run scripts/playground.sh and build it again");
    }
    let seen = visit(&browser, "graphiql", &node, &served);
    assert_eq!(seen, sound("btcgraph playground", &["strippedSize"], &seen.live));
}

#[test]
fn the_plain_page_shows_answers_and_new_blocks() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some((node, served)) = chain(directory.path(), &[]) else { return };
    let seen = visit(&browser, "plain", &node, &served);
    assert_eq!(seen, sound("btcgraph", &[], &seen.live));
}
