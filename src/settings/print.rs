//! Settings as a file: the defaults file with each value replaced by the one in effect, so that what is printed comes
//! with its documentation.

use std::fmt::Write;

use serde_json::Value;

use super::defaults::defaults;
use super::effective::Settings;
use super::error::SettingsError;
use super::limits;

impl Settings {
    /// The settings as a documented TOML file, secrets masked.
    pub fn to_documented_toml(&self) -> Result<String, SettingsError> {
        print(self).map_err(|error| SettingsError::Defaults(error.to_string()))
    }
}

/// The documented settings file that gives `settings`, except for secrets, which are masked.
fn print(settings: &Settings) -> Result<String, serde_json::Error> {
    let values = serde_json::to_value(settings)?;
    let (mut section, mut section_name) = (&values, "");
    let mut printed = String::with_capacity(defaults().len());
    for line in defaults().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            (section, section_name) = (&values[name], name);
        }
        match line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            Some((name, _)) if is_tables(&section[name]) => print_tables(name, &section[name], &mut printed),
            Some((name, _)) => {
                printed.push_str(name);
                printed.push_str(" = ");
                match limits::declaration(&format!("{section_name}.{name}")) {
                    Some(limit) => printed.push_str(&limits::to_toml(limit, &settings.limits)),
                    None => printed.push_str(&toml(&section[name])),
                }
            }
            None => printed.push_str(line),
        }
        printed.push('\n');
    }
    Ok(printed)
}

fn is_tables(value: &Value) -> bool {
    value.as_array().is_some_and(|tables| tables.first().is_some_and(Value::is_object))
}

/// A list of tables, each with its name and its settings. No section may be open.
fn print_tables(name: &str, tables: &Value, printed: &mut String) {
    for table in tables.as_array().into_iter().flatten().filter_map(Value::as_object) {
        // writing to a String does not fail
        let _ = writeln!(printed, "[[{name}]]");
        for (setting, value) in table {
            let _ = writeln!(printed, "{setting} = {}", toml(value));
        }
    }
}

/// A list, number, truth value or text in TOML, which writes them as JSON does, but for DEL, which it wants escaped.
fn toml(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}
