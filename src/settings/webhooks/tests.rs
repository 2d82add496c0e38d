use std::io::Write;

use super::super::{Platform, Settings, Sources, defaults};
use super::*;

const KEY: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BLOCKS: &str = "name = 'shop'\nurl = 'https://shop.example/x'\nblocks = true\n";
const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";

/// The settings of a file on regtest.
fn load(text: &str) -> Result<Settings, String> {
    load_whole(&format!("network = 'regtest'\n{text}"))
}

fn load_whole(text: &str) -> Result<Settings, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let platform = Platform { home: "/home/alice".into(), data: "/d".into(), node_data: "/n".into(), memory: None };
    let sources = Sources { file: Some(file.path().to_owned()), platform: Some(platform), ..Sources::default() };
    let loaded = Settings::load(&sources);
    loaded.map_err(|error| error.to_string().replace(&file.path().display().to_string(), "FILE"))
}

/// The settings of one hook.
fn hook(text: &str) -> Result<WebhookSettings, String> {
    load(&format!("[[webhook]]\n{text}")).map(|settings| settings.webhook[0].clone())
}

#[test]
fn a_hook_has_the_documented_defaults() {
    let settings = hook(&format!("{BLOCKS}secret = '{KEY}'")).unwrap();
    let hook = settings.to_hook(SigningKeys::parse(KEY).unwrap());
    assert_eq!(
        (hook.name.as_str(), hook.watch, hook.fields, hook.allow_private),
        ("shop", HookWatch::Blocks, None, false)
    );
    let seconds = Duration::from_secs;
    let timing = Timing {
        attempts: 16,
        backoff: seconds(1),
        max_backoff: seconds(3600),
        connect_timeout: seconds(5),
        timeout: seconds(15),
    };
    assert_eq!(hook.timing, timing);
}

#[test]
fn every_setting_of_a_hook_is_documented_with_its_default() {
    let settings = hook(&format!("{BLOCKS}secret_env = 'X'")).unwrap();
    let serde_json::Value::Object(values) = serde_json::to_value(&settings).unwrap() else { panic!("a table") };
    let of_example = ["name", "url", "secret_env", "blocks"];
    let documented = |line: &str| defaults().lines().any(|found| found.strip_prefix("#   ") == Some(line));
    assert!(documented("[[webhook]]"));
    for (name, value) in values {
        if of_example.contains(&name.as_str()) {
            let is_documented = |line: &str| line.starts_with(&format!("#   {name} = "));
            assert!(defaults().lines().any(is_documented), "{name}");
        } else {
            assert!(documented(&format!("{name} = {value}")), "{name} = {value}");
        }
    }
}

#[test]
fn a_hook_of_a_ledger_has_its_watch_list() {
    let descriptor = "wpkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)";
    let text = format!(
        "name = 'a'\nurl = 'http://10.0.0.1:9000/'\nallow_private = true\nsecret_env = 'KEY'\naddresses = ['{ADDRESS}']\n\
         scripts = ['51']\ndescriptors = ['{descriptor}']\ngap_limit = 5\ndepths = [3, 6]\nkinds = ['SEEN']\nfields = 'a'"
    );
    let hook = hook(&text).unwrap().to_hook(SigningKeys::parse(KEY).unwrap());
    let watch = HookWatch::Ledger {
        addresses: vec![ADDRESS.to_owned()],
        scripts: vec!["51".to_owned()],
        descriptors: vec![WatchedDescriptor { text: descriptor.to_owned(), gap_limit: 5 }],
        depths: vec![3, 6],
        kinds: vec!["SEEN".to_owned()],
    };
    assert_eq!((hook.watch, hook.fields.as_deref()), (watch, Some("a")));
}

