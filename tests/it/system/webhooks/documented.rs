//! The page of webhooks is true: its defaults, its example of a message, and its programs that verify one.

use std::io::Write;
use std::process::{Command, Stdio};

use btcgraph::webhooks::HookWatch;
use serde_json::Value;

use super::receiver::{Reaction, Receiver, SECRET};
use super::stage::{Stage, hook, scripts};
use crate::support::skips::skip;

const PAGE: &str = include_str!("../../../../docs/webhooks.md");

/// The first block of code in this language.
fn code(language: &str) -> &str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("a block of code");
    rest.split_once("```\n").expect("its end").0
}

/// All words of a text, however it is broken into lines.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn the_default_fields_are_those_of_the_page() {
    for watch in [HookWatch::Blocks, scripts(&[], &[], &[])] {
        let fields = words(watch.default_fields()).join(" ");
        assert!(words(PAGE).join(" ").contains(&fields), "docs/webhooks.md does not have: {fields}");
    }
}

/// The example `fields = "…"` of the page, which is for blocks.
#[test]
fn the_fields_of_the_page_are_fields_of_the_schema() {
    let examples: Vec<_> = PAGE.split("fields = \"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
    assert_eq!(examples.len(), 1, "{examples:?}");
    for fields in examples {
        let mut stage = Stage::with_blocks(1);
        let receiver = Receiver::start(Reaction::Accept);
        let mut blocks = hook("shop", &receiver.url(), HookWatch::Blocks);
        blocks.fields = Some(fields.to_owned());
        let _running = stage.deliver(vec![blocks]);
        stage.mine(1);
        let sent = receiver.wait_for(1)[0].json();
        let block = &sent["data"]["block"];
        assert_eq!((&sent["errors"], &block["totalFees"]), (&Value::Null, &Value::from(0)), "{sent}");
        assert!(block["hash"].as_str().is_some_and(|hash| hash.len() == 64), "{sent}");
        assert_eq!(block.as_object().unwrap().len(), 2, "{sent}");
    }
}

#[test]
fn the_message_of_the_page_has_the_fields_of_a_message() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Accept);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(1);
    let sent = receiver.wait_for(1)[0].json();
    let documented: Value = serde_json::from_str(code("json")).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&sent));
    assert_eq!(names(&documented["data"]), names(&sent["data"]));
    assert_eq!(names(&documented["data"]["block"]), names(&sent["data"]["block"]));
    assert_eq!(documented["type"], sent["type"]);
}

/// Lets a program of the page verify a message: it reads id, time, signatures and body from its standard input, a line each.
fn verified_by(program: &str, extension: &str, lines: &[&str]) -> Option<bool> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("verify.{extension}"));
    let (language, call) = match program {
        "node" => ("js", NODE_CALL),
        _ => ("python", PYTHON_CALL),
    };
    std::fs::write(&path, format!("{}\n{call}", code(language))).unwrap();
    let mut command = Command::new(program);
    command.arg(&path).env("WEBHOOK_SECRET", SECRET).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} fails");
    match String::from_utf8(output.stdout).unwrap().trim() {
        "true" => Some(true),
        "false" => Some(false),
        other => panic!("{program} prints {other}"),
    }
}

const NODE_CALL: &str = r#"
const [id, time, signatures, body] = require("node:fs").readFileSync(0, "utf8").split("\n");
console.log(verify(process.env.WEBHOOK_SECRET, id, time, signatures, body));
"#;
const PYTHON_CALL: &str = r#"
import os, sys
id, time_, signatures, body = sys.stdin.buffer.read().split(b"\n")
print(str(verify(os.environ["WEBHOOK_SECRET"], id.decode(), time_.decode(), signatures.decode(), body)).lower())
"#;

#[test]
fn the_programs_of_the_page_verify_messages() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Accept);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(1);
    let message = receiver.wait_for(1).remove(0);
    let (id, time) = (message.id.as_str(), message.header("webhook-timestamp"));
    let signature = message.header("webhook-signature");
    let several = format!("v1,AAAA {signature}");
    let changed = message.body.replace("connected", "confected");
    let old = (time.parse::<u64>().unwrap() - 3_600).to_string();
    for (program, extension) in [("node", "js"), ("python3", "py")] {
        for (lines, expected) in [
            ([id, time, signature, &message.body], true),
            ([id, time, &several, &message.body], true),
            ([id, time, signature, &changed], false),
            (["msg_1", time, signature, &message.body], false),
            ([id, &old, signature, &message.body], false),
            ([id, time, "v1,AAAA", &message.body], false),
            ([id, time, "", &message.body], false),
        ] {
            match verified_by(program, extension, &lines) {
                None => {
                    skip("webhooks::documented::the_programs_of_the_page_verify_messages", &format!("no {program}"));
                }
                Some(verified) => assert_eq!(verified, expected, "{program}: {lines:?}"),
            }
        }
    }
}
