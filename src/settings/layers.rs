//! The sources of settings, merged: defaults, file, environment, flags.
//!
//! ```text
//!   defaults.toml ─┐
//!   --config PATH ─┤  name, value and origin     checked against the          last one wins
//!   BTCGRAPH_*    ─┼─────────────────────────►   names and kinds of     ──►   Merged
//!   flags         ─┘                             defaults.toml
//! ```
//!
//! The types that [`Merged::read`] fills interpret the values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use config::{ConfigError, FileFormat, Source, ValueKind};
use serde::de::DeserializeOwned;

use super::error::SettingsError;
use super::limits;
use super::origin::Origin;

/// Begins the name of every environment variable that gives a setting.
const PREFIX: &str = "BTCGRAPH_";

/// Variables with the prefix of settings that give none: the file where the test suite records skipped tests, and the commit
/// that the program is built from, which cargo also sets for the programs it runs.
const NOT_SETTINGS: [&str; 2] = ["BTCGRAPH_SKIPS", "BTCGRAPH_GIT_COMMIT"];

/// A setting given on the command line.
#[derive(Clone)]
pub struct Flag {
    /// The flag, as in `--rpc-url`.
    pub name: &'static str,
    /// The setting it gives, as in `node.rpc_url`.
    pub setting: &'static str,
    /// Its value as text.
    pub value: String,
}

/// One value of one setting from one source.
struct Given {
    setting: String,
    value: ValueKind,
    origin: Origin,
}

/// The values of all settings, each from the last source that gives it.
pub(super) struct Merged(BTreeMap<String, (ValueKind, Origin)>);

impl Merged {
    /// The values of `defaults`, which also defines which settings exist.
    pub(super) fn defaults(defaults: &str) -> Result<Self, SettingsError> {
        let given = parse(defaults, &Origin::Defaults)?;
        Ok(Merged(given.into_iter().map(|given| (given.setting, (given.value, given.origin))).collect()))
    }

    /// Adds the settings file at `path`, which overrides earlier sources.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        let origin = Origin::File(path.to_owned());
        parse(&text, &origin)?.into_iter().try_for_each(|given| self.add(given))
    }

    /// Adds the environment variables that give settings, which override earlier sources.
    pub(super) fn add_environment(&mut self, variables: &[(OsString, OsString)]) -> Result<(), SettingsError> {
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let Some(setting) = name.strip_prefix(PREFIX).filter(|_| !NOT_SETTINGS.contains(&name)) else { continue };
            let setting = setting.to_ascii_lowercase().replace("__", ".");
            let origin = Origin::Environment(name.to_owned());
            let Some(value) = value.to_str() else {
                return Err(SettingsError::invalid(&setting, &origin, "must be UTF-8 text"));
            };
            self.add_text(&setting, value, origin)?;
        }
        Ok(())
    }

    /// Adds the flags, which override earlier sources.
    pub(super) fn add_flags(&mut self, flags: &[Flag]) -> Result<(), SettingsError> {
        flags.iter().try_for_each(|flag| self.add_text(flag.setting, &flag.value, Origin::Flag(flag.name)))
    }

    /// The source of `setting`.
    pub(super) fn origin(&self, setting: &str) -> Origin {
        // of a list, the whole comes from one source
        let setting = setting.split('[').next().unwrap_or(setting);
        self.0.get(setting).map_or(Origin::Defaults, |(_, origin)| origin.clone())
    }

    /// The value of `setting`, and its source.
    pub(super) fn get(&self, setting: &str) -> Option<&(ValueKind, Origin)> {
        self.0.get(setting)
    }

    /// The names of all settings.
    #[cfg(test)]
    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The values of all settings but the limits as a `T`, whose fields are named as the settings are.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, SettingsError> {
        let mut builder = config::Config::builder();
        for (setting, (value, _)) in self.0.iter().filter(|(setting, _)| limits::declaration(setting).is_none()) {
            builder = builder.set_override(setting, value.clone()).map_err(|error| self.explain(error))?;
        }
        builder.build().and_then(config::Config::try_deserialize).map_err(|error| self.explain(error))
    }

    /// Adds a value that is given as text, whatever its kind is.
    fn add_text(&mut self, setting: &str, text: &str, origin: Origin) -> Result<(), SettingsError> {
        let value = match self.0.get(setting) {
            Some((ValueKind::I64(_), _)) => text.trim().parse::<i64>().map(ValueKind::from).unwrap_or(text.into()),
            Some((ValueKind::Boolean(_), _)) => text.trim().parse::<bool>().map(ValueKind::from).unwrap_or(text.into()),
            _ => text.into(),
        };
        self.add(Given { setting: setting.to_owned(), value, origin })
    }

    fn add(&mut self, Given { setting, value, origin }: Given) -> Result<(), SettingsError> {
        let Some((known, _)) = self.0.get(&setting) else {
            // a section whose settings are all in comments
            let is_empty = matches!(&value, ValueKind::Table(table) if table.is_empty());
            if is_empty
                && self.0.keys().any(|name| name.strip_prefix(&*setting).is_some_and(|rest| rest.starts_with('.')))
            {
                return Ok(());
            }
            let nearest = nearest(&setting, self.0.keys());
            return Err(SettingsError::Unknown { setting, origin, nearest });
        };
        if let Some(wanted) = other_kind(known, &value) {
            return Err(SettingsError::invalid(&setting, &origin, wanted));
        }
        self.0.insert(setting, (value, origin));
        Ok(())
    }

    /// The error of the deserialiser, with the source of the value.
    fn explain(&self, error: ConfigError) -> SettingsError {
        let (setting, reason) = match error {
            ConfigError::At { error, key: Some(setting), .. } => (setting, error.to_string()),
            ConfigError::Type { unexpected, expected, key: Some(setting), .. } => {
                (setting, format!("must be {expected}, not {unexpected}"))
            }
            // of a table in a list, since all other settings have defaults
            ConfigError::NotFound(setting) if setting.contains(']') => (setting, "must be set".to_owned()),
            other => return SettingsError::Defaults(other.to_string()),
        };
        // the library leaves out the dot behind the number of a table in a list, and not always
        let setting = setting.replace("].", "]").replace(']', "].");
        SettingsError::invalid(setting.trim_end_matches('.'), &self.origin(&setting), reason)
    }
}

