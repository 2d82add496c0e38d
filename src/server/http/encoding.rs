//! The compression of a response: which encoding the client prefers, as a function of `Accept-Encoding`.

use std::cmp::Ordering;

use super::negotiation::preferences;

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

    /// The extension of the names of files that are compressed so.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gz",
            Encoding::Zstd => "zst",
        }
    }

    /// The encoding of a file, by its name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        ALL.into_iter().find(|encoding| encoding.extension() == extension)
    }
}

/// The encoding to send, of those that exist, or `None` for no compression (section 12.5.3): the one with the highest weight
/// and, of equals, the first of [`ALL`]. A client that accepts none of them gets the body as it is, even if it refuses that.
pub(crate) fn best(accepted: &str, exists: impl Fn(Encoding) -> bool) -> Option<Encoding> {
    let preferences = preferences(accepted);
    let weight = |name: &str| {
        let found = preferences.iter().find(|preference| preference.name.eq_ignore_ascii_case(name));
        found.map(|preference| preference.weight)
    };
    let uncompressed = weight("identity").unwrap_or(0.0);
    let weighted = ALL.into_iter().filter(|encoding| exists(*encoding)).filter_map(|encoding| {
        let weight = weight(encoding.token()).or_else(|| weight("*"))?;
        (weight > 0.0 && weight >= uncompressed).then_some((encoding, weight))
    });
    // the first of equals
    let heavier = |a: (Encoding, f32), b: (Encoding, f32)| if b.1.total_cmp(&a.1) == Ordering::Greater { b } else { a };
    weighted.reduce(heavier).map(|(encoding, _)| encoding)
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Brotli, Gzip, Zstd};
    use super::*;

    #[test]
    fn the_highest_weight_wins_and_of_equals_brotli() {
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
    fn only_existing_encodings_are_chosen() {
        assert_eq!(best("br, gzip", |encoding| encoding == Gzip), Some(Gzip));
        assert_eq!(best("br, gzip", |_| false), None);
    }

    #[test]
    fn extensions_name_encodings() {
        for (name, expected) in
            [("a.js.br", Some(Brotli)), ("a.js.gz", Some(Gzip)), ("a.js", None), ("br", None), ("", None)]
        {
            assert_eq!(Encoding::of_name(name), expected, "{name}");
        }
    }
}
