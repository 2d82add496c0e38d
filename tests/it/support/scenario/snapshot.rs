//! The snapshots of transcripts.

use super::folder;

/// Compares with `tests/scenarios/snapshots/NAME.snap`, or writes it where `INSTA_UPDATE` says so.
#[track_caller]
pub(super) fn compare_or_write(name: &str, transcript: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder().join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, transcript));
}

/// Compares, and never writes.
#[track_caller]
pub(super) fn compare(name: &str, transcript: &str) {
    let path = folder().join("snapshots").join(name).with_extension("snap");
    let file = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; a run on a real node writes it", path.display());
    });
    // behind the head, which is between two lines of dashes
    let expected = file.splitn(3, "---\n").nth(2).unwrap_or_default();
    if let Some(difference) = difference(expected.trim_end(), transcript.trim_end()) {
        panic!("{name} is not played as on a real node:\n{difference}");
    }
}

/// The first lines in which two texts differ, with some in front of them.
fn difference(expected: &str, found: &str) -> Option<String> {
    const AROUND: usize = 12;
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let same = expected.iter().zip(&found).take_while(|(expected, found)| expected == found).count();
    if same == expected.len() && same == found.len() {
        return None;
    }
    let show = |sign: &str, lines: &[&str]| -> String {
        lines.iter().take(AROUND).flat_map(|line| [sign, " ", line, "\n"]).collect()
    };
    let before = show(" ", &expected[same.saturating_sub(AROUND)..same]);
    Some(format!("{before}{}{}", show("-", &expected[same..]), show("+", &found[same..])))
}

#[test]
fn two_texts_are_equal_or_differ_from_a_line_on() {
    assert_eq!(difference("a\nb", "a\nb"), None);
    assert_eq!(difference("a\nb\nc", "a\nx\nc").as_deref(), Some("  a\n- b\n- c\n+ x\n+ c\n"));
    assert_eq!(difference("a", "a\nb").as_deref(), Some("  a\n+ b\n"));
    assert_eq!(difference("a\nb", "a").as_deref(), Some("  a\n- b\n"));
}
