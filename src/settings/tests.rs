//! What the settings promise, through [`Settings::load`] as `main` uses it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::Network;

use super::*;
use crate::limits::Limits;
use crate::server::{Hosts, Origins, Tokens, TrustedProxies};

fn platform() -> Platform {
    Platform {
        home: "/home/alice".into(),
        data: "/home/alice/data/btcgraph".into(),
        node_data: "/home/alice/core".into(),
        memory: Some(ByteSize::new(16 << 30)),
    }
}

fn sources() -> Sources {
    Sources { platform: Some(platform()), ..Sources::default() }
}

fn with_environment(variables: &[(&str, &str)]) -> Sources {
    Sources { environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(), ..sources() }
}

fn with_flag(name: &'static str, setting: &'static str, value: &str) -> Sources {
    Sources { flags: vec![Flag { name, setting, value: value.to_owned() }], ..sources() }
}

/// Loads settings from a file of this text.
fn load_file(text: &str) -> Result<Settings, SettingsError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Settings::load(&Sources { file: Some(file.path().to_owned()), ..sources() })
}

/// The message of an error with those of its causes.
fn message(result: Result<Settings, SettingsError>) -> String {
    let error = result.expect_err("the settings are refused");
    let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

#[test]
fn without_any_source_the_defaults_apply() {
    let expected = Settings {
        network: Network::Bitcoin,
        data_dir: "/home/alice/data/btcgraph".into(),
        webhook: Vec::new(),
        node: NodeSettings {
            rpc_url: "http://127.0.0.1:8332".to_owned(),
            rpc_cookie: "/home/alice/core/.cookie".into(),
            rpc_user: String::new(),
            rpc_password: Secret::default(),
            blocks_dir: "/home/alice/core/blocks".into(),
            zmq: String::new(),
            timeout_seconds: 60,
            patience_seconds: 60,
            connections: 4,
            poll_seconds: 1,
        },
        index: IndexSettings {
            raw_transactions: RawTransactions::Auto,
            memory: ByteSize::new(1 << 30),
            temporary_dir: "/home/alice/data/btcgraph/mainnet".into(),
            freeze_depth: 6,
            freeze_every: 1000,
            freeze_transactions: 20_000,
            stale_blocks: 1000,
            reorgs: 1000,
            first_seen: 100_000_000,
            observed_blocks: 50_000,
            pools_file: PathBuf::new(),
            wtxids: false,
            address_prefixes: false,
            op_returns: false,
            block_filters: false,
            salt: Salt::Random,
        },
        sync: SyncSettings { lost_block_seconds: 600 },
        mempool: MempoolSettings {
            departed: 20_000,
            departed_bytes: ByteSize::new(32 << 20),
            events: 100_000,
            history_days: 400,
            block_weight: 3_992_000,
        },
        server: ServerSettings {
            listen: ListenAddress::Ip(([127, 0, 0, 1], 8080).into()),
            port_file: PathBuf::new(),
            playground: true,
            origins: Origins::default(),
            hosts: Hosts::default(),
            trusted_proxies: TrustedProxies::default(),
            tokens: Tokens::default(),
            allowed_operations: PathBuf::new(),
            require_token: false,
            anonymous_cost_per_minute: 0,
            anonymous_broadcast: true,
            metrics: false,
            ready_blocks: 1,
            ready_seconds: 30,
            block_template: false,
            limit_loopback: false,
        },
        api: ApiSettings { broadcast: false },
        rates: RatesSettings {
            file: PathBuf::new(),
            url: None,
            refresh_seconds: 3_600,
            allow_private: false,
            max_age_seconds: 172_800,
        },
        publish: PublishSettings { keep_days: 7 },
        admin: AdminSettings { listen: AdminAddress::default_in(Path::new("/home/alice/data/btcgraph/mainnet")) },
        log: LogSettings { format: LogFormat::Human, filter: "info".to_owned() },
        limits: Limits::default(),
    };
    let settings = Settings::load(&sources()).unwrap();
    assert_eq!(settings, expected);
    assert_eq!(settings.index_file(), Path::new("/home/alice/data/btcgraph/mainnet/index.redb"));
    assert_eq!(settings.node.auth(), NodeAuth::Cookie("/home/alice/core/.cookie".into()));
    assert_eq!(settings.server.port_file(), None);
}

#[test]
fn a_later_source_wins_over_an_earlier_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[server]\nmax_depth = 1\nmax_tokens = 1\nmax_nesting = 1\n").unwrap();
    let loaded = Settings::load(&Sources {
        file: Some(file.path().to_owned()),
        flags: vec![Flag { name: "--depth", setting: "server.max_depth", value: "3".to_owned() }],
        ..with_environment(&[("BTCGRAPH_SERVER__MAX_DEPTH", "2"), ("BTCGRAPH_SERVER__MAX_TOKENS", "2")])
    })
    .unwrap();
    let limits = loaded.limits;
    assert_eq!((limits.depth, limits.tokens, limits.nesting, limits.aliases), (3, 2, 1, 100));
}

