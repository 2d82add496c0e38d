//! Reasons of a library's parser, for an error of ours.

use std::fmt::Display;

/// How much of a reason that may quote the text is kept, in characters.
const LONGEST: usize = 200;

/// The beginning of a reason in one line, which may quote a text of any length.
pub(super) fn shortened(reason: &impl Display) -> String {
    let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    match reason.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason,
    }
}
