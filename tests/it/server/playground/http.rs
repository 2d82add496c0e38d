//! Its pages over HTTP.

use bitcoin::Network;
use btcgraph::limits::Limits;
use btcgraph::server::{Options, Token, TokenPolicy, Tokens};

use crate::support::api::Api;
use crate::support::test_server::TestServer;

/// A server over an empty index.
fn serve(options: Options) -> TestServer {
    TestServer::apart(&Api::empty(Network::Regtest, Limits::default()).schema, options)
}

/// The paths on this server that a page names.
fn named_by(page: &[u8]) -> Vec<String> {
    let page = std::str::from_utf8(page).unwrap();
    let quoted = page.split(['"', '\'']).filter(|text| text.starts_with("/playground/"));
    quoted.map(str::to_owned).collect()
}

/// A path of each page of the explorer.
const EXPLORER: [&str; 12] = [
    "/",
    "/block/0",
    "/tx/4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b",
    "/address/bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
    "/script/8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161",
    "/pool/f2pool",
    "/wallet",
    "/mempool",
    "/charts",
    "/send",
    "/search",
    "/status",
];

#[test]
fn each_path_of_the_explorer_has_its_page_under_a_strict_policy() {
    let served = serve(Options::default());
    let root = served.send("GET", "/", &[], "");
    for path in EXPLORER {
        let response = served.send("GET", path, &[BROWSER], "");
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(response.body, root.body, "{path}");
        let policy = response.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    for path in ["/block", "/block/", "/block/0/1", "/tx", "/wallet/x", "/nothing"] {
        assert_eq!(served.send("GET", path, &[], "").status, 404, "{path}");
        let response = served.send("GET", path, &[BROWSER], "");
        assert_eq!((response.status, &response.body), (404, &root.body), "{path}");
    }
}

#[test]
fn a_program_without_the_explorer_says_how_to_get_it() {
    let served = serve(Options::default());
    let page = served.send("GET", "/playground/plain/explorer.html", &[], "");
    let text = std::str::from_utf8(&page.body).unwrap();
    assert!(text.contains("make playground"), "{text}");
    // the explorer is in the program exactly if GraphiQL is
    let is_built =
        served.send("GET", "/playground", &[], "").body != served.send("GET", "/playground/plain", &[], "").body;
    assert_eq!(served.send("GET", "/", &[], "").body != page.body, is_built);
}

/// What browsers send when a user opens a URL.
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

#[test]
fn the_endpoint_opened_in_a_browser_leads_to_the_playground() {
    let tokens: Tokens = Token::new("alice", "secret", 0, false).unwrap().to_string().parse().unwrap();
    let token_policy = TokenPolicy { tokens, require_token: true, ..TokenPolicy::default() };
    // the page needs no token, so that a user can enter one there
    for options in [Options::default(), Options { token_policy, ..Options::default() }] {
        let served = serve(options);
        for path in ["/graphql", "/graphql?", "/graphql?query=", "/graphql?theme=dark"] {
            let response = served.send("GET", path, &[BROWSER], "");
            assert_eq!((response.status, response.header("location")), (307, "/playground"), "{path}");
            assert!(response.header("vary").contains("accept"), "{response:?}");
        }
    }
}

#[test]
fn programs_and_queries_at_the_endpoint_are_not_redirected() {
    let served = serve(Options::default());
    for accept in ["*/*", "application/json", "application/graphql-response+json", "application/json, text/html"] {
        let response = served.send("GET", "/graphql", &[("accept", accept)], "");
        assert_eq!(response.status, 400, "{accept}");
        assert!(response.header("content-type").contains("json"), "{accept}");
    }
    assert_eq!(served.send("GET", "/graphql", &[], "").status, 400);
    let query = served.send("GET", "/graphql?query=%7B__typename%7D", &[BROWSER], "");
    assert_eq!((query.status, query.body.as_slice()), (200, &br#"{"data":{"__typename":"Query"}}"#[..]));
    assert_eq!(served.send("GET", "/graphql?variables=%7B%7D", &[("accept", "text/html")], "").status, 307);
    let without = serve(Options { playground: false, ..Options::default() });
    assert_eq!(without.send("GET", "/graphql", &[BROWSER], "").status, 400);
}

#[test]
fn there_is_an_icon_whatever_the_settings() {
    for playground in [true, false] {
        let served = serve(Options { playground, ..Options::default() });
        let icon = served.send("GET", "/favicon.ico", &[("accept-encoding", "gzip, br")], "");
        assert_eq!((icon.status, icon.header("content-type")), (200, "image/vnd.microsoft.icon"));
        assert_eq!((icon.header("cache-control"), icon.header("content-encoding")), ("public, max-age=86400", ""));
        // an icon file with two images, each a PNG where the directory says
        assert_eq!(icon.body[..6], [0, 0, 1, 0, 2, 0]);
        for entry in icon.body[6..].chunks(16).take(2) {
            let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize;
            let image = &icon.body[number(12)..][..number(8)];
            assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.ends_with(b"IEND\xaeB`\x82"), "{entry:?}");
        }
        let again = served.send("GET", "/favicon.ico", &[("if-none-match", icon.header("etag"))], "");
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
}

#[test]
fn pages_come_with_and_without_a_slash_at_the_end_under_a_policy_without_inline_scripts() {
    let served = serve(Options::default());
    for path in ["/playground", "/playground/", "/playground/plain", "/playground/plain/"] {
        let response = served.send("GET", path, &[], "");
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(response.header("cache-control"), "no-cache", "{path}");
        assert_eq!(response.header("x-content-type-options"), "nosniff", "{path}");
        let policy = response.header("content-security-policy");
        let rules: Vec<_> = policy.split(';').map(str::trim).collect();
        for rule in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
            assert!(rules.contains(&rule), "{path}: {policy}");
        }
    }
    let plain = served.send("GET", "/playground/plain", &[], "");
    assert!(!plain.header("content-security-policy").contains("unsafe"));
}

#[test]
fn all_that_a_page_names_is_there() {
    let served = serve(Options::default());
    for path in ["/", "/playground", "/playground/plain", "/playground/plain/explorer.html"] {
        let names = named_by(&served.send("GET", path, &[], "").body);
        assert!(names.len() >= 2, "{path}: {names:?}");
        for name in names {
            assert_eq!(served.send("GET", &name, &[], "").status, 200, "{name}");
        }
    }
}

#[test]
fn a_cached_file_is_not_sent_again_and_head_has_no_body() {
    let served = serve(Options::default());
    let path = "/playground/plain/plain.css";
    let whole = served.send("GET", path, &[], "");
    let again = served.send("GET", path, &[("if-none-match", whole.header("etag"))], "");
    assert_eq!((again.status, again.body.len()), (304, 0));

    let head = served.send("HEAD", path, &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-type", "content-length", "etag", "cache-control"] {
        assert_eq!(head.header(name), whole.header(name), "{name}");
    }
}

#[test]
fn nothing_else_is_there() {
    let served = serve(Options::default());
    for path in [
        "/playground/nothing.js",
        "/playground/assets/nothing.js",
        "/playground/plainer",
        "/playground/plain/nothing.js",
        "/playground/plain/%2e%2e/index.html",
        "/playground/%2e%2e/%2e%2e/Cargo.toml",
        "/playground/..%2f..%2fCargo.toml",
        "/playground//etc/passwd",
    ] {
        assert_eq!(served.send("GET", path, &[], "").status, 404, "{path}");
    }
}

#[test]
fn without_the_setting_there_is_no_playground() {
    let served = serve(Options { playground: false, ..Options::default() });
    for path in
        EXPLORER.iter().chain(&["/playground", "/playground/", "/playground/plain", "/playground/plain/plain.css"])
    {
        assert_eq!(served.send("GET", path, &[], "").status, 404, "{path}");
    }
    assert_eq!(served.send("GET", "/health/live", &[], "").status, 200);
}
