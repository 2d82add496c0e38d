use std::time::Duration;

use bitcoin::hashes::Hash;

use super::*;
use crate::index::Unfetched;
use crate::view::IndexingSpeed;

fn on_the_wire(error: ApiError) -> serde_json::Value {
    serde_json::to_value(ServerError::from(error)).unwrap()
}

#[test]
fn every_error_has_its_code_and_details() {
    for (error, expected) in [
        (
            ApiError::bad_user_input("no"),
            serde_json::json!({ "message": "no", "extensions": { "code": "BAD_USER_INPUT" } }),
        ),
        (
            ApiError::bad_argument("of.addresses[1]", "is \"x\", which is none").at(Some(3)),
            serde_json::json!({
                "message": "of.addresses[1] is \"x\", which is none",
                "extensions": { "code": "BAD_USER_INPUT", "argument": "of.addresses[1]", "position": 3 },
            }),
        ),
        (
            ApiError::limit_exceeded("first", 100, 101),
            serde_json::json!({
                "message": "first is 101, and the limit is 100",
                "extensions": { "code": "QUERY_LIMIT_EXCEEDED", "which": "first", "limit": 100, "actual": 101 },
            }),
        ),
        (
            ApiError::not_ready(&SyncState {
                phase: crate::view::SyncPhase::CatchingUp,
                node_height: Some(7.into()),
                speed: Some(IndexingSpeed { blocks_per_second: 0.5, remaining: Duration::from_secs(14) }),
                ..SyncState::default()
            }),
            serde_json::json!({
                "message": "the index is not ready yet; retry later",
                "extensions": {
                    "code": "NOT_READY",
                    "phase": "CATCHING_UP",
                    "indexedHeight": null,
                    "nodeHeight": 7,
                    "blocksPerSecond": 0.5,
                    "etaSeconds": 14,
                },
            }),
        ),
        (
            ApiError::node_unavailable(&NodeClientError::NotConnected),
            serde_json::json!({
                "message": "the server has not reached its Bitcoin node yet",
                "extensions": { "code": "NODE_UNAVAILABLE" },
            }),
        ),
        (
            ApiError::node_unavailable(&NodeClientError::NoTemplates),
            serde_json::json!({
                "message": "this feature is disabled; the operator enables it with the setting server.block_template",
                "extensions": {
                    "code": "FEATURE_DISABLED",
                    "feature": "BLOCK_TEMPLATE",
                    "setting": "server.block_template",
                },
            }),
        ),
        (
            ApiError::cursor_orphaned(Some(170.into())),
            serde_json::json!({
                "message": "the block of this cursor is not on the main chain: \
                            the last common block is at height 170",
                "extensions": { "code": "CURSOR_ORPHANED", "forkHeight": 170 },
            }),
        ),
        (
            ApiError::cursor_lost(Tip { height: 7.into(), hash: BlockHash::all_zeros() }),
            serde_json::json!({
                "message": format!(
                    "the server lost block {} at height 7, the last one of this cursor, in a crash, and the node has \
                     not sent it again: subscribe again, and query what changed since",
                    "0".repeat(64)
                ),
                "extensions": { "code": "CURSOR_EXPIRED" },
            }),
        ),
        (
            ApiError::cursor_departed(Some(TxState::Replaced), None),
            serde_json::json!({
                "message": "the transaction of this cursor did not stay in the mempool: \
                            restart from the first page",
                "extensions": { "code": "CURSOR_ORPHANED", "state": "REPLACED", "block": null },
            }),
        ),
    ] {
        assert_eq!(on_the_wire(error), expected);
    }
}

#[test]
fn a_fault_of_the_index_is_masked_and_numbered() {
    let error = IndexError::Corrupt { table: "blocks", what: "a secret".to_owned() };
    let text = on_the_wire(error.into()).to_string();
    assert!(text.contains("INTERNAL_SERVER_ERROR") && text.contains("\"id\""), "{text}");
    assert!(!text.contains("secret") && !text.contains("blocks"), "{text}");
}

#[test]
fn bytes_that_the_node_does_not_provide_are_no_fault_of_the_server() {
    let hash = bitcoin::constants::genesis_block(bitcoin::Network::Regtest).block_hash();
    let error = IndexError::RawUnavailable { height: Height::from(7), hash, why: "http://node:8332".to_owned() };
    let message = format!(
        "the server reads the transactions of block {hash} at height 7 from its Bitcoin node, which did not provide them; \
         retry later"
    );
    let expected = serde_json::json!({ "message": message, "extensions": { "code": "NODE_UNAVAILABLE" } });
    assert_eq!(on_the_wire(error.into()), expected);
}

#[test]
fn a_part_of_the_index_that_cannot_be_fetched_is_no_fault_of_the_index() {
    let error = IndexError::Unfetched(Unfetched("http://store:9000".to_owned()));
    let message =
        "the server is still downloading its index, and could not fetch the part that this answer needs; retry later";
    let expected = serde_json::json!({ "message": message, "extensions": { "code": "NOT_READY" } });
    assert_eq!(on_the_wire(error.into()), expected);
}

#[test]
fn a_code_is_given_only_to_errors_without_one() {
    let mut error = ServerError::new("engine", None);
    set_code(&mut error, code::GRAPHQL_VALIDATION_FAILED);
    set_code(&mut error, code::BAD_USER_INPUT);
    assert_eq!(error.extensions.unwrap().get("code"), Some(&Value::from("GRAPHQL_VALIDATION_FAILED")));
}
