//! What settings must be beside what their types say.

use super::Settings;
use super::error::SettingsError;
use super::layers::Merged;
use super::values::ByteSize;

/// Refuses what no type refuses.
pub(super) fn check(settings: &Settings, merged: &Merged) -> Result<(), SettingsError> {
    let invalid = |setting: &str, reason: &str| Err(SettingsError::invalid(setting, &merged.origin(setting), reason));
    let (node, server) = (&settings.node, &settings.server);
    for (setting, is_zero) in [
        ("cache.depth", settings.cache.depth == 0),
        ("node.timeout_seconds", node.timeout_seconds == 0),
        ("node.connections", node.connections == 0),
        ("node.poll_seconds", node.poll_seconds == 0),
        ("server.max_body", server.max_body.to_bytes() == 0),
        ("server.max_message", server.max_message.to_bytes() == 0),
        ("server.max_query", server.max_query.to_bytes() == 0),
        ("server.max_tokens", server.max_tokens == 0),
        ("server.max_nesting", server.max_nesting == 0),
        ("server.max_depth", server.max_depth == 0),
        ("server.max_selections", server.max_selections == 0),
        ("server.max_root_fields", server.max_root_fields == 0),
        ("server.max_complexity", server.max_complexity == 0),
        ("server.max_page_size", server.max_page_size == 0),
        ("server.max_scan_rows", server.max_scan_rows == 0),
        ("server.max_ids", server.max_ids == 0),
        ("server.max_headers", server.max_headers == 0),
        ("server.max_points", server.max_points == 0),
        ("server.max_watch", server.max_watch == 0),
        ("server.ready_seconds", server.ready_seconds == 0),
        ("server.max_node_requests", server.max_node_requests == 0),
        ("server.max_executions", server.max_executions == 0),
        ("server.timeout_seconds", server.timeout_seconds == 0),
        ("server.node_timeout_seconds", server.node_timeout_seconds == 0),
        ("server.max_transaction_bytes", server.max_transaction_bytes.to_bytes() == 0),
        ("server.max_operations_per_socket", server.max_operations_per_socket == 0),
        ("server.max_sockets", server.max_sockets == 0),
        ("server.socket_init_timeout_seconds", server.socket_init_timeout_seconds == 0),
        ("server.socket_ping_seconds", server.socket_ping_seconds == 0),
        ("server.socket_message_timeout_seconds", server.socket_message_timeout_seconds == 0),
        ("server.max_connections", server.max_connections == 0),
        ("server.header_timeout_seconds", server.header_timeout_seconds == 0),
        ("server.idle_timeout_seconds", server.idle_timeout_seconds == 0),
        ("server.body_timeout_seconds", server.body_timeout_seconds == 0),
        ("server.write_timeout_seconds", server.write_timeout_seconds == 0),
    ] {
        if is_zero {
            return invalid(setting, "must be at least 1");
        }
    }
    if settings.index.memory < ByteSize::new(1 << 20) {
        return invalid("index.memory", "must be at least 1MiB");
    }
    if node.rpc_url.contains('@') {
        return invalid("node.rpc_url", "must not hold a user and password: set node.rpc_user and node.rpc_password");
    }
    if !node.rpc_url.is_empty() && !node.rpc_url.starts_with("http://") {
        return invalid("node.rpc_url", "must begin with http:// (Bitcoin Core's RPC server speaks nothing else)");
    }
    if node.zmq().is_some_and(|endpoint| !endpoint.starts_with("tcp://")) {
        return invalid("node.zmq", "must be of the form tcp://host:port");
    }
    let (cookie, user) = (!node.rpc_cookie.as_os_str().is_empty(), !node.rpc_user.is_empty());
    if cookie && user {
        let reason = format!("node.rpc_user is set too, by {}: set only one of them", merged.origin("node.rpc_user"));
        return invalid("node.rpc_cookie", &reason);
    }
    if user == node.rpc_password.is_empty() {
        let (there, missing) =
            if user { ("node.rpc_user", "node.rpc_password") } else { ("node.rpc_password", "node.rpc_user") };
        return invalid(there, &format!("{missing} has to be set with it"));
    }
    Ok(())
}