#[test]
fn the_networks_port_cookie_and_folder_follow_the_network() {
    for (name, port, folder) in
        [("testnet4", 48332, "testnet4"), ("signet", 38332, "signet"), ("regtest", 18443, "regtest")]
    {
        let settings = Settings::load(&with_flag("--network", "network", name)).unwrap();
        assert_eq!(settings.node.rpc_url, format!("http://127.0.0.1:{port}"));
        assert_eq!(settings.node.rpc_cookie, Path::new("/home/alice/core").join(folder).join(".cookie"));
        assert_eq!(settings.network_dir(), Path::new("/home/alice/data/btcgraph").join(name));
    }
}

#[test]
fn a_leading_tilde_is_the_home_directory_in_every_path() {
    let file = "data_dir = '~/a'\nnode.rpc_cookie = '~/b'\nserver.port_file = '~/c'\nadmin.listen = '~/d'\n\
                node.blocks_dir = '~/e'\nindex.temporary_dir = '~/f'";
    let settings = load_file(file).unwrap();
    assert_eq!(settings.data_dir, Path::new("/home/alice/a"));
    assert_eq!(settings.node.rpc_cookie, Path::new("/home/alice/b"));
    assert_eq!(settings.server.port_file(), Some(Path::new("/home/alice/c")));
    assert_eq!(settings.admin.listen, AdminAddress::Unix("/home/alice/d".into()));
    assert_eq!(settings.node.blocks_dir(), Some(Path::new("/home/alice/e")));
    assert_eq!(settings.index.temporary_dir, Path::new("/home/alice/f"));
}

#[test]
fn the_block_files_are_beside_the_cookie_of_a_local_node() {
    let blocks = |file| load_file(file).unwrap().node.blocks_dir().map(Path::to_owned);
    let found = |path: &str| Some(PathBuf::from(path));
    assert_eq!(blocks("network = 'signet'"), found("/home/alice/core/signet/blocks"));
    assert_eq!(blocks("node.rpc_cookie = '/srv/bitcoin/.cookie'"), found("/srv/bitcoin/blocks"));
    let user = "node.rpc_user = 'u'\nnode.rpc_password = 'p'\nnetwork = 'regtest'";
    assert_eq!(blocks(user), found("/home/alice/core/regtest/blocks"));
    let remote = "node.rpc_url = 'http://10.0.0.2:8332'";
    assert_eq!(blocks(remote), None);
    assert_eq!(blocks(&format!("{remote}\nnode.blocks_dir = '/mnt/blocks'")), found("/mnt/blocks"));
}

#[cfg(unix)]
#[test]
fn the_admin_socket_is_beside_the_index_unless_it_is_set() {
    let socket = |file| load_file(file).unwrap().admin.listen;
    let unix = |path: &str| AdminAddress::Unix(path.into());
    assert_eq!(socket("network = 'signet'\ndata_dir = '/d'"), unix("/d/signet/admin.sock"));
    assert_eq!(socket("admin.listen = './btcgraph.sock'"), unix("./btcgraph.sock"));
    assert_eq!(socket("admin.listen = '127.0.0.1:81'"), AdminAddress::Tcp(([127, 0, 0, 1], 81).into()));
    assert_eq!(socket("admin.listen = '[::1]:81'").to_string(), "[::1]:81");
    let settings = load_file("data_dir = '/d'\nadmin.listen = ''").unwrap();
    let printed = settings.to_documented_toml().unwrap();
    assert!(printed.contains("\n[admin]\n") && printed.contains("\nlisten = \"/d/mainnet/admin.sock\"\n"), "{printed}");
}

#[test]
fn an_admin_socket_must_be_local_and_have_a_fixed_port() {
    for (listen, reason) in [
        ("0.0.0.0:8081", "0.0.0.0:8081 can be reached from other machines"),
        ("192.168.1.5:8081", "192.168.1.5:8081 can be reached from other machines"),
        ("[::]:8081", "[::]:8081 can be reached from other machines"),
        ("127.0.0.1:0", "127.0.0.1:0 is another port at each start"),
        ("localhost:8081", "\"localhost:8081\" is neither"),
        ("8081", "\"8081\" is neither"),
        ("admin.sock", "\"admin.sock\" is neither"),
    ] {
        let message = message(Settings::load(&with_flag("--admin", "admin.listen", listen)));
        let expected = format!("the setting admin.listen, given by --admin: {reason}");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("127.0.0.1:8081"), "it says what would do: {message}");
    }
}

