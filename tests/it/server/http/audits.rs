use btcgraph::server::Options;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::serve;
use crate::support::skips::{current_test, skip};

#[test]
fn all_audits_of_graphql_over_http_are_ok() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    if !folder.join("node_modules/graphql-http").is_dir() {
        return skip(&current_test(), "no graphql-http: run scripts/npm.sh --install-node tests/web");
    }
    let served = serve(Options::default());
    let output = Command::new("node").arg(folder.join("audits.js")).arg(served.url()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report, json!({ "audits": 61, "failures": [] }), "{report:#}");
}
