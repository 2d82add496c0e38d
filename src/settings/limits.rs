//! The limits of [`crate::limits`] as settings: their names and bounds, documented and printed.

use std::fmt::Write;

use super::values::ByteSize;
use crate::limits::{DECLARED, Declaration, Limits, Unit};

/// Marks in `defaults.toml` where the limits of a section belong; the name of the section follows it.
const MARKER: &str = "# limits: ";

/// The longest line of a comment.
const LINE: usize = 120;

/// The declaration of the limit that `setting` gives, `None` for another setting.
pub(super) fn declaration(setting: &str) -> Option<&'static Declaration> {
    DECLARED.iter().find(|limit| limit.setting == setting)
}

/// The TOML form of a limit's value.
pub(super) fn to_toml(limit: &Declaration, limits: &Limits) -> String {
    match limit.unit {
        Unit::Bytes => format!("\"{}\"", ByteSize::new(limit.get(limits))),
        Unit::Count | Unit::Seconds => limit.get(limits).to_string(),
    }
}

/// The bounds of a limit in words, as in `1 to 3600 seconds`.
pub(super) fn bounds(limit: &Declaration) -> String {
    let (lowest, highest) = (*limit.bounds.start(), *limit.bounds.end());
    match limit.unit {
        Unit::Bytes => format!("{} to {}", ByteSize::new(lowest), ByteSize::new(highest)),
        Unit::Count => format!("{lowest} to {highest}"),
        Unit::Seconds => format!("{lowest} to {highest} seconds"),
    }
}

/// The defaults file with the documentation and defaults of the limits in place of their markers.
pub(super) fn document(template: &str) -> String {
    let mut documented = String::with_capacity(2 * template.len());
    for line in template.lines() {
        let Some(section) = line.strip_prefix(MARKER) else {
            documented.push_str(line);
            documented.push('\n');
            continue;
        };
        let in_section = |limit: &&Declaration| limit.setting.split_once('.').is_some_and(|(name, _)| name == section);
        let entries: Vec<String> = DECLARED.iter().filter(in_section).map(entry).collect();
        documented.push_str(&entries.join("\n"));
    }
    documented
}

/// One limit in the defaults file: its description and bounds as a comment, then its default.
fn entry(limit: &Declaration) -> String {
    let mut entry = String::new();
    let mut width = LINE;
    for word in limit.description.split_whitespace().chain(format!("Allowed: {}.", bounds(limit)).split_whitespace()) {
        if width + 1 + word.len() > LINE {
            entry.push_str(if entry.is_empty() { "#" } else { "\n#" });
            width = 1;
        }
        entry.push(' ');
        entry.push_str(word);
        width += 1 + word.len();
    }
    let name = limit.setting.split_once('.').map_or(limit.setting, |(_, name)| name);
    // writing to a String does not fail
    let _ = writeln!(entry, "\n{name} = {}", to_toml(limit, &Limits::default()));
    entry
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::defaults::defaults;
    use super::*;

    #[test]
    fn every_limit_is_documented_in_its_section() {
        let mut section = "";
        let mut documented = BTreeSet::new();
        for line in defaults().lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
            }
            if let Some((name, default)) = line.split_once(" = ") {
                let setting = format!("{section}.{name}");
                if let Some(limit) = declaration(&setting) {
                    assert_eq!(default, to_toml(limit, &Limits::default()), "{setting}");
                    assert!(documented.insert(limit.setting), "{setting} is documented twice");
                }
            }
        }
        assert_eq!(documented, DECLARED.iter().map(|limit| limit.setting).collect());
    }

    #[test]
    fn a_comment_breaks_before_the_longest_line() {
        for limit in DECLARED {
            for line in entry(limit).lines().filter(|line| line.starts_with('#')) {
                assert!(line.len() <= LINE, "{line}");
            }
        }
    }
}
