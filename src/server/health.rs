//! Whether the process lives, and whether it answers for the node's tip. For supervisors, not for people.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::api::Schema;
use crate::server::draining::Draining;

/// What `/health/ready` compares.
pub(crate) struct Health {
    pub(crate) schema: Schema,
    /// How many blocks the index may be behind the node.
    pub(crate) ready_blocks: u32,
    /// Whether it is shown as not ready all the same.
    pub(crate) draining: Draining,
}

/// 200 as long as the process can answer at all.
pub(crate) async fn live() -> impl IntoResponse {
    Json(serde_json::json!({ "live": true }))
}

/// 200 if the index is at the node's tip or few enough blocks behind it and the server does not drain, else 503; with the
/// distance either way.
pub(crate) async fn ready(State(health): State<Arc<Health>>) -> impl IntoResponse {
    let readiness = health.schema.readiness();
    let is_draining = health.draining.is_set();
    let is_ready = readiness.is_within(health.ready_blocks) && !is_draining;
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({
        "ready": is_ready,
        "draining": is_draining,
        "indexedHeight": readiness.indexed_height(),
        "nodeHeight": readiness.node_height,
        "blocksBehind": readiness.blocks_behind(),
        "secondsSinceNode": readiness.silence.map(|silence| silence.as_secs()),
        "secondsMempoolBehind": readiness.mempool_behind.map(|since| since.as_secs()),
        "diskShortage": readiness.disk_shortage.map(|shortage| {
            serde_json::json!({ "neededBytes": shortage.needed_bytes, "freeBytes": shortage.free_bytes })
        }),
    });
    (status, Json(body))
}