#[test]
fn where_the_node_publishes_is_unknown_unless_it_is_set() {
    let zmq = |file| load_file(file).map(|settings| settings.node.zmq().map(str::to_owned));
    assert_eq!(zmq("").unwrap(), None);
    assert_eq!(zmq("node.zmq = 'tcp://node:28332'").unwrap().as_deref(), Some("tcp://node:28332"));
    let message = message(load_file("node.zmq = 'ipc:///run/node.sock'"));
    assert!(message.contains("the setting node.zmq") && message.contains("tcp://host:port"), "{message}");
}

#[test]
fn a_user_and_password_take_the_cookies_place() {
    let settings = load_file("node.rpc_user = 'alice'\nnode.rpc_password = '007'").unwrap();
    assert_eq!(settings.node.rpc_cookie, Path::new(""));
    assert_eq!(settings.node.auth(), NodeAuth::Password("alice".to_owned(), "007".into()));
    let both = load_file("node.rpc_user = 'alice'\nnode.rpc_password = 'x'\nnode.rpc_cookie = '/c'");
    assert!(message(both).ends_with("set only one of them"));
    assert!(message(load_file("node.rpc_user = 'alice'")).ends_with("set node.rpc_password too"));
    assert!(message(load_file("node.rpc_password = 'x'")).ends_with("set node.rpc_user too"));
}

#[test]
fn a_password_of_digits_stays_as_it_is() {
    let sources = with_environment(&[("BTCGRAPH_NODE__RPC_USER", "u"), ("BTCGRAPH_NODE__RPC_PASSWORD", "0123")]);
    assert_eq!(Settings::load(&sources).unwrap().node.rpc_password.expose(), "0123");
}

#[test]
fn a_misspelled_setting_is_reported_with_a_suggestion() {
    let sources = with_environment(&[("BTCGRAPH_NODE__RCP_URL", "x")]);
    assert_eq!(
        message(Settings::load(&sources)),
        "there is no setting \"node.rcp_url\" (given by the environment variable BTCGRAPH_NODE__RCP_URL); \
         did you mean \"node.rpc_url\"?"
    );
    assert!(message(load_file("rpc_url = 'http://a'")).ends_with("; did you mean \"node.rpc_url\"?"));
    let refusal = message(load_file("[nothing_like_it]"));
    assert!(refusal.starts_with("there is no setting \"nothing_like_it\" (given by /"), "{refusal}");
}

#[test]
fn variables_that_are_not_settings_are_left_alone() {
    let sources = with_environment(&[
        ("BTCGRAPH_SKIPS", "/tmp/skips"),
        ("BTCGRAPH_GIT_COMMIT", "abc"),
        ("BTC", "x"),
        ("PATH", "/bin"),
    ]);
    assert!(Settings::load(&sources).is_ok());
}

