//! What packages have beside the program: man pages, completions, the service, its settings, the images.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::tools::tool;

fn btcgraph(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_btcgraph")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn printed(arguments: &[&str]) -> String {
    String::from_utf8(btcgraph(arguments).stdout).unwrap()
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap()
}

/// The flags in the help of a command: each line begins with them.
fn flags(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2));
    words.filter(|word| word.starts_with("--")).map(|word| word.trim_end_matches(',').to_owned()).collect()
}

/// The commands with their flags, as `--help` lists them, those of a command as `webhook resend`; under the empty name the
/// program's own.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    let (mut commands, mut open) = (BTreeMap::new(), vec![String::new()]);
    while let Some(command) = open.pop() {
        let words: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let help = printed(&words);
        let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        let names = list.lines().map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help");
        open.extend(names.map(|name| format!("{command} {name}").trim().to_owned()));
        commands.insert(command, flags(&help));
    }
    assert!(commands.len() > 12 && commands["drain"].contains("--undo"), "{commands:?}");
    commands
}

#[test]
fn man_pages_name_every_command_and_flag() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("man1");
    btcgraph(&["man", "--to", to.to_str().unwrap()]);
    let commands = commands();
    let page_of = |name: &str| format!("btcgraph {name}").trim().replace(' ', "-") + ".1";
    let expected: BTreeSet<_> = commands.keys().map(|name| page_of(name)).collect();
    let pages: BTreeSet<_> =
        std::fs::read_dir(&to).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(pages, expected);
    for (name, flags) in &commands {
        let page = std::fs::read_to_string(to.join(page_of(name))).unwrap().replace("\\-", "-");
        let missing: Vec<_> = flags.iter().filter(|flag| !page.contains(&format!("{flag}\\fR"))).collect();
        assert!(missing.is_empty(), "the page of {name:?} lacks {missing:?}");
    }
    let main = std::fs::read_to_string(to.join("btcgraph.1")).unwrap().replace("\\-", "-");
    for name in commands.keys().filter(|name| !name.is_empty() && !name.contains(' ')) {
        assert!(main.contains(&format!("btcgraph-{name}(1)")), "{name}");
    }
    assert!(main.contains("the node cannot be reached, refuses, or is on another network"), "exit codes");
    let Some(groff) = tool("groff") else { return };
    for page in pages {
        let output = Command::new(&groff).args(["-man", "-ww", "-z", "-Tutf8"]).arg(to.join(&page)).output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{page}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Runs a line of a shell.
fn shell(program: &Path, line: &str) -> String {
    let output = Command::new(program).args(["-c", line]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_complete_every_command_and_flag() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", name]);
        for (command, flags) in commands() {
            let missing = flags.iter().map(|flag| flag.trim_start_matches('-')).find(|flag| !script.contains(flag));
            let is_known = command.split(' ').all(|word| script.contains(word));
            assert!(is_known && missing.is_none(), "{name} lacks {command} {missing:?}");
        }
        let path = directory.path().join(name);
        std::fs::write(&path, script).unwrap();
        let (path, Some(program)) = (path.display(), tool(name)) else { continue };
        let complete = match name {
            "bash" => format!(
                "source {path} && COMP_WORDS=(btcgraph drain --un) COMP_CWORD=2 && _btcgraph btcgraph --un drain && \
                 echo ${{COMPREPLY[@]}}"
            ),
            "fish" => format!("source {path}; complete -C 'btcgraph drain --un'"),
            // its completion needs a terminal
            _ => format!("zsh -n {path} && grep --only-matching -e --undo {path} | head -n 1"),
        };
        assert_eq!(shell(&program, &complete).split_whitespace().next(), Some("--undo"), "{name}");
    }
}

/// The values of a key of the unit file.
fn unit(key: &str) -> Vec<String> {
    let unit = text("packaging/btcgraph.service");
    let values = unit.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| *name == key);
    values.map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn the_service_starts_the_program_as_it_is() {
    let [start] = <[String; 1]>::try_from(unit("ExecStart")).unwrap();
    let words: Vec<_> = start.split(' ').collect();
    assert_eq!(words[..2], ["/usr/bin/btcgraph", "serve"]);
    let known = &commands()["serve"];
    let unknown: Vec<_> = words.iter().filter(|word| word.starts_with('-') && !known.contains(**word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // each file is where the package installs it
    let manifest = text("Cargo.toml");
    for installed in ["usr/bin/", "etc/btcgraph/btcgraph.toml"] {
        assert!(manifest.contains(&format!("\"{installed}\"")), "{installed}");
    }
    assert!(manifest.contains("maintainer-scripts = \"packaging\""), "where its service and its user are");
    assert!(start.ends_with("--config /etc/btcgraph/btcgraph.toml"), "{start}");
    assert!(
        text("packaging/btcgraph.toml").contains(&format!("data_dir = \"/var/lib/{}\"", unit("StateDirectory")[0]))
    );
    assert!(text("packaging/btcgraph.sysusers").starts_with(&format!("u {} ", unit("User")[0])));
}

#[test]
fn the_settings_of_the_service_are_valid_also_those_in_comments() {
    let directory = tempfile::tempdir().unwrap();
    let settings = text("packaging/btcgraph.toml");
    // a comment has a blank behind its sign, a setting none
    let all: Vec<_> = settings
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| rest.starts_with(char::is_alphabetic)).unwrap_or(line))
        .collect();
    assert_ne!(all.join("\n"), settings.trim_end());
    for text in [settings.clone(), all.join("\n")] {
        let path = directory.path().join("btcgraph.toml");
        std::fs::write(&path, text).unwrap();
        let effective = printed(&["config", "--config", path.to_str().unwrap()]);
        assert!(effective.contains("data_dir = \"/var/lib/btcgraph\""), "{effective}");
    }
}

#[test]
fn systemd_accepts_the_service_and_its_exposure_is_small() {
    let Some(analyze) = tool("systemd-analyze") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("btcgraph.service");
    let program = env!("CARGO_BIN_EXE_btcgraph");
    std::fs::write(&path, text("packaging/btcgraph.service").replace("/usr/bin/btcgraph", program)).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(&analyze).args(arguments).arg(&path).output().unwrap();
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), printed)
    };
    let (is_valid, printed) = run(&["verify", "--man=no"]);
    assert!(is_valid && printed.concat().is_empty(), "{printed:?}");
    // of 10, in tenths
    let (is_hardened, printed) = run(&["security", "--offline=true", "--threshold=20"]);
    assert!(is_hardened, "{}", printed.concat());
}