/// What a value must be that is not of the kind of this one.
pub(super) fn other_kind(wanted: &ValueKind, value: &ValueKind) -> Option<&'static str> {
    (std::mem::discriminant(wanted) != std::mem::discriminant(value)).then_some(match wanted {
        ValueKind::I64(_) => "must be a whole number",
        ValueKind::Boolean(_) => "must be true or false",
        ValueKind::Array(_) => "must be [[webhook]] tables of a settings file",
        _ => "must be text, in quotes",
    })
}

/// The settings in a TOML text.
fn parse(text: &str, origin: &Origin) -> Result<Vec<Given>, SettingsError> {
    let tables = config::File::from_str(text, FileFormat::Toml).collect().map_err(|error| SettingsError::Syntax {
        origin: origin.clone(),
        reason: without_excerpt(&error.to_string()),
    })?;
    let mut found = Vec::new();
    flatten("", tables.into_iter().map(|(name, value)| (name, value.kind)), &mut |setting, value| {
        found.push(Given { setting, value, origin: origin.clone() });
    });
    Ok(found)
}

/// Prefixes the names in a section with the name of the section and a dot. An empty section counts as a value, so that
/// a misspelled one is noticed.
fn flatten(section: &str, values: impl Iterator<Item = (String, ValueKind)>, found: &mut dyn FnMut(String, ValueKind)) {
    for (name, value) in values {
        let name = if section.is_empty() { name } else { format!("{section}.{name}") };
        match value {
            ValueKind::Table(table) if !table.is_empty() => {
                let values: Vec<_> = table.into_iter().map(|(name, value)| (name, value.kind)).collect();
                flatten(&name, values.into_iter(), found);
            }
            value => found(name, value),
        }
    }
}

/// The TOML parser's message without the line that it quotes, which may contain a password.
fn without_excerpt(message: &str) -> String {
    let quoted = |line: &&str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    message.lines().filter(|line| !quoted(line)).collect::<Vec<_>>().join(": ")
}

/// The likely correction of `wrong`: its name in another section, or a name that differs by few letters.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    names
        .map(|name| (if last(name) == last(wrong) { 0 } else { edits(wrong, name) }, name))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, _)| *edits <= 3)
        .map(|(_, name)| name.clone())
}

/// How many letters have to be added, removed or changed to make `a` into `b` (Levenshtein's distance).
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_guessed_by_its_section_or_its_letters() {
        let names = ["data_dir", "node.rpc_url", "server.max_depth"].map(str::to_owned);
        let guess = |wrong| nearest(wrong, names.iter());
        assert_eq!(guess("rpc_url").as_deref(), Some("node.rpc_url"));
        assert_eq!(guess("index.max_depth").as_deref(), Some("server.max_depth"));
        assert_eq!(guess("datadir").as_deref(), Some("data_dir"));
        assert_eq!(guess("node.rcp_url").as_deref(), Some("node.rpc_url"));
        assert_eq!(guess("something.else"), None);
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, count) in [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("a", "a", 0)] {
            assert_eq!(edits(a, b), count, "{a} {b}");
        }
    }
}
