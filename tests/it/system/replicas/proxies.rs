//! HAProxy and nginx with the configurations of the repository, for the addresses of a test.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{PATIENCE, configuration, run, status};
use crate::support::bitcoind::{free_port, wait_for};
use crate::support::tools::tool;

/// A running proxy, killed when dropped.
pub(super) struct Proxy {
    process: Child,
    pub(super) address: String,
    _directory: TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// HAProxy in front of three replicas, or of fewer; `None`, and a line in the skips, without HAProxy.
#[track_caller]
pub(super) fn haproxy(replicas: &[&str]) -> Option<Proxy> {
    // as many as an ordinary user may have files open
    haproxy_for(replicas, 200)
}

/// HAProxy for so many connections, each of which takes two files.
#[track_caller]
pub(super) fn haproxy_for(replicas: &[&str], connections: usize) -> Option<Proxy> {
    let named = replicas.iter().zip(1..).map(|(address, number)| (format!("BTCGRAPH_REPLICA{number}"), *address));
    let mut variables: BTreeMap<_, _> = named.map(|(name, address)| (name, address.to_owned())).collect();
    variables.insert("BTCGRAPH_CLIENTS".to_owned(), format!("127.0.0.1:{}", free_port()));
    haproxy_as(&variables, replicas.len(), connections)
}

/// HAProxy with so many replicas, whose addresses and whose own these variables have.
#[track_caller]
pub(super) fn haproxy_as(variables: &BTreeMap<String, String>, replicas: usize, connections: usize) -> Option<Proxy> {
    let program = tool("haproxy")?;
    let directory = tempfile::tempdir().unwrap();
    let most = format!("maxconn {connections}");
    let changed = configuration("haproxy.cfg", &[("maxconn 20000", &most)]);
    let is_there = |line: &&str| {
        let number = line.trim_start().strip_prefix("server r").and_then(|rest| rest.split(' ').next());
        number.is_none_or(|number| number.parse::<usize>().unwrap() <= replicas)
    };
    let lines: Vec<_> = changed.lines().filter(is_there).collect();
    let file = directory.path().join("haproxy.cfg");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let log = File::create(directory.path().join("log")).unwrap();
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(&file).envs(variables).stderr(log).stdout(Stdio::null());
    let address = variables["BTCGRAPH_CLIENTS"].clone();
    let proxy = Proxy { process: command.spawn().unwrap(), address, _directory: directory };
    wait_for("HAProxy to have a replica", PATIENCE, || (status(&proxy.address, "/health/ready") == 200).then_some(()));
    Some(proxy)
}

/// nginx in front of this address; `None`, and a line in the skips, without nginx.
pub(super) fn nginx(target: &str) -> Option<Proxy> {
    let program = tool("nginx")?;
    let directory = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let file = nginx_file(directory.path(), target, &address);
    let process = nginx_command(&program, directory.path(), &file).spawn().unwrap();
    let proxy = Proxy { process, address, _directory: directory };
    wait_for("nginx to listen", PATIENCE, || (status(&proxy.address, "/health/live") == 200).then_some(()));
    Some(proxy)
}

/// The file of the repository in the frame that a distribution has for it, without a daemon and within `directory`.
fn nginx_file(directory: &Path, target: &str, address: &str) -> PathBuf {
    let cache = directory.join("cache");
    let (cache, target) = (cache.to_str().unwrap(), format!("server {target};"));
    let changes =
        [("/var/cache/nginx/btcgraph", cache), ("server 127.0.0.1:8000;", &*target), ("127.0.0.1:8443", address)];
    let site = configuration("nginx.conf", &changes);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", directory.display()))
        .collect::<Vec<_>>()
        .concat();
    let file = directory.join("nginx.conf");
    let frame = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log {0}/error warn;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{site}}}\n",
        directory.display()
    );
    std::fs::write(&file, frame).unwrap();
    file
}

fn nginx_command(program: &Path, directory: &Path, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-p").arg(directory).arg("-c").arg(file).arg("-e").arg(directory.join("error"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn the_configurations_have_no_faults() {
    if let Some(program) = tool("haproxy") {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/haproxy.cfg");
        let (is_valid, printed) = run(Command::new(program).arg("-c").arg("-f").arg(file));
        assert!(is_valid && !printed.contains("WARNING"), "{printed}");
    }
    if let Some(program) = tool("nginx") {
        let directory = tempfile::tempdir().unwrap();
        let file = nginx_file(directory.path(), "127.0.0.1:9", "127.0.0.1:1");
        let mut command = nginx_command(&program, directory.path(), &file);
        let (is_valid, printed) = run(command.arg("-t").stderr(Stdio::piped()));
        assert!(is_valid && !printed.contains("[warn]"), "{printed}");
    }
}
