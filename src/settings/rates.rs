//! The settings of rates: where the table comes from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::SettingsError;
use super::layers::Merged;
use crate::outbound::Target;

/// What a bitcoin costs in other currencies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RatesSettings {
    /// The table; empty for none.
    pub file: PathBuf,
    /// Where the table is fetched from; an empty text for nowhere.
    #[serde(deserialize_with = "target_or_none", serialize_with = "or_empty")]
    pub url: Option<Target>,
    /// The seconds from one table to the next.
    pub refresh_seconds: u32,
    /// Whether the URL may lead to a private address.
    pub allow_private: bool,
    /// How long a rate holds without a newer one, in seconds.
    pub max_age_seconds: u32,
}

impl RatesSettings {
    /// The table.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        Some(self.file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}

fn target_or_none<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Target>, D::Error> {
    let text = String::deserialize(text)?;
    if text.is_empty() { Ok(None) } else { Target::parse(&text).map(Some).map_err(serde::de::Error::custom) }
}

#[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
fn or_empty<S: Serializer>(target: &Option<Target>, serializer: S) -> Result<S::Ok, S::Error> {
    match target {
        Some(target) => target.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}

/// Refuses two tables, and a table that anyone on the way could change.
pub(super) fn check(settings: &RatesSettings, merged: &Merged) -> Result<(), SettingsError> {
    let invalid = |setting: &str, reason: &str| Err(SettingsError::invalid(setting, &merged.origin(setting), reason));
    let Some(url) = &settings.url else { return Ok(()) };
    if settings.file().is_some() {
        return invalid("rates.url", "rates.file is set, too: set only one of them");
    }
    if !url.is_secure() && !settings.allow_private {
        return invalid(
            "rates.url",
            "must begin with https://, or set rates.allow_private for a host of your own network",
        );
    }
    url.fault(settings.allow_private).map_or(Ok(()), |fault| invalid("rates.url", &fault))
}