#[test]
fn a_wrong_hook_is_refused_with_the_setting_and_the_reason() {
    let secret = format!("secret = '{KEY}'\n");
    for (text, refusal) in [
        (BLOCKS.to_owned(), "webhook[0].secret, given by FILE: set exactly one of secret, secret_file and secret_env"),
        (format!("{BLOCKS}{secret}secret_env = 'X'"), "webhook[0].secret, given by FILE: set exactly one of"),
        (format!("{BLOCKS}secret = 'hunter2'"), "webhook[0].secret, given by FILE: a secret is `whsec_`"),
        (format!("{BLOCKS}{secret}addresses = ['{ADDRESS}']"), "webhook[0].blocks, given by FILE: set either blocks"),
        (
            format!("name = 'a'\nurl = 'https://a'\n{secret}"),
            "webhook[0].blocks, given by FILE: set either blocks, or any of addresses, scripts and descriptors",
        ),
        (format!("{BLOCKS}{secret}depths = [1]"), "webhook[0].depths, given by FILE: is for addresses"),
        (format!("{BLOCKS}{secret}attempts = 0"), "webhook[0].attempts, given by FILE: must be from 1 to 1000, not 0"),
        (
            format!("{BLOCKS}{secret}attempts = -1"),
            "webhook[0].attempts, given by FILE: must be from 1 to 1000, not -1",
        ),
        (
            format!("{BLOCKS}{secret}timeout_seconds = 121"),
            "webhook[0].timeout_seconds, given by FILE: must be from 1 to 120",
        ),
        (
            format!("{BLOCKS}{secret}backoff_seconds = 9\nmax_backoff_seconds = 8"),
            "webhook[0].backoff_seconds, given by FILE: must not be longer than max_backoff_seconds",
        ),
        (
            format!("name = 'A b'\nurl = 'https://a'\nblocks = true\n{secret}"),
            "webhook[0].name, given by FILE: must have 1 to 64",
        ),
        (
            format!("name = 'a'\nurl = 'http://a'\nblocks = true\n{secret}"),
            "webhook[0].url, given by FILE: must begin with https",
        ),
        (
            format!("name = 'a'\nurl = 'https://u:hunter2@a'\nblocks = true\n{secret}"),
            "given by FILE: must not contain a user and password",
        ),
        (
            format!("name = 'a'\nurl = 'https://a'\n{secret}addresses = ['1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa']"),
            "webhook[0].addresses, given by FILE: \"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\" is no address of this network: ",
        ),
        (
            format!(
                "name = 'a'\nurl = 'https://a'\n{secret}addresses = ['KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn']"
            ),
            "webhook[0].addresses, given by FILE: \"[a private key]\" is no address of this network: ",
        ),
        (
            format!("name = 'a'\nurl = 'https://a'\n{secret}scripts = ['5']"),
            "webhook[0].scripts, given by FILE: \"5\" is no script",
        ),
        (format!("name = 'a'\nurl = 'https://a'\n{secret}descriptors = ['x']"), "descriptors[0] is wrong: "),
        (
            format!("name = 'a'\nurl = 'https://a'\n{secret}addresses = ['{ADDRESS}']\ndepths = [0]"),
            "webhook[0].depths, given by FILE: each must be from 1 to 2147483647, not 0",
        ),
        (format!("{BLOCKS}{secret}attempts = 1.5"), "webhook[0].attempts, given by FILE: must be a whole number"),
        (format!("{BLOCKS}{secret}attempts = '3'"), "webhook[0].attempts, given by FILE: must be a whole number"),
        (
            format!("{BLOCKS}{secret}allow_private = 'yes'"),
            "webhook[0].allow_private, given by FILE: must be true or false",
        ),
        (format!("{BLOCKS}{secret}fields = 1"), "webhook[0].fields, given by FILE: must be text, in quotes"),
        (format!("{BLOCKS}{secret}kinds = 'SEEN'"), "webhook[0].kinds, given by FILE: must be a list, in brackets"),
        (format!("{BLOCKS}{secret}depths = [1, '2']"), "webhook[0].depths, given by FILE: each must be a whole number"),
        (
            format!("name = 'a'\nurl = 'ftp://a'\nblocks = true\n{secret}"),
            "webhook[0].url, given by FILE: must begin with https://",
        ),
        (
            format!("name = 'a'\nurl = 'https://127.0.0.1/'\nblocks = true\n{secret}"),
            "webhook[0].url, given by FILE: 127.0.0.1 is a private address: set allow_private to connect to it",
        ),
        (format!("{BLOCKS}{secret}colour = 'x'"), "unknown field `colour`"),
        (format!("name = 'a'\n{secret}"), "the setting webhook[0].url, given by FILE: must be set"),
        (
            format!("{BLOCKS}{secret}\n[[webhook]]\n{BLOCKS}{secret}"),
            "webhook[1].name, given by FILE: another webhook has the name \"shop\"",
        ),
    ] {
        let message = hook(&text).unwrap_err();
        assert!(message.contains(refusal), "{text}:\n{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    let many: String = (0..101)
        .map(|number| format!("[[webhook]]\n{BLOCKS}{secret}").replace("shop'", &format!("s{number}'")))
        .collect();
    assert!(load(&many).unwrap_err().contains("webhook, given by FILE: at most 100 are allowed, not 101"));
}

#[test]
fn hooks_come_from_the_file_only() {
    let environment = vec![("BTCGRAPH_WEBHOOK".into(), "[]".into())];
    let error = Settings::load(&Sources { environment, ..Sources::default() }).unwrap_err().to_string();
    let expected = "the setting webhook, given by the environment variable BTCGRAPH_WEBHOOK: must be [[webhook]] tables of a \
                    settings file";
    assert_eq!(error, expected);
    assert!(load("webhook = 'x'").unwrap_err().ends_with("must be [[webhook]] tables of a settings file"));
}

#[test]
fn hooks_are_printed_as_they_are_set_without_their_secrets() {
    let text = format!(
        "[[webhook]]\n{BLOCKS}secret = '{KEY}'\n[[webhook]]\nname = 'b'\nurl = 'https://b/'\nsecret_file = '~/key'\n\
         addresses = ['{ADDRESS}']\ndepths = [6]\nfields = 'a {{ \"b\" }}'"
    );
    let settings = load(&text).unwrap();
    assert_eq!(settings.webhook[1].secret_file, std::path::Path::new("/home/alice/key"));
    let printed = settings.to_documented_toml().unwrap();
    for line in ["[[webhook]]", "name = \"shop\"", "url = \"https://shop.example/********\"", "secret = \"********\""] {
        assert!(printed.lines().any(|found| found == line), "{line} in:\n{printed}");
    }
    assert!(!printed.contains("whsec_AAEC") && !format!("{settings:?}").contains("whsec_AAEC"));
    let refused = load_whole(&printed).unwrap_err();
    assert!(refused.starts_with("the setting webhook[0].secret, given by FILE: a secret is"), "{refused}");
    let again = load_whole(&printed.replace("secret = \"********\"", &format!("secret = \"{KEY}\""))).unwrap();
    assert_eq!((&again.webhook[1], &again.node), (&settings.webhook[1], &settings.node));
}
