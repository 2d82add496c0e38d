//! Its pages over HTTP.

use std::net::SocketAddr;

use bitcoin::Network;
use btcgraph::limits::Limits;
use btcgraph::server::{self, Options, Token, TokenPolicy, Tokens};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use ureq::http::Response;

use crate::support::api::Api;

/// A server over an empty index, which ends with its runtime.
struct Served {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    fn start(options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let schema = Api::empty(Network::Regtest, Limits::default()).schema;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(server::serve(listener, schema, options, CancellationToken::new()));
        Self { address, _runtime: runtime }
    }

    /// The response, redirects not followed.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Vec<u8>> {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = agent.run(request.body(()).unwrap()).unwrap();
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec().unwrap();
        response.map(|_| body)
    }

    fn status(&self, path: &str) -> u16 {
        self.ask("GET", path, &[]).status().as_u16()
    }
}

fn header<'r>(response: &'r Response<Vec<u8>>, name: &str) -> &'r str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
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
    let served = Served::start(Options::default());
    let root = served.ask("GET", "/", &[]);
    for path in EXPLORER {
        let response = served.ask("GET", path, &[BROWSER]);
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(response.body(), root.body(), "{path}");
        let policy = header(&response, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    for path in ["/block", "/block/", "/block/0/1", "/tx", "/wallet/x", "/nothing"] {
        assert_eq!(served.status(path), 404, "{path}");
        let response = served.ask("GET", path, &[BROWSER]);
        assert_eq!((response.status(), response.body()), (404.try_into().unwrap(), root.body()), "{path}");
    }
}

#[test]
fn a_program_without_the_explorer_says_how_to_get_it() {
    let served = Served::start(Options::default());
    let page = served.ask("GET", "/playground/plain/explorer.html", &[]);
    let text = std::str::from_utf8(page.body()).unwrap();
    assert!(text.contains("make playground"), "{text}");
    // the explorer is in the program exactly if GraphiQL is
    let is_built = served.ask("GET", "/playground", &[]).body() != served.ask("GET", "/playground/plain", &[]).body();
    assert_eq!(served.ask("GET", "/", &[]).body() != page.body(), is_built);
}

/// What browsers send when a user opens a URL.
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

#[test]
fn the_endpoint_opened_in_a_browser_leads_to_the_playground() {
    let tokens: Tokens = Token::new("alice", "secret", 0, false).unwrap().to_string().parse().unwrap();
    let token_policy = TokenPolicy { tokens, require_token: true, ..TokenPolicy::default() };
    // the page needs no token, so that a user can enter one there
    for options in [Options::default(), Options { token_policy, ..Options::default() }] {
        let served = Served::start(options);
        for path in ["/graphql", "/graphql?", "/graphql?query=", "/graphql?theme=dark"] {
            let response = served.ask("GET", path, &[BROWSER]);
            assert_eq!((response.status().as_u16(), header(&response, "location")), (307, "/playground"), "{path}");
            assert!(header(&response, "vary").contains("accept"), "{response:?}");
        }
    }
}

#[test]
fn programs_and_queries_at_the_endpoint_are_not_redirected() {
    let served = Served::start(Options::default());
    for accept in ["*/*", "application/json", "application/graphql-response+json", "application/json, text/html"] {
        let response = served.ask("GET", "/graphql", &[("accept", accept)]);
        assert_eq!(response.status(), 400, "{accept}");
        assert!(header(&response, "content-type").contains("json"), "{accept}");
    }
    assert_eq!(served.ask("GET", "/graphql", &[]).status(), 400);
    let query = served.ask("GET", "/graphql?query=%7B__typename%7D", &[BROWSER]);
    assert_eq!((query.status().as_u16(), query.body().as_slice()), (200, &br#"{"data":{"__typename":"Query"}}"#[..]));
    assert_eq!(served.ask("GET", "/graphql?variables=%7B%7D", &[("accept", "text/html")]).status(), 307);
    let without = Served::start(Options { playground: false, ..Options::default() });
    assert_eq!(without.ask("GET", "/graphql", &[BROWSER]).status(), 400);
}

#[test]
fn there_is_an_icon_whatever_the_settings() {
    for playground in [true, false] {
        let served = Served::start(Options { playground, ..Options::default() });
        let icon = served.ask("GET", "/favicon.ico", &[("accept-encoding", "gzip, br")]);
        assert_eq!((icon.status().as_u16(), header(&icon, "content-type")), (200, "image/vnd.microsoft.icon"));
        assert_eq!((header(&icon, "cache-control"), header(&icon, "content-encoding")), ("public, max-age=86400", ""));
        // an icon file with two images, each a PNG where the directory says
        assert_eq!(icon.body()[..6], [0, 0, 1, 0, 2, 0]);
        for entry in icon.body()[6..].chunks(16).take(2) {
            let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize;
            let image = &icon.body()[number(12)..][..number(8)];
            assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.ends_with(b"IEND\xaeB`\x82"), "{entry:?}");
        }
        let again = served.ask("GET", "/favicon.ico", &[("if-none-match", header(&icon, "etag"))]);
        assert_eq!((again.status().as_u16(), again.body().len()), (304, 0));
    }
}

#[test]
fn pages_come_with_and_without_a_slash_at_the_end_under_a_policy_without_inline_scripts() {
    let served = Served::start(Options::default());
    for path in ["/playground", "/playground/", "/playground/plain", "/playground/plain/"] {
        let response = served.ask("GET", path, &[]);
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(header(&response, "cache-control"), "no-cache", "{path}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{path}");
        let policy = header(&response, "content-security-policy");
        let rules: Vec<_> = policy.split(';').map(str::trim).collect();
        for rule in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
            assert!(rules.contains(&rule), "{path}: {policy}");
        }
    }
    let plain = served.ask("GET", "/playground/plain", &[]);
    assert!(!header(&plain, "content-security-policy").contains("unsafe"));
}

#[test]
fn all_that_a_page_names_is_there() {
    let served = Served::start(Options::default());
    for path in ["/", "/playground", "/playground/plain", "/playground/plain/explorer.html"] {
        let names = named_by(served.ask("GET", path, &[]).body());
        assert!(names.len() >= 2, "{path}: {names:?}");
        for name in names {
            assert_eq!(served.status(&name), 200, "{name}");
        }
    }
}

#[test]
fn a_file_that_the_client_has_is_not_sent_again_and_head_tells_of_it_without_it() {
    let served = Served::start(Options::default());
    let path = "/playground/plain/plain.css";
    let whole = served.ask("GET", path, &[]);
    let again = served.ask("GET", path, &[("if-none-match", header(&whole, "etag"))]);
    assert_eq!((again.status().as_u16(), again.body().len()), (304, 0));

    let head = served.ask("HEAD", path, &[]);
    assert_eq!((head.status().as_u16(), head.body().len()), (200, 0));
    for name in ["content-type", "content-length", "etag", "cache-control"] {
        assert_eq!(header(&head, name), header(&whole, name), "{name}");
    }
}

#[test]
fn nothing_else_is_there() {
    let served = Served::start(Options::default());
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
        assert_eq!(served.status(path), 404, "{path}");
    }
}

#[test]
fn without_the_setting_there_is_no_playground() {
    let served = Served::start(Options { playground: false, ..Options::default() });
    for path in
        EXPLORER.iter().chain(&["/playground", "/playground/", "/playground/plain", "/playground/plain/plain.css"])
    {
        assert_eq!(served.status(path), 404, "{path}");
    }
    assert_eq!(served.status("/health/live"), 200);
}