#[test]
fn an_invalid_value_is_refused_with_setting_and_origin() {
    for (file, refusal) in [
        ("network = 'main'", "network, given by FILE: there is no network named \"main\""),
        ("network = 1", "network, given by FILE: must be text, in quotes"),
        ("node.timeout_seconds = '60'", "node.timeout_seconds, given by FILE: must be a whole number"),
        ("node.timeout_seconds = 1.5", "node.timeout_seconds, given by FILE: must be a whole number"),
        ("node.timeout_seconds = 0", "node.timeout_seconds, given by FILE: must be from 1 to 3600, not 0"),
        ("node.timeout_seconds = -1", "node.timeout_seconds, given by FILE: must be from 1 to 3600, not -1"),
        (
            "node.patience_seconds = 4294967296",
            "node.patience_seconds, given by FILE: must be from 0 to 86400, not 4294967296",
        ),
        ("node.poll_seconds = 0", "node.poll_seconds, given by FILE: must be from 1 to 86400, not 0"),
        ("node.connections = true", "node.connections, given by FILE: must be a whole number"),
        ("node.rpc_url = 'https://a'", "node.rpc_url, given by FILE: must begin with http://"),
        ("sync.lost_block_seconds = -1", "sync.lost_block_seconds, given by FILE: must be from 0 to 31536000, not -1"),
        ("index.memory = '1G'", "index.memory, given by FILE: \"1G\" is not a size"),
        ("index.memory = '1kB'", "index.memory, given by FILE: must be from 1MiB to 16GiB, not 1kB"),
        ("index.salt = '00'", "index.salt, given by FILE: a salt is 16 bytes in hex"),
        ("index.raw_transactions = 'x'", "index.raw_transactions, given by FILE: must be one of auto, index, node"),
        ("server.listen = 'localhost'", "server.listen, given by FILE: \"localhost\" has no port: write"),
        ("server.origins = 'a.example'", "server.origins, given by FILE: \"a.example\" is not an origin"),
        ("server.hosts = 'a:80'", "server.hosts, given by FILE: \"a:80\" is not a host"),
        ("server.trusted_proxies = 'a'", "server.trusted_proxies, given by FILE: \"a\" is not an address"),
        ("server.max_body = '0B'", "server.max_body, given by FILE: must be from 1B to 1GiB, not 0B"),
        ("server.max_page_size = 5000", "server.max_page_size, given by FILE: must be from 1 to 1000, not 5000"),
        ("server.max_ids = -1", "server.max_ids, given by FILE: must be from 1 to 1000000, not -1"),
        ("server.ready_blocks = -1", "server.ready_blocks, given by FILE: must be from 0 to 4294967295, not -1"),
        ("index.reorgs = 99999999999", "index.reorgs, given by FILE: must be from 0 to 1000000, not 99999999999"),
        ("server.timeout_seconds = 0", "server.timeout_seconds, given by FILE: must be from 1 to 86400 seconds, not 0"),
        ("cache.depth = 0", "cache.depth, given by FILE: must be from 1 to 1000000, not 0"),
        ("log.format = 'xml'", "log.format, given by FILE: must be one of human, json"),
        ("[[server]]", "there is no setting \"server\" (given by FILE)"),
        ("node = 'x'", "there is no setting \"node\" (given by FILE)"),
        ("[noed]", "there is no setting \"noed\" (given by FILE)"),
    ] {
        let message = message(load_file(file));
        let (before, after) = refusal.split_once("FILE").unwrap();
        assert!(message.contains(before) && message.contains(after), "{file}: {message}");
    }
    let flag = with_flag("--listen", "server.listen", "8080");
    assert!(message(Settings::load(&flag)).starts_with("the setting server.listen, given by --listen: "));
    let variable = with_environment(&[("BTCGRAPH_SERVER__MAX_DEPTH", "deep")]);
    assert_eq!(
        message(Settings::load(&variable)),
        "the setting server.max_depth, given by the environment variable BTCGRAPH_SERVER__MAX_DEPTH: \
         must be a whole number"
    );
}

#[test]
fn a_section_may_be_empty() {
    assert_eq!(load_file("[node]\n#rpc_url = ''\n[server]\n").unwrap(), load_file("").unwrap());
}

#[test]
fn the_node_is_asked_twice_before_its_silence_is_too_long() {
    let poll = |file: &str| load_file(file).unwrap().poll();
    assert_eq!(poll(""), Duration::from_secs(1));
    assert_eq!(poll("node.poll_seconds = 3600"), Duration::from_secs(15));
    assert_eq!(poll("node.poll_seconds = 3600\nserver.ready_seconds = 1"), Duration::from_millis(500));
    assert_eq!(poll("node.poll_seconds = 3600\nserver.ready_seconds = 7201"), Duration::from_hours(1));
}

