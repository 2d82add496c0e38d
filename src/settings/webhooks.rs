//! The settings of webhooks: `[[webhook]]` tables of the settings file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bitcoin::Network;
use config::{Config, Source, ValueKind};
use serde::{Deserialize, Serialize};

use super::error::SettingsError;
use super::layers::{Merged, other_kind};
use super::values::Secret;
use crate::chain::descriptor::OutputDescriptor;
use crate::chain::{hidden, parse_address};
use crate::limits::Limits;
use crate::outbound::Target;
use crate::webhooks::{Hook, HookWatch, SigningKeys, Timing, WatchedDescriptor, check_name, limits};

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Its name.
    pub name: String,
    /// Where its messages are sent.
    pub url: Target,
    /// The keys that sign them.
    #[serde(default)]
    pub secret: Secret,
    /// A file with the keys.
    #[serde(default)]
    pub secret_file: PathBuf,
    /// The environment variable with the keys.
    #[serde(default)]
    pub secret_env: String,
    /// Whether it watches blocks.
    #[serde(default)]
    pub blocks: bool,
    /// The addresses that it watches.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The scriptPubKeys that it watches, in hexadecimal.
    #[serde(default)]
    pub scripts: Vec<String>,
    /// The descriptors that it watches.
    #[serde(default)]
    pub descriptors: Vec<String>,
    /// The number of unused scripts in a row at which a branch of a descriptor ends.
    #[serde(default = "default::gap_limit")]
    pub gap_limit: i64,
    /// The numbers of confirmations that are events.
    #[serde(default)]
    pub depths: Vec<i64>,
    /// The kinds of events; all if empty.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The fields of an event, as a selection set without braces; the default ones if empty.
    #[serde(default)]
    pub fields: String,
    /// Whether it may connect to private addresses.
    #[serde(default)]
    pub allow_private: bool,
    /// How often an event is sent before it becomes a dead letter.
    #[serde(default = "default::attempts")]
    pub attempts: i64,
    /// The pause after the first failure, in seconds.
    #[serde(default = "default::backoff_seconds")]
    pub backoff_seconds: i64,
    /// The longest pause, in seconds.
    #[serde(default = "default::max_backoff_seconds")]
    pub max_backoff_seconds: i64,
    /// How long connecting may take, in seconds.
    #[serde(default = "default::connect_timeout_seconds")]
    pub connect_timeout_seconds: i64,
    /// How long the response may take, in seconds.
    #[serde(default = "default::timeout_seconds")]
    pub timeout_seconds: i64,
}

/// The defaults of numbers, which `defaults.toml` documents.
mod default {
    pub(super) fn gap_limit() -> i64 {
        20
    }

    pub(super) fn attempts() -> i64 {
        16
    }

    pub(super) fn backoff_seconds() -> i64 {
        1
    }

    pub(super) fn max_backoff_seconds() -> i64 {
        3_600
    }

    pub(super) fn connect_timeout_seconds() -> i64 {
        5
    }

    pub(super) fn timeout_seconds() -> i64 {
        15
    }
}

impl WebhookSettings {
    /// The hook, with the keys that the settings name.
    #[must_use]
    pub fn to_hook(&self, keys: SigningKeys) -> Hook {
        let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let seconds = |seconds: i64| Duration::from_secs(number(seconds).into());
        let watch = if self.blocks {
            HookWatch::Blocks
        } else {
            let watched = |text: &String| WatchedDescriptor { text: text.clone(), gap_limit: number(self.gap_limit) };
            HookWatch::Ledger {
                addresses: self.addresses.clone(),
                scripts: self.scripts.clone(),
                descriptors: self.descriptors.iter().map(watched).collect(),
                depths: self.depths.iter().copied().map(number).collect(),
                kinds: self.kinds.clone(),
            }
        };
        Hook {
            name: self.name.clone(),
            target: self.url.clone(),
            keys,
            watch,
            fields: Some(self.fields.clone()).filter(|fields| !fields.trim().is_empty()),
            allow_private: self.allow_private,
            timing: Timing {
                attempts: number(self.attempts),
                backoff: seconds(self.backoff_seconds),
                max_backoff: seconds(self.max_backoff_seconds),
                connect_timeout: seconds(self.connect_timeout_seconds),
                timeout: seconds(self.timeout_seconds),
            },
        }
    }

    /// Errors: the name of a setting of the hook, and what is wrong with it.
    fn check(&self, network: Network, clients: &Limits) -> Result<(), (&'static str, String)> {
        let wrong = |setting: &'static str, reason: &str| Err((setting, reason.to_owned()));
        check_name(&self.name).map_err(|error| ("name", error.to_string()))?;
        if !self.url.is_secure() && !self.allow_private {
            return wrong(
                "url",
                "must begin with https://; http:// is for receivers of a local network: set allow_private",
            );
        }
        if let Some(fault) = self.url.fault(self.allow_private) {
            return Err(("url", fault));
        }
        let given = [!self.secret.is_empty(), !self.secret_file.as_os_str().is_empty(), !self.secret_env.is_empty()];
        if given.iter().filter(|given| **given).count() != 1 {
            return wrong("secret", "set exactly one of secret, secret_file and secret_env");
        }
        if given[0] {
            SigningKeys::parse(self.secret.expose()).map_err(|error| ("secret", error.to_string()))?;
        }
        self.check_watch(network, clients)?;
        for (setting, value, bounds) in [
            ("gap_limit", self.gap_limit, 1..=clients.gap_limit),
            ("attempts", self.attempts, limits::ATTEMPTS),
            ("backoff_seconds", self.backoff_seconds, limits::BACKOFF_SECONDS),
            ("max_backoff_seconds", self.max_backoff_seconds, limits::MAX_BACKOFF_SECONDS),
            ("connect_timeout_seconds", self.connect_timeout_seconds, limits::TIMEOUT_SECONDS),
            ("timeout_seconds", self.timeout_seconds, limits::TIMEOUT_SECONDS),
        ] {
            if !u32::try_from(value).is_ok_and(|value| bounds.contains(&value)) {
                return Err((setting, format!("must be from {} to {}, not {value}", bounds.start(), bounds.end())));
            }
        }
        if self.backoff_seconds > self.max_backoff_seconds {
            return wrong("backoff_seconds", "must not be longer than max_backoff_seconds");
        }
        Ok(())
    }

