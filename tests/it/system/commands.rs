//! The `btcgraph` binary as a shell sees it: what it prints where, and how it exits.

use std::path::Path;
use std::process::{Command, Output};

/// The binary, without the settings of the user who runs the tests.
fn btcgraph(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    command
}

fn run(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    btcgraph(home.path()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn config_prints_the_values_in_effect_with_their_documentation() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("btcgraph.toml");
    std::fs::write(&file, "[node]\nrpc_user = 'alice'\nrpc_password = 'hunter2'\ntimeout_seconds = 7\n").unwrap();
    let output = btcgraph(home.path())
        .args(["config", "--network", "regtest", "--config"])
        .arg(&file)
        .env("BTCGRAPH_SERVER__MAX_DEPTH", "9")
        .output()
        .unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    let printed = text(&output.stdout);
    for line in [
        "# The network to follow: mainnet, testnet3, testnet4, signet or regtest. The node must follow the same one.",
        "network = \"regtest\"",
        "rpc_url = \"http://127.0.0.1:18443\"",
        "rpc_password = \"********\"",
        "timeout_seconds = 7",
        "max_depth = 9",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} in:\n{printed}");
    }
    assert!(!printed.contains("hunter2"));
}

#[test]
fn config_prints_the_defaults_even_if_the_settings_are_wrong() {
    let output = run(&["config", "--defaults", "--network", "nonsense"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), btcgraph::settings::defaults());
}

#[test]
fn wrong_settings_exit_with_2_and_name_the_error_on_stderr() {
    let output = run(&["serve", "--memory", "plenty"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let reported = text(&output.stderr);
    assert!(
        reported.starts_with("btcgraph: the setting index.memory, given by --memory: \"plenty\" is not a size"),
        "{reported}"
    );

    let output = run(&["serve", "--config", "/nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let reported = text(&output.stderr);
    assert!(reported.starts_with("btcgraph: cannot read the settings file /nowhere.toml\n  because: "), "{reported}");
}

#[test]
fn an_invalid_pools_file_exits_with_2_and_names_the_entry() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("pools.json");
    let run = |content: &str| {
        std::fs::write(&file, content).unwrap();
        let mut command = btcgraph(home.path());
        command.args(["serve", "--network", "regtest"]).env("BTCGRAPH_INDEX__POOLS_FILE", &file);
        command.output().unwrap()
    };
    let reason = |entry: &str| {
        let file = file.display();
        format!("btcgraph: the setting index.pools_file is wrong: {file}\n  because: {entry}\n")
    };
    let output =
        run(r#"[{ "name": "A", "addresses": [], "tags": ["/a/"] }, { "name": "B", "addresses": ["x"], "tags": [] }]"#);
    assert_eq!(output.status.code(), Some(2));
    let reported = text(&output.stderr);
    let error = "the address is cut short: it ends after 1 of its characters";
    assert_eq!(reported, reason(&format!("entry 2 (\"B\"): the address \"x\" is invalid: {error}")));
    let output = run("{}");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), reason("it must be a JSON array of at most 50000 pools"));
    assert!(!home.path().join(".local").exists(), "the index is opened after the settings are read");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for arguments in [&["no-such-command"][..], &["config", "--no-such-flag"], &[]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn help_lists_the_commands_flags_and_exit_codes() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for part in ["serve", "import", "verify", "notify", "config", "--rpc-cookie <PATH>", "Exit codes:"] {
        assert!(help.contains(part), "{part} in:\n{help}");
    }
}

#[test]
fn the_exit_codes_of_the_help_are_those_of_the_operations_page() {
    let output = run(&["--help"]);
    let help = text(&output.stdout);
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    assert!(codes.lines().count() >= 7, "{codes}");
    let page = include_str!("../../../docs/operations.md");
    assert!(page.contains(&format!("```\n{}\n```", codes.trim_end())), "{codes}");
}