#[test]
fn a_number_out_of_bounds_is_refused_with_what_it_may_be() {
    // every number of the defaults outside of [server], with the least and the most that it may be
    let bounds = [
        ("node.timeout_seconds", "1", "3600"),
        ("node.patience_seconds", "0", "86400"),
        ("node.connections", "1", "256"),
        ("node.poll_seconds", "1", "86400"),
        ("index.memory", "'1MiB'", "'16GiB'"),
        ("index.freeze_depth", "0", "100000"),
        ("index.freeze_every", "1", "100000"),
        ("index.freeze_transactions", "1", "4294967295"),
        ("index.stale_blocks", "0", "1000000"),
        ("index.reorgs", "0", "1000000"),
        ("index.first_seen", "0", "4000000000"),
        ("index.observed_blocks", "0", "10000000"),
        ("sync.lost_block_seconds", "0", "31536000"),
        ("mempool.departed", "0", "10000000"),
        ("mempool.departed_bytes", "'0B'", "'16GiB'"),
        ("mempool.events", "0", "10000000"),
        ("mempool.history_days", "0", "36500"),
        ("mempool.block_weight", "4000", "4000000"),
        ("rates.refresh_seconds", "60", "86400"),
        ("rates.max_age_seconds", "1", "4294967295"),
        ("publish.keep_days", "1", "3650"),
    ];
    let mut section = "";
    let mut numbers = Vec::new();
    for line in defaults().lines().filter(|line| !line.starts_with('#')) {
        section = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).unwrap_or(section);
        let Some((name, value)) = line.split_once(" = ") else { continue };
        if !["server", "cache"].contains(&section)
            && value.trim_start_matches('"').starts_with(|first: char| first.is_ascii_digit())
        {
            numbers.push(format!("{section}.{name}"));
        }
    }
    assert_eq!(numbers, bounds.map(|(setting, ..)| setting));

    for (setting, least, most) in bounds {
        for value in [least, most] {
            assert!(load_file(&format!("{setting} = {value}")).is_ok(), "{setting} = {value}");
        }
        let beyond = |value: &str, step: i64| match value.strip_prefix('\'') {
            Some(size) => {
                let bytes = size.trim_end_matches('\'').parse::<ByteSize>().unwrap().to_bytes();
                bytes.checked_add_signed(step).map(|bytes| format!("'{bytes}B'"))
            }
            None => value.parse::<u64>().unwrap().checked_add_signed(step).map(|number| number.to_string()),
        };
        for value in [beyond(least, -1), beyond(most, 1)].into_iter().flatten() {
            let message = message(load_file(&format!("{setting} = {value}")));
            let [least, most] = [least, most].map(|bound| bound.trim_matches('\''));
            let value = value.trim_matches('\'').parse::<ByteSize>().map_or(value.clone(), |size| size.to_string());
            assert!(message.starts_with(&format!("the setting {setting}, given by /")), "{message}");
            assert!(message.ends_with(&format!("must be from {least} to {most}, not {value}")), "{message}");
        }
    }
    let unknown = Sources {
        platform: Some(Platform { memory: None, ..platform() }),
        ..with_flag("--memory", "index.memory", "900TiB")
    };
    assert_eq!(
        message(Settings::load(&unknown)),
        "the setting index.memory, given by --memory: must be from 1MiB to 1TiB, not 900TiB"
    );
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_named() {
    let absent = Sources { file: Some("/nowhere/btcgraph.toml".into()), ..sources() };
    assert!(message(Settings::load(&absent)).starts_with("cannot read the settings file /nowhere/btcgraph.toml: "));
    let broken = message(load_file("[node]\npatience_seconds = "));
    assert!(broken.contains("is not TOML") && broken.contains("line 2"), "{broken}");
}

#[test]
fn without_a_home_directory_only_what_needs_one_has_to_be_set() {
    let homeless = |flags: &[(&'static str, &str)]| {
        let flags =
            flags.iter().map(|&(setting, value)| Flag { name: "--flag", setting, value: value.to_owned() }).collect();
        Settings::load(&Sources { flags, ..Sources::default() })
    };
    assert!(message(homeless(&[])).contains("data_dir"));
    assert!(message(homeless(&[("data_dir", "/d")])).contains("node.rpc_cookie"));
    assert!(homeless(&[("data_dir", "/d"), ("node.rpc_cookie", "/c")]).is_ok());
}

#[test]
fn secrets_are_in_no_output() {
    let settings = load_file("node.rpc_user = 'alice'\nnode.rpc_password = 'hunter2'").unwrap();
    for output in [
        format!("{settings:?}"),
        format!("{:?}", settings.node.auth()),
        settings.to_documented_toml().unwrap(),
        message(load_file("[node]\nrpc_password = hunter2")),
        message(load_file("[node]\nrpc_password = ['hunter2']")),
        message(load_file("[node]\nrpc_url = 'http://alice:hunter2@localhost:8332'")),
        message(load_file("[node]\nrpc_user = 'a'\nrpc_cookie = '/c'\nrpc_password = 'hunter2'")),
    ] {
        assert!(!output.contains("hunter2"), "{output}");
    }
}

#[test]
fn the_printed_file_gives_the_same_settings() {
    let given = "network = 'signet'\ndata_dir = '/a \"b\" \\ c'\n[server]\nmax_depth = 7\nmax_query = '1kB'\n\
                 [index]\nsalt = '000102030405060708090a0b0c0d0e0f'\n[log]\nformat = 'json'";
    let settings = load_file(given).unwrap();
    let printed = settings.to_documented_toml().unwrap();
    assert_eq!(load_file(&printed).unwrap(), settings);

    let comments =
        |text: &str| text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(comments(&printed), comments(defaults()));
}

#[test]
fn every_setting_is_documented() {
    let mut documented = false;
    for line in defaults().lines() {
        match line {
            "" => documented = false,
            line if line.starts_with('#') => documented = true,
            line => assert!(documented, "`{line}` has no comment before it"),
        }
    }
}