    fn check_watch(&self, network: Network, clients: &Limits) -> Result<(), (&'static str, String)> {
        let watched = self.addresses.len() + self.scripts.len() + self.descriptors.len();
        if self.blocks != (watched == 0) {
            let reason = "set either blocks, or any of addresses, scripts and descriptors";
            return Err(("blocks", reason.to_owned()));
        }
        for (setting, is_empty) in [("depths", self.depths.is_empty()), ("kinds", self.kinds.is_empty())] {
            if self.blocks && !is_empty {
                return Err((setting, "is for addresses, scripts and descriptors, and not for blocks".to_owned()));
            }
        }
        if watched > clients.watched_items {
            let reason = format!(
                "watches {watched} addresses, scripts and descriptors; server.max_watched_items is {}",
                clients.watched_items
            );
            return Err(("addresses", reason));
        }
        for address in &self.addresses {
            let wrong = |error| ("addresses", format!("{:?} is no address of this network: {error}", hidden(address)));
            parse_address(address, network).map_err(wrong)?;
        }
        for script in &self.scripts {
            if script.is_empty() || <Vec<u8> as bitcoin::hex::FromHex>::from_hex(script).is_err() {
                return Err(("scripts", format!("{:?} is no script in hexadecimal", hidden(script))));
            }
        }
        let mut branches = 0_usize;
        for (place, descriptor) in self.descriptors.iter().enumerate() {
            // its text may have a private key by mistake
            let wrong = |error| ("descriptors", format!("descriptors[{place}] is wrong: {error}"));
            branches += OutputDescriptor::parse(descriptor, network).map_err(wrong)?.branches();
        }
        for (what, count, limit, setting) in [
            ("descriptors", self.descriptors.len(), clients.watched_descriptors, "max_watched_descriptors"),
            ("branches of descriptors", branches, clients.watched_branches, "max_watched_branches"),
        ] {
            if count > limit {
                return Err(("descriptors", format!("watches {count} {what}; server.{setting} is {limit}")));
            }
        }
        if let Some(depth) = self.depths.iter().find(|depth| !(1..=i64::from(i32::MAX)).contains(*depth)) {
            return Err(("depths", format!("each must be from 1 to {}, not {depth}", i32::MAX)));
        }
        Ok(())
    }
}

/// One value of each kind that settings of a hook have, whose other values are their defaults.
const SAMPLE: &str = r#"{ "name": "", "url": "https://a", "addresses": [""], "scripts": [""], "descriptors": [""], "depths": [1], "kinds": [""] }"#;

/// Refuses a value of another kind than its setting has, which the library would convert: "3" and 1.5 to whole numbers.
pub(super) fn check_kinds(merged: &Merged) -> Result<(), SettingsError> {
    let Some((ValueKind::Array(tables), origin)) = merged.get("webhook") else { return Ok(()) };
    let defaults = |error: &dyn std::error::Error| SettingsError::Defaults(error.to_string());
    let sample: WebhookSettings = serde_json::from_str(SAMPLE).map_err(|error| defaults(&error))?;
    let kinds = Config::try_from(&sample).and_then(|sample| sample.collect()).map_err(|error| defaults(&error))?;
    for (number, table) in tables.iter().enumerate() {
        let ValueKind::Table(table) = &table.kind else { continue };
        for (name, value) in table {
            let Some(wanted) = kinds.get(name) else { continue };
            let fault = match (&wanted.kind, &value.kind) {
                (ValueKind::Array(wanted), ValueKind::Array(items)) => {
                    let other = |item: &config::Value| other_kind(&wanted.first()?.kind, &item.kind);
                    items.iter().find_map(other).map(|fault| format!("each {fault}"))
                }
                (ValueKind::Array(_), _) => Some("must be a list, in brackets".to_owned()),
                (wanted, value) => other_kind(wanted, value).map(str::to_owned),
            };
            if let Some(fault) = fault {
                return Err(SettingsError::invalid(&format!("webhook[{number}].{name}"), origin, fault));
            }
        }
    }
    Ok(())
}

/// Refuses hooks that cannot work, and two of one name.
pub(super) fn check(
    hooks: &[WebhookSettings],
    (network, clients): (Network, &Limits),
    merged: &Merged,
) -> Result<(), SettingsError> {
    let origin = merged.origin("webhook");
    if hooks.len() > limits::HOOKS {
        let reason = format!("at most {} are allowed, not {}", limits::HOOKS, hooks.len());
        return Err(SettingsError::invalid("webhook", &origin, reason));
    }
    let mut names = BTreeSet::new();
    for (number, hook) in hooks.iter().enumerate() {
        let invalid = |(setting, reason): (&str, String)| {
            SettingsError::invalid(&format!("webhook[{number}].{setting}"), &origin, reason)
        };
        hook.check(network, clients).map_err(invalid)?;
        if !names.insert(&hook.name) {
            return Err(invalid(("name", format!("another webhook has the name {:?}", hook.name))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
