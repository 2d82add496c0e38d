//! Checks of settings beyond their types.

use super::effective::Settings;
use super::error::SettingsError;
use super::layers::Merged;
use super::rates;

/// Refuses invalid combinations and texts.
pub(super) fn check(settings: &Settings, merged: &Merged) -> Result<(), SettingsError> {
    let invalid = |setting: &str, reason: &str| Err(SettingsError::invalid(setting, &merged.origin(setting), reason));
    let node = &settings.node;
    if node.rpc_url.contains('@') {
        return invalid(
            "node.rpc_url",
            "must not contain a user and password: set node.rpc_user and node.rpc_password",
        );
    }
    if !node.rpc_url.is_empty() && !node.rpc_url.starts_with("http://") {
        return invalid("node.rpc_url", "must begin with http:// (Bitcoin Core's RPC server has no other protocol)");
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
        return invalid(there, &format!("set {missing} too"));
    }
    rates::check(&settings.rates, merged)
}