/// The stages of the image and what is copied from where.
#[test]
fn the_image_copies_what_exists_and_runs_as_no_root() {
    let (dockerfile, ignored) = (text("Dockerfile").replace("\\\n", " "), text(".dockerignore"));
    let mut stages = BTreeSet::new();
    for line in dockerfile.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["FROM", _, "AS", name] => assert!(stages.insert(name.to_owned()), "{name}"),
            ["COPY", from, ..] if from.starts_with("--from=") => {
                assert!(stages.contains(from.trim_start_matches("--from=")), "{line}");
            }
            ["COPY", ..] => {
                for source in &words[1..words.len() - 1] {
                    assert!(file(source).exists(), "{source} of {line}");
                    let top = source.split('/').next().unwrap();
                    let is_sent = ignored.lines().any(|kept| {
                        kept.strip_prefix('!').is_some_and(|kept| {
                            kept == *source || kept.trim_end_matches('/') == top || source.starts_with(kept)
                        })
                    });
                    assert!(is_sent, "{source} of {line} is in .dockerignore");
                }
            }
            _ => {}
        }
    }
    assert_eq!(stages.len(), 2);
    // an older or newer compiler would first load the one that the toolchain file names
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    for line in [format!("FROM rust:{channel}-slim-bookworm AS build"), format!("ENV RUSTUP_TOOLCHAIN={channel}")] {
        assert!(dockerfile.lines().any(|found| found == line), "{line}");
    }
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    for line in ["USER 65532:65532", "ENTRYPOINT [\"btcgraph\"]", "VOLUME /data"] {
        assert!(last.lines().any(|found| found == line), "{line} in {last}");
    }
    let known = commands();
    for line in last.lines().filter(|line| line.starts_with("CMD ") || line.trim_start().starts_with("CMD [")) {
        let words: Vec<_> = line.split('"').skip(1).step_by(2).filter(|word| *word != "btcgraph").collect();
        let flags = &known[words[0]];
        assert!(words[1..].iter().all(|word| !word.starts_with('-') || flags.contains(*word)), "{line}");
    }
}
