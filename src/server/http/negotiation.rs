//! Lists in headers by which a client says what it prefers (RFC 9110, section 12.4).

use axum::http::{HeaderMap, HeaderName};

/// An item of such a list.
pub(crate) struct Preference<'h> {
    pub(crate) name: &'h str,
    /// 1 unless the list says otherwise; 0, which refuses it, if what the list says is no weight.
    pub(crate) weight: f32,
    /// Its parameters but for the weight.
    pub(crate) parameters: Vec<(&'h str, &'h str)>,
}

/// The items of a list, in its order.
pub(crate) fn preferences(list: &str) -> Vec<Preference<'_>> {
    split(list, ',').filter_map(Preference::read).collect()
}

impl<'h> Preference<'h> {
    fn read(text: &'h str) -> Option<Self> {
        let mut parts = split(text, ';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let mut preference = Preference { name, weight: 1.0, parameters: Vec::new() };
        for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            if key.eq_ignore_ascii_case("q") {
                let weight = value.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
                preference.weight = weight.unwrap_or(0.0);
            } else {
                preference.parameters.push((key, value));
            }
        }
        Some(preference)
    }
}

/// All values of a header as one list. A value that is not text counts as not sent.
pub(crate) fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// The parts between separators that are not in a quoted string.
fn split(text: &str, separator: char) -> impl DoubleEndedIterator<Item = &str> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == separator && !quoted => {
                parts.push(&text[start..at]);
                start = at + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter()
}
