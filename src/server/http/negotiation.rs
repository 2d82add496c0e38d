//! What a request says of the representations it takes and has (RFC 9110), as functions of its headers.

use std::cmp::Ordering;

use axum::http::{HeaderMap, HeaderName};

/// How a response body can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// In the order of preference among encodings that a client values alike: the smaller one first, and zstd last, because
/// clients offer it that cannot decode it (the fetch of graphql-tools on Node.js 20).
const ALL: [Encoding; 3] = [Encoding::Brotli, Encoding::Gzip, Encoding::Zstd];

impl Encoding {
    /// Its name in HTTP.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gzip",
            Encoding::Zstd => "zstd",
        }
    }

    /// How the names of files end that are compressed so.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gz",
            Encoding::Zstd => "zst",
        }
    }

    /// How the file of this name is compressed.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        ALL.into_iter().find(|encoding| encoding.extension() == extension)
    }
}

/// All values of a header as one list. A value that is not text counts as not sent.
pub(crate) fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// The encoding to send, of those that exist, or `None` for no compression (section 12.5.3): the one that the client
/// values most, and the first in [`ALL`] of those it values alike. A client that accepts none of them gets the body as it
/// is, even if it refuses that, too.
pub(crate) fn best(accepted: &str, exists: impl Fn(Encoding) -> bool) -> Option<Encoding> {
    let uncompressed = weight(accepted, "identity").unwrap_or(0.0);
    let weighed = ALL.into_iter().filter(|encoding| exists(*encoding)).filter_map(|encoding| {
        let weight = weight(accepted, encoding.token()).or_else(|| weight(accepted, "*"))?;
        (weight > 0.0 && weight >= uncompressed).then_some((encoding, weight))
    });
    // the first of equals
    let heavier = |a: (Encoding, f32), b: (Encoding, f32)| if b.1.total_cmp(&a.1) == Ordering::Greater { b } else { a };
    weighed.reduce(heavier).map(|(encoding, _)| encoding)
}

/// The weight that a list gives to a name: 1 unless it says otherwise, 0 if what it says is no weight.
fn weight(list: &str, name: &str) -> Option<f32> {
    list.split(',').find_map(|item| {
        let (token, parameters) = item.split_once(';').unwrap_or((item, ""));
        if !token.trim().eq_ignore_ascii_case(name) {
            return None;
        }
        let Some((key, value)) = parameters.split_once('=') else { return Some(1.0) };
        let value = value.trim().parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
        Some(if key.trim().eq_ignore_ascii_case("q") { value.unwrap_or(0.0) } else { 1.0 })
    })
}

/// Whether a list of entity tags names this one, or all (section 13.1.2). Compares weakly, as that section says.
pub(crate) fn holds(tags: &str, tag: &str) -> bool {
    tags.split(',').map(str::trim).any(|held| held == "*" || held.strip_prefix("W/").unwrap_or(held) == tag)
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Brotli, Gzip, Zstd};
    use super::*;

    #[test]
    fn the_client_weighs_encodings_and_of_equals_brotli_comes_first() {
        for (accepted, expected) in [
            ("", None),
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("br;q=0.5, gzip;q=0.8", Some(Gzip)),
            ("br; q=0.8 , gzip ; q=0.8", Some(Brotli)),
            ("*", Some(Brotli)),
            ("*;q=0.5, br;q=0", Some(Gzip)),
            ("br;q=0, gzip;q=0.000", None),
            ("identity", None),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0", None),
            ("*;q=0", None),
            ("deflate, zstd", Some(Zstd)),
            ("deflate, compress", None),
            ("zstd, gzip", Some(Gzip)),
            ("zstd, br;q=0.9, gzip;q=0.9", Some(Zstd)),
            ("zstd;q=0.9, *;q=0.5", Some(Zstd)),
            ("*, br;q=0, gzip;q=0", Some(Zstd)),
            ("*;q=0.9, zstd;q=0", Some(Brotli)),
            ("br;q=2", None),
            ("br;q=-1", None),
            ("br;q=NaN", None),
            ("br;q=nonsense, gzip", Some(Gzip)),
            ("brotli, gzipped", None),
        ] {
            assert_eq!(best(accepted, |_| true), expected, "{accepted:?}");
        }
    }

    #[test]
    fn an_encoding_that_does_not_exist_is_not_chosen() {
        assert_eq!(best("br, gzip", |encoding| encoding == Gzip), Some(Gzip));
        assert_eq!(best("br, gzip", |_| false), None);
    }

    #[test]
    fn a_client_holds_what_its_tags_name() {
        for (tags, expected) in [
            (r#""a""#, true),
            (r#"W/"a""#, true),
            (r#""b", W/"c" ,"a""#, true),
            ("*", true),
            ("", false),
            (r#""b""#, false),
            ("a", false),
            (r#""A""#, false),
        ] {
            assert_eq!(holds(tags, r#""a""#), expected, "{tags}");
        }
    }

    #[test]
    fn names_tell_how_their_files_are_compressed() {
        for (name, expected) in
            [("a.js.br", Some(Brotli)), ("a.js.gz", Some(Gzip)), ("a.js", None), ("br", None), ("", None)]
        {
            assert_eq!(Encoding::of_name(name), expected, "{name}");
        }
    }
}
