//! Sites of files, as a client meets them.

use std::collections::BTreeMap;

use super::*;

const WHOLE: &[u8] = b"<!doctype html>";
const BROTLI: &[u8] = b"as brotli";
const GZIP: &[u8] = b"as gzip";

fn find(name: &str) -> Option<EmbeddedFile> {
    let data = match name {
        "index.html" | "assets/main-1A2B.js" | "assets/sign.svg" | "x" => WHOLE,
        "index.html.br" | "assets/main-1A2B.js.br" => BROTLI,
        "index.html.gz" | "assets/main-1A2B.js.gz" => GZIP,
        _ => return None,
    };
    let mut hash = [0; 32];
    hash[..data.len()].copy_from_slice(data);
    let metadata = rust_embed::Metadata::__rust_embed_new(hash, None, None);
    Some(EmbeddedFile { data: data.into(), metadata })
}

const SITE: Site = Site { find, policy: "default-src 'none'" };

/// Status, headers and body.
fn ask(name: &str, headers: &[(HeaderName, &str)]) -> (u16, BTreeMap<String, String>, Vec<u8>) {
    let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
    let (parts, body) = SITE.answer(name, &headers).into_parts();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = runtime.block_on(axum::body::to_bytes(body, usize::MAX)).unwrap();
    (parts.status.as_u16(), headers, body.to_vec())
}

fn headers(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    let always = [
        ("vary", "accept-encoding"),
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ];
    always.iter().chain(of).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_page_comes_as_the_client_takes_it_and_is_asked_for_again_each_time() {
    let tag = "\"3c21646f63747970652068746d6c3e00\"";
    let whole = [("content-type", "text/html; charset=utf-8"), ("cache-control", "no-cache"), ("etag", tag)];
    assert_eq!(ask("index.html", &[]), (200, headers(&whole), WHOLE.to_vec()));

    let brotli = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-encoding", "br"),
        ("cache-control", "no-cache"),
        ("etag", "\"61732062726f746c6900000000000000\""),
    ];
    assert_eq!(ask("index.html", &[(ACCEPT_ENCODING, "gzip, br")]), (200, headers(&brotli), BROTLI.to_vec()));
}

#[test]
fn what_has_a_hash_in_its_name_is_kept_for_a_year() {
    let (status, headers, body) = ask("assets/main-1A2B.js", &[(ACCEPT_ENCODING, "gzip")]);
    assert_eq!((status, body.as_slice()), (200, GZIP));
    assert_eq!(headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
}

#[test]
fn what_the_client_has_is_not_sent_again_but_another_encoding_of_it_is() {
    let (_, brotli, _) = ask("index.html", &[(ACCEPT_ENCODING, "br")]);
    let tag = brotli["etag"].as_str();
    let unchanged = headers(&[("cache-control", "no-cache"), ("etag", tag)]);
    assert_eq!(ask("index.html", &[(ACCEPT_ENCODING, "br"), (IF_NONE_MATCH, tag)]), (304, unchanged, vec![]));
    assert_eq!(ask("index.html", &[(ACCEPT_ENCODING, "gzip"), (IF_NONE_MATCH, tag)]).2, GZIP);
}

#[test]
fn several_lines_of_a_header_are_one_list() {
    let lines = [(ACCEPT_ENCODING, "deflate"), (ACCEPT_ENCODING, "gzip")];
    assert_eq!(ask("index.html", &lines).2, GZIP);
}

#[test]
fn a_file_that_was_not_compressed_comes_as_it_is() {
    let (status, headers, body) = ask("assets/sign.svg", &[(ACCEPT_ENCODING, "br")]);
    assert_eq!((status, body.as_slice()), (200, WHOLE));
    assert_eq!(headers.get("content-encoding"), None);
    assert_eq!(headers["content-type"], "image/svg+xml");
}

#[test]
fn there_is_nothing_but_the_files() {
    for name in ["", "/", "assets", "assets/", "index.htm", "../index.html", "assets/../index.html", "index.html.br"] {
        assert_eq!(ask(name, &[]).0, 404, "{name:?}");
    }
}

#[test]
fn a_name_without_an_extension_is_served_as_bytes() {
    assert_eq!(ask("x", &[]).1["content-type"], "application/octet-stream");
}

#[test]
fn every_file_of_both_sites_has_a_media_type() {
    let files = Plain::iter().chain(Built::iter()).filter(|name| Encoding::of_name(name).is_none());
    let unknown: Vec<_> = files.filter(|name| media_type(name) == "application/octet-stream").collect();
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn a_list_of_tags_names_its_own_or_all() {
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
        assert_eq!(names_tag(tags, r#""a""#), expected, "{tags}");
    }
}
